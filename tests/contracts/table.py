"""The rows of the op table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sknet import ops
from sknet.core import Tensor

__all__ = ["Case", "Row", "Spec", "binary", "drawn", "flags", "indices", "real", "reduction", "unary"]


@dataclass(frozen=True)
class Spec:
    """The distribution of an operand."""

    shape: tuple[int, ...]
    kind: str = "real"
    low: float = -2.0
    high: float = 2.0

    def draw(self, rng: np.random.Generator, dtype: Any) -> np.ndarray:
        return np.asarray(self._draw(rng, np.dtype(dtype)))

    def _draw(self, rng: np.random.Generator, dtype: np.dtype) -> Any:
        if self.kind == "flags":
            return rng.random(self.shape) < 0.5
        if self.kind == "indices":
            return rng.integers(int(self.low), int(self.high), self.shape)
        if dtype.kind in "iub":
            whole = np.asarray(rng.integers(1, 4, self.shape))
            return (whole if self.high >= 1 else whole * 0).astype(dtype)
        values = rng.uniform(self.low, self.high, self.shape)
        if self.kind == "apart":  # from 0, where many functions have a kink
            values = np.sign(values) * (0.1 + np.abs(values))
        if self.kind == "distinct":  # no ties, also after rounding to float32
            order = rng.permutation(values.size).reshape(self.shape)
            values = 0.25 * order - 1.0
        return values.astype(dtype)


def real(*shape: int, low: float = -2.0, high: float = 2.0, kind: str = "real") -> Spec:
    return Spec(shape, kind, low, high)


def indices(*shape: int, below: int, low: int = 0) -> Spec:
    return Spec(shape, "indices", low, below)


def flags(*shape: int) -> Spec:
    return Spec(shape, "flags")


@dataclass(frozen=True)
class Case:
    """Operands (specs to draw from, or constants passed as they are) and parameters."""

    operands: tuple[Any, ...]
    params: dict[str, Any] = field(default_factory=dict)

    def draw(self, dtype: Any = np.float64, seed: int = 0) -> list[Any]:
        """Draw the operands; constants stay."""
        rng = np.random.default_rng(seed)
        return [x.draw(rng, dtype) if isinstance(x, Spec) else x for x in self.operands]


@dataclass(frozen=True)
class Row:
    """One op: its name, an independent reference, and cases.

    `primitive` names the record, if the op is one; `torch` is PyTorch's function, or the reason why there is
    none; `order` is how often it can be differentiated.
    """

    op: str
    reference: Callable[..., Any]
    cases: list[Case]
    primitive: str | None = None
    order: int = 2
    integers: bool = True
    torch: Callable[..., Any] | str = "no counterpart"
    call: Callable[..., Tensor] | None = None
    tolerance: float = 1e-12

    def __call__(self, *operands: Any, **params: Any) -> Tensor:
        return (self.call or getattr(ops, self.op))(*operands, **params)


SHAPES = [(3, 4), (), (7,), (0, 3), (2, 3, 4)]
PAIRS = [
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((2, 1, 3), (4, 1)),
    ((), (3,)),
    ((1, 1), ()),
    ((0, 3), (1, 3)),
]


def unary(**drawn: Any) -> list[Case]:
    """Return cases of one operand, over shapes."""
    return [Case((real(*shape, **drawn),)) for shape in SHAPES]


def binary(first: dict[str, Any] | None = None, second: dict[str, Any] | None = None) -> list[Case]:
    """Return cases of two operands: shapes that broadcast, and a number on either side."""
    first, second = first or {}, second or {}
    shapes = [Case((real(*a, **first), real(*b, **second))) for a, b in PAIRS]
    return [*shapes, Case((real(3, 4, **first), 1.5)), Case((1.5, real(3, 4, **second)))]


def reduction(**drawn: Any) -> list[Case]:
    """Return cases of one operand and `axis`, `keepdims`."""
    parameters = [
        ((3, 4), {}),
        ((3, 4), {"axis": 0}),
        ((3, 4), {"axis": -1, "keepdims": True}),
        ((2, 3, 4), {"axis": (0, -1)}),
        ((2, 3, 4), {"axis": 1}),
        ((2, 3, 4), {"axis": (-2,), "keepdims": True}),
        ((), {}),
        ((5,), {"keepdims": True}),
        ((0, 3), {"axis": 1}),
    ]
    return [Case((real(*shape, **drawn),), params) for shape, params in parameters]


def drawn(row: Row, case: Case, dtype: Any = np.float64) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """Return the row's function of the arrays of a case, and these arrays."""
    operands = case.draw(dtype)
    arrays = [x for x in operands if isinstance(x, np.ndarray)]

    def function(*given: Any) -> Any:
        free = iter(given)
        return row(*[next(free) if isinstance(x, np.ndarray) else x for x in operands], **case.params)

    return function, arrays
