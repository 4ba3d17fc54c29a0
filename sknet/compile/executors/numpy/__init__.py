"""NumPy: a plan as calls of functions, each with ``out=``."""

from sknet.compile.executors.numpy._emit_erfc import COEFFICIENTS
from sknet.compile.executors.numpy._emit_index import check_indices
from sknet.compile.executors.numpy._emit_softmax import write_largest
from sknet.compile.executors.numpy._emitters import add_multiple, fill_uniform
from sknet.compile.executors.numpy._executor import NumpyProgram

__all__ = [
    "COEFFICIENTS",
    "NumpyProgram",
    "add_multiple",
    "check_indices",
    "fill_uniform",
    "write_largest",
]
