"""NVIDIA's run-time compiler, by ctypes: it compiles CUDA C for any GPU on a machine that has none.

It is called with the options that CuPy gives it for a module of ours. The assembler's report on registers
and spilled bytes is asked for in addition; it changes no code.
"""

import ctypes
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sknet.device._cupy import KERNEL_OPTIONS

__all__ = ["Compiled", "Resources", "compiled", "options", "version"]

# What CuPy 14 adds to the options of a RawModule: `assemble_cupy_compiler_options` in cupy/_core/core.pyx,
# `_compile_with_cache_cuda` and `_compile_using_nvrtc` in cupy/cuda/compiler.py; tests/gpu_check compares.
# CuPy also names folders of headers, which matter only to a text that includes some.
OF_CUPY = ("--std=c++17", "-ftz=true", "-arch=sm_{architecture}", "--device-as-default-execution-space")
REPORT = "--ptxas-options=-v"


class Resources(NamedTuple):
    """What the assembler reports on a kernel: registers of a thread, and bytes of its local memory."""

    registers: int
    stack: int
    spilled: int


class Compiled(NamedTuple):
    """A module for one architecture: bytes of its code, its kernels, and the compiler's other messages."""

    size: int
    kernels: dict[str, Resources]
    messages: str


@cache
def _library() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia")
    folders = [Path(place) / "cuda_nvrtc/lib" for place in (found and found.submodule_search_locations) or ()]
    files = [path for folder in folders for path in sorted(folder.glob("libnvrtc.so.*"))]
    if not files:
        raise RuntimeError(
            "the text of kernels is compiled by NVRTC, which is not installed: python -m pip install -e "
            "'.[gpu-check]', or leave out tests/gpu_check"
        )
    library = ctypes.CDLL(str(files[0]))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _call(name: str, *args: object) -> None:
    status = getattr(_library(), name)(*args)
    if status:
        raise RuntimeError(f"{name}: {_library().nvrtcGetErrorString(status).decode()}")


@cache
def version() -> tuple[int, int]:
    """Return the version of NVRTC, which is that of CUDA."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def options(architecture: int) -> tuple[str, ...]:
    """Return what CuPy passes to NVRTC for a module of sknet; ``90`` stands for sm_90."""
    return (*KERNEL_OPTIONS, *[text.format(architecture=architecture) for text in OF_CUPY])


def compiled(source: str, architecture: int) -> Compiled:
    """Compile a module.

    Raises
    ------
    RuntimeError
        If it does not compile, with the compiler's messages.
    """
    program, given = ctypes.c_void_p(), (*options(architecture), REPORT)
    _call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"module.cu", 0, None, None)
    try:
        texts = (ctypes.c_char_p * len(given))(*[text.encode() for text in given])
        status = _library().nvrtcCompileProgram(program, len(given), texts)
        log = _log(program)
        if status:
            raise RuntimeError(f"a module does not compile for sm_{architecture}:\n{log}\n{source}")
        size = ctypes.c_size_t()
        _call("nvrtcGetCUBINSize", program, ctypes.byref(size))
    finally:
        _call("nvrtcDestroyProgram", ctypes.byref(program))
    return Compiled(size.value, _resources(log), _messages(log))


def _log(program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    _call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _call("nvrtcGetProgramLog", program, text)
    return text.value.decode()


ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_\d+'\n"
    r"ptxas info    : Function properties for (?P=name)\n"
    r"ptxas         \.\s+(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads\n"
    r"ptxas info    : Used (?P<registers>\d+) registers"
)


def _resources(log: str) -> dict[str, Resources]:
    return {
        found["name"]: Resources(
            int(found["registers"]), int(found["stack"]), int(found["stores"]) + int(found["loads"])
        )
        for found in ENTRY.finditer(log)
    }


def _messages(log: str) -> str:
    """Return what is left of a log without the assembler's report: NVRTC cannot take warnings as errors."""
    report = re.compile(r"ptxas (info    :|        \.) ")
    return "\n".join(line for line in log.splitlines() if line.strip() and not report.match(line))
