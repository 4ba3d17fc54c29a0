"""In NVRTC's place: the text of a module of kernels becomes a shared object, compiled by g++.

`tests/gpu_check/test_nvrtc.py` has NVRTC compile what sknet writes; here it is run.
"""

import hashlib
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.devices.building import cache_folder
from tests.devices.emulated.building import HERE, compiler, run

__all__ = ["Program"]

HEADERS = HERE / "kernels"
# No contraction, as sknet asks of NVRTC; nothing is exported but what kernels/launching.h defines.
FLAGS = (
    "-std=c++17",
    "-O1",
    "-w",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
)
KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__\w+__\([^)]*\)\s*)*(\w+)\s*\(')
CLUSTER = re.compile(r"__cluster_dims__\((\d+), 1, 1\)")
BARRIER = re.compile(r"__sync(threads|warp)|__cluster_ba|__shfl|__ballot|__any_sync|__all_sync|cub::Block")
DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;")
PREFIX = b"emulated:"  # what library/cuda/modules.cpp expects before the path


class Program:
    """Stands in for `cupy.cuda.compiler._NVRTCProgram`."""

    def __init__(
        self,
        source: str,
        name: str = "",
        headers: Sequence[str] = (),
        include_names: Sequence[str] = (),
        name_expressions: Sequence[str] | None = None,
        method: str = "ptx",
    ) -> None:
        self.source = source
        self.name_expressions = tuple(name_expressions or ())

    def compile(
        self, options: Sequence[str] = (), log_stream: Any = None
    ) -> tuple[bytes, dict[str, str] | None]:
        """Compile the module; return what `cuModuleLoadData` gets, and the names of its templates."""
        from cupy.cuda.compiler import CompileException

        if not self.source:  # CuPy asks for the compiler's version this way
            return b"", None
        try:
            path = shared_object(self.source, self.name_expressions, tuple(options))
        except RuntimeError as error:
            raise CompileException(str(error), self.source, "module.cu", options, "g++") from error
        return PREFIX + str(path).encode() + b"\0", {name: name for name in self.name_expressions} or None


@cache
def shared_object(source: str, name_expressions: tuple[str, ...], options: tuple[str, ...]) -> Path:
    """Compile a module, unless the folder has it."""
    header = precompiled()
    text = translated(source, name_expressions, options)
    made = cache_folder() / f"{digest_of(text, header.parent.name)}.so"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            code, built = Path(temporary, "module.cpp"), Path(temporary, "module.so")
            code.write_text(text)
            command = [compiler(), *FLAGS, *include_options(), "-include", header, "-shared", "-nostdlib"]
            run([*command, "-o", built, code, "-lgcc"])
            built.replace(made)
    return made


def translated(source: str, name_expressions: tuple[str, ...], options: tuple[str, ...]) -> str:
    """Return the text for g++: macros of the options, and at the end the table of kernels."""
    defined = [option[2:].partition("=") for option in options if option.startswith("-D")]
    macros = "".join(f"#define {name} {value}\n" for name, _, value in defined)
    kernels = [*KERNEL.findall(source), *name_expressions]
    entries = "".join(f'EMULATED_ENTRY("{name}", ({name})), ' for name in kernels)
    [cluster] = {*CLUSTER.findall(source)} or {"1"}  # blocks; all kernels of a module have as many
    body = DYNAMIC.sub(r"\1 *\2 = (\1 *)emulated_dynamic_memory;", source)
    return f"{macros}{body}\nEMULATED_MODULE({int(bool(BARRIER.search(source)))}, {cluster}, {entries})\n"


def digest_of(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


def include_options() -> tuple[str, ...]:
    return f"-I{HEADERS}", f"-I{cupy_headers()}"


@cache
def cupy_headers() -> Path:
    import cupy

    return Path(cupy.__file__).parent / "_core/include"


@cache
def precompiled() -> Path:
    """Return the header that precedes every module, which is compiled once for all headers as they are."""
    ours = [path.read_text() for path in sorted(HEADERS.rglob("*.*"))]
    theirs = [(cupy_headers() / "cupy" / f"{name}.cuh").read_text() for name in ("carray", "atomics")]
    made = cache_folder() / f"headers-{digest_of(*ours, *theirs, *FLAGS, compiler())}"
    header = made / "precompiled.h"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            built = Path(temporary, "made")
            built.mkdir()
            (built / "precompiled.h").write_text((HEADERS / "precompiled.h").read_text())
            command = [compiler(), *FLAGS, *include_options(), "-x", "c++-header", HEADERS / "precompiled.h"]
            run([*command, "-o", built / "precompiled.h.gch"])
            if not made.exists():
                built.replace(made)
    return header
