"""Bounds of what a network returns that hold for all inputs, from the operations of a pass without data."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Primitive, TracedArray

__all__ = ["Bounds"]

Range = tuple[float, float]

ANY: Range = (-math.inf, math.inf)
DEEPEST = 8  # operations that two operands are compared through
# These return values of their first operand.
SAME = frozenset(
    {
        *("reshape", "permute_dims", "astype", "broadcast_to", "getitem", "take", "take_along_axis"),
        *("sort", "max", "min", "max_pool", "positive"),
    }
)
FIXED: dict[str, Range] = {
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "erfc": (0.0, 2.0),
    "atan": (-math.pi / 2, math.pi / 2),
    "log_softmax": (-math.inf, 0.0),
    "log_sigmoid": (-math.inf, 0.0),
    "softplus": (0.0, math.inf),
}


class _Made(NamedTuple):
    """A result with its operation and bounds; kept, so that no other result has its id."""

    result: Any
    name: str
    operands: list[Any]
    bounds: Range


class Bounds:
    """Bounds of all results of a pass without data, as its argument `seen` takes them."""

    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}

    def __call__(self, primitive: Primitive, operands: list[Any], result: Any) -> None:
        self._made[id(result)] = _Made(
            result, primitive.name, operands, self._found(primitive.name, operands, result)
        )

    def of(self, x: Any) -> Range:
        """Return the smallest and the largest value that an array may hold."""
        if isinstance(x, TracedArray):
            made = self._made.get(id(x))
            return ANY if made is None else made.bounds
        values = np.asarray(x)
        if values.dtype.kind not in "biuf" or not values.size or np.isnan(values).any():
            return ANY
        return float(values.min()), float(values.max())

    def _found(self, name: str, operands: list[Any], result: Any) -> Range:
        if name in FIXED:
            return FIXED[name]
        if name in SAME:
            return self.of(operands[0])
        if name == "sum":
            count = math.prod(operands[0].shape) // max(math.prod(result.shape), 1)
            return _product(self.of(operands[0]), (count, count))
        if name == "divide" and self._is_share(*operands):
            return 0.0, 1.0
        rule = RULES.get(name)
        return ANY if rule is None else rule(*map(self.of, operands))

    def _is_share(self, part: Any, whole: Any) -> bool:
        """Tell whether `whole` is the sum of `part` and of others, none of which is negative."""
        made = self._made.get(id(whole))
        while made is not None and made.name in ("reshape", "broadcast_to"):
            made = self._made.get(id(made.operands[0]))
        if made is None or made.name != "sum" or self.of(part)[0] < 0:
            return False
        return self._is_same(part, made.operands[0], DEEPEST)

    def _is_same(self, a: Any, b: Any, depth: int) -> bool:
        """Tell whether two arrays are made alike from the same ones."""
        if a is b:
            return True
        first, second = self._made.get(id(a)), self._made.get(id(b))
        if first is None or second is None:
            return not isinstance(a, TracedArray) and not isinstance(b, TracedArray) and bool(np.all(a == b))
        alike = depth > 0 and first.name == second.name and len(first.operands) == len(second.operands)
        pairs = zip(first.operands, second.operands, strict=False)
        return alike and all(self._is_same(x, y, depth - 1) for x, y in pairs)


def _rising(function: Callable[[float], Any]) -> Callable[[Range], Range]:
    """Return the rule of a function that rises everywhere."""

    def rule(x: Range) -> Range:
        with np.errstate(all="ignore"):
            return float(function(x[0])), float(function(x[1]))

    return rule


def _product(x: Range, y: Range) -> Range:
    ends = [a * b if a and b else 0.0 for a in x for b in y]
    return min(ends), max(ends)


def _quotient(x: Range, y: Range) -> Range:
    if y[0] < 0 < y[1] or y == (0.0, 0.0):
        return ANY
    ends = (1 / y[1] if y[1] else -math.inf, 1 / y[0] if y[0] else math.inf)
    return _product(x, ends)


def _square(x: Range) -> Range:
    low, high = sorted(map(abs, x))
    return 0.0 if x[0] < 0 < x[1] else low * low, high * high


def _hull(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _larger(x: Range, y: Range) -> Range:
    return max(x[0], y[0]), max(x[1], y[1])


def _smaller(x: Range, y: Range) -> Range:
    return min(x[0], y[0]), min(x[1], y[1])


RULES: dict[str, Callable[..., Range]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "multiply": _product,
    "divide": _quotient,
    "negative": lambda x: (-x[1], -x[0]),
    "square": _square,
    "abs": lambda x: (0.0 if x[0] < 0 < x[1] else min(map(abs, x)), max(map(abs, x))),
    "exp": _rising(np.exp),
    "exp2": _rising(np.exp2),
    "expm1": _rising(np.expm1),
    "relu": _rising(lambda x: max(x, 0.0)),
    "maximum": _larger,
    "minimum": _smaller,
    "clip": lambda x, low, high: _smaller(_larger(x, low), high),
    "where": lambda _, x, y: _hull(x, y),
    "concat": _hull,
}
