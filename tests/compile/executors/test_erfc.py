"""The complementary error function of plans."""

import numpy as np
import pytest
from scipy import special

from sknet import config_context, ops
from sknet.compile import compile

EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 11.0, -11.0], np.float32)


def planned(x, exact=False, function=ops.erfc):
    return compile(function, (x,), exact=exact)(x).copy()


@pytest.mark.parametrize("size", [100, 2048, 16384, 50001])
def test_it_is_exact_to_some_units_in_the_last_place(size):
    x = np.random.default_rng(0).uniform(-9.2, 9.2, size).astype(np.float32)
    expected = special.erfc(x.astype(np.float64))
    np.testing.assert_allclose(planned(x), expected, rtol=6e-7)


def test_edges_are_those_of_scipy():
    x = np.resize(EDGES, 4096)
    found, expected = planned(x), special.erfc(x)
    np.testing.assert_array_equal(found, expected)


def test_small_results_are_those_of_scipy():
    x = np.linspace(9.0, 10.5, 5000, dtype=np.float32)
    np.testing.assert_allclose(planned(x), special.erfc(x), rtol=1e-6, atol=1e-44)


def test_exact_plans_and_double_precision_call_scipy():
    x = np.random.default_rng(0).standard_normal(5000)
    np.testing.assert_array_equal(planned(x), special.erfc(x))
    x = x.astype(np.float32)
    np.testing.assert_array_equal(planned(x, exact=True), special.erfc(x))


@pytest.mark.parametrize("view", [lambda x: ops.permute_dims(x, (1, 0)), lambda x: x[:, ::2]])
def test_an_operand_that_is_not_contiguous(view):
    x = np.random.default_rng(0).standard_normal((100, 200)).astype(np.float32)
    found = planned(x, function=lambda x: ops.erfc(view(x)) + 1.0)
    np.testing.assert_allclose(found, planned(x, True, lambda x: ops.erfc(view(x)) + 1.0), rtol=1e-6)


@pytest.mark.parametrize("size", [2048, 16384, 50001])
def test_native_code_leaves_the_same_bits(size):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    x = np.concatenate([EDGES, np.random.default_rng(0).uniform(-11, 11, size).astype(np.float32)])
    found = {}
    for native in ("never", "always"):
        with config_context(native=native):
            found[native] = planned(x), planned(x, function=lambda x: ops.erfc(x * -1.0))
    for ours, theirs in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_large_arrays_in_blocks_and_in_place():
    x = np.random.default_rng(0).standard_normal((300, 1000)).astype(np.float32)
    found = planned(x, function=lambda x: ops.erfc(x * 2.0) * x + ops.exp(x))
    expected = special.erfc(x.astype(float) * 2) * x + np.exp(x.astype(float))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=3e-6)
