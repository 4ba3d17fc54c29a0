"""Training steps on a device: programs, rings of rows and outputs, and counts of right labels."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from sknet import ops
from sknet._tree import leaves
from sknet.compile import Compiled
from sknet.compile import compile as compiled
from sknet.compile._compile import before_last
from sknet.compile._graph import widened
from sknet.compile._plan import HALF
from sknet.compile.cuda._maps import TO_HALF, Kernel
from sknet.compile.cuda._persistent import Phases
from sknet.core import Tensor, bind
from sknet.device import (
    Device,
    Feed,
    Issued,
    active,
    backend,
    backend_of,
    device_of,
    is_array,
    namespace,
    to_device,
    to_host,
)
from sknet.engine._batches import Batches
from sknet.engine._fingerprint import Fingerprint
from sknet.engine._inputs import Batch, each_input, gather_by_threads, is_fed, resident
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import advance, follow_schedules, per_output, update_function
from sknet.engine._persistent import BatchRows, Input, Number, Persistent, State, Step, persistent
from sknet.engine._programs import (
    DeviceInputs,
    DeviceOutputs,
    check_repeatable,
    gradient_function,
    hyper_slots,
    is_made_of,
    made_of,
)
from sknet.engine._runners import LEAST_STEPS, Block, EagerSteps, Outputs, Steps, steps_at_once
from sknet.optim.schedules import Progress

THREADS, MOST_BLOCKS, WARP = 256, 512, 32
NARROW = 1 << 31  # up to this many elements, 32-bit indices suffice
COPIED = {
    1: "char",
    2: "short",
    4: "float",
    8: "long long",
    16: "float4",
}  # in C, by bytes, which are moved, or float32 that is rounded

# In `at` are the number of a step, that of the first one that is not made, and the rows of the order and of
# the outputs where step 0 would begin. A block begins with the rows and numbers of its first step; the last
# kernel of a step, which updates the parameters if that is one kernel, moves what the step leaves, and reads
# the rows of the next one. The block of threads that is ready last reads the numbers, which all others need.
TURN = """\
{functions}extern "C" __global__ void {name}({parameters})
{{
    const long long {counted}, last = at[1];
    const {index} thread = ({index})blockIdx.x * blockDim.x + threadIdx.x;
    const {index} threads = ({index})gridDim.x * blockDim.x;
{moved}    if (next < last) {{
{taken}    }}
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = atomicAdd(ready, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!is_last)
        return;
    for ({index} i = threadIdx.x; next < last && i < {n_numbers}; i += blockDim.x)
        numbers[i] = table[next * {n_numbers} + i];
    if (threadIdx.x == 0) {{
        at[0] = next;
        ready[0] = 0;
    }}
}}
"""
FIRST, NEXT = "next = at[0]", "done = at[0], next = done + 1"
TAKEN = """\
        for ({index} i = thread; i < {size}; i += threads)
            to{n}[{place}] = {how}(from{n}[of{n}[at[2] + next * {n_rows} + i / {width}] * {stride}{element}]);
"""
TO_HALVES = """\
__device__ long long to_halves(float4 x)
{
    const unsigned int low = to_half(x.x) | (unsigned int)to_half(x.y) << 16;
    const unsigned int high = to_half(x.z) | (unsigned int)to_half(x.w) << 16;
    return (long long)(low | (unsigned long long)high << 32);
}
"""
REPORT = """\
    if (thread < 3)
        reports[3 * done + thread] = report[thread];
"""
OUTPUT = """\
    for ({index} i = thread; i < {size}; i += threads)
        outputs[(at[3] + done * {n_rows}) * {width} + i] = output[i];
"""


class Taken(NamedTuple):
    """Rows that a step copies to where it reads them."""

    order: Any
    source: Any
    slot: Any

    @property
    def ratio(self) -> int:
        """The bytes of a number there for each in the slot: 2 if float32 is rounded to bfloat16."""
        ratio: int = self.source.dtype.itemsize // self.slot.dtype.itemsize
        return ratio


class Left(NamedTuple):
    report: Any
    output: Any
    outputs: Any


class Part(NamedTuple):
    """Consecutive steps on batches of one size: their first rows in the order, and among the outputs."""

    n_rows: int
    row: int
    output: int
    n_steps: int


class Ring:
    """The inputs and reports of the steps of one block, of one fit."""

    n_fits = 1
    output = OUTPUT
    report = REPORT

    def __init__(
        self,
        device: Device,
        numbers: Any,
        most: int,
        reported: Any,
        of_step: tuple[int, ...] = (3,),
        n_positions: int = 4,
    ) -> None:
        self._device, self._owner, self._numbers = device, backend(device.kind), numbers
        self.table = self._zeros((most, *numbers.shape), numbers.dtype)
        self._at, self._ready = self._zeros((n_positions,), np.int64), self._zeros((1,), np.uint32)
        self.reports = self._zeros((most, *of_step), reported)

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros(shape, dtype, self._device)

    def send(self, table: np.ndarray) -> None:
        self.table[: len(table)] = to_device(table.astype(self._numbers.dtype), self._device)

    def start(self, step: int, part: Part) -> None:
        """Begin a part of a block, whose first step has this number."""
        rows = [first - step * part.n_rows for first in (part.row, part.output)]
        self._at[...] = to_device(np.array([step, step + part.n_steps, *rows], np.int64), self._device)

    def turn(
        self, program: Compiled, n_rows: int, taken: Sequence[Taken], left: Left, *, is_plain: bool = True
    ) -> tuple[Callable[[], None], Callable[[], None], Callable[[], None]]:
        """Return functions that issue the beginning of a block, each step on `n_rows` rows, and its end."""
        # The end is one kernel with the last one of the program, unless the results are in other arrays
        # first.
        arrays = {"at": self._at, "ready": self._ready} | self._places()
        arrays |= {"numbers": self._numbers, "table": self.table}
        sizes = [self._numbers.size, 3 * self.n_fits]
        for n, each in enumerate(taken):
            arrays |= {f"of{n}": each.order, f"from{n}": each.source, f"to{n}": each.slot}
            sizes.append(each.slot.size)
        begin = self._kernel("begin", FIRST, taken, arrays, max(sizes))
        found = None
        if is_plain:
            returns = program.returns
            found = before_last(program, [each.slot for each in taken], [returns.output, returns.report])
        run, kernel, given = (program.run, None, ()) if found is None else found
        arrays |= {"report": left.report, "reports": self.reports}
        sizes.append(left.output.size)
        moved = self.report.format(n_reports=3 * self.n_fits, index=index_type(max(sizes)))
        if left.outputs is not None:
            size, of_fit = left.output.size, left.output.size // self.n_fits
            counts = {"size": size, "of_fit": of_fit, "n_rows": n_rows, "width": of_fit // n_rows}
            counts["room"] = left.outputs.size // self.n_fits
            moved += self.output.format(**counts, index=index_type(max(sizes)))
            arrays |= {"output": left.output, "outputs": left.outputs}
        return begin, run, self._kernel("turn", NEXT, taken, arrays, max(sizes), moved, kernel, given)

    def _places(self) -> dict[str, Any]:
        """Return other arrays that the loops over rows read."""
        return {}

    def _taken(self, n: int, each: Taken, index: str) -> str:
        """Return the loop that copies rows."""
        source, n_rows, unit = each.source, each.slot.shape[0], self._unit(each)
        width, step = _row_bytes(source) // unit, _row_bytes(each.slot) * each.ratio // unit
        along = 1 if source.ndim != 2 else source.strides[1] // source.dtype.itemsize
        element = f" + i % {width}" if width > 1 else ""
        place = "i" if step == width else f"i / {width} * {step}{element}"
        element += f" * (long long){along}" if element and along != 1 else ""
        counts = {
            "size": n_rows * width,
            "n_rows": n_rows,
            "width": width,
            "stride": source.strides[0] // unit,
            "how": "" if each.ratio == 1 else "to_half" if unit == source.dtype.itemsize else "to_halves",
        }
        return TAKEN.format(n=n, index=index, place=place, element=element, **counts)

    def _unit(self, each: Taken) -> int:
        """Return how many bytes of a row are moved at once: as many as divide what is moved."""
        source, slot, ratio = each.source, each.slot, each.ratio
        itemsize: int = source.dtype.itemsize
        if source.ndim == 2 and source.shape[1] > 1 and source.strides[1] != itemsize:
            return itemsize
        steps = _row_bytes(source), _row_bytes(slot) * ratio, source.strides[0]
        for nbytes in (16, 8, 4, 2)[: 4 if ratio == 1 else 1]:
            fits = nbytes > itemsize and all(step % nbytes == 0 for step in steps)
            if fits and all(self._owner.is_aligned(*x) for x in ((source, nbytes), (slot, nbytes // ratio))):
                return nbytes
        return itemsize

    def _kernel(
        self,
        name: str,
        counted: str,
        taken: Sequence[Taken],
        arrays: dict[str, Any],
        n: int,
        moved: str = "",
        kernel: Kernel | None = None,
        given: Sequence[Any] = (),
    ) -> Callable[[], None]:
        """Return a function that launches a kernel for `n` elements, a thread each up to a maximum."""
        index, functions = index_type(n), ""
        units = {f"from{i}": self._unit(each) for i, each in enumerate(taken)}
        units |= {f"to{i}": units[f"from{i}"] // each.ratio for i, each in enumerate(taken)}
        halved = [units[f"to{i}"] for i, each in enumerate(taken) if each.ratio > 1]
        helpers = ([TO_HALF] if halved else []) + ([TO_HALVES] if max(halved, default=0) > 2 else [])
        parameters = [f"{type_of(key, units.get(key, x.dtype.itemsize))} *{key}" for key, x in arrays.items()]
        threads = min(THREADS, -(-n // WARP) * WARP)
        blocks = min(-(-n // threads), MOST_BLOCKS)
        if kernel is not None:
            helpers = [*sorted(kernel.helpers.difference(helpers)), *helpers]
            functions = kernel.function("update") + "\n"
            parameters = [kernel.parameters, *parameters]
            moved = f"    update({', '.join(kernel.arguments)});\n{moved}"
            threads, blocks = kernel.threads, max(blocks, kernel.blocks)
        text = TURN.format(
            name=name,
            functions="".join(helpers) + functions,
            parameters=", ".join(parameters),
            counted=counted,
            index=index,
            moved=moved,
            taken="".join(self._taken(i, each, index) for i, each in enumerate(taken)),
            n_numbers=self._numbers.size,
        )
        [made] = self._owner.kernels(text, [name], self._device)
        launched = (*given, *arrays.values())
        return lambda: made((blocks,), (threads,), launched)


def index_type(size: int) -> str:
    return "unsigned int" if size < NARROW else "unsigned long long"


def _row_bytes(x: Any) -> int:
    return math.prod(x.shape[1:]) * x.dtype.itemsize


def type_of(name: str, nbytes: int) -> str:
    """Return the type in C of an array's elements of some bytes, constant if a kernel only reads them."""
    kind = "unsigned int" if name == "ready" else COPIED[nbytes]
    is_read = name.startswith(("of", "from")) or name in ("table", "report", "output", "starts")
    return f"const {kind}" if is_read else kind


PADDED, LEAST_PADDED = 16, 1 << 16  # bytes of which rows are multiples, and elements from which it pays
SHARE_OF_ROWS = 16  # rows that are copied ahead take at most two of so many parts of the memory that is free


class DeviceRows:
    """The rows of a data set, gathered on the device in the order of an epoch."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._dtypes = batches.input_dtype
        self._X = each_input(partial(resident, batches.device, 2), batches.X, self._dtypes)
        self._is_there = each_input(self._is_resident, self._X, self._dtypes)
        is_resident = all(is_there for _, is_there in self._named(self._is_there))
        self.most_epochs = max(1, min(MOST_EPOCHS, MOST_ROWS // batches.n_samples)) if is_resident else 1
        shape, zeros = (self.most_epochs * batches.n_samples,), backend(batches.device.kind).zeros
        self.order_of_targets = zeros(shape, np.int64, batches.device)
        has_own = batches.chosen is not None
        self.order_of_X = zeros(shape, np.int64, batches.device) if has_own else self.order_of_targets
        self._order: Any = ()  # of no epoch
        self._ahead: tuple[Any, Any] = ((), None)  # the next one, and what `_sent` returns of it
        self._fed = {name: x for name, x in self._named(self._X) if is_fed(x)}
        self._feed = self._new_feed() if self._fed else None

    def _named(self, inputs: Any) -> list[tuple[Any, Any]]:
        """Return what there is of each input, by its name; by None if there is only one."""
        return list(inputs.items()) if isinstance(inputs, dict) else [(None, inputs)]

    def _is_resident(self, X: Any, dtype: Any) -> bool:
        return bool(is_array(X) and X.dtype == dtype and device_of(X) == self._batches.device)

    def example(self, n_rows: int, width: int | None = None, dtype: Any = None) -> Batch:
        """Return inputs, targets and weights (or None) of the first rows; inputs in a form, if given."""
        batches = self._batches
        zeros = backend(batches.device.kind).zeros

        def one(x: Any, known: Any) -> Any:
            shape = n_rows, *(x.shape[1:] if width is None else (width,))
            return zeros(shape, known if dtype is None else dtype, batches.device)

        X = each_input(one, self._X, self._dtypes)
        return Batch(X, *batches.take_targets(slice(0, n_rows)))

    def start(self, order: Any, first_row: int = 0) -> None:
        """Put the order of an epoch on the device, unless it is there; None for that of the data."""
        if self._feed is not None and (first_row == 0 or self._order is not order):
            self._feed.restart()  # rows that are computed may be others in each epoch
        if self._order is order:
            return
        (known, sent), self._ahead, self._order = self._ahead, ((), None), ()
        of_targets, of_X = sent if known is order else self._sent(order)
        self._place(of_targets, of_X)
        self._order = order

    def start_several(self, orders: np.ndarray) -> None:
        """Put the orders of several epochs on the device, one after the other."""
        self._order = ()
        self._place(*self._sent(orders.reshape(-1)))
        self._order = orders

    def _place(self, of_targets: Any, of_X: Any) -> None:
        self.order_of_targets[: of_targets.size] = of_targets
        if of_X is not None:
            self.order_of_X[: of_X.size] = of_X

    def _sent(self, order: Any) -> tuple[Any, Any]:
        """Return an order on the device, and that of the inputs if they have their own."""
        batches = self._batches
        rows = np.arange(batches.n_samples) if order is None else np.asarray(order)
        chosen = None if batches.chosen is None else np.asarray(batches.chosen)[rows]
        of_targets, of_X = (
            None if each is None else to_device(each.astype(np.int64, copy=False), batches.device)
            for each in (rows, chosen)
        )
        return of_targets, of_X

    @property
    def order(self) -> Any:
        """The order of the epoch that is on the device, as it was given; an empty one before."""
        return self._order

    # -- rows of the host ---------------------------------------------------------------------

    def _new_feed(self) -> Feed:
        batches, dtypes = self._batches, dict(self._named(self._dtypes))
        forms = [(x.shape[1:], dtypes[name]) for name, x in self._fed.items()]
        width = sum(math.prod(shape) * dtype.itemsize for shape, dtype in forms)
        free = backend(batches.device.kind).free_memory(batches.device)
        most = min(Feed.most_bytes, free // SHARE_OF_ROWS) // max(width * batches.size, 1)  # batches
        rows = min(self._batches_of_a_chunk(max(most, 1)) * batches.size, batches.n_samples)
        feed = Feed(batches.device, forms, batches.n_samples, rows, self._write)
        places = np.arange(batches.n_samples, dtype=np.int64) % (2 * rows)
        self._places = to_device(places, batches.device)  # where the rows of an epoch come to lie
        return feed

    def _batches_of_a_chunk(self, most: int) -> int:
        """Return how many batches a chunk has: as many as possible, and all rows of a longer last batch."""
        n, is_longer = self._batches.n_batches, self._batches.alike[-1][1] > self._batches.size
        counts = [*range(most, 1, -1), *range(most + 1, n + 2)]
        return next(count for count in counts if n % count) if is_longer else most

    def _write(self, start: int, stop: int, arrays: Sequence[np.ndarray]) -> None:
        """Gather rows of the epoch in the host's memory."""
        part: Any = slice(start, stop) if self._order is None else self._order[start:stop]
        if self._batches.chosen is not None:
            part = np.asarray(self._batches.chosen)[part]
        for x, array in zip(self._fed.values(), arrays, strict=True):
            gather_by_threads(x, part, array)

    @property
    def nbytes_of_chunks(self) -> int:
        """Bytes that rows take on the device while they are copied there chunk by chunk; 0 if none are."""
        return 0 if self._feed is None else self._feed.nbytes

    def follow(self, row: int) -> None:
        """Let what is issued next read rows of the host, from this one on."""
        if self._feed is not None:
            self._feed.place_of(row)

    def send(self, order: Any, start: int, n_rows: int, slots: DeviceInputs) -> None:
        """Let a step, which is issued next, read rows that are on a device in another form."""
        part = slice(start, start + n_rows)
        gathered = None
        for _, slot, is_there, name in self._inputs(slots):
            if not is_there and name not in self._fed:  # on a device, but not as a step needs it
                if gathered is None:
                    gathered = self._batches.take(part if order is None else order[part]).X
                slot[...] = gathered if name is None else gathered[name]

    def look_ahead(self, next_order: Any) -> None:
        """Send rows for later steps, and the next order, while the device computes what was issued."""
        if self._feed is not None:
            self._feed.look_ahead()
        if next_order is not None and self._ahead[0] is not next_order:
            self._ahead = next_order, self._sent(next_order)

    def taken(self, slots: DeviceInputs) -> list[Taken]:
        """Return the rows that a step takes; which ones is read on the device."""
        batches = self._batches
        found = [Taken(self.order_of_X, x, slot) for x, slot, is_there, _ in self._inputs(slots) if is_there]
        found.append(Taken(self.order_of_targets, batches.y, slots.y))
        if batches.weight is not None:
            found.append(Taken(self.order_of_targets, batches.weight, slots.weight))
        found = [each._replace(source=_in_rows(each.source)) for each in found]
        if self._feed is not None:
            chunks = dict(zip(self._fed, self._feed.arrays, strict=True))
            fed = [(name, slot) for _, slot, _, name in self._inputs(slots) if name in chunks]
            found += [Taken(self._places, chunks[name], slot) for name, slot in fed]
        return found

    def forms(self, n_rows: int, precision: str) -> Iterator[tuple[int, Any]]:
        """Yield widths and dtypes in which products may read the rows of a step faster, best first."""
        # Rows begin at multiples of 16 bytes, and are rounded as products in bfloat16 do. There are none if
        # rows are few, or written by the host.
        X, dtype = self._X, self._dtypes
        if isinstance(X, dict) or X.ndim != 2 or not (self._is_there or self._fed):
            return
        width = X.shape[1]
        for each in [HALF, dtype] if precision == "bfloat16" and dtype == np.float32 else [dtype]:
            unit = PADDED // math.gcd(PADDED, each.itemsize)
            found = -(-width // unit) * unit
            if width > unit and n_rows * width >= LEAST_PADDED and (found, each) != (width, dtype):
                yield found, each

    def _inputs(self, slots: DeviceInputs) -> list[tuple[Any, Any, bool, Any]]:
        """Return inputs, with slot, whether the rows are on the device, and the name if there are several."""
        if not isinstance(slots.X, dict):
            return [(self._X, slots.X, self._is_there, None)]
        return [(self._X[name], slot, self._is_there[name], name) for name, slot in slots.X.items()]


def _in_rows(x: Any) -> Any:
    """Return an array whose rows are contiguous: itself, if there is one stride between their elements."""
    return x if x.ndim < 3 or backend_of(x).is_plain(x) else x.copy()


MOST_STEPS = 1024  # per block
MOST_ROWS = 1 << 20  # of the orders of several epochs, and epochs of a block
MOST_EPOCHS = 64
SHARE_OF_OUTPUTS = 16  # outputs that wait to be scored take at most this part of the memory that is free


class DeviceSteps(Steps):
    """Steps that run one after the other on the device, without the host waiting for any of them."""

    def __init__(self, model: ModelLike, batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._optimizer = model.optimizer.in_steps()
        self._owner = backend(model.device.kind)
        self._programs: dict[int, Compiled] = {}
        self._issued: dict[tuple[int, int], tuple[Any, Callable[[], None], Issued]] = {}
        self._phases: dict[int, tuple[Phases | None, Step]] = {}
        self._whole: dict[tuple[int, int], tuple[Any, Persistent]] = {}
        self._per_step = 1.0  # seconds; so that the first block has one step
        self._next_order: Callable[[], Any] | None = None
        self._outputs: Any = None  # of several epochs
        self._nbytes_of_chunks = 0
        with active(model.device, model.precision):
            with self._asking("the rows of the data"):
                self._rows = DeviceRows(batches)
            self._nbytes_of_chunks = self._rows.nbytes_of_chunks
            with self._asking("parameters and what the optimizer keeps"):
                self._make_state()
            with self._asking("a step"):
                returns = self.program_for(min(batches.size, batches.n_samples)).returns
                self._output = returns.output
                self._most = min(MOST_STEPS, max(batches.n_batches, LEAST_STEPS))
                self._ring = Ring(model.device, self._numbers, self._most, returns.report.dtype)
            self._bytes_of_outputs = self._owner.free_memory(model.device) // SHARE_OF_OUTPUTS
            self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)
            self._made_of = made_of(model)

    def _asking(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which an error of memory says what a step needs, and what asked for more."""

        def said() -> str:
            rows = min(self.batches.size, self.batches.n_samples)
            known = [
                f"the plan of a step on {n} rows takes {x.nbytes:,} bytes" for n, x in self._programs.items()
            ]
            if self._nbytes_of_chunks:
                known.append(f"rows that are copied chunk by chunk take {self._nbytes_of_chunks:,} bytes")
            return f"in a fit with batches of {rows} rows, for {what}" + "".join(
                f", where {x}" for x in known
            )

        return self._owner.asking(self.model.device, said)

    def is_valid(self) -> bool:
        return is_made_of(self.model, self._made_of) and self._fingerprint.holds()

    def look_ahead_by(self, next_order: Callable[[], Any]) -> None:
        self._next_order = next_order

    def rows_of(self, order: Any, part: slice) -> Any:
        is_there = order is not None and self._rows.order is order
        return self._rows.order_of_targets[: order.size][part] if is_there else super().rows_of(order, part)

    # -- memory -------------------------------------------------------------------------------

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros(shape, dtype, self.model.device)

    def _make_state(self) -> None:
        model = self.model
        flat, slots = model.memory.flat_buffers()
        buffers = {name: array.copy() for name, array in model.memory.untrained.items()}
        self._numbers, hyper = hyper_slots(self._optimizer, model.progress, flat)
        self._counter, self._is_fine = self._zeros((), np.int64), self._zeros((), np.bool_)
        self._buffers = buffers
        self._state = DeviceInputs(flat, slots, buffers, self._counter, self._is_fine, hyper)

    def program_for(self, n_rows: int) -> Compiled:
        found = self._programs.get(n_rows)
        if found is None:
            made = (self._program(n_rows, *form) for form in self._rows.forms(n_rows, self.model.precision))
            found = next(filter(_is_multiplied, made), None) or self._program(n_rows)
            self._programs[n_rows] = found
        return found

    def _program(self, n_rows: int, width: int | None = None, dtype: Any = None) -> Compiled:
        """Return the program of a step whose rows have a width and a dtype, or those of the data."""
        columns = None if width is None else self.batches.X.shape[1]
        function = step_function(
            self.model, self.batches.weight is not None, self.check_finite, columns=columns, dtype=dtype
        )
        args = self._state._replace(**self._rows.example(n_rows, width, dtype)._asdict())
        check_repeatable(self.model, function, args)
        return compiled(function, args, donate=range(5), slots=self._state)

    # -- steps --------------------------------------------------------------------------------

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        model, shape = self.model, self._output.shape
        with active(model.device, model.precision):
            _, n_rows = self.batches.part(order, first)
            most = min(most, self._most)
            if outputs is not None:
                xp, dtype = namespace(self._ring.reports), self._output.dtype
                with self._asking("outputs that wait for their score"):
                    room = outputs.free(n_rows, shape[1:], dtype, xp, self._bytes_of_outputs)
                most = min(most, len(room) // n_rows)
            if follow_schedules(model):  # buffers set by schedules are inputs of a single step
                most = 1
            steps = self._at_once(order, first, most, self._per_step)
            started = time.perf_counter()
            with self._asking("a step"):
                reports = self._issue(order, first, n_rows, steps, outputs)
            losses = self._losses_of(reports)
            if not len(losses):
                return EagerSteps(model, self.batches, self.check_finite).run(order, first, 1, outputs)
            self._per_step = (time.perf_counter() - started) / len(reports)
            advance(model, {name: self._buffers[name].copy() for name in model.buffers}, len(losses))
        return Block(losses, len(losses) * n_rows)

    def _losses_of(self, reports: np.ndarray) -> Any:
        """Return the losses of the steps before the first one that is not finite."""
        is_fine = reports[:, 2]
        reports = reports if is_fine.all() else reports[: int(np.argmin(is_fine))]
        return per_output(self.model, 1.0, self._output) * reports[:, 0] + reports[:, 1]

    def _issue(self, order: Any, first: int, n_rows: int, steps: int, outputs: Outputs | None) -> np.ndarray:
        """Issue some steps; return their reports as a host array. Where one cannot be issued, they end."""
        self._rows.start(order, first * self.batches.size)
        rows, place = (0, None) if outputs is None else (outputs.n_rows, outputs.memory)
        part = Part(n_rows, first * self.batches.size, rows, steps)
        numbers = self._optimizer.hyper_table(self.model.progress, steps)
        return self._issue_parts(order, [part], numbers, place)

    def _issue_parts(
        self,
        order: Any,
        parts: Sequence[Part],
        numbers: np.ndarray,
        outputs: Any,
        at_end: Callable[[], None] | None = None,
    ) -> np.ndarray:
        known = self.model.memory.untrained
        for name, array in self._buffers.items():
            array[...] = known[name]
        self._counter[...] = self.model.progress.step
        self._is_fine[...] = True
        self._ring.send(numbers)
        done, of_epoch = 0, len(self.batches.alike)
        for number, part in enumerate(parts, 1):
            whole = self._whole_block(part.n_rows, outputs)
            if whole is not None:
                whole(part.n_steps, [part.row], part.output, done)
                issued = part.n_steps
            else:
                self._ring.start(done, part)
                issued = self._issue_each(order, part, outputs, must=not done)
            done += issued
            if issued < part.n_steps:
                break
            if at_end is not None and number % of_epoch == 0:
                try:
                    at_end()
                except Exception:  # it is tried again by the epoch alone, which raises the error
                    break
        with suppress(Exception):  # it is tried again by the block that needs these rows
            self._rows.look_ahead(None if self._next_order is None else self._next_order())
        return np.asarray(to_host(self._ring.reports[:done]), dtype=np.float64)

    def _issue_each(self, order: Any, part: Part, outputs: Any, *, must: bool) -> int:
        """Issue steps one after the other; return how many there are, if one cannot be issued."""
        slots, issued = self.program_for(part.n_rows).slots, 0
        rows = [part.row + i * part.n_rows for i in range(part.n_steps)]
        try:
            self._rows.follow(part.row)
            begin, step = self._step_on(part.n_rows, outputs)
            begin()
            for i, row in enumerate(rows):
                self._rows.send(order, row, part.n_rows, slots)
                goes_on = i + 1 < part.n_steps and self._follows(rows[i + 1])
                step()
                issued = i + 1
                if not goes_on:
                    break
        except Exception:  # no memory is left, or rows cannot be read
            if must and not issued:
                raise  # others are raised by the next block, when the model knows of these steps
        return issued

    def _follows(self, row: int) -> bool:
        """Let the end of a step read the rows of the next one, from this row on; tell whether it can."""
        try:
            self._rows.follow(row)
        except Exception:
            return False
        return True

    # -- several epochs -----------------------------------------------------------------------

    goes_ahead = True

    def epochs_at_once(self, most: int, kept: int = 0) -> int:
        batches, model = self.batches, self.model
        # Weights may be zero for whole batches; buffers change with every step, and schedules set them.
        if most < 2 or batches.weight is not None or model.buffers:
            return 1
        steps = min(self._most, steps_at_once(self._per_step))
        nbytes = batches.n_samples * math.prod(self._output.shape[1:]) * self._output.dtype.itemsize
        limits = steps // batches.n_batches, self._bytes_of_outputs // (nbytes + kept), self._rows.most_epochs
        return max(1, min(most, *limits))

    def run_epochs(
        self,
        orders: np.ndarray,
        progress: Sequence[Progress],
        scored: bool,
        at_end: Callable[[], None] | None = None,
    ) -> tuple[Any, Any]:
        model, batches = self.model, self.batches
        n_rows, shape, dtype = batches.n_samples, self._output.shape[1:], self._output.dtype
        with active(model.device, model.precision):
            if scored and (self._outputs is None or len(self._outputs) < orders.size):
                with self._asking("outputs that wait for their score"):
                    self._outputs = self._zeros((orders.size, *shape), dtype)
            numbers = np.concatenate(
                [self._optimizer.hyper_table(each, batches.n_batches) for each in progress]
            )
            parts = [
                Part(size, row := epoch * n_rows + first * batches.size, row, steps)
                for epoch in range(len(orders))
                for first, size, steps in batches.alike
            ]
            if len(batches.alike) == 1 and at_end is None:  # full batches alone go on from epoch to epoch
                parts = [parts[0]._replace(n_steps=len(orders) * batches.n_batches)]
            started = time.perf_counter()
            with self._asking("a step"):
                self._rows.start_several(orders)
                reports = self._issue_parts(None, parts, numbers, self._outputs if scored else None, at_end)
            self._per_step = (time.perf_counter() - started) / len(reports)
            outputs = self._outputs[: orders.size].reshape((*orders.shape, *shape)) if scored else None
            return self._losses_of(reports), outputs

    def _whole_block(self, n_rows: int, outputs: Any) -> Persistent | None:
        """Return what makes all steps of a block in one launch; None if they are not suited."""
        program, rows = self.program_for(n_rows), self._rows
        if n_rows not in self._phases:
            graph, taken, returns = program.graph, program.takes, program.returns
            batch = graph.inputs[-len(leaves((taken.X, taken.y, taken.weight))) :]
            step = Step(graph, program.plan.donated, returns.output, returns.report, batch)
            is_resident = rows.nbytes_of_chunks == 0
            self._phases[n_rows] = persistent(step, n_rows, self.model.device) if is_resident else None, step
        found, step = self._phases[n_rows]
        if found is None:
            return None
        key = n_rows, _length(outputs)
        memory, whole = self._whole.get(key, (None, None))
        if whole is None or memory is not outputs:
            state = self._state
            inputs: list[Input] = [*map(State, leaves((*state[:5],))), *map(Number, range(len(state.hyper)))]
            inputs += [BatchRows(each.order, each.source) for each in rows.taken(program.takes)]
            whole = Persistent(step, found, inputs, 1, n_rows, self._ring, outputs, self.model.device)
            self._whole[key] = outputs, whole
        return whole

    def _step_on(self, n_rows: int, outputs: Any) -> tuple[Callable[[], None], Issued]:
        """Return what a block begins with, and each step, whose outputs go to an array, or to none."""
        key = n_rows, _length(outputs)
        memory, begin, issued = self._issued.get(key, (None, None, None))
        if issued is None or begin is None or memory is not outputs:
            begin, launches = self._launches(n_rows, outputs)
            issued = Issued(launches, self.model.device)
            self._issued[key] = outputs, begin, issued
        return begin, issued

    def _launches(self, n_rows: int, outputs: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        program = self.program_for(n_rows)
        found: DeviceOutputs = program.result
        is_plain = self._owner.is_plain(found.output)
        output = found.output if is_plain else self._zeros(found.output.shape, found.output.dtype)
        left, taken = Left(found.report, output, outputs), self._rows.taken(program.slots)
        begin, run, end = self._ring.turn(program, n_rows, taken, left, is_plain=is_plain)

        def issue() -> None:
            run()
            if not is_plain:
                output[...] = found.output
            end()

        return begin, issue

    @property
    def refusals(self) -> list[str]:
        """Reasons for which steps are launched one by one rather than as graphs."""
        return [issued.refusal for _, _, issued in self._issued.values() if issued.refusal is not None]


def _length(outputs: Any) -> int:
    """Return how many outputs an array holds, 0 for None: one of each length is in use."""
    return 0 if outputs is None else len(outputs)


def _is_multiplied(program: Compiled) -> bool:
    """Tell whether all that reads the padded rows of a program are products, which need no copy."""
    graph, taken = program.graph, program.takes
    x = graph.inputs[[each is taken.X for each in leaves(taken)].index(True)]
    views, readers = {x}, []
    for equation in graph.equations:
        if not views.isdisjoint(equation.variables):
            readers.append(equation.primitive.name)
            if equation.primitive.name in ("getitem", "permute_dims"):
                views.add(equation.output)
    return set(readers) <= {"getitem", "permute_dims", "matmul"}


def step_function(
    model: ModelLike,
    weighted: bool,
    check_finite: bool,
    is_masked: bool = False,
    columns: int | None = None,
    dtype: Any = None,
) -> Callable[..., DeviceOutputs]:
    """Return the pure function from all state and a batch to the new state, the output and a report."""
    # The rows of a batch may have more than the `columns` that the model takes, and be bfloat16.
    optimizer = model.optimizer.in_steps()
    evaluate, update = gradient_function(model, weighted), update_function(optimizer, model.memory.layout)

    def step(
        flat: Tensor,
        slots: Mapping[str, Tensor],
        untrained: Mapping[str, Tensor],
        counter: Tensor,
        is_fine: Tensor,
        hyper: Mapping[str, Tensor],
        X: Tensor,
        y: Tensor,
        weight: Tensor | None,
        key: Any = None,
    ) -> DeviceOutputs:
        X = bind(widened, (X,), {}) if dtype is HALF else X
        X = X if columns is None else X[:, :columns]
        found = evaluate(flat, None, untrained, X, y, weight, counter, key=key)
        data, penalty, changed = found.data, found.penalty, found.changed
        if check_finite:
            # The parameters, too: NaN in them need not reach the loss (a ReLU in a product makes 0 of it).
            others = [flat] if is_masked else unseen(model, flat)  # in a stack each is a launch of its own
            squares = ops.sum_squares(found.gradient, *others)
            is_fine = ops.where(is_fine, _is_finite(data + penalty + squares), False)

        def kept(after: Tensor, before: Tensor) -> Tensor:
            return ops.where(is_fine, after, before) if check_finite or is_masked else after

        new = update(flat, slots, found.gradient, hyper)
        new_slots = {name: kept(value, slots[name]) for name, value in new.slots.items()}
        new_untrained = {
            name: kept(changed[name].detach(), before) if name in changed else before
            for name, before in untrained.items()
        }
        fine = ops.astype(is_fine, data.dtype)
        report = ops.stack([data.detach(), penalty.detach(), fine])
        counter = counter + ops.astype(is_fine, counter.dtype)
        new_flat = kept(new.flat, flat)
        return DeviceOutputs(new_flat, new_slots, new_untrained, counter, is_fine, found.output, report)

    return step


MOST_UNSEEN = 4  # parameters


def unseen(model: ModelLike, flat: Tensor) -> list[Tensor]:
    """Return parameters that the penalty does not have the squares of; or all of them."""
    layout = model.memory.layout
    found = [part for name, part in layout.slices.items() if len(layout.shapes[name]) < 2]
    is_enough = model.alpha and len(found) <= MOST_UNSEEN
    return [flat[part] for part in found] if is_enough else [flat]


def _is_finite(x: Tensor) -> Tensor:
    return ops.less(ops.abs(x), math.inf)


COUNT_THREADS, MOST_COUNT_BLOCKS = 256, 256
MOST = 1 << 31  # elements
TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}

# Each thread counts some of the rows, whose number is the first count; each warp adds what its threads found.
COUNT = """\
extern "C" __global__ void count(const {output} *outputs, const {target} *targets, unsigned int *counts)
{{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    unsigned int right = 0, infinite = 0, outside = 0;
    for (unsigned int row = thread; row < counts[0]; row += threads) {{
        const {output} *output = outputs + row * {columns}LL;
        bool is_finite = true;
{of_row}        infinite += !is_finite;
    }}
    for (int distance = 16; distance; distance /= 2) {{
        right += __shfl_xor_sync(0xffffffff, right, distance);
        infinite += __shfl_xor_sync(0xffffffff, infinite, distance);
        outside += __shfl_xor_sync(0xffffffff, outside, distance);
    }}
    if (threadIdx.x % 32 == 0) {{
        atomicAdd(counts + 1, right);
        atomicAdd(counts + 2, infinite);
        atomicAdd(counts + 3, outside);
    }}
}}
"""
OF_CLASSES = """\
        const {target} expected = targets[row];
        int largest = 0;
        for (int i = 0; i < {columns}; i++) {{
            is_finite &= output[i] - output[i] == 0;
            largest = output[i] > output[largest] ? i : largest;
        }}
        right += largest == expected;
        outside += !(expected >= 0 && expected < {columns});
"""
OF_LABELS = """\
        const {target} *expected = targets + row * {columns}LL;
        bool is_right = true;
        for (int i = 0; i < {columns}; i++) {{
            is_finite &= output[i] - output[i] == 0;
            is_right &= (output[i] > ({output}){threshold}) == (expected[i] > ({target})0.5);
        }}
        right += is_right;
"""


class Counts(NamedTuple):
    """Counts over some rows."""

    right: int
    infinite: int
    outside: int


def counted(outputs: Any, targets: Any, threshold: float, n_parts: int = 1) -> list[Counts] | None:
    """Count the rows that are right, on the device, in each of some parts of the same length."""
    arrays = outputs, targets
    if any(isinstance(array, np.ndarray) for array in arrays) or not _are_read(outputs, targets, threshold):
        return None
    device, (n_rows, columns) = device_of(outputs), outputs.shape
    n_rows //= n_parts
    of_row = OF_CLASSES if targets.ndim == 1 else OF_LABELS
    kernel = kernel_of(of_row, outputs.dtype.name, targets.dtype.name, columns, threshold, device)
    counts = to_device(np.tile(np.array([n_rows, 0, 0, 0], np.uint32), (n_parts, 1)), device)
    blocks = min(-(-n_rows // COUNT_THREADS), MOST_COUNT_BLOCKS)
    for i in range(n_parts):
        part = slice(i * n_rows, (i + 1) * n_rows)
        kernel((blocks,), (COUNT_THREADS,), (outputs[part], targets[part], counts[i]))
    return [Counts(*found) for found in to_host(counts)[:, 1:].tolist()]


@lru_cache(maxsize=16)  # to load a kernel takes longer than to run it
def kernel_of(
    of_row: str, output: str, target: str, columns: int, threshold: float, device: Device
) -> Callable[..., None]:
    """Return the kernel for outputs and targets of some dtypes, by `OF_CLASSES` or `OF_LABELS`."""
    names = {"output": TYPES[output], "target": TYPES[target], "columns": columns}
    text = COUNT.format(**names, of_row=of_row.format(**names, threshold=threshold))
    [kernel] = backend(device.kind).kernels(text, ["count"], device)
    return kernel


def _are_read(outputs: Any, targets: Any, threshold: float) -> bool:
    if outputs.ndim != 2 or not 0 < outputs.size < MOST or not math.isfinite(threshold):
        return False
    is_labels = targets.shape == outputs.shape and targets.dtype.kind == "f"
    is_classes = targets.shape == outputs.shape[:1] and targets.dtype.kind == "i" and outputs.shape[1] > 1
    owner = backend(device_of(outputs).kind)
    return (is_labels or is_classes) and all(
        x.dtype.name in TYPES and owner.is_plain(x) for x in (outputs, targets)
    )
