"""Random operands and attributes of ONNX operators, by the names that the standard gives them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

FLOATS = ("float32", "float32", "float32", "float64", "float16")
INTS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")


class Drawn(NamedTuple):
    """Values of inputs and attributes; inputs without a name are "#0", "#1", ..."""

    values: dict[str, Any]
    fixed: tuple[str, ...] = ()  # inputs that are usually in the file
    n_outputs: int = 1


class Draw:
    """Random numbers for the operands of one node."""

    def __init__(self, rng: np.random.Generator, opset: int) -> None:
        self.rng, self.opset = rng, opset

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def int(self, low: int, high: int) -> int:
        """Return one of low, ..., high."""
        return int(self.rng.integers(low, high + 1))

    def one(self, options: Any) -> Any:
        return options[self.int(0, len(options) - 1)]

    def flag(self) -> int:
        return self.int(0, 1)

    def maybe(self, value: Any, p: float = 0.5) -> Any:
        return value if self.chance(p) else None

    def ints(self, n: int, low: int, high: int) -> list[int]:
        return [self.int(low, high) for _ in range(n)]

    def shape(self, low: int = 0, high: int = 4, empty: float = 0.05) -> tuple[int, ...]:
        least = 0 if self.chance(empty) else 1
        return tuple(self.ints(self.int(low, high), least, 4))

    def dtype(self, *more: str) -> str:
        return str(self.one((*FLOATS, *more)))

    def array(self, shape: Any, dtype: str = "float32", low: float = -3.0, high: float = 3.0) -> np.ndarray:
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return self.rng.random(shape) < 0.5
        if kind.kind in "iu":
            least = 0 if kind.kind == "u" else round(low)
            return self.rng.integers(least, max(round(high), least) + 1, shape).astype(dtype)
        return self.rng.uniform(low, high, shape).astype(dtype)

    def axis(self, ndim: int, more: int = 0) -> int:
        return self.int(-ndim, ndim - 1 + more)

    def axes(self, ndim: int) -> np.ndarray:
        chosen = self.rng.permutation(ndim)[: self.int(0, ndim)]
        return np.array([a - ndim if self.chance(0.4) else a for a in chosen], np.int64)

    def like(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that broadcasts against another."""
        found = tuple(1 if self.chance(0.25) else n for n in shape)
        return found[self.int(0, len(found)) if self.chance(0.4) else 0 :]


DRAWS: dict[str, Callable[[Draw], Drawn]] = {}


def draws(*names: str) -> Callable[[Callable[..., Drawn]], Callable[..., Drawn]]:
    def enter(function: Callable[..., Drawn]) -> Callable[..., Drawn]:
        for name in names:
            DRAWS[name] = function
        return function

    return enter


def inputs(*arrays: Any) -> dict[str, Any]:
    return {f"#{i}": array for i, array in enumerate(arrays)}


def many(*arrays: Any) -> dict[str, Any]:
    return {f"variadic_{i}": array for i, array in enumerate(arrays)}
