"""The compiler: any pure function of trees of arrays becomes a graph, a plan and a program.

A function is captured once as a graph of primitives, which is verified, rewritten by passes, given memory by
a plan, and executed as a list of calls.
"""

from sknet.compile._capture import capture
from sknet.compile._compile import Compiled, compile
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._plan import Plan

__all__ = ["Compiled", "Equation", "Graph", "Plan", "Variable", "capture", "compile"]

__dir__ = __all__.copy
