"""Helpers of project-wide tests: files, modules, and public names."""

import ast
import importlib
import json
import pkgutil
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from sknet import config_context

ROOT = Path(__file__).parents[1]
# Packages that other packages use, and users do not.
ROOMS = tuple(f"sknet.compile.{name}" for name in ("cuda", "native", "numpy", "passes", "python"))
ROOMS += ("sknet.device", "sknet.nn.layers", "sknet.persistence")


def has_native() -> bool:
    """Tell whether there is native code."""
    try:
        with config_context(native="always"):
            return True
    except RuntimeError:
        return False


def hint_tables() -> dict[str, dict[str, list[str]]]:
    """Return the names of each table of hints by their advice."""
    found: dict[str, dict[str, list[str]]] = json.loads((ROOT / "sknet" / "_hints.json").read_text())
    return found


def hints(table: str) -> dict[str, str]:
    """Return the advice of a table by name."""
    return {name: text for text, names in hint_tables().get(table, {}).items() for name in names}


def module_name(path: Path) -> str:
    """Name the module in a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files(*folders: str) -> list[Path]:
    """List the Python files below some folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def project_files() -> list[Path]:
    """List the project's files: tracked ones, and new ones that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def _is_public(name: str) -> bool:
    return not name.startswith(ROOMS) and not any(part.startswith("_") for part in name.split("."))


def benchmark(name: str) -> dict[str, Any]:
    """Return the names that a script of the benchmarks defines."""
    folder = ROOT / "examples/benchmarks"
    sys.path.insert(0, str(folder))  # as for a script that is run
    try:
        return runpy.run_path(str(folder / f"{name}.py"))
    finally:
        sys.path.remove(str(folder))


@cache
def public_modules() -> dict[str, ModuleType]:
    """Import every module that is documented for users."""
    package = importlib.import_module("sknet")
    names = [info.name for info in pkgutil.walk_packages(package.__path__, "sknet.") if _is_public(info.name)]
    return {name: importlib.import_module(name) for name in ["sknet", *names]}


@cache
def public_objects() -> dict[str, object]:
    """Map ``module.name`` to each object that is documented for users, under the shortest of its names."""
    found: dict[int, tuple[str, object]] = {}
    for module_name_, module in public_modules().items():
        for name in module.__all__:
            value = getattr(module, name)
            path = f"{module_name_}.{name}"
            if id(value) not in found or len(path) < len(found[id(value)][0]):
                found[id(value)] = (path, value)
    return dict(sorted(found.values(), key=lambda item: item[0]))


@cache
def shared_objects() -> dict[str, object]:
    """Map names to public objects, and to those that a package imports from inside another."""
    found = {id(value): (name, value) for name, value in public_objects().items()}
    for path in source_files("sknet"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            package = ".".join(node.module.split(".")[:2])
            is_private = "._" in node.module.removeprefix("sknet._") or node.module.startswith(ROOMS)
            is_private = is_private and node.module.startswith("sknet.")
            if is_private and not module_name(path).startswith(package):
                for alias in node.names:
                    value = getattr(importlib.import_module(node.module), alias.name)
                    found.setdefault(id(value), (f"{node.module}.{alias.name}", value))
    return dict(sorted(found.values(), key=lambda item: item[0]))


def is_protocol(cls: type) -> bool:
    """Tell whether a class is a protocol."""
    return getattr(cls, "_is_protocol", False)
