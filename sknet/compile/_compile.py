"""Compile: capture a function, plan it, and bind it to memory."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sknet._parallel import Lock
from sknet._tree import leaves
from sknet.compile import _internal as own
from sknet.compile._capture import device_among, is_dense, trace
from sknet.compile._compiled import Compiled
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._views import Views
from sknet.compile.executors import Program
from sknet.compile.executors import program as new_program
from sknet.compile.passes import optimize
from sknet.device import Device, product_precision
from sknet.exceptions import CaptureError
from sknet.ops import SparseSlot

__all__ = ["Prepared", "compile", "forget_plans", "prepared"]

Tree = Any
KEPT = 64  # cached programs


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
        Positions of arguments whose memory may be overwritten: outputs of the same shapes and
        dtypes are written into their slots, in order. A donated argument that is not read may be
        set to zero at once.
    exact : bool, default=False
        Keep the operations as they are, so that results equal those of an uncompiled call to the
        last bit. Exceptions are the sign of a zero in a sum, and products and sums of arguments that are
        not C-contiguous and of constants that are reversed or parts of larger arrays, which count as their
        copies; and an array that is passed twice counts as two. Otherwise rounding may differ, but not
        what is finite, infinite, NaN or zero.
    slots : tuple of trees of arrays, default=None
        Arrays to use as slots, as for `Compiled.fresh`.

    Returns
    -------
    Compiled
        Functions of the same structure share plan and source, which are cached. On a device, its products of
        float32 arrays have the precision of this call (`sknet.device.products_in`), wherever it runs.

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
    matrices, draws = graph.sparse_slots(), any("key" in e.params for e in graph.equations)
    with _lock:
        known = _programs.get(key)
        if known is None:
            graph, own_slots = _with_own_slots(graph)
            found, donated = _with_donations(optimize(graph, exact=exact), donors)
            known = _programs[key] = new_program(found, donated, exact, device, precision), own_slots
            if len(_programs) > KEPT:
                _programs.popitem(last=False)
        _programs.move_to_end(key)
    return Prepared(known[0], template, device, known[1], matrices, draws)


# Programs by key, each with its own slots for sparse matrices, which a bound function replaces.
_programs: OrderedDict[Any, tuple[Program, list[SparseSlot]]] = OrderedDict()


_lock = Lock()


def forget_plans() -> None:
    """Forget all cached programs, so that functions captured from now on are planned again."""
    with _lock:
        _programs.clear()


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
