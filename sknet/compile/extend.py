"""Programs found by keys, and graphs in other forms, for other packages; users do without them."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.compile._compile import compile_cached, optimized
from sknet.compile._graph import (
    Graph,
    OutputIndex,
    Signature,
    checked_inputs,
    flat_arguments,
    key_of,
    outputs_of,
)
from sknet.compile._symbolic import (
    ROWS,
    Counted,
    Filled,
    Input,
    Length,
    Lengths,
    Line,
    Position,
    Rows,
    Samples,
    Share,
    SymbolicGraph,
    Triangles,
    graph_of_any_rows,
)

if TYPE_CHECKING:
    from sknet.compile._lifted import LiftedGraph, differing, lift_constants, outputs_with
    from sknet.compile.cuda._persistent import Phases, phases
    from sknet.compile.python import PythonSource, comment, docstring, literal, names_in
else:
    __getattr__ = _Names(
        {
            "sknet.compile._lifted": ("LiftedGraph", "differing", "lift_constants", "outputs_with"),
            "sknet.compile.cuda._persistent": ("Phases", "phases"),
            "sknet.compile.python": ("PythonSource", "comment", "docstring", "literal", "names_in"),
        }
    ).into(globals())

__all__ = [
    "PARTS", "ROWS", "Counted", "Filled", "Graph", "Input", "Length", "Lengths", "LiftedGraph", "Line",
    "OutputIndex", "Phases", "Position", "PythonSource", "Rows", "Samples", "Share", "Signature",
    "SymbolicGraph", "Triangles", "checked_inputs", "comment", "compile_cached", "differing",
    "docstring", "flat_arguments", "graph_of_any_rows", "key_of", "lift_constants", "literal",
    "names_in", "optimized", "outputs_of", "outputs_with", "phases",
]  # fmt: skip

PARTS = {each.__name__: each for each in (Counted, Filled, Length, Lengths, Share, Triangles)}
