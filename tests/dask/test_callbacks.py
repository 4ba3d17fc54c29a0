"""Callbacks of fits over workers, and what they change there."""

import dask.array as da
import numpy as np
import pytest

from sknet import MLPClassifier, NetClassifier, callbacks, nn
from sknet.callbacks import Callback
from sknet.dask import fit
from tests.callbacks.test_contract import ROWS

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")


def parts(n_rows=120):
    X = np.random.default_rng(0).normal(size=(n_rows, 3)).astype("f4")
    return da.from_array(X, chunks=(n_rows // 3, 3)), da.from_array(
        (X[:, 0] > 0).astype(int), chunks=n_rows // 3
    )


def net(**params):
    return MLPClassifier((4,), **{"batch_size": 40, "max_iter": 2, "random_state": 0, **params})


REFUSED = {
    "Checkpoint": "has no state to save in between",
    "GradientMonitor": "needs the batches themselves, which a fit over workers lacks",
    "LearningRateFinder": "needs the batches themselves, which a fit over workers lacks",
}


class Trained(Callback):
    """Counts blocks of steps of all fits."""

    blocks = 0

    def on_block_end(self, fit):
        Trained.blocks += 1


@pytest.mark.parametrize("name", sorted(set(callbacks.__all__) - {"FitView"}))
def test_callbacks_work_or_say_why_not(client, tmp_path, name):
    estimator = net(callbacks=[ROWS[name].make(tmp_path), Trained()])
    Trained.blocks = 0
    if name not in REFUSED:
        assert estimator.fit(*parts()).n_iter_ == 2
        assert Trained.blocks
        return
    with pytest.raises(ValueError, match=REFUSED[name]):
        estimator.fit(*parts())
    assert not hasattr(estimator, "model_")
    assert not Trained.blocks


def test_a_bar_counts_the_batches_of_all_workers(client, capsys):
    assert net(verbose="bar").fit(*parts()).n_iter_ == 2
    assert "epoch 2/2 100%" in capsys.readouterr().err


def test_scores_of_rows_that_workers_hold_out_are_refused_by_what_is_true(client):
    scoring = callbacks.EpochScoring("accuracy")
    with pytest.raises(ValueError, match=r"in a fit over workers these hold them out. Monitor 'validation_"):
        net(early_stopping=True, callbacks=[scoring]).fit(*parts())
    with pytest.raises(ValueError, match="early_stopping=True holds some out"):
        net(callbacks=[scoring]).fit(*parts())


# -- changes of the model -----------------------------------------------------------------------------


class Changing(Callback):
    def __init__(self, change):
        self.change = change

    def on_epoch_end(self, fit):
        if fit.epoch == 1:
            self.change(fit.model)


def test_a_penalty_that_a_callback_sets_is_that_of_the_next_epoch(client):
    def penalize(model):
        model.adopt(model.optimizer, model.loss_function, 1000.0)

    changed, same = net(callbacks=[Changing(penalize)]), net()
    changed.fit(*parts())
    same.fit(*parts())
    assert changed.loss_curve_[0] == pytest.approx(same.loss_curve_[0])
    assert changed.loss_curve_[1] > 10 * same.loss_curve_[1]


class Normalized(nn.Module):
    def __init__(self, n_features, n_outputs, tracks=True):
        super().__init__()
        self.norm = nn.BatchNorm(n_features, track_running_stats=tracks)
        self.last = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.last(self.norm(x))


def test_buffers_that_a_callback_sets_are_those_of_the_next_epoch(client):
    def shift(model):
        model.memory.set_buffers({name: (x * 0 + 70).astype(x.dtype) for name, x in model.buffers.items()})

    params = {"batch_size": 40, "max_iter": 2, "random_state": 0}
    changed = NetClassifier(nn.ModuleFactory(Normalized), callbacks=[Changing(shift)], **params)
    changed.fit(*parts())
    assert changed.model_.buffers["norm.num_batches"] == 70 + 3
    assert (changed.model_.buffers["norm.running_mean"] > 30).all()


class Blocks(Callback):
    def __init__(self, steps_per_block):
        self.steps_per_block = steps_per_block
        self.lengths = []

    def on_block_end(self, fit):
        self.lengths.append(len(fit.losses))


def test_blocks_are_no_longer_than_a_callback_asks_for(client):
    """An epoch has 12 steps."""
    for every, asked, expected in ((1, 1, 1), (1, 5, 5), (2, 2, 2), (4, 5, 4), (100, 12, 12)):
        estimator = net(batch_size=10, max_iter=1)
        fit(estimator, *parts(), sync_every=every, callbacks=[Blocks(asked)])
        assert max(estimator.callbacks_[0].lengths) <= expected
        assert sum(estimator.callbacks_[0].lengths) == 12
    with pytest.raises(
        ValueError, match=r"Blocks asks for blocks of 3 steps, and with sync_every=4 .* after 4"
    ):
        fit(net(batch_size=10), *parts(), sync_every=4, callbacks=[Blocks(3)])


# -- statistics of batches ----------------------------------------------------------------------------


def test_layers_with_statistics_see_no_rows_but_those_of_the_batch(client):
    """Against a network of which the statistics cannot be those of padding, for it has buffers."""
    X, y = parts(1110)
    given = client.persist([X, y], workers=sorted(client.nthreads())[:1])
    fits = [
        NetClassifier(nn.ModuleFactory(Normalized, tracks=tracks), batch_size=101, max_iter=2, random_state=0)
        for tracks in (True, False)
    ]
    for each in fits:
        each.fit(*given)
    np.testing.assert_allclose(fits[1].loss_curve_, fits[0].loss_curve_, rtol=1e-6)
    tracked, bare = (each.model_.parameters for each in fits)
    for name, array in bare.items():
        np.testing.assert_allclose(array, tracked[name], rtol=1e-5, atol=1e-6)
