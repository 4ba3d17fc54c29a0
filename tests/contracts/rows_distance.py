"""Rows of norms and distances, quantiles, and replacements of values."""

import math

import numpy as np
import scipy.spatial

from tests.contracts.table import Case, Row, real, reduction

try:
    import torch
    import torch.nn.functional as F  # noqa: N812
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = F = None

APART = {"kind": "apart"}
ORDERS = (1, 1.5, 2, 3, 0.5, -1, -2.5, math.inf, -math.inf)
ZEROS = {"low": 0.0, "high": 0.0}


def _powers(x, ord, axis, keepdims):
    """Return an ord-norm by its formula, since NumPy's function supports only matrices and vectors."""
    x, axis = _as(x, x), tuple(range(x.ndim)) if axis is None else axis
    with np.errstate(divide="ignore"):
        if math.isinf(ord):
            return (np.max if ord > 0 else np.min)(np.abs(x), axis, keepdims=keepdims)
        if ord == 0:
            return np.sum(x != 0, axis, keepdims=keepdims).astype(x.dtype)
        return np.sum(np.abs(x) ** ord, axis, keepdims=keepdims) ** (1 / ord)


def _as(value, x):
    """Convert a value to the dtype of a result: x's, or float64 for integers."""
    return np.asarray(value, x.dtype if x.dtype.kind == "f" else np.float64)


def _norm(x, ord=2, axis=None, keepdims=False):
    return _as(_powers(x, ord, axis, keepdims), x)


def _normalized(x, ord=2, axis=-1, eps=1e-12):
    return _as(x / np.maximum(_powers(x, ord, axis, True), eps), x)


def _cosine(x, y, axis=-1, eps=1e-8):
    x, y = np.broadcast_arrays(x, y)
    return (_normalized(x, axis=axis, eps=eps) * _normalized(y, axis=axis, eps=eps)).sum(axis)


def _distances(x, y, ord=2):
    metric = {1: "cityblock", math.inf: "chebyshev"}.get(ord, "minkowski")
    options = {"p": ord} if metric == "minkowski" else {}
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, y))
    out = _as(np.empty((*batch, x.shape[-2], y.shape[-2])), x)
    for i in np.ndindex(batch):
        out[i] = scipy.spatial.distance.cdist(x[i], y[i], metric, **options)
    return out


def _quantile(x, q, axis=None, keepdims=False, method="linear"):
    return _as(np.quantile(x.astype(np.float64), q, axis, keepdims=keepdims, method=method), x)


def _torch_quantile(x, q, axis=None, keepdims=False, method="linear"):
    """Return quantiles over any axes: PyTorch's function takes one axis, and a list of parts."""
    q = torch.as_tensor(q, dtype=x.dtype)
    axes = sorted(a % x.ndim for a in (range(x.ndim) if axis is None else np.atleast_1d(axis)))
    others = [a for a in range(x.ndim) if a not in axes]
    flat = x.permute((*others, *axes)).reshape((*(x.shape[a] for a in others), -1))
    found = torch.quantile(flat, q.reshape(-1), dim=-1, interpolation=method)
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)] if keepdims else found.shape[1:]
    return found.reshape((*q.shape, *kept))


def _lerp(x, y, weight):
    return x + _as(weight, x) * (y - x)


FILLED = [case for case in reduction(kind="distinct") if 0 not in case.operands[0].shape]

ROWS = [
    Row(
        "norm",
        _norm,
        [
            *reduction(**APART),
            *(Case((real(3, 4, **APART),), {"ord": ord, "axis": -1}) for ord in ORDERS),
            Case((real(2, 3, 4, **APART),), {"ord": 3, "axis": (0, -1), "keepdims": True}),
            Case((real(3, 4),), {"ord": 0, "axis": 0}),
        ],
        torch=lambda x, ord=2, axis=None, keepdims=False: torch.linalg.vector_norm(x, ord, axis, keepdims),
    ),
    Row(
        "norm",
        _norm,
        [Case((real(2, 3, **ZEROS),), {"ord": ord, "axis": -1}) for ord in (1, 2, 3)],
        order=0,
        torch=lambda x, ord=2, axis=None: torch.linalg.vector_norm(x, ord, axis),
    ),
    Row(
        "normalize",
        _normalized,
        [
            Case((real(3, 4, **APART),)),
            Case((real(3, 4, **APART),), {"axis": 0, "ord": 3}),
            Case((real(2, 3, 4, **APART),), {"axis": (0, 2)}),
            Case((real(5, **APART),), {"axis": None, "eps": 100.0}),
            Case((real(0, 3),)),
        ],
        torch=lambda x, ord=2, axis=-1, eps=1e-12: F.normalize(
            x, ord, tuple(range(x.ndim)) if axis is None else axis, eps
        ),
    ),
    Row(
        "cosine_similarity",
        _cosine,
        [
            Case((real(3, 4, **APART), real(3, 4, **APART))),
            Case((real(3, 4, **APART), real(4, **APART))),
            Case((real(2, 3, 4, **APART), real(3, 1, **APART)), {"axis": 1}),
            Case((real(4, **APART), real(4, **APART)), {"eps": 3.0}),
            Case((real(0, 4), real(4))),
        ],
        torch=lambda x, y, axis=-1, eps=1e-8: (
            F.cosine_similarity(x, y, axis)
            if eps == 1e-8
            else (F.normalize(x, 2, axis, eps) * F.normalize(y, 2, axis, eps)).sum(axis)
        ),  # its own gradient ignores eps
    ),
    Row(
        "cdist",
        _distances,
        [
            *(Case((real(3, 2), real(4, 2)), {"ord": ord}) for ord in (1, 1.5, 2, 3, math.inf)),
            Case((real(2, 3, 4), real(5, 4))),
            Case((real(0, 2), real(4, 2))),
        ],
        tolerance=1e-9,
        torch=lambda x, y, ord=2: torch.cdist(x, y, ord, "donot_use_mm_for_euclid_dist"),
    ),
    Row(
        "cdist",
        _distances,
        [Case((real(3, 2, **ZEROS), real(2, 2, **ZEROS)), {"ord": ord}) for ord in (2, 3)],
        order=0,
        torch=lambda x, y, ord=2: torch.cdist(x, y, ord),
    ),
    Row(
        "quantile",
        _quantile,
        [
            *(Case(case.operands, {"q": 0.3, **case.params}) for case in FILLED),
            *(
                Case(
                    (real(3, 6, kind="distinct"),), {"q": (0.0, 0.25, 0.7, 1.0), "axis": 1, "method": method}
                )
                for method in ("linear", "lower", "higher", "midpoint", "nearest")
            ),
            Case((real(3, 5, kind="distinct"),), {"q": ((0.5,), (0.1,)), "axis": 0, "keepdims": True}),
            Case((real(3, 5),), {"q": (), "axis": 0}),
        ],
        torch=_torch_quantile,
    ),
    Row(
        "median",
        lambda x, axis=None, keepdims=False: _as(np.median(x, axis, keepdims=keepdims), x),
        FILLED,
        torch=lambda x, axis=None, keepdims=False: _torch_quantile(x, 0.5, axis, keepdims),
    ),
    Row(
        "lerp",
        _lerp,
        [
            Case((real(3, 4), real(3, 4), 0.25)),
            Case((real(3, 4), real(4), 0.75)),
            Case((real(3, 1), real(4), real(3, 4, low=-1.0, high=2.0))),
            Case((real(0, 3), real(3), 1.5)),
        ],
        torch=lambda x, y, weight: torch.lerp(*torch.broadcast_tensors(x, y), weight),
    ),
    Row(
        "nan_to_num",
        lambda x, **values: np.nan_to_num(x, **values),
        [
            Case((real(3, 4),)),
            Case((real(0, 3),)),
        ],
        order=1,
        torch=lambda x, nan=0.0, posinf=None, neginf=None: torch.nan_to_num(x, nan, posinf, neginf),
    ),
]
