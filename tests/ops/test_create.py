"""Creation of arrays on every device; grids, and triangles."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.compile import compile
from sknet.device import Device
from sknet.exceptions import DeviceError, ShapeError

MADE = [
    (lambda **place: ops.zeros((2, 3), **place), np.zeros((2, 3))),
    (lambda **place: ops.ones(3, **place), np.ones(3)),
    (lambda **place: ops.full((2, 2), 1.5, **place), np.full((2, 2), 1.5)),
    (lambda **place: ops.eye(3, **place), np.eye(3)),
    (lambda **place: ops.eye(2, 4, -1, **place), np.eye(2, 4, -1)),
    (lambda **place: ops.arange(0.5, 4, 0.5, **place), np.arange(0.5, 4, 0.5)),
    (lambda **place: ops.linspace(-1, 1, 7, **place), np.linspace(-1, 1, 7)),
    (lambda **place: ops.linspace(0, 1, 4, endpoint=False, **place), np.linspace(0, 1, 4, False)),
]
NAMES = ["zeros", "ones", "full", "eye", "eye-below", "arange", "linspace", "linspace-open"]


@pytest.mark.parametrize(("make", "expected"), MADE, ids=NAMES)
class TestMade:
    def test_as_in_numpy(self, make, expected):
        out = make()
        assert (out.dtype, out.device) == (expected.dtype, Device("cpu"))
        assert not out.requires_grad
        np.testing.assert_array_equal(out.numpy(), expected)

    def test_of_a_dtype_on_a_device(self, make, expected, fake_device):
        out = make(dtype="float32", device=fake_device)
        assert (out.dtype, out.device) == (np.float32, fake_device)
        np.testing.assert_array_equal(out.numpy(), expected.astype("float32"))

    def test_without_data(self, make, expected):
        out = make(device="meta")
        assert (out.shape, out.dtype, out.device) == (expected.shape, expected.dtype, Device("meta"))

    def test_captured_as_constants(self, make, expected):
        compiled = compile(lambda x: make() * x, (np.array(2.0),))
        np.testing.assert_array_equal(compiled(np.array(3.0)), expected * 3)

    def test_on_a_device_that_is_not_there(self, make, expected):
        with pytest.raises(DeviceError, match="unknown device 'abacus'"):
            make(device="abacus")


def test_dtypes_that_follow_the_numbers():
    assert ops.arange(3).dtype == np.arange(3).dtype
    assert ops.full(2, 1).dtype == np.full(2, 1).dtype
    assert ops.full(2, True).dtype == bool
    assert ops.full_like(np.ones(2, "float32"), 1.5).dtype == "float32"
    assert ops.full_like(np.ones(2, "float32"), 1, dtype=int).numpy().tolist() == [1, 1]


def test_grid_refused():
    with pytest.raises(ShapeError, match=r"meshgrid: expected coordinates of one axis, got shape \(1, 1\)"):
        ops.meshgrid([1.0], [[1.0]])
    with pytest.raises(ValueError, match="meshgrid: indexing must be 'xy' or 'ij', got 'yx'"):
        ops.meshgrid([1.0], indexing="yx")


class TestTriangles:
    @pytest.mark.parametrize("op", [ops.tril, ops.triu], ids=lambda op: op.__name__)
    def test_what_is_cut_off_does_not_count(self, op):
        x = np.full((3, 3), np.nan)
        kept = np.tri(3, dtype=bool) if op is ops.tril else np.tri(3, dtype=bool).T
        x[kept] = 1.0
        np.testing.assert_array_equal(op(x).numpy(), kept * 1.0)
        np.testing.assert_array_equal(grad(lambda x: op(x).sum())(Tensor(x)).numpy(), kept * 1.0)

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32"])
    def test_dtypes_are_kept(self, dtype):
        assert ops.tril(np.ones((2, 2), dtype)).dtype == dtype

    @pytest.mark.parametrize("op", [ops.tril, ops.triu], ids=lambda op: op.__name__)
    def test_refused(self, op):
        with pytest.raises(ShapeError, match=rf"{op.__name__}: expected at least 2 axes, got shape \(3,\)"):
            op(np.ones(3))
