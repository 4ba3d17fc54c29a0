"""Functions that are also methods of a tensor, functions that NumPy has, and names in other libraries.

A method is the function itself, with the tensor as its first operand.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sknet.core import Methods, Tensor
from sknet.core.extend import OF_NUMPY

__all__ = ["HINTS", "METHODS", "OPERATORS", "attach"]

# The families whose functions are methods: by the names of their modules.
FAMILIES = ("elementwise", "indexing", "products", "reduce", "shape", "sort")
OTHERS = ("log_softmax", "logsumexp", "prelu", "relu", "softmax", "tril", "triu")
NO_METHODS = ("is_sparse", "pad")
# Functions that Python has an operator for, or that take operands of any kind.
OPERATORS = {
    *("add", "subtract", "multiply", "divide"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *(f"bitwise_{name}" for name in ("and", "or", "xor", "invert", "left_shift", "right_shift")),
}


METHODS: dict[str, Callable[..., Any]] = {}


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


HINTS = {
    **dict.fromkeys(("cat", "concatenate", "hstack", "vstack"), "use ops.concat(xs, axis)"),
    "unsqueeze": "use ops.expand_dims(x, axis)",
    "clamp": "use ops.clip(x, min, max)",
    "absolute": "use ops.abs(x)",
    **dict.fromkeys(("permute", "transpose"), "use ops.permute_dims(x, axes)"),
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "inner"), "use ops.matmul(x, y), or x @ y"),
    "cumsum": "use ops.cumulative_sum(x, axis)",
    "cumprod": "use ops.cumulative_prod(x, axis)",
    "mul": "use ops.multiply(x, y), or x * y",
    "sub": "use ops.subtract(x, y), or x - y",
    **dict.fromkeys(("div", "true_divide"), "use ops.divide(x, y), or x / y"),
    "neg": "use ops.negative(x), or -x",
    "power": "use ops.pow(x, y), or x ** y",
    **dict.fromkeys(("mod", "fmod"), "use ops.remainder(x, y), or x % y"),
    "gt": "use ops.greater(x, y), or x > y",
    "ge": "use ops.greater_equal(x, y), or x >= y",
    "lt": "use ops.less(x, y), or x < y",
    "le": "use ops.less_equal(x, y), or x <= y",
    "eq": "use ops.equal(x, y), or x == y",
    "ne": "use ops.not_equal(x, y), or x != y",
    "gather": "use ops.take_along_axis(x, indices, axis)",
    "index_select": "use ops.take(x, indices, axis)",
    **dict.fromkeys(("index_add", "scatter", "segment_sum"), "use ops.scatter_add(x, indices, values, axis)"),
    "masked_fill": "use ops.where(mask, value, x)",
    **dict.fromkeys(("chunk", "tensor_split"), "use ops.split(x, parts, axis)"),
    "unbind": "use ops.unstack(x, axis)",
    **dict.fromkeys(("view", "ravel"), "use ops.reshape(x, shape), or ops.flatten(x)"),
    "expand": "use ops.broadcast_to(x, shape)",
    "repeat_interleave": "use ops.repeat(x, repeats, axis)",
    **dict.fromkeys(("tensor", "as_tensor", "from_numpy", "asarray", "array"), "use sknet.Tensor(data)"),
    **dict.fromkeys(
        ("rand", "randn", "randint"), "use sknet.Tensor(...) of numbers drawn by numpy.random.default_rng()"
    ),
    "unique": "use ops.unique_values(x)",
    "swish": "use ops.silu(x)",
    "hard_swish": "use ops.hardswish(x)",
    "logsigmoid": "use ops.log_sigmoid(x)",
    "linear": "use x @ weight + bias, or nn.Linear",
    **dict.fromkeys(("cross_entropy", "nll_loss", "mse_loss", "l1_loss"), "the losses are in sknet.losses"),
    **dict.fromkeys(("no_grad", "enable_grad", "grad", "vmap"), "it is sknet.{0}"),
    **dict.fromkeys(
        ("arcsin", "arccos", "arctan", "arctan2", "arcsinh", "arccosh", "arctanh"), "use ops.a{0}(x)"
    ),
}
HINTS = {name: text.format(name.removeprefix("arc")) for name, text in HINTS.items()}
