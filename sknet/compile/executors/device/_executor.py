"""The CuPy executor: a plan as calls that launch generated kernels at fixed addresses.

It runs on every device whose backend compiles kernels. A whole step is issued on the current
stream; nothing is copied from or to the host, and no memory is allocated except by the calls that
`_calls` names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NoReturn, Self

import numpy as np

from sknet.compile._constant import is_repeated
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._group import Finish
from sknet.compile._plan import Plan
from sknet.compile.executors._calls import Name, runner_of
from sknet.compile.executors._writer import NO_SLOTS, Writer
from sknet.compile.executors.device._calls import assign, call, scratch_of
from sknet.compile.executors.device._finishes import finishes
from sknet.compile.executors.device._maps import Kernel, is_map, written
from sknet.compile.executors.device._reductions import is_fusible, is_of_blocks, is_reduction, reduced
from sknet.compile.executors.device._reductions import scratch_of as partials_of
from sknet.compile.executors.device._rows import has_operands, is_in_rows, row_kernel, shapes_of_rows
from sknet.compile.executors.device._strided import with_strided_products
from sknet.compile.executors.device._tasks import Product, by_rule, has_rule, scratch_of_rule
from sknet.compile.passes import Group, Kernels, fuse_maps, join_totals
from sknet.device import Device, Ending, Form, backend, products_in
from sknet.ops import SparseSlot

__all__ = ["KERNELS", "CupyProgram"]

KERNELS = Kernels(is_map, is_reduction, is_fusible, is_in_rows, shapes_of_rows, has_operands)


class CupyProgram:
    """The calls of a plan, and its compiled kernels, which can be bound to memory many times."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a program is code of this process and cannot be pickled or copied: pickle its graph, and plan "
            "it again"
        )

    def __init__(self, plan: Plan, device: Device, exact: bool = False, precision: str = "float32") -> None:
        self.plan, self._precision = plan, precision
        self._calls = False  # functions, which multiply in the precision of the moment
        self._device, self._owner = device, backend(device.kind)
        self._writer = Writer(plan, exact)
        self._exact, self._needs = exact, _needs_of(plan.groups, exact)
        self._products = partial(self._owner.products, precision)  # what one object prepares shares memory
        self._kernels: dict[str, Kernel] = {}  # by name: some are launched many times, on other arrays
        self._own_names = (self._writer.new_name(f"own{n}") for n in count())
        for group in plan.groups:
            self._write(group)
        for output, donor in plan.copies:
            assign(self._writer, self._writer.name(donor), self._writer.name(output))
        module = self._module()
        with self._owner.activate(device):
            self._compile(module)
            self._constants = {x: self._on_device(value) for x, value in plan.constants.items()}
        how = "" if precision == "float32" else f", products in {precision}"
        self._head = f"# device: {device}{how}\n" + (f'KERNELS = r"""\n{module}"""\n\n' if module else "")

    @property
    def source(self) -> str:
        """The kernels in C, and the calls as Python source, to be read."""
        return self._writer.source(self._head)

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
        if exact:
            groups = fuse_maps(graph, Kernels(lambda equation: False))
        else:

            def takes(form: Form, parts: Sequence[str]) -> bool:
                return owner.finishes(form.in_precision(precision), parts)

            graph = with_strided_products(graph)
            with owner.activate(device):
                finished = finishes(graph, takes)
            groups = join_totals(graph, fuse_maps(graph, KERNELS, finishes=finished), is_of_blocks)
        plan = Plan(graph, groups, donated, _needs_of(groups, exact), owner.alignment)
        return cls(plan, device, exact, precision)

    def _on_device(self, constant: np.ndarray) -> Any:
        """Return a constant on the device; a number that is repeated has the memory of one."""
        if not is_repeated(constant):
            return self._owner.from_host(constant, self._device)
        one = self._owner.from_host(constant[(slice(0, 1),) * constant.ndim], self._device)
        return self._owner.xp.broadcast_to(one, constant.shape)

    # -- writing ------------------------------------------------------------------------------

    def _write(self, group: Group) -> None:
        what = [equation.primitive.name for equation in group.equations]
        if group.finish is not None:
            self._finish(group.finish, group)
        elif group.reductions and group.maps and is_in_rows(group.reductions[0]):
            self._launch(row_kernel(self._new_name("rows"), group, self.plan), what)
        elif group.reductions:
            self._launch(reduced(self._new_name("reduce"), group, self.plan), what)
        elif group.fused:
            self._launch(written(self._new_name("map"), group, self.plan), what)
        else:
            self._call(group)

    def _new_name(self, kind: str) -> str:
        """Return a name for the next kernel."""
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
                    self._multiply(*map(self._writer.name, (*equation.variables, equation.output)))
                else:
                    call(self._writer, equation, self._owner)
                    self._calls = True
                self._writer.comment(first, str(equation.output))

    def _multiply(self, *given: Name) -> None:
        """Add a product, which is prepared when the step is bound; all of them share memory to work in."""
        w = self._writer
        product = w.of(w.function(self._products, "products"), "product")
        w.call(w.of(product, "p", *given))

    def _by_rule(self, equation: Equation) -> None:
        """Write an equation that has kernels of its own."""
        for step in by_rule(equation, self._writer, self._owner, partial(next, self._own_names)):
            if isinstance(step, Kernel):
                self._launch(step, [equation.primitive.name])
            elif isinstance(step, Product):
                self._multiply(*step)
            else:
                assign(self._writer, *step)

    def _finish(self, finish: Finish, group: Group) -> None:
        """Write a product with what follows it, prepared as above."""
        w, first = self._writer, len(self._writer.calls)
        others = (None if x is None else w.name(x) for x in (finish.vector, finish.term))
        ending = w.of(Ending, "e", tuple(finish.parts), *others, finish.factor)
        self._multiply(*map(w.name, (*finish.product.variables, finish.output)), ending)
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

    def bind(
        self, memory: Any, slots: Sequence[Any], sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS
    ) -> tuple[Callable[[], None], dict[Variable, Any]]:
        """Return the step on this memory, and the array of every variable that has one."""
        arrays = self.plan.arrays(memory, slots, self._constants)
        step = runner_of(self._writer.bound(self._writer.values(memory, arrays, self._needs, sparse)))
        return partial(_in_precision, self._precision, step) if self._calls else step, arrays


def _only_joined(graph: Graph) -> set[Variable]:
    """Return what only concatenations read: of its numbers, zeros are not read at all."""
    others = {x for each in graph.equations if each.primitive.name != "concat" for x in each.variables}
    return set(graph.constants) - others - set(graph.outputs)


def _in_precision(precision: str, step: Callable[[], None]) -> None:
    with products_in(precision):
        step()


def _needs_of(groups: Sequence[Group], exact: bool) -> Callable[[Equation], Sequence[tuple[Any, ...]]]:
    """Return what lists shape and dtype of the arrays that an equation needs besides its output."""
    finished = {e for group in groups if group.finish is not None for e in group.equations}

    def needs(equation: Equation) -> Sequence[tuple[Any, ...]]:
        if equation in finished:
            return ()
        if not exact and has_rule(equation):
            return scratch_of_rule(equation)
        return partials_of(equation) if not exact and is_reduction(equation) else scratch_of(equation)

    return needs
