"""Compiling C into libraries, with GCC: they are cached in a folder that all runs of the tests share."""

import getpass
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

__all__ = ["built", "cache_folder", "with_lines"]

_words: dict[Path, list[str]] = {}  # of the command that has built a library


@cache
def compiler() -> str:
    """Return the path of GCC; without it generated code cannot be tested."""
    found = next(filter(None, map(shutil.which, (os.environ.get("CC", "gcc"), "gcc", "cc"))), None)
    if not found or "Free Software Foundation" not in version_of(found):
        raise RuntimeError(
            "the tests of generated kernels run them under GCC's sanitizers, so GCC compiles them; "
            f"{found or 'gcc'} is {'not GCC' if found else 'not found'}: install gcc, or set CC"
        )
    return found


@cache
def version_of(command: str) -> str:
    """Return what a compiler says of itself."""
    return subprocess.run([command, "--version"], capture_output=True, text=True).stdout


def built(text: str, flags: Sequence[str], *libraries: Path) -> Path:
    """Return the path of the library that is compiled from a text, which lies beside it as ``.c``."""
    words = [*map(str, libraries), *flags]
    key = "\0".join([text, compiler(), version_of(compiler()), *words])
    digest = hashlib.sha256(key.encode()).hexdigest()
    path = cache_folder() / f"{digest}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            code, made = Path(folder, "module.c"), Path(folder, "module.so")
            code.write_text(text)
            command = [compiler(), "-o", str(made), str(code), *words]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"a generated module does not compile:\n{done.stderr}\n{text}")
            code.replace(path.with_suffix(".c"))
            made.replace(path)
    _words[path] = words
    return path


def with_lines(path: Path) -> Path:
    """Return the path of a library whose code is that of another one, and which knows its lines."""
    return built(path.with_suffix(".c").read_text(), [*_words[path], "-g1"])


@cache
def cache_folder() -> Path:
    """Return the folder of compiled kernels: ``SKNET_KERNEL_CACHE``, or one in the temporary folder."""
    default = Path(tempfile.gettempdir(), f"sknet-kernels-{getpass.getuser()}")
    found = Path(os.environ.get("SKNET_KERNEL_CACHE", default))
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    return found
