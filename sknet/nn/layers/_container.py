"""Modules made of modules: one after the other, around a shortcut, side by side."""

from collections.abc import Callable
from functools import reduce
from numbers import Integral
from operator import add, mul
from typing import Any

from sknet._fields import Named
from sknet._params import Interval, StrOptions
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._collections import Indexed
from sknet.nn._module import Module
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import concat, stack

__all__ = ["Lambda", "Parallel", "Residual", "Sequential"]


class Sequential(Indexed):
    """Modules one after the other, each on the output of the one before.

    Parameters
    ----------
    *layers : Module
        They are named "0", "1", ... Or one mapping of names to modules, in its order.

    Raises
    ------
    TypeError
        If an entry is not a `Module`; names it.

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

    def __init__(self, *layers: Any) -> None:
        super().__init__(*layers)

    def forward(self, x: Any) -> Any:
        layer = None
        try:
            for layer in self._children.values():
                x = layer(x)
                if x is None:
                    name = type(layer).__name__
                    raise TypeError(f"{name}.forward returned None, expected a tensor: end it with `return`")
        except Exception as error:
            # the traceback shows the same line for every layer
            names = [name for name, child in self._children.items() if child is layer]
            error.add_note(f"in layer {' or '.join(map(repr, names))} of a Sequential of {len(self)}")
            raise
        return x


class Residual(Module):
    """A module with a shortcut around it: ``x + module(x)``.

    Parameters
    ----------
    module : Module
        What is learned besides the identity.
    projection : Module, default=None
        What the shortcut does if the module's output has another shape; None passes x on.

    Raises
    ------
    TypeError
        If it is not a `Module`.

    Notes
    -----
    K. He et al., "Deep residual learning for image recognition", CVPR 2016, equations 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> block = nn.Residual(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)))
    >>> block(np.ones((5, 3))).shape
    (5, 3)
    """

    _stored_fields = {
        "module": Named("Module"),
        "projection": [Named("Module"), None],
    }

    def __init__(self, module: Module, projection: Module | None = None) -> None:
        self.register_module("module", module)
        self.projection = None
        if projection is not None:
            self.register_module("projection", projection)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        learned, shortcut = self.module(x), x if self.projection is None else self.projection(x)
        if learned.shape != shortcut.shape:
            raise ShapeError(
                f"Residual: the module's output has shape {learned.shape}, the shortcut's {shortcut.shape}: "
                "give it a projection with the module's output shape"
            )
        return learned + shortcut  # type: ignore[no-any-return]


Reduction = Callable[[list[Any], int], Any]

REDUCTIONS: dict[str, Reduction] = {
    "concat": lambda outputs, axis: concat(outputs, axis=axis),
    "stack": lambda outputs, axis: stack(outputs, axis=axis),
    "sum": lambda outputs, axis: reduce(add, outputs),
    "mean": lambda outputs, axis: reduce(add, outputs) / len(outputs),
    "product": lambda outputs, axis: reduce(mul, outputs),
}


class Parallel(Indexed):
    """Modules side by side on the same input, with their outputs combined.

    Parameters
    ----------
    *modules : Module
        They are named "0", "1", ... Or one mapping of names to modules, in its order.
    reduce : {"concat", "stack", "sum", "mean", "product"}, default="concat"
        How the outputs are combined; all but "concat" need outputs of one shape.
    axis : int, default=-1
        Along which axis "concat" joins, or which axis of the result "stack" makes.

    Raises
    ------
    TypeError
        If an entry is not a `Module`; names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> towers = nn.Parallel(nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    >>> towers(np.ones((5, 3))).shape
    (5, 6)
    """

    _noun = "module"
    _parameter_constraints = {
        "reduce": [StrOptions(set(REDUCTIONS))],
        "axis": [Interval(Integral, None, None, closed="neither")],
    }

    def __init__(self, *modules: Any, reduce: str = "concat", axis: int = -1) -> None:
        check_arguments(self, reduce=reduce, axis=axis)
        self.reduce = reduce
        self.axis = axis
        super().__init__(*modules)

    def forward(self, x: Any) -> Any:
        outputs = [as_tensor(module(x)) for module in self._children.values()]
        shapes = [output.shape for output in outputs]
        if not outputs or (self.reduce != "concat" and len(set(shapes)) > 1):
            needed = "at least one module" if not outputs else "outputs of one shape"
            raise ShapeError(f"Parallel(reduce={self.reduce!r}): expected {needed}, got {shapes}")
        return REDUCTIONS[self.reduce](outputs, self.axis)


class Lambda(Module):
    """A function of tensors as a module without parameters.

    Parameters
    ----------
    function : callable
        ``function(x)``, in operations of `sknet.ops` and of tensors.

    Raises
    ------
    TypeError
        If `function` is not callable, or a module.

    Notes
    -----
    The function is pickled as Python pickles functions: by its module and name, so that a ``lambda``
    works only where nothing is pickled (joblib with several processes does).

    Examples
    --------
    >>> from sknet import nn, ops
    >>> net = nn.Sequential(nn.Linear(3, 2), nn.Lambda(ops.exp))
    >>> net[1]
    Lambda(exp)
    """

    _stored_fields = {
        "function": callable,
    }

    def __init__(self, function: Callable[[Any], Any]) -> None:
        if not callable(function) or isinstance(function, Module):
            raise TypeError(f"Lambda needs a function, got {type(function).__name__}")
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)

    def extra_repr(self) -> str:
        """Return the function's name."""
        return str(getattr(self.function, "__qualname__", self.function))
