"""Executors: the choice of one for a device, and the interface of its programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sknet.compile._calls import NO_SLOTS, Call, runner_of
from sknet.compile._graph import Graph, Variable
from sknet.compile._plan import Plan
from sknet.compile.numpy import NumpyProgram
from sknet.device import Device
from sknet.ops import SparseSlot

__all__ = ["Call", "NumpyProgram", "Program", "program", "runner_of"]


def __dir__() -> list[str]:
    return __all__


class Program(Protocol):
    """The calls of a plan, which can be bound to memory many times.

    Attributes
    ----------
    plan : Plan
        The operations, and the memory of their results.
    source : str
        The calls as Python source, to be read.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.executors import program
    >>> from sknet.device import Device
    >>> source = program(capture(ops.exp, np.zeros(2)), {}, True, Device("cpu")).source
    >>> print(source.splitlines()[1])
    # arena: 64 bytes, of which 64 are needed at one time
    """

    plan: Plan

    @property
    def source(self) -> str:
        """The calls as Python source, to be read."""

    def bind(
        self, memory: Any, slots: Sequence[Any], sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS
    ) -> tuple[Any, dict[Variable, Any]]:
        """Return the step on some `memory`, and the array of every variable that has one.

        The step reads the arrays in `slots`, one for each input, and writes the outputs: a list of calls for
        NumPy, and a function without arguments elsewhere. `sparse` maps captured slots for sparse matrices to
        those to be read instead.
        """


def program(
    graph: Graph,
    donated: Mapping[Variable, Variable],
    exact: bool,
    device: Device,
    precision: str = "float32",
) -> Program:
    """Plan a graph for a device, and list the calls that compute it.

    Parameters
    ----------
    graph : Graph
        After all passes.
    donated : mapping of Variable to Variable
        Maps outputs to the inputs whose memory they take over.
    exact : bool
        Whether results must equal those of the primitives' own forwards to the last bit.
    device : Device
        Where it will run.
    precision : str, default="float32"
        Of products of float32 arrays on a device (see `sknet.device.products_in`).

    Returns
    -------
    Program
        One that calls NumPy on the host, and one that launches generated kernels elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.executors import program
    >>> from sknet.device import Device
    >>> graph = capture(ops.exp, np.zeros(2))
    >>> of_graph = program(graph, {}, True, Device("cpu"))
    >>> memory = np.empty(of_graph.plan.arena_size, np.uint8)
    >>> calls, arrays = of_graph.bind(memory, [np.array([0.0, 1.0])])
    >>> for call in calls:
    ...     _ = call.run()
    >>> arrays[graph.outputs[0]]
    array([1.        , 2.71828183])
    """
    if device.kind == "cpu":
        return NumpyProgram.of(graph, donated, exact)
    from sknet.compile.cuda import CupyProgram  # a twentieth of an import, and few have a device

    return CupyProgram.of(graph, donated, exact, device, precision)
