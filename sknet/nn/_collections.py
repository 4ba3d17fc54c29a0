"""Collections of modules and parameters: lists and dicts whose entries are registered."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from sknet._constraints import shown
from sknet._fields import Named
from sknet.core import Tensor
from sknet.nn._changes import note_structure
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter
from sknet.nn._scope import bound_parameter

__all__ = ["Indexed", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList"]


class Indexed(Module):
    """Base of ordered collections, such as `Sequential`: each is a list of its children."""

    _noun = "layer"
    _stored_fields = {
        "*": Named("Module"),
    }

    def __init__(self, *modules: Any) -> None:
        name = type(self).__name__
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            raise TypeError(f"{name} takes modules as separate arguments: write {name}(*layers)")
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            self._arrange(list(modules[0].items()))
        else:
            self.extend(modules)

    # -- what a subclass may keep in place of modules -----------------------------------------------

    def _entries(self) -> dict[str, Any]:
        return self._children

    def _enter(self, name: str, value: Any) -> None:
        self.register_module(name, value)

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
        """Add an entry at the end.

        Parameters
        ----------
        layer : Module
            Its name is its index.

        Returns
        -------
        Indexed
            Itself.
        """
        self._enter(str(len(self)), layer)
        return self

    def extend(self, layers: Iterable[Any]) -> Self:
        """Add entries at the end.

        Parameters
        ----------
        layers : iterable of Module
            Their names are their indices.

        Returns
        -------
        Indexed
            Itself.
        """
        for layer in layers:
            self.append(layer)
        return self

    def insert(self, index: int, layer: Any) -> Self:
        """Add an entry before another one.

        Parameters
        ----------
        index : int
            Where, as in a list.
        layer : Module
            Its name is its index, and the numbers after it go up by one.

        Returns
        -------
        Indexed
            Itself.
        """
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
    """A list of registered modules; the `forward` of the module around it says how they are used.

    Parameters
    ----------
    *modules : Module
        They are named "0", "1", ... Or one mapping of names to modules, in its order.

    Raises
    ------
    TypeError
        If an entry is not a `Module`; names it.

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


class ParameterList(Indexed):
    """A list of registered parameters.

    Parameters
    ----------
    *parameters : Parameter
        They are named "0", "1", ... Or one mapping of names to parameters, in its order.

    Raises
    ------
    TypeError
        If an entry is not a `Parameter`; names it.

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
    _stored_fields = {
        "*": Named("Parameter"),
    }

    def __init__(self, *parameters: Any) -> None:
        super().__init__(*parameters)

    def _entries(self) -> dict[str, Any]:
        return self._parameters

    def _enter(self, name: str, value: Any) -> None:
        self.register_parameter(name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter([bound_parameter(parameter) for parameter in self._parameters.values()])

    def extra_repr(self) -> str:
        """Return names and shapes."""
        return _shapes(self._parameters)


class _Named(Module):
    """A dict whose entries are registered."""

    def __init__(self, entries: Mapping[str, Any] | None = None) -> None:
        if not isinstance(entries, Mapping | None):
            raise TypeError(
                f"The 'entries' parameter of {type(self).__name__} must be a dict or None. Got "
                f"{shown(entries)} instead."
            )
        self.update({} if entries is None else entries)

    def _entries(self) -> dict[str, Any]:
        return self._children

    def _enter(self, name: str, value: Any) -> None:
        self.register_module(name, value)

    def update(self, entries: Mapping[str, Any]) -> None:
        """Add or replace entries.

        Parameters
        ----------
        entries : mapping of str to Module or Parameter
            In their order.
        """
        for name, value in entries.items():
            self._enter(name, value)

    def keys(self) -> list[str]:
        """Return the names, in order."""
        return list(self._entries())

    def values(self) -> list[Any]:
        """Return the entries, in order."""
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
    """A dict of registered modules; the `forward` of the module around it says how they are used.

    Parameters
    ----------
    entries : mapping of str to Module, default=None
        In their order.

    Raises
    ------
    TypeError
        If an entry is not a `Module`; names it.

    Examples
    --------
    >>> from sknet import nn
    >>> heads = nn.ModuleDict({"price": nn.Linear(8, 1), "kind": nn.Linear(8, 3)})
    >>> heads["kind"]
    Linear(8, 3)
    >>> [path for path, _ in heads.named_parameters()]
    ['price.weight', 'price.bias', 'kind.weight', 'kind.bias']
    """

    _stored_fields = {
        "*": Named("Module"),
    }


class ParameterDict(_Named):
    """A dict of registered parameters.

    Parameters
    ----------
    entries : mapping of str to Parameter, default=None
        In their order.

    Raises
    ------
    TypeError
        If an entry is not a `Parameter`; names it.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.ParameterDict({"scale": nn.Parameter([1.0]), "shift": nn.Parameter([0.0])})
    ParameterDict(scale: (1,), shift: (1,))
    """

    _stored_fields = {
        "*": Named("Parameter"),
    }

    def _entries(self) -> dict[str, Any]:
        return self._parameters

    def _enter(self, name: str, value: Any) -> None:
        self.register_parameter(name, value)

    def extra_repr(self) -> str:
        """Return names and shapes."""
        return _shapes(self._parameters)


def _shapes(parameters: Mapping[str, Tensor | Parameter]) -> str:
    return ", ".join(f"{name}: {parameter.shape}" for name, parameter in parameters.items())
