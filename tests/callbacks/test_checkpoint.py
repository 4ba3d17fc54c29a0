"""Checkpoint: what it writes and when, and its errors for files that cannot be used."""

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from sknet import MLPClassifier, MLPRegressor
from sknet.callbacks import Callback, Checkpoint
from sknet.exceptions import CallbackWarning, InvalidParameterError, LoadError
from sknet.optim import LBFGS, SGD
from sknet.persistence import read, write

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
QUIET = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
pytestmark = QUIET


def fitted(*callbacks, max_iter=5, resume_from=None, **params):
    told = {"random_state": 0, "batch_size": 16, "max_iter": max_iter, "callbacks": list(callbacks)} | params
    return MLPClassifier((5,), **told).fit(X, Y, resume_from=resume_from)


def epochs(folder):
    """Return the epoch of each file in a folder."""
    return {p.stem: read(p, "checkpoint")["loop"]["epoch"] for p in sorted(Path(folder).iterdir())}


class Writes(Callback):
    """Records the step and epoch at which a new file appears."""

    order = 2
    steps_per_block = 1

    def __init__(self, path):
        self.path = path

    def on_fit_begin(self, fit):
        self.seen = []

    def _look(self, fit):
        for file in Path(self.path).glob("last.*"):
            if read(file, "checkpoint")["loop"]["step"] not in self.seen:
                self.seen.append(fit.step)

    on_block_end = on_epoch_end = _look


WHEN = {1: [4, 8, 12, 16, 20], 2: [8, 16], "3 epochs": [12], "1 epoch": [4, 8, 12, 16, 20]}
WHEN |= {"3 steps": [3, 6, 9, 12, 15, 18], "6 step": [6, 12, 18], "0.000001 s": list(range(1, 21)), "1 h": []}


@pytest.mark.parametrize("every", WHEN, ids=str)
def test_how_often(tmp_path, every):
    clf = fitted(Checkpoint(tmp_path / "a", every=every), Writes(tmp_path / "a"))
    assert clf.callbacks_[1].seen[: len(WHEN[every])] == WHEN[every]
    assert epochs(tmp_path / "a")["last"] == 5  # the end is always saved


def test_times_are_those_of_a_clock(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    class Clock(Callback):
        steps_per_block = 1

        def on_block_end(self, fit):
            now[0] += 60.0

    folder = tmp_path / "a"
    clf = fitted(Checkpoint(folder, every="5 min"), Clock(), Writes(folder))
    assert clf.callbacks_[2].seen == [5, 10, 15, 20]


@pytest.mark.parametrize("every", [0, -1, 1.5, "", "often", "0 steps", "1.5 epochs", "5 days", "min", None])
def test_every_must_be_a_number_of_something(tmp_path, every):
    with pytest.raises(InvalidParameterError, match="The 'every' parameter of Checkpoint must be"):
        fitted(Checkpoint(tmp_path, every=every))


def test_the_last_the_one_before_and_the_best(tmp_path):
    class Score(Callback):
        order = -1

        def on_epoch_end(self, fit):
            fit.record["loss of mine"] = 0.0

    clf = fitted(Checkpoint(tmp_path), Score(), early_stopping=True, max_iter=6)
    best = 1 + int(np.argmin(clf.history_["validation_loss"]))
    assert epochs(tmp_path) == {"best": best, "last": 6, "previous": 5}
    weights = read(tmp_path / "best.safetensors", "checkpoint")["model"]["parameters"]
    for name, array in clf.model_.parameters.items():  # early stopping went back to it
        np.testing.assert_array_equal(weights[name], array)


class Losses(Callback):
    """Sets a different loss for every epoch."""

    order = -1

    def __init__(self, values):
        self.values = values

    def on_epoch_end(self, fit):
        fit.history["loss"][-1] = self.values[fit.epoch - 1]


@pytest.mark.parametrize("every", [1, 4, 5, "7 steps"])
@pytest.mark.parametrize("best", range(1, 10))
def test_the_best_is_that_of_all_epochs(tmp_path, every, best):
    fitted(Checkpoint(tmp_path, every=every), Losses([abs(n - best) for n in range(1, 10)]), max_iter=9)
    assert epochs(tmp_path)["best"] == best


def test_the_best_of_a_resumed_fit_is_that_of_the_whole(tmp_path):
    whole = fitted(Checkpoint(tmp_path / "a"), optimizer=SGD(3.0), max_iter=9)
    fitted(Checkpoint(tmp_path / "b"), optimizer=SGD(3.0), max_iter=6)
    again = fitted(Checkpoint(tmp_path / "b", resume=True), optimizer=SGD(3.0), max_iter=9)
    assert again.loss_curve_ == whole.loss_curve_
    assert epochs(tmp_path / "b") == epochs(tmp_path / "a")


def test_a_loss_that_is_not_a_number_is_never_the_best(tmp_path):
    fitted(Checkpoint(tmp_path), Losses([np.nan, 3.0, np.nan, 2.0, 5.0]))
    assert epochs(tmp_path)["best"] == 4


def test_a_folder_that_cannot_be_made_is_an_error_before_the_first_step(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        fitted(Checkpoint(tmp_path / "file"))


def test_a_failing_write_is_a_warning_and_the_fit_continues(tmp_path, monkeypatch):
    expected = fitted().loss_curve_

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sknet.persistence.write", fails)
    said = r"no checkpoint of epoch \d was written to .*: \[Errno 28\] No space left on device. The fit"
    with pytest.warns(CallbackWarning, match=said):
        assert fitted(Checkpoint(tmp_path)).loss_curve_ == expected


def test_leftovers_of_killed_processes_are_removed(tmp_path, monkeypatch):
    removed = []
    monkeypatch.setattr("sknet.persistence.remove_leftovers", removed.append)
    fitted(Checkpoint(tmp_path))
    assert [p.name for p in removed] == ["last.safetensors", "previous.safetensors", "best.safetensors"]


def test_without_a_checkpoint_the_fit_starts_from_scratch(tmp_path):
    assert fitted(Checkpoint(tmp_path / "new", resume=True)).n_iter_ == 5
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*last.safetensors: Checkpoint\('"):
        fitted(resume_from=tmp_path / "empty")


def damaged(file, how):
    raw = file.read_bytes()
    file.unlink()  # the one before may be the same file
    changed = {"truncated": raw[: len(raw) // 2], "empty": b"", "another file": b"epoch,loss\n1,0.5\n"}
    if how == "a flipped bit":
        place = len(raw) * 3 // 4
        changed[how] = raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :]
    file.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["truncated", "empty", "another file", "a flipped bit"])
def test_a_damaged_file_is_named_and_the_previous_one_can_be_used(tmp_path, how):
    whole = fitted(Checkpoint(tmp_path), max_iter=4)
    damaged(tmp_path / "last.safetensors", how)
    said = r"last.safetensors (is damaged|was not written by sknet).*; the one before it is .*previous.safe"
    for callbacks, given in (([], tmp_path), ([Checkpoint(tmp_path, resume=True)], None)):
        with pytest.raises(LoadError, match=said):
            fitted(*callbacks, max_iter=4, resume_from=given)
    asked = fitted(max_iter=4, resume_from=tmp_path / "previous.safetensors")
    assert asked.loss_curve_ == whole.loss_curve_
    with pytest.warns(
        CallbackWarning, match=r"last.safetensors .*previous.safetensors. The fit continues from that"
    ):
        found = fitted(Checkpoint(tmp_path, resume="fall_back"), max_iter=4)
    assert found.loss_curve_ == whole.loss_curve_
    for layer, same in zip(whole.coefs_, found.coefs_, strict=True):
        np.testing.assert_array_equal(layer, same)
    assert epochs(tmp_path) == {"best": 4, "last": 4, "previous": 3}
    damaged(tmp_path / "previous.safetensors", how)
    damaged(tmp_path / "last.safetensors", how)
    with pytest.raises(LoadError, match=r"previous.safetensors (is damaged|was not)"):
        fitted(Checkpoint(tmp_path, resume="fall_back"), max_iter=4)


def test_another_kind_of_file_is_named(tmp_path):
    write(tmp_path / "last.safetensors", {}, "estimator")
    with pytest.raises(LoadError, match=r"last.safetensors is an sknet file of kind 'estimator'"):
        fitted(resume_from=tmp_path)


def test_lbfgs_raises(tmp_path):
    reg = MLPRegressor(optimizer=LBFGS(), callbacks=[Checkpoint(tmp_path)])
    with pytest.raises(ValueError, match="a fit by L-BFGS cannot be saved, because its state is inside"):
        reg.fit(X, X[:, 0])
    assert not hasattr(reg, "model_")
    fitted(Checkpoint(tmp_path))
    with pytest.raises(ValueError, match="a fit by L-BFGS cannot be resumed"):
        clone(reg).set_params(callbacks=None).fit(X, X[:, 0], resume_from=tmp_path)


def test_checkpoints_can_be_moved(tmp_path):
    whole = fitted(max_iter=4)
    fitted(Checkpoint(tmp_path / "here"), max_iter=2)
    shutil.move(tmp_path / "here", tmp_path / "there")
    moved = fitted(Checkpoint(tmp_path / "there", resume=True), max_iter=4)
    copied = fitted(Checkpoint(tmp_path / "new"), max_iter=4, resume_from=tmp_path / "there")
    assert moved.loss_curve_ == copied.loss_curve_ == whole.loss_curve_
    assert epochs(tmp_path / "new")["last"] == 4
