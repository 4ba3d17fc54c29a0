"""Rows of scans, products, joining and padding, sorting, and of tables."""

import itertools

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind
from tests.contracts.table import Case, Row, indices, real, reduction

try:
    import torch
    import torch.nn.functional as F  # noqa: N812
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = F = None

ZEROS = [np.array([[0.5, 0.0, 2.0], [0.0, 0.0, 3.0], [1.5, -2.0, 0.25], [0.0, 1.0, 2.0]])]
IMAGES = real(2, 3, 4)


def _axes(x, axis):
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return sorted((a % x.ndim for a in axes), reverse=True)


def _over_axes(function, start=lambda x: x * 1):
    """Turn PyTorch's reduction over one axis into one over several axes."""

    def reduce(x, axis=None, keepdims=False):
        x = start(x)
        for a in _axes(x, axis):
            x = function(x, a, keepdims)
        return x

    return reduce


def _put(g, where, length, axis):
    at = g.ndim + axis - where.ndim + 1
    out = np.zeros((*g.shape[:at], length, *g.shape[at + where.ndim :]), g.dtype)
    moved = np.moveaxis(g, range(at, at + where.ndim), range(where.ndim))
    target = np.moveaxis(out, at, 0)
    for position in np.ndindex(where.shape):
        target[where[position]] += moved[position]
    return out


def _scatter_add(x, where, values, axis=0):
    return x + _put(values, where, x.shape[axis], axis % x.ndim - x.ndim)


def _pad(x, widths, mode="constant", value=0.0):
    pairs = (
        [(widths, widths)] * x.ndim
        if isinstance(widths, int)
        else [(0, 0)] * (x.ndim - len(widths)) + [*widths]
    )
    constant = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, pairs, {"replicate": "edge", "circular": "wrap"}.get(mode, mode), **constant)


def _torch_pad(x, widths, mode="constant", value=0.0):
    pairs = [(widths, widths)] * x.ndim if isinstance(widths, int) else widths
    flat = [n for pair in pairs[::-1] for n in pair]
    if mode == "constant":
        return F.pad(x, flat, value=value)
    return F.pad(x[None, None], flat, mode)[0, 0]


def _sorted(x, axis=-1, descending=False):
    out = np.sort(x, axis)
    return np.flip(out, axis) if descending else out


def _argsorted(x, axis=-1, descending=False):
    return np.argsort(-x if descending else x, axis, kind="stable")


def _joined(parts):
    """Concatenate results, in reverse, so that their order matters."""
    return ops.concat(parts[::-1], None)


def _flat(parts):
    return np.concatenate([np.ravel(part) for part in parts[::-1]])


def _torch_embedding(i, table, padding_idx=None):
    """PyTorch returns the padding row without gradient; ours is zeros."""
    rows = F.embedding(i, table, padding_idx)
    return rows if padding_idx is None else rows * (i != padding_idx)[..., None]


def _torch_flat(parts):
    return torch.cat([part.reshape(-1) for part in parts[::-1]])


def _positions(parts):
    return parts if isinstance(parts, int) else list(parts)


def _record(name):
    return lambda *operands, **params: bind(PRIMITIVES[name], tuple(map(as_tensor, operands)), params)


REDUCTIONS = [
    Row(
        "prod",
        np.prod,
        [
            *reduction(),
            *(Case((real(3, 4),), {"axis": a}) for a in ((), (0, 1))),
            Case((real(2, 7),), {"axis": 1}),
        ],
        "prod",
        torch=_over_axes(lambda x, a, keepdims: x.prod(a, keepdims)),
    ),
    Row(
        "std",
        lambda x, axis=None, correction=0, keepdims=False: np.std(
            x, axis, ddof=correction, keepdims=keepdims
        ),
        [
            *(case for case in reduction() if case.operands[0].shape not in ((), (0, 3))),
            Case((real(5, 3),), {"axis": 0, "correction": 1}),
        ],
        torch=lambda x, axis=None, correction=0, keepdims=False: x.std(
            axis, correction=correction, keepdim=keepdims
        ),
    ),
    *(
        Row(
            name,
            getattr(np, name),
            [*reduction(), Case((indices(3, 4, below=2),), {"axis": 1})],
            name,
            order=0,
            torch=_over_axes(
                lambda x, a, keepdims, name=name: getattr(x, name)(a, keepdims), lambda x: x != 0
            ),
        )
        for name in ("any", "all")
    ),
    Row(
        "count_nonzero",
        lambda x, axis=None, keepdims=False: np.asarray(np.count_nonzero(x, axis, keepdims=keepdims)),
        [*reduction(), Case((indices(3, 4, below=2),), {"axis": 1})],
        order=0,
        torch=lambda x, axis=None, keepdims=False: (x != 0).sum(axis, keepdims),
    ),
    *(
        Row(
            name,
            lambda x, axis=None, keepdims=False, name=name: getattr(np, name)(x, axis, keepdims=keepdims),
            [
                Case((real(4, 5),)),
                Case((real(4, 5),), {"axis": -1}),
                Case((real(4, 5),), {"keepdims": True}),
                Case((real(2, 3, 4),), {"axis": 1, "keepdims": True}),
                Case((real(0, 3),), {"axis": 1}),
            ],
            name,
            order=0,
            torch=lambda x, axis=None, keepdims=False, name=name: getattr(x, name)(axis, keepdims),
        )
        for name in ("argmax", "argmin")
    ),
    *(
        Row(
            name,
            lambda x, axis=0, include_initial=False, name=name: _scan(name, x, axis, include_initial),
            [
                Case((real(5),)),
                Case((real(1),)),
                Case((real(3, 4),), {"axis": 0}),
                Case((real(2, 3, 7),), {"axis": -1}),
                Case((real(2, 8),), {"axis": 1, "include_initial": True}),
                Case((real(0, 3),), {"axis": 0}),
            ],
            name,
            torch=lambda x, axis=0, include_initial=False, name=name: _torch_scan(
                name, x, axis, include_initial
            ),
        )
        for name in ("cumulative_sum", "cumulative_prod")
    ),
    Row(
        "diff",
        lambda x, axis=-1, n=1, prepend=None, append=None: np.diff(
            x, n, axis, *(np._NoValue if end is None else end for end in (prepend, append))
        ),
        [
            Case((real(3, 4),)),
            Case((real(3, 4),), {"axis": 0, "n": 2}),
            Case((real(4),), {"n": 0}),
            Case((real(0, 3),), {"axis": 1}),
        ],
        torch=lambda x, axis=-1, n=1: torch.diff(x, n, axis) if n else x * 1,
    ),
]


def _scan(name, x, axis, include_initial):
    out = (np.cumsum if name == "cumulative_sum" else np.cumprod)(x, axis)
    if not include_initial:
        return out
    ends = [(int(i == axis % x.ndim), 0) for i in range(x.ndim)]
    return np.pad(out, ends, constant_values=int(name == "cumulative_prod"))


def _torch_scan(name, x, axis, include_initial):
    out = (torch.cumsum if name == "cumulative_sum" else torch.cumprod)(x, axis)
    if not include_initial:
        return out
    first = out.new_full(
        [1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)], name == "cumulative_prod"
    )
    return torch.cat([first, out], axis)


PRODUCTS = [
    Row(
        "einsum",
        lambda *xs, subscripts: np.einsum(subscripts, *xs),
        [
            Case(tuple(real(*shape) for shape in shapes), {"subscripts": subscripts})
            for subscripts, *shapes in (
                ("ij,jk->ik", (3, 4), (4, 2)),
                ("ij,jk", (3, 4), (4, 2)),
                ("ij,kj->ki", (3, 4), (2, 4)),
                ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
                ("bhqd,bkhd->bhqk", (2, 2, 3, 4), (2, 5, 2, 4)),
                ("i,j->ji", (3,), (2,)),
                ("i,i->", (3,), (3,)),
                ("i,i->i", (3,), (3,)),
                ("ij,j->ij", (3, 4), (4,)),
                ("ii", (3, 3)),
                ("ii->i", (3, 3)),
                ("iji->j", (2, 3, 2)),
                ("ij->ji", (2, 3)),
                ("ba", (2, 3)),
                ("ij->", (2, 3)),
                ("ij->j", (2, 3)),
                ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
                ("i...->...i", (2, 3, 4)),
                ("...,...", (2, 3), (3,)),
                ("...i->i...", (3,)),
                ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
                ("i,ij,j->", (3,), (3, 4), (4,)),
                ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 3), (3, 2)),
                ("abc,ade->bd", (2, 3, 4), (2, 3, 2)),
                ("ij,jk->ik", (3, 1), (4, 2)),
                ("ij,jk->ik", (3, 0), (0, 2)),
                ("ij,jk->ik", (0, 3), (3, 2)),
                ("ijk,ijl->kl", (2, 3, 4), (2, 3, 5)),
                (" i j , j -> i ", (3, 4), (4,)),
                ("->", ()),
            )
        ],
        call=lambda *xs, subscripts: ops.einsum(subscripts, *xs),
        torch=lambda *xs, subscripts: torch.einsum(subscripts, *xs),
    ),
    Row(
        "tensordot",
        np.tensordot,
        [
            Case((real(2, 3, 4), real(3, 4, 2)), {}),
            Case((real(2, 3), real(3, 4)), {"axes": 1}),
            Case((real(2), real(3)), {"axes": 0}),
            Case((real(2, 3, 4), real(4, 5, 2)), {"axes": ((0, 2), (2, 0))}),
            Case((real(2, 3), real(2, 3)), {"axes": ((0, 1), (0, 1))}),
            Case((real(0, 3), real(3, 4)), {"axes": 1}),
        ],
        torch=lambda x, y, axes=2: torch.tensordot(x, y, axes),
    ),
    Row(
        "vecdot",
        lambda x, y, axis=-1: (x * y).sum(axis),
        [
            Case((real(4), real(4))),
            Case((real(3, 4), real(4))),
            Case((real(3, 4), real(3, 1)), {"axis": -2}),
            Case((real(0, 4), real(4))),
        ],
        torch=lambda x, y, axis=-1: (x * y).sum(axis),
    ),
    Row(
        "outer",
        np.outer,
        [Case((real(3), real(4))), Case((real(0), real(4)))],
        torch=lambda x, y: torch.outer(x, y),
    ),
    *(
        Row(
            name,
            lambda x, offset=0, name=name: getattr(np, name)(x, offset, -2, -1),
            [
                Case((real(3, 3),)),
                Case((real(2, 3, 4),)),
                Case((real(3, 4),), {"offset": 2}),
                Case((real(4, 3),), {"offset": -1}),
                Case((real(3, 3),), {"offset": 5}),
                Case((real(0, 3),)),
            ],
            torch=lambda x, offset=0, name=name: (
                x.diagonal(offset, -2, -1) if name == "diagonal" else x.diagonal(offset, -2, -1).sum(-1)
            ),
        )
        for name in ("diagonal", "trace")
    ),
]

JOINS = [
    Row(
        "unstack",
        lambda x, axis=0: _flat(np.split(x, x.shape[axis], axis)),
        [Case((real(3, 4),), {"axis": axis}) for axis in (0, 1, -1)] + [Case((real(2),))],
        call=lambda x, axis=0: _joined(ops.unstack(x, axis)),
        torch=lambda x, axis=0: _torch_flat(x.unbind(axis)),
    ),
    Row(
        "split",
        lambda x, parts, axis=0: _flat(np.split(x, _positions(parts), axis)),
        [
            Case((real(6, 4),), {"parts": 3}),
            Case((real(3, 4),), {"parts": (1, 3), "axis": 1}),
            Case((real(5),), {"parts": [2]}),
            Case((real(0, 3),), {"parts": 2}),
            Case((real(4),), {"parts": (1, 1)}),
        ],
        call=lambda x, parts, axis=0: _joined(ops.split(x, parts, axis)),
        torch=lambda x, parts, axis=0: _torch_flat(torch.tensor_split(x, parts, axis)),
    ),
    Row(
        "flip",
        np.flip,
        [Case((real(3, 4),), params) for params in ({}, {"axis": 0}, {"axis": (0, -1)}, {"axis": -1})]
        + [Case((real(),)), Case((real(0, 2),))],
        torch=lambda x, axis=None: x.flip(tuple(_axes(x, axis))),
    ),
    Row(
        "roll",
        np.roll,
        [
            Case((real(3, 4),), {"shift": 1}),
            Case((real(3, 4),), {"shift": -2, "axis": 1}),
            Case((real(3, 4),), {"shift": (1, 5), "axis": (0, 1)}),
            Case((real(3, 4),), {"shift": 4, "axis": -1}),
            Case((real(0, 4),), {"shift": 1, "axis": 0}),
        ],
        torch=lambda x, shift, axis=None: torch.roll(x, shift, axis),
    ),
    Row(
        "tile",
        lambda x, repetitions: np.tile(x, repetitions),
        [Case((real(2, 3),), {"repetitions": n}) for n in (2, (2,), (3, 1), (2, 1, 2), (1, 0), ())],
        torch=lambda x, repetitions: x.tile(repetitions),
    ),
    Row(
        "repeat",
        np.repeat,
        [
            Case((real(2, 3),), {"repeats": 2}),
            Case((real(2, 3),), {"repeats": 2, "axis": 0}),
            Case((real(2, 3),), {"repeats": (1, 0, 3), "axis": -1}),
            Case((real(2, 3),), {"repeats": 0, "axis": 1}),
            Case((real(3),), {"repeats": [2, 1, 1]}),
        ],
        torch=lambda x, repeats, axis=None: x.repeat_interleave(
            torch.tensor(repeats) if not isinstance(repeats, int) else repeats, axis
        ),
    ),
    Row(
        "pad",
        _pad,
        [
            Case((real(3, 4),), {"widths": 1}),
            Case((IMAGES,), {"widths": ((1, 0), (2, 3))}),
            Case((IMAGES,), {"widths": ((0, 2),), "value": 1.0}),
            Case((real(0, 2),), {"widths": 1}),
        ],
        "pad",
        torch=_torch_pad,
    ),
    Row(
        "pad",
        _pad,
        [
            Case((real(3),), {"widths": ()}),
            *(
                Case((real(3, 4),), {"widths": ((2, 1), (0, 3)), "mode": mode})
                for mode in ("reflect", "replicate", "circular")
            ),
        ],
        torch=_torch_pad,
    ),
    Row(
        "moveaxis",
        np.moveaxis,
        [
            Case((real(2, 3, 4),), {"source": 0, "destination": -1}),
            Case((real(2, 3, 4),), {"source": (0, 1), "destination": (-1, 0)}),
            Case((real(2, 3, 4),), {"source": [2], "destination": [0]}),
        ],
        torch=lambda x, source, destination: x.movedim(source, destination),
    ),
    Row(
        "flatten",
        lambda x, start=0: x.reshape(*x.shape[: start % x.ndim], -1) if x.ndim and x.size else x.reshape(-1),
        [Case((real(2, 3, 4),)), Case((real(2, 3, 4),), {"start": 1}), Case((real(),)), Case((real(0, 3),))],
        torch=lambda x, start=0: x.flatten(start),
    ),
    Row(
        "broadcast_arrays",
        lambda *xs: _flat(np.broadcast_arrays(*xs)),
        [Case((real(3, 1), real(4))), Case((real(), real(2))), Case((real(2),))],
        call=lambda *xs: _joined(ops.broadcast_arrays(*xs)),
        torch=lambda *xs: _torch_flat(torch.broadcast_tensors(*xs)),
    ),
    Row(
        "meshgrid",
        lambda *xs, indexing="xy": _flat(np.meshgrid(*xs, indexing=indexing)),
        [
            Case((real(2), real(3))),
            Case((real(2), real(3)), {"indexing": "ij"}),
            Case((real(2), real(3), real(4))),
            Case((real(3),)),
        ],
        call=lambda *xs, indexing="xy": _joined(ops.meshgrid(*xs, indexing=indexing)),
        torch=lambda *xs, indexing="xy": _torch_flat(torch.meshgrid(*xs, indexing=indexing)),
    ),
    *(
        Row(
            name,
            getattr(np, name),
            [
                Case((real(3, 4),)),
                Case((real(4, 3),), {"k": 1}),
                Case((real(2, 3, 3),), {"k": -1}),
                Case((real(0, 3),)),
            ],
            torch=lambda x, k=0, name=name: getattr(x, name)(k),
        )
        for name in ("tril", "triu")
    ),
    Row(
        "full_like",
        lambda x, value: np.full_like(x, value),
        [Case((real(3, 4),), {"value": 2}), Case((real(),), {"value": 0.5})],
        order=0,
        torch=lambda x, value: torch.full_like(x, value),
    ),
]

TABLES = [
    Row(
        "take",
        lambda x, i, axis=0: np.take(x, i, axis),
        [
            Case((real(5, 3), indices(4, below=5))),
            Case((real(5, 3), indices(2, 2, below=5))),
            Case((real(2, 3, 4), indices(5, below=3, low=-3)), {"axis": 1}),
            Case((real(3, 4), indices(6, below=4)), {"axis": -1}),
            Case((real(3), indices(below=3))),
            Case((real(0, 3), indices(2, below=3)), {"axis": 1}),
            Case((real(3, 2), indices(0, below=3))),
        ],
        "take",
        torch=lambda x, i, axis=0: x[(slice(None),) * (axis % x.ndim) + (i,)],
    ),
    Row(
        "put",
        _put,
        [
            Case((real(4, 3), indices(4, below=5)), {"length": 5, "axis": -2}),
            Case((real(2, 2, 3), indices(2, 2, below=5, low=-5)), {"length": 5, "axis": -2}),
            Case((real(3, 6), indices(6, below=4)), {"length": 4, "axis": -1}),
            Case((real(2), indices(below=3)), {"length": 3, "axis": -2}),
            Case((real(0, 3), indices(0, below=5)), {"length": 5, "axis": -2}),
        ],
        "put",
        call=_record("put"),
        torch="the adjoint of take, compared there",
    ),
    Row(
        "scatter_add",
        _scatter_add,
        [
            Case((real(5, 3), indices(4, below=5), real(4, 3))),
            Case((real(5, 3), indices(2, 2, below=5), real(2, 2, 3))),
            Case((real(2, 4), indices(3, below=4), real(2, 3)), {"axis": 1}),
            Case((real(5), indices(3, below=5, low=-5), real(3)), {"axis": -1}),
        ],
        torch=lambda x, i, values, axis=0: x.index_add(
            axis,
            i.reshape(-1) % x.shape[axis],
            values.flatten(axis, axis + i.ndim - 1) if i.ndim > 1 else values,
        ),
    ),
    Row(
        "embedding",
        lambda i, table, padding_idx=None: np.where((i == padding_idx)[..., None], 0.0, table[i]),
        [
            Case((indices(4, below=5), real(5, 3))),
            Case((indices(2, 3, below=5), real(5, 2))),
            Case((indices(0, below=5), real(5, 2))),
            Case((indices(2, 3, below=5), real(5, 2)), {"padding_idx": 1}),
        ],
        torch=_torch_embedding,
    ),
    Row(
        "one_hot",
        lambda i, n_classes, dtype="float32": np.eye(n_classes, dtype=dtype)[i],
        [
            Case((indices(4, below=3),), {"n_classes": 3, "dtype": "float64"}),
            Case((indices(2, 3, below=3),), {"n_classes": 3}),
            Case((indices(below=3),), {"n_classes": 4, "dtype": bool}),
            Case((indices(0, below=3),), {"n_classes": 3}),
        ],
        order=0,
        torch=lambda i, n_classes, dtype=None: F.one_hot(i, n_classes),
    ),
]

SORTS = [
    Row(
        "sort",
        _sorted,
        [
            Case((real(5, kind="distinct"),)),
            Case((real(3, 4, kind="distinct"),), {"axis": 0}),
            Case((real(2, 3, 4, kind="distinct"),), {"axis": 1, "descending": True}),
            Case((real(0, 3),)),
        ],
        "sort",
        torch=lambda x, axis=-1, descending=False: x.sort(axis, descending).values,
    ),
    Row(
        "argsort",
        _argsorted,
        [
            Case((real(5, kind="distinct"),)),
            Case((real(3, 4, kind="distinct"),), {"axis": 0}),
            Case((real(2, 3, 4, kind="distinct"),), {"axis": 1, "descending": True}),
            Case((indices(30, below=3),)),
            Case((indices(30, below=3),), {"descending": True}),
            Case((real(0, 3),)),
        ],
        "argsort",
        order=0,
        torch=lambda x, axis=-1, descending=False: x.argsort(dim=axis, descending=descending, stable=True),
    ),
    Row(
        "topk",
        lambda x, k, axis=-1, largest=True: np.take(_sorted(x, axis, largest), range(k), axis),
        [
            Case((real(6, kind="distinct"),), {"k": 2}),
            Case((real(3, 4, kind="distinct"),), {"k": 3, "axis": 0}),
            Case((real(3, 4, kind="distinct"),), {"k": 2, "largest": False}),
            Case((real(3, 4, kind="distinct"),), {"k": 0}),
        ],
        call=lambda x, k, axis=-1, largest=True: ops.topk(x, k, axis, largest)[0],
        torch=lambda x, k, axis=-1, largest=True: x.topk(k, axis, largest).values,
    ),
    Row(
        "topk",
        lambda x, k, axis=-1, largest=True: np.take(_argsorted(x, axis, largest), range(k), axis),
        [
            Case((real(6),), {"k": 2}),
            Case((indices(100, below=9),), {"k": 30}),
            Case((real(2, 80, 3),), {"k": 5, "axis": 1, "largest": False}),
            Case((indices(3, 70, below=5),), {"k": 70, "largest": False}),
            Case((real(0, 90),), {"k": 4}),
        ],
        "topk",
        order=0,
        call=lambda x, k, axis=-1, largest=True: ops.topk(x, k, axis, largest)[1],
        torch=lambda x, k, axis=-1, largest=True: x.argsort(dim=axis, descending=largest, stable=True).narrow(
            axis, 0, k
        ),
    ),
    Row(
        "searchsorted",
        np.searchsorted,
        [Case((np.arange(5.0), real(3, 4, low=-1.0, high=6.0)), {"side": side}) for side in ("left", "right")]
        + [Case((np.arange(0.0), real(3))), Case((np.arange(3.0), real()))],
        "searchsorted",
        order=0,
        torch=lambda x, values, side="left": torch.searchsorted(x, values, side=side),
    ),
]

ROWS = [*itertools.chain(REDUCTIONS, PRODUCTS, JOINS, TABLES, SORTS)]
