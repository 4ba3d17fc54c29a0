"""Constants keep values and layout of what a captured function used, and are told apart by both."""

from collections.abc import Callable

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import capture, compile
from sknet.compile._constant import constant_key, is_uniform, snapshot

RNG = np.random.default_rng(0)
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "broadcast number": lambda x: np.broadcast_to(x.flat[0], x.shape),
    "broadcast row": lambda x: np.broadcast_to(x[:1], x.shape),
    "broadcast column": lambda x: np.broadcast_to(x[:, :1].copy(), x.shape),
    "uniform": lambda x: np.full_like(x, x.flat[0]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_snapshot_has_the_strides_of_its_source(layout):
    x = LAYOUTS[layout](RNG.normal(size=(3, 4)))
    copy = snapshot(x)
    assert copy.strides == x.strides
    assert (copy == x).all()
    assert not copy.flags.writeable
    assert not np.may_share_memory(copy, x)


def test_a_snapshot_of_a_part_is_compact():
    assert snapshot(RNG.normal(size=(100, 100))[::10, ::10]).strides == (80, 8)
    assert snapshot(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_with_constants_round_as_calls_do(layout, dtype):
    """BLAS rounds differently for transposed and for broadcast factors."""
    for n_rows, n_inner, n_columns in RNG.integers(1, 20, (20, 3)):
        constant = LAYOUTS[layout](RNG.normal(size=(n_rows, n_inner)).astype(dtype))
        x = RNG.normal(size=(n_inner, n_columns)).astype(dtype)

        def product(x, constant=constant):
            return constant @ ops.exp(x)

        assert np.array_equal(compile(product, (x,), exact=True)(x), product(Tensor(x)).numpy())
        np.testing.assert_allclose(compile(product, (x,))(x), constant @ np.exp(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1)])
def test_a_product_over_one_element_is_nan_for_zero_times_infinity(shape):
    x = np.array([[0.0]]) if shape[0] == 1 else np.array([[0.0], [1.0], [2.0], [np.inf]])
    y = np.full((1, shape[1]), np.inf)
    with np.errstate(invalid="ignore"):
        for exact in (True, False):
            found = compile(lambda x, y: x @ y, (x, y), exact=exact)(x, y)
            assert np.array_equal(found, x @ y, equal_nan=True)


def test_programs_of_other_layouts_differ():
    x = np.ones((3, 3))
    constants = [make(x) for make in LAYOUTS.values()]
    keys = {capture(lambda y, k=k: k @ y, np.ones((3, 2))).key() for k in constants}
    assert len(keys) == 5  # "uniform" is C-contiguous
    assert constant_key(x) != constant_key(np.broadcast_to(1.0, (3, 3)))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.ones((2, 3)), True),
        (np.broadcast_to(2.0, (2, 3)), True),
        (np.array(1.0), True),
        (np.full(3, np.nan), True),
        (np.empty((0, 2)), False),
        (np.array([0.0, -0.0]), False),
        (np.array([1.0, 2.0, 1.0]), False),
    ],
)
def test_uniform_arrays_have_one_number(array, expected):
    assert is_uniform(array) is expected
