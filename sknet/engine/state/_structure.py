"""A key of everything in Python that a pass can read: models with equal keys share programs.

A `Fingerprint` tells whether a program is still valid for the model it was captured from. The structure tells
for which other models it is valid too, so that these need not be captured: in a second fit, or in a search.
"""

import types
from collections.abc import Callable, Hashable
from functools import cache, partial
from typing import Any, cast

import numpy as np

from sknet.compile.extend import key_of
from sknet.device import Device
from sknet.engine.state._fingerprint import NOT_READ, OWNERS, slots_of
from sknet.nn import Module
from sknet.optim import Optimizer

__all__ = ["has_slots", "structure_of"]

OWN = "sknet."
CONSTANT = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range)
OF_LIBRARIES = ("sknet.", "numpy", "builtins")


class _UnknownError(Exception):
    """An object was found of which it is unknown what a pass reads."""


def structure_of(module: Module | None, *parts: Any) -> Hashable | None:
    """Return a key of everything in Python that a pass can read."""
    seen: dict[int, int] = {}
    try:
        of_module = None if module is None else _of_module(module, seen)
        return of_module, *[_of(part, seen) for part in parts]
    except _UnknownError:
        return None


def _of(value: Any, seen: dict[int, int]) -> Hashable:
    """Return the key of a value."""
    kind = type(value)
    if kind in CONSTANT:
        return key_of(value)
    rule = RULES.get(kind)
    if rule is not None:
        return rule(value, seen)
    if isinstance(value, (np.generic, np.dtype)):
        return key_of(value)
    if isinstance(value, type):
        return _of_library(value)
    return _of_object(value, seen)


def _of_items(value: Any, seen: dict[int, int]) -> Hashable:
    return type(value), tuple([_of(item, seen) for item in value])


def _of_dict(value: dict[Any, Any], seen: dict[int, int]) -> Hashable:
    return dict, tuple([(_of(key, seen), _of(item, seen)) for key, item in value.items()])


def _of_array(value: np.ndarray, seen: dict[int, int]) -> Hashable:
    if value.dtype.hasobject:
        raise _UnknownError
    return key_of(value)


def _of_function(value: types.FunctionType, seen: dict[int, int]) -> Hashable:
    """Return the key of a function of this package: its code, defaults and closure."""
    if not (value.__module__ or "").startswith(OWN):
        raise _UnknownError
    try:
        cells = [_of(cell.cell_contents, seen) for cell in value.__closure__ or ()]
    except ValueError:  # the variable has no value yet
        raise _UnknownError from None
    made_with = _of(value.__defaults__, seen), _of(value.__kwdefaults__, seen)
    return types.FunctionType, value.__code__, made_with, tuple(cells)


def _of_method(value: types.MethodType, seen: dict[int, int]) -> Hashable:
    return types.MethodType, _of(value.__func__, seen), _of(value.__self__, seen)


def _of_partial(value: "partial[Any]", seen: dict[int, int]) -> Hashable:
    return partial, _of(value.func, seen), _of(value.args, seen), _of(value.keywords, seen)


def _of_library(value: Any) -> Hashable:
    """Return a class or function that does not change."""
    if not (value.__module__ or "").startswith(OF_LIBRARIES):
        raise _UnknownError
    return type, value


def _of_device(value: Device, seen: dict[int, int]) -> Hashable:
    return Device, value


def _of_object(value: Any, seen: dict[int, int]) -> Hashable:
    """Return the key of an object of this package: its class and its attributes."""
    kind = type(value)
    if not kind.__module__.startswith(OWN) or kind.__module__.startswith(OWNERS):
        raise _UnknownError
    # A module that is no child of the network, such as a teacher, has its own values.
    if isinstance(value, Module) or hasattr(value, "__array__"):
        raise _UnknownError
    number = seen.get(id(value))
    if number is not None:
        return kind, number
    seen[id(value)] = len(seen)
    state = getattr(value, "__dict__", {})
    left_out = "lr" if Optimizer in kind.__mro__ else None  # the host computes learning rates
    attributes = [(name, _of(item, seen)) for name, item in state.items() if name != left_out]
    slots = [(name, _of(getattr(value, name, None), seen)) for name in _slots(cast(Hashable, kind))]
    return kind, tuple(attributes), tuple(slots)


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    return tuple(name for each in kind.__mro__ for name in slots_of(each))


def has_slots(kind: type) -> bool:
    """Tell whether objects of a class have attributes outside of their `__dict__`."""
    return bool(_slots(cast(Hashable, kind)))


def _of_module(module: Module, seen: dict[int, int]) -> Hashable:
    """Return the key of a module and its submodules."""
    kind = type(module)
    forward: Any = kind.forward
    if not (kind.__module__.startswith(OWN) and forward.__module__.startswith(OWN)):
        raise _UnknownError
    number = seen.get(id(module))
    if number is not None:  # a shared module
        return kind, number
    seen[id(module)] = len(seen)
    state = vars(module)
    children = state["_children"]
    attributes = [
        (name, _of(value, seen))
        for name, value in state.items()
        if name not in REGISTERED and name not in children
    ]
    parameters = [
        (name, seen.setdefault(id(p), len(seen)), p.data.shape, p.data.dtype, p.requires_grad)
        for name, p in state["_parameters"].items()
    ]
    buffers = [(name, b.data.shape, b.data.dtype) for name, b in state["_buffers"].items()]
    below = [(name, _of_module(child, seen)) for name, child in children.items()]
    return kind, forward, tuple(attributes), tuple(parameters), tuple(buffers), tuple(below)


REGISTERED = NOT_READ | {"_parameters", "_children"}
RULES: dict[type, Callable[[Any, dict[int, int]], Hashable]] = {
    tuple: _of_items,
    list: _of_items,
    dict: _of_dict,
    np.ndarray: _of_array,
    Device: _of_device,
    types.FunctionType: _of_function,
    types.MethodType: _of_method,
    partial: _of_partial,
    types.BuiltinFunctionType: lambda value, seen: _of_library(value),
    np.ufunc: lambda value, seen: (np.ufunc, value),
}
