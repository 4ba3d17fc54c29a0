"""Which executor a device has."""

from collections.abc import Mapping

from sknet.compile._graph import Graph, Variable
from sknet.compile.executors.device import CupyProgram
from sknet.compile.executors.numpy import NumpyProgram
from sknet.device import Device

__all__ = ["Program", "program"]

Program = CupyProgram | NumpyProgram


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
    NumpyProgram or CupyProgram
        To be bound to memory as often as needed.
    """
    if device.kind == "cpu":
        return NumpyProgram.of(graph, donated, exact)
    return CupyProgram.of(graph, donated, exact, device)
