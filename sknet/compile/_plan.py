"""The plan: where every value of a graph lives, so that a step allocates nothing.

Values live in the caller's slots (inputs), among the constants, or in one arena, where values whose
lifetimes do not overlap share memory. A view needs no memory; an elementwise equation overwrites an
operand that is no longer needed; slices of a flat array are written in place; an output may be
written into the slot of a donated input. A value that only one kernel uses needs no memory.
"""

import math
import mmap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from sknet._late import cached_property
from sknet.compile import _graph as own
from sknet.compile._graph import Equation, Graph, Variable, as_read
from sknet.device import backend, backend_of

# -- offsets: buffers whose lifetimes do not overlap share memory -----------------------------


ALIGNMENT = backend("cpu").alignment  # bytes per cache line


class Place(NamedTuple):
    """Position of an array in memory."""

    start: int
    stop: int
    shape: tuple[int, ...]
    dtype: Any

    def array(self, memory: Any) -> Any:
        """Return the array in an array of bytes."""
        return memory[self.start : self.stop].view(self.dtype).reshape(self.shape)


class Buffer:
    """A block of memory and its lifetime (both ends inclusive)."""

    def __init__(
        self, nbytes: int, start: int, stop: int, kind: str = "arena", alignment: int = ALIGNMENT
    ) -> None:
        self.nbytes = nbytes
        self.start = start
        self.stop = stop
        self.kind = kind
        self.aligned = -(-nbytes // alignment) * alignment
        self.offset = 0
        self.parent: Buffer | None = None
        self.is_assembled = False

    @property
    def position(self) -> int:
        """Its offset from the start of the memory."""
        return self.offset + (self.parent.position if self.parent is not None else 0)

    def place(self, shape: tuple[int, ...], dtype: Any) -> "Place":
        """Return where the first elements of the buffer are, as an array of this shape and dtype."""
        dtype = np.dtype(dtype)
        start = self.position
        return Place(start, start + math.prod(shape) * dtype.itemsize, shape, dtype)


def assign_offsets(buffers: list[Buffer]) -> tuple[int, int]:
    """Assign an offset to every buffer: largest first, each in the smallest gap that fits."""
    placed: list[Buffer] = []
    size = 0
    for buffer in sorted(sorted(buffers, key=attrgetter("start")), key=attrgetter("aligned"), reverse=True):
        rivals = [b for b in placed if b.start <= buffer.stop and buffer.start <= b.stop]
        buffer.offset = _best_gap(sorted(rivals, key=attrgetter("offset")), buffer.aligned)
        size = max(size, buffer.offset + buffer.aligned)
        placed.append(buffer)
    return size, _peak(buffers)


def _best_gap(rivals: list[Buffer], needed: int) -> int:
    best, best_length, end = -1, 0, 0
    for rival in rivals:
        length = rival.offset - end
        if length >= needed and (best < 0 or length < best_length):
            best, best_length = end, length
        end = max(end, rival.offset + rival.aligned)
    return end if best < 0 else best


def _peak(buffers: list[Buffer]) -> int:
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.start] = changes.get(buffer.start, 0) + buffer.aligned
        changes[buffer.stop + 1] = changes.get(buffer.stop + 1, 0) - buffer.aligned
    live = peak = 0
    for time in sorted(changes):
        live += changes[time]
        peak = max(peak, live)
    return peak


# -- views: equations that compute nothing; their arrays are made once, when memory is assigned --


HALF = np.dtype(np.uint16)  # which stands for bfloat16
SMALL = np.empty(1 << 16, np.uint8)  # the memory of all arrays that nobody accesses and that fit into it


def _untouched(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array with arbitrary values, in pages that the system provides only if they are accessed."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, SMALL if size <= SMALL.size else mmap.mmap(-1, size))


class Views:
    """Views among the variables of a graph, and their bases; some arrays are stored in bfloat16."""

    def __init__(self, equations: Iterable[Equation] = (), halves: Collection[Variable] = ()) -> None:
        self._halves = halves
        self._sources: dict[Variable, Variable] = {}  # what each view is a view of
        self._whole: dict[Variable, bool] = {}
        # Arrays with the right strides, whose memory is never accessed.
        self._ghosts: dict[Variable, np.ndarray] = {}
        for equation in equations:
            self.add(equation)

    def add(self, equation: Equation) -> None:
        """Take in the equation after those known so far."""
        if equation.primitive.view is None:
            return
        x: Variable = equation.operands[0]
        after = self.applied(equation, self.ghost(x))
        if after is None:
            return  # a copy, not a view
        output = equation.output
        self._ghosts[output] = after
        self._sources[output] = self.root(x)
        self._whole[output] = self.is_whole(x) and after.flags.c_contiguous and after.size == x.size

    def ghost(self, x: Variable) -> np.ndarray:
        """Return an array with arbitrary values and the memory layout of `x`."""
        found = self._ghosts.get(x)
        if found is None:
            found = self._ghosts[x] = _untouched(x.shape, self.dtype(x))
        return found

    def dtype(self, x: Variable) -> np.dtype[Any]:
        """Return the dtype of an array in memory: that of its elements, or uint16 for bfloat16."""
        return HALF if self._halves and self.root(x) in self._halves else x.dtype

    def nbytes(self, x: Variable) -> int:
        return x.size * self.dtype(x).itemsize if self._halves else x.nbytes

    def is_view(self, equation: Equation) -> bool:
        """Tell whether an equation's output is a view of its operand."""
        return equation.output in self._sources

    def root(self, x: Variable) -> Variable:
        """Return the variable that `x` is a view of, or `x` itself if it is not a view."""
        return self._sources.get(x, x)

    def is_whole(self, x: Variable) -> bool:
        """Tell whether `x` has all elements of its root, in memory order."""
        return self._whole.get(x, True)

    def is_contiguous(self, x: Variable) -> bool:
        return x not in self._sources or bool(self.ghost(x).flags.c_contiguous)

    def applied(self, equation: Equation, array: Any) -> Any:
        """Return the view of an array, on any device, that an equation takes; None if it takes a copy."""
        view = equation.primitive.view
        return None if view is None else view(backend_of(array).xp, array, **equation.params)


# -- groups: equations that are executed together ---------------------------------------------


class Finish(NamedTuple):
    """A matrix product, and what is computed from it in the same launch."""

    product: Equation
    output: Variable
    parts: tuple[str, ...] = ()
    vector: Variable | None = None
    term: Variable | None = None
    factor: float = 0.0


class Group(NamedTuple):
    """Equations that are executed together."""

    equations: list[Equation]  # several are elementwise, of one output shape, but for the reductions
    rows: int  # of the leading axis per block; 0 if the array is not divided
    fused: bool = False  # one kernel computes all, and internal values are never in memory
    # of an output of the other equations, over the same axes, in their kernel
    reductions: Sequence[Equation] = ()
    epilogue: Sequence[Equation] = ()  # computed afterwards for each total
    parts: Sequence["Group"] = ()  # the groups of which this one consists, if it has totals of several arrays
    finish: Finish | None = None  # of a product, if the equations are that and a product

    @property
    def maps(self) -> list[Equation]:
        """The equations that are neither reductions nor computed after them."""
        others = [*self.reductions, *self.epilogue]
        return [equation for equation in self.equations if equation not in others]

    @property
    def in_parts(self) -> bool:
        """True if all equations are computed for one block or element before the next."""
        return self.fused or self.rows > 0

    @property
    def internal(self) -> set[Variable]:
        """Outputs of the group's equations."""
        return {equation.output for equation in self.equations}


def is_elementwise(equation: Equation) -> bool:
    """Tell whether each output element depends only on the operands' elements at the same position."""
    return equation.primitive.expression is not None


Scratch = Callable[[Equation], Sequence[tuple[Any, ...]]]


class Plan:
    """The memory plan of a graph whose equations are executed group by group.

    Parameters
    ----------
    graph : Graph
        The graph.
    groups : list of Group
        Its equations in execution order.
    donated : mapping of Variable to Variable
        Maps outputs to the inputs whose memory they are written into.
    scratch : callable
        ``scratch(equation)`` lists shape and dtype of the temporary arrays that executing it needs, and
        ``"pinned"`` after them for an array that is zero before and after it.
    alignment : int, default=ALIGNMENT
        Arrays start at multiples of this many bytes.
    beside : mapping of int to int
        Groups that run concurrently with the following ones, and for each the first group that waits for it.
    halves : collection of Variable, default=()
        Values of float32 whose arrays hold bfloat16.

    Attributes
    ----------
    equations : list of Equation
        In execution order.
    constants : dict of Variable to ndarray
        The graph's constants, as its equations read them.
    views : Views
        Variables that are views of others.
    buffers : dict of Variable to Buffer
        The buffer of each value that is not a view.
    scratch : dict of Equation to list of Buffer
        Temporary memory of each equation.
    donated : dict of Variable to Variable
        Outputs, and the inputs whose memory they take over.
    donors : set of Variable
        Inputs that are overwritten.
    copies : list of (Variable, Variable)
        Outputs that have to be copied into donated inputs at the end.
    blank : set of Variable
        Donated inputs that are not read and in which a flat array is assembled: they must be zeroed
        before the first run, since gaps between its slices are never written.
    in_groups : set of Variable
        Values that exist for one block at a time, or only in a kernel's registers.
    arena_size, pinned_size : int
        Bytes of the arena, and of the unshared memory behind it.
    peak_live : int
        The most bytes of the arena live at any one time, a lower bound for any plan.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import compile
    >>> f = compile(lambda x: ops.tanh(ops.exp(x) + 1.0), (np.ones(1000),))
    >>> f.plan.arena_size, f.plan.peak_live
    (8000, 8000)
    """

    def __init__(
        self,
        graph: Graph,
        groups: list[Group],
        donated: Mapping[Variable, Variable],
        scratch: Scratch,
        alignment: int = ALIGNMENT,
        beside: Mapping[int, int] | None = None,
        halves: Collection[Variable] = (),
    ) -> None:
        self.graph = graph
        self.groups = groups
        self.beside = {} if beside is None else beside
        self.equations = [equation for group in groups for equation in group.equations]
        self.views = Views(self.equations, halves)
        self.buffers: dict[Variable, Buffer] = {}
        self.scratch: dict[Equation, list[Buffer]] = {}
        self.copies: list[tuple[Variable, Variable]] = []
        self.donated, self.donors = dict(donated), set(donated.values())
        self.blank: set[Variable] = set()
        self._needs = scratch
        self._alignment = alignment
        self.constants = as_read(graph.constants, reversed(self.equations))
        self._find_lifetimes()
        self._place_inputs()
        self._place_parts()
        self._take_over(donated)
        self._place_values()
        self._widen_in_groups()
        arena = [b for b in self._all if b.kind == "arena" and b.parent is None]
        pinned = [b for b in self._all if b.kind == "pinned"]
        self.arena_size, self.peak_live = assign_offsets(arena)
        self.pinned_size = 0
        for buffer in pinned:
            buffer.offset = self.arena_size + self.pinned_size
            self.pinned_size += buffer.aligned

    # -- lifetimes ----------------------------------------------------------------------------

    def _find_lifetimes(self) -> None:
        """Find when each value is assigned and when it (or a view of it) is last read."""
        self._first: dict[Variable, int] = {}
        self._last: dict[Variable, int] = {}
        self._group_of: dict[Variable, int] = {}
        self._spans: list[tuple[int, int]] = []
        time = 0
        for number, group in enumerate(self.groups):
            start = time
            for equation in group.equations:
                if not self.views.is_view(equation):
                    for x in map(self.views.root, equation.variables):
                        self._last[x] = time
                    self._first[equation.output] = self._last[equation.output] = time
                    self._group_of[equation.output] = number
                time += 1
            self._spans.append((start, time - 1))
        self.end = time
        for number, after in self.beside.items():  # what it reads and writes is in use until then
            for equation in self.groups[number].equations:
                for x in map(self.views.root, (*equation.variables, equation.output)):
                    self._last[x] = max(self._last[x], self._spans[after - 1][1])
        for x in self.graph.outputs:
            self._last[self.views.root(x)] = time
        self.in_groups = self._find_internal()

    def _find_internal(self) -> set[Variable]:
        divided = {x for group in self.groups if group.in_parts for x in group.internal}
        if not divided:
            return divided
        for number, group in enumerate(self.groups):
            for equation in group.equations:
                for root in map(self.views.root, equation.variables):
                    if self._group_of.get(root) != number:
                        divided.discard(root)
        return divided.difference(map(self.views.root, self.graph.outputs))

    # -- buffers ------------------------------------------------------------------------------

    def _place_inputs(self) -> None:
        for kind, variables in (("slot", self.graph.inputs), ("constant", tuple(self.graph.constants))):
            for x in variables:
                self.buffers[x] = Buffer(x.nbytes, 0, self.end, kind)
        self._all: list[Buffer] = []

    def _new(self, nbytes: int, start: int, stop: int, kind: str = "arena") -> Buffer:
        self._all.append(Buffer(nbytes, start, stop, kind, self._alignment))
        return self._all[-1]

    def _place_parts(self) -> None:
        """Let slices of a flat array be computed directly in its buffer."""
        for time, equation in enumerate(self.equations):
            if equation.primitive is not own.assemble:
                continue
            whole = equation.output
            has_gaps = sum(x.size for x in equation.operands) < whole.size
            # Gaps between the slices must stay zero, so no other value may use that memory.
            flat = self._new(whole.nbytes, time, self._last[whole], "pinned" if has_gaps else "arena")
            self.buffers[whole] = flat
            for start, part in zip(equation.params["starts"], equation.operands, strict=True):
                root = self.views.root(part)
                if root in self._first and root not in self.buffers and self.views.is_whole(part):
                    if root.dtype != whole.dtype or root.size != part.size:
                        continue
                    flat.start = min(flat.start, self._first[root])
                    flat.stop = max(flat.stop, self._last[root])
                    self.buffers[root] = Buffer(root.nbytes, flat.start, flat.stop, flat.kind)
                    self.buffers[root].parent, flat.is_assembled = flat, True
                    self.buffers[root].offset = start * whole.dtype.itemsize
                    flat.start = min(flat.start, self._begun(root))

    def _begun(self, root: Variable) -> int:
        """Place the operand that a slice is computed from there too, if possible; return its first use."""
        time = self._first[root]
        equation = self.equations[time]
        if self._group(root).in_parts:
            return time
        for x in _replaceable(equation):
            source = self.views.root(x)
            known = source in self._first and source not in self.buffers and self.views.is_whole(x)
            spent = (
                known and self._last[source] == time and self.views.nbytes(source) == self.views.nbytes(root)
            )
            if spent and self._aligned(equation, source):
                self.buffers[source] = self.buffers[root]
                return self._begun(source)
        return time

    def is_in_place(self, assembled: Equation, i: int) -> bool:
        """Tell whether the equation that computes slice `i` of an assembled array writes it in place."""
        home = self.buffers[self.views.root(assembled.operands[i])]
        offset = assembled.params["starts"][i] * assembled.output.dtype.itemsize
        # A value that occurs twice is written to one of its positions only.
        return home.parent is self.buffers[assembled.output] and home.offset == offset

    def _take_over(self, donated: Mapping[Variable, Variable]) -> None:
        for output, donor in donated.items():
            root = self.views.root(output)
            if root is donor and self.views.is_whole(output):
                continue
            if self._may_overwrite(output, donor):
                self._take_over_slot(root, donor)
            elif self._is_assembled_for(output, donor):
                self._assemble_in_slot(root, donor)
            else:
                self.copies.append((output, donor))

    def _take_over_slot(self, root: Variable, donor: Variable) -> None:
        """Place a value in a donated slot, and the operand that it is computed from too, if possible."""
        self.buffers[root] = self.buffers[donor]
        self.in_groups.discard(root)
        if self._group(root).fused:  # operands inside a kernel have no memory, so none can share the slot's
            return
        time = self._first[root]
        for x in _replaceable(self.equations[time]):
            source = self.views.root(x)
            if self._last[source] == time and self._may_overwrite(x, donor):
                self._take_over_slot(source, donor)
                return

    def _is_assembled_for(self, output: Variable, donor: Variable) -> bool:
        buffer = self.buffers.get(self.views.root(output))
        own_memory = buffer is not None and buffer.is_assembled and buffer.kind != "slot"
        return own_memory and donor not in self._last and self.views.is_whole(output)

    def _assemble_in_slot(self, root: Variable, donor: Variable) -> None:
        """Place a flat array, and with it its slices, in a slot that is not read."""
        before, slot = self.buffers[root], self.buffers[donor]
        self._all.remove(before)
        for part in self.buffers.values():
            if part.parent is before:
                part.parent, part.kind, slot.is_assembled = slot, "slot", True
        self.buffers[root] = slot
        self.blank.add(donor)

    def _may_overwrite(self, output: Variable, donor: Variable) -> bool:
        root = self.views.root(output)
        if root not in self._first or root in self.buffers or not self.views.is_whole(output):
            return False
        time = self._first[root]
        equation = self.equations[time]
        if self.views.nbytes(root) != self.views.nbytes(donor) or donor in self.graph.outputs:
            return False
        if self._last.get(donor, -1) > self._read_until(root):
            return False
        group = self._group(root)
        is_map = (group.fused or is_elementwise(equation)) and group.finish is None
        return is_map and not self._reduces(equation) and self._aligned(equation, donor)

    def _reduces(self, equation: Equation) -> bool:
        """Tell whether a kernel reduces what it computes: it has totals only after all elements are read."""
        return equation in self._group(equation.output).reductions

    def _group(self, root: Variable) -> Group:
        return self.groups[self._group_of[root]]

    def _read_until(self, root: Variable) -> int:
        """Return the time when operands are last read, for an equation that may overwrite them."""
        number = self._group_of[root]  # a kernel reads all operands before it writes
        return self._spans[number][1] if self.groups[number].fused else self._first[root]

    def _aligned(self, equation: Equation, root: Variable) -> bool:
        """Tell whether a value is read only at the positions that `equation` has not yet overwritten."""
        output = equation.output
        group, size = self._group(output), self.views.dtype(output).itemsize
        over = equation.variables if group.fused else _replaceable(equation)
        for reader in group.equations if group.in_parts else [equation]:
            for x in reader.variables:
                if self.views.root(x) is not root:
                    continue
                if (reader is equation and x not in over) or not self.views.is_whole(x):
                    return False
                if x.shape != output.shape or self.views.dtype(x).itemsize != size:
                    return False
                if x.shape != reader.output.shape and not self._reduces(reader):
                    return False
        return True

    def _place_values(self) -> None:
        for time, equation in enumerate(self.equations):
            output = equation.output
            if self.views.is_view(equation):
                continue
            is_stored = output not in self.in_groups or not self._group(output).fused
            if is_stored and output not in self.buffers:
                self.buffers[output] = self._reused(time, equation) or self._new(
                    self._nbytes(output), time, self._last[output]
                )
            self.scratch[equation] = []
            for shape, dtype, *kind in self._needs(equation):
                nbytes = math.prod(shape) * np.dtype(dtype).itemsize
                self.scratch[equation].append(self._new(nbytes, time, time, *kind))

    def _nbytes(self, x: Variable) -> int:
        if x not in self.in_groups:
            return self.views.nbytes(x)
        rows = self.groups[self._group_of[x]].rows
        return x.nbytes // x.shape[0] * rows

    def _reused(self, time: int, equation: Equation) -> Buffer | None:
        """Return the buffer of an operand that is no longer needed and may be overwritten."""
        output = equation.output
        group = self._group(output)
        if self._reduces(equation) or group.finish is not None:
            return None
        spent = self._spent(output) if group.fused else _replaceable(equation)
        for x in spent:
            root = self.views.root(x)
            buffer = self.buffers[root]
            if buffer.kind != "arena" or buffer.parent is not None or buffer.is_assembled:
                continue
            if x.shape != output.shape or self.views.nbytes(root) != self.views.nbytes(output):
                continue
            if not group.fused and self._last[root] != time:
                continue
            if (root in self.in_groups) == (output in self.in_groups) and self._aligned(equation, root):
                buffer.stop = self._last[output]
                return buffer
        return None

    def _spent(self, output: Variable) -> list[Variable]:
        """Return operands of an output's kernel that are not needed later and not yet reused."""
        group, (_, stop) = self._group(output), self._spans[self._group_of[output]]
        made = group.internal
        taken = {id(self.buffers[x]) for x in made if x in self.buffers}
        operands = dict.fromkeys(x for equation in group.equations for x in equation.variables)
        return [
            x
            for x in operands
            if x not in made
            and self._last[self.views.root(x)] <= stop
            and id(self.buffers[self.views.root(x)]) not in taken
        ]

    def _widen_in_groups(self) -> None:
        """Extend the lifetime of values that outlive a block to that of its loop."""
        blockwise = {id(self.buffers[x]) for x in self.in_groups if x in self.buffers}
        spans = [span for span, group in zip(self._spans, self.groups, strict=True) if group.in_parts]
        for buffer in self._all:
            if id(buffer) in blockwise:
                continue
            for start, stop in spans:
                if start <= buffer.start <= stop:
                    buffer.start = start
                if start <= buffer.stop <= stop:
                    buffer.stop = stop

    # -- memory -------------------------------------------------------------------------------

    def arrays(
        self, memory: Any, slots: Sequence[Any], constants: Mapping[Variable, Any] | None = None
    ) -> dict[Variable, Any]:
        """Return the array of every variable that has one: views of `memory`, the slots, or constants.

        `memory` has shape (arena_size + pinned_size,) and dtype uint8, on any device, aligned; the pinned
        part must be zero. There is one of `slots` for each input of the graph, and `constants` are those that
        are not on the host.
        """
        found: dict[Variable, Any] = dict(zip(self.graph.inputs, slots, strict=True))
        found.update(self.constants if constants is None else constants)
        owners = {id(self.buffers[x]): array for x, array in found.items()}
        places, outputs = self._homes
        # One array for each place: NumPy looks for overlaps of different ones, as long as a sum takes.
        made = [place.array(memory) for place in places]
        for output, home in outputs:
            if type(home) is int:
                found[output] = made[home]
            elif isinstance(home, Equation):
                found[output] = self.views.applied(home, found[home.operands[0]])
            else:
                found[output] = _in_slot(home, owners, output)
        return found

    @cached_property
    def _homes(self) -> tuple[list[Place], list[tuple[Variable, Any]]]:
        """The places of arrays, and where each output is: in one of them, in a view, or in a slot."""
        places: list[Place] = []
        numbers: dict[Place, int] = {}
        outputs: list[tuple[Variable, Any]] = []
        for equation in self.equations:
            output = equation.output
            if self.views.is_view(equation):
                outputs.append((output, equation))
                continue
            if output not in self.buffers:
                continue  # only in a kernel's registers
            buffer = self.buffers[output]
            if buffer.kind == "slot":
                outputs.append((output, buffer))
                continue
            shape = output.shape
            if output in self.in_groups:
                shape = (self.groups[self._group_of[output]].rows, *shape[1:])
            place = buffer.place(shape, self.views.dtype(output))
            number = numbers.setdefault(place, len(places))
            if number == len(places):
                places.append(place)
            outputs.append((output, number))
        return places, outputs


def _in_slot(buffer: Buffer, owners: Mapping[int, Any], output: Variable) -> Any:
    """Return the array of an output that is in a slot or in a slice of one."""
    if buffer.parent is None:
        home = owners[id(buffer)]
        return home if home.shape == output.shape else home.reshape(output.shape)
    start = buffer.offset // output.dtype.itemsize
    return owners[id(buffer.parent)][start : start + output.size].reshape(output.shape)


def _replaceable(equation: Equation) -> list[Variable]:
    """Return the operands that the output may overwrite, since each is read only where it is written."""
    over, found = equation.primitive.overwrites, []
    for i, x in enumerate(equation.operands):
        if i in over and type(x) is Variable:
            found.append(x)
    for i, x in enumerate(equation.operands):
        if i not in over and x in found:
            found = [y for y in found if y is not x]
    return found
