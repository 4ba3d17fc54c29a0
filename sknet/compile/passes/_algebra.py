"""Rewriting a graph: a walk over the equations, each offered to the rules for its primitive, and rules."""

import math
from collections.abc import Callable, Iterable, Sequence
from operator import is_, itemgetter
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from sknet._late import cached_property
from sknet.compile import _graph as own
from sknet.compile._graph import (
    Equation,
    Graph,
    Operand,
    Variable,
    as_read,
    is_repeated,
    key_of,
    read_as_laid_out,
)
from sknet.compile._plan import Views
from sknet.core import PRIMITIVES, Primitive
from sknet.device import backend, result_dtype
from sknet.device._backend import broadcast_shapes
from sknet.ops import SparseSlot

Rule = Any  # a function of the rewriter and an equation, identified by its name
CONSTANT, NUMBER = "constant", "number"  # kinds of operands besides results of primitives


class Rules:
    """Rules by primitive, each with the kinds of operands of which an equation has to read one."""

    def __init__(self, *others: "Rules") -> None:
        self.table: dict[str, list[tuple[Rule, frozenset[str]]]] = {}
        for other in others:
            for name, rules in other.table.items():
                self.table.setdefault(name, []).extend(rules)

    def on(self, *names: str, reads: Iterable[str] = ()) -> Callable[[Rule], Rule]:
        """Register a rule for these primitives, which `reads` restricts to equations with such an operand."""

        def register(rule: Rule) -> Rule:
            for name in names:
                self.table.setdefault(name, []).append((rule, frozenset(reads)))
            return rule

        return register

    def apply_to(self, graph: Graph) -> bool:
        return not self.table.keys().isdisjoint([equation.primitive.name for equation in graph.equations])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(rule.__name__ for rules in self.table.values() for rule, _ in rules)

    def only(self, *names: str) -> "Rules":
        found = Rules()
        for primitive, rules in self.table.items():
            found.table[primitive] = [each for each in rules if each[0].__name__ in names]
        return found


class Rewriter:
    """A graph being rewritten: what is known about every variable, and the equations emitted so far."""

    def __init__(self, graph: Graph, rules: Rules, exact: bool = False) -> None:
        self.constants = dict(graph.constants)
        self.definitions: dict[Variable, Equation] = {}
        self._rules, self._of_all = rules.table, rules.table.get("*", [])
        self._equations: list[Equation] = []
        self._known: dict[Any, Variable] = {}
        self._renamed: dict[Variable, Variable] = {}
        self._uses: dict[Variable, int] = {}
        for equation in graph.equations:
            for x in equation.variables:
                self._uses[x] = self._uses.get(x, 0) + 1
        for x in graph.outputs:
            self._uses[x] = self._uses.get(x, 0) + 1
        self._read_as_laid_out = read_as_laid_out(reversed(graph.equations))
        self._keeps_bits = exact
        self._before = graph.equations
        self._views = Views()
        self._n_viewed = 0

    def run(self, graph: Graph) -> Graph:
        renamed = self._renamed
        for equation in graph.equations:
            output = equation.output
            if not renamed.keys().isdisjoint(equation.variables):
                equation = equation.reading(
                    tuple([renamed.get(x, x) if type(x) is Variable else x for x in equation.operands])
                )
            found = self._add(equation)
            if self._keeps_bits and found is not output and not self._rounds_alike(found, output):
                found = self._appended(equation)
            if found is not output:
                renamed[output] = found
                self._uses[found] = self._uses.get(found, 0) + self._uses.get(output, 0)
        outputs = [renamed.get(x, x) for x in graph.outputs]
        return graph.replaced(constants=self.constants, equations=self._equations, outputs=outputs)

    def emit(self, primitive: Primitive | str, *operands: Operand, **params: Any) -> Variable:
        """Return the result of a primitive, as a new equation or in a simpler way."""
        record = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
        return self._add(Equation(record, operands, params))

    def constant(self, value: np.ndarray) -> Variable:
        if any(value.strides):
            value = np.ascontiguousarray(value)
        key = key_of(value)
        variable = self._known.get(key)
        if variable is None:
            variable = self._known[key] = Variable(value.shape, value.dtype)
            self.constants[variable] = value
        return variable

    def definition(self, x: Operand, name: str) -> Equation | None:
        """Return the equation that computes `x`, if it is of the primitive `name`."""
        found = self.definitions.get(x)
        return found if found is not None and found.primitive.name == name else None

    def is_used_once(self, x: Variable) -> bool:
        """Tell whether only one equation uses `x`, so that `x` is dead once that is rewritten."""
        return self._uses.get(x, 0) <= 1

    def is_read_as_laid_out(self, x: Variable) -> bool:
        """Tell whether a product or sum reads `x` or a view of it; its rounding depends on the strides."""
        return x in self._read_as_laid_out

    def _add(self, equation: Equation) -> Variable:
        kinds = set() if equation.variables else {CONSTANT}
        for x in equation.variables:
            made = self.definitions.get(x)
            if made is not None:
                kinds.add(made.primitive.name)
            elif x in self.constants:
                kinds.add(CONSTANT)
        if len(equation.variables) < len(equation.operands):
            kinds.add(NUMBER)
        for rules in (self._of_all, self._rules.get(equation.primitive.name, ())):
            for rule, reads in rules:
                if reads and reads.isdisjoint(kinds):
                    continue
                found = rule(self, equation)
                if found is not None:
                    return found
        return self._written(equation)

    def _rounds_alike(self, found: Variable, output: Variable) -> bool:
        """Tell whether products and sums round alike if they read a variable in place of another."""
        if output not in self._read_as_laid_out:
            return True
        now, then = self._views_now(), self._views_before
        if now.ghost(found).strides != then.ghost(output).strides:
            return False
        root, others = now.root(found), self._factors.get(output, ())
        return all(now.root(self._renamed.get(x, x)) is not root for x in others)

    def _views_now(self) -> Views:
        for equation in self._equations[self._n_viewed :]:
            self._views.add(equation)
        self._n_viewed = len(self._equations)
        return self._views

    @cached_property
    def _views_before(self) -> Views:
        return Views(self._before)

    @cached_property
    def _factors(self) -> dict[Variable, set[Variable]]:
        """Factors by which each variable is multiplied, directly or as a view."""
        found: dict[Variable, set[Variable]] = {}
        for equation in self._before:
            if equation.primitive is PRIMITIVES["matmul"]:
                x, y = (self._views_before.root(operand) for operand in equation.variables)
                if x is not y:
                    found.setdefault(x, set()).add(y)
                    found.setdefault(y, set()).add(x)
        return found

    def _written(self, equation: Equation) -> Variable:
        """Append an equation unless an identical one exists; return its output."""
        key = equation.form, equation.operands_key({})
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._appended(equation)
        return found

    def _appended(self, equation: Equation) -> Variable:
        self._equations.append(equation)
        self.definitions[equation.output] = equation
        return equation.output


def rewrite(graph: Graph, rules: Rules, exact: bool = False) -> Graph:
    """Return the graph after one walk with some rules; common subexpressions are merged."""
    return Rewriter(graph, rules, exact).run(graph)


def scalar_of(rewriter: Rewriter, x: Operand) -> bool | int | float | None:
    """Return the number that all elements of an operand are known to equal, or None."""
    if type(x) is not Variable:
        return x
    value = rewriter.constants.get(x)
    if value is None or value.size == 0 or (value.size > 1 and any(value.strides)):
        return None
    return value.flat[0].item()


ALGEBRA = Rules()
SIGNS = Rules()  # applied last: a sign that has not cancelled is absorbed by a number


def _is_like(x: Operand, other: Variable) -> TypeGuard[Variable]:
    return type(x) is Variable and x.shape == other.shape and x.dtype == other.dtype


# -- neutral elements -------------------------------------------------------------------------


@ALGEBRA.on("multiply", "divide", reads=(CONSTANT, NUMBER))
def times_one(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Multiplying or dividing x by 1 gives x."""
    x, y = equation.operands
    if scalar_of(rewriter, y) == 1 and _is_like(x, equation.output):
        return x
    if equation.primitive.name == "multiply" and scalar_of(rewriter, x) == 1 and _is_like(y, equation.output):
        return y
    return None


@ALGEBRA.on("add", "subtract", reads=(CONSTANT, NUMBER))
def plus_zero(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Adding or subtracting 0 gives x. Of floats, only -0.0 may be added, since -0.0 + 0.0 is 0.0."""
    x, y = equation.operands
    adds = equation.primitive.name == "add"
    if _is_zero(rewriter, y, equation, -1.0 if adds else 1.0) and _is_like(x, equation.output):
        return x
    if adds and _is_zero(rewriter, x, equation, -1.0) and _is_like(y, equation.output):
        return y
    return None


def _is_zero(rewriter: Rewriter, x: Operand, equation: Equation, sign: float) -> bool:
    """Tell whether an operand is 0, and has this sign where the sign of a zero matters."""
    value = scalar_of(rewriter, x)
    if value != 0:
        return False
    return equation.output.dtype.kind != "f" or math.copysign(1.0, value) == sign


@ALGEBRA.on("sum")
def over_single(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A sum over axes of length 1 is a reshape."""
    [x] = equation.operands
    if x.dtype == equation.output.dtype and all(x.shape[a] == 1 for a in equation.params["axis"]):
        return _reshaped(rewriter, x, equation.output.shape)
    return None


# -- shapes -----------------------------------------------------------------------------------


def _reshaped(rewriter: Rewriter, x: Variable, shape: tuple[int, ...]) -> Variable:
    return x if x.shape == shape else rewriter.emit("reshape", x, shape=shape)


@ALGEBRA.on("reshape")
def reshape_once(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Consecutive reshapes are merged; a negation moves behind them, where it may cancel another."""
    x: Variable = equation.operands[0]
    shape = equation.output.shape
    if x.shape == shape:
        return x
    before = rewriter.definition(x, "reshape")
    if before is not None:
        return _reshaped(rewriter, before.operands[0], shape)
    sign = rewriter.definition(x, "negative")
    if sign is not None and rewriter.is_used_once(x):
        return rewriter.emit("negative", _reshaped(rewriter, sign.operands[0], shape))
    return None


@ALGEBRA.on("permute_dims")
def permute_once(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Consecutive permutations are merged, and may cancel."""
    x: Variable = equation.operands[0]
    axes = equation.params["axes"]
    if list(axes) == list(range(-len(axes), 0)):
        return x
    before = rewriter.definition(x, "permute_dims")
    if before is None:
        return None
    first = before.params["axes"]
    return rewriter.emit("permute_dims", before.operands[0], axes=tuple(first[a] for a in axes))


@ALGEBRA.on("astype")
def same_dtype(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A conversion to the operand's own dtype is dropped."""
    x: Variable = equation.operands[0]
    return x if x.dtype == equation.output.dtype else None


@ALGEBRA.on(
    "add", "subtract", "multiply", "divide", "where", "maximum", "minimum", reads=("broadcast_to", "reshape")
)
def broadcast_late(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """An elementwise operation broadcasts by itself."""
    operands = tuple([_unbroadcast(rewriter, x) for x in equation.operands])
    if operands == equation.operands:
        return None
    changed = Equation(equation.primitive, operands, equation.params)
    if changed.output.shape != equation.output.shape:
        return None
    return rewriter.emit(equation.primitive, *operands)


@ALGEBRA.on("multiply", "divide", "negative", reads=("broadcast_to",))
def broadcast_afterwards(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """An array that is broadcast and then only combined with a number is combined before the broadcast."""
    if rewriter.is_read_as_laid_out(equation.output):
        return None
    for x in equation.variables:
        small = rewriter.definition(x, "broadcast_to")
        if len(equation.variables) > 1 or small is None or not rewriter.is_used_once(x):
            return None
        [source] = small.operands
        changed = rewriter.emit(
            equation.primitive, *[source if y is x else y for y in equation.operands], **equation.params
        )
        return rewriter.emit("broadcast_to", changed, shape=equation.output.shape)
    return None


def _unbroadcast(rewriter: Rewriter, x: Operand) -> Operand:
    found = rewriter.definitions.get(x)
    if found is None or found.primitive.name not in ("broadcast_to", "reshape"):
        return x
    [source] = found.operands
    if found.primitive.name == "broadcast_to":
        return _unbroadcast(rewriter, source)
    return x if source.shape or x.size != 1 else source


@ALGEBRA.on("where", reads=(CONSTANT, NUMBER))
def where_or_zero(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A `where` with zeros on one side is a mask: it keeps all bits of an element of x, or none."""
    condition, x, y = equation.operands
    if type(condition) is not Variable or condition.dtype.kind != "b":
        return None
    if scalar_of(rewriter, condition) is not None:
        return None
    if _is_zero(rewriter, y, equation, 1.0) and _is_floating(rewriter, x, equation):
        return rewriter.emit(own.masked, x, condition)
    if _is_zero(rewriter, x, equation, 1.0) and _is_floating(rewriter, y, equation):
        return rewriter.emit(own.masked, y, rewriter.emit("logical_not", condition))
    return None


def _is_floating(rewriter: Rewriter, x: Operand, equation: Equation) -> bool:
    return _is_like(x, equation.output) and x.dtype.kind == "f" and scalar_of(rewriter, x) is None


# -- signs ------------------------------------------------------------------------------------


@ALGEBRA.on("negative", reads=("negative", "multiply", "divide"))
def negative_of(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Two negations cancel; otherwise the negation moves to a smaller factor."""
    [x] = equation.operands
    found = _negated(rewriter, x)
    if found is not None:
        return found
    product = rewriter.definition(x, "multiply") or rewriter.definition(x, "divide")
    if product is None or not rewriter.is_used_once(x):
        return None
    a, b = product.operands
    if type(b) is Variable and b.ndim and b.size * 2 <= x.size > 0 and _takes_sign(b, product):
        return rewriter.emit(product.primitive, a, rewriter.emit("negative", b))
    if type(a) is Variable and a.ndim and a.size * 2 <= x.size > 0 and _takes_sign(a, product):
        return rewriter.emit(product.primitive, rewriter.emit("negative", a), b)
    return None


def _takes_sign(x: Operand, equation: Equation) -> bool:
    """Tell whether an operand can be negated instead of the result: integers must not change their width."""
    if type(x) is not Variable:
        return False
    return x.dtype.kind == "f" or x.dtype == equation.output.dtype


def _negated(rewriter: Rewriter, x: Operand) -> Variable | None:
    """Return -x if that needs no additional equation, else None."""
    found = rewriter.definitions.get(x) if type(x) is Variable else None
    if found is None:
        return None
    name, operands = found.primitive.name, found.operands
    if name == "negative":
        return operands[0]
    if not rewriter.is_used_once(x):
        return None
    if name in ("multiply", "divide"):
        for i, factor in enumerate(operands):
            if not _takes_sign(factor, found):
                continue
            changed = _negated(rewriter, factor)
            if changed is not None:
                return rewriter.emit(name, *[changed if i == j else y for j, y in enumerate(operands)])
    return None


@SIGNS.on("negative", reads=("multiply", "divide"))
def negative_number(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """-(c * x) is (-c) * x, and -(c / x) is (-c) / x, for real numbers."""
    [x] = equation.operands
    product = rewriter.definition(x, "multiply") or rewriter.definition(x, "divide")
    if product is None or not rewriter.is_used_once(x):
        return None
    a, b = product.operands
    # An integer 0 has no sign.
    if type(a) is not Variable:
        return rewriter.emit(product.primitive, -float(a), b) if _is_real(a, b) else None
    if type(b) is Variable or not _is_real(b, a):
        return None
    return rewriter.emit(product.primitive, a, -float(b))


def _is_real(number: Operand, x: Variable) -> bool:
    return x.dtype.kind == "f" or isinstance(number, float)


@ALGEBRA.on("add", reads=("negative",))
def add_negative(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Adding -y is subtracting y."""
    x, y = equation.operands
    for a, b in ((x, y), (y, x)):
        sign = rewriter.definition(b, "negative")
        if sign is not None and _takes_sign(b, equation):
            return rewriter.emit("subtract", a, sign.operands[0])
    return None


@ALGEBRA.on("subtract", reads=("negative",))
def subtract_negative(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Subtracting -y is adding y."""
    x, y = equation.operands
    sign = rewriter.definition(y, "negative")
    if sign is None or not _takes_sign(y, equation):
        return None
    return rewriter.emit("add", x, sign.operands[0])


# -- a quotient times a number --------------------------------------------------------------


@ALGEBRA.on("scaled_quotient")
def scaled_in_order(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Restore (scale * x) / y, the order of the uncompiled operations."""
    x, y, scale = equation.operands
    return rewriter.emit("divide", rewriter.emit("multiply", scale, x), y)


# -- one element per row ----------------------------------------------------------------------


def _one_a_row(indices: Variable, axis: int) -> bool:
    return axis == -1 and indices.shape[-1] == 1 and indices.size > 0


@ALGEBRA.on("take_along_axis")
def take_by_position(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """One element per row is taken by its flat position, which is computed once for all uses."""
    x, indices = equation.operands
    if not _one_a_row(indices, equation.params["axis"]):
        return None
    positions = _positions(rewriter, indices, x.shape[-1], equation)
    return _reshaped(rewriter, rewriter.emit(own.take_at, x, positions), equation.output.shape)


@ALGEBRA.on("put_along_axis")
def put_by_position(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The adjoint of `take_by_position`."""
    g, indices = equation.operands
    if not _one_a_row(indices, equation.params["axis"]):
        return None
    positions = _positions(rewriter, indices, equation.params["length"], equation)
    return rewriter.emit(own.put_at, g, positions, shape=equation.output.shape)


def _positions(rewriter: Rewriter, indices: Variable, length: int, equation: Equation) -> Variable:
    flat = _reshaped(rewriter, indices, (math.prod(indices.shape),))
    where = {name: value for name, value in equation.params.items() if name == "from_end"}
    return rewriter.emit(own.flat_index, flat, length=length, **where)


@ALGEBRA.on("sum", reads=("put_at",))
def sum_of_put(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A row that is zero except for one element sums to that element."""
    [x] = equation.operands
    put = rewriter.definition(x, "put_at")
    if put is None or equation.params["axis"] != (-1,) or x.dtype != equation.output.dtype:
        return None
    return _reshaped(rewriter, put.operands[0], equation.output.shape)


@ALGEBRA.on("subtract", reads=("put_at",))
def subtract_from_put(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """-(g put into zeros) - x is -x, minus g at those positions."""
    x, y = equation.operands
    put = rewriter.definition(x, "put_at")
    if put is None or not (_is_like(x, equation.output) and _is_like(y, equation.output)):
        return None
    g, positions = put.operands
    return rewriter.emit(
        own.subtract_at, rewriter.emit("negative", y), rewriter.emit("negative", g), positions
    )


# -- constants: what depends on constants only is computed once, when the graph is made -------


LARGEST = 1 << 16  # elements of a computed constant: larger ones cost more memory than they save time

CONSTANTS = Rules()


@CONSTANTS.on("*", reads=(CONSTANT,))
def fold(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Compute an equation whose operands are all constant."""
    constants = rewriter.constants
    for x in equation.variables:
        if x not in constants:
            return None
    if any(isinstance(x, SparseSlot) for x in equation.params.values()):
        return None  # the slot's contents change
    if equation.output.size > LARGEST and equation.primitive.view is None:
        return None
    known = as_read({x: constants[x] for x in equation.variables}, [equation])
    values = [known[x] if type(x) is Variable else x for x in equation.operands]
    forward = equation.primitive.forward_on(backend("cpu"))
    with np.errstate(all="ignore"):
        value = np.asarray(forward(*values, **equation.params))
    if equation.output.size > LARGEST and not (is_repeated(value) or value.flags.c_contiguous):
        return None  # constants are C-contiguous
    return rewriter.constant(value)


@CONSTANTS.on("*", reads=(CONSTANT,))
def number(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Replace a constant array of one repeated number by the number, if shape and dtype stay the same."""
    if equation.primitive.expression is None or len(equation.operands) < 2:
        return None
    condition = equation.primitive.condition
    operands = list(equation.operands)
    for i, x in enumerate(equation.operands):
        if x in rewriter.constants and i != condition:
            operands[i] = _number_or_self(rewriter, x)
    if all(map(is_, operands, equation.operands)):
        return None
    if not _fits(operands, equation):
        return None
    return rewriter.emit(equation.primitive, *operands, **equation.params)


def _number_or_self(rewriter: Rewriter, x: Any) -> Any:
    value = scalar_of(rewriter, x) if type(x) is Variable else None
    return x if value is None else value


def _fits(operands: list[Any], equation: Equation) -> bool:
    shapes = [x.shape for x in operands if type(x) is Variable]
    numbers = equation.primitive.values(tuple(operands))
    if not any(type(x) is Variable for x in numbers):
        return False
    same_shape = broadcast_shapes(*shapes) == equation.output.shape
    return same_shape and result_dtype(*numbers) == result_dtype(
        *equation.primitive.values(equation.operands)
    )


# -- arrays from parts, which are written to their place directly, and not added up -----------
# Rows of the first axis are a slice of the flat array, so what has such parts is assembled as a flat array,
# and shapes come last. Parts along other axes are concatenated.


ASSEMBLY = Rules()

Parts = list[tuple[int, Variable]]


@ASSEMBLY.on("scatter_add")
def scatter(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for some rows, such as the gradient of a slice."""
    [x], shape = equation.operands, equation.params["shape"]
    span = _span(equation.params["index"], shape)
    if span is None or span.axis or not x.size:
        return None
    return _assembled(rewriter, [(span.start * math.prod(shape[1:]), x)], equation.output)


@ASSEMBLY.on("scatter_add")
def scattered_inside(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for a part of another axis, such as the gradient of some columns."""
    [x], shape = equation.operands, equation.params["shape"]
    span = _span(equation.params["index"], shape)
    if span is None or not span.axis or not x.size:
        return None
    part = _reshaped(rewriter, x, (*shape[: span.axis], span.stop - span.start, *shape[span.axis + 1 :]))
    return _concatenated(rewriter, [(span.start, part)], span.axis, equation.output)


@ASSEMBLY.on("add", reads=("assemble", "reshape"))
def disjoint(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays whose rows do not overlap is assembled from the rows of both."""
    first, second = (_definition(rewriter, x) for x in equation.operands)
    if first is None or second is None or not all(_is_like(x, equation.output) for x in equation.operands):
        return None
    parts = sorted(_parts(first) + _parts(second), key=itemgetter(0))
    if _overlap(parts, [x.size for _, x in parts]):
        return None
    return _assembled(rewriter, parts, equation.output)


@ASSEMBLY.on("add", reads=("concat",))
def disjoint_inside(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays of which each is zero where the other is not, along an axis."""
    first, second = (rewriter.definition(x, "concat") for x in equation.operands)
    if first is None or second is None or not all(_is_like(x, equation.output) for x in equation.operands):
        return None
    axis = first.params["axis"] % len(equation.output.shape)
    if second.params["axis"] % len(equation.output.shape) != axis:
        return None
    parts = sorted(_parts_along(rewriter, first) + _parts_along(rewriter, second), key=itemgetter(0))
    if any(x.dtype != equation.output.dtype for _, x in parts):
        return None
    if _overlap(parts, [x.shape[axis] for _, x in parts]):
        return None
    return _concatenated(rewriter, parts, axis, equation.output)


@ASSEMBLY.on("add", reads=("scatter_add",))
def nothing_added(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum with zeros that are the gradient of an empty slice."""
    for x, zeros in (equation.operands, equation.operands[::-1]):
        scattered = rewriter.definition(zeros, "scatter_add")
        if scattered is not None and not scattered.operands[0].size and _is_like(x, equation.output):
            return x
    return None


@ASSEMBLY.on("concat")
def joined(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """An array concatenated from rows; zeros among them need not be written."""
    output = equation.output
    if equation.params["axis"] % len(output.shape) or any(x.dtype != output.dtype for x in equation.operands):
        return None
    parts: Parts = []
    start = 0
    for x in equation.operands:
        inner = _definition(rewriter, x)
        if inner is not None and rewriter.is_used_once(x):
            parts += [(start + at, part) for at, part in _parts(inner)]
        elif scalar_of(rewriter, x) != 0 and x.size:
            parts.append((start, x))
        start += x.size
    return _assembled(rewriter, parts, output) if parts else None


class _Span(NamedTuple):
    """Some consecutive elements along an axis, and all along the others."""

    axis: int
    start: int
    stop: int


def _span(index: Any, shape: tuple[int, ...]) -> _Span | None:
    """Return what an index takes, if that is all rows, or consecutive elements, or one, along one axis."""
    given = tuple([part for part in (index if isinstance(index, tuple) else (index,)) if part is not None])
    whole = [i for i, part in enumerate(given) if part is Ellipsis]
    if whole:
        all_of_others = (slice(None),) * (len(shape) - len(given) + 1)
        given = (*given[: whole[0]], *all_of_others, *given[whole[0] + 1 :])
    if not given or not shape:
        return None
    found = _Span(0, 0, shape[0])
    for axis, (part, n) in enumerate(zip(given, shape, strict=False)):
        if isinstance(part, int) and not isinstance(part, bool):
            part = slice(part, part + 1 or None)
        if not isinstance(part, slice):
            return None
        start, stop, step = part.indices(n)
        if (start, stop, step) == (0, n, 1):
            continue
        if step != 1 or stop <= start or (found.start, found.stop) != (0, shape[found.axis]):
            return None
        found = _Span(axis, start, stop)
    return found


def _definition(rewriter: Rewriter, x: Operand) -> Equation | None:
    """Return the equation that assembles an array, or the flat one that has its elements."""
    shaped = rewriter.definition(x, "reshape")
    return rewriter.definition(x if shaped is None else shaped.operands[0], "assemble")


def _parts(equation: Equation) -> Parts:
    return list(zip(equation.params["starts"], equation.operands, strict=True))


def _overlap(parts: Parts, lengths: Sequence[int]) -> bool:
    """Tell whether a part, of those in order, begins before the one before it ends."""
    ends = [start + length for (start, _), length in zip(parts, lengths, strict=True)]
    return any(end > start for end, (start, _) in zip(ends, parts[1:], strict=False))


def _parts_along(rewriter: Rewriter, joined: Equation) -> Parts:
    """Return what is concatenated, without zeros, and where each part begins along the axis."""
    found, start, axis = [], 0, joined.params["axis"]
    for x in joined.operands:
        if scalar_of(rewriter, x) != 0:
            found.append((start, x))
        start += x.shape[axis]
    return found


def _concatenated(rewriter: Rewriter, parts: Parts, axis: int, like: Variable) -> Variable:
    """Return an array of the shape of `like` with these parts, and zeros elsewhere."""
    whole, end = [], 0
    for start, x in (*parts, (like.shape[axis], None)):
        if start > end:
            shape = (*like.shape[:axis], start - end, *like.shape[axis + 1 :])
            whole.append(rewriter.constant(np.broadcast_to(np.zeros((), like.dtype), shape)))
        if x is not None:
            whole.append(x)
            end = start + x.shape[axis]
    return whole[0] if len(whole) == 1 else rewriter.emit("concat", *whole, axis=axis - len(like.shape))


def _assembled(rewriter: Rewriter, parts: Parts, like: Variable) -> Variable:
    """Return an array of the shape of `like` with these parts."""
    flat = [_reshaped(rewriter, part, (part.size,)) for _, part in parts]
    starts = tuple([start for start, _ in parts])
    if [x.size for x in flat] != [like.size]:
        flat = [rewriter.emit(own.assemble, *flat, starts=starts, size=like.size)]
    return _reshaped(rewriter, flat[0], like.shape)


RELAXED = Rules()
MODERATE = 256.0  # the largest factor that may follow an underflow
NEVER_NEGATIVE = ("abs", "exp", "square")  # primitives whose results are never negative, nor -0.0
BLAS = "fd"  # dtypes of BLAS; NumPy accumulates products of other dtypes in a wider one


# -- softmax, in terms that loss and gradient share -------------------------------------------


@RELAXED.on("log_softmax")
def log_softmax_in_parts(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Shifted logits minus the logarithm of the sum of their exponentials."""
    if not equation.output.size:
        return None
    shifted, _, total = _softmax_parts(rewriter, equation)
    return rewriter.emit("subtract", shifted, rewriter.emit("log", total))


@RELAXED.on("softmax")
def softmax_in_parts(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Exponentials of shifted logits, divided by their sum."""
    if not equation.output.size:
        return None
    _, raised, total = _softmax_parts(rewriter, equation)
    return rewriter.emit("divide", raised, total)


def _softmax_parts(rewriter: Rewriter, equation: Equation) -> tuple[Variable, Variable, Variable]:
    [x], axis = equation.operands, (equation.params["axis"],)
    shifted = rewriter.emit("subtract", x, rewriter.emit("max", x, axis=axis, keepdims=True))
    raised = rewriter.emit("exp", shifted)
    return shifted, raised, rewriter.emit("sum", raised, axis=axis, keepdims=True)


def _is_softmax_sum(rewriter: Rewriter, total: Operand, raised: Operand) -> bool:
    """Tell whether `total` is the sum of `raised`, which are exponentials of shifted logits."""
    added = rewriter.definition(total, "sum")
    if added is None or added.operands[0] is not raised or not added.params["keepdims"]:
        return False
    power = rewriter.definition(raised, "exp")
    shifted = rewriter.definition(power.operands[0], "subtract") if power is not None else None
    top = rewriter.definition(shifted.operands[1], "max") if shifted is not None else None
    if shifted is None or top is None or top.params != added.params:
        return False
    return bool(top.operands[0] is shifted.operands[0])


@RELAXED.on("exp", reads=("subtract",))
def exp_of_log_softmax(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """exp(x - log(sum(exp(x)))) is exp(x) / sum(exp(x)), for shifted logits x."""
    [x] = equation.operands
    difference = rewriter.definition(x, "subtract")
    if difference is None:
        return None
    shifted, log = difference.operands
    logarithm = rewriter.definition(log, "log")
    if logarithm is None or type(shifted) is not Variable:
        return None
    [total] = logarithm.operands
    added = rewriter.definition(total, "sum")
    if added is None or not _is_softmax_sum(rewriter, total, added.operands[0]):
        return None
    [raised] = added.operands
    if rewriter.definitions[raised].operands[0] is not shifted:
        return None
    return rewriter.emit("divide", raised, total)


@RELAXED.on("multiply", reads=("divide",))
def softmax_times_row(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A softmax times one number per row is its exponentials times a quotient per row."""
    for x, b in (equation.operands, equation.operands[::-1]):
        quotient = rewriter.definition(x, "divide")
        if quotient is None or (type(b) is Variable and not b.size * 2 <= x.size > 0):
            continue
        raised, total = quotient.operands
        if rewriter.is_used_once(x) and _is_softmax_sum(rewriter, total, raised):
            return rewriter.emit("multiply", raised, rewriter.emit("divide", b, total))
    return None


@RELAXED.on("take_at", reads=("subtract",))
def take_before(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Elements of x - log(y), with one y per row, are elements of x minus the logarithm of their row's y."""
    x, positions = equation.operands
    difference = rewriter.definition(x, "subtract")
    if difference is None:
        return None
    a, b = difference.operands
    if (
        rewriter.definition(b, "log") is None
        or b.shape != (*x.shape[:-1], 1)
        or type(a) is not Variable
        or a.shape != x.shape
    ):
        return None
    rest = rewriter.emit("reshape", b, shape=positions.shape)
    return rewriter.emit("subtract", rewriter.emit(own.take_at, a, positions), rest)


@RELAXED.on("negative", reads=("subtract",))
def negative_log_softmax(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """-(x - log(total)) is log(total) - x, except for the sign of the zero of a class with probability 1."""
    [difference] = equation.operands
    found = rewriter.definition(difference, "subtract")
    if found is None or not rewriter.is_used_once(difference):
        return None
    x, log = found.operands
    reshaped = rewriter.definition(log, "reshape")
    logarithm = rewriter.definition(log if reshaped is None else reshaped.operands[0], "log")
    added = rewriter.definition(logarithm.operands[0], "sum") if logarithm is not None else None
    if added is None or not _is_softmax_sum(rewriter, added.output, added.operands[0]):
        return None
    return rewriter.emit("subtract", log, x)


# -- numbers are combined before they are applied to an array ---------------------------------


@RELAXED.on("multiply", "divide", reads=("multiply", "divide"))
def numbers_first(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """(x * a) * b is x * (a * b), for numbers a and b that keep x in range; quotients alike."""
    x, b = _array_and_number(equation)
    inner = None if b is None else rewriter.definition(x, "multiply") or rewriter.definition(x, "divide")
    if b is None or inner is None or not rewriter.is_used_once(x):
        return None
    large, a = _array_and_number(inner)
    if a is None or type(large) is not Variable or large.dtype != equation.output.dtype:
        return None
    names = inner.primitive.name, equation.primitive.name
    first, second = (
        abs(number) if name == "multiply" else 1.0 / abs(number)
        for number, name in zip((a, b), names, strict=True)
    )
    if names == ("divide", "divide") or not _keep_range(first, second, large.dtype):
        return None
    factor = {"multiply multiply": a * b, "multiply divide": a / b, "divide multiply": b / a}[" ".join(names)]
    return rewriter.emit("multiply", large, factor)


def _array_and_number(equation: Equation) -> tuple[Operand, float | None]:
    """Return array and number of a product or quotient; the number is None where there is none."""
    x, y = equation.operands
    if equation.primitive.name == "multiply" and type(x) is not Variable:
        x, y = y, x
    is_one = type(x) is Variable and type(y) is not Variable and y != 0 and math.isfinite(y)
    return (x, float(y)) if is_one and x.dtype.kind == "f" else (x, None)


def _keep_range(first: float, second: float, dtype: np.dtype) -> bool:
    """Tell whether x times `first` times `second` and x times their product are in range for the same x."""
    if not all(_is_normal(number, dtype) for number in (first, second, first * second)):
        return False
    return second >= 1.0 if first > 1.0 else second <= MODERATE and first * second <= 1.0


def _is_normal(number: float, dtype: np.dtype) -> bool:
    limits = np.finfo(dtype)
    return float(limits.smallest_normal) <= number <= float(limits.max)


@RELAXED.on("divide", reads=(NUMBER,))
def reciprocal(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A scalar divided by a constant is a product, which can be computed in place."""
    x, y = equation.operands
    if type(x) is not Variable or x.shape or type(y) is Variable or x.dtype != equation.output.dtype:
        return None
    if x.dtype.kind != "f" or not all(_is_normal(abs(number), x.dtype) for number in (y, 1.0 / (y or 1.0))):
        return None
    return rewriter.emit("multiply", x, 1.0 / y)


@RELAXED.on("scaled_quotient")
def scaled_afterwards(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Scale * x / y is scale * (x / y): the next operation may absorb the number at no cost."""
    x, y, scale = equation.operands
    if type(scale) is Variable and (scale.shape or scale.dtype != equation.output.dtype):
        return None
    if not _is_like(x, equation.output) or not _is_like(y, equation.output):
        return None
    return rewriter.emit("multiply", scale, rewriter.emit("divide", x, y))


@RELAXED.on("add", "subtract", reads=("multiply",))
def add_multiple(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """X + c * y takes one pass over flat arrays, or where x is a matrix product."""
    output = equation.output
    if output.dtype.kind != "f" or not output.size:
        return None
    x, y = equation.operands
    for base, other in ((x, y), (y, x))[: 2 if equation.primitive.name == "add" else 1]:
        product = rewriter.definition(other, "multiply")
        if product is None or not rewriter.is_used_once(other) or not _is_like(base, output):
            continue
        made_of = rewriter.definitions.get(base) if type(base) is Variable else None
        if base is other or (made_of is not None and other in made_of.operands):
            continue  # x - x would leave a rounding error
        c, rest = _number_and_rest(product)
        # BLAS treats 0 times anything as 0; and rounding once keeps finite some products that would overflow.
        if c is None or (
            type(c) is not Variable and not 0 < float(np.array(min(abs(c), 2.0), output.dtype)) <= 1
        ):
            continue
        if not _is_like(rest, output) or rest is base or scalar_of(rewriter, rest) is not None:
            continue
        if output.ndim != 1 and not (rewriter.definition(base, "matmul") and _is_part(rewriter, rest)):
            continue
        if equation.primitive.name == "subtract":
            c = rewriter.emit("negative", c) if type(c) is Variable else -c
        return rewriter.emit(own.axpy, base, rest, c)
    return None


def _is_part(rewriter: Rewriter, x: Variable) -> bool:
    """Tell whether `x` is a slice of a flat array, or all of an input, in memory order."""
    whole = rewriter.definition(x, "reshape")
    flat = whole.operands[0] if whole is not None else x
    part = rewriter.definition(flat, "getitem")
    return flat not in rewriter.definitions or (part is not None and flat.ndim == part.operands[0].ndim == 1)


def _number_and_rest(product: Equation) -> tuple[Operand | None, Variable]:
    """Return the factor of a product that is a scalar (None if neither is), and the other factor."""
    a, b = product.operands
    if type(b) is Variable and (type(a) is not Variable or (not a.shape and a.dtype == b.dtype)):
        return a, b
    if type(a) is Variable and (type(b) is not Variable or (not b.shape and a.dtype == b.dtype)):
        return b, a
    return None, product.output


# -- sums of products -------------------------------------------------------------------------


@RELAXED.on("sum", reads=("negative", "multiply"))
def sum_of_negative(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of -x is minus that of x, and that of -x * y minus that of x * y, up to the sign of a zero."""
    [x] = equation.operands
    if type(x) is not Variable or x.dtype.kind != "f" or not rewriter.is_used_once(x):
        return None
    positive = _without_sign(rewriter, x)
    if positive is None:
        return None
    return rewriter.emit("negative", rewriter.emit("sum", positive, **equation.params))


def _without_sign(rewriter: Rewriter, x: Variable) -> Variable | None:
    """Return -x if x is computed as minus that, or as a product with a factor that is."""
    negative = rewriter.definition(x, "negative")
    if negative is not None:
        [positive] = negative.operands
        return positive if type(positive) is Variable else None
    product = rewriter.definition(x, "multiply")
    for a, b in (product.operands, product.operands[::-1]) if product is not None else ():
        factor = rewriter.definition(a, "negative")
        if factor is not None and a.shape == x.shape and rewriter.is_used_once(a):
            return rewriter.emit("multiply", factor.operands[0], b)
    return None


@RELAXED.on("sum", reads=("multiply",))
def sum_of_product(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of all elements of a product is an inner product, which needs no temporary array."""
    [x] = equation.operands
    product = rewriter.definition(x, "multiply")
    if product is None or len(equation.params["axis"]) != len(x.shape) or not rewriter.is_used_once(x):
        return None
    a, b = product.operands
    if (
        any(type(y) is not Variable or y.shape != x.shape or y.dtype != x.dtype for y in (a, b))
        or x.dtype.char not in BLAS
    ):
        return None
    row = rewriter.emit("reshape", a, shape=(1, x.size))
    column = rewriter.emit("reshape", b, shape=(x.size, 1))
    return rewriter.emit("reshape", rewriter.emit("matmul", row, column), shape=equation.output.shape)


# -- powers -----------------------------------------------------------------------------------


@RELAXED.on("pow", reads=(NUMBER,))
def simple_power(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Powers of 2, and of 0.5 of what is never negative, have functions of their own."""
    x, exponent = equation.operands
    if type(x) is not Variable or x.dtype.kind != "f" or type(exponent) is Variable:
        return None
    if exponent == 2:
        return rewriter.emit("square", x)
    is_root = exponent == 0.5 and any(rewriter.definition(x, name) for name in NEVER_NEGATIVE)
    return rewriter.emit("sqrt", x) if is_root else None


EXACT_RULES = Rules(CONSTANTS, ALGEBRA, ASSEMBLY)
ALL_RULES = Rules(CONSTANTS, RELAXED, ALGEBRA, ASSEMBLY)
RULES = Rules(ALL_RULES, SIGNS)  # of all passes


def optimize(graph: Graph, *, exact: bool = False) -> Graph:
    """Return a graph that computes the same with fewer equations and passes over memory."""
    rules = EXACT_RULES if exact else ALL_RULES
    graph = _without_dead_code(rewrite(_without_dead_code(graph), rules, exact))
    if exact or SIGNS.apply_to(graph):  # an exact walk may have kept views that the next one merges
        graph = _without_dead_code(rewrite(graph, SIGNS, exact))
    return graph.verify()


def _without_dead_code(graph: Graph) -> Graph:
    """Return the graph without equations and constants that no output depends on."""
    needed = set(graph.outputs)
    kept = []
    for equation in reversed(graph.equations):
        if equation.output in needed:
            kept.append(equation)
            needed.update(equation.variables)
    constants = {v: value for v, value in graph.constants.items() if v in needed}
    return graph.replaced(constants=constants, equations=kept[::-1])
