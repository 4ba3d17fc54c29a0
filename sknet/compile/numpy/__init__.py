"""NumPy: a plan as calls of functions, each with ``out=``."""

from sknet.compile.numpy._emitters import (
    NumpyProgram,
    add_multiple,
    check_indices,
    fill_mask,
    write_largest,
)

__all__ = ["NumpyProgram", "add_multiple", "check_indices", "fill_mask", "write_largest"]
