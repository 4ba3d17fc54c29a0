"""What compiles many functions, or writes graphs in other forms, is built on; users of functions do without it."""

from sknet.compile._key import key_of
from sknet.compile._recalled import recalled
from sknet.compile._rows import Length, Rows, Share, graph_of_any_rows
from sknet.compile.python import PythonSource

__all__ = ["Length", "PythonSource", "Rows", "Share", "graph_of_any_rows", "key_of", "recalled"]
