"""Executors: from a graph to something that runs."""

from sknet.compile.executors._numpy import NumpyProgram
from sknet.compile.executors._program import program

__all__ = ["NumpyProgram", "program"]
