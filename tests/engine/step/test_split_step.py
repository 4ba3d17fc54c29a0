import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.engine._inputs import Batch
from sknet.engine._remote import SplitStep
from sknet.exceptions import CaptureError, NonFiniteError
from sknet.losses import SquaredError
from sknet.optim import SGD, Adam


class Counting(nn.Module):
    """A network whose code cannot be captured: it reads a value."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, x):
        return self.inner(x) * (1.0 if float(x.data.sum()) > -1e9 else 2.0)


def sequential():
    return nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
    )


def rows(n_rows, seed, is_weighted):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_rows, 4)), rng.normal(size=(n_rows, 1))
    return Batch(X, y, rng.uniform(0.5, 2.0, n_rows) if is_weighted else None)


def fill(room, batch):
    for slot, array in zip(room, batch, strict=True):
        if slot is not None:
            slot[...] = array


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("optimizer", [Adam(), SGD(momentum=0.9)], ids=["adam", "sgd"])
@pytest.mark.parametrize("compile_", ["auto", False])
def test_the_two_halves_are_a_step(compile_, optimizer, is_weighted):
    models = [
        Model(sequential(), "squared_error", optimizer, alpha=0.1, dtype="float64", random_state=0, compile=c)
        for c in (compile_, False)
    ]
    step = SplitStep(models[0])
    for number in range(12):  # of more numbers of rows than programs are kept for
        batch = rows(3 + number, number, is_weighted)
        room = step.room(batch)
        fill(room, batch)
        share, result = step.compute(room), models[1].step(*batch)
        np.testing.assert_allclose(step.gradient, result.gradient.flat, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(share.output, result.output.data, rtol=1e-10)
        assert share.loss + share.penalty == pytest.approx(result.loss, rel=1e-12)
        step.update()
    assert models[0].progress == models[1].progress
    for name, array in models[1].state.parameters.items():
        np.testing.assert_allclose(models[0].parameters[name], array, rtol=1e-8, atol=1e-12)
    for name, array in models[1].buffers.items():
        np.testing.assert_allclose(models[0].buffers[name], array, rtol=1e-10)


def test_the_update_reads_what_became_of_the_gradient():
    model = Model(nn.Linear(4, 1), optimizer=SGD(lr=0.5), random_state=0)
    step, batch = SplitStep(model), rows(5, 0, False)
    room = step.room(Batch(*(None if x is None else x.astype("f4") for x in batch)))
    fill(room, batch)
    step.compute(room)
    before = model.memory.flat.copy()
    step.gradient[:] = 2.0
    step.update()
    np.testing.assert_allclose(model.memory.flat, before - 1.0, rtol=1e-6)


def test_what_cannot_be_captured_is_eager_with_a_warning():
    model, batch = Model(Counting(), dtype="float64", random_state=0), rows(5, 0, False)
    step = SplitStep(model)
    with pytest.warns(UserWarning, match="the training step is not compiled"):
        room = step.room(batch)
    fill(room, batch)
    twin = Model(Counting(), dtype="float64", random_state=0, compile=False)
    assert step.compute(room).loss == pytest.approx(twin.step(*batch).loss)
    strict = SplitStep(Model(Counting(), dtype="float64", random_state=0, compile=True))
    with pytest.raises(CaptureError):
        strict.room(batch)


def test_a_gradient_that_is_not_finite_is_named():
    model = Model(nn.Linear(4, 1), SquaredError(), dtype="float64", random_state=0)
    step = SplitStep(model)
    room = step.room(rows(5, 0, False))
    fill(room, rows(5, 0, False))
    room.X[0, 0] = np.inf
    with np.errstate(all="ignore"):
        loss = step.compute(room).loss
    with pytest.raises(NonFiniteError, match="gradient of parameter 'weight' is not finite"):
        step.check(loss)
    assert ops.all(ops.isfinite(model.parameters["weight"])).item()
