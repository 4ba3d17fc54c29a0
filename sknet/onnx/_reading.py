"""The values of a network while reading: known arrays and computed tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.core import Tensor
from sknet.exceptions import LoadError

__all__ = ["READ", "Values", "ints", "known", "operator"]

Values = list[Any]  # NumPy arrays, tensors, and None for omitted inputs
Operator = Callable[..., Any]

READ: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register a function for ONNX operators: ``compute(attributes, *inputs)`` returns one value or several.

    If all inputs are known arrays, the result must be one, too, so that shapes can be computed.
    """

    def enter(function: Operator) -> Operator:
        for name in names:
            READ[name] = function
        return function

    return enter


def known(x: Any, what: str) -> np.ndarray[Any, Any]:
    """Return a value that must be known before the network runs."""
    if isinstance(x, Tensor):
        raise LoadError(f"{what} is computed from the inputs, which a loaded network does not support")
    return np.asarray(x)


def ints(x: Any, what: str) -> list[int]:
    """Return known integers as a list."""
    return [int(n) for n in known(x, what).reshape(-1)]


def are_known(*values: Any) -> bool:
    """Tell whether no value is computed."""
    return not any(isinstance(x, Tensor) for x in values)
