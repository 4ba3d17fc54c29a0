"""Python that needs NumPy alone: captured functions, and the source of the operations that they call."""

from sknet.compile.python._source import PythonSource

__all__ = ["PythonSource"]
