"""Record the signatures of everything that sknet calls in CuPy: in an environment with a CuPy, run

    python -m tests.devices.record_signatures

It needs no GPU, and writes ``cupy-VERSION.json`` beside this file; `signatures` reads what is there. Kept are
the oldest CuPy that sknet takes and the newest one. What Python does not know of compiled functions is in the
first line of their docstrings.
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from sknet._late import SPECIAL_FUNCTIONS
from sknet.core import PRIMITIVES
from sknet.device import LinearAlgebra, Namespace, _backend, _cupy
from tests.project import source_files

__all__ = ["METHODS", "asked", "full_name", "recorded", "used_in_backend", "used_in_rules"]

HERE = Path(__file__).parent
OWN = {
    "add_rows_at",
    "check_indices",
    "in_threads",
    "linalg",
    "may_be_native",
    "native_passes",
    "small_products",
}  # in sknet's namespaces, and no functions of CuPy
# What the fake device's arrays have; they have nothing else.
METHODS = (
    "all", "any", "astype", "copy", "dot", "fill", "item", "ravel", "reshape", "sort", "sum", "take",
    "transpose", "view",
)  # fmt: skip
# What the backend calls on objects that CuPy gives it.
ON_OBJECTS = (
    "cupy.RawModule.get_function", "cupy.cuda.Event.synchronize", "cupy.cuda.Graph.launch",
    "cupy.cuda.MemoryPool.free_all_blocks", "cupy.cuda.MemoryPool.free_bytes",
    "cupy.cuda.Stream.begin_capture", "cupy.cuda.Stream.end_capture",
    "cupy.cuda.Stream.is_capturing", "cupy.cuda.Stream.record", "cupy.cuda.Stream.synchronize",
    "cupy.cuda.Stream.wait_event", "cupy.ndarray.get", "cupy.ndarray.set",
)  # fmt: skip


# -- names ------------------------------------------------------------------------------------


def asked() -> list[str]:
    """Return the names of all functions of CuPy that sknet calls."""
    functions = {name for name, _ in used_in_rules()} | {*_cupy.REDUCTIONS, *get_type_hints(Namespace)}
    functions |= {p.forward for p in PRIMITIVES.values() if isinstance(p.forward, str)}
    functions |= {f"linalg.{name}" for name in get_type_hints(LinearAlgebra)}
    names = {full_name(name) for name in functions - OWN}
    names |= {name for name, _ in used_in_backend()} | {f"cupy.ndarray.{name}" for name in METHODS}
    return sorted({*names, *ON_OBJECTS})


def full_name(name: str) -> str:
    """Return what CuPy calls a function of a backend's namespace."""
    return f"cupyx.scipy.special.{name}" if name in SPECIAL_FUNCTIONS else f"cupy.{name}"


@cache
def used_in_rules() -> list[tuple[str, ast.Call | None]]:
    """Find ``xp.NAME``, ``xp.linalg.NAME`` and ``namespace(x).NAME`` in sknet, and their calls."""
    texts = [path.read_text() for path in source_files("sknet")]
    ours = [text for text in texts if "_array_api" not in text]  # where it is, xp is scikit-learn's
    return [
        found
        for text in ours
        if re.search(r"\bxp\.|namespace\(", text)
        for found in _used(text, _in_namespace)
    ]


def _in_namespace(node: ast.Attribute) -> str | None:
    base, prefix = node.value, ""
    if isinstance(base, ast.Attribute) and base.attr == "linalg":
        base, prefix = base.value, "linalg."
    if isinstance(base, ast.Call):
        is_namespace = isinstance(base.func, ast.Name) and base.func.id == "namespace"
    else:
        is_namespace = (getattr(base, "attr", None) or getattr(base, "id", None)) == "xp"
    is_function = is_namespace and not node.attr.startswith("_") and node.attr not in OWN
    return f"{prefix}{node.attr}" if is_function else None


def used_in_backend() -> Iterator[tuple[str, ast.Call | None]]:
    """Find the functions that the backend uses, and their calls: ``self._cupy.NAME(...)``, of any depth."""
    for module in (_cupy, _cupy, _backend):
        for name, call in _used(inspect.getsource(module), _in_package):
            if call:
                yield name, call


def _in_package(node: ast.Attribute) -> str | None:
    name = ast.unparse(node).removeprefix("self._").replace("sparse.", "cupyx.scipy.sparse.", 1)
    return name if re.fullmatch(r"cupyx?(\.[A-Za-z]\w*)+", name) else None


def _used(text: str, named: Callable[[ast.Attribute], str | None]) -> Iterator[tuple[str, ast.Call | None]]:
    nodes = list(ast.walk(ast.parse(text)))
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and (name := named(node)):
            yield name, calls.get(node)


# -- signatures -------------------------------------------------------------------------------


def recorded() -> dict[str, Any]:
    """Return what the installed CuPy says about every name that sknet asks for."""
    return {name: _entry(_object(name)) for name in asked()}


def _object(name: str) -> Any:
    module = "cupyx.scipy." + name.split(".")[2] if name.startswith("cupyx.") else "cupy"
    found = import_module(module)
    for part in name.removeprefix(f"{module}.").split("."):
        found = getattr(found, part)
    return found


def _entry(function: Any) -> Any:
    """Return a signature; of a ufunc, also its types, with a result of ! where it only raises an error."""
    if type(function).__name__ != "ufunc":
        return _signature(function)
    operands = ", ".join(f"x{i + 1}" for i in range(function.nin)) if function.nin > 1 else "x"
    text = f"({operands}, /, out=None, *, casting='{function._default_casting}', dtype=None)"
    said = function.__doc__.partition("\n")[0].replace("\\", "")  # those of cupyx do not say it
    if said.startswith(f"{function.name.removeprefix('cupy_')}(") and not said.endswith(text):
        raise ValueError(f"expected a ufunc to be called with {text}, but CuPy says {said}")
    loops = zip(function.types, function._ops.ops, strict=True)
    kinds = [kind if loop.error_func is None else kind[: function.nin] + "->!" for kind, loop in loops]
    return {"signature": text, "types": " ".join(kinds)}


def _signature(function: Any) -> str:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return _from_docstring(function)
    plain = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
    return re.sub(r"<class '(\w+)'>", r"\1", str(plain))


def _from_docstring(function: Any) -> str:
    said = (function.__doc__ or "").partition("\n")[0]
    found = re.match(r"[\w.]+\((.*)\)(?: -> \w+)?$", said)
    if not found:
        raise ValueError(f"expected a signature in the first line of {function}'s docstring, got {said!r}")
    parts = re.split(r", (?![^()]*\))", found[1]) if found[1] else []
    return "(" + ", ".join(re.sub(r"^[\w.]+ (?=\w)", "", part) for part in parts) + ")"  # without types of C


def main() -> None:
    """Write the table of the installed CuPy."""
    version = import_module("cupy").__version__
    path = HERE / f"cupy-{version}.json"
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in recorded().items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    sys.stdout.write(f"{path} is written\n")


if __name__ == "__main__":
    main()
