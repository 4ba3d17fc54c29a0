"""Run names of sknet, and the examples in their docstrings, each as the first of it that a process imports.

Reads ``{module: [name, ...]}`` as JSON and prints what failed as JSON. A process for every module imports it
and forks for every name, so that the names of one module share its import. What is no part of sknet is
loaded before all of them.
"""

import doctest
import importlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Runner(doctest.DocTestRunner):
    """Notes exceptions; whether what is printed is right is asked elsewhere."""

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
    if not isinstance(home, str) or not home.startswith("sknet") or not doc:
        return []
    globs = dict(vars(sys.modules[home]))
    test = doctest.DocTestParser().get_doctest(doc, globs, name, home, 0)
    runner = Runner()
    runner.run(test, out=lambda text: None)
    return runner.problems


def forked(function: Callable[[], object]) -> object:
    """Call a function in a child process and return what it returned, by way of JSON."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else ["the process died"]
    os.close(read)
    try:
        result = function()
    except BaseException:  # whatever it is, it is what the test is to show
        result = [traceback.format_exc()]
    with os.fdopen(write, "w") as pipe:
        json.dump(result, pipe)
    os._exit(0)


def run_module(module: str, names: list[str]) -> dict[str, list[str]]:
    """Import a module, then try each of its names in a process of its own, if there is anything to run."""
    loaded = vars(importlib.import_module(module))
    idle = [name for name in names if name in loaded and ">>>" not in (loaded[name].__doc__ or "")]
    return {name: forked(lambda name=name: run_name(module, name)) for name in names if name not in idle}


def main() -> None:
    """Try what standard input lists."""
    for package in ("scipy.optimize", "scipy.signal", "scipy.sparse", "sklearn.model_selection"):
        importlib.import_module(package)
    assert not any(name.split(".")[0] == "sknet" for name in sys.modules)
    wanted = json.load(sys.stdin)
    sys.stdout, out = io.StringIO(), sys.stdout
    found = {module: forked(lambda m=module, n=names: run_module(m, n)) for module, names in wanted.items()}
    json.dump(found, out)


if __name__ == "__main__":
    main()
