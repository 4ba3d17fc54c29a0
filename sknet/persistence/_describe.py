"""Descriptions of parameters and data in a document, for later comparison."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np

from sknet.device import is_array, to_host
from sknet.nn import Module

CHUNK = 1 << 24  # bytes of an array that are copied at a time, if it must be copied
CLASS, VALUES = "class", "sha256"


def describe(value: Any) -> Any:
    """Return the description of a parameter, for a document."""
    return _described(value, ())


def _described(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if id(value) in above:  # a reference cycle
        return {CLASS: _named(type(value))}
    if hasattr(type(value), "_get_param_names"):  # an estimator of scikit-learn, or a parameter object
        return _of_params(value, (*above, id(value)))
    for kinds, found in DESCRIBED:
        if isinstance(value, kinds):
            return found(value, (*above, id(value)))
    if is_array(value) or hasattr(value, "indptr"):
        return digest(value)
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return {"name": _named(value)}
    return _of_object(value, (*above, id(value)))


def _named(value: Any) -> str:
    return f"{getattr(value, '__module__', None) or 'builtins'}.{value.__qualname__}"


def _of_mapping(value: Mapping[Any, Any], above: tuple[int, ...]) -> Any:
    return {key if isinstance(key, str) else repr(key): _described(x, above) for key, x in value.items()}


def _of_sequence(value: Sequence[Any], above: tuple[int, ...]) -> Any:
    return [_described(item, above) for item in value]


def _of_set(value: Any, above: tuple[int, ...]) -> Any:
    return sorted((_described(item, above) for item in value), key=repr)


def _of_params(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, type):
        return {"name": _named(value)}
    params = value.get_params(deep=False)
    return {CLASS: _named(type(value)), "params": _of_mapping(params, above)}


def _of_module(value: Module, above: tuple[int, ...]) -> Any:
    own = {name: x for name, x in vars(value).items() if not name.startswith("_")}
    children = {name: _described(child, above) for name, child in value.named_children()}
    return {CLASS: _named(type(value)), **_of_mapping(own, above), **children}


def _of_partial(value: "partial[Any]", above: tuple[int, ...]) -> Any:
    return {
        "name": _described(value.func, above),
        "args": _described([list(value.args), value.keywords], above),
    }


def _of_object(value: Any, above: tuple[int, ...]) -> Any:
    return {CLASS: _named(type(value)), **_of_mapping(getattr(value, "__dict__", {}), above)}


def _of_random_state(value: Any, above: tuple[int, ...]) -> Any:
    return {CLASS: _named(type(value))}  # its state changes with every draw


DESCRIBED: tuple[tuple[Any, Callable[[Any, tuple[int, ...]], Any]], ...] = (
    ((np.random.RandomState, np.random.Generator), _of_random_state),
    (Module, _of_module),
    (Mapping, _of_mapping),
    ((list, tuple, range), _of_sequence),
    ((set, frozenset), _of_set),
    (partial, _of_partial),
    (PathLike, lambda value, above: fspath(value)),
    (np.dtype, lambda value, above: str(value)),
)


def digest(array: Any) -> dict[str, Any]:
    """Return a digest of data: shape, dtype and a hash of all bytes."""
    found: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    parts = [array]
    if hasattr(array, "format"):  # sparse
        array = array if hasattr(array, "indptr") else array.tocsr()
        found["format"] = array.format
        parts = [array.data, array.indices, array.indptr]
    seen = hashlib.sha256()
    for part in parts:
        is_computed = hasattr(part, "write")  # some rows at a time: all of them may not fit into memory
        _feed(seen, to_host(part) if is_array(part) else part if is_computed else np.asarray(part))
    return {**found, VALUES: seen.hexdigest()}


def _feed(seen: Any, array: Any) -> None:
    """Hash an array in row-major order, copying only a few rows at a time."""
    if array.dtype.hasobject:
        seen.update(repr(array.tolist()).encode())
        return
    if isinstance(array, np.ndarray) and (array.flags.c_contiguous or not array.ndim):
        seen.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return
    rows = max(1, CHUNK // max(array.nbytes // max(len(array), 1), 1))
    for start in range(0, len(array), rows):
        seen.update(np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8))


def differences(before: Any, now: Any, place: str = "") -> list[str]:
    """Return the differences of two descriptions, in words that name the parts."""
    if before == now or (before != before and now != now):
        return []
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return [f"{place} was {_said(before)} and is {_said(now)}"]
    if VALUES in before and VALUES in now:
        return _of_data(before, now, place)
    if before.get(CLASS) != now.get(CLASS) or before.get("name") != now.get("name"):
        return [f"{place} was {_said(before)} and is {_said(now)}"]
    before, now = before.get("params", before), now.get("params", now)
    found = []
    for name in {**before, **now}:
        inner = f"{place}__{name}" if place else name
        if name not in now:
            found.append(f"{inner} was {_said(before[name])} and is missing now")
        elif name not in before:
            found.append(f"{inner} is {_said(now[name])} and was missing")
        else:
            found += differences(before[name], now[name], inner)
    return found


def _of_data(before: Mapping[str, Any], now: Mapping[str, Any], place: str) -> list[str]:
    for what in ("format", "shape", "dtype"):
        if before.get(what) != now.get(what):
            return [f"the {what} of {place} was {_said(before.get(what))} and is {_said(now.get(what))}"]
    return [f"{place} has other values"]


def _said(value: Any) -> str:
    """Return a description as text, for objects only the class."""
    if isinstance(value, dict):
        name = value.get(CLASS) or value.get("name")
        if name is not None:
            return str(name).rpartition(".")[2]
        if VALUES in value:
            return f"an array of shape {tuple(value['shape'])}"
    if isinstance(value, list):
        return f"({', '.join(map(_said, value))})"
    return repr(value)
