"""The last layer of a classifier in one kernel: a narrow product, softmax and loss, and the gradient back.

A layer with few outputs is limited by memory: its input is read once for the product and, from the cache,
once more where the gradient of the input is written, with the maps that follow. A warp has a row, or one for
each group of lanes that has its outputs, and adds in an order that follows from the shapes alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sknet.compile._graph import Equation, Variable
from sknet.compile._plan import Plan, Views
from sknet.compile.cuda._maps import (
    BLOCK,
    FROM_HALF,
    HALF_VECTOR,
    INDEX,
    Kernel,
    Line,
    MapWriter,
    Wide,
    block,
    is_half,
    live,
    loaded,
    text_of,
    type_of,
)
from sknet.compile.cuda._reductions import WARP, RowWriter, is_in_rows, lanes_for
from sknet.compile.passes import Group

MOST_OUTPUTS, LEAST_INPUTS = 16, 8
SHARED = 48 << 10  # bytes that a block of any GPU has for the weights
MOST_BLOCKS = 1024
MOST_WIDE_ROWS = 4  # of a warp, whose lanes hold four elements of each
WARPS = 2048  # up to which a warp has one row: several on each multiprocessor
FUSED_TYPES = {"float": "fmaf", "double": "fma"}  # products and sums of these are rounded once
# Bits of the fraction that factors lack in a precision: they are rounded to nearest, as in the library.
DROPPED = {"tf32": 13, "bfloat16": 16}
ROUNDED = """\
__device__ float rounded(float x)
{{
    union {{ float number; unsigned int bits; }} found;
    found.number = x;
    if ((found.bits & 0x7f800000u) == 0x7f800000u)
        return x;
    found.bits += {half}u - 1 + (found.bits >> {dropped} & 1u);
    found.bits &= ~{rest}u;
    return found.number;
}}
"""


def with_heads(groups: Sequence[Group]) -> list[Group]:
    """Return groups in which a narrow product, what reduces its rows, and the product back are one."""
    found = _Heads(groups)
    for rows in groups:
        if rows.reductions and rows.maps and is_in_rows(rows.reductions[0]):
            found.join(rows)
    return found.groups


class _Heads:
    """Groups of a plan, of which some become one."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self._of = {e.output: group for group in groups for e in group.equations}
        self._made = {e.output: e for group in groups for e in group.equations}
        self._views = Views([e for group in groups for e in group.equations])

    def join(self, rows: Group) -> None:
        """Join a group of rows with the products around it, if they are such a layer."""
        whole = rows.reductions[0].variables[0].shape
        read = [x for e in rows.equations for x in e.variables if x in self._of and x.shape == whole]
        first = next((self._of[x] for x in read if self._is_narrow(self._of[x])), None)
        back = None if first is None else self._back(rows, first.equations[0].variables[1])
        if first is None or back is None:
            return
        turned = self._of[back.equations[0].variables[1]]
        last = self._last(back.equations[0].output)
        numbers = {id(group): number for number, group in enumerate(self.groups)}
        begin = numbers[id(rows)]
        others = {x for e in (() if last is None else last.equations) for x in e.variables} - {
            back.equations[0].output, *(() if last is None else last.internal)
        }  # fmt: skip
        if last is None or any(numbers.get(id(self._of.get(x)), -1) >= begin for x in others):
            return
        between = self.groups[numbers[id(first)] + 1 : begin]
        if any(x in first.internal for each in between for e in each.equations for x in e.variables):
            return
        parts = [first, rows, back, last]
        equations = [e for part in parts for e in part.equations]
        joined = Group(equations, 0, True, rows.reductions, parts=parts)
        gone = {*map(id, (first, back, last, turned))}
        kept = [each for each in self.groups if id(each) not in gone]
        at = next(number for number, each in enumerate(kept) if each is rows)
        self.groups = [*kept[:at], turned, joined, *kept[at + 1 :]]

    def _is_narrow(self, group: Group) -> bool:
        """Tell whether a group is a narrow product, with at most a bias."""
        product, finish = group.equations[0], group.finish
        if product.primitive.name != "matmul" or product.output.ndim != 2 or len(product.variables) != 2:
            return False
        if finish is not None and (finish.parts not in ((), ("bias",)) or finish.term is not None):
            return False
        x, w = product.variables
        (n, inputs), outputs = x.shape, w.shape[-1]
        nbytes = inputs * (outputs | 1) * w.dtype.itemsize
        is_plain = x.dtype == w.dtype == product.output.dtype and x.dtype.name in ("float32", "float64")
        return (
            is_plain
            and outputs <= MOST_OUTPUTS
            and inputs >= max(LEAST_INPUTS, outputs + 1)
            and n not in (inputs, outputs)  # no array of the layer has the place of another one
            and nbytes <= SHARED
            and all(map(self._views.is_contiguous, (x, w)))
        )

    def _back(self, rows: Group, w: Variable) -> Group | None:
        """Return the group of the product of a gradient of the rows with the transposed weights."""
        for group in self.groups:
            product = group.equations[0]
            if product.primitive.name != "matmul" or len(group.equations) > 1 or len(product.variables) != 2:
                continue
            g, turned = product.variables
            how = self._made.get(turned)
            is_turned = how is not None and how.primitive.name == "permute_dims" and how.operands[0] is w
            if g in rows.internal and is_turned and g.shape == (product.output.shape[0], w.shape[1]):
                return group if g.dtype == w.dtype and len(self._of[turned].equations) == 1 else None
        return None

    def _last(self, x: Variable) -> Group | None:
        """Return the only group that reads a value, if it is of maps of its shape."""
        readers = [g for g in self.groups if any(y is x for e in g.equations for y in e.variables)]
        if (
            len(readers) != 1
            or not readers[0].fused
            or readers[0].reductions
            or readers[0].finish is not None
        ):
            return None
        return readers[0] if all(e.output.shape == x.shape for e in readers[0].equations) else None


class _Rows(RowWriter):
    """Writes the rows of a product whose elements are there already."""

    def __init__(self, group: Group, plan: Plan, product: Equation) -> None:
        self._product = product
        super().__init__(group, plan)

    def _write(self, equation: Equation) -> None:
        if equation is self._product:
            self._known(equation.output, "product")
        else:
            super()._write(equation)


class _Tail(MapWriter):
    """Writes the maps of a product whose element is there already."""

    def __init__(self, group: Group, plan: Plan, made: Variable) -> None:
        self._there = made
        super().__init__(group, plan)

    def element(self, x: Variable, index: str | None = None) -> str:
        return "product" if x is self._there else super().element(x, index)


def head_kernel(name: str, group: Group, plan: Plan, precision: str, is_wide: bool = False) -> Kernel:
    """Return the kernel of such a layer, whose products have factors in a precision."""
    first, rows, back, last = group.parts
    product = first.equations[0]
    (x, w), g, names = product.variables, back.equations[0].variables[0], plan.graph.names()
    layer = Group([*first.equations, *rows.equations], 0, True, rows.reductions)
    above, below = _Rows(layer, plan, product), _Tail(last, plan, back.equations[0].output)
    body, used = above.body(f"g = {above.known(g)};")
    lines, used_below = live([*below.loads, *below.lines], below.stores)
    arrays = dict(zip(above.taken(used), above.parameters(used), strict=True))
    taken = dict(zip(below.taken(used_below), below.parameters(used_below), strict=True))
    arrays |= {
        key: text for key, text in taken.items() if key not in arrays or arrays[key].startswith("const")
    }
    for each in (x, w):
        arrays.setdefault(names[each], f"const {type_of(plan.views.dtype(each))} *{names[each]}")
    kind, index = type_of(w.dtype), above.index_kind if below.is_narrow else below.index_kind
    (n, inputs), outputs = x.shape, w.shape[1]
    dropped = DROPPED.get(precision, 0) if kind == "float" else 0
    layout = _Layout(n, inputs, outputs, kind, index, dropped > 0)
    wide = Wide(below, lines, used_below) if is_wide and layout.may_be_wide and below.is_aligned(x) else None
    operands = _Operand(plan, names, w, dropped > 0), _Operand(plan, names, x, dropped > 0)
    text = layout.text(*operands, body, lines, below.stores, wide)
    source = text_of(name, arrays.values(), text)
    helpers = {*above.helpers, *below.helpers}
    if any(each.is_half for each in operands):
        helpers.add(FROM_HALF)
    if dropped:
        helpers.add(ROUNDED.format(dropped=dropped, half=1 << (dropped - 1), rest=(1 << dropped) - 1))
    return Kernel(name, source, frozenset(helpers), list(arrays), layout.blocks)


class _Operand(NamedTuple):
    plan: Plan
    names: Mapping[Variable, str]
    x: Variable
    rounds: bool

    @property
    def is_half(self) -> bool:
        """True if its array is stored in bfloat16."""
        return is_half(self.plan, self.x)

    def at(self, place: str) -> str:
        """Return the text of an element as a factor."""
        return self._factor(loaded(self.plan, self.names, self.x, place))

    def four(self, name: str, place: str) -> str:
        kind = HALF_VECTOR if self.is_half else "float4"
        return f"const {kind} {name} = ((const {kind} *){self.names[self.x]})[{place}];"

    def one(self, vector: str, part: str) -> str:
        return f"from_half({vector}.{part})" if self.is_half else self._factor(f"{vector}.{part}")

    def _factor(self, element: str) -> str:
        return f"rounded({element})" if self.rounds and not self.is_half else element


class _Layout:
    """Sizes of a layer, and the text of what its threads do."""

    def __init__(self, n: int, inputs: int, outputs: int, kind: str, index: str, is_rounded: bool) -> None:
        self.n, self.inputs, self.outputs, self.width = n, inputs, outputs, lanes_for(outputs)
        self.kind, self.index, self._factor = kind, index, "rounded({})" if is_rounded else "{}"
        self.rows = max(1, min(WARP // self.width, n // WARPS))  # of a warp
        self.blocks = min(-(-n // (BLOCK // WARP * self.rows)), MOST_BLOCKS)

    @property
    def may_be_wide(self) -> bool:
        """True if sizes permit that a lane loads four elements of a row at once."""
        fits = self.inputs % 4 == 0 and self.inputs >= 3 * WARP and self.n % self.rows == 0
        return fits and self.kind == "float" and self.rows <= MOST_WIDE_ROWS

    def text(
        self,
        w: _Operand,
        x: _Operand,
        body: list[str],
        lines: Sequence[Line],
        stores: Sequence[str],
        wide: Wide | None,
    ) -> list[str]:
        """Return the statements: weights to shared memory, products, what lanes do, and products back."""
        if wide is not None and wide.at_once != 4:
            wide = None
        kind, outputs, pitch = self.kind, self.outputs, self.outputs | 1  # no two lanes in one bank
        each = [(r, m) for r in range(self.rows) for m in range(outputs)]
        totals, warps = [f"a{r}_{m}" for r, m in each], BLOCK // WARP
        exchanged = [f"{a} = {a} + __shfl_xor_sync(0xffffffffu, {a}, n);" for a in totals]
        chosen = [f"product = place == {r * self.width + m} ? a{r}_{m} : product;" for r, m in each[1:]]
        known = [
            f"a{r}_{m} = __shfl_sync(0xffffffffu, {self._factor.format('g')}, {r * self.width + m}, {WARP});"
            for r, m in each
        ]
        at_once = 1 if wide is None else 4
        loop = f"for (unsigned int k = place; k < {self.inputs // at_once}; k += {WARP}) {{"
        if wide is None:
            products = [*self._weights("k"), *self._loaded(x), *self._added("h{}")]
            back = [
                *self._weights("k"),
                *[y for r in range(self.rows) for y in self._of_row(r, lines, stores)],
            ]
        else:
            products, back = self._wide_products(x), self._wide_back(lines, stores, wide)
        row = f"k / {outputs}"
        if (
            wide is not None
        ):  # what lanes read together are neighbours: of each four, the first, then the second
            row = f"({row} % 4 * {self.inputs // 4} + k / {4 * outputs})"
        place = f"{row} * {pitch} + k % {outputs}"
        step_of_grid = f"({self.index})gridDim.x * {warps * self.rows}"
        inner = [
            f"{kind} {', '.join(f'{a} = 0' for a in totals)};",
            *block(loop, products),
            *block("for (unsigned int n = 16; n > 0; n /= 2) {", exchanged),
            f"{kind} product = a0_0, g;",
            *chosen,
            *block("{", [f"const {self.index} o = {self._row};", *body]),
            *known,
            *block(loop, back),
        ]
        return [
            f"__shared__ {kind} weights[{self.inputs * pitch}];",
            f"for (unsigned int k = threadIdx.x; k < {self.inputs * outputs}; k += {BLOCK})",
            f"    weights[{place}] = {w.at('k')};",
            "__syncthreads();",
            f"const unsigned int place = threadIdx.x % {WARP};",
            *block(
                f"for ({self.index} first = (({self.index})blockIdx.x * {warps} + threadIdx.x / {WARP}) * "
                f"{self.rows}; first < {self.n}; first += {step_of_grid}) {{",
                inner,
            ),
        ]

    def _weights(self, row: str) -> list[str]:
        """Return statements that load the weights of an element of the rows."""
        pitch = self.outputs | 1
        return [f"const {self.kind} w{m} = weights[{row} * {pitch} + {m}];" for m in range(self.outputs)]

    def _loaded(self, x: _Operand) -> list[str]:
        """Return statements that load an element of each row as a factor; 0 beyond the last row."""
        found = []
        for r in range(self.rows):
            element = x.at(f"(first + {r}) * {self.inputs} + k")
            found.append(f"const {self.kind} h{r} = first + {r} < {self.n} ? {element} : 0;")
        return found

    def _added(self, element: str) -> list[str]:
        """Return statements that add the products of an element of each row."""
        each = [(r, m) for r in range(self.rows) for m in range(self.outputs)]
        return [f"a{r}_{m} = {FUSED_TYPES[self.kind]}({element.format(r)}, w{m}, a{r}_{m});" for r, m in each]

    def _wide_products(self, x: _Operand) -> list[str]:
        quarter = self.inputs // 4
        found = [x.four(f"h{r}", f"(first + {r}) * {quarter} + k") for r in range(self.rows)]
        for n, part in enumerate("xyzw"):
            added = self._added(x.one("h{}", part))
            found += block("{", [*self._weights(f"({n * quarter} + k)" if n else "k"), *added])
        return found

    def _wide_back(self, lines: Sequence[Line], stores: Sequence[str], wide: Wide) -> list[str]:
        quarter = self.inputs // 4
        places = [(f"(first + {r}) * {quarter} + k", f"_{r}") for r in range(self.rows)]
        found = [line for place, end in places for line in wide.opened(place, end)]
        for n in range(4):
            lane = self._weights(f"({n * quarter} + k)" if n else "k")
            for r, (place, end) in enumerate(places):
                inner = wide.lane(lines, stores, n, end)
                if any(INDEX.search(each) for each in inner):
                    inner.insert(0, f"const {self.index} i = 4 * ({place}) + {n};")
                lane += block("{", [self._product(r), *inner])
            found += block("{", lane)
        return [*found, *[line for place, end in places for line in wide.closed(place, end)]]

    @property
    def _row(self) -> str:
        """The row of a lane; beyond the last one if it has none."""
        found, lanes = f"first + place / {self.width}", self.rows * self.width
        return found if lanes == WARP else f"place < {lanes} ? {found} : {self.n}"

    def _product(self, r: int) -> str:
        """Return the statement that computes an element of the gradient of a row."""
        total = f"a{r}_0 * w0"
        for m in range(1, self.outputs):
            total = f"{FUSED_TYPES[self.kind]}(a{r}_{m}, w{m}, {total})"
        return f"const {self.kind} product = {total};"

    def _of_row(self, r: int, lines: Sequence[Line], stores: Sequence[str]) -> list[str]:
        """Return what is done with an element of the gradient of a row."""
        index = f"const {self.index} i = (first + {r}) * {self.inputs} + k;"
        return block(f"if (first + {r} < {self.n}) {{", [index, self._product(r), *map(str, lines), *stores])
