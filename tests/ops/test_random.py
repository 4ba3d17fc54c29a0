"""Dropout masks are functions of their arguments."""

import numpy as np
import pytest

from sknet import ops, vmap
from sknet.compile import compile
from sknet.core import Tensor, capturing
from sknet.device import Device, active, to_device, to_host
from sknet.exceptions import CaptureError


def mask(p=0.3, *, shape=(200, 50), key=(1, 2), step=0, site=0, dtype="float32", device="cpu"):
    return ops.dropout_mask(shape, p, key=key, step=step, site=site, dtype=dtype, device=Device(device))


def test_keeps_expectations():
    values = mask().numpy()
    assert np.unique(values).tolist() == [0.0, np.float32(1 / 0.7)]
    assert abs((values == 0).mean() - 0.3) < 0.02
    assert abs(values.mean() - 1) < 0.02


@pytest.mark.parametrize(("p", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_all_or_nothing(p, expected):
    assert (mask(p).numpy() == expected).all()


@pytest.mark.parametrize("other", [{"key": (2, 1)}, {"step": 1}, {"site": 1}])
def test_depends_on_the_counter_alone(other):
    np.testing.assert_array_equal(mask().numpy(), mask().numpy())
    agree = (mask().numpy() == mask(**other).numpy()).mean()
    assert abs(agree - (0.7**2 + 0.3**2)) < 0.02  # as often as chance has it


def test_same_places_in_every_precision_and_on_every_device(fake_device):
    single, double = mask().numpy(), mask(dtype="float64").numpy()
    assert (single.dtype, double.dtype) == ("float32", "float64")
    np.testing.assert_array_equal(single == 0, double == 0)
    elsewhere = mask(device=fake_device.kind)
    assert elsewhere.device == fake_device
    np.testing.assert_array_equal(elsewhere.numpy(), single)
    meta = mask(device="meta")
    assert (meta.shape, meta.dtype) == ((200, 50), "float32")


def test_has_no_gradient():
    assert not mask(step=Tensor(3)).requires_grad


def test_a_constant_step_is_not_captured():
    with capturing(), pytest.raises(CaptureError, match="the step of the random stream is 4, a constant"):
        mask(step=4)


# -- several streams --------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "fake"])
@pytest.mark.parametrize(("p", "dtype"), [(0.3, "float32"), (0.25, "float64"), (1.0, "float32")])
def test_streams_that_are_mapped_draw_what_each_draws(device, p, dtype, fake_device):
    keys, steps = [(1, 2), (2**62 + 1, 5), (7, 2**62)], [0, 4, 2]

    def masked(low, high, step):
        return mask(p, shape=(5, 3), key=(low, high), step=step, site=1, dtype=dtype, device=device) * 2.0

    given = [to_device(np.array(x), Device(device)) for x in (*zip(*keys, strict=True), steps)]
    with active(Device(device)):
        found = [vmap(masked)(*given).numpy(), to_host(compile(vmap(masked), tuple(given))(*given))]
    each = [
        mask(p, shape=(5, 3), key=key, step=step, site=1, dtype=dtype).numpy()
        for key, step in zip(keys, steps, strict=True)
    ]
    for masks in found:
        np.testing.assert_array_equal(masks, 2 * np.stack(each))
        assert masks.dtype == dtype


def test_a_rate_that_is_an_input_is_the_rate_of_a_mapped_stream():
    rates, keys, steps = np.float32([0.2, 0.7]), np.array([3, 4]), np.array([1, 0])
    found = vmap(lambda p, k, n: mask(p, key=(k, k), step=n))(rates, keys, steps).numpy()
    for masks, p, k, n in zip(found, rates, keys.tolist(), steps.tolist(), strict=True):
        np.testing.assert_array_equal(masks, mask(Tensor(p), key=(k, k), step=n).numpy())
