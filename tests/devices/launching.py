"""Launching compiled kernels on NumPy arrays, by `blocks.c`, and saying what the sanitizers have found."""

import ctypes
import itertools
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tests.devices.building import built, with_lines

__all__ = ["SanitizerError", "check_reports", "loaded", "runtime"]

FLAGS = ("-O1", "-shared", "-fPIC", "-Wall", "-Werror")
RAN, WAITS_FOR_EVER, REPORTED, UNCHECKED = range(4)  # enum outcome
_reports: list[str] = []  # what the sanitizers have found
_launches = itertools.count()
_one_at_a_time = threading.Lock()


class SanitizerError(RuntimeError):
    """A kernel has used what is not its own, or computed what C does not define."""


class Report(ctypes.Structure):
    """`struct report`."""

    _fields_ = [
        ("text", ctypes.c_char * 256),
        ("argument", ctypes.c_int),
        ("line", ctypes.c_uint),
        ("offset", ctypes.c_size_t),
        ("block", ctypes.c_uint),
        ("thread", ctypes.c_uint),
    ]


@cache
def runtime() -> Path:
    """Return the path of the library that runs kernels, and that they are linked to."""
    texts = [Path(__file__).with_name(name).read_text() for name in ("sanitizers.c", "blocks.c")]
    return built("".join(texts), FLAGS)


@cache
def _runtime() -> ctypes.CDLL:
    library = ctypes.CDLL(str(runtime()))
    library.launch.argtypes = [
        ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_uint,
    ]  # fmt: skip
    return library


def loaded(path: Path, names: Sequence[str]) -> list[Callable[..., None]]:
    """Load a module; return the kernels of these names, called with grid, block and NumPy arrays."""
    library = ctypes.CDLL(str(path))
    return [_kernel(library, path, name) for name in names]


def _kernel(library: ctypes.CDLL, path: Path, name: str) -> Callable[..., None]:
    kernel = ctypes.addressof(ctypes.c_char.in_dll(library, f"kernel_{name}"))
    launch = _runtime().launch

    def run(grid: tuple[int, ...], block: tuple[int, ...], arrays: Sequence[np.ndarray]) -> None:
        n = len(arrays)
        addresses = (ctypes.c_void_p * n)(*[array.ctypes.data for array in arrays])
        bounds = [byte_bounds(array) for array in arrays]
        extents = (ctypes.c_void_p * (2 * n))(*itertools.chain(*bounds))
        with _one_at_a_time:
            backwards = next(_launches) % 2
            outcome = launch(kernel, grid[0], block[0], backwards, addresses, extents, n)
            if outcome == REPORTED:
                _raise(name, path, arrays)
        if outcome == UNCHECKED:
            raise RuntimeError(f"the kernel {name} was compiled without -fsanitize=address")
        if outcome == WAITS_FOR_EVER:
            raise RuntimeError("threads of a block wait for others that never come")

    return run


# -- reports ----------------------------------------------------------------------------------


def check_reports() -> None:
    """Raise if the sanitizers have found something since the last call, in case the error was caught."""
    found = "\n".join(_reports)
    _reports.clear()
    if found:
        raise SanitizerError(found)


def _raise(name: str, path: Path, arrays: Sequence[np.ndarray]) -> None:
    report = Report.in_dll(_runtime(), "report")
    line = report.line or _line_of(path, report.offset)
    what = report.text.decode()
    if report.argument >= 0:
        array = arrays[report.argument]
        what += f" of {array.dtype} and shape {array.shape}, argument {report.argument}"
    text = path.with_suffix(".c").read_text().splitlines()[line - 1].strip()
    message = f"kernel {name}, block {report.block}, thread {report.thread}: {what}, in\n    {text}"
    _reports.append(message)
    raise SanitizerError(message)


def _line_of(path: Path, offset: int) -> int:
    """Return the line of a module's text that its code at an offset was compiled from."""
    command = ["addr2line", "-e", str(with_lines(path)), hex(offset)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.search(r":(\d+)", found)[1])
