"""The placeholder for the memory of a lazy module, until the first batch determines its shapes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet.device import Device, active, stream_key
from sknet.engine.state._inputs import arguments, each_input
from sknet.engine.state._memory import Memory
from sknet.exceptions import StateError
from sknet.nn import Module
from sknet.nn.extend import latest, materialize_for

__all__ = ["Pending", "begin", "give_shapes"]


class Pending:
    """Replaces the memory until the shapes of a lazy module are known."""

    is_spent = False

    def __init__(self, module: Module, device: Device) -> None:
        self.module, self.device = module, device

    @property
    def mark(self) -> object:
        """The latest structure: nothing depends on the module yet."""
        return latest.structure

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols of copy and pickle
            raise AttributeError(name)
        raise StateError(
            "this model's module is lazy and has no parameters before its first batch: call "
            "model.materialize(X), or start with a step"
        )


def begin(
    module: Module, dtype: Any, device: Device, slots: Iterable[str], random_state: RandomState
) -> Memory:
    """Return the memory of a module with known shapes, after drawing weights that have no values yet."""
    module.initialize(random_state)
    key = stream_key(random_state)
    with active(device):
        return Memory(module, dtype, device, slots, key)


def give_shapes(module: Module, X: Any, dtype: Any) -> None:
    """Determine the shapes of a lazy module from a batch, or from its shape."""

    def example(x: Any) -> Any:
        return x if isinstance(x, tuple) or hasattr(x, "dtype") else np.asarray(x)

    materialize_for(module, arguments(each_input(example, X)), dtype)
