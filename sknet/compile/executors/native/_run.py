"""The native executor: many training steps in one call, without Python in between."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sknet.compile._graph import Graph
from sknet.compile.executors.native._cache import Function, has_numba, types_of
from sknet.compile.executors.native._program import NativeProgram, input_names
from sknet.compile.executors.native._value import UnsupportedError

__all__ = ["NativeRun", "native_source"]

KEPT = 64  # cached programs
REPAID = 100_000  # steps that save about as much time as compiling them takes
_programs: OrderedDict[Any, tuple[Any, NativeProgram]] = OrderedDict()


class Part(Protocol):
    """A compiled part of a training step: what native code is generated from."""

    @property
    def graph(self) -> Graph:
        """The operations."""

    @property
    def takes(self) -> Any:
        """The arguments, with shape and dtype in place of every array."""

    @property
    def returns(self) -> Any:
        """The result, with shape and dtype in place of every array."""


class NativeRun:
    """Runs training steps in native code, on the caller's arrays.

    Parameters
    ----------
    gradient : Part
        Gradient of a batch. Its arguments are flat parameters, flat gradient, buffers, X (or a dict of
        inputs), y, weight and a counter; its result is gradient, changed buffers, raw output, loss, penalty.
    update : Part
        New parameters and slots from flat parameters, slots, flat gradient and the step's numbers.
    flat, flat_gradient : ndarray of shape (n_parameters,)
        Parameters, which are trained in place, and memory for their gradient.
    slots : sequence of ndarray
        The optimizer's state, also updated in place.
    buffers : mapping of str to ndarray
        The module's buffers; only names, shapes and dtypes matter.
    data : tuple
        X (or a dict of inputs), y and weight: only dtypes and layouts matter. Without sample weights, weight
        is None.
    most : int
        The most steps per call.

    Attributes
    ----------
    source : str
        The generated source.
    losses : ndarray of shape (n_steps, 2)
        After a run: loss and penalty of each step.
    buffers : dict of str to ndarray
        Set before a run; after it, their new values.
    steps : callable or None
        The compiled function; None until it is ready. Any function with the same arguments may replace
        it, such as the source run as plain Python.
    in_place : tuple of two bool
        Whether all inputs, and whether y and weight, can be read without a copy: their order may be empty.

    Raises
    ------
    UnsupportedError
        If Numba is missing, or a graph cannot be translated.
    """

    def __init__(
        self,
        gradient: Part,
        update: Part,
        flat: np.ndarray,
        flat_gradient: np.ndarray,
        slots: Sequence[np.ndarray],
        buffers: Mapping[str, np.ndarray],
        data: tuple[Any, np.ndarray, np.ndarray | None],
        most: int,
    ) -> None:
        if not has_numba():
            raise UnsupportedError("Numba is not installed")
        X, y, weight = data
        inputs, targets = _inputs(X), {"y": y} if weight is None else {"y": y, "weight": weight}
        whole = _whole(gradient, {**inputs, **targets})
        program = _program(gradient, update, len(inputs), weight is not None, list(buffers), whole)
        self._program = program
        self.source = program.source
        self.rows = program.rows
        self.most = most
        self.buffers = {name: np.array(array) for name, array in buffers.items()}
        trained = {"flat": flat, "gradient": flat_gradient}
        trained.update({f"slot{i}": slot for i, slot in enumerate(slots)})
        bound, self._host = program.bind(trained, list(self.buffers.values()))
        # An optimizer's constants may be read-only arrays, which have another type in Numba.
        self._bound = tuple(map(_plain, bound))
        self.losses = np.zeros((self.most, 2), flat.dtype)
        output = gradient.returns.output
        self._no_outputs = np.zeros((0, *output.shape[1:]), output.dtype)
        self.in_place = set(inputs) <= program.in_place, set(targets) <= program.in_place
        self._no_weight = np.zeros(1, flat.dtype)
        self.rebind(data)
        orders = (np.zeros(0, np.int64),) * 2
        example = self._arguments(orders, 0, 0, True, 0, np.zeros((0, 0)), self._no_outputs)
        self._function = Function(self.source, types_of(example))
        self.steps: Callable[..., int] | None = None

    def rebind(self, data: tuple[Any, np.ndarray, np.ndarray | None]) -> None:
        """Read other data of the same shapes, dtypes and layouts from now on."""
        X, y, weight = data
        given = (*_inputs(X).values(), y, self._no_weight if weight is None else weight)
        self._data = [_plain(x) for x in given]

    def release(self) -> None:
        """Forget the data, until others are bound."""
        self._data = []

    def _arguments(
        self, orders: Any, start: int, count: int, check: bool, counter: int, hyper: Any, outputs: Any
    ) -> Any:
        results = self.losses, outputs
        return (*self._data, *orders, start, count, check, counter, hyper, *results, *self._bound)

    @property
    def is_known(self) -> bool:
        """Whether this process has the compiled function."""
        return self.steps is not None or self._function.is_compiled

    def is_ready(self, remaining: float) -> bool:
        """Tell whether `run` can be called; otherwise start compiling in the background if worthwhile.

        Parameters
        ----------
        remaining : float
            Seconds that the remaining steps take without it.

        Returns
        -------
        bool
            Without waiting.
        """
        if self.steps is None:
            self.steps = self._function.get(remaining)
        return self.steps is not None

    def repays(self, planned: int) -> bool:
        """Tell whether enough steps are planned to make it worth waiting for the compiler.

        Both the time of compiling and the time saved per step grow with the number of operations, so only
        the number of steps matters. Networks of matrices always compile fast enough to wait.
        """
        return self._program.is_of_matrices or planned >= REPAID

    def wait(self) -> None:
        """Load the compiled function, or compile it now."""
        self.steps = self._function.wait()

    def run(
        self,
        orders: tuple[np.ndarray, np.ndarray],
        start: int,
        hyper: np.ndarray,
        counter: int,
        check: bool,
        outputs: np.ndarray | None = None,
    ) -> int:
        """Train on some batches, one after the other.

        Parameters
        ----------
        orders : tuple of two ndarray of int64
            The order of the rows of X, and of those of y and weight; empty for the order
            of the data, where `in_place` allows it.
        start : int
            Position in the orders of the first row.
        hyper : ndarray of shape (n_steps, n_numbers), dtype=float64
            The update's scalars, for each step; at most `most` steps.
        counter : int
            Number of steps before the first of these.
        check : bool
            Whether to stop before an update that is not finite.
        outputs : ndarray of shape (at least n_rows, ...), default=None
            Overwritten with the raw outputs of all rows, before the updates; None to skip them.

        Returns
        -------
        int
            Number of steps done: all, or those before the first whose loss or gradient is not finite.
        """
        assert self.steps is not None
        outputs = self._no_outputs if outputs is None else outputs
        bad = self.steps(*self._arguments(orders, start, len(hyper), check, counter, hyper, outputs))
        if self._host is not None:
            self._host.check()
        return len(hyper) if bad < 0 else int(bad)


def native_source(gradient: Part, update: Part, buffers: list[str], weighted: bool) -> str | None:
    """Return the source of the function that a `NativeRun` would call.

    Parameters
    ----------
    gradient, update : Part
        As for `NativeRun`.
    buffers : list of str
        Names of the module's buffers.
    weighted : bool
        Whether there are sample weights.

    Returns
    -------
    str or None
        None if Numba is missing, or a graph cannot be translated.
    """
    try:
        n_inputs = len(_inputs(gradient.takes.batch.X))
        return _program(gradient, update, n_inputs, weighted, buffers, ()).source if has_numba() else None
    except UnsupportedError:
        return None


def _inputs(X: Any) -> dict[str, Any]:
    """Return the inputs of the network by their names in the function."""
    found = list(X.values()) if isinstance(X, dict) else [X]
    return dict(zip(input_names(len(found)), found, strict=True))


def _whole(gradient: Part, data: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Return the names of the data whose rows can be used as a batch without a copy."""
    X, *targets = gradient.takes.batch
    slots = (*_inputs(X).values(), *(slot for slot in targets if slot is not None))
    return tuple(
        name
        for (name, array), slot in zip(data.items(), slots, strict=True)
        if array.dtype == slot.dtype and array.flags.c_contiguous
    )


def _program(
    gradient: Part, update: Part, n_inputs: int, weighted: bool, buffers: list[str], whole: tuple[str, ...]
) -> NativeProgram:
    changed = tuple(buffers.index(name) for name in gradient.returns.changed)
    key = (id(gradient.graph), id(update.graph), n_inputs, weighted, changed, whole)
    found = _programs.get(key)
    if found is None:
        program = NativeProgram(
            gradient.graph,
            update.graph,
            n_inputs=n_inputs,
            weighted=weighted,
            changed=changed,
            whole=whole,
        )
        graphs = gradient.graph, update.graph  # kept alive, which keeps their ids unique
        found = _programs[key] = graphs, program
        while len(_programs) > KEPT:
            _programs.pop(next(iter(_programs)), None)
    return found[1]


def _plain(array: np.ndarray) -> np.ndarray:
    """Return the same memory as a writeable array: to Numba, a read-only array has another type."""
    array = np.asarray(array)
    if array.flags.writeable and array.flags.aligned:
        return array
    if not array.flags.aligned:
        raise UnsupportedError("data that is not aligned in memory")
    return np.asarray(_Memory(array))


class _Memory:
    """Memory that claims to be writeable, although it is only read."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}
