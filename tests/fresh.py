"""Import names of sknet, and run the examples in their docstrings, each as a process's first import of sknet.

Reads ``{module: [name, ...]}`` as JSON and prints failures as JSON. A process for every module imports it
and forks for its names: those that load nothing more of sknet share a child, the others have one each.
Modules outside sknet are loaded before.
"""

import contextlib
import doctest
import gc
import importlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial

LARGE = ("sknet", "sknet.neural_network")  # its names load most of the modules
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Runner(doctest.DocTestRunner):
    """Records exceptions; the printed output is checked elsewhere."""

    def __init__(self) -> None:
        super().__init__(verbose=False, optionflags=OPTIONS)
        self.problems: list[str] = []

    def report_failure(self, out, test, example, got) -> None:
        if example.exc_msg is not None:
            self.problems.append(f"{example.source.strip()}: {got}")

    def report_unexpected_exception(self, out, test, example, exc_info) -> None:
        self.problems.append(f"{example.source.strip()}: {traceback.format_exception_only(exc_info[1])[-1]}")


def run_name(module: str, name: str) -> list[str]:
    """Import one name and run its example; return what failed."""
    value = getattr(importlib.import_module(module), name)
    home = getattr(value, "__module__", None)
    doc = getattr(value, "__doc__", None)
    if not isinstance(home, str) or not home.startswith("sknet") or ">>>" not in (doc or ""):
        return []
    globs = dict(vars(sys.modules[home]))
    test = doctest.DocTestParser().get_doctest(doc, globs, name, home, 0)
    runner = Runner()
    runner.run(test, out=lambda text: None)
    return runner.problems


def started(function: Callable[[], object]) -> tuple[int, int]:
    """Call a function in a child process; return its id, and the file of its result in JSON."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    os.close(read)
    try:
        result = function()
    except BaseException:  # whatever it is, the test reports it
        result = [traceback.format_exc()]
    with os.fdopen(write, "w") as pipe:
        json.dump(result, pipe)
    os._exit(0)


def finished(child: int, read: int) -> object:
    """Wait for a child process and return its result."""
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else ["the process died"]


def all_of(functions: list[Callable[[], object]], at_once: int) -> list[object]:
    """Call functions in child processes, several at a time, and return their results."""
    running: list[tuple[int, int]] = []
    found = []
    for function in functions:
        if len(running) == at_once:
            found.append(finished(*running.pop(0)))
        running.append(started(function))
    return found + [finished(*one) for one in running]


def loaded_parts() -> set[str]:
    return {name for name in sys.modules if name.split(".")[0] == "sknet"}


def run_some(module: str, names: list[str]) -> list[list[str]]:
    """Try names in order, up to the first that loads more of sknet."""
    before, found = loaded_parts(), []
    for name in names:
        found.append(run_name(module, name))
        if loaded_parts() != before:
            break
    return found


def run_module(module: str, names: list[str]) -> dict[str, object]:
    """Import a module, then try each of its names as if it were alone."""
    importlib.import_module(module)
    found: dict[str, object] = {}
    while len(found) < len(names):
        left = names[len(found) :]
        results = finished(*started(partial(run_some, module, left)))
        if results and isinstance(results[0], str):  # it crashed: report the first name
            results = [results]
        found |= dict(zip(left, results, strict=False))
    return found


def others(wanted: dict[str, list[str]]) -> list[str]:
    """Return the modules outside sknet that names and their examples load."""
    for module, names in wanted.items():
        for name in names:
            run_name(module, name)
    return [name for name in sys.modules if name.split(".")[0] not in ("sknet", "__main__")]


def load_others(wanted: dict[str, list[str]]) -> None:
    """Load the modules that each child would otherwise load."""
    for name in finished(*started(partial(others, wanted))):
        with contextlib.suppress(ImportError):  # some modules are created by those that loaded them
            importlib.import_module(name)


def main() -> None:
    """Try the names listed on standard input."""
    wanted = json.load(sys.stdin)
    sys.stdout, out = io.StringIO(), sys.stdout
    if sum(map(len, wanted.values())) > 1:
        load_others({m: names for m, names in wanted.items() if m in LARGE})
    gc.disable()  # a collection writes to all objects, and children share the memory
    # The root loads its names lazily: each is a separate import.
    jobs = [(m, [n]) for m, names in wanted.items() for n in names if m == "sknet"]
    jobs += [(m, names) for m, names in wanted.items() if m != "sknet"]
    found = all_of([partial(run_module, *job) for job in jobs], os.cpu_count() or 1)
    json.dump([[module, result] for (module, _), result in zip(jobs, found, strict=True)], out)


if __name__ == "__main__":
    main()
