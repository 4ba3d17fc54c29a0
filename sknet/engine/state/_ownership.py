"""Ownership of modules: a model trains a copy, or the module itself if no other model owns any of it."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from sknet.exceptions import StateError
from sknet.nn import Module, Parameter

__all__ = ["check_free", "copy_of"]


def copy_of(module: Module) -> Module:
    """Return a copy of a module that shares only the arrays of its parameters."""
    known: dict[int, Any] = {}
    for each in module.modules():
        for parameter in each._parameters.values():
            if parameter.is_drawn and parameter.home is None:
                known[id(parameter.data)] = parameter.data  # the model's memory copies them
    try:
        return deepcopy(module, known)
    except TypeError as error:
        raise TypeError(
            f"a Model copies its module, but this {type(module).__name__} cannot be copied "
            f"({error}): pass copy=False to hand over the module itself"
        ) from error


def check_free(parameters: Mapping[str, Parameter], home: Any = None) -> None:
    """Raise a StateError if an owner other than `home` has one of the parameters."""
    for name, parameter in parameters.items():
        if parameter.home not in (None, home):
            raise StateError(
                f"parameter {name!r} belongs to another Model, which may still train it: give this one a "
                "copy of the module, module.copy(), or leave out copy=False"
            )
