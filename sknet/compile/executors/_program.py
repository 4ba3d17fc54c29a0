"""Which executor a device has, and what its programs have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sknet.compile._graph import Graph, Variable
from sknet.compile._plan import Plan
from sknet.compile.executors._writer import NO_SLOTS
from sknet.compile.executors.device import CupyProgram
from sknet.compile.executors.numpy import NumpyProgram
from sknet.device import Device
from sknet.ops import SparseSlot

__all__ = ["Program", "program"]


class Program(Protocol):
    """Generated source for a plan, to be bound to memory as often as needed.

    Attributes
    ----------
    plan : Plan
        What is computed, and where.
    source : str
        The Python source.
    """

    plan: Plan
    source: str

    def bind(
        self, memory: Any, slots: Sequence[Any], sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS
    ) -> tuple[Callable[[], None], dict[Variable, Any]]:
        """Return the step on some `memory`, and the array of every variable that has one.

        The step takes no arguments: it reads the arrays in `slots`, one for each input, and writes the
        outputs. In `sparse` are the slots to be read in place of those that were captured.
        """


def program(graph: Graph, donated: Mapping[Variable, Variable], exact: bool, device: Device) -> Program:
    """Plan a graph for a device and write the source that executes it.

    Parameters
    ----------
    graph : Graph
        After all passes.
    donated : mapping of Variable to Variable
        For outputs, the input whose memory they take over.
    exact : bool
        Whether to keep every bit of the primitives' own forwards.
    device : Device
        Where it will run.

    Returns
    -------
    Program
        For NumPy on the host, and for generated kernels elsewhere.
    """
    if device.kind == "cpu":
        return NumpyProgram.of(graph, donated, exact)
    return CupyProgram.of(graph, donated, exact, device)
