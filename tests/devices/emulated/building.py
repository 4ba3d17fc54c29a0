"""Building the libraries, with g++, once: they are kept in a folder that runs of the tests share."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests.devices.building import cache_folder

__all__ = ["compiler", "libraries", "run"]

HERE = Path(__file__).parent
SOURCES = HERE / "library"
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-Wall", "-Werror", "-ffp-contract=off")
DRIVER = "libcuda.so.1"
# Libraries that CuPy's modules are linked to, for CUDA 12, after those that CuPy loads with them.
LIBRARIES = {
    "cublasLt": "libcublasLt.so.12",
    "nvJitLink": "libnvJitLink.so.12",
    "cublas": "libcublas.so.12",
    "cusparse": "libcusparse.so.12",
    "cusolver": "libcusolver.so.11",
    "curand": "libcurand.so.10",
}
NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED; unknown to the others, which say so


@cache
def compiler() -> str:
    """Return the path of g++."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        raise RuntimeError(
            "the emulated CUDA driver is compiled by g++, which is not found: install it, or set CXX"
        )
    return found


def run(command: list[str | Path]) -> str:
    """Run a compiler, and return what it prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stderr}")
    return done.stdout


def libraries(packages: Path) -> dict[str, Path]:
    """Build the libraries for the CuPy in a folder of packages, and return them in the order of loading.

    A function that a module of CuPy needs, and that is not emulated, says that it is not supported.
    """
    needed = {name: _needed(name, packages) for name in LIBRARIES}
    texts = {path.relative_to(HERE): path.read_text() for path in sorted(SOURCES.rglob("*.*"))}
    digest = hashlib.sha256(repr((texts, needed, FLAGS, compiler())).encode()).hexdigest()[:16]
    made = cache_folder() / f"libraries-{digest}"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            _build(Path(temporary, "made"), needed)
            # Another process may have been faster.
            if not made.exists():
                Path(temporary, "made").replace(made)
    return {name: made / name for name in (DRIVER, *LIBRARIES.values())}


def _needed(name: str, packages: Path) -> list[str]:
    """Return the functions of a library that modules of CuPy are linked to."""
    modules = [*packages.glob(f"cupy_backends/cuda/libs/{name}.*.so"), *packages.glob(f"cupyx/*{name}.*.so")]
    symbol = re.compile(rf"U (\w+)@+{re.escape(LIBRARIES[name])}")
    return sorted(
        {x for path in modules for x in symbol.findall(run(["nm", "-D", "--undefined-only", path]))}
    )


def _build(target: Path, needed: dict[str, list[str]]) -> None:
    target.mkdir()
    sources = sorted(SOURCES.glob("*/*.cpp"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(lambda path: _compiled(path, target), sources)
        objects = dict(zip(sources, made, strict=True))
    _link(target / DRIVER, [path for source, path in objects.items() if source.parent.name == "cuda"], [])
    for name, soname in LIBRARIES.items():
        own = [path for source, path in objects.items() if source.parent.name == name]
        there = set(run(["nm", "--defined-only", "--format=posix", *own]).split()) if own else set()
        missing = [function for function in needed[name] if function not in there]
        (target / f"{name}.cpp").write_text("".join(map(_stub, missing)))
        # CuPy's modules ask for symbols of a version, whose name is that of the library.
        (target / f"{name}.map").write_text(f"{soname} {{ global: *; }};\n")
        own.append(_compiled(target / f"{name}.cpp", target))
        script = f"-Wl,--version-script={target / name}.map"
        _link(target / soname, own, [script, f"-L{target}", f"-l:{DRIVER}", "-Wl,-rpath,$ORIGIN"])


def _stub(function: str) -> str:
    kind, value = "int", str(NOT_SUPPORTED)
    if re.search(r"GetError(Name|String)$", function):
        kind, value = "const char *", '"not supported by the emulated library"'
    return f'extern "C" {kind} {function}() {{ return {value}; }}\n'


def _compiled(source: Path, target: Path) -> Path:
    made = target / f"{source.parent.name}-{source.stem}.o"
    run([compiler(), *FLAGS, "-c", source, "-o", made])
    return made


def _link(library: Path, objects: list[Path], options: list[str]) -> None:
    run([compiler(), "-shared", f"-Wl,-soname,{library.name}", "-o", library, *objects, *options, "-ldl"])
