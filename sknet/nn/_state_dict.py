"""Reading a module's state as host arrays, and loading it back: all of it or nothing."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core import Tensor
from sknet.device import to_device, to_host
from sknet.exceptions import StateError
from sknet.nn._registry import join

if TYPE_CHECKING:
    from sknet.nn._module import Module

__all__ = ["load_state_dict", "nearest", "state_dict"]


def nearest(path: str, known: Iterable[str]) -> str:
    """Return a hint at the known path that was probably meant, or nothing."""
    found = difflib.get_close_matches(path, list(known), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def state_dict(module: "Module") -> dict[str, np.ndarray[Any, Any]]:
    """Return copies of the parameters and persistent buffers by path, on the host."""
    return {path: np.array(to_host(tensor.data)) for path, tensor in _state(module)}


def load_state_dict(module: "Module", state: Mapping[str, Any], strict: bool = True) -> None:
    """Copy a state into a module, after checking that all of it fits."""
    own = dict(_state(module))
    problems = _differences(own, state) if strict else []
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


def _state(module: "Module") -> Iterator[tuple[str, Tensor]]:
    yield from module.own_parameters()
    for path, owner in module.named_modules():
        for name, buffer in owner._buffers.items():
            if name not in owner._transient:
                yield join(path, name), buffer


def _host(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(to_host(value.data) if isinstance(value, Tensor) else value)


def _differences(own: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    missing = [path for path in own if path not in state]
    unexpected = [path for path in state if path not in own]
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
