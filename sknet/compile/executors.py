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
    """Plan a graph for a device, and list the calls that compute it."""
    if device.kind == "cpu":
        return NumpyProgram.of(graph, donated, exact)
    from sknet.compile.cuda import CupyProgram  # a twentieth of an import, and few have a device

    return CupyProgram.of(graph, donated, exact, device, precision)
