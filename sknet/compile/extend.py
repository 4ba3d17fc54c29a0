"""What finds programs by keys, and writes graphs in other forms; users do without it."""

from sknet.compile._key import key_of
from sknet.compile._recalled import recalled
from sknet.compile._rows import Length, Rows, Share, graph_of_any_rows
from sknet.compile.python import PythonSource

__all__ = ["Length", "PythonSource", "Rows", "Share", "graph_of_any_rows", "key_of", "recalled"]
