"""Rows of linear algebra.

Functions that read one triangle, or whose results have arbitrary signs, are composed with functions that make
them unique: operands are made symmetric, and signs fixed by a certain element.
"""

import numpy as np

from sknet import ops
from tests.contracts.table import Case, Row, real

try:
    import torch
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = None

linalg = ops.linalg
SQUARE = [Case((real(3, 3),)), Case((real(2, 1, 2, 2),)), Case((real(1, 1),)), Case((real(0, 2, 2),))]
ANY = [Case((real(*shape),)) for shape in ((3, 3), (2, 4, 3), (3, 5), (4, 1), (0, 2, 3))]


def _regular(x):
    """Make a matrix well-conditioned, with distinct eigenvalues and singular values."""
    m, n = x.shape[-2:]
    diagonal = np.eye(m, n) * np.arange(1.0, m + 1.0)[:, None] * 6.0
    if isinstance(x, np.ndarray):
        return x + diagonal.astype(x.dtype if x.dtype.kind == "f" else np.float64)
    if torch is not None and isinstance(x, torch.Tensor):
        return x + torch.tensor(diagonal)
    x = x if x.dtype.kind == "f" else x.astype("float64")
    rows = ops.arange(1.0, m + 1.0, dtype=x.dtype, device=x.device)
    return x + ops.eye(m, n, dtype=x.dtype, device=x.device) * ops.expand_dims(rows, -1) * 6.0


def _t(x):
    if isinstance(x, np.ndarray):
        return np.swapaxes(x, -1, -2)
    return x.mT if torch is not None and isinstance(x, torch.Tensor) else ops.matrix_transpose(x)


def _symmetric(x):
    x = _regular(x)
    return (x + _t(x)) * 0.5


def _positive(x):
    x = _regular(x)
    return x @ _t(x)


def _joined(parts):
    """Concatenate the parts of a result, each in a form that does not depend on signs."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate([part.reshape(-1) for part in parts])
    if torch is not None and isinstance(first, torch.Tensor):
        return torch.cat([part.reshape(-1) for part in parts])
    return ops.concat([ops.reshape(part, (-1,)) for part in parts])


def _sign(x):
    if isinstance(x, np.ndarray):
        return np.sign(x)
    return torch.sign(x) if torch is not None and isinstance(x, torch.Tensor) else ops.sign(x)


def _eigh(function):
    def call(x):
        values, vectors = function(_symmetric(x))
        return _joined([values, vectors * _sign(vectors[..., :1, :])])

    return call


def _svd(function):
    def call(x):
        left, values, right = function(_regular(x))
        sign = _sign(left[..., :1, :])
        return _joined([left * sign, values, right * _t(sign)])

    return call


def _qr(function):
    def call(x):
        q, r = function(_regular(x))
        sign = _sign(q[..., :1, :])
        return _joined([q * sign, r * _t(sign)])

    return call


def _row(name, prepare, reference, theirs, cases, primitive=True, **options):
    """Return the row of a function of one matrix, which is preprocessed by `prepare` in every library."""
    function = getattr(linalg, name)
    return Row(
        name,
        lambda x, **params: reference(prepare(x), **params),
        cases,
        name if primitive else None,
        call=lambda x, **params: function(prepare(_tensor(x)), **params),
        torch=lambda x, **params: theirs(prepare(x), **params),
        tolerance=1e-10,
        **options,
    )


def _tensor(x):
    return x if not isinstance(x, np.ndarray) else ops.positive(x)


def _whole(name, wrap, reference, theirs, cases):
    """Return the row of a function with several results."""
    ours = wrap(getattr(linalg, name))
    return Row(
        name,
        wrap(reference),
        cases,
        name,
        call=lambda x: ours(_tensor(x)),
        torch=lambda x: wrap(theirs)(x),
        tolerance=1e-9,
    )


def _slogdet(x):
    return np.stack(np.linalg.slogdet(x), -1)


ROWS = [
    Row(
        "solve",
        lambda x, y: np.linalg.solve(_regular(x), y).astype(np.result_type(x, y, np.float32)),
        [
            Case((real(3, 3), real(3))),
            Case((real(3, 3), real(3, 2))),
            Case((real(2, 3, 3), real(3, 2))),
            Case((real(3, 3), real(2, 3, 1))),
            Case((real(2, 1, 2, 2), real(3, 2, 4))),
            Case((real(0, 2, 2), real(0, 2, 1))),
        ],
        "solve",
        call=lambda x, y: linalg.solve(_regular(_tensor(x)), y),
        torch=lambda x, y: (
            torch.linalg.solve(_regular(x), y[..., None])[..., 0]
            if y.ndim == 1
            else torch.linalg.solve(_regular(x), y)
        ),
        tolerance=1e-10,
    ),
    _row("inv", _regular, np.linalg.inv, lambda x: torch.linalg.inv(x), SQUARE),
    _row("det", _regular, np.linalg.det, lambda x: torch.linalg.det(x), SQUARE),
    Row(
        "slogdet",
        lambda x: _slogdet(_regular(x)),
        SQUARE,
        "slogdet",
        call=lambda x: ops.stack(linalg.slogdet(_regular(_tensor(x))), -1),
        torch=lambda x: torch.stack(torch.linalg.slogdet(_regular(x)), -1),
        tolerance=1e-10,
    ),
    _row("pinv", _regular, np.linalg.pinv, lambda x: torch.linalg.pinv(x), ANY),
    _row(
        "matrix_power",
        _regular,
        lambda x, n: np.linalg.matrix_power(x, n),
        lambda x, n: torch.linalg.matrix_power(x, n),
        [Case((real(3, 3),), {"n": n}) for n in (0, 1, 2, 5, -1, -2)] + [Case((real(2, 2, 2),), {"n": 3})],
        primitive=False,
    ),
    _row("cholesky", _positive, np.linalg.cholesky, lambda x: torch.linalg.cholesky(x), SQUARE),
    _whole("eigh", _eigh, np.linalg.eigh, lambda x: torch.linalg.eigh(x), SQUARE),
    _row(
        "eigvalsh",
        _symmetric,
        np.linalg.eigvalsh,
        lambda x: torch.linalg.eigvalsh(x),
        SQUARE,
        primitive=False,
    ),
    _whole(
        "svd",
        _svd,
        lambda x: np.linalg.svd(x, full_matrices=False),
        lambda x: torch.linalg.svd(x, full_matrices=False),
        ANY,
    ),
    _row(
        "svdvals",
        _regular,
        lambda x: np.linalg.svd(x, compute_uv=False),
        lambda x: torch.linalg.svdvals(x),
        ANY,
        primitive=False,
    ),
    _whole("qr", _qr, np.linalg.qr, lambda x: torch.linalg.qr(x), ANY),
]
