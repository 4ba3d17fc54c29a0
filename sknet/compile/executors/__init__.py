"""Executors: from a graph to something that runs."""

from sknet.compile.executors._calls import Call, runner_of
from sknet.compile.executors._program import Program, program
from sknet.compile.executors._writer import NO_SLOTS as NO_SLOTS
from sknet.compile.executors.numpy import NumpyProgram

__all__ = ["Call", "NumpyProgram", "Program", "program", "runner_of"]
