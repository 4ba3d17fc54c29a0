"""Activations at extreme inputs, where a naive formula overflows, against 50 digits."""

import math

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.compile import compile
from tests.combinations import every

mpmath = pytest.importorskip("mpmath", reason="computes the references with 50 digits")

POINTS = [-1e4, -745.0, -100.0, -30.0, -3.0, -1e-8, 0.0, 1e-8, 3.0, 30.0, 100.0, 745.0, 1e4]


def _sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def _log1p_exp(x):
    return mpmath.log1p(mpmath.exp(x))


REFERENCES = {
    ops.sigmoid: _sigmoid,
    ops.log_sigmoid: lambda x: -_log1p_exp(-x),
    ops.softplus: _log1p_exp,
    ops.silu: lambda x: x * _sigmoid(x),
    ops.mish: lambda x: x * mpmath.tanh(_log1p_exp(x)),
    ops.gelu: lambda x: x * mpmath.ncdf(x),
    ops.erfc: mpmath.erfc,
    ops.relu6: lambda x: min(max(x, mpmath.mpf(0)), mpmath.mpf(6)),
    ops.hardtanh: lambda x: min(max(x, mpmath.mpf(-1)), mpmath.mpf(1)),
    ops.hardsigmoid: lambda x: min(max(x + 3, mpmath.mpf(0)), mpmath.mpf(6)) / 6,
    ops.softsign: lambda x: x / (1 + abs(x)),
    ops.celu: lambda x: x if x > 0 else mpmath.expm1(x),
    ops.asinh: mpmath.asinh,
    ops.atan: mpmath.atan,
    ops.elu: lambda x: x if x > 0 else mpmath.expm1(x),
    ops.tanh: mpmath.tanh,
    ops.hardswish: lambda x: x * min(max(x + 3, mpmath.mpf(0)), mpmath.mpf(6)) / 6,
    ops.leaky_relu: lambda x: x if x > 0 else x * mpmath.mpf(0.01),
    ops.relu: lambda x: max(x, mpmath.mpf(0)),
    ops.erf: mpmath.erf,
    ops.log1p: lambda x: mpmath.log1p(x) if x > -1 else None,
    ops.expm1: lambda x: mpmath.expm1(x) if x < 700 else None,
}
ABSOLUTE = {ops.silu, ops.mish, ops.gelu, ops.hardswish, ops.hardsigmoid}  # relative to their largest slope


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


@pytest.mark.parametrize("op", REFERENCES, ids=lambda op: op.__name__)
@every(dtype=["float64", "float32"])
def test_extremes(op, dtype):
    exact = {x: REFERENCES[op](mpmath.mpf(float(np.dtype(dtype).type(x)))) for x in POINTS}
    limit = np.finfo(dtype).max
    points = [x for x, y in exact.items() if y is not None and abs(y) < limit]
    expected = np.array([float(exact[x]) for x in points])
    out = op(Tensor(points, dtype=dtype))
    eps = 8 * np.finfo(dtype).eps
    tiny = np.finfo(dtype).tiny  # smaller numbers have fewer digits
    np.testing.assert_allclose(out.numpy(), expected, rtol=eps, atol=10 * eps if op in ABSOLUTE else tiny)


@pytest.mark.parametrize("op", REFERENCES, ids=lambda op: op.__name__)
def test_gradients_at_the_extremes_are_finite(op):
    points = [x for x in POINTS if (x > -1 or op is not ops.log1p) and (x < 700 or op is not ops.expm1)]
    for dtype in ("float64", "float32"):
        x = Tensor(points if dtype == "float64" else [p for p in points if p < 80], dtype=dtype)
        assert np.isfinite(grad(lambda x: op(x).sum())(x).numpy()).all()


@pytest.mark.parametrize("op", [ops.softplus, ops.log_sigmoid, ops.sigmoid], ids=lambda op: op.__name__)
def test_integers_and_single_numbers(op):
    expected = op(Tensor(3.0)).item()
    for x in (3, np.uint8(3), np.int8(3), [3], np.array(3), Tensor(3)):
        assert op(x).numpy().reshape(()) == pytest.approx(expected, rel=1e-6)
    assert op(Tensor(np.array(3, "uint8"))).numpy() == pytest.approx(expected, rel=1e-3)


def test_gradients_at_the_kinks():
    at = Tensor([-3.0, 0.0, 3.0])
    assert grad(lambda x: ops.relu(x).sum())(at).numpy().tolist() == [0.0, 0.0, 1.0]
    assert grad(lambda x: ops.leaky_relu(x, 0.5).sum())(at).numpy().tolist() == [0.5, 0.5, 1.0]
    assert grad(lambda x: ops.elu(x).sum())(Tensor([0.0])).item() == 1.0
    np.testing.assert_allclose(grad(lambda x: ops.hardswish(x).sum())(at).numpy(), [-0.5, 0.5, 1.5])


def test_gelu_knows_two_formulas():
    assert ops.gelu(1.0, "tanh").item() == pytest.approx(0.841192, rel=1e-6)
    with pytest.raises(ValueError, match="gelu: approximate must be 'none' or 'tanh', got 'fast'"):
        ops.gelu(1.0, "fast")


@every(dtype=["float16", "float32", "float64"])
def test_derivatives_of_gelu_by_its_formula_are_constant_far_from_0(dtype):
    def slope(x):
        return grad(lambda x: ops.gelu(x, "tanh").sum())(x)

    far = {"float16": 200.0, "float32": 1e15, "float64": 1e120}[dtype]
    with np.errstate(over="ignore"):  # of the argument of the hyperbolic tangent
        found = [
            f(Tensor(np.array([-far, far], dtype))).numpy() for f in (slope, grad(lambda x: slope(x).sum()))
        ]
    np.testing.assert_array_equal(found, [[0, 1], [0, 0]])


@every(dtype=["float32", "float64"], exact=[False, True], n=[4, 100_000])
def test_compiled_activations_do_not_warn_where_others_do_not(dtype, exact, n):
    x = np.resize(np.array([-1000.0, 1000.0, -30.0, -1e4], dtype), n)

    def each(x):
        return ops.sigmoid(x), ops.silu(x), ops.glu(x), ops.gelu(x, "tanh")

    for mine, theirs in zip(compile(each, (x,), exact=exact)(x), each(Tensor(x)), strict=True):
        np.testing.assert_array_equal(mine, theirs.numpy())


@every(dtype=["float32", "float64"])
def test_a_sigmoid_sets_no_flags(dtype):
    limits = np.finfo(dtype)
    with np.errstate(all="raise"):
        found = ops.sigmoid(
            np.array([-1000, -88, 1000, limits.min, limits.max, -np.inf, np.inf], dtype)
        ).numpy()
    np.testing.assert_allclose(found[[0, 2, 3, 4, 5, 6]], [0, 1, 0, 1, 0, 1], atol=1e-300)


def test_selu_keeps_mean_and_variance():
    x = np.random.default_rng(0).standard_normal(200_000)
    out = ops.selu(x).numpy()
    assert abs(out.mean()) < 0.01
    assert abs(out.var() - 1) < 0.02
    assert math.isclose(ops.selu(-1e4).item(), -1.0507009873554805 * 1.6732632423543772)
