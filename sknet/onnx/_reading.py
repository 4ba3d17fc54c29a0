"""What reading needs of the values of a network: arrays that are known, and tensors that are computed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.core import Tensor
from sknet.exceptions import LoadError

__all__ = ["READ", "Values", "ints", "known", "operator"]

Values = list[Any]  # arrays of NumPy, tensors, and None for inputs that are left out
Operator = Callable[..., Any]

READ: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Enter a function for operators of ONNX: ``compute(attributes, *inputs)`` returns one value or several.

    Where all inputs are known arrays, so should the result be: shapes are computed so.
    """

    def enter(function: Operator) -> Operator:
        for name in names:
            READ[name] = function
        return function

    return enter


def known(x: Any, what: str) -> np.ndarray[Any, Any]:
    """Return a value that must be known before the network runs."""
    if isinstance(x, Tensor):
        raise LoadError(f"{what} is computed from the inputs, which a network that is loaded cannot do")
    return np.asarray(x)


def ints(x: Any, what: str) -> list[int]:
    """Return known integers as a list."""
    return [int(n) for n in known(x, what).reshape(-1)]


def are_known(*values: Any) -> bool:
    """Tell whether no value is computed."""
    return not any(isinstance(x, Tensor) for x in values)
