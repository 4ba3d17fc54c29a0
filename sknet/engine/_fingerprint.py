"""The one rule that decides whether a captured program is still valid, for training and prediction.

A program is made by running Python code once. Everything that the code read is then fixed in the
program: attributes of modules, losses and optimizers, the contents of their lists, dicts, arrays and
other objects, at any depth, and the sets of modules, parameters and hooks. A fingerprint records all of
it when a program is made, and later tells whether anything has changed.
"""

import types
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache, partial
from operator import is_
from typing import Any, cast

import numpy as np

from sknet._constraints import PLAIN
from sknet.compile._graph import key_of
from sknet.compile._symbolic import SymbolicGraph
from sknet.core import Tensor
from sknet.device import Device, is_array, namespace
from sknet.nn import Module
from sknet.nn._parameter import latest
from sknet.optim import Optimizer

# Objects of these types are treated as constants.
CONSTANT = (
    *(int, float, complex, str, bytes, bool, type(None), type(Ellipsis), slice, range, type),
    *(types.ModuleType, types.BuiltinFunctionType, np.generic, np.dtype, np.ufunc, Device),
    SymbolicGraph,
)
# Types that are often met, for which the answer of `is_array` is known.
NO_ARRAYS = frozenset({dict, list, tuple, set, types.FunctionType, types.MethodType, partial})
# Attributes that a pass does not read: a Scope decides the mode, the version says how weights were drawn.
NOT_READ = frozenset({"_training", "_init_version", "_buffers", "_transient"})
# Modules whose objects change during training but are not read by captured code.
OWNERS = ("sknet.engine", "sknet.estimators", "logging", "threading", "concurrent.", "multiprocessing.")
SMALL = 1 << 16  # bytes up to which arrays are compared as `bytes`, and element by element above

Dict = tuple[dict[Any, Any], list[Any], list[Any]]  # a dict, its keys and its values
Other = tuple[Callable[[], Iterable[Any]], list[Any]]  # a function that reads objects, and those it returned


class Fingerprint:
    """Everything that a program depends on and that Python code can change."""

    def __init__(self, module: Module, *parts: Any) -> None:
        self._mark = latest.settings
        self._dicts: list[Dict] = []
        self._others: list[Other] = []
        self._arrays: list[tuple[Any, Any]] = []
        self._modules: list[tuple[Module, list[Any]]] = []
        modules = list(module.modules())
        self._inside = set(map(id, modules))
        seen: dict[int, Any] = {id(p): p for each in modules for p in each._parameters.values()}
        self._watch_items((module, *parts), seen)

    def holds(self) -> bool:
        """Tell whether nothing has changed since this was made."""
        for live, keys, values in self._dicts:
            if len(live) != len(keys) or not (
                all(map(is_, live, keys)) and all(map(is_, live.values(), values))
            ):
                return False
        for read, before in self._others:
            now = list(read())
            if len(now) != len(before) or not all(map(is_, now, before)):
                return False
        for array, copy in self._arrays:
            if not _same(array, copy):
                return False
        mark = latest.settings
        if mark is not self._mark:
            for module, before in self._modules:
                now = _of_module(module)
                if len(now) != len(before) or not all(map(is_, now, before)):
                    return False
            self._mark = mark
        return True

    # -- recording ----------------------------------------------------------------------------------

    def _watch(self, value: Any, seen: dict[int, Any]) -> None:
        """Record everything mutable in a value that was not seen yet, and in all that it refers to."""
        if isinstance(value, CONSTANT):
            return
        seen[id(value)] = value
        if type(value) not in NO_ARRAYS and not isinstance(value, Module) and is_array(value):
            self._watch_array(value, seen)
            return
        for kinds, watch in WATCHED:
            if isinstance(value, kinds):
                watch(self, value, seen)
                return
        if hasattr(type(value), "keys") and isinstance(value, Mapping):  # asking an abstract class takes long
            self._watch_all(partial(_of_mapping, value), seen)
            return
        self._watch_object(value, seen)

    def _watch_dict(self, value: dict[Any, Any], seen: dict[int, Any]) -> None:
        keys, values = list(value), list(value.values())
        self._dicts.append((value, keys, values))
        self._watch_items((*keys, *values), seen)

    def _watch_items(self, items: Iterable[Any], seen: dict[int, Any]) -> None:
        for item in items:
            if type(item) not in PLAIN and id(item) not in seen:
                self._watch(item, seen)

    def _watch_tensor(self, tensor: Tensor, seen: dict[int, Any]) -> None:
        self._others.append((partial(_of_tensor, tensor), [tensor.data, tensor.node]))
        self._watch_items((tensor.data,), seen)

    def _watch_all(self, read: Callable[[], Iterable[Any]], seen: dict[int, Any]) -> None:
        found = list(read())
        self._others.append((read, found))
        self._watch_items(found, seen)

    def _watch_array(self, array: Any, seen: dict[int, Any]) -> None:
        if isinstance(array, np.ndarray) and array.dtype.hasobject:
            self._watch_all(partial(_of_objects, array), seen)
        elif not _is_constant(array):
            self._arrays.append((array, array.tobytes() if array.nbytes <= SMALL else array.copy()))

    def _watch_partial(self, value: "partial[Any]", seen: dict[int, Any]) -> None:
        self._watch_items((value.func, value.args, value.keywords), seen)

    def _watch_function(self, value: types.FunctionType, seen: dict[int, Any]) -> None:
        if value.__closure__ or not value.__module__.startswith("sknet."):  # otherwise it never changes
            self._watch_all(partial(_of_function, value), seen)

    def _watch_method(self, value: types.MethodType, seen: dict[int, Any]) -> None:
        self._watch_items((value.__self__, value.__func__), seen)

    def _watch_module(self, module: Module, seen: dict[int, Any]) -> None:
        found = _of_module(module)
        self._modules.append((module, found))
        # The values of a module outside the network, such as a teacher, are constants of the program.
        values = () if id(module) in self._inside else module._buffers.values()
        self._watch_items((*found, *values), seen)

    def _watch_object(self, value: Any, seen: dict[int, Any]) -> None:
        if type(value).__module__.startswith(OWNERS):
            return
        if isinstance(value, Optimizer) and type(value).__module__.startswith("sknet.optim."):
            self._watch_all(partial(_of_optimizer, value), seen)
            return
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._watch_dict(attributes, seen)
        names = [name for kind in type(value).__mro__ for name in slots_of(kind)]
        if names:
            self._watch_all(partial(_of_slots, value, names), seen)


def _reading(read: Callable[[Any], Iterable[Any]]) -> Callable[[Fingerprint, Any, dict[int, Any]], None]:
    """Return a method that watches an object through a function that yields the same parts each time."""
    return lambda fingerprint, value, seen: fingerprint._watch_all(partial(read, value), seen)


def _of_module(module: Module) -> list[Any]:
    """Return what a forward pass can read of a module, except values of parameters and buffers."""
    found: list[Any] = [type(module)]
    for name, value in vars(module).items():
        if name in ("_parameters", "_children"):
            for pair in value.items():
                found += pair
        elif name not in NOT_READ:
            found += (name, value)
    return [*found, *module._buffers]


def _of_optimizer(optimizer: Optimizer) -> Iterable[Any]:
    """Return what the rule of a built-in optimizer can read; rates are inputs, which the host computes."""
    read = vars(optimizer).copy()
    read.pop("lr", None)
    return *read, *read.values()


def _of_tensor(tensor: Tensor) -> Iterator[Any]:
    yield tensor.data
    yield tensor.node


def _of_mapping(mapping: Mapping[Any, Any]) -> Iterator[Any]:
    yield from mapping
    yield from mapping.values()


def _of_objects(array: Any) -> Any:
    return array.reshape(-1).tolist()


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield function.__code__
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing has been assigned to the variable yet
            yield None


def _of_slots(value: Any, names: Iterable[str]) -> Iterator[Any]:
    for name in names:
        yield getattr(value, name, None)


def slots_of(kind: type) -> Iterator[str]:
    slots = vars(kind).get("__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if name not in ("__dict__", "__weakref__"):
            yield f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name


def _is_constant(array: Any) -> bool:
    """Tell whether an array and all owners of its memory are read-only."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, bytes)


def _same(array: Any, copy: Any) -> bool:
    if isinstance(copy, bytes):
        return bool(array.tobytes() == copy)
    if array.shape != copy.shape or array.dtype != copy.dtype:
        return False
    if isinstance(array, np.ndarray) and array.flags.c_contiguous and array.nbytes % 8 == 0:
        return bool((array.reshape(-1).view(np.uint8).view(np.uint64) == _words(copy)).all())
    different = namespace(array).any((array != copy) & ((array == array) | (copy == copy)))
    return not different.item()


def _words(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8).view(np.uint64)


WATCHED: tuple[tuple[Any, Callable[[Fingerprint, Any, dict[int, Any]], None]], ...] = (
    (Module, Fingerprint._watch_module),
    (Tensor, Fingerprint._watch_tensor),
    (dict, Fingerprint._watch_dict),
    ((tuple, frozenset), Fingerprint._watch_items),
    ((list, set, deque), _reading(iter)),
    (types.FunctionType, Fingerprint._watch_function),
    (types.MethodType, Fingerprint._watch_method),
    (partial, Fingerprint._watch_partial),
)


OWN = "sknet."
TAGGED = frozenset({bool, int, str, type(None)})
VALUE_TYPES = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range)
OF_LIBRARIES = ("sknet.", "numpy", "builtins")


class _UnknownError(Exception):
    """An object was found of which it is unknown what a pass reads."""


def structure_of(module: Module | None, *parts: Any) -> Hashable | None:
    """Return a key of everything in Python that a pass can read."""
    seen: dict[int, int] = {}
    try:
        of_module = None if module is None else _key_of_module(module, seen)
        return of_module, *[_key_of(part, seen) for part in parts]
    except _UnknownError:
        return None


def _key_of(value: Any, seen: dict[int, int]) -> Hashable:
    kind = type(value)
    if kind in TAGGED:  # most attributes, by a key like that of `key_of`
        return kind, value
    if kind in VALUE_TYPES:
        return key_of(value)
    rule = RULES.get(kind)
    if rule is not None:
        return rule(value, seen)
    if isinstance(value, (np.generic, np.dtype)):
        return key_of(value)
    if isinstance(value, type):
        return _key_of_library(value)
    return _key_of_object(value, seen)


def _key_of_items(value: Any, seen: dict[int, int]) -> Hashable:
    return type(value), tuple([_key_of(item, seen) for item in value])


def _key_of_dict(value: dict[Any, Any], seen: dict[int, int]) -> Hashable:
    return dict, tuple([(_key_of(key, seen), _key_of(item, seen)) for key, item in value.items()])


def _key_of_array(value: np.ndarray, seen: dict[int, int]) -> Hashable:
    if value.dtype.hasobject:
        raise _UnknownError
    return key_of(value)


def _key_of_function(value: types.FunctionType, seen: dict[int, int]) -> Hashable:
    """Return the key of a function of this package: its code, defaults and closure."""
    if not (value.__module__ or "").startswith(OWN):
        raise _UnknownError
    try:
        cells = [_key_of(cell.cell_contents, seen) for cell in value.__closure__ or ()]
    except ValueError:  # the variable has no value yet
        raise _UnknownError from None
    made_with = _key_of(value.__defaults__, seen), _key_of(value.__kwdefaults__, seen)
    return types.FunctionType, value.__code__, made_with, tuple(cells)


def _key_of_method(value: types.MethodType, seen: dict[int, int]) -> Hashable:
    return types.MethodType, _key_of(value.__func__, seen), _key_of(value.__self__, seen)


def _key_of_partial(value: "partial[Any]", seen: dict[int, int]) -> Hashable:
    return partial, _key_of(value.func, seen), _key_of(value.args, seen), _key_of(value.keywords, seen)


def _key_of_library(value: Any) -> Hashable:
    """Return a class or function that does not change."""
    if not (value.__module__ or "").startswith(OF_LIBRARIES):
        raise _UnknownError
    return type, value


def _key_of_device(value: Device, seen: dict[int, int]) -> Hashable:
    return Device, value


def _key_of_object(value: Any, seen: dict[int, int]) -> Hashable:
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
    attributes = [(name, _key_of(item, seen)) for name, item in state.items() if name != left_out]
    slots = [(name, _key_of(getattr(value, name, None), seen)) for name in _slots(cast(Hashable, kind))]
    return kind, tuple(attributes), tuple(slots)


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    return tuple(name for each in kind.__mro__ for name in slots_of(each))


def has_slots(kind: type) -> bool:
    """Tell whether objects of a class have attributes outside of their `__dict__`."""
    return bool(_slots(cast(Hashable, kind)))


def _key_of_module(module: Module, seen: dict[int, int]) -> Hashable:
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
        (name, _key_of(value, seen))
        for name, value in state.items()
        if name not in REGISTERED and name not in children
    ]
    parameters = [
        (name, seen.setdefault(id(p), len(seen)), p.data.shape, p.data.dtype, p.requires_grad)
        for name, p in state["_parameters"].items()
    ]
    buffers = [(name, b.data.shape, b.data.dtype) for name, b in state["_buffers"].items()]
    below = [(name, _key_of_module(child, seen)) for name, child in children.items()]
    return kind, forward, tuple(attributes), tuple(parameters), tuple(buffers), tuple(below)


REGISTERED = NOT_READ | {"_parameters", "_children"}
RULES: dict[type, Callable[[Any, dict[int, int]], Hashable]] = {
    tuple: _key_of_items,
    list: _key_of_items,
    dict: _key_of_dict,
    np.ndarray: _key_of_array,
    Device: _key_of_device,
    types.FunctionType: _key_of_function,
    types.MethodType: _key_of_method,
    partial: _key_of_partial,
    types.BuiltinFunctionType: lambda value, seen: _key_of_library(value),
    np.ufunc: lambda value, seen: (np.ufunc, value),
}
