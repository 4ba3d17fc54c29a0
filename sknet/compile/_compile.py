"""Compiled functions: captured, planned, bound to memory, and cached by a key of their structure."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn
from weakref import ref

import numpy as np

from sknet._late import cached_property
from sknet._parallel import Cache, Lock
from sknet._tree import leaves, map_leaves, named_leaves, paths, rebuild
from sknet.compile import _graph as own
from sknet.compile._calls import NO_SLOTS, Call, Program, runner_of
from sknet.compile._capture import device_among, is_dense, trace
from sknet.compile._graph import Equation, Graph, OutputIndex, Variable, arrays_among, key_of
from sknet.compile._plan import Plan, Views
from sknet.compile.numpy import NumpyProgram
from sknet.compile.passes import optimize
from sknet.core import Tensor
from sknet.device import Backend, Device, backend, device_of, is_array, product_precision
from sknet.exceptions import CaptureError, DeviceError, DtypeError, ShapeError
from sknet.ops import SparseSlot


def program(
    graph: Graph,
    donated: Mapping[Variable, Variable],
    exact: bool,
    device: Device,
    precision: str = "float32",
) -> Program:
    """Plan a graph for a device, and list the calls that compute it."""
    if device.kind == "cpu":
        return NumpyProgram.of(graph, donated, exact)
    from sknet.compile.cuda import CupyProgram  # a twentieth of an import, and few have a device

    return CupyProgram.of(graph, donated, exact, device, precision)


Tree = Any
HOST = Device("cpu")


class Takes:
    def __init__(self, args: Tree) -> None:
        found = named_leaves(args)
        self.names = [name for name, _ in found]
        self.leaves = [Variable(x.shape, x.dtype) if is_dense(x) else x for _, x in found]
        self.tree = rebuild(args, iter(self.leaves))


class Compiled:
    """A captured function with its own memory, made by `compile` or by the `fresh` method of another.

    Parameters
    ----------
    program : Program
        Plan and calls, shared by all functions of the same structure.
    template : tree
        Like the result, with output positions in place of arrays.
    args : tree
        Example arguments.
    slots : tree of arrays, default=None
        As for `fresh`.
    device : Device, default=the host
        Device to run on.
    memory : array, default=None
        Memory shared with another instance; None allocates new memory.
    sparse : mapping of SparseSlot to SparseSlot
        Maps the program's own slots for sparse matrices to those that this function reads.

    Attributes
    ----------
    takes : tuple of trees of Variable
        Like the arguments, with shape and dtype in place of every array.
    slots : tuple of trees of arrays
        Memory of the arguments of `run`: like the arguments, with an array in place of every array.
    result : tree of arrays
        Arrays with the result of `run`, which are valid until the next run.
    run : callable
        Computes the result from the values in the slots.

    Raises
    ------
    DeviceError
        If the device does not exist.

    Notes
    -----
    Memory is allocated, and the program bound to it, on first access to `slots`, `result` or `run`:
    a function that is compiled only to be inspected, or to run in native code, costs neither.

    There are two ways to call it. ``compiled(*args)`` copies the arguments into the slots and
    returns `result`. A fast loop writes the next batch into the slots itself
    (``np.take(X, index, axis=0, out=slot, mode="clip")``) and calls ``compiled.run()``.

    An instance computes in its own memory, so only one thread may use it at a time; `fresh` makes
    another in microseconds.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile import compile
    >>> def step(w, x):
    ...     return w - 0.5 * x, (w * x).sum()
    >>> w, x = np.ones(3), np.arange(3.0)
    >>> compiled = compile(step, (w, x), donate=(0,))
    >>> new_w, total = compiled(w, x)
    >>> new_w, total
    (array([1. , 0.5, 0. ]), array(3.))
    >>> new_w is compiled.slots[0]
    True
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a compiled function is bound to memory of this process and cannot be pickled or copied: pickle "
            "what it was made of and compile that again, or call `fresh` for another instance"
        )

    def __init__(
        self,
        program: Program,
        template: Tree,
        args: Tree,
        slots: Tree = None,
        device: Device = HOST,
        memory: Any = None,
        sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS,
    ) -> None:
        self._program = program
        self._sparse = sparse
        self._template = template
        self._takes = args if isinstance(args, Takes) else Takes(args)
        self.device = device
        self._owner = backend(device.kind)
        self._given = self._usable_slots(slots)
        if memory is not None:
            self._memory = memory

    # -- memory -------------------------------------------------------------------------------

    @cached_property
    def _memory(self) -> Any:
        plan = self.plan
        with self._owner.activate(self.device), self._owner.asking(self.device, self._needed):
            memory = self._owner.memory(plan.arena_size + plan.pinned_size, self.device)
            memory[plan.arena_size :] = 0  # gaps between assembled parts; the arena needs no initial values
        return memory

    def _needed(self) -> str:
        return f"the plan of a compiled function takes {self.nbytes:,} bytes"

    @cached_property
    def _inputs(self) -> list[Any]:
        """The array of every slot."""
        variables = [leaf for leaf in self._takes.leaves if isinstance(leaf, Variable)]
        with self._owner.activate(self.device):
            found = zip(variables, self._given, strict=True)
            return [self._zeros(x) if array is None else array for x, array in found]

    @cached_property
    def _bound(self) -> tuple[Any, dict[Variable, Any]]:
        """The program on this memory, as `Program.bind` returns it, and the array of every variable."""
        with self._owner.activate(self.device):
            return self._program.bind(self._memory, self._inputs, self._sparse)

    @cached_property
    def slots(self) -> Tree:
        """Arrays from which `run` reads the arguments."""
        free = iter(self._inputs)
        found = [next(free) if isinstance(leaf, Variable) else leaf for leaf in self._takes.leaves]
        return rebuild(self._takes.tree, iter(found))

    @cached_property
    def result(self) -> Tree:
        """Arrays in which `run` leaves the result."""
        plan, (_, arrays) = self.plan, self._bound
        copied = {output: arrays[donor] for output, donor in plan.copies}
        return self._like_result([copied.get(x, arrays[x]) for x in plan.graph.outputs])

    @cached_property
    def run(self) -> Callable[[], None]:
        """Computes the result from the values in the slots."""
        bound, _ = self._bound
        # Without a reference to this object, so that its memory is free as soon as nobody needs it.
        if self.device.kind == "cpu":
            return runner_of(bound)
        return partial(_run_there, self._owner, self.device, bound)

    def calls(self) -> list[Call]:
        """Return the calls that `run` makes, with the arrays that it reads and writes; only on the host."""
        return self._bound[0]

    def _like_result(self, values: Sequence[Any]) -> Tree:
        return map_leaves(lambda leaf: values[leaf] if type(leaf) is OutputIndex else leaf, self._template)

    # -- description ---------------------------------------------------------------------------

    @property
    def takes(self) -> Tree:
        """Like the arguments, with a variable in place of every array."""
        return self._takes.tree

    @property
    def graph(self) -> Graph:
        """The graph after all passes."""
        return self._program.plan.graph

    @property
    def plan(self) -> Plan:
        """The memory plan."""
        return self._program.plan

    @cached_property
    def returns(self) -> Tree:
        """Like the result, with shape and dtype in place of every array."""
        return self._like_result(self.graph.outputs)

    @property
    def source(self) -> str:
        """The calls of a run as Python source, for reading."""
        return self._program.source

    @cached_property
    def draws(self) -> bool:
        """True if the function draws random numbers, from the stream it was captured with."""
        return self.graph.draws

    @property
    def nbytes(self) -> int:
        """Bytes of working memory, slots not included."""
        return self.plan.arena_size + self.plan.pinned_size

    @cached_property
    def nbytes_taken(self) -> int:
        """Bytes of the arguments."""
        return sum(leaf.nbytes for leaf in self._takes.leaves if isinstance(leaf, Variable))

    def __repr__(self) -> str:
        plan = self.plan
        return f"Compiled({len(plan.equations)} equations, arena of {plan.arena_size} bytes)"

    # -- calls ------------------------------------------------------------------------------

    def __call__(self, *args: Tree) -> Tree:
        """Copy the arguments into the slots, run, and return `result`, whose arrays the next run overwrites.

        `args` are trees of arrays with the structure, shapes and dtypes of the examples.

        Raises
        ------
        CaptureError
            If the structure, or a number or text among the arguments, differs from the examples.
        ShapeError, DtypeError
            If an array does not fit into its slot.
        """
        found = zip(self.graph.inputs, self._inputs, self._checked(args), strict=True)
        changed = [
            (slot, array) for x, slot, array in found if slot is not array and x not in self.plan.blank
        ]
        with self._owner.activate(self.device):
            if len(changed) > 1:  # one slot's array may be passed as the argument for another
                owners = {id(_root(slot)) for slot, _ in changed}
                changed = [
                    (slot, array.copy() if id(_root(array)) in owners else array) for slot, array in changed
                ]
            for slot, array in changed:
                slot[...] = array
        self.run()
        return self.result

    def fresh(self, slots: Tree = None) -> "Compiled":
        """Return the same function with its own memory; plan and calls are shared.

        `slots` are arrays to use as slots, structured like the arguments, with None where a new array is to
        be allocated. Several functions can share parameters this way, such as one for full batches and one
        for the last, shorter batch.

        Raises
        ------
        ShapeError, DtypeError
            If an array does not fit its slot.
        """
        return Compiled(self._program, self._template, self._takes, slots, self.device, sparse=self._sparse)

    def over(self, slots: Tree) -> "Compiled":
        """Return the same function in the same memory, but reading other arrays.

        `slots` are structured like the arguments, with None where this function's own slot is to be used.
        Slots that are not donated are only read, and may be read-only. Running either overwrites the result
        of the other.

        Raises
        ------
        ShapeError, DtypeError
            If an array does not fit its slot.
        """
        given = dict(named_leaves(slots))
        mine = iter(paths(self.slots))
        merged = map_leaves(lambda leaf: given.get(next(mine), leaf), self.slots)
        return Compiled(
            self._program, self._template, self._takes, merged, self.device, self._memory, self._sparse
        )

    def poison(self) -> None:
        """Fill the working memory with NaN, as a test; a correct plan never reads stale values."""
        with self._owner.activate(self.device):
            self._memory[: self.plan.arena_size] = 0xFF

    # -- slots --------------------------------------------------------------------------------

    def _usable_slots(self, given: Tree) -> list[Any]:
        by_path = dict(named_leaves(given))
        donors, blank = self.plan.donors, self.plan.blank
        inputs = iter(self.graph.inputs)
        slots: list[Any] = []
        for path, example in zip(self._takes.names, self._takes.leaves, strict=True):
            array = by_path.pop(path, None)
            if isinstance(example, Variable):
                x = next(inputs)
                slots.append(None if array is None else self._usable(path, example, array, x in donors))
        if by_path:
            raise CaptureError(f"slots has arrays at {sorted(by_path)}, where the function takes none")
        if given is not None and self.device.kind == "cpu":
            self._check_apart(slots)
        with self._owner.activate(self.device):
            for x, slot in zip(self.graph.inputs, slots, strict=True):
                if x in blank and slot is not None:
                    slot[...] = 0
        return slots

    def _check_apart(self, slots: list[Any]) -> None:
        """Raise if a slot that is written to shares memory with another."""
        given = [(i, slot) for i, slot in enumerate(slots) if slot is not None]
        donors, inputs = self.plan.donors, self.graph.inputs
        for i, slot in given:
            if inputs[i] not in donors:
                continue
            for j, other in given:
                if i != j and np.may_share_memory(slot, other):
                    leaves_at = zip(self._takes.names, self._takes.leaves, strict=True)
                    names = [path for path, example in leaves_at if isinstance(example, Variable)]
                    raise CaptureError(
                        f"slots {names[i]} and {names[j]} share memory, and the first is written to "
                        "while the second is read: give each an array of its own, or do not donate it"
                    )

    def _zeros(self, x: Variable) -> Any:
        memory = self._owner.memory(x.nbytes, self.device)
        memory[:] = 0
        return memory.view(x.dtype).reshape(x.shape)

    def _usable(self, name: str, slot: Variable, array: Any, is_written: bool) -> Any:
        array = self._fitting(name, slot, array)
        if not self._owner.is_plain(array, writeable=is_written):
            kind = "a writeable array" if is_written else "an array"
            raise ShapeError(f"slot {name} must be {kind} that is C-contiguous")
        return array

    def _fitting(self, name: str, slot: Variable, leaf: Any) -> Any:
        array = leaf.data if isinstance(leaf, Tensor) else leaf if is_array(leaf) else np.asarray(leaf)
        if array.shape != slot.shape:
            raise ShapeError(f"argument {name} must have shape {slot.shape}, as captured, got {array.shape}")
        if array.dtype != slot.dtype:
            raise DtypeError(f"argument {name} must have dtype {slot.dtype}, as captured, got {array.dtype}")
        place = device_of(array)
        if place != self.device:
            raise DeviceError(
                f"argument {name} must be on device '{self.device}', as captured, got an array on '{place}'"
            )
        return array

    def _checked(self, args: tuple[Tree, ...]) -> list[Any]:
        names, examples = self._takes.names, self._takes.leaves
        return [self._fitting(*each) for each in arrays_among(args, names, examples, COMPILE_AGAIN)]


COMPILE_AGAIN = (
    "Numbers and text are part of the captured function: compile it again, or pass a number that changes as "
    "an array of shape ()."
)


def before_last(
    compiled: Compiled, slots: Sequence[Any], read: Sequence[Variable]
) -> tuple[Callable[[], None], Any, Sequence[Any]] | None:
    """Return what runs all but the last kernel of a function on a device, this kernel, and its arrays."""
    # None if something else comes last, or it may not run beside what writes these slots, and reads these
    # variables of the result.
    known, (bound, _) = {id(slot) for slot in slots}, compiled._bound
    inputs = zip(compiled.graph.inputs, compiled._inputs, strict=True)
    found = bound.before_last([x for x, slot in inputs if id(slot) in known], read)
    if found is None:
        return None
    run, kernel, arrays = found
    return partial(_run_there, compiled._owner, compiled.device, run), kernel, arrays


def _root(array: Any) -> Any:
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return array


def _run_there(owner: Backend, device: Device, run: Callable[[], None]) -> None:
    with owner.activate(device):
        run()


# -- compiling --------------------------------------------------------------------------------


def compile(
    function: Callable[..., Any],
    args: tuple[Tree, ...],
    *,
    donate: Iterable[int] = (),
    exact: bool = False,
    slots: Tree = None,
) -> Compiled:
    """Capture a pure function and plan it, so that it runs without allocating memory.

    Parameters
    ----------
    function : callable
        A pure function of trees of tensors, written in `sknet.ops`; it may ask for gradients.
    args : tuple of trees of arrays
        Example arguments. Of arrays, only shape, dtype and device matter (the function will run on
        that device); numbers and text become constants.
    donate : iterable of int, default=()
        Positions of arguments whose memory may be overwritten: outputs of the same shapes and dtypes are
        written into their slots, in order. A donated argument that is not read may be set to zero at once.
    exact : bool, default=False
        Whether to keep the operations unchanged, so that results are those of an uncompiled call to the last
        bit. Exceptions are the sign of a zero in a sum, and products and sums of arguments that are not
        C-contiguous and of constants that are reversed or parts of larger arrays, which count as their
        copies; and an array that is passed twice counts as two. Otherwise rounding may differ, but results
        that are infinite, NaN or zero do not change.
    slots : tuple of trees of arrays, default=None
        Arrays to use as slots, as for `Compiled.fresh`.

    Returns
    -------
    Compiled
        Functions of the same structure share plan and source, which are cached. On a device, its products of
        float32 arrays have the precision of this call, wherever it runs.

    Raises
    ------
    CaptureError
        If the function cannot be captured, no output fits a donated argument, or a donated slot
        overlaps another.
    DeviceError
        If the arrays are on more than one device.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> f = compile(lambda x, y: ops.sum(ops.exp(x) * y), (np.ones(3), np.ones(3)))
    >>> f(np.zeros(3), np.arange(3.0))
    array(3.)
    >>> print(f.graph)
    graph(v0: float64[3], v1: float64[3]):
      v2: float64[3] = exp v0
      v3: float64[1,3] = reshape v2 shape=(1, 3)
      v4: float64[3,1] = reshape v1 shape=(3, 1)
      v5: float64[1,1] = matmul v3 v4
      v6: float64[] = reshape v5 shape=()
      return v6
    """
    found = prepared(function, args, donate, exact)
    return found.bound(args, slots, found.matrices)


class Prepared(NamedTuple):
    """A captured function that is bound to no memory yet."""

    program: Program
    template: Tree
    device: Device
    own_slots: Sequence[SparseSlot]
    matrices: Sequence[SparseSlot]
    draws: bool

    def bound(self, args: Tree, slots: Tree, matrices: Iterable[SparseSlot]) -> Compiled:
        """Return it with memory of its own, reading these sparse matrices."""
        sparse = dict(zip(self.own_slots, matrices, strict=True))
        return Compiled(self.program, self.template, args, slots, self.device, sparse=sparse)


def prepared(
    function: Callable[..., Any], args: tuple[Tree, ...], donate: Iterable[int], exact: bool
) -> Prepared:
    """Capture a function and plan it; arguments and errors are those of `compile`."""
    graph, template = trace(function, args)
    donors, device, precision = _donors(args, donate), device_among(args), product_precision()
    key = (graph.key(), donors, exact, device, precision)
    matrices, draws = graph.sparse_slots(), graph.draws
    with _planning:
        known = _programs.get(key)
        if known is None:
            graph, own_slots = _with_own_slots(graph)
            found, donated = _with_donations(optimize(graph, exact=exact), donors)
            known = program(found, donated, exact, device, precision), own_slots
            _programs.put(key, known)
    return Prepared(known[0], template, device, known[1], matrices, draws)


def optimized(
    function: Callable[..., Any], args: tuple[Tree, ...], donate: Iterable[int]
) -> tuple[Graph, dict[Variable, Variable], Tree]:
    """Return the graph of a function after all passes, what takes over donated inputs, and its results."""
    graph, template = trace(function, args)
    found, donated = _with_donations(optimize(graph, exact=False), _donors(args, donate))
    return found, donated, map_leaves(lambda x: found.outputs[x] if type(x) is OutputIndex else x, template)


# Programs by graph, each with its own slots for sparse matrices, which a bound function replaces.
MOST_PROGRAMS = 64
_programs = Cache(MOST_PROGRAMS)
_planning = Lock()  # no two threads plan the same graph


def _with_own_slots(graph: Graph) -> tuple[Graph, list[SparseSlot]]:
    """Return a graph with empty slots of its own, so that a cached program keeps no matrix alive."""
    slots = {slot: SparseSlot(slot.shape, slot.dtype) for slot in graph.sparse_slots()}
    if not slots:
        return graph, []

    def replaced(equation: Equation) -> Equation:
        params = {name: slots[x] if isinstance(x, SparseSlot) else x for name, x in equation.params.items()}
        return Equation(equation.primitive, equation.operands, params, equation.output)

    equations = [replaced(equation) for equation in graph.equations]
    return graph.replaced(equations=equations), list(slots.values())


def _donors(args: tuple[Tree, ...], donate: Iterable[int]) -> tuple[int, ...]:
    """Return the positions of the donated arrays among all arrays of the arguments."""
    donated, found, position = set(donate), [], 0
    for i, arg in enumerate(args):
        for leaf in leaves(arg):
            if is_dense(leaf):
                if i in donated:
                    found.append(position)
                position += 1
    return tuple(found)


def _with_donations(graph: Graph, donors: tuple[int, ...]) -> tuple[Graph, dict[Variable, Variable]]:
    """Pair donated inputs with the outputs that are written into them."""
    outputs = list(graph.outputs)
    free = list(range(len(outputs)))
    pairs: dict[int, Variable] = {}
    for position in donors:
        donor = graph.inputs[position]
        fitting = [i for i in free if outputs[i].shape == donor.shape and outputs[i].dtype == donor.dtype]
        if not fitting:
            raise CaptureError(
                f"no output has the shape and dtype of a donated array, {donor!r} (array {position} of the "
                "arguments): return its new value, or do not donate it"
            )
        free.remove(fitting[0])
        pairs[fitting[0]] = donor
    roots, copies = Views(graph.equations), []
    taken = set(pairs.values())
    for i, output in enumerate(outputs):
        unsafe = roots.root(output) in taken and output is not pairs.get(i)
        if unsafe or (i in pairs and (output in outputs[:i] or output in graph.constants)):
            copies.append(Equation(own.copy, (output,), {}))
            outputs[i] = copies[-1].output
    if copies:
        graph = graph.replaced(equations=[*graph.equations, *copies], outputs=outputs).verify()
    return graph, {outputs[i]: donor for i, donor in pairs.items()}


# -- functions cached by a key of their structure, so that they need not be captured again ----


class Known(NamedTuple):
    """A function that was captured before, as long as others keep its program."""

    program: "ref[Program]"
    made: tuple[Any, ...]  # what else `Prepared` has
    places: tuple[int, ...]
    takes: Takes | None


MOST_FUNCTIONS = 256
# Functions by key, most of which share a program; None for one whose key also includes its random stream.
# Programs are large: those that `_programs` has dropped, and nothing runs, are planned again.
_functions = Cache(MOST_FUNCTIONS)


def compile_cached(
    structure: Hashable | None,
    function: Callable[..., Any],
    args: tuple[Tree, ...],
    *,
    stream: tuple[int, int] | None = None,
    donate: Iterable[int] = (),
    exact: bool = False,
    slots: Tree = None,
) -> Compiled:
    """Compile a function, or reuse the program of one that does the same operations."""
    if structure is None:
        return compile(function, args, donate=donate, exact=exact, slots=slots)
    named, donate = named_leaves(args), tuple(donate)
    sparse = [leaf for _, leaf in named if isinstance(leaf, SparseSlot)]
    forms = tuple([(path, _form(leaf)) for path, leaf in named])
    key: Hashable = structure, donate, exact, product_precision(), forms
    found: Known | None = _functions.get(key) or _functions.get((key, stream))
    program = None if found is None else found.program()
    if found is not None and program is not None:
        matrices = [sparse[place] for place in found.places]
        made = Prepared(program, *found.made)
        return made.bound(args if found.takes is None else found.takes, slots, matrices)
    made, takes = prepared(function, args, donate, exact), None if sparse else Takes(args)
    if all(matrix in sparse for matrix in made.matrices):
        places = tuple([sparse.index(matrix) for matrix in made.matrices])
        if made.draws:
            _functions.put(key, None)
            key = key, stream
        known = Known(ref(made.program), made._replace(matrices=())[1:], places, takes)
        _functions.put(key, known)
    return made.bound(args if takes is None else takes, slots, made.matrices)


def _form(leaf: Any) -> Hashable:
    """Return everything about an argument that a program depends on."""
    if isinstance(leaf, SparseSlot):
        return leaf.key
    if is_array(leaf):
        return leaf.shape, leaf.dtype, device_of(leaf)
    return key_of(leaf)


def forget_programs() -> None:
    """Clear all cached programs, so that functions are captured and planned again."""
    _functions.clear()
    _programs.clear()
