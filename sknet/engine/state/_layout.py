"""The layout of all parameters in one flat buffer, so that an update takes a few passes over it."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sknet.engine.state._brief import shapes
from sknet.exceptions import StateError

__all__ = ["Arrays", "Gradient", "Layout"]

ALIGNMENT = 16  # elements: every parameter starts on a new cache line, also in float32


class Layout:
    """The offset of every parameter in a flat buffer."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = dict(shapes)
        self.slices: dict[str, slice] = {}
        start = 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            self.slices[name] = slice(start, stop)
            start = -(-stop // ALIGNMENT) * ALIGNMENT
        self.size = start

    def views(self, flat: Any) -> dict[str, Any]:
        """Return views of `flat` for every parameter, in its shape."""
        return {name: _shaped(flat[part], self.shapes[name]) for name, part in self.slices.items()}

    def fill(self, flat: Any, values: Mapping[str, Any]) -> None:
        """Copy arrays by name to their offsets in `flat`."""
        self.check(values)
        for name, part in self.slices.items():
            flat[part] = values[name].reshape(-1)

    def check(self, values: Mapping[str, Any]) -> None:
        """Raise a StateError unless `values` has exactly the parameters, in their shapes."""
        if set(values) != set(self.shapes):
            raise StateError(f"expected arrays for exactly {sorted(self.shapes)}, got {sorted(values)}")
        for name, shape in self.shapes.items():
            if tuple(values[name].shape) != shape:
                raise StateError(f"{name!r} must have shape {shape}, got {tuple(values[name].shape)}")


def _shaped(part: Any, shape: tuple[int, ...]) -> Any:
    return part if len(shape) == 1 else part.reshape(shape)


class Arrays(Mapping[str, Any]):
    """An array for every parameter, by name, all in one flat buffer."""

    def __init__(self, layout: Layout, flat: Any) -> None:
        self.layout = layout
        self.flat = flat
        self._views = layout.views(flat)

    def __getitem__(self, name: str) -> Any:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shapes(self._views)})"


class Gradient(Arrays):
    """The gradient of a loss: an array for every parameter, by name, all in one flat buffer.

    Parameters
    ----------
    layout : Layout
        Offsets of the arrays.
    flat : array of shape (layout.size,)
        The buffer.
    buffers : mapping of str to array
        New values of the modules' buffers (running means, ...) if this gradient is applied.

    Examples
    --------
    >>> import numpy as np
    >>> gradient = Gradient(Layout({"weight": (2,)}), np.arange(16.0), {})
    >>> gradient["weight"]
    array([0., 1.])
    """

    def __init__(self, layout: Layout, flat: Any, buffers: Mapping[str, Any]) -> None:
        super().__init__(layout, flat)
        self.buffers = dict(buffers)
