"""Fusion: elementwise equations that are executed together.

On the host, chains over large arrays are executed block by block, so that a block stays in the cache
(`fuse`). On a device that compiles kernels, equations of one shape are fused into one kernel (`fuse_maps`).
"""

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from sknet.compile._graph import Equation, Graph, Operand, Variable, parsed
from sknet.compile._plan import Finish, Group, is_elementwise
from sknet.core import PRIMITIVES

# Elements: a handful of such blocks fits into a core's own cache, and BLAS wakes no thread for one.
BLOCK = 1 << 13
MOST = 64  # equations per kernel: more would run out of registers
CACHE = 1 << 20  # bytes that stay in the cache from one equation to the next: smaller arrays need no blocks
NO_FINISHES: Mapping[Equation, tuple[Finish, Sequence[Equation]]] = MappingProxyType({})


def _never(*args: Any) -> bool:
    return False


def _nothing(*args: Any) -> tuple[()]:
    return ()


class Kernels(NamedTuple):
    """Kinds of kernels that a device executor can generate."""

    is_map: Callable[[Equation], bool]  # of each element independently
    is_reduction: Callable[[Equation], bool] = _never
    # a reduction in the kernel of its operand, besides other reductions
    is_fusible: Callable[[Equation, Sequence[Equation]], bool] = _never
    # reduces rows so short that lanes exchange values, and all of them know the total
    is_in_rows: Callable[[Equation], bool] = _never
    # of the operand of such a reduction, and of arrays with an element per row
    shapes_of_rows: Callable[[Equation], Sequence[tuple[int, ...]]] = _nothing
    # tells whether a map in the kernel of a reduction finds its operands among the values made there
    has_operands: Callable[[Equation, set[Variable], Equation], bool] = _never


def fuse(graph: Graph, block: int = BLOCK, cache: int = CACHE) -> list[Group]:
    """Group the equations of a graph: elementwise chains over large arrays become one group each."""
    return [_finished(equations, block, cache) for equations in _chains(graph, block)]


def fuse_maps(
    graph: Graph,
    kernels: Kernels,
    most: int = MOST,
    finishes: Mapping[Equation, tuple[Finish, Sequence[Equation]]] = NO_FINISHES,
) -> list[Group]:
    """Group the equations of a graph for a device: as few kernels as possible."""
    found = _Groups(kernels, most)
    taken = {e for _, equations in finishes.values() for e in equations}
    for equation in graph.equations:
        if equation in taken:
            if equation in finishes:
                found.finish_product(*finishes[equation])
        elif not (found.reduce(equation) or found.finish(equation)):
            found.add(equation)
    return _put_off(found.groups, {*graph.outputs}, most)


def _put_off(groups: list[Group], outputs: set[Variable], most: int) -> list[Group]:
    """Return groups in which maps are computed where they are read, if fewer bytes are moved."""
    # The mask of an activation, for example, which is read where its gradient is known.
    readers: dict[Variable, set[int]] = {}
    for number, group in enumerate(groups):
        for x in {x for equation in group.equations for x in equation.variables}:
            readers.setdefault(x, set()).add(number)
    for number, group in enumerate(groups):
        for equation in group.equations if _has_maps_alone(group) and len(group.equations) > 1 else ():
            [later, *others] = sorted(readers.get(equation.output, ())) or [number]
            if others or later == number or equation.output in outputs:
                continue
            to, rest = groups[later], [e for e in groups[number].equations if e is not equation]
            if not _has_maps_alone(to) or to.equations[0].output.shape != equation.output.shape:
                continue
            operands, read = (
                {*equation.variables},
                [{x for e in g for x in e.variables} for g in (rest, to.equations)],
            )
            less = 2 * equation.output.nbytes + sum(x.nbytes for x in operands - read[0])
            if operands & groups[number].internal or less <= sum(x.nbytes for x in operands - read[1]):
                continue
            if rest and len(to.equations) < most:
                groups[number] = groups[number]._replace(equations=rest)
                groups[later] = to._replace(equations=[equation, *to.equations])
    return groups


def _has_maps_alone(group: Group) -> bool:
    return group.fused and not group.reductions and group.finish is None


class _Groups:
    """Groups of equations for a device, as they are found one after the other."""

    def __init__(self, kernels: Kernels, most: int) -> None:
        self.groups: list[Group] = []
        self._kernels, self._most = kernels, most
        self._reductions: list[list[Equation]] = []
        self._epilogues: list[list[Equation]] = []
        self._finished: dict[Variable, int] = {}  # the group after whose reductions it is known
        self._home: dict[Variable, int] = {}  # the first group that may use a value
        self._made: dict[Variable, int] = {}  # the group whose kernel computes it
        self._latest: dict[tuple[int, ...], int] = {}  # the group that maps of a shape join

    def reduce(self, equation: Equation) -> bool:
        """Add a reduction to the group of its operand, or begin one, if a kernel can compute it so."""
        number = self._made.get(equation.variables[0], -1) if equation.variables else -1
        if number >= 0 and self._kernels.is_fusible(equation, self._reductions[number]):
            self.groups[number].equations.append(equation)
        elif self._kernels.is_reduction(equation):
            number = self._begun(equation, fused=True)
        else:
            return False
        self._reductions[number].append(equation)
        if self._kernels.is_in_rows(equation):
            self._home[equation.output] = number
            self._latest.update(dict.fromkeys(self._kernels.shapes_of_rows(equation), number))
        else:
            self._home[equation.output] = number + 1
            self._finished[equation.output] = number
        return True

    def finish_product(self, finish: Finish, equations: Sequence[Equation]) -> None:
        """Begin a group of a product and what its launch computes, which nothing can join."""
        number = self._begun(equations[0], fused=True)
        self.groups[number] = self.groups[number]._replace(equations=[*equations], finish=finish)
        self._home.update((e.output, number + 1) for e in equations)

    def finish(self, equation: Equation) -> bool:
        """Add a map of totals to the group of the reductions, if a kernel can compute it with them."""
        number = max((self._finished.get(x, -1) for x in equation.variables), default=-1)
        if number < 0 or len(self.groups[number].equations) >= self._most:
            return False
        if not (is_elementwise(equation) and self._kernels.is_map(equation)):
            return False
        shape, reduction = equation.output.shape, self._reductions[number][0]
        if shape == reduction.variables[0].shape or not all(
            x.shape == shape if self._finished.get(x) == number else self._is_before(x, number)
            for x in equation.variables
        ):
            return False
        self.groups[number].equations.append(equation)
        self._epilogues[number].append(equation)
        self._home[equation.output], self._finished[equation.output] = number + 1, number
        return True

    def _is_before(self, x: Variable, number: int) -> bool:
        """Tell whether a value is in memory when the kernel of a group begins."""
        return self._home.get(x, 0) <= number and self._made.get(x) != number

    def add(self, equation: Equation) -> None:
        """Add a map to the last group of its shape; or begin a group."""
        output = equation.output
        fused = self._kernels.is_map(equation)
        number = self._latest.get(output.shape, -1) if fused else -1
        needed = max((self._home[x] for x in equation.variables if x in self._home), default=0)
        if number >= needed and self._joins(equation, number):
            self.groups[number].equations.append(equation)
        else:
            number = self._begun(equation, fused)
        self._home[output] = number
        if fused:
            self._made[output] = self._latest[output.shape] = number

    def _begun(self, equation: Equation, fused: bool) -> int:
        self._reductions.append([])
        self._epilogues.append([])
        self.groups.append(Group([equation], 0, fused, self._reductions[-1], self._epilogues[-1]))
        return len(self.groups) - 1

    def _joins(self, equation: Equation, number: int) -> bool:
        """Tell whether a group has room for an equation, and its kernel the operands at hand."""
        if len(self.groups[number].equations) >= self._most:
            return False
        made = self.groups[number].internal
        return not self._reductions[number] or self._kernels.has_operands(
            equation, made, self._reductions[number][0]
        )


def _chains(graph: Graph, least: int) -> Iterator[list[Equation]]:
    chain: list[Equation] = []
    outputs: set[Variable] = set()
    for equation in graph.equations:
        large = equation.output.size > least and is_elementwise(equation) and _can_be_divided(equation)
        if large and chain and _is_apart(equation, chain):
            yield [equation]
            continue
        if large and chain and _joins(equation, chain):
            chain.append(equation)
        elif large or not outputs.isdisjoint(equation.variables):
            if chain:
                yield chain
            chain = [equation]
            outputs.clear()
            if not large:
                yield chain
                chain = []
        else:  # it uses no result of the chain, so it goes before it
            yield [equation]
        if large:
            outputs.add(equation.output)
    if chain:
        yield chain


def _joins(equation: Equation, chain: list[Equation]) -> bool:
    """Tell whether an equation has the shape of a chain; one that adds a multiple is a chain by itself."""
    same_shape = chain[0].output.shape == equation.output.shape
    return same_shape and not (chain[0].primitive.name == "axpy" and not _shares(equation, chain))


def _is_apart(equation: Equation, chain: list[Equation]) -> bool:
    """Tell if an equation adds a multiple, as an L2 term does, of nothing that a chain reads or makes."""
    return equation.primitive.name == "axpy" and not _shares(equation, chain)


def _shares(equation: Equation, chain: list[Equation]) -> bool:
    used = {x for each in chain for x in (*each.variables, each.output)}
    return not used.isdisjoint(equation.variables)


def _can_be_divided(equation: Equation) -> bool:
    """Tell whether a block of the output's rows needs only the same rows of each operand, or all of it."""
    shape = equation.output.shape
    return len(shape) > 0 and all(
        len(x.shape) < len(shape) or x.shape[0] in (1, shape[0]) for x in equation.variables
    )


def _finished(equations: list[Equation], block: int, cache: int) -> Group:
    arrays = {x for equation in equations for x in (*equation.variables, equation.output)}
    if len(equations) == 1 or sum(x.nbytes for x in arrays) < cache:
        return Group(equations, 0)
    shape = equations[0].output.shape
    rows = max(1, block // math.prod(shape[1:]))
    return Group(equations, rows if rows < shape[0] else 0)


# -- totals that share a kernel: a reduction to one number waits for the next, if nothing needs it before --


MOST_PARTS = 8  # parts of a kernel
MOST_BYTES = 1 << 22  # bytes that a total keeps in memory while it waits, at most


def join_totals(
    graph: Graph, groups: Sequence[Group], is_of_blocks: Callable[[Equation], bool]
) -> list[Group]:
    """Join groups that have totals of different arrays, as parts of one group."""
    found = _Waiting({*graph.inputs, *graph.constants})
    for group in groups:
        found.take(group, bool(group.reductions) and all(map(is_of_blocks, group.reductions)))
    return found.all()


class _Waiting:
    """Groups in order, of which the last ones may be put off."""

    def __init__(self, resident: set[Variable]) -> None:
        self._resident = resident  # inputs, constants and views of them, which take no memory of the plan
        self._done: list[Group] = []
        self._waiting: list[Group] = []

    def take(self, group: Group, has_totals: bool) -> None:
        made = {x for each in self._waiting for x in each.internal}
        after = group.epilogue if has_totals else ()
        read = {x for e in group.equations if e not in after for x in e.variables}
        if made & read or (has_totals and self._n_parts >= MOST_PARTS):
            self._go_on()
        if has_totals:
            self._waiting.append(group)
            if self._kept(group) > MOST_BYTES:
                self._go_on()
            return
        for equation in group.equations:
            if equation.primitive.view is not None and self._resident.issuperset(equation.variables):
                self._resident.add(equation.output)
        self._done.append(group)

    @property
    def _n_parts(self) -> int:
        return sum(len(group.reductions) for group in self._waiting)

    def _kept(self, group: Group) -> int:
        made = group.internal
        read = {x for e in group.equations for x in e.variables} - made - self._resident
        return sum(x.nbytes for x in read)

    def _go_on(self) -> None:
        if self._waiting:
            self._done.append(_joined(self._waiting))
            self._waiting = []

    def all(self) -> list[Group]:
        self._go_on()
        return self._done


def _joined(parts: list[Group]) -> Group:
    if len(parts) == 1:
        return parts[0]
    before = [e for part in parts for e in part.equations if e not in part.epilogue]
    reductions = [e for part in parts for e in part.reductions]
    epilogue = [e for part in parts for e in part.epilogue]
    return Group([*before, *epilogue], 0, True, reductions, epilogue, parts)


# -- primitives for which NumPy has no function, as the operations of their expressions -------
# Blocks and native code run these as they run all others, and a subexpression of two expressions is computed
# once: a gradient of GELU takes the sigmoid that the forward pass has computed.


WITH_PARTS = ("gelu_tanh", "gelu_tanh_gradient")
OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}


def in_parts(graph: Graph) -> Graph:
    """Return a graph without such primitives, that computes the same bits."""
    if {equation.primitive.name for equation in graph.equations}.isdisjoint(WITH_PARTS):
        return graph  # as most
    parts = _Parts()
    for equation in graph.equations:
        if _has_parts(equation):
            parts.write(equation)
        else:
            parts.equations.append(equation)
    return graph.replaced(equations=parts.equations).verify()


def _has_parts(equation: Equation) -> bool:
    if equation.primitive.name not in WITH_PARTS:
        return False
    dtypes = {x.dtype for x in (*equation.variables, equation.output)}
    return len(dtypes) == 1 and dtypes.pop().char in "fd"


class _Parts:
    """Equations, of which those of expressions are written once however often they occur."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self._known: dict[Any, Variable] = {}

    def write(self, equation: Equation) -> None:
        """Write the operations of an expression; the last has the output of the equation."""
        operands = dict(zip("xyz", equation.operands, strict=False))
        name, values = self._operation(parsed(str(equation.primitive.expression)), operands)
        self.equations.append(Equation(PRIMITIVES[name], values, {}, equation.output))

    def _operation(self, node: ast.expr, operands: dict[str, Operand]) -> tuple[str, tuple[Operand, ...]]:
        if (inner := _under_a_sigmoid(node)) is not None:
            name, of = "sigmoid", [inner]  # whose exponential may be infinite without a warning
        elif isinstance(node, ast.BinOp):
            name, of = OPERATORS[type(node.op)], [node.left, node.right]
        else:
            raise NotImplementedError(f"{ast.unparse(node)} in the expression of a primitive with parts")
        return name, tuple(self._value(each, operands) for each in of)

    def _value(self, node: ast.expr, operands: dict[str, Operand]) -> Operand:
        if isinstance(node, ast.Name):
            return operands[node.id]
        if isinstance(node, ast.Constant):
            return node.value
        key = self._operation(node, operands)
        if key not in self._known:
            name, values = key
            self.equations.append(Equation(PRIMITIVES[name], values, {}))
            self._known[key] = self.equations[-1].output
        return self._known[key]


def _under_a_sigmoid(node: ast.expr) -> ast.expr | None:
    """Return what an expression is the sigmoid of; None if it is another."""
    match node:
        case ast.BinOp(
            ast.Constant(1),
            ast.Div(),
            ast.BinOp(
                ast.Constant(1), ast.Add(), ast.Call(ast.Name("exp"), [ast.UnaryOp(ast.USub(), inner)])
            ),
        ):
            return inner
    return None
