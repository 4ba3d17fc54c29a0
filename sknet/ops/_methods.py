"""Functions that are also methods of a tensor, and functions that NumPy has.

A method is the function itself, with the tensor as its first operand.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sknet._params import named_errors
from sknet.core import Methods, Tensor
from sknet.core._tensor import OF_NUMPY

# The families whose functions are methods: by the names of their modules.
FAMILIES = ("elementwise", "indexing", "products", "reduce", "shape", "sort")
OTHERS = ("log_softmax", "logsumexp", "prelu", "relu", "softmax", "tril", "triu")
NO_METHODS = ("full_like", "is_sparse", "ones_like", "pad", "zeros_like")
# Functions that Python has an operator for, or that take operands of any kind.
OPERATORS = {
    *("add", "subtract", "multiply", "divide"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *(f"bitwise_{name}" for name in ("and", "or", "xor", "invert", "left_shift", "right_shift")),
}


METHODS: dict[str, Callable[..., Any]] = {}


def name_errors(module: dict[str, Any], names: Iterable[str]) -> None:
    """Let functions name arguments of wrong types, also in the modules where pickles look for them."""
    for name in names:
        if inspect.isfunction(function := module[name]):
            module[name] = named_errors(function)
            setattr(sys.modules[function.__module__], name, module[name])


def attach(functions: Mapping[str, Any]) -> None:
    """Make functions methods of tensors, and let NumPy's functions of their names call them for tensors."""
    METHODS.update({name: function for name, function in functions.items() if _is_method(name, function)})
    METHODS["unsqueeze"] = functions["expand_dims"]
    for name, function in METHODS.items():
        setattr(Methods, name, function)
    OF_NUMPY.update({getattr(np, name): function for name, function in functions.items() if _has_numpy(name)})
    OF_NUMPY.update({np.amax: functions["max"], np.amin: functions["min"], np.around: functions["round"]})


def _is_method(name: str, function: Any) -> bool:
    if not inspect.isfunction(function) or name in (*OPERATORS, *NO_METHODS) or hasattr(Tensor, name):
        return False
    family = function.__module__.removeprefix("sknet.ops._")
    return name in OTHERS or (
        family in FAMILIES and next(iter(inspect.signature(function).parameters), "") == "x"
    )


def _has_numpy(name: str) -> bool:
    """Tell whether NumPy has a function of this name that can be given a tensor."""
    theirs = getattr(np, name, None)
    return isinstance(theirs, np.ufunc) or (callable(theirs) and hasattr(theirs, "__wrapped__"))
