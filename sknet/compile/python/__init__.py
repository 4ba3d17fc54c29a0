"""Python files that need only NumPy: captured functions, and the source of the operations they call."""

from sknet.compile.python._literals import comment, docstring, literal, names_in
from sknet.compile.python._source import PythonSource

__all__ = ["PythonSource", "comment", "docstring", "literal", "names_in"]
