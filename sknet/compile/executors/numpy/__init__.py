"""NumPy: a plan as straight-line Python, every call with ``out=``."""

from sknet.compile.executors.numpy._emit_erfc import COEFFICIENTS
from sknet.compile.executors.numpy._emitters import add_multiple, fill_uniform
from sknet.compile.executors.numpy._executor import NumpyProgram

__all__ = [
    "COEFFICIENTS",
    "NumpyProgram",
    "add_multiple",
    "fill_uniform",
]
