"""NumPy: a plan as calls of functions, each with ``out=``."""

from sknet.compile.numpy._emitters import add_multiple, check_indices, fill_mask, write_largest
from sknet.compile.numpy._executor import NumpyProgram

__all__ = ["NumpyProgram", "add_multiple", "check_indices", "fill_mask", "write_largest"]
