"""Redirecting functions that are linked into CuPy's modules: CUDA's runtime, and what is compiled of CUB.

The runtime in CuPy's wheels is part of its modules, and no library could take its place. So the first bytes
of each of its functions are overwritten in memory by a jump to the emulator's function of that name.
"""

import ctypes
import platform
import re
from pathlib import Path

from tests.devices.emulated.building import run

__all__ = ["redirect"]

RUNTIME = re.compile(r"^([0-9a-f]+) t (cuda[A-Z]\w*)$", re.MULTILINE)
COMPILED = re.compile(r"^([0-9a-f]+) T (_Z\d+(?:cub|thrust)_\w+)$", re.MULTILINE)
PAGE = 4096
READ_WRITE_EXECUTE = 7


def redirect(module: str, library: ctypes.CDLL) -> int:
    """Redirect a loaded module's functions to those of a library; return how many are there."""
    if platform.machine() != "x86_64":
        raise RuntimeError(
            f"the emulated CUDA driver needs an x86-64 processor, and this is {platform.machine()}"
        )
    base = _base(module)
    symbols = run(["nm", module])
    found = [*RUNTIME.findall(symbols), *COMPILED.findall(symbols)]
    for offset, name in found:
        target = getattr(library, name, library.emulator_unsupported)
        _write_jump(base + int(offset, 16), ctypes.cast(target, ctypes.c_void_p).value or 0)
    return sum(hasattr(library, name) for _, name in found)


def _base(module: str) -> int:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(module):
            return int(line.partition("-")[0], 16)
    raise RuntimeError(f"{module} is not loaded")


def _write_jump(address: int, target: int) -> None:
    # movabs target, %r11; jmp *%r11: no argument is in this register.
    code = b"\x49\xbb" + target.to_bytes(8, "little") + b"\x41\xff\xe3"
    page = address // PAGE * PAGE
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), 2 * PAGE, READ_WRITE_EXECUTE):
        raise RuntimeError(
            "this system forbids to overwrite functions of CuPy, which the emulated driver needs"
        )
    ctypes.memmove(address, code, len(code))
