"""Functions as Python that needs only NumPy: captured ones line by line, others by their own source."""

import ast
import base64
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from sknet.compile._graph import Equation, Graph, Variable, read_as_laid_out
from sknet.compile._plan import Views
from sknet.compile._symbolic import (
    FIXED,
    ROWS,
    VARYING,
    Counted,
    Filled,
    Free,
    Length,
    Lengths,
    RowsGraph,
    Share,
    Triangles,
    terms_of,
)
from sknet.compile.passes import optimize
from sknet.core import Primitive
from sknet.device import backend
from sknet.exceptions import CaptureError
from sknet.graphs._literals import LACKING, FileNames, comment, docstring, literal

GIVEN = ("out", "scratch")  # arguments for preallocated memory, which a file does not use

Function = ast.FunctionDef | ast.Lambda
Names = frozenset[str]


@cache
def _module_tree(file: str) -> ast.Module:
    with open(file, encoding="utf-8") as source:
        return ast.parse(source.read())


def parsed(function: Any) -> Function:
    """Return a copy of the syntax tree of a function or lambda of the package."""
    code = function.__code__
    if function.__name__ != "<lambda>":
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        return tree
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for node in ast.walk(_module_tree(code.co_filename)):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if tuple(a.arg for a in given) == names:
                found = ast.parse(ast.unparse(node), mode="eval").body
                assert isinstance(found, ast.Lambda)
                return found
    raise OSError(f"the source of a lambda in line {code.co_firstlineno} of {code.co_filename} is not found")


def bound_names(tree: ast.AST) -> set[str]:
    """Return the names that a function binds: arguments, variables, inner functions."""
    found = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    found |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found | {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n is not tree}


# -- without preallocated memory ----------------------------------------------------------------


def without_memory(tree: Function) -> Function:
    """Return a function without the arguments in `GIVEN`, as if they were None."""
    arguments = tree.args
    removed = {a.arg for a in (*arguments.args, *arguments.kwonlyargs) if a.arg in GIVEN}
    count = len(arguments.args)
    first = count - len(arguments.defaults)
    kept = [(i, a) for i, a in enumerate(arguments.args) if a.arg not in removed]
    defaults = [arguments.defaults[i - first] for i, _ in kept if i >= first]
    only = [pair for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if pair[0].arg not in removed]  # fmt: skip
    arguments.args, arguments.defaults = [a for _, a in kept], defaults
    arguments.kwonlyargs, arguments.kw_defaults = [a for a, _ in only], [value for _, value in only]
    if isinstance(tree, ast.Lambda):
        tree.body = _Without(frozenset(removed)).visit(tree.body)
        return tree
    tree.body, _ = _block(tree.body, frozenset(removed))
    return tree


def _block(statements: list[ast.stmt], none: Names) -> tuple[list[ast.stmt], Names | None]:
    """Simplify statements given names that are None; also return those still None, or None if it returns."""
    body: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.If):
            found, after = _branches(statement, none)
        else:
            if isinstance(statement, (ast.For, ast.While, ast.With)):
                none -= _stored(statement)
            found, after = [_Without(none).visit(statement)], none - _stored(statement)
            if isinstance(statement, (ast.Return, ast.Raise)):
                after = None
        body += found
        if after is None:
            return body, None
        none = after
    return body, none


def _branches(statement: ast.If, none: Names) -> tuple[list[ast.stmt], Names | None]:
    statement.test = _Without(none).visit(statement.test)
    decided = _decided(statement.test)
    if decided is not None:
        return _block(statement.body if decided else statement.orelse, none)
    statement.body, first = _block(statement.body, none)
    statement.orelse, second = _block(statement.orelse, none)
    after = second if first is None else first if second is None else first & second
    return [statement], after


def _stored(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and _is_stored(n)}


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


class _Without(ast.NodeTransformer):
    """Replaces names by None, and resolves conditions that depend on them."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names and not _is_stored(node):
            return ast.Constant(None)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [k for k in node.keywords if not (k.arg in GIVEN and _is_none(k.value))]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        decided = _decided(node.test)
        return node if decided is None else node.body if decided else node.orelse


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _decided(test: ast.expr) -> bool | None:
    """Return the value of ``None is None`` or ``None is not None``; None for other conditions."""
    if not isinstance(test, ast.Compare) or not all(map(_is_none, (test.left, *test.comparators))):
        return None
    return isinstance(test.ops[0], ast.Is)


# -- without native code ------------------------------------------------------------------------


def without_native_code(tree: ast.AST) -> ast.AST:
    """Return functions without what they do only where there is native code."""
    return _WithoutNativeCode().visit(tree)


class _WithoutNativeCode(ast.NodeTransformer):
    """Leaves out the branches of ``if xp.may_be_native() and ...``."""

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        test = node.test
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            test = test.values[0]
        return node.orelse if ast.unparse(test) == "xp.may_be_native()" else node


# -- as one expression --------------------------------------------------------------------------


def expression_of(tree: Function) -> ast.expr | None:
    """Return the expression that a function returns, if it does nothing else."""
    if isinstance(tree, ast.Lambda):
        return tree.body
    body = [part for part in tree.body if not _is_text(part)]
    last = body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return None
    if len(body) == 1:
        return last.value
    assigned, value = body[0], last.value
    if len(body) == 2 and isinstance(assigned, ast.Assign) and isinstance(value, ast.Name):
        [target] = assigned.targets
        if isinstance(target, ast.Name) and target.id == value.id:
            return assigned.value
    return None


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


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

    def _length(self, length: Length | Lengths) -> str:
        text = _length_text(length)
        return text if text.isidentifier() else f"({text})"

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


def _length_text(length: Length | Lengths) -> str:
    text = ""
    for sizes, factor in sorted(terms_of(length).items(), key=lambda term: -len(term[0])):
        names = [f"s{i}" if i else "n" for i in sizes]
        if factor:
            product = " * ".join([*([] if abs(factor) == 1 and names else [literal(abs(factor))]), *names])
            sign = "-" if factor < 0 else "+"
            text += f" {sign} {product}" if text else product if factor > 0 else f"-{product}"
    return text


# The kinds of values that can be written; the first match is used.
WRITERS: list[tuple[Any, Callable[[Functions, Any], str]]] = [
    (VARYING, Functions._length),
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


Array = np.ndarray[Any, Any]
NOT_WRITTEN = {
    "attach_aux": "it occurs on the tape only",
    "coded_matmul": "codes of rows are read in training, and for single rows of tables, only",
    "dropout_mask": "predictions draw no random numbers",
    "paired_matmul": "codes of rows are read in training, and for single rows of tables, only",
    "sparse_matmul": "NumPy has no sparse matrices, give a dense example",
    "uniform_draws": "predictions draw no random numbers",
}
SHORT = 16  # up to so many elements of an array are written as numbers
WIDTH = 100  # characters of a line of encoded bytes
SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
DECODER = '''def decoded(text, dtype, shape):
    """Return the array whose bytes are encoded in a text."""
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)'''


class PythonSource:
    """Functions that need only NumPy, written from graphs, with everything they use.

    Parameters
    ----------
    others : collection of str or None, default=()
        As for ``FileNames``: names in the rest of the file.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> source = PythonSource()
    >>> w = source.array(np.ones((2, 3)), "weight")
    >>> print(source.function(
    ...     "hidden", "Activations.",
    ...     lambda n: capture(lambda w, x: ops.tanh(x @ w), np.ones((2, 3)), np.ones((n, 2))), [w], ["x"],
    ... ))
    def hidden(x):
        \"\"\"Activations.\"\"\"
        v2 = x @ weight                                         # matmul: (n, 3)
        v3 = np.tanh(v2)                                        # tanh: (n, 3)
        return v3
    """

    def __init__(self, others: Collection[str] | None = ()) -> None:
        self._names = FileNames(others)
        self._functions = Functions(self._unnamed, self._names)
        self._arrays: dict[str, str] = {}
        self._local: dict[str, str] = {}
        self._encoded = False

    def array(self, array: Any, name: str) -> str:
        """Store an array under a name similar to this one, and return the name."""
        name = self._names.of_user(f"layer_{name}" if name[:1].isdigit() else name)
        self._arrays[name] = f"{name} = {None if self._names.is_draft else self._text(np.asarray(array))}"
        return name

    def local(self, name: str) -> str:
        """Return a name for an argument, similar to `name`, that nothing else has: always the same."""
        if name not in self._local:
            self._local[name] = self._names.of_user(name)
        return self._local[name]

    def value(self, value: Any) -> str:
        """Return an expression for a value that functions use: data, or sknet's function or class."""
        return self._functions.value(value)

    def data(self, value: Any) -> str:
        """Return the expression of a value as `literal` does; large arrays are stored."""
        return literal(value, self._unnamed)

    def function(
        self,
        name: str,
        doc: str,
        captured: Callable[..., Graph],
        constants: Sequence[str],
        arguments: Sequence[str],
        layers: Mapping[str, str] | None = None,
        result: Callable[[list[str]], str] = ", ".join,
        free: Free = FIXED,
    ) -> str:
        """Return the source of a function that computes a graph for any number of rows and free lengths."""
        for each in (name, *arguments):
            self._names.take(each)
        rows = _optimized(captured, free)
        inputs = [*constants, *arguments]
        body = _Body(self, rows, dict(zip(rows.graph.inputs, inputs, strict=True)), layers or {})
        lines = [body.line(equation) for equation in rows.graph.equations]
        returned = result([body.operand(x) for x in rows.graph.outputs])
        sizes = {"n": f"len({arguments[0]})"} | {
            f"s{number}": f"{arguments[i]}.shape[{axis}]"
            for number, ((i, axis), *_) in enumerate(free.axes, 1)
        }
        said = "\n".join(line.partition("#")[0] for line in (*lines, returned))
        used = [f"{size} = {text}" for size, text in sizes.items() if re.search(rf"\b{size}\b", said)]
        lines[:0] = used
        text = "".join(f"    {line}\n" for line in (f'"""{docstring(doc)}"""', *lines, f"return {returned}"))
        return f"def {name}({', '.join(arguments)}):\n{text}".rstrip("\n")

    # -- dependencies of the functions --------------------------------------------------------

    @property
    def imports(self) -> str:
        own = self._functions.imports | ({"import base64"} if self._encoded else set())
        plain = sorted(line for line in own if line.startswith("import"))
        return "\n".join([*plain, *sorted(own - set(plain)), "", "import numpy as np"])

    @property
    def helpers(self) -> list[str]:
        """Definitions of functions, classes and constants, each after those that it uses."""
        return list(self._functions.definitions.values())

    @property
    def decoder(self) -> list[str]:
        return [DECODER] if self._encoded else []

    @property
    def arrays(self) -> list[str]:
        return list(self._arrays.values())

    def operation(self, equation: Equation, operands: list[str], params: Mapping[str, Any]) -> str:
        """Return an expression for an equation with `operands` and `params`, by its primitive's record."""
        name = equation.primitive.name
        try:
            if name in NOT_WRITTEN:
                raise CaptureError(NOT_WRITTEN[name])
            return self._functions.call(equation.primitive, operands, params)
        except (CaptureError, OSError) as error:
            raise CaptureError(
                f"{name} cannot be written as Python that needs NumPy alone: {error}"
            ) from error

    def _unnamed(self, array: Array) -> str:
        if array.size <= SHORT:
            return self._text(array)
        return self.array(array, "constant")

    def _text(self, array: Array) -> str:
        if array.dtype.kind not in "biuf" or array.size <= SHORT:
            if array.dtype.kind not in "biufUO":
                raise CaptureError(f"an array of dtype {array.dtype} cannot be written in Python")
            values = "object" if array.dtype.kind == "O" else literal(array.dtype.str)
            if not array.size:
                return f"np.empty({literal(array.shape)}, {values})"
            return f"np.array({literal(array.tolist())}, {values})"
        self._encoded = True
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        code = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        lines = "\n".join(code[i : i + WIDTH] for i in range(0, len(code), WIDTH))
        return f'decoded("""\n{lines}""", {literal(array.dtype.str)}, {literal(array.shape)})'


def _optimized(captured: Callable[..., Graph], free: Free) -> RowsGraph:
    """Return the optimized graph that programs execute, or the captured one if that depends on sizes."""
    samples = [ROWS, *free.samples]
    try:  # the passes that change no bit, as in the programs of predictors
        return RowsGraph.of_sizes(lambda *sizes: optimize(captured(*sizes), exact=True), samples)
    except CaptureError:
        return RowsGraph.of_sizes(captured, samples)


class _Body:
    def __init__(
        self, source: PythonSource, rows: RowsGraph, names: dict[Variable, str], layers: Mapping[str, str]
    ) -> None:
        self._source, self._rows, self._names, self._layers = source, rows, names, layers
        self._known = rows.graph.names()
        equations = rows.graph.equations
        self._views, self._read = Views(equations), read_as_laid_out(reversed(equations))
        self._turned: set[Variable] = set()  # what may not be C-contiguous

    def operand(self, x: Variable) -> str:
        """Return the name of a variable, or the expression of a constant."""
        name = self._names.get(x)
        if name is None:
            name = self._names[x] = self._constant(x)
        return name

    def line(self, equation: Equation) -> str:
        """Return the line that computes an equation, and record the name of its result."""
        line = self._rows.line(equation)
        operands = [
            self.operand(x) if type(x) is Variable else self._source.value(number)
            for x, number in zip(equation.operands, line.operands, strict=True)
        ]
        write = LINES.get(equation.primitive.name, _plain)
        text = self._laid_out(equation, write(self, equation, operands, line.params))
        name = self._names[equation.output] = self._known[equation.output]
        said = [self._layers[x] for x in operands if x in self._layers]
        about = ": ".join([*dict.fromkeys(said), equation.primitive.name, self._shape(equation.output)])
        return f"{f'{name} = {text}':<60}# {comment(about)}"

    def _laid_out(self, equation: Equation, text: str) -> str:
        """Make a result C-contiguous where a product or sum reads it, as calls and programs do."""
        output, primitive = equation.output, equation.primitive
        is_turned = not self._turned.isdisjoint(equation.variables)
        if primitive.view is not None:
            is_turned = is_turned or not self._views.ghost(output).flags.c_contiguous
        elif output.ndim < 2 or (output.ndim == 2 and primitive.name == "matmul"):
            is_turned = False
        elif is_turned and output in self._read:
            return f"np.ascontiguousarray({text})"
        if is_turned:
            self._turned.add(output)
        return text

    def _shape(self, x: Variable) -> str:
        inside = ", ".join(map(str, self._rows.shape(x)))
        return f"({inside},)" if x.ndim == 1 else f"({inside})"

    def _constant(self, variable: Variable) -> str:
        found, write = self._rows.constant(variable), self._source.value
        if not isinstance(found, (Filled, Counted, Triangles)):
            return write(found)
        shape, kind = write(found.shape), literal(variable.dtype.str)
        if isinstance(found, Filled):
            return f"np.full({shape}, {write(found.number.item())}, {kind})"
        if isinstance(found, Counted):
            [length, *others] = found.shape
            if not others:
                return f"np.arange({write(length)}, dtype={kind})"
            return f"np.arange(np.prod({shape}), dtype={kind}).reshape({shape})"
        mask = f"np.tri({write(found.shape[0])}, {write(found.shape[1])}, {write(found.diagonal)}, bool)"
        return f"np.where({mask}, {write(found.lower)}, {write(found.upper)})"


# -- lines ------------------------------------------------------------------------------------------


def _plain(body: _Body, equation: Equation, operands: list[str], params: Mapping[str, Any]) -> str:
    """Write an operator if Python has one for this NumPy function, else call the record's function."""
    text, forward = equation.primitive.expression, equation.primitive.forward
    if text is not None and isinstance(forward, str) and len(operands) == 2:
        node = ast.parse(text, mode="eval").body
        names = [x.id for x in ast.iter_child_nodes(node) if isinstance(x, ast.Name)]
        symbol = SYMBOLS.get(_operator(node))
        if names == ["x", "y"] and symbol is not None:
            return f" {symbol} ".join(operands)
    return body._source.operation(equation, operands, params)


def _operator(node: ast.expr) -> type[ast.AST]:
    """Return the operator of an arithmetic expression or comparison, or the type of any other expression."""
    if isinstance(node, ast.BinOp):
        return type(node.op)
    return type(node.ops[0]) if isinstance(node, ast.Compare) else type(node)


def _matmul(body: _Body, equation: Equation, operands: list[str], params: Mapping[str, Any]) -> str:
    return " @ ".join(operands)


# Primitives with a shorter form than a call of the record's forward.
LINES: dict[str, Callable[[_Body, Equation, list[str], Mapping[str, Any]], str]] = {
    "matmul": _matmul,
}
