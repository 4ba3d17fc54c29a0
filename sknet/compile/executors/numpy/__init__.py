"""NumPy: a plan as straight-line Python with every output given."""

from sknet.compile.executors.numpy._executor import NumpyProgram

__all__ = [
    "NumpyProgram",
]
