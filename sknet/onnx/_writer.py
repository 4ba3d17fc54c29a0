"""Writing the nodes of an ONNX graph, and the table of functions that write the primitives."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.compile import Equation, Variable
from sknet.compile._symbolic import (
    VARYING,
    Counted,
    Filled,
    Length,
    Lengths,
    RowsGraph,
    Share,
    Triangles,
    terms_of,
)
from sknet.exceptions import CaptureError

# Operators that onnxruntime computes only in single precision on the CPU: in double precision, values are
# rounded before and after.
SINGLE_ONLY = frozenset({
    "Acos", "Asin", "Atan", "Conv", "ConvTranspose", "Det", "Erf", "GRU", "LSTM", "RNN", "Softplus",
})  # fmt: skip


class Value(NamedTuple):
    name: str
    dtype: np.dtype[Any]
    shape: tuple[Any, ...]

    def known(self, axis: int) -> int:
        length: int = self.shape[axis]
        if isinstance(length, VARYING):
            raise CaptureError(
                f"the length of axis {axis} of {self.name} depends on the number of rows or another free "
                "length, with which this operation cannot be exported"
            )
        return length

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Node(NamedTuple):
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Writer:
    """Collects nodes and constants."""

    def __init__(self, rows: RowsGraph, sizes_of: Sequence[tuple[str, int]] = ()) -> None:
        self.rows = rows
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self._sizes_of = sizes_of  # an input and an axis for each size
        self._known: dict[bytes, Value] = {}
        self._values: dict[Variable, Value] = {}
        self._sizes: dict[int, Value] = {}
        self._count = 0

    # -- values -------------------------------------------------------------------------------

    def name(self, op: str) -> str:
        self._count += 1
        return f"{op.lower()}_{self._count}"

    def bind(self, variable: Variable, value: Value) -> None:
        """Record the ONNX value of a variable."""
        self._values[variable] = value._replace(shape=self.rows.shape(variable))

    def value(self, variable: Variable) -> Value:
        """Return the value of a variable; a constant is written on first use."""
        found = self._values.get(variable)
        if found is None:
            found = self._values[variable] = self._constant_of(variable)
        return found

    def _constant_of(self, variable: Variable) -> Value:
        found = self.rows.constant(variable)
        if isinstance(found, Filled) and not any(isinstance(n, VARYING) for n in found.shape):
            return self.constant(np.broadcast_to(found.number, found.shape))
        if isinstance(found, Filled):
            return self.expanded(self.constant(found.number), found.shape)
        if isinstance(found, Counted):
            return self.cast(self.counted(*found.shape), found.dtype)
        if isinstance(found, Triangles):
            rows, columns = found.shape
            column, row = self.counted(columns), self.counted(rows)
            row = self.add("Add", row, self.constant(found.diagonal, np.int64))
            row = self.reshaped(row, (rows, 1))
            is_above = self.add("Greater", column, row, dtype=bool, shape=found.shape)
            upper, lower = self.constant(found.upper), self.constant(found.lower)
            return self.add("Where", is_above, upper, lower, dtype=lower.dtype, shape=found.shape)
        return self.constant(found)

    def counted(self, *shape: int | Length | Lengths) -> Value:
        start, step = self.constant(np.array(0, np.int64)), self.constant(np.array(1, np.int64))
        if len(shape) == 1:
            stop = self.squeezed(self.lengths(shape))
            return self.add("Range", start, stop, step, shape=shape)
        stop = self.add("ReduceProd", self.lengths(shape), shape=(), keepdims=0)
        return self.reshaped(self.add("Range", start, stop, step, shape=(None,)), shape)

    def constant(self, array: Any, dtype: Any = None) -> Value:
        """Return a constant; equal ones are shared."""
        with np.errstate(over="ignore"):  # overflow gives infinity, as in NumPy
            array = np.ascontiguousarray(np.asarray(array, dtype=dtype)).reshape(np.shape(array))
        key = hashlib.sha256(repr((array.dtype.str, array.shape)).encode() + array.tobytes()).digest()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Value(self.name("constant"), array.dtype, array.shape)
            self.constants[found.name] = array
        return found

    def parameter(self, name: str, array: np.ndarray[Any, Any]) -> Value:
        self.constants[name] = array
        return Value(name, array.dtype, array.shape)

    # -- nodes --------------------------------------------------------------------------------

    def add(
        self, op: str, *inputs: Value | None, dtype: Any = None, shape: Any = None, **attributes: Any
    ) -> Value:
        """Add a node with one output, of the first input's dtype and shape unless said otherwise."""
        return self.add_several(op, inputs, [(dtype, shape)], **attributes)[0]

    def add_several(
        self, op: str, inputs: Sequence[Value | None], outputs: Sequence[tuple[Any, Any]], **attributes: Any
    ) -> list[Value]:
        """Add a node with several outputs, each given by its dtype and shape (None: as the first input)."""
        [first, *_] = [x for x in inputs if x is not None]
        if op in SINGLE_ONLY and first.dtype == np.dtype(np.float64):
            rounded = [None if x is None else self._rounded(x, np.float32) for x in inputs]
            found = self.add_several(op, rounded, outputs, **attributes)
            return [self._rounded(x, np.float64) for x in found]
        found = [
            Value(
                self.name(op),
                first.dtype if dtype is None else np.dtype(dtype),
                first.shape if shape is None else tuple(shape),
            )
            for dtype, shape in outputs
        ]
        names = tuple("" if x is None else x.name for x in inputs)
        self.nodes.append(Node(op, names, tuple(v.name for v in found), attributes))
        return found

    def _rounded(self, x: Value, dtype: Any) -> Value:
        return self.cast(x, dtype) if x.dtype.kind == "f" else x

    def cast(self, x: Value, dtype: Any) -> Value:
        dtype = np.dtype(dtype)
        return x if x.dtype == dtype else self.add("Cast", x, dtype=dtype, to=dtype)

    # -- lengths ------------------------------------------------------------------------------

    def lengths(self, shape: Sequence[Any]) -> Value:
        """Return lengths as one value of dtype int64, computed where they depend on the rows."""
        if all(isinstance(n, int) for n in shape):
            return self.constant(np.array(shape, np.int64))
        parts: list[Value] = []
        for n in shape:
            parts.append(self._length(n) if isinstance(n, VARYING) else self.constant([n], np.int64))
        if len(parts) == 1:
            return parts[0]
        return self.add("Concat", *parts, shape=(len(parts),), axis=0)

    def _length(self, length: Length | Lengths) -> Value:
        total: Value | None = None
        for sizes, factor in terms_of(length).items():
            parts = [self._size(i) for i in sizes]
            if factor != 1 or not parts:
                parts.append(self.constant([factor], np.int64))
            if factor:
                product = functools.reduce(lambda x, y: self.add("Mul", x, y), parts)
                total = product if total is None else self.add("Add", total, product)
        assert total is not None
        return total

    def _size(self, number: int) -> Value:
        if number not in self._sizes:
            if number >= len(self._sizes_of):
                raise CaptureError("lengths depend on the number of rows, and no input has rows")
            name, axis = self._sizes_of[number]
            source = Value(name, np.dtype(np.int64), (1,))
            self._sizes[number] = self.add("Shape", source, start=axis, end=axis + 1)
        return self._sizes[number]

    def number(self, number: Any, dtype: Any) -> Any:
        """Return a number as it is, or computed in a dtype if it depends on the rows."""
        if isinstance(number, VARYING):
            return self.cast(self.squeezed(self.lengths([number])), dtype)
        if isinstance(number, Share):
            return self.add("Reciprocal", self.number(number.of, dtype))
        return number

    def reshaped(self, x: Value, shape: Sequence[Any]) -> Value:
        shape = tuple(shape)
        if shape == x.shape:
            return x
        open_axes = [i for i, n in enumerate(shape) if isinstance(n, VARYING)]
        if len(open_axes) == 1 and 0 not in shape:
            known = [-1 if isinstance(n, VARYING) else n for n in shape]
            return self.add("Reshape", x, self.constant(known, np.int64), shape=shape)
        return self.add("Reshape", x, self.lengths(shape), shape=shape, allowzero=1)

    def expanded(self, x: Value, shape: Sequence[Any]) -> Value:
        shape = tuple(shape)
        known = [n for n in shape if isinstance(n, int)]
        if 0 in known and len(known) == len(shape):
            return self.constant(np.zeros(known), x.dtype)  # onnxruntime expands 1 to 0 wrongly
        return x if shape == x.shape else self.add("Expand", x, self.lengths(shape), shape=shape)

    def squeezed(self, x: Value) -> Value:
        return self.add("Squeeze", x, self.constant([0], np.int64), shape=())

    def transposed(self, x: Value, axes: Sequence[int]) -> Value:
        axes = [a % x.ndim for a in axes]
        if axes == list(range(x.ndim)):
            return x
        return self.add("Transpose", x, shape=[x.shape[a] for a in axes], perm=axes)


Row = Callable[..., Value]
TABLE: dict[str, Row] = {}

_GRADIENT = "it occurs in gradients only"
_TRAINING = "it occurs in training only, by the statistics of a batch"
_NO_OPERATOR = "ONNX has no such operator"

NOT_EXPORTED: dict[str, str] = {
    "attach_aux": "it occurs on the tape only",
    "channel_moments": _TRAINING,
    "channel_norm": _TRAINING,
    "channel_norm_gradient": _GRADIENT,
    "cholesky": _NO_OPERATOR,
    "coded_matmul": "codes of rows are read in training, and for single rows of tables, only",
    "conv_weight": _GRADIENT,
    "dropout_mask": "ONNX has other random numbers, and predictions draw none",
    "eigh": _NO_OPERATOR,
    "inv": _NO_OPERATOR,
    "layer_norm_gradient": _GRADIENT,
    "max_pool_put": _GRADIENT,
    "max_pool_take": _GRADIENT,
    "nextafter": _NO_OPERATOR,
    "paired_matmul": "codes of rows are read in training, and for single rows of tables, only",
    "pinv": _NO_OPERATOR,
    "qr": _NO_OPERATOR,
    "recurrence_gradient": _GRADIENT,
    "slogdet": _NO_OPERATOR,
    "solve": _NO_OPERATOR,
    "sparse_matmul": "ONNX has no sparse inputs: export with a dense example",
    "svd": _NO_OPERATOR,
    "uniform_draws": "ONNX has other random numbers, and predictions draw none",
}


def row(*names: str) -> Callable[[Row], Row]:
    """Register a function for these primitives: ``write(w, equation, *operands, **params) -> Value``."""

    def enter(function: Row) -> Row:
        for name in names:
            TABLE[name] = function
        return function

    return enter


def operands_of(w: Writer, equation: Equation) -> list[Any]:
    """Return an equation's operands: values, and numbers unless they depend on the rows."""
    return [
        w.value(x) if type(x) is Variable else w.number(number, equation.output.dtype)
        for x, number in zip(equation.operands, w.rows.line(equation).operands, strict=True)
    ]
