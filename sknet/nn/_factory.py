"""ModuleFactory: a network that is built when the data are known, whose arguments are hyperparameters."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self

from sknet._constraints import shown
from sknet._hints import suggestion
from sknet._params import same
from sknet.nn._module import Module

__all__ = ["ModuleFactory"]

VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ModuleFactory:
    """A class of modules and arguments for its constructor, which can be cloned, compared and searched over.

    Parameters
    ----------
    factory : type of Module or callable
        What returns a module.
    **arguments : object
        Its arguments by name. Those that are omitted take their defaults, or are supplied when it is built.

    Raises
    ------
    TypeError
        If it has no argument of such a name; names the nearest.

    Examples
    --------
    >>> from sknet import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_features, n_outputs, hidden=8):
    ...         self.first = nn.Linear(n_features, hidden)
    ...         self.last = nn.Linear(hidden, n_outputs)
    ...
    ...     def forward(self, x):
    ...         return self.last(nn.ReLU()(self.first(x)))
    >>> factory = nn.ModuleFactory(Net, hidden=16)
    >>> factory
    ModuleFactory(Net, hidden=16)
    >>> factory.set_params(hidden=32).build(n_features=4, n_outputs=3)
    Net(
      (first): Linear(4, 32)
      (last): Linear(32, 3)
    )
    """

    def __init__(self, factory: Callable[..., Module], /, **arguments: Any) -> None:
        if not callable(factory) or isinstance(factory, Module):
            raise TypeError(
                f"ModuleFactory needs a class of modules or a function that returns one, got {shown(factory)}"
            )
        self._factory, self._arguments = factory, arguments
        for name in arguments:
            if not self.takes(name):
                raise TypeError(f"{self._missing(name)} Its parameters are {', '.join(self._names())}.")

    # -- what is built -----------------------------------------------------------------------------

    @property
    def factory(self) -> Callable[..., Module]:
        """What returns a module."""
        return self._factory

    @property
    def name(self) -> str:
        """Its name."""
        return getattr(self._factory, "__name__", type(self._factory).__name__)

    def takes(self, name: str) -> bool:
        """Tell whether there is an argument of this name."""
        known = self._signature()
        return name in known or any(p.kind is p.VAR_KEYWORD for p in known.values())

    def needs(self, name: str) -> bool:
        """Tell whether there is an argument of this name that was given no value."""
        return name in self._names() and name not in self._arguments

    def build(self, **known: Any) -> Module:
        """Return a new module.

        Parameters
        ----------
        **known : object
            More arguments; those that were given to the factory take precedence.

        Returns
        -------
        Module
            Its weights have not been drawn yet.

        Raises
        ------
        TypeError
            If an argument without a default is left out, or what is returned is not a module.
        """
        arguments = {**known, **self._arguments}
        missing = [
            name
            for name, parameter in self._signature().items()
            if parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
            and name not in arguments
        ]
        if missing:
            raise TypeError(
                f"{self.name} needs a value for {', '.join(map(repr, missing))}: "
                f"ModuleFactory({self.name}, {missing[0]}=...)"
            )
        module = self._factory(**arguments)
        if not isinstance(module, Module):
            raise TypeError(f"module: {self.name} must return an nn.Module, got {type(module).__name__}")
        return module

    def _signature(self) -> Mapping[str, inspect.Parameter]:
        try:
            known = inspect.signature(self._factory).parameters
        except ValueError:  # of a callable that is not written in Python
            return {}
        return {name: p for name, p in known.items() if p.kind is not p.VAR_POSITIONAL and name != "self"}

    def _names(self) -> list[str]:
        return [name for name, p in self._signature().items() if p.kind not in VARIABLE]

    def _missing(self, name: str) -> str:
        hint = suggestion(name, self._names())
        return f"{self.name} has no parameter {name!r}{hint}"

    # -- as a hyperparameter -------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments by name, with their defaults; if `deep`, also their own parameters."""
        found = {
            name: p.default for name, p in self._signature().items() if p.default is not p.empty
        } | self._arguments
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found.update({f"{name}__{key}": x for key, x in value.get_params(deep=True).items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set arguments, also nested ones: all of them, or none if one does not exist.

        Parameters
        ----------
        **params : object
            New values by name.

        Returns
        -------
        ModuleFactory
            Itself.

        Raises
        ------
        ValueError
            If there is no argument of such a name; names the nearest.
        """
        inner: dict[str, dict[str, Any]] = {}
        own: dict[str, Any] = {}
        for name, value in params.items():
            first, _, rest = name.partition("__")
            if not self.takes(first):
                raise ValueError(f"{self._missing(first)} Its parameters are {', '.join(self._names())}.")
            if rest:
                inner.setdefault(first, {})[rest] = value
            else:
                own[first] = value
        known = {**self.get_params(deep=False), **own}
        for name in inner:
            if not hasattr(known.get(name), "set_params") or isinstance(known[name], type):
                raise ValueError(
                    f"{name!r} of {self.name} is {known.get(name)!r}, which has no parameters of its own"
                )
        from sklearn.base import clone  # networks do without

        for name, values in inner.items():
            own[name] = clone(known[name]).set_params(**values)  # a default belongs to the class
        self._arguments = {**self._arguments, **own}
        return self

    def __sklearn_clone__(self) -> "ModuleFactory":
        from sklearn.base import clone  # which has called this

        copied = {name: clone(value, safe=False) for name, value in self._arguments.items()}
        return type(self)(self._factory, **copied)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModuleFactory):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        known = mine.keys() == theirs.keys() and all(same(mine[name], theirs[name]) for name in mine)
        return self._factory == other._factory and known

    def __hash__(self) -> int:
        return hash(self._factory)

    def __repr__(self) -> str:
        given = [self.name, *(f"{name}={value!r}" for name, value in self._arguments.items())]
        return f"ModuleFactory({', '.join(given)})"
