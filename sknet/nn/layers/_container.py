"""Modules made of modules: lists and dicts of them, in sequence, around a shortcut, side by side."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from numbers import Integral
from operator import add, mul
from typing import Any, Self

from sknet._constraints import Taking, shown
from sknet._fields import Named
from sknet._params import Interval, StrOptions
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._module import Module, check_arguments
from sknet.nn._parameter import Parameter, bound_parameter, note_structure
from sknet.ops import concat, stack

__all__ = [
    "Lambda", "ModuleDict", "ModuleList", "Parallel", "ParameterDict", "ParameterList", "Residual",
    "Sequential",
]  # fmt: skip


class _Collection(Module):
    _stored_fields = {
        "*": Named("Module"),
    }

    def _entries(self) -> dict[str, Any]:
        return self._children

    def _enter(self, name: str, value: Any) -> None:
        self.register_module(name, value)


class _OfParameters(_Collection):
    _stored_fields = {
        "*": Named("Parameter"),
    }

    def _entries(self) -> dict[str, Any]:
        return self._parameters

    def _enter(self, name: str, value: Any) -> None:
        self.register_parameter(name, value)

    def extra_repr(self) -> str:
        return _shapes(self._parameters)


class Indexed(_Collection):
    """Base of ordered collections, such as `Sequential`: each is a list of its children."""

    _noun = "layer"

    def __init__(self, *modules: Any) -> None:
        name = type(self).__name__
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            raise TypeError(f"{name} takes modules as separate arguments: write {name}(*layers)")
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            self._arrange(list(modules[0].items()))
        else:
            self.extend(modules)

    def _arrange(self, items: list[tuple[str, Any]]) -> None:
        """Register the entries again, in this order."""
        before = dict(self._entries())
        try:
            for name in before:
                self._forget(name)
            for i, (name, value) in enumerate(items):
                self._enter(str(i) if isinstance(name, str) and name.isdigit() else name, value)
        except (TypeError, ValueError):
            for name in list(self._entries()):
                self._forget(name)
            self._entries().update(before)
            if self._entries() is self._children:
                vars(self).update(before)
            note_structure()
            raise

    # -- a list -------------------------------------------------------------------------------------

    def append(self, layer: Any) -> Self:
        """Add a `layer` at the end, whose name is its index; return the container."""
        self._enter(str(len(self)), layer)
        return self

    def extend(self, layers: Iterable[Any]) -> Self:
        """Add `layers` at the end, whose names are their indices; return the container."""
        for layer in layers:
            self.append(layer)
        return self

    def insert(self, index: int, layer: Any) -> Self:
        """Insert a `layer` before the one at `index`; later indices increase by one. Return the container."""
        items = list(self._entries().items())
        items.insert(index, ("0", layer))
        self._arrange(items)
        return self

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._entries().values()))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            part = type(self).__new__(type(self))
            settings = self.__getstate__().items()
            vars(part).update({k: v for k, v in settings if k not in vars(part) | self._children})
            part._arrange(list(self._entries().items())[index])
            return part
        return list(self)[self._position(index)]

    def __setitem__(self, index: int, layer: Any) -> None:
        self._enter(list(self._entries())[self._position(index)], layer)

    def __delitem__(self, index: int | slice) -> None:
        items = list(self._entries().items())
        del items[index if isinstance(index, slice) else self._position(index)]
        self._arrange(items)

    def _position(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            name, noun = type(self).__name__, self._noun
            raise IndexError(f"{noun} {index} does not exist: this {name} has {len(self)} {noun}s")
        return index


class ModuleList(Indexed):
    """A list of registered modules, for use in the `forward` of the containing module.

    Parameters
    ----------
    *modules : Module
        They are named "0", "1", ... Or one mapping of names to modules, in its order.

    Raises
    ------
    TypeError
        If an entry is not a `Module`; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> class Averaged(nn.Module):
    ...     def __init__(self, members):
    ...         self.members = nn.ModuleList(*(nn.Linear(3, 2) for _ in range(members)))
    ...
    ...     def forward(self, x):
    ...         return sum(member(x) for member in self.members) / len(self.members)
    >>> len(list(Averaged(4).parameters()))
    8
    """

    _noun = "module"


class ParameterList(_OfParameters, Indexed):
    """A list of registered parameters.

    Parameters
    ----------
    *parameters : Parameter
        They are named "0", "1", ... Or one mapping of names to parameters, in its order.

    Raises
    ------
    TypeError
        If an entry is not a `Parameter`; the message names it.

    Examples
    --------
    >>> from sknet import nn
    >>> scales = nn.ParameterList(nn.Parameter([1.0]), nn.Parameter([2.0, 3.0]))
    >>> scales
    ParameterList(0: (1,), 1: (2,))
    >>> scales[1]
    Parameter([2., 3.], dtype=float64)
    """

    _noun = "parameter"

    def __init__(self, *parameters: Any) -> None:
        super().__init__(*parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter([bound_parameter(parameter) for parameter in self._parameters.values()])


class _Named(_Collection):
    """A dict whose entries are registered."""

    def __init__(self, entries: Mapping[str, Any] | None = None) -> None:
        if not isinstance(entries, Mapping | None):
            raise TypeError(
                f"The 'entries' parameter of {type(self).__name__} must be a dict or None. Got "
                f"{shown(entries)} instead."
            )
        self.update({} if entries is None else entries)

    def update(self, entries: Mapping[str, Any]) -> None:
        """Add or replace `entries`, in their order."""
        for name, value in entries.items():
            self._enter(name, value)

    def keys(self) -> list[str]:
        return list(self._entries())

    def values(self) -> list[Any]:
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Return pairs of name and entry, in order."""
        return [(name, self[name]) for name in self.keys()]

    def __getitem__(self, name: str) -> Any:
        if name not in self._entries():
            raise KeyError(f"{name!r} is not in this {type(self).__name__}, only {self.keys()}")
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._enter(name, value)

    def __delitem__(self, name: str) -> None:
        del self._entries()[name]
        self._forget(name)
        note_structure()

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class ModuleDict(_Named):
    """A dict of registered modules, for use in the `forward` of the containing module.

    Parameters
    ----------
    entries : mapping of str to Module, default=None
        Entries by name; their order is kept.

    Raises
    ------
    TypeError
        If an entry is not a `Module`; the message names it.

    Examples
    --------
    >>> from sknet import nn
    >>> heads = nn.ModuleDict({"price": nn.Linear(8, 1), "kind": nn.Linear(8, 3)})
    >>> heads["kind"]
    Linear(8, 3)
    >>> [path for path, _ in heads.named_parameters()]
    ['price.weight', 'price.bias', 'kind.weight', 'kind.bias']
    """


class ParameterDict(_OfParameters, _Named):
    """A dict of registered parameters.

    Parameters
    ----------
    entries : mapping of str to Parameter, default=None
        Entries by name; their order is kept.

    Raises
    ------
    TypeError
        If an entry is not a `Parameter`; the message names it.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.ParameterDict({"scale": nn.Parameter([1.0]), "shift": nn.Parameter([0.0])})
    ParameterDict(scale: (1,), shift: (1,))
    """


def _shapes(parameters: Mapping[str, Tensor | Parameter]) -> str:
    return ", ".join(f"{name}: {parameter.shape}" for name, parameter in parameters.items())


class Sequential(Indexed):
    """Modules that are called one after the other, each with the output of the one before.

    Parameters
    ----------
    *layers : Module
        They are named "0", "1", ... Or one mapping of names to modules, in its order.

    Raises
    ------
    TypeError
        If an entry is not a `Module`; the message names it.

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
        The module whose output is added to its input.
    projection : Module, default=None
        Module in the shortcut, for an output of another shape than the input; None for the identity.

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
        return learned + shortcut


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
        Operation that combines the outputs; all but "concat" need outputs of the same shape.
    axis : int, default=-1
        The axis along which "concat" joins, or the new axis of "stack".

    Raises
    ------
    TypeError
        If an entry is not a `Module`; the message names it.

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
    The function is pickled as Python pickles functions: by its module and name, so a ``lambda`` works only if
    nothing is pickled (joblib with several processes pickles).

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
        if not Taking(1, "an input").is_satisfied_by(function):
            raise TypeError(
                f"Lambda needs a function that can be called with the input alone, got {shown(function)}"
            )
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)

    def extra_repr(self) -> str:
        return str(getattr(self.function, "__qualname__", self.function))
