"""Accuracy of outputs on a device, where it is counted, against that of the same outputs on the host."""

import numpy as np
import pytest

from sknet.device import to_device
from sknet.engine import Accuracy
from sknet.engine._device_runner import counted
from tests.devices import fake

N = 1000


def arrays(kind, columns, dtype, target, seed=0):
    rng = np.random.default_rng(seed)
    output = rng.integers(-3, 4, size=(N, columns)).astype(dtype)  # with equal ones
    if kind == "classes":
        return output, rng.integers(columns, size=N).astype(target)
    return output, rng.integers(2, size=(N, columns)).astype(target)


def scored(output, target, threshold=0.0):
    score = Accuracy(threshold)
    for part in (slice(0, 300), slice(300, 301), slice(301, N)):
        score.add(output[part], target[part], None)
    return score


CASES = [
    *[("classes", n, target) for n in (2, 3, 70) for target in ("int32", "int64")],
    *[("labels", n, target) for n in (1, 4) for target in ("float32", "float64")],
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "columns", "target"), CASES)
def test_it_is_that_of_the_host(kind, columns, dtype, target, fake_device):
    output, labels = arrays(kind, columns, dtype, target)
    for threshold in (0.0, -1.0):
        with fake.counted() as counts:
            there = scored(to_device(output, fake_device), to_device(labels, fake_device), threshold)
        assert counts.kernels == counts.reads == 3
        assert there.state() == scored(output, labels, threshold).state()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("kind", "columns", "target"), [("classes", 3, "int64"), ("labels", 2, "float32")])
def test_what_is_not_finite_has_no_score(bad, kind, columns, target, fake_device):
    output, labels = arrays(kind, columns, "float32", target)
    output[700, columns - 1] = bad
    assert np.isnan(scored(to_device(output, fake_device), to_device(labels, fake_device)).result())


@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_target_that_is_no_class_is_named(wrong, fake_device):
    output, labels = arrays("classes", 3, "float32", "int64")
    labels[400] = wrong
    with pytest.raises(ValueError, match=f"Accuracy got the class number {wrong}: expected 0 to 2"):
        scored(to_device(output, fake_device), to_device(labels, fake_device))


def test_other_arrays_are_scored_by_the_host(fake_device):
    output, labels = arrays("classes", 3, "float32", "int64")
    assert counted(output, labels, 0.0) is None
    there = to_device(output, fake_device), to_device(labels, fake_device)
    assert counted(there[0], labels, 0.0) is None
    assert counted(there[0][:, ::2], there[1], 0.0) is None
    assert counted(there[0], there[1][:10], 0.0) is None
    single = to_device(output[:, :1], fake_device)
    assert counted(single, there[1], 0.0) is None  # labels of one output
    weight = np.linspace(0, 1, N)
    weighted = Accuracy()
    weighted.add(*there, weight)
    expected = Accuracy()
    expected.add(output, labels, weight)
    assert weighted.state() == expected.state()
