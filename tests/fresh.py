"""Import names of sknet, and run the examples in their docstrings, each as a process's first import of sknet.

Reads ``{module: [name, ...]}`` as JSON and prints failures as JSON. A process for every module imports it
and forks for its names: each that is the first to load some part of sknet has a child of its own, the others
share. Modules outside sknet are loaded before.
"""

import contextlib
import doctest
import gc
import importlib
import importlib.machinery
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

IMPORTS = re.compile(r">>> (?:from|import) ([\w.]+)")
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


def run_example(value: object, name: str) -> list[str]:
    """Run the example in an object's docstring, if it has one; return what failed."""
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


def run_some(
    module: str, names: list[str], known: set[str], elsewhere: set[str]
) -> list[tuple[list[str], list[str]]]:
    """Try names in order; return problems and what is loaded by then.

    The examples of the names in `elsewhere` are not run.
    A name that loads parts of sknet that are not known to load in a process of their own is tried alone.
    """
    before = loaded_parts()
    found: list[tuple[list[str], list[str]]] = []

    def is_new() -> bool:
        return not loaded_parts() - before <= known

    for name in names:
        value = getattr(importlib.import_module(module), name)
        if found and is_new():
            break  # it is the first of the next process
        problems = [] if name in elsewhere else run_example(value, name)
        if found and is_new():
            break
        found.append((problems, sorted(loaded_parts() - before)))
        if is_new():
            break
    return found


def run_module(module: str, names: list[str], elsewhere: set[str]) -> dict[str, object]:
    """Import a module, then try each of its names as if it were alone."""
    importlib.import_module(module)
    found: dict[str, object] = {}
    known: set[str] = set()
    while len(found) < len(names):
        left = names[len(found) :]
        results = finished(*started(partial(run_some, module, left, known, elsewhere)))
        if results and isinstance(results[0], str):  # it crashed: report the first name
            results = [(results, [])]
        for name, (problems, loaded) in zip(left, results, strict=False):
            found[name] = problems
            known.update(loaded)
    return found


def looked_up(wanted: Mapping[str, Iterable[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Return what modules of sknet load that is not part of it, and which of their names occur twice.

    A name that several modules export has one example, which is run in the first of them.
    """
    seen: set[int] = set()
    twice: dict[str, list[str]] = {}
    for module, names in wanted.items():
        found = importlib.import_module(module)
        for name in names:
            value = id(getattr(found, name, None))
            if value in seen:
                twice.setdefault(module, []).append(name)
            seen.add(value)
    return [name for name in sys.modules if name.split(".")[0] not in ("sknet", "__main__")], twice


def of_examples() -> set[str]:
    """Return what the examples in docstrings import that is not part of sknet."""
    texts = (path.read_text() for path in Path("sknet").rglob("*.py"))
    return {name for text in texts for name in IMPORTS.findall(text) if name.split(".")[0] != "sknet"}


def load_others(wanted: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Load what children would load each for itself; return the names that occur twice, by module."""
    others, twice = finished(*started(partial(looked_up, wanted)))
    for name in (*others, *of_examples()):
        with contextlib.suppress(ImportError):  # some names are made up by those that have loaded them
            importlib.import_module(name)
    return twice


def read_code() -> None:
    """Read the code of sknet once, which each child would otherwise read for itself; nothing is run."""
    loader = importlib.machinery.SourceFileLoader
    get_code = loader.get_code
    paths = [str(path.resolve()) for path in Path("sknet").rglob("*.py")]
    known = {path: get_code(loader("", path), "") for path in paths}
    loader.get_code = lambda self, name: known.get(self.path) or get_code(self, name)  # type: ignore[method-assign]


def main() -> None:
    """Try the names listed on standard input."""
    wanted = json.load(sys.stdin)
    sys.stdout, out = io.StringIO(), sys.stdout
    twice: dict[str, list[str]] = {}
    if sum(map(len, wanted.values())) > 1:
        twice = load_others(wanted)
        read_code()
    gc.disable()  # a collection writes to all objects, and children share the memory
    jobs = [partial(run_module, *job, set(twice.get(job[0], ()))) for job in wanted.items()]
    found = all_of(jobs, os.cpu_count() or 1)
    json.dump(list(zip(wanted, found, strict=True)), out)


if __name__ == "__main__":
    main()
