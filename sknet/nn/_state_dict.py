"""Reading a module's state as host arrays, and loading it back: all of it or nothing.

Arrays alone do not tell a later release how to read them. So a state carries metadata, small enough
for JSON: of every module whose class has changed its state since, which `_version` wrote it, and
which version of the initial weights drew its parameters.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Tensor
from sknet.device import is_array, to_device, to_host
from sknet.exceptions import StateError
from sknet.nn._protocols import Stateful
from sknet.nn._registry import join, nearest

__all__ = ["Keys", "StateDict", "load_state_dict", "state_dict"]


class StateDict(dict[str, "np.ndarray[Any, Any]"]):
    """The state of a module: a dict of host arrays by path, and what they mean.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        The arrays by path.
    metadata : dict
        Dicts, strings and numbers, as JSON writes them.

    Notes
    -----
    ``metadata["versions"]`` maps the paths of modules to the `_version` of their class, where it is
    not 1, and ``metadata["init_versions"]`` to the version of the initial weights. A state without
    metadata, such as a plain dict, is assumed to have the current versions.

    Examples
    --------
    >>> from sknet import nn
    >>> state = nn.Sequential(nn.Linear(2, 1)).state_dict()
    >>> list(state), state.metadata
    (['0.weight', '0.bias'], {'versions': {}, 'init_versions': {'0': 2}})
    """

    def __init__(self, arrays: Mapping[str, Any], metadata: dict[str, Any]) -> None:
        super().__init__(arrays)
        self.metadata = metadata

    def __reduce__(self) -> Any:
        return StateDict, (dict(self), self.metadata)


class Keys(NamedTuple):
    """Where a state and a module differ.

    Attributes
    ----------
    missing_keys : list of str
        Paths of the module that the state does not have.
    unexpected_keys : list of str
        Paths of the state that the module does not have.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Linear(2, 1).load_state_dict({"weight": [[1.0], [2.0]], "scale": 1.0}, strict=False)
    Keys(missing_keys=['bias'], unexpected_keys=['scale'])
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


def state_dict(module: Stateful) -> StateDict:
    """Return copies of the parameters and persistent buffers by path, on the host."""
    versions = {path: each._version for path, each in module.named_modules() if each._version != 1}
    metadata = {"versions": versions, "init_versions": module.init_versions()}
    return StateDict({path: np.array(to_host(tensor.data)) for path, tensor in _state(module)}, metadata)


def load_state_dict(module: Stateful, state: Mapping[str, Any], strict: bool = True) -> Keys:
    """Copy a state into a module, after checking that all of it fits."""
    own, metadata = dict(_state(module)), getattr(state, "metadata", None)
    if metadata is not None:
        state = _migrated(module, state, metadata["versions"])
    keys = Keys([path for path in own if path not in state], [path for path in state if path not in own])
    problems = _differences(keys) if strict else []
    arrays = {path: _host(state[path]) for path in own if path in state}
    problems += [complaint for path, array in arrays.items() for complaint in _misfit(path, own[path], array)]
    if problems:
        raise StateError(
            f"this state does not fit {type(module).__name__}; nothing was loaded:\n  "
            + "\n  ".join(problems)
        )
    for path, array in arrays.items():
        target = own[path]
        target.data = to_device(np.array(array, dtype=target.dtype), target.device)
    if metadata is not None:
        for path, each in module.named_modules():
            vars(each)["_init_version"] = metadata["init_versions"].get(path)
    return keys


def _migrated(module: Stateful, state: Mapping[str, Any], versions: Mapping[str, int]) -> dict[str, Any]:
    """Return a state as the current classes would have written it."""
    changed = dict(state)
    for path, each in module.named_modules():
        version = versions.get(path, 1)
        if version > each._version:
            raise StateError(
                f"the state of {path or type(each).__name__!r} was written by version {version} of "
                f"{type(each).__name__}, this release knows versions up to {each._version}: "
                "install a later one"
            )
        if version < each._version:
            each._migrate_state(changed, f"{path}." if path else "", version)
    return changed


def _state(module: Stateful) -> Iterator[tuple[str, Tensor]]:
    yield from module.own_parameters()
    for path, owner in module.named_modules():
        for name, buffer in owner._buffers.items():
            if name not in owner._transient:
                yield join(path, name), buffer


def _host(value: Any) -> np.ndarray[Any, Any]:
    value = value.data if isinstance(value, Tensor) else value
    return np.asarray(to_host(value) if is_array(value) else value)


def _differences(keys: Keys) -> list[str]:
    missing, unexpected = keys
    problems = []
    if missing:
        problems.append(f"missing: {', '.join(map(repr, missing))}")
    if unexpected:
        problems.append(
            f"unexpected: {', '.join(repr(path) + nearest(path, missing) for path in unexpected)}"
        )
    if problems:
        problems.append("strict=False loads what is common to both")
    return problems


def _misfit(path: str, target: Tensor, array: np.ndarray[Any, Any]) -> list[str]:
    if array.shape != target.shape:
        return [f"{path!r}: expected shape {target.shape}, got {array.shape}"]
    if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, target.dtype, "same_kind"):
        return [f"{path!r}: expected a dtype that converts to {target.dtype}, got {array.dtype}"]
    return []
