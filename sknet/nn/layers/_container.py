"""Sequential: modules one after the other."""

from collections.abc import Iterator
from typing import Any, Self, overload

from sknet.nn._module import Module

__all__ = ["Sequential"]


class Sequential(Module):
    """Modules one after the other, each on the output of the one before.

    Parameters
    ----------
    *layers : Module
        They are named "0", "1", ...

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> net
    Sequential(
      (0): Linear(4, 3)
      (1): ReLU()
      (2): Linear(3, 1)
    )
    >>> net[:2](np.ones((5, 4))).shape
    (5, 3)
    """

    def __init__(self, *layers: Module) -> None:
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):
            raise TypeError("Sequential takes modules as separate arguments: write Sequential(*layers)")
        for layer in layers:
            self.append(layer)

    def append(self, layer: Module) -> Self:
        """Add a module at the end.

        Parameters
        ----------
        layer : Module
            Its name is its index.

        Returns
        -------
        Sequential
            Itself.
        """
        self.register_module(str(len(self)), layer)
        return self

    def forward(self, x: Any) -> Any:
        layer = None
        try:
            for layer in self._children.values():
                x = layer(x)
        except Exception as error:
            # the traceback shows the same line for every layer
            names = [name for name, child in self._children.items() if child is layer]
            error.add_note(f"in layer {' or '.join(map(repr, names))} of a Sequential of {len(self)}")
            raise
        return x

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> "Sequential": ...

    def __getitem__(self, index: int | slice) -> Module:
        layers = list(self._children.values())
        if isinstance(index, slice):
            return Sequential(*layers[index])
        try:
            return layers[index]
        except IndexError:
            raise IndexError(
                f"layer {index} does not exist: this Sequential has {len(layers)} layers"
            ) from None
