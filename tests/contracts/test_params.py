"""Parameters of primitives are declared by type: source that is generated from them holds no text."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import Equation, Graph, capture
from sknet.core import PRIMITIVES, Primitive
from sknet.exceptions import GraphError
from tests.contracts.rows import ROWS
from tests.contracts.table import drawn

CODE = "(print('run') or 1) if %d else 1"
slot = ops.SparseSlot((3, 4), "float32")
CAPTURED = [drawn(row, case, "float32") for row in ROWS if row.op != "sparse_matmul" for case in row.cases]
HELD = {}  # primitives, with an equation for each of their parameters
for function, arrays in [*CAPTURED, (lambda y: ops.matmul(slot, y), [np.ones((4, 2), "float32")])]:
    for equation in capture(function, *arrays).equations:
        for name in equation.params:
            HELD.setdefault((equation.primitive.name, name), equation)


def test_all_primitives_with_parameters_declare_them():
    assert len(HELD) > 60
    for (name, param), equation in HELD.items():
        assert param in equation.primitive.params, f"{name} has {param}"
    declared = {(name, param) for name, each in PRIMITIVES.items() for param in each.params or ()}
    assert declared >= set(HELD)
    assert {param for _, param in declared - set(HELD)} <= {"from_end"}  # has a default


@pytest.mark.parametrize("key", HELD, ids="-".join)
@pytest.mark.parametrize(
    "value", [CODE, (CODE,), ((CODE, CODE),), b"1", object(), 1j, {CODE: 1}, slice(CODE)]
)
def test_texts_and_objects_are_refused(key, value):
    equation, param = HELD[key], key[1]
    params = {**equation.params, param: value}
    with pytest.raises(TypeError, match=rf"{key[0]}: {param} must be "):
        Equation(equation.primitive, equation.operands, params)
    unchecked = Equation(equation.primitive, equation.operands, params, equation.output)
    with pytest.raises(GraphError, match=rf"{param} must be "):
        Graph(unchecked.variables, {}, [unchecked], [unchecked.output]).verify()


def test_unknown_parameters_are_refused():
    equation = HELD["sum", "axis"]
    with pytest.raises(TypeError, match="sum has no parameter 'axes': it has axis, keepdims"):
        Equation(equation.primitive, equation.operands, {"axes": (-1,)})
    for name, primitive in PRIMITIVES.items():
        if primitive.params is None and not primitive.tape_only:
            with pytest.raises(TypeError):
                primitive.result((np.ones((2, 2)),), {"xyz": CODE})
            assert (name, "xyz") not in HELD


def test_axes_that_the_operand_does_not_have_are_refused():
    equation = HELD["sum", "axis"]
    for axis in (0, 5, -9):
        with pytest.raises(TypeError, match=r"sum: axis must be a tuple, and each item an axis"):
            Equation(equation.primitive, equation.operands, {**equation.params, "axis": (axis,)})


def test_others_may_declare_theirs():
    primitive = Primitive("declaring").define(
        forward=lambda xp, x, *, mode: x,
        shape=lambda x, mode: (x.shape, x.dtype),
        params={"mode": PRIMITIVES["searchsorted"].params["side"]},
        vjp=None,
    )
    try:
        assert primitive.result((np.ones(3),), {"mode": "left"}) == ((3,), np.float64)
        with pytest.raises(TypeError, match="declaring: mode must be one of 'left', 'right', got 'c'"):
            primitive.result((np.ones(3),), {"mode": "c"})
    finally:
        del PRIMITIVES["declaring"]
