"""A captured function as a Python function that needs only NumPy: one line for each equation."""

import ast
import base64
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from sknet.compile._graph import Equation, Graph, Variable, read_as_laid_out
from sknet.compile._plan import Views
from sknet.compile._symbolic import FIXED, ROWS, Counted, Filled, Free, Rows, Triangles
from sknet.compile.passes import optimize
from sknet.compile.python._functions import Functions
from sknet.compile.python._literals import FileNames, comment, docstring, literal
from sknet.exceptions import CaptureError

__all__ = ["PythonSource"]

Array = np.ndarray[Any, Any]
NOT_WRITTEN = {
    "attach_aux": "it occurs on the tape only",
    "coded_matmul": "codes of rows are read in training only",
    "dropout_mask": "predictions draw no random numbers",
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
        """Import statements, one per line."""
        own = self._functions.imports | ({"import base64"} if self._encoded else set())
        plain = sorted(line for line in own if line.startswith("import"))
        return "\n".join([*plain, *sorted(own - set(plain)), "", "import numpy as np"])

    @property
    def helpers(self) -> list[str]:
        """Definitions of functions, classes and constants, each after those that it uses."""
        return list(self._functions.definitions.values())

    @property
    def decoder(self) -> list[str]:
        """The decoding function of stored arrays, if there are any."""
        return [DECODER] if self._encoded else []

    @property
    def arrays(self) -> list[str]:
        """Assignments of the stored arrays."""
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


def _optimized(captured: Callable[..., Graph], free: Free) -> Rows:
    """Return the optimized graph that programs execute, or the captured one if that depends on sizes."""
    samples = [ROWS, *free.samples]
    try:  # the passes that change no bit, as in the programs of predictors
        return Rows.of_sizes(lambda *sizes: optimize(captured(*sizes), exact=True), samples)
    except CaptureError:
        return Rows.of_sizes(captured, samples)


class _Body:
    """The lines of one function."""

    def __init__(
        self, source: PythonSource, rows: Rows, names: dict[Variable, str], layers: Mapping[str, str]
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
