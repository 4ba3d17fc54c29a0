"""A device without memory: the error says what a step takes and what to lower, and nothing has changed."""

import re
from contextlib import nullcontext

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn
from sknet.compile import compile
from sknet.device import active, backend, to_device, to_host
from sknet.engine import Batches, _runners
from sknet.engine._device_runner import DeviceSteps
from sknet.exceptions import DeviceError, DeviceMemoryError
from tests.callbacks.helpers import unconverged
from tests.devices import fake

RNG = np.random.default_rng(0)
X, CLASSES = RNG.normal(size=(50, 4)).astype("f4"), RNG.integers(0, 3, 50)
ADVICE = r"Lower batch_size, or use a smaller network or dtype='float32' \(Out of memory allocating"
FREE = r"[\d,]+ bytes are free\."


def fitted(estimator):
    with unconverged():
        return estimator.fit(X, CLASSES)


def test_an_estimator_is_as_it_was_whenever_memory_ends():
    estimator = MLPClassifier(
        (5,), max_iter=2, batch_size=16, random_state=0, device="fake", validation_fraction=0.2
    )
    before = fitted(estimator).predict_proba(X)
    count, messages, causes = 0, set(), set()
    estimator.set_params(hidden_layer_sizes=(7,))
    while True:
        with fake.allocating(count):
            try:
                fitted(estimator)
                break
            except DeviceMemoryError as error:
                messages.add(re.sub(r"[\d,]+ bytes", "N bytes", str(error)))
                causes.add(type(error.__cause__))
        assert [c.shape for c in estimator.coefs_] == [(4, 5), (5, 3)]
        np.testing.assert_array_equal(estimator.predict_proba(X), before)
        count += 1
    assert count > 20
    assert causes == {fake.FakeOutOfMemoryError}
    assert [c.shape for c in estimator.coefs_] == [(4, 7), (7, 3)]
    assert all(re.search(ADVICE, message) for message in messages)
    assert any("where the plan of a step on 16 rows takes N bytes" in message for message in messages)


def steps_on(device, size=8, rows=X):
    model = Model(nn.Linear(4, 3), "log_loss", random_state=0, device=device)
    batches = Batches(rows, CLASSES, None, size, model.dtype, model.device)
    model.materialize(batches.X)
    return DeviceSteps(model, batches, True)


def test_the_message(fake_device):
    steps = steps_on(fake_device)
    nbytes = steps.program_for(8).nbytes
    with fake.allocating(0), pytest.raises(DeviceError) as error:
        steps.run(None, 0)
    assert re.fullmatch(
        rf"device 'fake:0' is out of memory: in a fit with batches of 8 rows, for a step, where the plan of "
        rf"a step on 8 rows takes {nbytes:,} bytes, .*; {FREE} {ADVICE} .*\)",
        str(error.value),
    )


def test_a_block_ends_before_the_step_that_has_no_memory(fake_device, monkeypatch):
    """The rows are on the device, but do not fit there in the dtype of steps: each takes memory for some."""
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
    expected = steps_on(fake_device)
    for first in range(3):
        expected.run(None, first, 1)
    monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    steps = steps_on(fake_device, rows=to_device(X.astype("f8"), fake_device))
    sending = steps._rows.send

    def failing(order, start, n_rows, slots):
        with fake.allocating(0) if start >= 24 else nullcontext():
            sending(order, start, n_rows, slots)

    monkeypatch.setattr(steps._rows, "send", failing)
    assert len(steps.run(None, 0).losses) == 3
    with pytest.raises(DeviceMemoryError):
        steps.run(None, 3)
    assert steps.model.progress == expected.model.progress
    for name, values in expected.model.parameters.items():
        np.testing.assert_array_equal(to_host(steps.model.parameters[name]), to_host(values))


def test_rows_stay_on_the_host_if_free_memory_is_in_pieces(fake_device):
    model = Model(nn.Linear(4, 3), "log_loss", random_state=0, device=fake_device)
    batches = Batches(X, CLASSES, None, 8, model.dtype, model.device)
    model.materialize(batches.X)
    failing = fake.FakeBackend.from_host

    def full(self, array, device):
        with fake.allocating(0) if np.shape(array) == X.shape else nullcontext():
            return failing(self, array, device)

    with pytest.MonkeyPatch.context() as patch, active(fake_device):
        patch.setattr(fake.FakeBackend, "from_host", full)
        steps = DeviceSteps(model, batches, True)
    assert steps._rows._X is X
    assert len(steps.run(None, 0).losses)


def test_compiled_functions_and_arrays(fake_device):
    x = to_device(np.ones((30, 5)), fake_device)
    compiled = compile(lambda x: (x @ x.T) * 2.0, (x,))
    said = rf"plan of a compiled function takes {compiled.nbytes:,} bytes, .*; {FREE} {ADVICE}"
    with fake.allocating(1), pytest.raises(DeviceMemoryError, match=said):
        compiled(x)
    compiled(x)
    with fake.allocating(0):
        with pytest.raises(DeviceMemoryError, match=r"an array of shape \(2, 3\) takes 24 bytes;"):
            backend("fake").zeros((2, 3), "float32", fake_device)
        with pytest.raises(DeviceMemoryError, match=r"an array of shape \(7,\) takes 56 bytes;"):
            to_device(np.ones(7), fake_device)
