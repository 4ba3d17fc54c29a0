"""Graphs: text, and the verifier."""

import numpy as np
import pytest

from sknet.compile import Equation, Graph, Variable, capture
from sknet.core import PRIMITIVES
from sknet.exceptions import GraphError

X = Variable((2, 3), "float32")
EXP = PRIMITIVES["exp"]


def graph(equations, outputs, inputs=(X,)):
    return Graph(inputs, {}, equations, outputs)


def test_text():
    constant = Variable((), "float32")
    first = Equation(PRIMITIVES["multiply"], (X, constant), {})
    second = Equation(PRIMITIVES["sum"], (first.output,), {"axis": (-1,), "keepdims": False})
    whole = Graph([X], {constant: np.array(2.0, "float32")}, [first, second], [second.output, X])
    assert str(whole) == (
        "graph(v0: float32[2,3]):\n"
        "  k0: float32[] = constant 2.0\n"
        "  v1: float32[2,3] = multiply v0 k0\n"
        "  v2: float32[2] = sum v1 axis=(-1,) keepdims=False\n"
        "  return v2, v0"
    )


def test_text_of_arrays():
    """The text is for humans: it lists short arrays, and only dtype and shape of long ones."""
    short = str(capture(lambda x: x[:, np.array([2, 0])] * np.arange(2.0), np.ones((1, 3))))
    assert "index=(slice(None, None, None), int64[2, 0])" in short
    assert "constant float64[0.0, 1.0]" in short
    long = str(capture(lambda x: x[np.arange(20)] * np.arange(20.0), np.ones(20)))
    assert "index=int64[20]" in long
    assert "constant float64[20]" in long


def test_a_valid_graph_passes():
    equation = Equation(EXP, (X,), {})
    good = graph([equation], [equation.output])
    assert good.verify() is good


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            graph([Equation(EXP, (Variable((), "float32"),), {})], []),
            "equation 0, exp, uses a variable before",
        ),
        (graph([], [Variable((), "float32")]), "an output is never assigned"),
        (graph([Equation(EXP, (X,), {}, X)], []), "equation 0, exp, assigns a variable that is"),
        (graph([], [], inputs=(X, X)), "an input or constant assigns a variable that is assigned"),
        (
            graph([Equation(EXP, (X,), {}, Variable((3, 2), "float32"))], []),
            r"exp gives float32\[2,3\], but its output is declared as float32\[3,2\]",
        ),
        (
            graph([Equation(EXP, (X,), {}, Variable((2, 3), "float64"))], []),
            r"exp gives float32\[2,3\], but its output is declared as float64\[2,3\]",
        ),
        (
            graph([Equation(PRIMITIVES["matmul"], (X, X), {}, Variable((2, 2), "float32"))], []),
            "matmul does not take its operands: matmul: shapes",
        ),
    ],
)
def test_a_broken_graph_is_detected(broken, message):
    with pytest.raises(GraphError, match=message):
        broken.verify()
