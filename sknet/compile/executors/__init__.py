"""Executors: from a graph to something that runs."""

from sknet.compile.executors._program import program
from sknet.compile.executors.numpy import NumpyProgram

__all__ = ["NumpyProgram", "program"]
