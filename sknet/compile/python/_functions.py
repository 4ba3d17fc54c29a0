"""The source of functions and everything they use, importing only NumPy and the standard library."""

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from sknet.compile._rows import Length, Share
from sknet.compile.python._file_names import FileNames
from sknet.compile.python._forwards import (
    Function,
    bound_names,
    expression_of,
    parsed,
    without_memory,
    without_native_code,
)
from sknet.compile.python._lacking import LACKING
from sknet.compile.python._literals import literal
from sknet.core import Primitive
from sknet.device import backend
from sknet.exceptions import CaptureError

__all__ = ["Functions"]

PLAIN = (type(None), bool, int, float, str, type(...), np.generic, np.dtype)
XP = "xp"  # names of the array namespace in functions; it is NumPy in the file
Scope = Mapping[str, Any]


class Functions:
    """Collects definitions, and writes expressions for values."""

    def __init__(self, array: Callable[[np.ndarray[Any, Any]], str], names: FileNames) -> None:
        self.definitions: dict[str, str] = {}
        self.imports: set[str] = set()
        self._array, self._names = array, names
        self._known: dict[int, tuple[str, Any]] = {}  # names, with the object, which keeps its id unique
        self._constants: dict[str, str] = {}  # names of containers, by content
        self._asked: set[str] = set()  # attributes that the current function reads

    # -- calls of primitives ------------------------------------------------------------------

    def call(self, primitive: Primitive, operands: list[str], params: Mapping[str, Any]) -> str:
        """Return an expression that computes a primitive."""
        forward = primitive.forward
        given = {name: self.value(value) for name, value in params.items()}
        if isinstance(forward, str):
            name = self.of_namespace(forward)
            return f"{name}({_joined(operands, given)})"
        assert isinstance(forward, FunctionType)
        tree, scope = without_memory(parsed(forward)), _scope_of(forward)
        found = expression_of(tree)
        if found is not None and not tree.args.kwarg:
            known = _arguments(tree, operands, given)
            body = _Rewriter(self, scope, bound_names(tree), known).visit(found)
            return ast.unparse(_Indexed().visit(ast.fix_missing_locations(body)))
        assert isinstance(tree, ast.FunctionDef)
        is_own = forward.__module__.startswith("sknet.")
        new = self._names.of_file if is_own else self._names.of_user
        name = self._define(forward, tree, scope, primitive.name, new)
        return f"{name}({_joined(operands, given)})"

    def of_namespace(self, name: str) -> str:
        """Return the expression of a function of this name in NumPy's namespace."""
        if name in LACKING:
            if name not in self.definitions:
                imports, text = LACKING[name]
                self.imports.update(imports)
                self.definitions[name] = text.strip("\n")
            return name
        return self.value(getattr(backend("cpu").xp, name))

    # -- values -------------------------------------------------------------------------------

    def value(self, value: Any) -> str:
        """Return an expression for a value: a number, a container, an array, a function or a class."""
        for kinds, write in WRITERS:
            if isinstance(value, kinds):
                return write(self, value)
        if callable(value):
            return self._function(value)
        raise _unknown(value)

    def _function(self, function: Any) -> str:
        known = self._known.get(id(function))
        if known is not None:
            return known[0]
        inner = getattr(function, "__wrapped__", function)
        module = getattr(inner, "__module__", None) or ""
        if not module.startswith("sknet."):
            return self._foreign(function)
        return self._define(inner, parsed(inner), _scope_of(inner), inner.__name__, self._names.of_file)

    def _foreign(self, function: Any) -> str:
        """Return the name of a function of NumPy or of Python."""
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(owner, np.ufunc):
            return f"{self._foreign(owner)}.{name}"
        if getattr(np, name, None) is function:
            return f"np.{name}"
        if getattr(np.linalg, name, None) is function:
            return f"np.linalg.{name}"
        if getattr(builtins, name, None) is function:
            return name
        module = getattr(function, "__module__", None) or ""
        if module.partition(".")[0] in sys.stdlib_module_names:
            found = next(
                (m for m in (module.lstrip("_"), module) if hasattr(sys.modules.get(m), name)), module
            )
            self.imports.add(f"import {found}")
            return f"{found}.{name}"
        raise CaptureError(
            f"the function {name} of {module or 'a library'} is needed for a prediction, and NumPy has none "
            "like it"
        )

    def _class(self, cls: type) -> str:
        module = cls.__module__
        if not module.startswith("sknet."):
            return self._foreign(cls)
        if issubclass(cls, Exception):  # each of sknet's errors derives from a built-in one
            return next(c.__name__ for c in cls.__mro__ if c.__module__ == "builtins")
        known = self._known.get(id(cls))
        if known is not None:
            return known[0]
        if not issubclass(cls, tuple):
            raise CaptureError(f"the class {cls.__name__} is needed for a prediction, and sknet alone has it")
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        assert isinstance(tree, ast.ClassDef)
        _shorten(tree)
        self.imports.add("from typing import NamedTuple")
        self._known[id(cls)] = (self._names.take(cls.__name__), cls)
        scope = vars(sys.modules[module])
        rewritten = _Rewriter(self, scope, {"NamedTuple", cls.__name__}, {}).visit(tree)
        self.definitions[cls.__name__] = ast.unparse(ast.fix_missing_locations(rewritten))
        return cls.__name__

    def _define(
        self, function: Any, tree: Function, scope: Scope, name: str, new: Callable[[str], str]
    ) -> str:
        """Write a definition under the name that `new` returns for the given one, and return it."""
        known = self._known.get(id(function))
        if known is not None:
            return known[0]
        if isinstance(tree, ast.Lambda):
            raise CaptureError(f"a lambda of {function.__module__} is needed for a prediction: name it")
        _shorten(tree)
        name = tree.name = new(name)
        self._known[id(function)] = (name, function)
        rewritten = _Rewriter(self, scope, bound_names(tree), {}).visit(without_native_code(tree))
        self.definitions[name] = ast.unparse(ast.fix_missing_locations(rewritten))
        return name

    def global_value(self, name: str, value: Any, asked: set[str]) -> str:
        """Return an expression for a module's global `name`, of which a function reads attributes."""
        before, self._asked = self._asked, asked
        try:
            if not isinstance(value, (dict, list)):
                return self.value(value)
            text = self.value(value)
            if text not in self._constants:
                found = self._constants[text] = self._names.of_file(name)
                self.definitions[found] = f"{found} = {text}"
            return self._constants[text]
        finally:
            self._asked = before

    def _length(self, length: Length) -> str:
        return f"({_length_text(length)})" if length.more or length.per_row != 1 else "n"

    def _module(self, module: ModuleType) -> str:
        if module is np:
            return "np"
        name = module.__name__
        if not name.startswith("numpy."):
            if name.partition(".")[0] not in sys.stdlib_module_names:
                raise CaptureError(f"the module {name} is needed, and a file has NumPy alone")
            self.imports.add(f"import {name}")
        return name.replace("numpy.", "np.", 1)

    def _tuple(self, values: tuple[Any, ...]) -> str:
        if hasattr(values, "_fields"):
            # A record may hold functions for other purposes, such as gradients.
            named = zip(values._fields, values, strict=True)
            used = [None if callable(x) and name not in self._asked else x for name, x in named]
            return f"{self._class(type(values))}({', '.join(map(self.value, used))})"
        inside = ", ".join(map(self.value, values))
        return f"({inside},)" if len(values) == 1 else f"({inside})"

    def _list(self, values: list[Any]) -> str:
        return f"[{', '.join(map(self.value, values))}]"

    def _dict(self, values: dict[Any, Any]) -> str:
        return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in values.items()) + "}"

    def _slice(self, value: slice) -> str:
        parts = map(self.value, (value.start, value.stop, value.step))
        return f"slice({', '.join(parts)})"


def _length_text(length: Length) -> str:
    text = "n" if length.per_row == 1 else f"{literal(length.per_row)} * n"
    if not length.more:
        return text
    return f"{text} {'+' if length.more > 0 else '-'} {literal(abs(length.more))}"


# The kinds of values that can be written; the first match is used.
WRITERS: list[tuple[Any, Callable[[Functions, Any], str]]] = [
    (Length, Functions._length),
    (Share, lambda self, share: f"(1 / {self._length(share.of)})"),
    (PLAIN, lambda self, value: literal(value)),
    (tuple, Functions._tuple),
    (list, Functions._list),
    (dict, Functions._dict),
    (slice, Functions._slice),
    (np.ndarray, lambda self, array: self._array(array)),
    (type, Functions._class),
    (ModuleType, Functions._module),
    ((FunctionType, BuiltinFunctionType, np.ufunc), Functions._function),
]


def _shorten(tree: ast.FunctionDef | ast.ClassDef) -> None:
    """Leave the first line of a docstring: what follows is for readers of sknet, with examples."""
    said = ast.get_docstring(tree)
    if said is not None:
        tree.body[0] = ast.Expr(ast.Constant(said.partition("\n")[0]))


def _unknown(value: Any) -> CaptureError:
    return CaptureError(
        f"{value!r}, of type {type(value).__name__}, is needed for a prediction and cannot be written as "
        "Python that needs NumPy alone"
    )


def _scope_of(function: FunctionType) -> Scope:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}


def _joined(operands: list[str], params: Mapping[str, str]) -> str:
    return ", ".join([*operands, *[f"{name}={text}" for name, text in params.items()]])


def _arguments(tree: Function, operands: list[str], params: Mapping[str, str]) -> dict[str, ast.expr]:
    """Return the expression of each argument of a forward; the first argument is the namespace."""
    names = [a.arg for a in tree.args.args[1:]]
    texts = dict(zip(names, operands, strict=False)) | dict(params)
    if tree.args.vararg is not None:
        texts[tree.args.vararg.arg] = f"({', '.join(operands[len(names) :])},)"
    found = {name: ast.parse(text, mode="eval").body for name, text in texts.items()}
    defaults = zip(tree.args.args[::-1], tree.args.defaults[::-1], strict=False)
    missing = {a.arg: value for a, value in defaults if a.arg not in found}
    return {**missing, **found}


class _Rewriter(ast.NodeTransformer):
    """Turns a module's function into one of the file: without namespace and types, with resolved names."""

    def __init__(
        self, functions: Functions, scope: Scope, bound: set[str], known: Mapping[str, ast.expr]
    ) -> None:
        self.functions, self.scope, self.bound, self.known = functions, scope, bound, known
        self._asked: set[str] = set()

    def _parsed(self, text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self.bound = self.bound | bound_names(node)
        self._asked |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        return self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        node.args = [a for a in node.args if a.arg != XP]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if (
            node.value is None
            and isinstance(node.target, ast.Name)
            and node.target.id in self.scope.get("__annotations__", ())
        ):
            return None
        node.annotation = ast.Name("object", ast.Load())
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == XP:
            node.args = node.args[1:]
            if isinstance(node.func, ast.Name) and node.func.id == "getattr":
                name = ast.literal_eval(self.visit(node.args[0]))
                return self._parsed(self.functions.of_namespace(name))
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == XP:
            return self._parsed(self.functions.of_namespace(node.attr))
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return node
        if node.id in self.known:
            return self.known[node.id]
        if node.id == XP:
            return ast.Name("np", ast.Load())
        if node.id in self.bound or node.id not in self.scope:
            return node
        return self._parsed(self.functions.global_value(node.id, self.scope[node.id], self._asked))


class _Indexed(ast.NodeTransformer):
    """Rewrites ``x[(slice(None, 2, None), 0)]`` as ``x[:2, 0]``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = [_as_slice(part) for part in node.slice.elts]
        else:
            node.slice = _as_slice(node.slice)
        return node


def _as_slice(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice":
        lower, upper, step = [
            None if isinstance(part, ast.Constant) and part.value is None else part for part in node.args
        ]
        return ast.Slice(lower, upper, step)
    return node
