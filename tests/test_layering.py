"""Imports point down only: a module may import its own package and the layers below, never a sibling."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.project import module_name, source_files

LAYERS = [
    {"exceptions", "_native"},
    {"_constraints", "_hints", "_parallel", "_warnings"},
    {"_fields"},
    {
        "_config",
        "_frames",
        "_late",
        "_params",
        "_random",
        "_tree",
        "_validation",
    },
    {"device"},
    {"core"},
    {"ops"},
    {"autograd"},
    {"nn", "losses", "optim", "compile"},
    {"graphs"},
    {"persistence", "preprocessing"},
    {"callbacks"},
    {"engine"},
    {"estimators"},
    {"model_selection", "neural_network", "tabular"},
    {"freezing"},
    {"onnx"},
    {"files"},
    {"display", "dask", "_show_versions"},
    {""},  # sknet/__init__.py, which only gathers names
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}

# Optional packages, and the only packages that may import them.
OPTIONAL = {
    "cupy": ("sknet.device", "sknet.compile.cuda"),
    "cupyx": ("sknet.device", "sknet.compile.cuda"),
    "matplotlib": ("sknet.callbacks", "sknet.display"),
    "optuna": ("sknet.callbacks",),
    "tensorboardX": ("sknet.callbacks",),
    "tqdm": ("sknet.callbacks",),
    "dask": ("sknet.dask",),
    "distributed": ("sknet.dask",),
    "onnx": ("sknet.onnx",),
    "pandas": ("sknet.preprocessing",),
    "skl2onnx": ("sknet.onnx",),
    "skops": ("sknet.files",),
    "torch": (),  # an oracle of tests and tools
}


@cache
def imports(source: str, module: str, *, is_package: bool) -> tuple[tuple[int, str], ...]:
    """Return (line, absolute name) of every import in a source, wherever in the file it is."""
    return tuple(imports_in(ast.parse(source), module, is_package=is_package))


def imports_in(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            anchor = parts[: len(parts) - node.level + is_package] if node.level else []
            base = ".".join([*anchor, *([node.module] if node.module else [])])
            # in `from sknet import nn` the layer is the imported name
            names = [f"{base}.{alias.name}" if base == "sknet" else base for alias in node.names]
            yield from ((node.lineno, name) for name in names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            constants = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            yield from ((node.lineno, str(name)) for name in constants[:1])


def layer(name: str) -> str:
    """Name the layer that a module of the package belongs to."""
    return [*name.split("."), ""][1]


def violations(source: str, module: str, *, is_package: bool = False) -> Iterator[str]:
    here = layer(module)
    for line, target in imports(source, module, is_package=is_package):
        top = target.split(".")[0]
        allowed = OPTIONAL.get(top)
        if allowed is not None and not f"{module}.".startswith(tuple(f"{part}." for part in allowed)):
            yield f"{module}:{line} imports {top}, which only {allowed or 'nothing here'} may"
        if top != "sknet" or layer(target) == here:
            continue
        if HEIGHT.get(layer(target), len(LAYERS)) >= HEIGHT[here]:
            yield f"{module}:{line} imports {target}, which is not below it"


def test_imports_point_down():
    found = []
    for path in source_files("sknet"):
        module = module_name(path)
        assert layer(module) in HEIGHT, f"{module}: give it a layer here and in docs/design.md"
        found += violations(path.read_text(), module, is_package=path.name == "__init__.py")
    assert not found


def foreign_names(source: str, module: str) -> Iterator[str]:
    """Yield imports of private names, other than modules, from another package."""
    for node in ast.walk(ast.parse(source)):
        home = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if not home.startswith("sknet.") or layer(home) == layer(module):
            continue
        for alias in node.names:
            is_private = alias.name.startswith("_") and not alias.name.startswith("__")
            if is_private and f"{home}.{alias.name}" not in modules():
                yield f"{module}:{node.lineno} imports {alias.name} of {home}, which keeps it to itself"


@cache
def modules() -> set[str]:
    return {module_name(path) for path in source_files("sknet")}


def test_packages_import_no_private_names():
    found = []
    for path in source_files("sknet"):
        found += foreign_names(path.read_text(), module_name(path))
    assert not found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sknet.ops._indexing", "from sknet.core._tape import _link"),
        ("sknet.estimators._base", "def f():\n    from sknet.engine._network import Head, _rows"),
    ],
)
def test_an_import_of_a_private_name_is_detected(module, source):
    assert list(foreign_names(source, module))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sknet.ops._indexing", "from sknet._frames import rows_of\nfrom sknet.core import _primitive as p"),
        ("sknet.ops._indexing", "from sknet.ops._rules import _like\nfrom scipy.special import _ufuncs"),
        ("sknet.estimators._base", "from sknet.engine._network import Head"),
        ("sknet.nn", "from sknet import _tree\nfrom sknet.nn._module import Module"),
    ],
)
def test_names_without_an_underscore_may_be_imported(module, source):
    assert not list(foreign_names(source, module))


# The order inside packages: each module imports only earlier ones.
ORDERS = {
    "sknet.compile": [
        *("_graph", "_plan", "_capture", "passes", "_calls", "_symbolic"),
        *("numpy", "native", "cuda", "_compile"),
    ],
    "sknet.engine": [
        *("_inputs", "_memory", "_model_like", "_checks", "_scheduler", "_batches"),
        *("_fingerprint", "_fit", "_optimizer", "_programs", "_runners", "_persistent"),
        *("_device_runner", "_lbfgs", "_network", "_scores", "_runner_cache", "_stack", "_loop"),
        *("_fit_rows", "_layer_outputs", "_stream", "_model", "_model_copies", "_many", "_remote"),
    ],
}


def without_types(source: str) -> str:
    """Return a source without imports for type hints, which may name later modules."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not ast.unparse(node).startswith("if TYPE_CHECKING:")]
    return ast.unparse(tree)


@pytest.mark.parametrize("package", ORDERS)
def test_subpackages_import_in_one_direction(package):
    order = [*ORDERS[package], ""]  # last what gathers the names
    depth, found = package.count(".") + 1, []

    def room(name):
        return [*name.split(".")[depth:], ""][0]

    for path in source_files(package.replace(".", "/")):
        module = module_name(path)
        source = without_types(path.read_text())
        for line, target in imports(source, module, is_package=path.name == "__init__.py"):
            inside = target.startswith(f"{package}.") and room(target) != room(module)
            if inside and order.index(room(target)) > order.index(room(module)):
                found.append(f"{module}:{line} imports {target}, which comes after it")
    assert not found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sknet.core._tensor", "from sknet.ops import add"),
        ("sknet.core._tensor", "def f():\n    from ..nn import Module"),
        ("sknet.core._tensor", "from .. import nn"),
        ("sknet.core._tensor", "from sknet import Tensor"),
        ("sknet.core._tensor", "import sknet"),
        ("sknet.core._tensor", "importlib.import_module('sknet.engine')"),
        ("sknet.losses._base", "from sknet.nn import Module"),
        ("sknet.nn._module", "import cupy as cp"),
        ("sknet.estimators._mlp", "from sknet.display import plot"),
        ("sknet.compile._plan", "from cupy import ndarray"),
    ],
)
def test_a_violation_is_detected(module, source):
    assert list(violations(source, module))


@pytest.mark.parametrize(
    ("module", "source", "is_package"),
    [
        ("sknet.core._tensor", "from ..device import Device\nfrom sknet.device import Device", False),
        ("sknet.core", "from ._tensor import Tensor\nfrom .. import exceptions", True),
        ("sknet.compile.cuda._executor", "import cupy", False),
        ("sknet", "from .nn import Module", True),
    ],
)
def test_a_proper_import_passes(module, source, is_package):
    assert not list(violations(source, module, is_package=is_package))
