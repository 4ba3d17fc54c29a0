"""Kernels as C source: each visits the elements of one shape once, and computes a whole group of equations.

A thread computes one element of all outputs after another, by flat index in memory order. Where an operand is
broadcast, transposed or strided, its offset is computed from that index by divisions whose divisors are
constants. All operands of an element are read before anything is written, so that an output may overwrite an
operand that is read at the same position only.
"""

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.compile._calls import registry
from sknet.compile._graph import Equation, Variable, computing_dtype, parsed, used
from sknet.compile._plan import Plan
from sknet.compile.passes import Group
from sknet.core import SCALAR_FUNCTIONS

# -- scalar expressions in C, with explicit types ---------------------------------------------


# C types by dtype; plain C has none for half precision, which is left to the backend's own functions.
TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float32": "float", "float64": "double",
}  # fmt: skip

OPERATORS = {
    ast.Div: "/", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "&&", ast.Or: "||", ast.USub: "-", ast.Not: "!",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
WRAPPING = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


class UntranslatableError(Exception):
    """An equation that cannot be written in C; its own forward is called instead."""


def literal(value: Any, dtype: Any) -> str:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return _whole(int(value), dtype)
    suffix = "f" if dtype.itemsize == 4 else ""
    with np.errstate(over="ignore"):
        number = dtype.type(value)
    if math.isnan(number):
        return f"(0.0{suffix} / 0.0{suffix})"
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}1.0{suffix} / 0.0{suffix})"
    return f"{number!s}{suffix}" if number >= 0 else f"(-{abs(number)!s}{suffix})"


def _whole(value: int, dtype: np.dtype[Any]) -> str:
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:  # C would convert it before comparing
        raise UntranslatableError(f"{value} in {dtype}")
    suffix = "" if abs(value) < 2**31 else "ULL" if dtype.kind == "u" else "LL"
    if value == limits.min < -(2**31):  # C has no negative literals
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}"


def translated(equation: Equation, names: dict[Variable, str]) -> str:
    """Return one element of an equation's output as an expression in C."""
    primitive = equation.primitive
    expression = primitive.expression
    if expression is None:
        raise UntranslatableError(f"{primitive.name} has no expression")
    dtype = computing_dtype(expression, primitive.values(equation.operands), equation.output.dtype)
    operands = {
        "xyz"[i]: literal(x, dtype) if type(x) is not Variable else
        names[x] if i == primitive.condition else cast(x, names[x], dtype)
        for i, x in enumerate(equation.operands) if i in used(expression)
    }  # fmt: skip
    text = _Translator(operands, dtype).text(parsed(expression), outermost=True)
    narrow = dtype.kind in "iub" and dtype.itemsize < 4  # C promotes these to int
    return f"({type_of(dtype)})({text})" if narrow else text


def formula(expression: str, dtype: Any) -> str:
    tree = parsed(expression)
    names = {node.id: node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return _Translator(names, np.dtype(dtype)).text(tree, outermost=True)


def needed(equation: Equation) -> list[Variable]:
    """Return the variables that an equation's expression names."""
    expression = equation.primitive.expression
    positions = used(expression) if expression is not None else ()
    return [x for i, x in enumerate(equation.operands) if i in positions and type(x) is Variable]


def type_of(dtype: Any) -> str:
    found = TYPES.get(np.dtype(dtype).name)
    if found is None:
        raise UntranslatableError(f"{dtype} has no type in C")
    return found


def cast(x: Variable, name: str, dtype: Any) -> str:
    """Return the text for an element of `x`, called `name`, in a dtype."""
    return name if x.dtype == dtype else f"({type_of(dtype)}){name}"


def arithmetic(operator: str, x: str, y: str, dtype: np.dtype[Any]) -> str:
    """Return a sum, a difference or a product."""
    if dtype.kind not in "iu" or (dtype.kind == "u" and dtype.itemsize >= 4):
        return f"{x} {operator} {y}"
    kind = "int" if dtype.itemsize < 4 else type_of(dtype)
    return f"({kind})((unsigned {kind}){x} {operator} (unsigned {kind}){y})"


class _Translator:
    """Translates a Python expression tree to C."""

    def __init__(self, operands: dict[str, str], dtype: np.dtype[Any]) -> None:
        self._operands, self._dtype = operands, dtype

    def text(self, node: ast.expr, outermost: bool = False) -> str:
        """Return the text of a node, in parentheses unless it is the outermost."""
        if isinstance(node, ast.Name) and node.id in self._operands:
            return self._operands[node.id]
        if isinstance(node, ast.Constant):
            return literal(node.value, self._dtype)
        if isinstance(node, ast.Call):
            return self._call(ast.unparse(node.func), node.args)
        found = self._operation(node)
        return found if outermost else f"({found})"

    def _operation(self, node: ast.expr) -> str:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return self._call("pow", [node.left, node.right])
        if isinstance(node, ast.BinOp) and type(node.op) in WRAPPING:
            operator, left, right = WRAPPING[type(node.op)], self.text(node.left), self.text(node.right)
            return arithmetic(operator, left, right, self._dtype)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return f"{self.text(node.left)} {OPERATORS[type(node.op)]} {self.text(node.right)}"
        if isinstance(node, ast.UnaryOp) and type(node.op) is ast.USub and self._dtype.kind == "i":
            return arithmetic("-", "0", self.text(node.operand), self._dtype)
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return f"{OPERATORS[type(node.op)]}{self.text(node.operand)}"
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
            return self._comparison(node.left, OPERATORS[type(node.ops[0])], node.comparators[0])
        if isinstance(node, ast.BoolOp):
            return f" {OPERATORS[type(node.op)]} ".join(map(self.text, node.values))
        if isinstance(node, ast.IfExp):
            return self._choice(node)
        raise UntranslatableError(ast.unparse(node))

    def _choice(self, node: ast.IfExp) -> str:
        test = self.text(node.test)
        if test in ("(true)", "(false)"):
            return self.text(node.body if test == "(true)" else node.orelse)
        return f"{test} ? {self.text(node.body)} : {self.text(node.orelse)}"

    def _comparison(self, left: ast.expr, operator: str, right: ast.expr) -> str:
        first, second = self.text(left), self.text(right)
        if self._dtype.kind == "u":  # never negative, of which CUDA's compiler warns
            if (first, operator) == ("0", ">") or (operator, second) == ("<", "0"):
                return "false"
            if (first, operator) == ("0", "<=") or (operator, second) == (">=", "0"):
                return "true"
        return f"{first} {operator} {second}"

    def _call(self, name: str, arguments: list[ast.expr]) -> str:
        texts = [self.text(x) for x in arguments]
        if name == "abs" and self._dtype.kind == "u":
            return texts[0]
        if name == "abs" and self._dtype.kind == "i":
            return f"({texts[0]} < 0 ? {arithmetic('-', '0', texts[0], self._dtype)} : {texts[0]})"
        found = SCALAR_FUNCTIONS[name].in_c(texts, self._dtype)
        if found is None:
            raise UntranslatableError(f"{name} in {self._dtype}")
        return found


# -- kernels ----------------------------------------------------------------------------------


BLOCK = 256  # threads per block
MOST_BLOCKS = 4096  # several per multiprocessor of any GPU; beyond that, a thread computes several elements
NARROW = 1 << 31  # up to this many elements, 32-bit indices suffice

OF_BLOCK = "of_block"  # a parameter of draws in a cluster: they go on from those of the blocks before

PHILOX = """\
// 16 bits, number i of those that numpy.random.Philox has from (0, 0, site, step) on, as a number in [0, 1).
__device__ float uniform(unsigned long long i, unsigned long long key0, unsigned long long key1,
                         unsigned long long site, unsigned long long step)
{
    unsigned long long a = i / 16 + 1, b = 0, c = site, d = step;
    for (int n = 0; n < 10; n++) {
        const unsigned long long low0 = 0xD2E7470EE14C6C93ULL * a, low1 = 0xCA5A826395121157ULL * c;
        const unsigned long long high0 = __umul64hi(0xD2E7470EE14C6C93ULL, a);
        const unsigned long long high1 = __umul64hi(0xCA5A826395121157ULL, c);
        a = high1 ^ b ^ key0;
        c = high0 ^ d ^ key1;
        b = low1;
        d = low0;
        key0 += 0x9E3779B97F4A7C15ULL;
        key1 += 0xBB67AE8584CAA73BULL;
    }
    const int word = i % 16 / 4;
    const unsigned long long bits = word == 0 ? a : word == 1 ? b : word == 2 ? c : d;
    return (float)(bits >> 16 * (i % 4) & 0xFFFF) * (1.0f / 65536.0f);
}
"""


# Elements of arrays in bfloat16. NaN stays NaN, whatever its bits.
FROM_HALF = """\
__device__ float from_half(unsigned short x)
{
    union { float number; unsigned int bits; } found;
    found.bits = (unsigned int)x << 16;
    return found.number;
}
"""
TO_HALF = """\
__device__ unsigned short to_half(float x)
{
    union { float number; unsigned int bits; } found;
    found.number = x;
    if ((found.bits & 0x7fffffffu) > 0x7f800000u)
        return (unsigned short)(found.bits >> 16 | 64u);
    return (unsigned short)((found.bits + 0x7fffu + (found.bits >> 16 & 1u)) >> 16);
}
"""


GLOBAL = 'extern "C" __global__'
HEAD = re.compile(r'extern "C" __global__ void \w+\(')


def indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def block(head: str, lines: Iterable[str]) -> list[str]:
    """Return a statement with others in braces, the first of which ends its head."""
    return [head, *indented(lines), "}"]


def text_of(name: str, parameters: Iterable[str], lines: Iterable[str], kind: str = GLOBAL) -> str:
    """Return the text of a kernel, or of a function of another kind."""
    body = "\n".join(indented(lines))
    return f"{kind} void {name}({', '.join(parameters)})\n{{\n{body}\n}}\n"


class Kernel(NamedTuple):
    name: str
    text: str
    helpers: frozenset[str]
    arguments: list[str]
    blocks: int
    threads: int = BLOCK

    @property
    def is_loop(self) -> bool:
        """True if threads share the elements, whatever their number, and wait for no other ones."""
        return "gridDim" in self.text and "__shared__" not in self.text

    @property
    def parameters(self) -> str:
        return self.text[self.text.index("(") + 1 : self.text.index(")\n{")]

    def function(self, name: str, first: str = "") -> str:
        """Return the text as a function of the device, with a parameter that comes first."""
        return HEAD.sub(f"__device__ void {name}({first}", self.text, count=1)


def is_map(equation: Equation) -> bool:
    """Tell whether an equation can be part of a kernel."""
    if not equation.output.size or equation.primitive.name == "matmul":
        return False
    names = dict.fromkeys(equation.variables, "x")
    try:
        for x in (*equation.variables, equation.output):
            type_of(x.dtype)
        if equation.primitive.name not in SPECIAL:
            translated(equation, names)
    except UntranslatableError:
        return False
    return True


def written(name: str, group: Group, plan: Plan, is_wide: bool = False) -> Kernel:
    """Return the kernel of a group of maps, whose loads may be wide if the slots of its plan are aligned."""
    writer = MapWriter(group, plan)
    lines, used = live([*writer.loads, *writer.lines], writer.stores)
    size, kind = math.prod(writer.shape), writer.index_kind
    start = "blockIdx.x * blockDim.x + threadIdx.x" if writer.is_narrow else (
        "(unsigned long long)blockIdx.x * blockDim.x + threadIdx.x"
    )  # fmt: skip

    def loop(i: str, first: str, stop: int, body: Sequence[str]) -> list[str]:
        return block(f"for ({kind} {i} = {first}; {i} < {stop}; {i} += gridDim.x * blockDim.x) {{", body)

    wide = Wide(writer, lines, used) if is_wide and size >= LEAST_WIDE else None
    at_once = wide.at_once if wide is not None else 1
    text, done = [], 0
    if wide is not None and at_once > 1:
        done = size // at_once * at_once
        text = loop("j", start, size // at_once, wide.body(lines, writer.stores, kind))
    if done < size:
        text += loop("i", f"{done} + {start}" if done else start, size, [*map(str, lines), *writer.stores])
    source = text_of(name, writer.parameters(used), text)
    blocks = min(-(-size // (at_once * BLOCK)), MOST_BLOCKS)
    return Kernel(name, source, frozenset(writer.helpers), writer.taken(used), blocks)


class Line(NamedTuple):
    """A constant of a kernel's body: one element of an operand or of a result."""

    kind: str
    name: str
    value: str

    def __str__(self) -> str:
        return f"const {self.kind} {self.name} = {self.value};"


# -- wide loads: a thread moves 16 bytes of each array at a time, and computes their elements one by one --


WIDEST = 16  # bytes
LEAST_WIDE = 1 << 17  # elements; with fewer, a thread for each keeps more of a device busy
MOST_WIDE = 10  # arrays, whose elements are in registers
VECTORS = {("float", 4): "float4", ("double", 2): "double2"}
HALF_VECTOR = "ushort4"  # of 8 bytes, beside vectors of four float32
INDEX = re.compile(r"\bi\b")


class Wide:
    """Loads and stores of neighbouring elements at once."""

    def __init__(self, writer: "MapWriter", lines: "Sequence[Line]", used: set[str]) -> None:
        self._loads, self._stores = dict[str, str](), dict[str, str]()
        reads = {line.value: line for line in lines}
        kinds, self._halves = {}, set[str]()
        for x in writer.arguments:
            name, kind = writer.names[x], type_of(x.dtype)
            if name not in used or kind not in ("float", "double") or not writer.is_aligned(x):
                continue
            read = reads.get(loaded(writer.plan, writer.names, x, "i"))
            if read is not None:
                self._loads[read.name] = name
            written = next((each for each in writer.stores if each.startswith(f"{name}[i] = ")), None)
            if written is not None:
                self._stores[written] = name
            if read is not None or written is not None:
                kinds[name] = kind
            if is_half(writer.plan, x):
                self._halves.add(name)
        self.at_once = WIDEST // (8 if "double" in kinds.values() else 4)
        if len(set(kinds.values())) != 1 or len(kinds) > MOST_WIDE:
            self.at_once = 1
        else:
            self._kind = VECTORS[next(iter(kinds.values())), self.at_once]

    def body(self, lines: "Sequence[Line]", stores: Sequence[str], index: str) -> list[str]:
        """Return the statements for the elements from ``at_once * j`` on."""
        found = self.opened("j")
        for n in range(self.at_once):
            inner = self.lane(lines, stores, n)
            if any(INDEX.search(each) for each in inner):
                inner.insert(0, f"const {index} i = {self.at_once} * j + {n};")
            found += block("{", inner)
        return found + self.closed("j")

    def opened(self, place: str, end: str = "_4") -> list[str]:
        """Return statements that read vectors, whose names have an end, and declare others to be written."""
        reads = [f"const {kind} {x}{end} = ((const {kind} *){array})[{place}];"
                 for x, array in self._loads.items() for kind in [self._vector(array)]]  # fmt: skip
        return [*reads, *[f"{self._vector(array)} {array}{end};" for array in self._stores.values()]]

    def _vector(self, array: str) -> str:
        return HALF_VECTOR if array in self._halves else self._kind

    def lane(self, lines: "Sequence[Line]", stores: Sequence[str], n: int, end: str = "_4") -> list[str]:
        """Return the statements for one of the elements of the vectors."""
        part, found = "xyzw"[n], []
        for line in lines:
            array, value = self._loads.get(line.name), f"{line.name}{end}.{part}"
            if array is not None:
                line = line._replace(value=f"from_half({value})" if array in self._halves else value)
            found.append(str(line))
        for store in stores:
            array, value = self._stores.get(store), store.partition(" = ")[2]
            found.append(store if array is None else f"{array}{end}.{part} = {value}")
        return found

    def closed(self, place: str, end: str = "_4") -> list[str]:
        stores = self._stores.values()
        return [f"(({self._vector(array)} *){array})[{place}] = {array}{end};" for array in stores]


NAME = re.compile(r"\b[a-z]\d+(?:_row)?\b")


def live(lines: list[Line], stores: list[str]) -> tuple[list[Line], set[str]]:
    """Return the lines that the stores depend on, and all names in them and in the stores."""
    used = {name for text in stores for name in NAME.findall(text)}
    kept = []
    for line in reversed(lines):
        if line.name in used:
            used.update(NAME.findall(line.value))
            kept.append(line)
    return kept[::-1], used


def position(
    shape: tuple[int, ...], strides: tuple[int, ...], within: tuple[int, ...], index: str = "i"
) -> tuple[str, bool]:
    """Return the offset in an array of the element for one of the shape it is broadcast to."""
    new = len(within) - len(shape)
    axes: list[tuple[int, int]] = []
    for axis, length in enumerate(within):
        stride = 0 if axis < new or shape[axis - new] == 1 else strides[axis - new]
        if length == 1:
            continue
        if axes and axes[-1][1] == stride * length:
            axes[-1] = axes[-1][0] * length, stride
        else:
            axes.append((length, stride))
    terms, after = [], math.prod(within)
    for number, (length, stride) in enumerate(axes):
        after //= length
        if stride:
            term = index if after == 1 else f"{index} / {after}"
            term = term if number == 0 else f"{term} % {length}"
            terms.append(term if stride == 1 else f"{term} * {stride}")
    return " + ".join(terms) or "0", any(stride < 0 for _, stride in axes)


def is_narrow(group: Group, plan: Plan) -> bool:
    """Tell whether 32 bits are enough to count the elements that a kernel reads and writes."""
    operands = {x for equation in group.equations for x in (*equation.variables, equation.output)}
    return all(_extent(plan.views.ghost(x)) < NARROW for x in operands)


def _extent(ghost: np.ndarray) -> int:
    reach: int = sum(abs(stride) * n for stride, n in zip(ghost.strides, ghost.shape, strict=True))
    return max(ghost.size, reach // ghost.dtype.itemsize)


def steps_of(array: Any) -> tuple[int, ...]:
    """Return the strides of an array, in elements."""
    return tuple([stride // array.itemsize for stride in array.strides])


def is_half(plan: Plan, x: Variable) -> bool:
    """Tell whether an array is stored in bfloat16."""
    return plan.views.dtype(x) != x.dtype


def loaded(plan: Plan, names: Mapping[Variable, str], x: Variable, place: str) -> str:
    element = f"{names[x]}[{place}]"
    return f"from_half({element})" if is_half(plan, x) else element


class MapWriter:
    """Writes the body of one kernel: what it does for one element, number ``i`` of the maps' shape."""

    here = "i"

    def __init__(self, group: Group, plan: Plan) -> None:
        self.names = plan.graph.names()
        self.shape = group.equations[0].output.shape
        self.arguments: list[Variable] = []
        self.stored: set[Variable] = set()
        self.loads: list[Line] = []
        self.lines: list[Line] = []
        self.stores: list[str] = []
        self.helpers: set[str] = set()
        self.plan = plan
        self._elements: dict[tuple[Variable, str], str] = {}
        self._made = group.internal
        self.is_narrow = is_narrow(group, plan)
        self._write_all(group)

    def _write_all(self, group: Group) -> None:
        for equation in group.maps:
            self._write(equation)

    @property
    def index_kind(self) -> str:
        return "unsigned int" if self.is_narrow else "unsigned long long"

    def taken(self, used: set[str]) -> list[str]:
        """Return the names of the arrays that a kernel takes if its body uses some names."""
        return [self.names[x] for x in self.arguments if self.names[x] in used]

    def parameters(self, used: set[str]) -> list[str]:
        return [
            f"{'' if x in self.stored else 'const '}{type_of(self.plan.views.dtype(x))} *{self.names[x]}"
            for x in self.arguments
            if self.names[x] in used
        ]

    def is_aligned(self, x: Variable) -> bool:
        """Tell whether an array begins at a multiple of 16 bytes, if the slots of the plan do."""
        views, root = self.plan.views, self.plan.views.root(x)
        buffer = self.plan.buffers[root]
        start, base = (views.ghost(each).__array_interface__["data"][0] for each in (x, root))
        return buffer.kind != "constant" and (buffer.position + start - base) % WIDEST == 0

    def _write(self, equation: Equation) -> None:
        output = equation.output
        special = SPECIAL.get(equation.primitive.name)
        if special is None:
            value = translated(equation, {x: self.element(x) for x in needed(equation)})
        else:
            value = special(self, equation)
        name = self._name(output)
        if output in self.plan.buffers and is_half(self.plan, output):
            self.helpers.update((FROM_HALF, TO_HALF))
            value = f"from_half(to_half({value}))"  # as others read it
        self.lines.append(Line(type_of(output.dtype), name, value))
        self._known(output, name)

    def _known(self, output: Variable, name: str) -> None:
        """Note the name of a value that is computed, and store it if it has memory."""
        self._elements[output, "i"] = name
        if output in self.plan.buffers:
            self.arguments.append(output)
            self.stored.add(output)
            self._stored(output, name)

    def _stored(self, output: Variable, name: str) -> None:
        self.stores.append(self._store(output, name, "i"))

    def _store(self, output: Variable, name: str, place: str) -> str:
        if is_half(self.plan, output):
            self.helpers.add(TO_HALF)
            name = f"to_half({name})"
        return f"{self.names[output]}[{place}] = {name};"

    def known(self, x: Variable) -> str | None:
        """Return the name of a value if this kernel has computed it; it then has one element per row."""
        return self._elements[x, "i"] if x in self._made else None

    def known_at(self, x: Variable, index: str) -> str | None:
        """Return the text of an element elsewhere in the same row, if this kernel has computed it."""
        return self.known(x)

    def element(self, x: Variable, index: str | None = None) -> str:
        """Return the name of the corresponding element of an operand that may be broadcast."""
        index = index or self.here
        within = self.shape if index == self.here else x.shape
        known = self._elements.get((x, index))
        if known is None:
            known = self._name(x) if index == "i" else f"{self._name(x)}_row"
            self._elements[x, index] = known
            self.loads.append(Line(type_of(x.dtype), known, self.at(x, within, index)))
        return known

    def _name(self, x: Variable) -> str:
        """Return the name of an array's element: x3 for v3, y0 for constant k0."""
        name = self.names[x]
        return f"{'y' if name[0] == 'k' else 'x'}{name[1:]}"

    def at(self, x: Variable, within: tuple[int, ...], index: str) -> str:
        """Return the text of one element of an operand in memory."""
        if x not in self.arguments:
            self.arguments.append(x)
        strides = steps_of(self.plan.views.ghost(x))
        text, is_signed = position(x.shape, strides, within, index)
        if text == index:
            text = text.strip("()")
        if is_signed:
            signed = f"({'int' if self.is_narrow else 'long long'}){index}"
            text, _ = position(x.shape, strides, within, signed)
        return self._loaded(x, text)

    def _loaded(self, x: Variable, place: str) -> str:
        if is_half(self.plan, x):
            self.helpers.add(FROM_HALF)
        return loaded(self.plan, self.names, x, place)

    def at_place(self, x: Variable, place: Sequence[Any]) -> str:
        """Return the text of the element of an operand in memory at some coordinates."""
        if x not in self.arguments:
            self.arguments.append(x)
        steps = steps_of(self.plan.views.ghost(x))
        terms = [f"{i} * {step}" for i, step in zip(place, steps, strict=True) if i != 0]
        return self._loaded(x, " + ".join(terms) or "0")


# -- elements that depend on other positions of the operands ---------------------------------

Special = Callable[[MapWriter, Equation], str]
SPECIAL: dict[str, Special] = {}


special = registry(SPECIAL)  # registers how an element of a primitive is written


@special("flat_index")
def _flat_index(w: MapWriter, equation: Equation) -> str:
    # A thread cannot raise: an index out of bounds wraps around, as in CuPy.
    length = equation.params["length"]
    [x] = equation.variables
    index = cast(x, w.element(x), np.int64)
    return f"({index} % {length} + {length}) % {length} + (long long){w.here} * {length}"


@special("take_at")
def _take_at(w: MapWriter, equation: Equation) -> str:
    x, positions = equation.operands
    index = w.element(positions)
    return w.known_at(x, index) or w.at(x, x.shape, index)


def _row(w: MapWriter, x: Variable, length: int) -> str:
    return w.known(x) or w.element(x, f"(i / {length})")


@special("put_at")
def _put_at(w: MapWriter, equation: Equation) -> str:
    g, positions = equation.operands
    length, dtype = equation.output.shape[-1], equation.output.dtype
    return f"{_row(w, positions, length)} == i ? {cast(g, _row(w, g, length), dtype)} : {literal(0, dtype)}"


@special("subtract_at")
def _subtract_at(w: MapWriter, equation: Equation) -> str:
    x, g, positions = equation.operands
    length, dtype = equation.output.shape[-1], equation.output.dtype
    before, less = cast(x, w.element(x), dtype), cast(g, _row(w, g, length), dtype)
    changed = arithmetic("-", before, less, dtype)
    return f"{_row(w, positions, length)} == i ? {changed} : {before}"


@special("uniform_draws")
def _uniform_draws(w: MapWriter, equation: Equation) -> str:
    params, (_, step, *key) = equation.params, equation.operands
    counted = w.element(step) if type(step) is Variable else str(step)
    w.helpers.add(PHILOX)
    low, high = [w.element(x) for x in key] if key else [f"{x}ULL" for x in params["key"]]
    size = math.prod(params["shape"])  # of each stream, where there are several
    here = w.here if equation.output.size == size else f"{w.here} % {size}"
    if OF_BLOCK in params:
        here = f"{here} + __clusterRelativeBlockRank() * {size}"
    return f"uniform({here}, {low}, {high}, {params['site']}ULL, {counted})"


@special("dropout_mask")
def _dropout_mask(w: MapWriter, equation: Equation) -> str:
    p, dtype = float(equation.params["p"]), equation.output.dtype
    scale = literal(1.0 / (1.0 - p) if p < 1 else 0.0, dtype)
    draw = _uniform_draws(w, equation)
    return f"{draw} >= {literal(p, 'float32')} ? {scale} : {literal(0, dtype)}"


@special("matmul")
def _product_of_few_terms(w: MapWriter, equation: Equation) -> str:
    # Only what asks for it has products in its maps: `is_map` is false.
    (x, y), (_, columns) = equation.variables, equation.output.shape
    terms = []
    for k in range(x.shape[1]):
        left = w.at_place(x, (f"{w.here} / {columns}", k))
        right = w.at_place(y, (k, f"{w.here} % {columns}"))
        terms.append(arithmetic("*", left, right, equation.output.dtype))
    return " + ".join(terms)
