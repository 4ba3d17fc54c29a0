"""Values that a capture would silently freeze raise an error that names the line; or are documented here."""

import re

import numpy as np
import pytest
import scipy.sparse

from sknet import Tensor, nn, ops
from sknet.compile import capture, compile
from sknet.core import gradients
from sknet.device import MetaArray
from sknet.exceptions import CaptureError, DtypeError, ShapeError

X = np.arange(6.0).reshape(2, 3)
VALUE = r"the value of a tensor is read .* of shape \(.*\), in .*test_footguns.py, line \d+: `.*`"


def branches(x):
    return x if x.sum() > 0 else -x


def loops(x):
    while ops.max(x) < 10:
        x = x * 2
    return x


VALUES = {
    "branch": branches,
    "loop": loops,
    "bool": lambda x: x * bool(x[0, 0] > 0),
    "float": lambda x: x * float(x[0, 0]),
    "int": lambda x: x * int(x[0, 0]),
    "item": lambda x: x * x[0, 0].item(),
    "numpy": lambda x: x * x.numpy(),
    "array": lambda x: x * np.asarray(x),
    "array's array": lambda x: x * np.asarray(x.data),
    "text": lambda x: x * float(f"{x[0, 0].item():.3f}"),
    "range": lambda x: sum(range(int(x.sum()))),
}


@pytest.mark.parametrize("function", VALUES.values(), ids=VALUES)
def test_values_are_not_available(function):
    with pytest.raises(CaptureError, match=VALUE):
        capture(function, X)


def test_the_line_is_the_users():
    with pytest.raises(CaptureError, match=re.escape("`return x if x.sum() > 0 else -x`")):
        capture(branches, X)


def test_array_functions_of_the_array():
    with pytest.raises(CaptureError, match=r"'mean' of a tensor's array is read, of shape .* in .*`"):
        capture(lambda x: x - x.data.mean(), X)
    with pytest.raises(TypeError, match="does not support ufuncs"):
        capture(lambda x: Tensor(np.exp(x.data)), X)


def test_writing_into_the_array():
    def writes(x):
        x.data[0] = 0.0
        return x

    with pytest.raises(CaptureError, match="a tensor's array is written to, of shape"):
        capture(writes, X)


def test_a_computed_index():
    message = r"getitem is given a computed index, in .*ops.take or ops.take_along_axis, .* or ops.where"
    with pytest.raises(CaptureError, match=message):
        capture(lambda x, i: x[:, i], X, np.array([0, 1]))
    with pytest.raises(CaptureError, match=message):
        capture(lambda x: x[x > 2], X)


def test_computed_rows():
    """Allowed, since their number is known."""
    compiled = compile(lambda x, i: x[i], (X, np.array([0, 1])))
    for i in ([0, 1], [1, -1]):
        np.testing.assert_array_equal(compiled(X, np.array(i)), X[i])


@pytest.mark.parametrize("op", [ops.nonzero, ops.unique_values], ids=lambda op: op.__name__)
def test_shapes_that_depend_on_values(op):
    message = f"{op.__name__}: the shape of the result depends on values, which a captured function does not"
    with pytest.raises(CaptureError, match=message):
        capture(op, X)


def test_computed_repetitions():
    with pytest.raises(CaptureError, match=VALUE):
        capture(lambda x, n: ops.repeat(x, n), X, np.array([1, 2]))


def test_a_tensor_that_is_trained_but_not_passed():
    weight = Tensor(np.ones(3), requires_grad=True)
    message = r"a tensor of shape \(3,\) that requires a gradient is used as a constant, in .*Pass it"
    with pytest.raises(CaptureError, match=message):
        capture(lambda x: x * weight, X)
    with pytest.raises(CaptureError, match=message):
        capture(lambda x: x * (weight * 2), X)


def test_a_modules_own_parameters():
    layer = nn.Linear(3, 2)
    layer.initialize(0)
    with pytest.raises(CaptureError, match=r"a tensor of shape \(3, 2\) that requires a gradient"):
        capture(lambda x: nn.functional_call(layer, {}, x)[0], X.astype(np.float32))


def test_a_random_stream_without_a_counter():
    def draws(x, step):
        return nn.functional_call(nn.Dropout(0.5), {}, x, key=(1, 2), step=step)[0]

    with pytest.raises(CaptureError, match="the step of the random stream is 0, a constant"):
        capture(draws, X, 0)
    compiled = compile(draws, (X, np.array(0)), exact=True)
    for step in (0, 1, 1):
        expected = draws(Tensor(X), Tensor(np.array(step))).numpy()
        np.testing.assert_array_equal(compiled(X, np.array(step)), expected)


def test_state_that_leaks():
    kept = []
    capture(lambda x: kept.append(x * 2) or x, X)
    with pytest.raises(CaptureError, match="a tensor from inside a captured function is used by add after"):
        kept[0] + 1
    with pytest.raises(CaptureError, match="a tensor from inside another captured function is used, in"):
        capture(lambda x: x + kept[0], X)


def test_a_sparse_matrix():
    matrix = scipy.sparse.csr_array(X)
    with pytest.raises(CaptureError, match="a sparse matrix cannot be an argument of a captured function"):
        capture(lambda m, w: ops.matmul(m, w), matrix, np.ones((3, 2)))
    with pytest.raises(CaptureError, match=r"sparse_matmul is given a sparse matrix, in .* would be frozen"):
        capture(lambda w: ops.matmul(matrix, w), np.ones((3, 2)))


def test_an_unknown_operand():
    with pytest.raises(DtypeError, match="got dtype complex128"):
        capture(lambda x: x * 1j, X)


def test_an_array_without_data():
    empty = Tensor(MetaArray((3,), "float64"))
    with pytest.raises(CaptureError, match=r"an array without data, of shape \(3,\), is used as a constant"):
        capture(lambda x: x * empty, X)


def test_another_number():
    compiled = compile(lambda x, p: x * p, (X, 2.0))
    with pytest.raises(CaptureError, match=r"argument 1 was 2\.0 when .* captured, and is 3\.0 now"):
        compiled(X, 3.0)


def test_another_shape_dtype_or_structure():
    compiled = compile(lambda x: x["a"] * 2, ({"a": X},))
    with pytest.raises(ShapeError, match=r"argument 0.a must have shape \(2, 3\), as captured, got \(3,\)"):
        compiled({"a": X[0][:3]})
    with pytest.raises(DtypeError, match=r"argument 0.a must have dtype float64, as captured, got float32"):
        compiled({"a": X.astype("float32")})
    with pytest.raises(CaptureError, match=r"leaves at \['0.a'\], got \['0.b'\]"):
        compiled({"b": X})


def test_constants_are_those_of_the_capture():
    """Documented, not an error: an array that is used but not passed keeps its captured value."""
    scale = np.ones(3)
    compiled = compile(lambda x: x * scale, (X,))
    scale[:] = 7.0
    np.testing.assert_array_equal(compiled(X), X)


def test_iteration_is_unrolled():
    """Documented, not an error: the number of rows is part of the shape."""
    compiled = compile(lambda x: x[0] + sum(x[i] for i in range(1, len(x))), (X,))
    np.testing.assert_array_equal(compiled(X), X.sum(0))


def test_shapes_may_be_branched_on():
    """Documented, not an error: another shape is another capture."""
    graph = capture(lambda x: x.sum() if x.shape[0] == 2 and x.ndim == 2 else x, X)
    assert graph.outputs[0].shape == ()


def test_a_traced_tensor_has_a_repr():
    shown = []
    capture(lambda x: shown.append(repr(x)) or x, X)
    assert shown == ["Tensor(shape=(2, 3), dtype=float64)"]


def test_errors_inside_are_the_usual_ones():
    with pytest.raises(ShapeError, match=r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit"):
        capture(lambda x: x @ x, X)
    with pytest.raises(ShapeError, match="do not broadcast"):
        capture(lambda x: Tensor(np.ones(4)) + x, X)


def test_gradients_inside():
    def slope(x):
        x.requires_grad = True
        return gradients((x**3).sum(), [x])[0]

    np.testing.assert_allclose(compile(slope, (X,))(X), 3 * X**2)
