"""An audit hook that notes what a file must not cause."""

import ast
import builtins
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MARK = "planted"  # the function that texts in files call, if they are executed
CHANGES = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink", "os.truncate"),
    "shutil.",
)
EVENTS = (
    *("compile", "exec", "import", "open", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"),
    *("subprocess.Popen", "socket.bind", "socket.connect", "socket.getaddrinfo", "pty.", "pickle.find_class"),
    *CHANGES,
)
MODULES = {
    *sys.stdlib_module_names,
    *("google", "joblib", "llvmlite", "ml_dtypes", "numba", "numpy", "onnx", "pandas", "polars", "pyarrow"),
    *("scipy", "sklearn", "sknet", "skops", "tests", "threadpoolctl", "dateutil", "pytz", "six", "written"),
    *(
        "prettytable",
        "optuna",
        "tqdm",
        "tensorboard",
        "tensorboardX",
        "torch",
        "matplotlib",
        "IPython",
        "ipywidgets",
    ),
}


class Guard:
    """Notes audit events that a file must not cause, while it is on."""

    def __init__(self, folder: str) -> None:
        self.folder, self.seen, self.is_on, self.is_loading = folder, list[str](), False, False
        setattr(builtins, MARK, lambda *_: self.seen.append("a text of the file was executed"))
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on or not event.startswith(EVENTS):
            return
        self.is_on = False
        try:
            reason = self.judged(self.folder, self.is_loading, event, arguments)
            if reason:
                self.seen.append(f"{reason}: {event}{arguments[:2]!r:.200}")
        finally:
            self.is_on = True

    @staticmethod
    def judged(folder: str, is_loading: bool, event: str, arguments: tuple[Any, ...]) -> str:
        """Return why an event must not happen; empty if it may."""
        if event == "compile":
            return "code" if has_mark(arguments[0]) else ""
        if event == "exec":
            return "code" if MARK in getattr(arguments[0], "co_names", ()) else ""
        if event == "import":
            name, allowed = str(arguments[0]), {"encodings"} if is_loading else MODULES
            return "" if name in sys.modules or name.partition(".")[0] in allowed else "an import"
        if event == "open":
            path, mode, flags = arguments[:3]
            writes = set(mode) & set("wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
            return "a write elsewhere" if writes and not is_inside(path, folder) else ""
        if event.startswith(CHANGES):
            return "" if is_inside(arguments[0], folder) else "a change elsewhere"
        if event in ("pickle.find_class", "os.fork", "subprocess.Popen") or event.startswith("socket."):
            return "" if called_by("joblib", "multiprocessing", "copy") else "a process or a connection"
        return "an event"

    @contextmanager
    def on(self, *, loading: bool = False) -> Iterator[None]:
        self.is_on, self.is_loading = True, loading
        try:
            yield
        finally:
            self.is_on = False


def is_inside(path: Any, folder: str) -> bool:
    if isinstance(path, int):
        return True
    return os.path.realpath(os.fsdecode(path)).startswith((folder, "/dev/", "/proc/"))


def has_mark(source: Any) -> bool:
    """Tell whether a text that is compiled has the mark outside of its strings and comments."""
    if isinstance(source, ast.AST):
        trees = [source]
    elif source is None or MARK not in (
        text := os.fsdecode(source) if isinstance(source, bytes) else str(source)
    ):
        return False
    else:
        try:
            trees = [ast.parse(text)]
        except (SyntaxError, ValueError):
            return False  # nothing is executed
    return any(isinstance(x, ast.Name) and x.id == MARK for tree in trees for x in ast.walk(tree))


def called_by(*modules: str) -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in modules:
            return True
        frame = frame.f_back
    return False
