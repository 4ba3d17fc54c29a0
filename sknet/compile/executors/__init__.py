"""Executors: from a plan to something that runs."""

from sknet.compile.executors._numpy import NumpyProgram

__all__ = ["NumpyProgram"]
