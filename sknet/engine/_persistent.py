"""Steps of small networks as one launch: a block of threads or a cluster has one in its shared memory."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from sknet.compile import Variable
from sknet.compile._graph import Graph
from sknet.compile.cuda._clusters import blocks_for
from sknet.compile.cuda._maps import type_of
from sknet.compile.cuda._persistent import Phases, phases
from sknet.device import Device, backend, to_device

THREADS = 256  # of a block; phases are written for as many

STEPS = """\
{functions}
extern "C" __global__ void __launch_bounds__({bounds}) steps({parameters})
{{
    extern __shared__ __align__(16) unsigned char memory[];
    const long long fit = blockIdx.x / {blocks};
    const unsigned int rank = {rank};
{declarations}
    for (unsigned int i = {zeros[0]} + threadIdx.x; i < {zeros[1]}; i += {threads})
        memory[i] = 0;
{loaded}
    const long long n_steps = at[0], start = at[2 + fit];
    for (long long step = 0; step < n_steps; step++) {{
{begun}
        __syncthreads();
{calls}
        if (rank == 0 && threadIdx.x < 3)
            reports[(step * {n_fits} + fit) * 3 + threadIdx.x] = {report}[threadIdx.x];
{left}
    }}
    __syncthreads();
    if (rank != 0)
        return;
{stored}
}}
"""
EACH = "for (unsigned int i = threadIdx.x; i < {size}; i += {threads})"


class State(NamedTuple):
    """An input that a network has by itself, in an array with an element of all networks or one of each."""

    array: Any


class Number(NamedTuple):
    """An input that is a number of each step, by its place among them."""

    place: int


class BatchRows(NamedTuple):
    """An input that has the rows of a batch: those of `source` that are next in `order`."""

    order: Any
    source: Any


Input = State | Number | BatchRows


class Step(NamedTuple):
    """One step of one network: its graph, which inputs outputs replace, raw output, report, and the batch."""

    graph: Graph
    donated: Mapping[Variable, Variable]
    output: Variable
    report: Variable
    rows: Sequence[Variable]  # inputs


OF_STEPS = {"table", "reports"}  # arrays with a row for each step of a block


class Ring(Protocol):
    """The arrays of a block of steps: numbers of each step, and the reports that it leaves."""

    table: Any
    reports: Any


MOST_BLOCKS = 64  # of the clusters of some networks; more networks keep a device busy with a block for each


def persistent(step: Step, n_rows: int, device: Device, n_fits: int = 1) -> Phases | None:
    """Return a step as phases of a kernel; None if shapes, or the device, do not suit that.

    Where the device has clusters, each of few networks has one, unless its step cannot be divided.
    """
    owner = backend(device.kind)
    most_blocks = min(owner.blocks_of_cluster(device), MOST_BLOCKS // n_fits)
    for blocks in dict.fromkeys((blocks_for(step.graph, n_rows, most_blocks), 1)):
        # Numbers of the rows of a batch are there, too.
        most = owner.shared_memory(device) - 16 * n_rows // blocks - 64
        found = phases(step.graph, step.donated, owner, most, step.rows, blocks) if most > 0 else None
        if found is not None:
            return found
    return None


class Persistent:
    """The launches of a block of steps, which are one."""

    def __init__(
        self,
        step: Step,
        found: Phases,
        inputs: Sequence[Input],
        n_fits: int,
        n_rows: int,
        ring: Ring,
        outputs: Any,
        device: Device,
    ) -> None:
        self._step, self._found, self._inputs, self._ring = step, found, inputs, ring
        self._n_fits, self._n_rows, self._device = n_fits, n_rows, device
        owner = backend(device.kind)
        self._at = owner.zeros((2 + n_fits,), np.int64, device)
        self._arrays: dict[str, tuple[str, Any]] = {}  # by the names of parameters: their types, and arrays
        text = self._text(outputs)
        [self._kernel] = owner.kernels(text, ["steps"], device, found.nbytes)

    def __call__(self, steps: int, starts: Sequence[int], first_output: int, first_step: int = 0) -> None:
        """Issue some steps of all networks, whose next rows, outputs and numbers are the first of these."""
        self._at[...] = to_device(np.array([steps, first_output, *starts], np.int64), self._device)
        arrays = {name: array for name, (_, array) in self._arrays.items()}
        for name in OF_STEPS & arrays.keys():
            arrays[name] = arrays[name][first_step:]
        self._kernel((self._n_fits * self._found.blocks,), (THREADS,), tuple(arrays.values()))

    # -- text ---------------------------------------------------------------------------------

    def _takes(self, name: str, kind: str, array: Any) -> str:
        """Let the kernel take an array; return its name."""
        self._arrays[name] = kind, array
        return name

    def _text(self, outputs: Any) -> str:
        found, step, ring = self._found, self._step, self._ring
        self._takes("at", "const long long", self._at)
        kind = self._kind(step.report)
        self._takes("reports", kind, ring.reports)
        pairs = list(zip(step.graph.inputs, self._inputs, strict=True))
        loaded = [self._loaded(x, given) for x, given in pairs if isinstance(given, State)]
        begun = [self._number(x, given) for x, given in pairs if isinstance(given, Number)]
        begun += self._gathered([(x, given) for x, given in pairs if isinstance(given, BatchRows)])
        stored = [self._stored(x) for x in step.donated.values()]
        left = [] if outputs is None else [self._left(outputs)]
        for name, value in found.constants.items():
            self._takes(name, f"const {type_of(value.dtype)}", to_device(value, self._device))
        parameters = ", ".join(f"{kind} *{name}" for name, (kind, _) in self._arrays.items())
        calls = [f"{call}\n__syncthreads();" for call in found.calls]
        return STEPS.format(
            functions=found.functions,
            threads=THREADS,
            # One block of a cluster is on a multiprocessor, and may have all registers.
            bounds=THREADS if found.blocks == 1 else f"{THREADS}, 1) __cluster_dims__({found.blocks}, 1, 1",
            blocks=found.blocks,
            rank="__clusterRelativeBlockRank()" if found.blocks > 1 else "0",
            n_fits=self._n_fits,
            parameters=parameters,
            declarations=_indented(found.declarations, 4),
            zeros=found.zeros,
            loaded=_indented(loaded, 4),
            begun=_indented(begun, 8),
            calls=_indented(calls, 8),
            report=found.names[step.report],
            left=_indented(left, 8),
            stored=_indented(stored, 4),
        )

    def _kind(self, x: Variable) -> str:
        return self._found.kinds[x]

    def _loaded(self, x: Variable, given: State) -> str:
        """Return the statement that reads what a network has."""
        name = self._found.names[x]
        is_own = x in self._step.donated.values()
        kind = self._kind(x) if is_own else f"const {self._kind(x)}"
        source = self._takes(f"of_{name}", kind, given.array)
        return f"{self._each(x.size)}\n    {name}[i] = {source}[fit * {x.size} + i];"

    def _stored(self, x: Variable) -> str:
        name = self._found.names[x]
        return f"{self._each(x.size)}\n    of_{name}[fit * {x.size} + i] = {name}[i];"

    def _number(self, x: Variable, given: Number) -> str:
        table, name = self._ring.table, self._found.names[x]
        count = math.prod(table.shape[1:]) // self._n_fits
        self._takes("table", f"const {self._kind(x)}", table)
        element = f"table[(step * {count} + {given.place}) * {self._n_fits} + fit]"
        return f"if (threadIdx.x == {given.place % THREADS})\n    {name}[0] = {element};"

    def _gathered(self, rows: Sequence[tuple[Variable, BatchRows]]) -> list[str]:
        """Return statements that read the rows of a batch: first their numbers, then what they have."""
        numbers: dict[int, str] = {}
        first, then = [], []
        n_rows = self._n_rows // self._found.blocks
        for n, (x, (order, source)) in enumerate(rows):
            if id(order) not in numbers:
                name = numbers[id(order)] = f"rows{len(numbers)}"
                given = self._takes(f"order{name}", "const long long", order)
                n_samples = order.size // self._n_fits
                first.append(
                    f"__shared__ long long {name}[{n_rows}];\n"
                    f"{self._each(n_rows)}\n"
                    f"    {name}[i] = {given}[fit * {n_samples} + start + step * {self._n_rows}"
                    f" + rank * {n_rows} + i];"
                )
            then.append(self._taken(n, x, source, numbers[id(order)]))
        return [*first, "__syncthreads();", *then]

    def _taken(self, n: int, x: Variable, source: Any, rows: str) -> str:
        width = x.size // self._n_rows
        steps = [stride // source.dtype.itemsize for stride in source.strides]
        along = steps[1] if source.ndim == 2 else 1
        given = self._takes(f"from{n}", f"const {self._kind(x)}", source)
        place = f"{rows}[i / {width}] * {steps[0]} + i % {width} * {along}LL"
        return f"#pragma unroll 8\n{self._each_row(x)}\n    {self._found.names[x]}[i] = {given}[{place}];"

    def _left(self, outputs: Any) -> str:
        """Return the statement that writes the raw output of a step where it waits for its score."""
        x = self._step.output
        width = x.size // self._n_rows
        self._takes("outputs", self._kind(x), outputs)
        room = outputs.size // self._n_fits
        n_rows = self._n_rows // self._found.blocks
        place = f"fit * {room} + (at[1] + step * {self._n_rows} + rank * {n_rows}) * {width} + i"
        return f"{self._each_row(x)}\n    outputs[{place}] = {self._found.names[x]}[i];"

    def _each_row(self, x: Variable) -> str:
        return self._each(x.size // self._found.blocks)

    @staticmethod
    def _each(size: int) -> str:
        return EACH.format(size=size, threads=THREADS)


def _indented(statements: Sequence[str], by: int) -> str:
    return "\n".join(" " * by + line for statement in statements for line in statement.split("\n"))
