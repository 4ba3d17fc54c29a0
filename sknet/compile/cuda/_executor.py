"""The CuPy executor: a plan as calls that launch generated kernels at fixed addresses.

It runs on every device whose backend compiles kernels. A whole step is issued on the current stream; nothing
is copied from or to the host, and no memory is allocated except by three kinds of calls: primitives whose
forward takes no ``out=`` (`argsort`, `topk`, `searchsorted`, advanced indexing), those whose forward uses
temporary arrays that are not in the plan (`logsumexp`, `take_along_axis` of more than one element per row),
and CuPy functions that allocate internally (`argmax` and `argmin`, a sort; products that need copies, since
one strided call does not compute them; in exact programs, reductions and `where`). In exact programs all
that has a rule (`_rules`) is called so too.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from sknet._frames import is_basic, with_ellipsis
from sknet._late import cached_property
from sknet.compile import _graph as own
from sknet.compile._calls import (
    FILL,
    NO_SLOTS,
    Call,
    Method,
    Name,
    Program,
    Writer,
    bound,
    forward_scratch,
    registry,
    runner_of,
)
from sknet.compile._graph import Equation, Graph, Operand, Variable, is_repeated
from sknet.compile._plan import Finish, Plan, Views
from sknet.compile.cuda._epilogues import NO_HALVES, epilogues
from sknet.compile.cuda._heads import head_kernel, with_heads
from sknet.compile.cuda._maps import Kernel, is_map, written
from sknet.compile.cuda._precisions import with_halves, with_split_products
from sknet.compile.cuda._reductions import (
    has_operands,
    is_fusible,
    is_in_rows,
    is_of_blocks,
    is_reduction,
    reduced,
    row_kernel,
    shapes_of_rows,
)
from sknet.compile.cuda._reductions import scratch_of as partials_of
from sknet.compile.cuda._rules import Product, by_rule, has_rule, scratch_of_rule
from sknet.compile.passes import Group, Kernels, fuse_maps, join_totals
from sknet.device import HALVES, Backend, Device, Ending, Form, backend, form_of, products_in
from sknet.ops import SparseSlot

RUN, JOIN = Method("run"), Method("join")  # of a branch
NO_PRODUCTS: Mapping[Equation, str] = MappingProxyType({})
KERNELS = Kernels(is_map, is_reduction, is_fusible, is_in_rows, shapes_of_rows, has_operands)


class GroupWriter(ABC):
    """Writes the groups of a plan: kernels, products, assignments, and calls of primitives."""

    _precision = "float32"  # of products
    _is_wide = False  # loads of kernels of elements

    def __init__(self, plan: Plan, owner: Backend, exact: bool) -> None:
        self.plan, self._owner, self._exact = plan, owner, exact
        self._writer = Writer(plan, exact)
        self._kernels: dict[str, Kernel] = {}  # by name: some are launched many times, on other arrays
        self._own_names = (self._writer.new_name(f"own{n}") for n in count())
        self._number = 0  # of the group that is written
        for self._number, group in enumerate(plan.groups):
            self._write(group)
        for output, donor in plan.copies:
            self._assign(self._writer.name(donor), self._writer.name(output))

    @abstractmethod
    def _launch(self, kernel: Kernel, what: Iterable[str]) -> None:
        """Write a kernel, which computes equations of these names."""

    @abstractmethod
    def _multiply(self, x: Name, y: Name, out: Name, *, of: Equation | None = None) -> None:
        """Write a product, that of an equation or one by a rule."""

    @abstractmethod
    def _finish(self, finish: Finish, group: Group) -> None:
        """Write a product with what follows it."""

    @abstractmethod
    def _assign(self, out: Name, value: Any) -> None:
        """Write the assignment of an array or a number to all elements of an array."""

    @abstractmethod
    def _call_forward(self, equation: Equation) -> None:
        """Write a call of a primitive that has no kernel."""

    def _write(self, group: Group) -> None:
        what = [equation.primitive.name for equation in group.equations]
        if group.finish is not None:
            self._finish(group.finish, group)
        elif group.parts and is_in_rows(group.reductions[0]):
            self._launch(
                head_kernel(self._new_name("head"), group, self.plan, self._precision, self._is_wide), what
            )
        elif group.reductions and group.maps and is_in_rows(group.reductions[0]):
            self._launch(row_kernel(self._new_name("rows"), group, self.plan), what)
        elif group.reductions:
            self._launch(reduced(self._new_name("reduce"), group, self.plan), what)
        elif group.fused:
            self._launch(written(self._new_name("map"), group, self.plan, self._is_wide), what)
        else:
            self._call(group)

    def _new_name(self, kind: str) -> str:
        return self._writer.new_name(f"{kind}{len(self._kernels)}")

    def _call(self, group: Group) -> None:
        for equation in group.equations:
            if not equation.output.size or self.plan.views.is_view(equation):
                continue
            if has_rule(equation) and not self._exact:
                self._by_rule(equation)
            else:
                first = len(self._writer.calls)
                if equation.primitive.name == "matmul" and not self._exact:
                    x, y, out = map(self._writer.name, (*equation.variables, equation.output))
                    self._multiply(x, y, out, of=equation)
                else:
                    self._call_forward(equation)
                self._writer.comment(first, str(equation.output))

    def _by_rule(self, equation: Equation) -> None:
        for step in by_rule(equation, self._writer, self._owner, partial(next, self._own_names)):
            if isinstance(step, Kernel):
                self._launch(step, [equation.primitive.name])
            elif isinstance(step, Product):
                self._multiply(*step)
            else:
                self._assign(*step)


class CupyProgram(GroupWriter, Program):
    """The calls of a plan, and its compiled kernels."""

    def __init__(
        self,
        plan: Plan,
        device: Device,
        exact: bool = False,
        precision: str = "float32",
        others: Mapping[Equation, str] = NO_PRODUCTS,
        *,
        is_wide: bool = True,
    ) -> None:
        self._precision, self._device, self._others, self._is_wide = precision, device, others, is_wide
        self._calls = False  # functions, which multiply in the precision of the moment
        self._needs = needs_of(plan.groups, exact)
        owner = backend(device.kind)
        # By precision, and whether on the branch: what one object prepares shares memory.
        self._products: dict[tuple[str, bool], Callable[[], Any]] = {}
        self._branch = owner.branch  # of which there is one
        self._branched = set[int]()  # groups that run there; products of stacks do not
        super().__init__(plan, owner, exact)
        module = self._module()
        with self._owner.activate(device):
            self._compile(module)
            self._constants = {x: self._on_device(value) for x, value in plan.constants.items()}
        how = "" if precision == "float32" else f", products in {precision}"
        self._head = f"# device: {device}{how}\n" + (f'KERNELS = r"""\n{module}"""\n\n' if module else "")

    @classmethod
    def of(
        cls,
        graph: Graph,
        donated: Mapping[Variable, Variable],
        exact: bool,
        device: Device,
        precision: str = "float32",
    ) -> Self:
        """Plan a graph for `device` whose outputs take over `donated` inputs; all others as above."""
        # Kernels read them as they read all arrays, also one that repeats a number.
        joined = _only_joined(graph)
        constants = {
            x: value if x in joined else np.array(value, order="C") for x, value in graph.constants.items()
        }
        graph = graph.replaced(constants=constants)
        owner = backend(device.kind)
        others: dict[Equation, str] = {}  # products in another precision than the program
        halves: Mapping[Variable, Variable] = NO_HALVES
        if exact:
            groups = fuse_maps(graph, Kernels(lambda equation: False))
        else:

            def takes(form: Form, parts: Sequence[str]) -> bool:
                return all(owner.finishes(form.in_precision(each), parts) for each in precisions)

            graph, precisions = with_strided_products(graph), [precision]
            if precision == "tf32x3":
                graph, split = with_split_products(graph)
                others, precisions = dict.fromkeys(split, "tf32"), ["float32", "tf32"]
            with owner.activate(device):
                if precision == "bfloat16":
                    graph, stored, halves = with_halves(graph, owner.finishes)
                    others = dict.fromkeys(stored, HALVES)
                finished = epilogues(graph, takes, halves)
            groups = join_totals(graph, fuse_maps(graph, KERNELS, finishes=finished), is_of_blocks)
            groups = with_heads(groups)
        beside = {} if exact else products_beside(graph, groups)
        plan = Plan(graph, groups, donated, needs_of(groups, exact), owner.alignment, beside, halves)
        return cls(plan, device, exact, precision, others)

    def _on_device(self, constant: np.ndarray) -> Any:
        """Return a constant on the device; a number that is repeated has the memory of one."""
        if not is_repeated(constant):
            return self._owner.from_host(constant, self._device)
        one = self._owner.from_host(constant[(slice(0, 1),) * constant.ndim], self._device)
        return self._owner.xp.broadcast_to(one, constant.shape)

    # -- writing ------------------------------------------------------------------------------

    def _write(self, group: Group) -> None:
        for number, after in self.plan.beside.items():
            if after == self._number and number in self._branched:
                branch = self._writer.of(self._branch, "branch")
                self._writer.call(JOIN, branch, number, label="join")
        super()._write(group)

    def _assign(self, out: Name, value: Any) -> None:
        assign(self._writer, out, value)

    def _call_forward(self, equation: Equation) -> None:
        call(self._writer, equation, self._owner)
        self._calls = True

    def _multiply(self, *given: Name, of: Equation | None = None) -> None:
        """Add a product, which is prepared when the step is bound; those in one precision share memory."""
        w, is_beside = self._writer, self._number in self.plan.beside
        precision = self._precision if of is None else self._others.get(of, self._precision)
        make = self._products.setdefault((precision, is_beside), partial(self._owner.products, precision))
        name = "products" if precision == self._precision else precision.replace(" ", "_")
        product = w.of(w.of(w.function(make, name), "product"), "p", *given)
        if is_beside:
            self._branched.add(self._number)
            w.call(RUN, w.of(self._branch, "branch"), self._number, product, label="run")
        else:
            w.call(product)

    def _finish(self, finish: Finish, group: Group) -> None:
        """Write a product with what follows it, prepared as above."""
        w, first = self._writer, len(self._writer.calls)
        others = (None if x is None else w.name(x) for x in (finish.vector, finish.term))
        ending = w.of(Ending, "e", tuple(finish.parts), *others, finish.factor)
        given = map(w.name, (*finish.product.variables, finish.output))
        self._multiply(*given, ending, of=finish.product)
        w.comment(first, ", ".join(equation.primitive.name for equation in group.equations))

    def _launch(self, kernel: Kernel, what: Iterable[str]) -> None:
        w = self._writer
        self._kernels[kernel.name] = kernel
        first = len(w.calls)
        w.call(Name(kernel.name), (kernel.blocks,), (kernel.threads,), tuple(map(Name, kernel.arguments)))
        w.comment(first, ", ".join(dict.fromkeys(what)))

    def _module(self) -> str:
        helpers = dict.fromkeys(
            helper for kernel in self._kernels.values() for helper in sorted(kernel.helpers)
        )
        return "\n".join([*helpers, *[kernel.text for kernel in self._kernels.values()]])

    def _compile(self, module: str) -> None:
        if module:
            names = list(map(str, self._kernels))  # CuPy takes no derived class
            compiled = self._owner.kernels(module, names, self._device)
            self._writer.functions.update(zip(names, compiled, strict=True))

    # -- binding ------------------------------------------------------------------------------

    @cached_property
    def _narrow(self) -> "CupyProgram":
        """The same for slots that begin anywhere, as parts of arrays do."""
        how = self._device, self._exact, self._precision, self._others
        return CupyProgram(self.plan, *how, is_wide=False)

    def bind(
        self, memory: Any, slots: Sequence[Any], sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS
    ) -> tuple[Callable[[], None], dict[Variable, Any]]:
        """Return the step on this memory, and the array of every variable that has one."""
        if self._is_wide and not all(map(self._owner.is_aligned, slots)):
            return self._narrow.bind(memory, slots, sparse)
        arrays = self.plan.arrays(memory, slots, self._constants)
        w, values = self._writer, self._writer.values(memory, arrays, self._needs, sparse)
        calls = bound(w.calls, values, w.made)
        return Step(calls, self._last(), self._precision if self._calls else None), arrays

    def _last(self) -> "Last | None":
        """Return the kernel that comes last, if each of its threads has elements of their own."""
        call = self._writer.calls[-1] if self._writer.calls else None
        kernel = self._kernels.get(call.function) if isinstance(call, Call) else None
        by_name = {str(name): x for x, name in self._writer.names.items()}
        if kernel is None or not kernel.is_loop or not by_name.keys() >= set(kernel.arguments):
            return None
        pairs = zip(kernel.arguments, kernel.parameters.split(", "), strict=True)
        return Last(kernel, self.plan, {by_name[name]: not text.startswith("const") for name, text in pairs})


class Last(NamedTuple):
    """The last kernel of a program, and the variables that it reads, or also writes."""

    kernel: Kernel
    plan: Plan
    variables: dict[Variable, bool]

    def is_apart(self, written: Iterable[Variable], read: Iterable[Variable]) -> bool:
        """Tell whether it may run beside what writes some variables and reads others."""
        mine = {self._memory_of(x) for x in self.variables}
        changed = {self._memory_of(x) for x, is_written in self.variables.items() if is_written}
        return mine.isdisjoint(map(self._memory_of, written)) and changed.isdisjoint(
            map(self._memory_of, read)
        )

    def _memory_of(self, x: Variable) -> int:
        buffer = self.plan.buffers[self.plan.views.root(x)]
        while buffer.parent is not None:
            buffer = buffer.parent
        return id(buffer)


class Step:
    """A program that is bound to memory."""

    def __init__(self, calls: list[Call], last: Last | None, precision: str | None) -> None:
        self._calls, self._last, self._precision = calls, last, precision
        self._run = self._runner(calls)

    def __call__(self) -> None:
        self._run()

    def _runner(self, calls: list[Call]) -> Callable[[], None]:
        run = runner_of(calls)
        return run if self._precision is None else partial(_in_precision, self._precision, run)

    def before_last(
        self, written: Iterable[Variable], read: Iterable[Variable]
    ) -> tuple[Callable[[], None], Kernel, Sequence[Any]] | None:
        """Return what makes all calls but that of the last kernel, this kernel, and its arrays."""
        # None if something else comes last, or it may not run beside what writes or reads these variables.
        if self._last is None or not self._last.is_apart(written, read):
            return None
        return self._runner(self._calls[:-1]), self._last.kernel, self._calls[-1].args[2]


def _only_joined(graph: Graph) -> set[Variable]:
    """Return what only concatenations read: of its numbers, zeros are not read at all."""
    others = {x for each in graph.equations if each.primitive.name != "concat" for x in each.variables}
    return set(graph.constants) - others - set(graph.outputs)


def _in_precision(precision: str, step: Callable[[], None]) -> None:
    with products_in(precision):
        step()


def products_beside(graph: Graph, groups: Sequence[Group]) -> dict[int, int]:
    """Return products that run beside the next one, as of weights' gradients, and what waits for each."""
    # Both are numbers of groups. What waits is what reads a product, or the next product but one, so that
    # arrays are not in use for long.
    views = Views([e for group in groups for e in group.equations])
    made = {e.output: number for number, group in enumerate(groups) for e in group.equations}
    readers: dict[int, int] = {}
    for number, group in enumerate(groups):
        for equation in group.equations:
            for x in () if views.is_view(equation) else map(views.root, equation.variables):
                if made.get(x, number) != number:
                    readers.setdefault(made[x], number)
    found, others = dict[int, int](), list[int]()
    for number in reversed(range(len(groups))):
        group = groups[number]
        is_product = group.finish is not None or len(group.equations) == 1
        if group.equations[0].primitive.name != "matmul" or not is_product or number not in readers:
            continue
        after = [other for other in others if other < readers[number]]
        if after:
            found[number] = min([readers[number], *after[1:2]])
        else:
            others.insert(0, number)
    return found


def needs_of(groups: Sequence[Group], exact: bool) -> Callable[[Equation], Sequence[tuple[Any, ...]]]:
    """Return what lists shape and dtype of the arrays that an equation needs besides its output."""
    finished = {e for group in groups if group.finish is not None for e in group.equations}

    def needs(equation: Equation) -> Sequence[tuple[Any, ...]]:
        if equation in finished:
            return ()
        if not exact and has_rule(equation):
            return scratch_of_rule(equation)
        return partials_of(equation) if not exact and is_reduction(equation) else forward_scratch(equation)

    return needs


# -- calls of primitives outside of kernels: by their own forward, with ``out=`` --------------


Caller = Callable[[Writer, Equation, Backend], None]
CALLS: dict[str, Caller] = {}
caller = registry(CALLS)  # registers how primitives are called


def call(w: Writer, equation: Equation, owner: Backend) -> None:
    CALLS.get(equation.primitive.name, _by_its_forward)(w, equation, owner)


def assign(w: Writer, out: Name, x: Any) -> None:
    """Add the assignment of an array or a number to all elements of an array."""
    w.call(operator.setitem, out, ..., x)


def _by_its_forward(w: Writer, equation: Equation, owner: Backend) -> None:
    forward = equation.primitive.forward_on(owner)
    w.forward_call(equation, forward, [_operand(w, x) for x in equation.operands])


def _operand(w: Writer, x: Operand) -> Any:
    return w.name(x) if type(x) is Variable else x


@caller("copy", "broadcast_to", "permute_dims", "reshape", "concat", "assemble")
def _copies(w: Writer, equation: Equation, owner: Backend) -> None:
    for target, source in w.copies(equation):
        if source is None:
            w.call(FILL, target, 0, label="fill")
        else:
            assign(w, target, source)


@caller("scatter_add")
def _scatter_add(w: Writer, equation: Equation, owner: Backend) -> None:
    [g], out = equation.operands, w.name(equation.output)
    part = _part(w, out, equation.params["index"])
    if part is None:
        _by_its_forward(w, equation, owner)
        return
    w.call(FILL, out, 0, label="fill")
    assign(w, part, w.name(g))


@caller("setitem")
def _setitem(w: Writer, equation: Equation, owner: Backend) -> None:
    [x, value], out = equation.operands, w.name(equation.output)
    part = _part(w, out, equation.params["index"])
    if part is None:
        _by_its_forward(w, equation, owner)
        return
    assign(w, out, _operand(w, x))
    assign(w, part, _operand(w, value))


def _part(w: Writer, array: Name, index: Any) -> Name | None:
    """Return the name of the view that an index takes of an array; None if it takes a copy."""
    if not is_basic(index):
        return None
    return w.part(array, w.partial(with_ellipsis(index), "index"))


# -- operands of products in an order that one strided product of BLAS reads ------------------


def with_strided_products(graph: Graph) -> Graph:
    """Return a graph in which operands of products are copied where a product would copy them."""
    views, equations, copies = Views(graph.equations), [], dict[Variable, Variable]()
    for equation in graph.equations:
        copied = list(COPIED.get(equation.primitive.name, _none)(views, equation))
        if copied:
            for x in copied:
                if x not in copies:
                    copy = Equation(own.copy, (x,), {})
                    equations.append(copy)
                    copies[x] = copy.output
            equation = equation.reading(tuple(copies[x] if x in copied else x for x in equation.operands))
        equations.append(equation)
    return graph.replaced(equations=equations) if copies else graph


def _is_refused(views: Views, equation: Equation) -> bool:
    x, y = equation.variables
    if not (x.dtype == y.dtype == equation.output.dtype and x.size and y.size):
        return False  # copies would not help
    return form_of(views.ghost(x), views.ghost(y), views.ghost(equation.output)) is None


def _of_product(views: Views, equation: Equation) -> Iterator[Variable]:
    """Yield operands to copy: the second, if that is enough, or all that are not contiguous."""
    if not _is_refused(views, equation):
        return
    x, y = equation.variables
    is_alone = views.is_contiguous(x) or (
        not views.is_contiguous(y) and form_of(views.ghost(x), *map(Views().ghost, (y, equation.output)))
    )
    if not is_alone:
        yield x
    if not views.is_contiguous(y):
        yield y


def _of_recurrence(views: Views, equation: Equation) -> Iterator[Variable]:
    yield from (x for x in equation.variables if not views.is_contiguous(x))


def _none(views: Views, equation: Equation) -> Iterator[Variable]:
    yield from ()


COPIED: dict[str, Callable[[Views, Equation], Iterator[Variable]]] = {
    "matmul": _of_product,
    "recurrence_outputs": _of_recurrence,
    "recurrence_tape": _of_recurrence,
    "recurrence_gradient": _of_recurrence,
}
