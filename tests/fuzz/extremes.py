"""Extreme operands, and the allowed results of a rewritten graph.

The eager value is the reference. Whether a result is finite, infinite, NaN or zero must not change; the
allowed error of a finite one depends on its condition. This is measured: the operations of the captured
graph are done several times one by one, with each result perturbed in its last digits (or by the smallest
number, if it has underflowed), every sum in another order, and signs of zeros from sums flipped. The result
of the rewritten graph has to be like one of these.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sknet.compile import Graph, Variable, compile
from sknet.core import Tensor
from sknet.device import backend

__all__ = ["FLOATS", "INTEGERS", "check", "evaluate", "extremes", "operand"]

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
SAMPLES = 12
MANY_SAMPLES = 400  # for results that none of the first is like, such as the zero of a sum that cancels
# Primitives whose result is an element of an operand, or bits of it: they do not round.
UNROUNDED = frozenset(
    {"abs", "broadcast_to", "attach_aux", "concat", "getitem", "max", "maximum", "min", "minimum", "negative"}
    | {"ones_like", "permute_dims", "positive", "put_along_axis", "relu", "reshape", "scatter_add", "sign"}
    | {"take", "take_along_axis", "where", "zeros_like"}
)


def extremes(dtype: Any) -> np.ndarray:
    """Return the critical values of a dtype, and a few ordinary ones."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = {0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2, info.min, info.min + 1, info.min // 2}
        return np.array(sorted(found | ({-1, -2, -5} if info.min else set())), dtype)
    limits = np.finfo(dtype)
    large, normal, least = (float(x) for x in (limits.max, limits.smallest_normal, limits.smallest_subnormal))
    positive = [
        *(
            0.0,
            1.0,
            2.0,
            0.5,
            1.0 + limits.eps,
            3.7,
            1e-3,
            88.0,
            0.1,
            large,
            large / 2,
            large / 3,
            large**0.5,
        ),
        *(normal, normal * 1.5, least, least * 7, normal**0.5, 1 / large**0.9, np.log(large), np.inf),
    ]
    with np.errstate(over="ignore"):
        return np.array([*positive, *[-x for x in positive], np.nan], dtype)


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, tame: float = 0.4) -> np.ndarray:
    """Draw an array; the fraction `tame` of its elements is ordinary."""
    dtype = np.dtype(dtype)
    wild = rng.choice(extremes(dtype), shape)
    if dtype.kind == "b":
        return np.asarray(wild)
    low = 0 if dtype.kind == "u" else -3.0
    ordinary = np.asarray(rng.uniform(low, 3.0, shape)).astype(dtype)
    return np.asarray(np.where(rng.random(shape) < tame, ordinary, wild))


# -- doing the operations one by one ----------------------------------------------------------


def evaluate(
    graph: Graph, arrays: Iterable[np.ndarray], changed: Callable[..., Any] | None = None
) -> list[Any]:
    """Return a graph's outputs, computed by the primitives' own kernels, one equation after the other."""
    values: dict[Variable, Any] = dict(zip(graph.inputs, arrays, strict=True))
    values.update(graph.constants)
    owner = backend("cpu")
    with np.errstate(all="ignore"):
        for equation in graph.equations:
            operands = [values[x] if type(x) is Variable else x for x in equation.operands]
            result = np.asarray(equation.primitive.forward_on(owner)(*operands, **equation.params))
            values[equation.output] = result if changed is None else changed(equation, operands, result)
    return [values[x] for x in graph.outputs]


class _Signs:
    """Flips signs of zeros where they are not preserved."""

    def __init__(self, rng: np.random.Generator, chance: float = 0.5) -> None:
        self._rng, self._chance = rng, chance
        self._of_parts: set[Variable] = set()

    def __call__(self, equation: Any, operands: list[Any], result: Any) -> Any:
        name = equation.primitive.name
        if name in ("scatter_add", "put_along_axis"):
            self._of_parts.add(equation.output)  # partly zeros, which are not added to other values
        elif name in ("add", "subtract") and not self._of_parts.isdisjoint(equation.variables):
            self._of_parts.add(equation.output)
        elif name != "sum":
            return result
        return self.flipped(result)

    def flipped(self, result: Any) -> Any:
        if result.dtype.kind != "f":
            return result
        chance = self._chance if self._chance == 1.0 else self._rng.choice([0.0, 0.5, 1.0])
        flips = (result == 0) & (self._rng.random(result.shape) < chance)
        return np.where(flips, -result, result)


class _Rounding(_Signs):
    """Rounds every result differently."""

    def __init__(self, rng: np.random.Generator, chance: float = 0.5) -> None:
        super().__init__(rng, chance)
        self._products: dict[Variable, list[Any]] = {}
        self._overflows = bool(rng.random() < 0.3)  # otherwise values within rounding of it do not

    def _wide(self, x: Any, value: Any) -> Any:
        """Return an operand of a sum; a product may be rounded together with the sum, not before."""
        factors = self._products.get(x)
        if factors is None or self._rng.random() < 0.5:
            return value
        return np.multiply(*[np.asarray(y, np.longdouble) for y in factors])

    def __call__(self, equation: Any, operands: list[Any], result: Any) -> Any:
        name = equation.primitive.name
        if result.dtype.kind != "f":
            return result
        result = np.array(super().__call__(equation, operands, result))
        if name == "multiply":
            self._products[equation.output] = operands
        if name in ("sum", "subtract", "add", "matmul"):
            result = self.flipped(self._added(equation, operands, result))
        return result if name in UNROUNDED else self._rounded(name, operands, result)

    def _added(self, equation: Any, operands: list[Any], result: Any) -> Any:
        """Return a sum as if its terms were rounded and added differently."""
        name = equation.primitive.name
        with np.errstate(all="ignore"):
            if name in ("add", "subtract"):
                wide = [self._wide(*pair) for pair in zip(equation.operands, operands, strict=True)]
                return getattr(np, name)(*wide).astype(result.dtype)
            if name == "sum" and operands[0].dtype == result.dtype:
                terms = self._wide(equation.operands[0], operands[0])
                return self._added_otherwise(terms, result.dtype, **equation.params)
        return result

    def _rounded(self, name: str, operands: list[Any], result: Any) -> Any:
        limits = np.finfo(result.dtype)
        with np.errstate(all="ignore"):
            is_alike = self._rng.random() < 0.3  # equal values round alike, and differences of them are 0
            off = self._rng.integers(-3, 4, () if is_alike else result.shape) * limits.eps
            rounded = np.where(result == 0, result, result + result * off.astype(result.dtype))
            if name == "log_softmax":  # the logarithm of a sum near 1 has the error of the sum
                rounded = rounded + (self._rng.integers(-4, 5, result.shape) * limits.eps).astype(
                    result.dtype
                )
            if not self._overflows:
                rounded = np.where(np.isfinite(rounded), rounded, result)
            near = np.abs(result) < limits.smallest_normal * 4
            if name in ("add", "subtract"):  # of which no result underflows
                return rounded.astype(result.dtype)
            if name not in ("exp", "sigmoid", "tanh"):  # a zero among these may be exact
                near &= (result != 0) | _nonzero(operands, result.shape)
            least = self._rng.integers(-1, 2, result.shape) * limits.smallest_subnormal
            return np.where(near, rounded + least.astype(result.dtype), rounded).astype(result.dtype)

    def _added_otherwise(self, x: Any, dtype: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        """Sum in another order, in which intermediate results may overflow."""
        at = tuple(sorted(a % x.ndim for a in axis))
        kept = [n for i, n in enumerate(x.shape) if i not in at]
        count = math.prod(x.shape[i] for i in at)
        terms = np.moveaxis(x, at, range(len(at))).reshape(count, *kept)
        wide = x.dtype if self._rng.random() < 0.5 or dtype.char != "e" else np.dtype("float32")
        parts = [np.zeros(kept, wide) for _ in range(self._rng.integers(1, 4))]
        for term in self._rng.permutation(terms):
            i = self._rng.integers(len(parts))
            parts[i] = parts[i] + term
        total = sum(parts[1:], parts[0]).astype(dtype)
        size = np.abs(terms.astype(np.longdouble)).sum(axis=0)
        too_large = np.isfinite(terms).all(axis=0) & (size > np.finfo(dtype).max)
        other = self._rng.choice(np.array([np.inf, -np.inf, np.nan], dtype), kept)
        total = np.where(too_large & (self._rng.random(kept) < 0.5), other, total)
        return total.reshape([1 if i in at else n for i, n in enumerate(x.shape)]) if keepdims else total


def _nonzero(operands: list[Any], shape: tuple[int, ...]) -> Any:
    """Tell where no operand is zero, so that a result of zero has underflowed."""
    try:
        found = np.ones(shape, bool)
        for x in operands:
            found &= np.asarray(x) != 0
    except ValueError:  # of a shape that does not broadcast: a sum, a product of matrices
        return np.zeros(shape, bool)
    return found


# -- comparing --------------------------------------------------------------------------------


def check(
    function: Callable[..., Any], graph: Graph, arrays: list[np.ndarray], *, exact: bool, seed: int = 0
) -> str:
    """Compile a function that returns a list, run it, and return what is wrong; empty if nothing is."""
    with np.errstate(all="ignore"):
        eager = [x.numpy() for x in function(*map(Tensor, arrays))]
        compiled = compile(function, tuple(arrays), exact=exact)
        compiled.poison()
        found = [np.array(x) for x in compiled(*arrays)]
    return compare(found, eager, graph, arrays, exact=exact, seed=seed)


def compare(
    found: list[Any], eager: list[Any], graph: Graph, arrays: list[np.ndarray], *, exact: bool, seed: int = 0
) -> str:
    """Return what is wrong with results, given the eager ones; empty if nothing is."""
    for i, (result, expected) in enumerate(zip(found, eager, strict=True)):
        if (result.shape, result.dtype) != (expected.shape, expected.dtype):
            return f"output {i} is {result.dtype}{result.shape}, and not {expected.dtype}{expected.shape}"
    if all(map(_same_bits, found, eager)):
        return ""
    wrong = _unlike(found, eager, graph, arrays, exact=exact, seed=seed, samples=SAMPLES)
    return wrong and _unlike(found, eager, graph, arrays, exact=exact, seed=seed, samples=MANY_SAMPLES)


def _unlike(
    found: list[Any],
    eager: list[Any],
    graph: Graph,
    arrays: list[np.ndarray],
    *,
    exact: bool,
    seed: int,
    samples: int,
) -> str:
    """Return which result is unlike all of so many samples; empty if none is."""
    kind: type[_Signs] = _Signs if exact else _Rounding
    drawn = [eager]
    for k in range(samples):
        changed = kind(np.random.default_rng([seed, k]), 0.5 if k else 1.0)
        drawn.append(evaluate(graph, arrays, changed))
    for i, result in enumerate(found):
        others = np.stack([np.asarray(sample[i]) for sample in drawn])
        good = _is_one_of(result, others) if exact or result.dtype.kind != "f" else _is_like(result, others)
        if not good.all():
            at = tuple(int(n) for n in np.argwhere(~good)[0])
            expected = f"{eager[i][at]!r}, among {np.unique(others[:, *at])}"
            return f"output {i}{list(at)} is {result[at]!r}, and not {expected}"
    return ""


def _same_bits(a: Any, b: Any) -> bool:
    """Tell whether arrays have the same elements, and the same signs of zeros."""
    if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return False
    return a.dtype.kind != "f" or bool((np.signbit(a) == np.signbit(b))[a == 0].all())


def _is_one_of(result: Any, others: Any) -> Any:
    same = others == result
    if result.dtype.kind == "f":
        same |= np.isnan(others) & np.isnan(result)
        same &= np.isnan(result) | (np.signbit(others) == np.signbit(result)) | (result != 0)
    return same.any(axis=0)


def _is_like(result: Any, others: Any) -> Any:
    limits = np.finfo(result.dtype)
    wide = others.astype(np.longdouble)
    finite = np.isfinite(others)
    low = np.where(finite, wide, np.inf).min(axis=0)
    high = np.where(finite, wide, -np.inf).max(axis=0)
    with np.errstate(all="ignore"):
        slack = 2 * (high - low) + 16 * limits.eps * np.maximum(np.abs(low), np.abs(high))
        slack = slack + 16 * np.longdouble(limits.smallest_subnormal)
        # If some of the samples are not finite, the spread of the others is unknown.
        near = (result >= low - slack) & (result <= high + slack)
        near = np.isfinite(result) & finite.any(axis=0) & (near | ~finite.all(axis=0))
    # Values that are always normal must not be zero, and values that are always zero must stay zero.
    is_zero = (others == 0).all(axis=0)
    is_normal = (np.abs(others) >= 4 * limits.smallest_normal).all(axis=0) & ((low > 0) | (high < 0))
    near &= ~(is_zero & (result != 0)) & ~(is_normal & (result == 0))
    kinds = sum(
        np.any(kind, axis=0).astype(int) for kind in (finite, np.isnan(others), others > high, others < low)
    )
    same = ~np.isfinite(result) & (_is_one_of(result, others) | (kinds > 2))
    return np.asarray(near | same)
