"""Lookup of programs by keys, and other forms of graphs; for other packages, not for users."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.compile._evaluate import checked_inputs, flat_arguments, outputs_of
from sknet.compile._key import key_of
from sknet.compile._recalled import recalled
from sknet.compile._rows import (
    ROWS,
    Counted,
    Filled,
    Length,
    Lengths,
    Rows,
    Samples,
    Share,
    Triangles,
    graph_of_any_rows,
)
from sknet.compile._signature import OutputIndex, Signature
from sknet.compile._symbolic import Input, Line, Position, SymbolicGraph

if TYPE_CHECKING:
    from sknet.compile._alike import Numbered, differing, numbered, outputs_with
    from sknet.compile.python import PythonSource, comment, docstring, literal, names_in
else:
    __getattr__ = _Names(
        {
            "sknet.compile._alike": ("Numbered", "differing", "numbered", "outputs_with"),
            "sknet.compile.python": ("PythonSource", "comment", "docstring", "literal", "names_in"),
        }
    ).into(globals())

__all__ = [
    "PARTS",
    "ROWS",
    "Counted",
    "Filled",
    "Input",
    "Length",
    "Lengths",
    "Line",
    "Numbered",
    "OutputIndex",
    "Position",
    "PythonSource",
    "Rows",
    "Samples",
    "Share",
    "Signature",
    "SymbolicGraph",
    "Triangles",
    "checked_inputs",
    "comment",
    "differing",
    "docstring",
    "flat_arguments",
    "graph_of_any_rows",
    "key_of",
    "literal",
    "names_in",
    "numbered",
    "outputs_of",
    "outputs_with",
    "recalled",
]

PARTS = {each.__name__: each for each in (Counted, Filled, Length, Lengths, Share, Triangles)}
