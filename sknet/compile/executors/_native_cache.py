"""Compiled functions: kept in this process, and as source with Numba's machine code on disk."""

import importlib.util
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["cache_directory", "compiled", "is_compiled", "is_on_disk"]

_functions: dict[tuple[str, str], Callable[..., int]] = {}
_modules: dict[str, Any] = {}
_lock = threading.Lock()


def cache_directory() -> Path:
    """Return where sources and machine code are kept: `SKNET_CACHE_DIR`, or the user's cache directory."""
    given = os.environ.get("SKNET_CACHE_DIR")
    home = Path.home()
    system = {"Windows": home / "AppData/Local", "Darwin": home / "Library/Caches"}.get(platform.system(), home / ".cache")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or system) / "sknet"
    return base / f"{sys.implementation.cache_tag}-numba{version('numba')}-numpy{np.__version__}"


def is_compiled(key: str, types: str) -> bool:
    """Tell whether this process has the function for these types of arguments."""
    return (key, types) in _functions


def is_on_disk(key: str, types: str) -> bool:
    """Tell whether some process has compiled the function for these types of arguments."""
    return _mark(key, types).exists()


def compiled(source: str, key: str, arguments: tuple[Any, ...]) -> Callable[..., int]:
    """Return the compiled function of a source, from wherever it is found first.

    Parameters
    ----------
    source : str
        With ``{cache}`` where it says whether Numba keeps the machine code.
    key : str
        The same for the same source, and no other.
    arguments : tuple
        Examples of the arguments: their types count.

    Returns
    -------
    callable
        The function.
    """
    types = types_of(arguments)
    found = _functions.get((key, types))
    if found is None:
        with _lock:  # the same structure is compiled once, whoever asks first
            found = _functions.get((key, types))
            if found is None:
                found = _functions[key, types] = _compile(source, key, types, arguments)
    return found


def types_of(arguments: tuple[Any, ...]) -> str:
    """Return a text that is the same for arguments of the same types."""
    return ";".join(_type_of(x) for x in arguments)


def _type_of(x: Any) -> str:
    if not isinstance(x, np.ndarray):
        return type(x).__name__
    order = "C" if x.flags.c_contiguous else "F" if x.flags.f_contiguous else "A"
    return f"{x.dtype.str}{x.ndim}{order}{'' if x.flags.writeable else 'r'}{'' if x.flags.aligned else 'u'}"


def _compile(source: str, key: str, types: str, arguments: tuple[Any, ...]) -> Callable[..., int]:
    import numba

    module = _modules.get(key)
    if module is None:
        module = _modules[key] = _module(source, key)
    steps = module.steps
    steps.compile(tuple(numba.typeof(x) for x in arguments))
    if module.is_cached:
        _written(_mark(key, types), "")
    return steps  # type: ignore[no-any-return]


def _mark(key: str, types: str) -> Path:
    import hashlib

    digest = hashlib.sha256(types.encode()).hexdigest()[:12]
    return cache_directory() / f"{_name(key)}.{digest}.done"


def _name(key: str) -> str:
    return f"sknet_steps_{key}"


def _module(source: str, key: str) -> ModuleType:
    path = cache_directory() / f"{_name(key)}.py"
    is_cached = _is_there(path, source.replace("{cache}", "True"))
    if is_cached:
        spec = importlib.util.spec_from_file_location(_name(key), path)
        assert spec is not None and spec.loader is not None  # noqa: S101  it is a Python file
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = ModuleType(_name(key))
        exec(compile(source.replace("{cache}", "False"), f"<{_name(key)}>", "exec"), module.__dict__)
    module.is_cached = is_cached  # type: ignore[attr-defined]
    return module


def _is_there(path: Path, text: str) -> bool:
    """Write a file unless it is there; False where it cannot be."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return os.access(path.parent, os.W_OK)
    except OSError:
        pass
    return _written(path, text)


def _written(path: Path, text: str) -> bool:
    """Write a file as a whole or not at all; other processes may do the same at the same time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.utime(name, (0, 0))  # Numba compares times: the same text must have the same
        os.replace(name, path)
    except OSError:
        return False
    return True
