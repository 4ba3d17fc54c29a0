"""Rows of reductions, products, indexing and shapes, and of records without public names."""

import numpy as np
import scipy.sparse
import scipy.special

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, attach_aux, bind
from sknet.device import Device, to_device
from sknet.ops._codes import coded_matmul, paired_matmul
from tests.contracts.table import Case, Row, indices, real, reduction, unary

try:
    import torch
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = None

ALONG = [
    Case((real(3, 4),)),
    Case((real(3, 4),), {"axis": 0}),
    Case((real(2, 3, 4),), {"axis": -2}),
    Case((real(0, 3),)),
]
MATRIX = scipy.sparse.random_array((5, 4), density=0.5, rng=np.random.default_rng(0), format="csr")


# Rows in the second of three steps, of one number, in the last of two columns, and so on.
BLOCKS = ((3, 1), (1, 0), (2, 0), (3, 1))
CODES = np.array(
    [
        [1, 0.25, 0, -2.0, 1, 1.0, 0, -1.5],
        [0, -0.5, 0, 0.5, 0, 1.0, 2, 1.25],
        [2, 0.125, 0, 0.0, 0, 0.0, 1, 0.5],
        [1, -0.25, 0, 3.0, 1, 1.0, 1, -0.125],
    ]
)
ENCODED = np.array(
    [
        [0.5, 0.25, -0.5, -2.0, 0.0, 1.0, -1.5, -0.5, -0.5],
        [-0.5, -0.5, -0.5, 0.5, 1.0, 0.0, 0.5, 0.5, 1.25],
        [0.5, 0.5, 0.125, 0.0, 0.0, 0.0, 0.5, 0.5, -0.5],
        [0.5, -0.25, -0.5, 3.0, 0.0, 1.0, 0.5, -0.125, -0.5],
    ]
)


def _coded_matmul(y, transposed):
    codes = to_device(CODES.astype(y.dtype), as_tensor(y).device)
    return coded_matmul(codes, y, BLOCKS, transposed)


def _paired_matmul(y):
    return paired_matmul(to_device(CODES.astype(y.dtype), as_tensor(y).device), y, BLOCKS)


def _paired(y):
    """Return the sums of rows that CODES name, one block after the other: pairs of them in steps."""
    found, start = np.zeros((len(CODES), y.shape[1]), y.dtype), 0
    for k, (count, is_steps) in enumerate(BLOCKS):
        each = 2 if count > 1 and is_steps else 1
        for row, codes in zip(found, CODES[:, 2 * k : 2 * k + 2].astype(y.dtype), strict=True):
            *around, own = y[start + each * int(codes[0]) :][:each]
            row += sum(around) + codes[1] * own
        start += each * count
    return found


def _axes(x, axis):
    return tuple(range(x.ndim)) if axis is None else axis


def _logsumexp(x, axis=None, keepdims=False):
    return scipy.special.logsumexp(x, axis=axis, keepdims=keepdims)


def _torch_logsumexp(x, axis=None, keepdims=False):
    axes = tuple(range(x.ndim)) if axis is None else axis
    return torch.logsumexp(x, axes, keepdims)


def _scatter_add(g, index, shape):
    out = np.zeros(shape, g.dtype)
    np.add.at(out, index, g)
    return out


def _put_along(g, where, length, axis):
    out = np.zeros((*g.shape[:axis], length, *g.shape[axis:][1:]), g.dtype)
    for position in np.ndindex(g.shape):
        target = list(position)
        target[axis] = where[position]
        out[tuple(target)] += g[position]
    return out


def _dropout_reference(like, step, *, shape, p, key, site, dtype):
    raw = np.random.Philox(key=np.array(key, np.uint64), counter=np.array([0, 0, site, step], np.uint64))
    uniform = _of_16_bits(raw, shape)
    return np.where(uniform >= p, 1 / (1 - p), 0.0).astype(dtype)


def _draws_reference(like, step, *, shape, key, site, dtype):
    raw = np.random.Philox(key=np.array(key, np.uint64), counter=np.array([0, 0, site, step], np.uint64))
    return _of_16_bits(raw, shape).astype(dtype)


def _of_16_bits(raw, shape):
    return (np.random.Generator(raw).integers(0, 2**16, shape, np.uint16) / 2**16).astype(np.float32)


def _record(name: str):
    return lambda *operands, **params: bind(PRIMITIVES[name], tuple(map(_tensor, operands)), params)


def _tensor(x):
    return x if isinstance(x, int) else as_tensor(x)


def _matrix_for(y, transposed):
    matrix = (MATRIX.T if transposed else MATRIX).tocsr().astype(y.dtype)
    device = as_tensor(y).device
    return to_device(matrix, Device("cpu") if device.kind == "meta" else device)


ROWS = [
    # -- reductions
    Row(
        "sum",
        np.sum,
        reduction(),
        "sum",
        torch=lambda x, axis=None, keepdims=False: x.sum(_axes(x, axis), keepdims),
    ),
    Row(
        "mean",
        np.mean,
        [case for case in reduction() if 0 not in case.operands[0].shape],
        torch=lambda x, axis=None, keepdims=False: x.mean(_axes(x, axis), keepdims),
    ),
    Row(
        "var",
        lambda x, axis=None, correction=0, keepdims=False: np.var(
            x, axis, ddof=correction, keepdims=keepdims
        ),
        [*reduction(), Case((real(5, 3),), {"axis": 0, "correction": 1})],
        torch=lambda x, axis=None, correction=0, keepdims=False: x.var(
            _axes(x, axis), correction=correction, keepdim=keepdims
        ),
    ),
    Row(
        "max",
        np.max,
        reduction(kind="distinct"),
        "max",
        torch=lambda x, axis=None, keepdims=False: x.amax(_axes(x, axis), keepdims),
    ),
    Row(
        "min",
        np.min,
        reduction(kind="distinct"),
        "min",
        torch=lambda x, axis=None, keepdims=False: x.amin(_axes(x, axis), keepdims),
    ),
    Row(
        "sum_squares",
        lambda *xs: sum(np.sum(x * x) for x in xs),
        [*unary(), Case((real(3, 4), real(), real(0, 2), real(5)))],
        "sum_squares",
        torch=lambda *xs: sum((x * x).sum() for x in xs),
    ),
    Row(
        "logsumexp",
        _logsumexp,
        reduction(),
        "logsumexp",
        integers=False,
        torch=_torch_logsumexp,
    ),
    Row(
        "softmax",
        lambda x, axis=-1: scipy.special.softmax(x, axis),
        ALONG,
        "softmax",
        integers=False,
        torch=lambda x, axis=-1: x.softmax(axis),
    ),
    Row(
        "log_softmax",
        lambda x, axis=-1: scipy.special.log_softmax(x, axis),
        ALONG,
        "log_softmax",
        integers=False,
        torch=lambda x, axis=-1: x.log_softmax(axis),
    ),
    # -- products
    Row(
        "matmul",
        np.matmul,
        [
            Case((real(3, 4), real(4, 2))),
            Case((real(2, 3, 4), real(4, 2))),
            Case((real(3, 4), real(2, 4, 2))),
            Case((real(2, 1, 3, 4), real(5, 4, 2))),
            Case((real(4), real(4))),
            Case((real(4), real(4, 2))),
            Case((real(3, 4), real(4))),
            Case((real(2, 3, 4), real(4))),
            Case((real(4), real(2, 4, 3))),
            Case((real(0, 4), real(4, 2))),
            Case((real(3, 0), real(0, 2))),
            Case((real(1, 3, 4), real(2, 4, 1))),
            Case((real(2, 3, 4), real(2, 4, 2))),
            Case((real(1, 2, 3, 4), real(2, 1, 4, 2))),
            Case((real(4), real(2, 1, 4, 3))),
            Case((real(2, 2, 3, 4), real(4))),
        ],
        "matmul",
        torch=lambda x, y: x @ y,
    ),
    Row(
        "sparse_matmul",
        lambda y, transposed: (MATRIX.T if transposed else MATRIX).toarray().astype(y.dtype) @ y,
        [
            Case((real(4, 3),), {"transposed": False}),
            Case((real(5, 3),), {"transposed": True}),
            Case((real(4),), {"transposed": False}),
        ],
        "sparse_matmul",
        call=lambda y, transposed: ops.matmul(_matrix_for(y, transposed), y),
        torch=lambda y, transposed: torch.tensor((MATRIX.T if transposed else MATRIX).toarray()) @ y,
    ),
    Row(
        "coded_matmul",
        lambda y, transposed: (ENCODED.T if transposed else ENCODED).astype(y.dtype) @ y,
        [Case((real(9, 3),), {"transposed": False}), Case((real(4, 3),), {"transposed": True})],
        "coded_matmul",
        integers=False,
        call=_coded_matmul,
        torch=lambda y, transposed: torch.tensor(ENCODED.T if transposed else ENCODED) @ y,
    ),
    Row(
        "paired_matmul",
        _paired,
        [Case((real(15, 3),))],
        "paired_matmul",
        order=0,
        integers=False,
        call=_paired_matmul,
    ),
    # -- indexing
    Row(
        "getitem",
        lambda x, index: x[index],
        [
            Case((real(3, 4),), {"index": index})
            for index in (
                0,
                -1,
                slice(None, None, 2),
                (Ellipsis, None, 1),
                (slice(1, None), slice(None, 2)),
                [2, 0, 0],
                (np.array([0, 2, 2]), np.array([1, 3, 3])),
                (slice(None), np.array([3, 3, 0])),
                np.array([True, False, True]),
                Ellipsis,
                (),
                [],
                (1, 2),
                (np.array([2, 0]), slice(1, 3)),
                (slice(None), np.array([[3, 0], [0, 0]])),
                (None, np.array([1, 1]), Ellipsis),
                (np.array([[0], [2]]), np.array([1, 1, 3])),
                (slice(None), np.array([True, False, False, True])),
                (np.array([True, False, True]), np.array([2, 2])),
            )
        ],
        "getitem",
        call=lambda x, index: as_tensor(x)[index],
        torch=lambda x, index: x[index],
    ),
    Row(
        "scatter_add",
        _scatter_add,
        [
            Case((real(2, 4),), {"index": slice(0, 2), "shape": (3, 4)}),
            Case((real(3),), {"index": np.array([1, 1, 0]), "shape": (4,)}),
            Case((real(3, 4),), {"index": np.array([2, 2, 0]), "shape": (3, 4)}),
        ],
        "scatter_add",
        call=_record("scatter_add"),
        torch="the adjoint of indexing, compared there",
    ),
    Row(
        "take_along_axis",
        lambda x, i, axis=-1: np.take_along_axis(x, i, axis),
        [
            Case((real(3, 4), indices(3, 1, below=4))),
            Case((real(3, 4), indices(3, 6, below=4))),
            Case((real(3, 4), indices(2, 4, below=3)), {"axis": 0}),
            Case((real(2, 3, 4), indices(2, 5, 4, below=3)), {"axis": 1}),
            Case((real(0, 3), indices(0, 1, below=3))),
            Case((real(5), indices(3, below=5))),
        ],
        "take_along_axis",
        torch=lambda x, i, axis=-1: torch.take_along_dim(x, i, axis),
    ),
    Row(
        "put_along_axis",
        _put_along,
        [
            Case((real(3, 1), indices(3, 1, below=4)), {"length": 4, "axis": -1}),
            Case((real(3, 5), indices(3, 5, below=4)), {"length": 4, "axis": -1}),
            Case((real(6, 2), indices(6, 2, below=3)), {"length": 3, "axis": -2}),
        ],
        "put_along_axis",
        call=_record("put_along_axis"),
        torch="the adjoint of take_along_axis, compared there",
    ),
    # -- shapes
    Row(
        "reshape",
        np.reshape,
        [
            Case((real(3, 4),), {"shape": (2, 6)}),
            Case((real(3, 4),), {"shape": (-1,)}),
            Case((real(),), {"shape": (1, 1)}),
            Case((real(0, 3),), {"shape": (3, 0)}),
            Case((real(2, 3, 4),), {"shape": [4, -1]}),
            Case((real(1),), {"shape": ()}),
        ],
        "reshape",
        torch=lambda x, shape: x.reshape(shape),
    ),
    Row(
        "permute_dims",
        np.transpose,
        [
            Case((real(3, 4),), {"axes": (1, 0)}),
            Case((real(2, 3, 4),), {"axes": (-1, 0, 1)}),
            Case((real(),), {"axes": ()}),
            Case((real(0, 3),), {"axes": [-1, -2]}),
        ],
        "permute_dims",
        torch=lambda x, axes: x.permute(tuple(axes)),
    ),
    Row(
        "matrix_transpose",
        np.matrix_transpose,
        [Case((real(3, 4),)), Case((real(2, 3, 4),)), Case((real(0, 4),))],
        torch=lambda x: x.mT,
    ),
    Row(
        "broadcast_to",
        np.broadcast_to,
        [
            Case((real(3, 1),), {"shape": (2, 3, 4)}),
            Case((real(),), {"shape": (3,)}),
            Case((real(3, 4),), {"shape": (3, 4)}),
            Case((real(1, 3),), {"shape": (0, 3)}),
        ],
        "broadcast_to",
        torch=lambda x, shape: x.broadcast_to(shape),
    ),
    Row(
        "expand_dims",
        np.expand_dims,
        [Case((real(3, 4),), {"axis": axis}) for axis in (0, 1, -1, -3)],
        torch=lambda x, axis: x.unsqueeze(axis),
    ),
    Row(
        "squeeze",
        np.squeeze,
        [Case((real(3, 1, 4, 1),), {"axis": axis}) for axis in (1, -1, (1, 3), ())],
        torch=lambda x, axis: x.squeeze(axis),
    ),
    Row(
        "concat",
        lambda *xs, axis=0: np.concatenate(xs, axis),
        [
            Case((real(3, 4), real(2, 4))),
            Case((real(3, 4), real(3, 1), real(3, 0)), {"axis": -1}),
            Case((real(5),)),
            Case((real(2, 1, 3), real(2, 2, 3)), {"axis": 1}),
        ],
        "concat",
        call=lambda *xs, axis=0: ops.concat(xs, axis),
        torch=lambda *xs, axis=0: torch.cat(xs, axis),
    ),
    Row(
        "stack",
        lambda *xs, axis=0: np.stack(xs, axis),
        [Case((real(3, 4), real(3, 4)), {"axis": axis}) for axis in (0, 1, -1)] + [Case((real(), real()))],
        call=lambda *xs, axis=0: ops.stack(xs, axis),
        torch=lambda *xs, axis=0: torch.stack(xs, axis),
    ),
    Row("zeros_like", np.zeros_like, unary(), "zeros_like", order=0, torch=lambda x: torch.zeros_like(x)),
    Row("ones_like", np.ones_like, unary(), "ones_like", order=0, torch=lambda x: torch.ones_like(x)),
    # -- the rest
    Row(
        "uniform_draws",
        _draws_reference,
        [
            Case(
                (real(), step),
                {"shape": shape, "key": (3, 2**63), "site": 1, "dtype": np.dtype(np.float64)},
            )
            for step, shape in ((0, (3, 4)), (7, ()), (2, (0, 3)))
        ],
        "uniform_draws",
        order=0,
        call=_record("uniform_draws"),
        torch="a stream of its own",
    ),
    Row(
        "dropout_mask",
        _dropout_reference,
        [
            Case(
                (real(), step),
                {"shape": shape, "p": 0.4, "key": (3, 2**63), "site": 1, "dtype": np.dtype(np.float64)},
            )
            for step, shape in ((0, (3, 4)), (7, ()), (2, (0, 3)))
        ],
        "dropout_mask",
        order=0,
        call=_record("dropout_mask"),
        torch="a stream of its own",
    ),
    Row(
        "dropout",
        lambda x, step, p=0.5: (
            x * _dropout_reference(x, int(step), shape=x.shape, p=p, key=(3, 2**63), site=1, dtype=x.dtype)
        ),
        [Case((real(*shape), indices(below=3)), {"p": 0.4}) for shape in ((3, 4), (), (0, 3))],
        integers=False,
        call=lambda x, step, p=0.5: ops.dropout(x, p, key=(3, 2**63), step=step, site=1),
        torch="a stream of its own",
    ),
    Row(
        "attach_aux",
        lambda x: x,
        unary(),
        "attach_aux",
        call=lambda x: attach_aux(as_tensor(x), {}),
        torch=lambda x: x * 1,
    ),
]
