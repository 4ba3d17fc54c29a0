"""A fit that takes turns with others: its rows alone count, and what its callbacks train they train alone."""

import gc
import weakref

import numpy as np
import pytest

from sknet import Model, nn
from sknet.callbacks import Callback
from sknet.engine import fit_many
from sknet.optim import SGD
from tests.engine.loop.test_stacks import LABELS, RNG, X, assert_same, network

EPOCHS = {"epochs": 3, "batch_size": 16}


def made(device, count=3):
    return [
        Model(
            network(nn.Tanh()), "log_loss", SGD(0.1 * (i + 1)), random_state=i, dtype="float64", device=device
        )
        for i in range(count)
    ]


def probe(device, hook):
    """Return a callback that trains another model in a hook."""
    losses = []

    def trains(self, fit):
        [model] = made(device, 1)
        losses.append(model.fit(X, LABELS, **EPOCHS)["loss"])

    return type("Probe", (Callback,), {hook: trains})(), losses


@pytest.mark.parametrize("hook", ["on_fit_begin", "on_epoch_end", "on_fit_end"])
@pytest.mark.parametrize("is_on_device", [True, False])
def test_callbacks_may_train_other_models(fake_device, hook, is_on_device):
    place = fake_device if is_on_device else "cpu"
    callback, losses = probe(place, hook)
    models, twins, [alone] = made(fake_device), made(fake_device), made(place, 1)
    histories = fit_many(models, X, LABELS, callbacks=[callback], **EPOCHS)
    for model, history, twin in zip(models, histories, twins, strict=True):
        assert_same(model, history, twin, twin.fit(X, LABELS, **EPOCHS))
    expected = alone.fit(X, LABELS, **EPOCHS)["loss"]
    assert len(losses) == len(models) * (3 if hook == "on_epoch_end" else 1)
    for found in losses:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_targets_of_callbacks_are_not_kept(fake_device):
    """As would be those of a callback that draws others for each of many epochs, from which it learns."""
    drawn, alive = [], []

    class Draws(Callback):
        def on_epoch_end(self, fit):
            gc.collect()
            alive.append(sum(each() is not None for each in drawn))
            targets = RNG.permutation(LABELS)
            drawn.append(weakref.ref(targets))
            made(fake_device, 1)[0].fit(X, targets, **EPOCHS)

    fit_many(made(fake_device), X, LABELS, callbacks=[Draws()], **EPOCHS)
    assert max(alive) <= 1


def test_targets_and_weights_of_other_rows_do_not_matter(fake_device):
    """Such as those of rows without a label."""
    labels, weight = np.where(np.arange(len(X)) < 40, LABELS, -1), np.where(np.arange(len(X)) < 40, 1.0, -1.0)
    rows = [np.arange(0, 30), np.arange(10, 40), np.arange(-45, -15)]
    models, twins = made(fake_device), made(fake_device)
    histories = fit_many(models, X, labels, weight, rows=rows, **EPOCHS)
    for model, history, twin, part in zip(models, histories, twins, rows, strict=True):
        assert_same(model, history, twin, twin.fit(X[part], labels[part], weight[part], **EPOCHS))


@pytest.mark.filterwarnings("ignore:.* negative weights")
def test_rows_of_a_fit_are_checked(fake_device):
    rows = [np.arange(30), np.arange(30)]
    with pytest.raises(ValueError, match=r"y\[29\] is -1"):
        fit_many(made(fake_device, 2), X, np.where(np.arange(len(X)) == 29, -1, LABELS), rows=rows, **EPOCHS)
    weight = np.where(np.arange(len(X)) == 29, -1e6, 1.0)
    with pytest.raises(ValueError, match="sample_weight must have a positive sum, got -"):
        fit_many(made(fake_device, 2), X, LABELS, weight, rows=rows, **EPOCHS)
