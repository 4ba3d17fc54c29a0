"""Compiling C into libraries, with GCC: they are kept as long as the process runs."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

__all__ = ["built", "with_lines"]

_words: dict[Path, list[str]] = {}  # of the command that has built a library


@cache
def compiler() -> str:
    """Return the path of GCC; without it generated code cannot be tested."""
    found = next(filter(None, map(shutil.which, (os.environ.get("CC", "gcc"), "gcc", "cc"))), None)
    what = found and subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    if not found or "Free Software Foundation" not in what:
        raise RuntimeError(
            "the tests of generated kernels run them under GCC's sanitizers, so GCC compiles them; "
            f"{found or 'gcc'} is {'not GCC' if found else 'not found'}: install gcc, or set CC"
        )
    return found


def built(text: str, flags: Sequence[str], *libraries: Path) -> Path:
    """Return the path of the library that is compiled from a text, which lies beside it as ``.c``."""
    words = [*map(str, libraries), *flags]
    digest = hashlib.sha256("\0".join([text, compiler(), *words]).encode()).hexdigest()
    path = _folder() / f"{digest}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
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
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="sknet-kernels-")
    _kept.append(made)
    return Path(made.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []
