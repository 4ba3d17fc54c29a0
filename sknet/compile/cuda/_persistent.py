"""Persistent kernels: a plan as the phases of one kernel, in which a block or a cluster has one network.

The groups of a plan are those of `CupyProgram`, and so are the texts of their kernels, which one block of
threads runs one after the other, with a barrier after each. Products of matrices are written here: each
thread has a tile of the result in registers, and a fixed share of its terms. What a step reads and writes
lies in the block's shared memory, so that networks whose steps fit there need a launch for many steps, not
several for each. The blocks of a cluster each have some rows of a batch (`_clusters`), and their sums are a
phase that reads all of them. Every sum is taken in an order that depends on the shapes alone.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product as pairs_of
from typing import Any, NamedTuple

import numpy as np

from sknet.compile import _graph as own
from sknet.compile._calls import Call, Name
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._plan import Finish, Plan
from sknet.compile.cuda._clusters import Share, products_of, share_of
from sknet.compile.cuda._epilogues import epilogues
from sknet.compile.cuda._executor import KERNELS, GroupWriter, call, needs_of
from sknet.compile.cuda._heads import FUSED_TYPES
from sknet.compile.cuda._maps import BLOCK, Kernel, block, is_map, literal, steps_of, text_of, type_of
from sknet.compile.cuda._reductions import has_operands, is_of_blocks
from sknet.compile.cuda._rules import has_rule
from sknet.compile.passes import Group, fuse_maps, join_totals
from sknet.device import Backend, Ending, Form

ALIGNMENT = 16  # bytes: the widest load of a thread
MOST_PRODUCTS = 1 << 22  # multiplications of a step; beyond that, the whole device is faster than one block
MOST_PHASES = 96  # of a kernel, which is compiled as a whole
NARROW = 4  # terms of a product that is computed where its elements are used, without memory


class Phases(NamedTuple):
    """The text of one step for a block of threads, and the memory that it works in."""

    functions: str  # in C, one for each phase
    declarations: list[str]  # of arrays in `memory`, the shared memory of the block
    calls: list[str]  # of a step, each followed by a barrier
    constants: dict[str, np.ndarray]  # arrays that a kernel takes, by the names of its parameters
    names: dict[Variable, str]  # of inputs, outputs and constants
    kinds: dict[Variable, str]  # their types in C
    nbytes: int  # of `memory`
    zeros: tuple[int, int]  # bytes of `memory` that must be zero before the first step
    blocks: int = 1  # of a cluster, among which inputs and outputs that have rows are divided


class _UnsuitedError(Exception):
    """A step that needs more than the kernel of one block can do."""


def phases(
    whole: Graph,
    donated: Mapping[Variable, Variable],
    owner: Backend,
    most: int,
    rows: Sequence[Variable] = (),
    blocks: int = 1,
) -> Phases | None:
    """Return the phases of a step whose memory takes at most so many bytes; None if it is not suited.

    The inputs `rows` are divided among some blocks.
    """
    share = share_of(whole, rows, blocks) if blocks > 1 else Share(whole, {})
    if share is None or not _is_suited(share.graph, most):
        return None
    graph = share.graph
    constants = {x: np.array(value, order="C") for x, value in graph.constants.items()}
    graph = graph.replaced(constants=constants, equations=_in_order(graph))
    finished = epilogues(graph, _takes)
    groups = join_totals(graph, fuse_maps(graph, FUSED, finishes=finished), is_of_blocks)
    plan = Plan(graph, groups, donated, needs_of(groups, False), ALIGNMENT)
    if len(plan.groups) > 4 * MOST_PHASES or _nbytes(plan) > most:
        return None
    try:
        found = _PhaseWriter(plan, owner, blocks).phases()
    except _UnsuitedError:
        return None
    for x, part in share.arrays.items():
        if part in found.names:
            found.names[x], found.kinds[x] = found.names[part], found.kinds[part]
    return found if found.nbytes + _static(found.functions) <= most else None


def _takes(form: Form, parts: Sequence[str]) -> bool:
    return form.number == 1


def _is_suited(graph: Graph, most: int) -> bool:
    """Tell by shapes alone whether one block of threads may be faster than a launch for each group."""
    is_small = 0 < products_of(graph) <= MOST_PRODUCTS and sum(x.nbytes for x in graph.inputs) <= most
    return is_small and not any(has_rule(e) or e.output.size == 0 for e in graph.equations)


def _is_narrow(equation: Equation) -> bool:
    """Tell whether an equation is a product of so few terms that it is computed where it is used."""
    if equation.primitive.name != "matmul" or len(equation.variables) != 2:
        return False
    x, y = equation.variables
    is_plain = x.ndim == y.ndim == 2 and x.dtype == y.dtype and x.dtype.kind == "f"
    # An operand of the result's shape could be overwritten by it.
    return is_plain and x.shape[-1] <= NARROW and equation.output.shape not in (x.shape, y.shape)


def _in_order(graph: Graph) -> list[Equation]:
    """Return the equations; products of few terms come when they are used, as what they overwrite is then."""
    found, waiting = [], dict[Variable, Equation]()
    for equation in graph.equations:
        if _is_narrow(equation):
            waiting[equation.output] = equation
            continue
        found += [waiting.pop(x) for x in dict.fromkeys(equation.variables) if x in waiting]
        found.append(equation)
    return [*found, *waiting.values()]


def _is_map(equation: Equation) -> bool:
    return _is_narrow(equation) or is_map(equation)


def _has_operands(equation: Equation, made: set[Variable], reduction: Equation) -> bool:
    return equation.primitive.name != "matmul" and has_operands(equation, made, reduction)


FUSED = KERNELS._replace(is_map=_is_map, has_operands=_has_operands)


def _nbytes(plan: Plan) -> int:
    return plan.arena_size + plan.pinned_size + sum(_aligned(x.nbytes) for x in plan.graph.inputs)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


STATIC = re.compile(r"__shared__ (\w+) \w+(?:\[(\d+)\])?;")


def _static(text: str) -> int:
    """Return how many bytes of shared memory functions have for themselves, at most."""
    return sum(8 * int(size or 1) for _, size in STATIC.findall(text))


# -- phases -----------------------------------------------------------------------------------


class _Product(NamedTuple):
    """A product of matrices and its ending, by the names of its arrays."""

    x: Name
    y: Name
    out: Name
    ending: Ending


class _Copy(NamedTuple):
    """The assignment of an array or a number to an array."""

    out: Name
    value: Name | int


class _Sums(NamedTuple):
    """The sums of arrays over the blocks of a cluster, one after the other in an array."""

    parts: Sequence[Name]
    out: Name


Phase = Kernel | _Product | _Copy | _Sums
NO_ENDING = Ending((), None, None, 0.0)


class _PhaseWriter(GroupWriter):
    def __init__(self, plan: Plan, owner: Backend, blocks: int) -> None:
        self._phases: list[Phase] = []
        self._blocks = blocks
        super().__init__(plan, owner, exact=False)

    def _add(self, phase: Phase) -> None:
        self._phases.append(phase)
        if len(self._phases) > MOST_PHASES:
            raise _UnsuitedError

    def _launch(self, kernel: Kernel, what: Any) -> None:
        if kernel.threads > BLOCK:
            raise _UnsuitedError
        self._kernels[kernel.name] = kernel
        self._add(kernel)

    def _multiply(self, x: Name, y: Name, out: Name, *, of: Equation | None = None) -> None:
        self._add(_Product(x, y, out, NO_ENDING))

    def _finish(self, finish: Finish, group: Group) -> None:
        name = self._writer.name
        vector, term = (None if x is None else name(x) for x in (finish.vector, finish.term))
        ending = Ending(tuple(finish.parts), vector, term, finish.factor)
        x, y = finish.product.variables
        self._add(_Product(name(x), name(y), name(finish.output), ending))

    def _assign(self, out: Name, value: Any) -> None:
        self._add(_Copy(out, value))

    def _call_forward(self, equation: Equation) -> None:
        """Take over the calls that are assignments, of which a concatenation consists."""
        w = self._writer
        if equation.primitive is own.block_sums:
            self._add(_Sums(list(map(w.name, equation.variables)), w.name(equation.output)))
            return
        first = len(w.calls)
        call(w, equation, self._owner)
        for each in w.calls[first:]:
            if not isinstance(each, Call) or w.functions.get(each.function) is not operator.setitem:
                raise _UnsuitedError
            if each.args[1] is not ...:
                raise _UnsuitedError
            self._assign(each.args[0], each.args[2])

    # -- memory -------------------------------------------------------------------------------

    def phases(self) -> Phases:
        plan, graph = self.plan, self.plan.graph
        starts = plan.arena_size + plan.pinned_size
        memory = np.zeros(_nbytes(plan), np.uint8)
        slots = []
        for x in graph.inputs:
            slots.append(memory[starts : starts + x.nbytes].view(x.dtype).reshape(x.shape))
            starts += _aligned(x.nbytes)
        arrays = plan.arrays(memory, slots, plan.constants)
        values = self._writer.values(memory, arrays, needs_of(plan.groups, False))
        for name, made in self._writer.made:
            values[name] = made.on(values).run()
        self._values, self._memory = values, memory
        texts, calls, used = list[str](), list[str](), set[str]()
        for number, phase in enumerate(self._phases):
            text, statement, arguments = self._written(f"phase{number}", phase)
            texts.append(text)
            calls.append(statement)
            used.update(arguments)
        names = {x: str(self._writer.name(x)) for x in (*graph.inputs, *graph.outputs, *graph.constants)}
        for output, donor in plan.copies:
            names[output] = names[donor]
        if plan.blank or not all(values[names[x]].flags.c_contiguous for x in graph.outputs):
            raise _UnsuitedError
        used.update(names[x] for x in (*graph.inputs, *graph.outputs))
        kinds = {x: type_of(x.dtype) for x in names}
        constants = {str(self._writer.name(x)): value for x, value in plan.constants.items()}
        declared = [self._declared(name, constants) for name in dict.fromkeys(sorted(used - {*constants}))]
        helpers = dict.fromkeys(helper for each in self._kernels.values() for helper in sorted(each.helpers))
        zeros = plan.arena_size, plan.arena_size + plan.pinned_size
        functions = "\n".join([*helpers, *dict.fromkeys(texts)])
        known = {name: value for name, value in constants.items() if name in used}
        return Phases(functions, declared, calls, known, names, kinds, len(memory), zeros, self._blocks)

    def _declared(self, name: str, constants: Mapping[str, np.ndarray]) -> str:
        """Return the statement that names an array: a part of the block's memory, or of a constant."""
        array = self._values[name]
        kind, address = type_of(array.dtype), array.ctypes.data
        start = address - self._memory.ctypes.data
        if 0 <= start <= len(self._memory) - array.nbytes:
            return f"{kind} *const {name} = ({kind} *)(memory + {start});"
        for other, constant in constants.items():
            start = address - constant.ctypes.data
            if array.dtype == constant.dtype and 0 <= start < max(constant.nbytes, 1):
                return f"const {kind} *const {name} = {other} + {start // array.itemsize};"
        raise _UnsuitedError

    # -- text ---------------------------------------------------------------------------------

    def _written(self, name: str, phase: Phase) -> tuple[str, str, list[str]]:
        """Return a function, the statement that calls it, and the names of its arguments."""
        if isinstance(phase, Kernel):
            return _of_kernel(name, phase)
        if isinstance(phase, _Copy):
            return self._of_copy(name, phase)
        if isinstance(phase, _Sums):
            return self._of_sums(name, phase)
        arrays = {"x": phase.x, "y": phase.y, "out": phase.out}
        ending = phase.ending
        arrays |= {key: each for key, each in (("vector", ending.vector), ("term", ending.term)) if each}
        values = {key: self._values[each] for key, each in arrays.items()}
        most = MOST_OF_TILE if self._blocks == 1 else MOST_IN_CLUSTER
        text = product_text(name, values, ending, self._is_aligned, most)
        names = list(map(str, arrays.values()))
        return text, f"{name}({', '.join(names)});", names

    def _is_aligned(self, array: np.ndarray) -> bool:
        """Tell whether an array in the block's memory begins at a multiple of 16 bytes."""
        start = array.ctypes.data - self._memory.ctypes.data
        return 0 <= start < len(self._memory) and start % ALIGNMENT == 0

    def _of_sums(self, name: str, phase: _Sums) -> tuple[str, str, list[str]]:
        """Return the phase in which each block adds some of the parts, and gives all blocks their sums."""
        parts, kind = [self._values[x] for x in phase.parts], type_of(self._values[phase.out].dtype)
        if not all(x.flags.c_contiguous for x in parts):
            raise _UnsuitedError
        loops, start = list[str](), 0
        for n, x in enumerate(parts):
            more = {"n": n, "size": x.size, "start": start, "step": BLOCK * self._blocks}
            loops.append(SUM.format(kind=kind, blocks=self._blocks, **more))
            start += x.size
        given = ", ".join(f"const {kind} *x{n}" for n in range(len(parts)))
        text = SUMS.format(name=name, given=given, kind=kind, block=BLOCK, loops="".join(loops))
        names = [*map(str, phase.parts), str(phase.out)]
        return text, f"{name}({', '.join(names)});", names

    def _of_copy(self, name: str, phase: _Copy) -> tuple[str, str, list[str]]:
        out = self._values[phase.out]
        is_number = not isinstance(phase.value, Name)
        value = np.zeros((), out.dtype) if is_number else self._values[str(phase.value)]
        if not out.flags.c_contiguous or not (
            is_number or (value.flags.c_contiguous and value.shape == out.shape)
        ):
            raise _UnsuitedError
        kind, names = type_of(out.dtype), [str(phase.out), *([] if is_number else [str(phase.value)])]
        given = "" if is_number else f", const {type_of(value.dtype)} *value"
        element = literal(phase.value, out.dtype) if is_number else "value[i]"
        loop = f"for (unsigned int i = threadIdx.x; i < {out.size}; i += {BLOCK})"
        text = text_of(name, [f"{kind} *out{given}"], [loop, f"    out[i] = {element};"], "__device__")
        return text, f"{name}({', '.join(names)});", names


# Blocks wait until all have their parts, and until all have the sums: what is read may be overwritten then.
SUMS = """\
__device__ void {name}({given}, {kind} *out)
{{
    const unsigned int first = __clusterRelativeBlockRank() * {block} + threadIdx.x;
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
{loops}    __cluster_barrier_arrive();
    __cluster_barrier_wait();
}}
"""
SUM = """\
    for (unsigned int i = first; i < {size}; i += {step}) {{
        {kind} sum = *(const {kind} *)__cluster_map_shared_rank(x{n} + i, 0);
        for (unsigned int block = 1; block < {blocks}; block++)
            sum += *(const {kind} *)__cluster_map_shared_rank(x{n} + i, block);
        for (unsigned int block = 0; block < {blocks}; block++)
            *({kind} *)__cluster_map_shared_rank(out + {start} + i, block) = sum;
    }}
"""


def _of_kernel(name: str, kernel: Kernel) -> tuple[str, str, list[str]]:
    """Return the text of a kernel as a function of the number of one of its blocks, which come in turn."""
    arguments, is_loop = list(map(str, kernel.arguments)), "gridDim" in kernel.text
    text = kernel.function(name, "const unsigned int block, ")
    threads = BLOCK if is_loop else kernel.threads
    text = text.replace("gridDim.x", "1").replace("blockDim.x", str(threads)).replace("blockIdx.x", "block")
    blocks = 1 if is_loop else kernel.blocks
    given = ", ".join(arguments)
    if blocks == 1:
        call = f"{name}(0, {given});"
        return text, call if threads == BLOCK else f"if (threadIdx.x < {threads}) {call}", arguments
    barrier = " __syncthreads();" if "__syncthreads" in text else ""
    loop = f"for (unsigned int block = 0; block < {blocks}; block++)"
    call = f"{name}(block, {given});{barrier}"
    if threads != BLOCK:  # only one block has fewer threads than others would have
        call = f"if (threadIdx.x < {threads}) {call}"
    return text, f"{loop} {{ {call} }}", arguments


# -- products ---------------------------------------------------------------------------------


WARP, WARPS = 32, BLOCK // 32
MOST_OF_TILE, MOST_IN_CLUSTER = 100, 64  # registers for sums; a thread has 255 in all
CYCLES = 40  # of one turn of a loop, at least


class _Tiles(NamedTuple):
    """Division of a product among threads: the tile of a thread, and how many share its terms."""

    rows: int
    columns: int
    lanes: int


class _Factor(NamedTuple):
    """One factor of a product, seen from the result: its line `i` has an element for each term `k`."""

    name: str
    step: int
    along: int
    is_aligned: bool

    def is_wide_along(self, terms: int) -> bool:
        """Tell whether four terms of a line are one load."""
        return self.is_aligned and self.along == 1 and self.step % 4 == 0 and terms % 4 == 0

    def is_wide_across(self, lines: int) -> bool:
        """Tell whether four lines of a term are one load."""
        return self.is_aligned and self.step == 1 and self.along % 4 == 0 and lines % 4 == 0

    def loads(self, lines: int, at_once: int, kind: str) -> Iterator[str]:
        """Yield statements that load a tile's lines of `at_once` terms, from ``k`` on."""
        if at_once == 4 and self.is_wide_along(4):
            for i in range(lines):
                yield from self._wide(f"{self.name}{i}_4", self._at(i, 0), [f"{i}_{u}" for u in range(4)])
            return
        for u in range(at_once):
            if self.is_wide_across(lines):
                for i in range(0, lines, 4):
                    ends = [f"{i + n}_{u}" for n in range(4)]
                    yield from self._wide(f"{self.name}{i}_{u}_4", self._at(i, u), ends)
            else:
                yield from (f"const {kind} {self.name}{i}_{u} = {self._at(i, u)};" for i in range(lines))

    def _wide(self, name: str, place: str, ends: Sequence[str]) -> Iterator[str]:
        """Yield statements that load four numbers at once."""
        yield f"const float4 {name} = *(const float4 *)&{place};"
        for end, part in zip(ends, "xyzw", strict=True):
            yield f"const float {self.name}{end} = {name}.{part};"

    def _at(self, i: int, u: int) -> str:
        line, offset = ("i" if self.name == "a" else "j"), i * self.step + u * self.along
        return f"{'x' if self.name == 'a' else 'y'}[{line} * {self.step} + k * {self.along} + {offset}]"

    def cost(self, lines: int, at_once: int, first: Callable[[int], int], tiles: _Tiles) -> float:
        """Return how many cycles the loads of a warp take for `at_once` terms: by conflicts of banks."""
        along = at_once == 4 and self.is_wide_along(4)
        wide = along or self.is_wide_across(lines)
        places = {
            first(t // tiles.lanes) * self.step + t % tiles.lanes * at_once * self.along for t in range(WARP)
        }
        units = {place // 4 for place in places} if wide else places
        banks = [unit % (8 if wide else 32) for unit in units]
        conflicts = max(banks.count(bank) for bank in set(banks))
        number = lines if along else at_once * (lines // 4 if wide else lines)
        return number * max(conflicts, 2 if wide else 1)


def _tiles(m: int, n: int, k: int, a: _Factor, b: _Factor, at_once: int, most: int) -> _Tiles:
    """Return how threads share a product of these sizes: what takes the fewest cycles, by shapes alone."""
    rows = [each for each in range(1, 17) if m % each == 0]
    columns = [each for each in range(1, 26) if n % each == 0]
    shares = [each for each in (1, 2, 4, 8, 16, 32) if each * at_once <= max(k, 1)]
    found = [_Tiles(*each) for each in pairs_of(rows, columns, shares) if each[0] * each[1] <= most]
    return min(found, key=lambda tiles: _cycles(m, n, k, a, b, at_once, tiles))


def _cycles(m: int, n: int, k: int, a: _Factor, b: _Factor, at_once: int, tiles: _Tiles) -> float:
    across, size = n // tiles.columns, tiles.rows * tiles.columns
    loads = a.cost(tiles.rows, at_once, lambda t: t // across * tiles.rows, tiles)
    loads += b.cost(tiles.columns, at_once, lambda t: t % across * tiles.columns, tiles)
    terms, exchanges = -(-k // (tiles.lanes * at_once)), int(math.log2(tiles.lanes))
    turns, rest = divmod(-(-m // tiles.rows * across * tiles.lanes // WARP), WARPS)

    def turn(warps: int) -> float:
        of_terms = terms * max(warps * size * at_once / 4, warps * loads, CYCLES)
        return of_terms + exchanges * max(warps * size / 2, CYCLES) + warps * size

    return turns * turn(WARPS) + (turn(rest) if rest else 0)


class _Result(NamedTuple):
    """Storage of the tile of a result, which is finished before."""

    kind: str
    ending: Ending
    out: np.ndarray
    is_aligned: bool

    def lines(self, tiles: _Tiles) -> Iterator[str]:
        down, across = steps_of(self.out)
        wide = self.is_aligned and across == 1 and down % 4 == 0 and tiles.columns % 4 == 0
        for i in range(tiles.rows):
            values = [self._value(f"sum{i}_{j}", i, j) for j in range(tiles.columns)]
            for j, value in enumerate(values):
                yield f"const {self.kind} value{i}_{j} = {value};"
            at = [f"out[i * {down} + j * {across} + {i * down + j * across}]" for j in range(tiles.columns)]
            if wide:
                for j in range(0, tiles.columns, 4):
                    names = ", ".join(f"value{i}_{j + n}" for n in range(4))
                    yield f"const float4 wide{i}_{j} = {{{names}}};"
                    yield f"*(float4 *)&{at[j]} = wide{i}_{j};"
            else:
                yield from (f"{place} = value{i}_{j};" for j, place in enumerate(at))

    def _value(self, name: str, i: int, j: int) -> str:
        parts, vector, term, factor = self.ending
        if term is not None:
            columns = self.out.shape[-1]
            name = f"{name} + {literal(factor, self.out.dtype)} * term[(i + {i}) * {columns} + j + {j}]"
        if "bias" in parts and vector is not None:
            name = f"{name} + vector[j + {j}]"
        return name if "relu" not in parts else f"({name}) < 0 ? 0 : {name}"


def product_text(
    name: str,
    arrays: Mapping[str, np.ndarray],
    ending: Ending,
    is_aligned: Callable[[np.ndarray], bool],
    most: int = MOST_OF_TILE,
) -> str:
    """Return the function that multiplies two matrices, and finishes the product."""
    x, y, out = (arrays[key] for key in ("x", "y", "out"))
    if x.ndim == 1:
        x, out = x[None], out[None]
    if y.ndim == 1:
        y, out = y[:, None], out[..., None]
    kind = type_of(out.dtype)
    if (
        not x.ndim == y.ndim == out.ndim == 2
        or not x.dtype == y.dtype == out.dtype
        or kind not in FUSED_TYPES
    ):
        raise _UnsuitedError
    (m, k), n = x.shape, y.shape[1]
    is_wide = kind == "float"
    (down, across), (along, step) = steps_of(x), steps_of(y)
    a = _Factor("a", down, across, is_wide and is_aligned(x))
    b = _Factor("b", step, along, is_wide and is_aligned(y))
    at_once = 4 if a.is_wide_along(k) or b.is_wide_along(k) else 1
    tiles = _tiles(m, n, k, a, b, at_once, most)
    result = _Result(kind, ending, out, is_wide and is_aligned(out))
    return _product_function(name, (m, n, k), (a, b), at_once, tiles, result, list(arrays))


def _product_function(
    name: str,
    sizes: tuple[int, int, int],
    factors: tuple[_Factor, _Factor],
    at_once: int,
    tiles: _Tiles,
    result: _Result,
    arrays: Sequence[str],
) -> str:
    (m, n, k), (a, b), kind = sizes, factors, result.kind
    rows, columns, lanes = tiles
    sums = "sums of y" in result.ending.parts
    fused, across, number = FUSED_TYPES[kind], n // columns, m // rows * (n // columns)
    at_a_time = BLOCK // lanes
    names = [f"sum{i}_{j}" for i in range(rows) for j in range(columns)]
    names += [f"all{j}" for j in range(columns)] if sums else []
    terms = [*a.loads(rows, at_once, kind), *b.loads(columns, at_once, kind)]
    for u in range(at_once):
        for i, j in pairs_of(range(rows), range(columns)):
            terms.append(f"sum{i}_{j} = {fused}(a{i}_{u}, b{j}_{u}, sum{i}_{j});")
        terms += [f"all{j} += b{j}_{u};" for j in range(columns)] if sums else []
    exchanged = []
    if lanes > 1:
        added = [f"{each} += __shfl_xor_sync(0xffffffffu, {each}, d);" for each in names]
        exchanged = block(f"for (unsigned int d = {lanes // 2}; d > 0; d /= 2) {{", added)
    stored = list(result.lines(tiles))
    if sums:
        stored += block("if (i == 0) {", [f"vector[j + {j}] = all{j};" for j in range(columns)])
    whole = number % at_a_time == 0
    condition = [*([] if whole else [f"n < {number}"]), *(["lane == 0"] if lanes > 1 else [])]
    if condition:
        stored = block(f"if ({' && '.join(condition)}) {{", stored)
    last = number if lanes == 1 else -(-number // at_a_time) * at_a_time
    begin = f"lane * {at_once}" if lanes > 1 else "0"
    tile = "n" if whole or lanes == 1 else f"(n < {number} ? n : {number - 1})"
    body = [
        f"const unsigned int i = {tile} / {across} * {rows}, j = {tile} % {across} * {columns};",
        *[f"{kind} {each} = 0;" for each in names],
        *block(f"for (unsigned int k = {begin}; k < {k}; k += {lanes * at_once}) {{", terms),
        *exchanged,
        *stored,
    ]
    written = {"out", *(["vector"] if sums else [])}
    parameters = [f"{'' if each in written else 'const '}{kind} *{each}" for each in arrays]
    first = f"threadIdx.x / {lanes}" if lanes > 1 else "threadIdx.x"
    lines = [
        *([f"const unsigned int lane = threadIdx.x % {lanes};"] if lanes > 1 else []),
        *block(f"for (unsigned int n = {first}; n < {last}; n += {at_a_time}) {{", body),
    ]
    return text_of(name, parameters, lines, "__device__")
