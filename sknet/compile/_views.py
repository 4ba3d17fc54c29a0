"""Views: equations that compute nothing; their arrays are made once, when memory is assigned."""

import math
import mmap
from collections.abc import Iterable
from typing import Any

import numpy as np

from sknet.compile._graph import Equation, Variable
from sknet.device import backend_of

__all__ = ["Views"]

SMALL = 1 << 16  # bytes; above, an array that nobody reads should take no memory


def _untouched(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array with arbitrary values, in pages that the system provides only if they are accessed."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size <= SMALL:
        return np.empty(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size), dtype).reshape(shape)


class Views:
    """Views among the variables of a graph, and their bases."""

    def __init__(self, equations: Iterable[Equation] = ()) -> None:
        self._sources: dict[Variable, Variable] = {}
        self._whole: dict[Variable, bool] = {}
        # Arrays with the right strides, whose memory is never accessed.
        self._ghosts: dict[Variable, np.ndarray] = {}
        for equation in equations:
            self.add(equation)

    def add(self, equation: Equation) -> None:
        """Take in the equation after those known so far."""
        if equation.primitive.view is None:
            return
        x: Variable = equation.operands[0]
        after = self.applied(equation, self.ghost(x))
        if after is None:
            return  # a copy, not a view
        output = equation.output
        self._ghosts[output] = after
        self._sources[output] = self._sources.get(x, x)
        self._whole[output] = self.is_whole(x) and after.flags.c_contiguous and after.size == x.size

    def ghost(self, x: Variable) -> np.ndarray:
        """Return an array with arbitrary values and the memory layout of `x`."""
        found = self._ghosts.get(x)
        if found is None:
            found = self._ghosts[x] = _untouched(x.shape, x.dtype)
        return found

    def is_view(self, equation: Equation) -> bool:
        """Tell whether an equation's output is a view of its operand."""
        return equation.output in self._sources

    def root(self, x: Variable) -> Variable:
        """Return the variable that `x` is a view of, or `x` itself if it is not a view."""
        return self._sources.get(x, x)

    def is_whole(self, x: Variable) -> bool:
        """Tell whether `x` has all elements of its root, in memory order."""
        return self._whole.get(x, True)

    def is_contiguous(self, x: Variable) -> bool:
        """Tell whether `x` is C-contiguous."""
        return x not in self._sources or bool(self.ghost(x).flags.c_contiguous)

    def applied(self, equation: Equation, array: Any) -> Any:
        """Return the view of an array, on any device, that an equation takes; None if it takes a copy."""
        view = equation.primitive.view
        return None if view is None else view(backend_of(array).xp, array, **equation.params)
