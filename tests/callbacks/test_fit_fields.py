"""Checkpoints that were edited are refused when they are read, and name the field."""

import copy
from functools import reduce

import numpy as np
import pytest

import sknet
from sknet.callbacks import Checkpoint, EarlyStopping, GradientMonitor
from sknet.exceptions import LoadError, StateError
from sknet.persistence import read, write

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
# Where -> values, each of which is refused.
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
READ = {
    "version": ["2", -1, None, ...],
    "model": [None, [], ...],
    "model/parameters": [None, [np.zeros(3)], {"0.weight": 1}],
    "model/slots": [{"m": [1]}, ...],
    "model/progress": [{}, {"step": 0}, None],
    "model/progress/step": [-1, 1.5, "x"],
    "model/key": [[1], [1, 2, 3], [-1, 2], [2**64, 1]],
    "model/random_state/state/pos": [-1, 700, 2**28, "0"],
    "model/random_state/state/key": [np.zeros(3, np.uint32), []],
    "began": [[], {"since": 0}],
    "began/random_state/bit_generator": ["PCG64", None],
    "began/random_state/state/pos": [-1, 625],
    "began/inputs": [None, [], {"X": np.ones(3)}],
    "began/inputs/X/mean": [1.0, None, ...],
    "began/inputs/X/limit": [0.0, "5", np.ones(3), ...],
    "began/targets": [{"y": {"mean": np.ones(1)}}],
    "loop": [None, ...],
    "loop/order": ["x", np.zeros((2, 3), int), np.zeros(54)],
    "loop/history": [{"loss": [1.0]}, {"loss": np.ones(2), "score": np.ones(3)}],
    "loop/record": [{"loss": "x"}, None],
    "loop/n_iter": [-1, None, ...],
    "callbacks": [None, [{}], [{"class": 1, "state": {}}]],
    "stopped_by": ["x", 7, -1],
    "parameters/alpha": [np.ones(3), reduce(lambda inner, _: [inner], range(420), 1)],
    "frozen": [[1], None],
    "other": [1],
}
RESUMED = {
    "began": [None],
    "began/inputs/X/scale": [np.zeros(3), np.ones(2), np.full(3, np.nan), np.ones(3, np.float32)],
    "loop/order": [None, np.zeros(54, int), np.arange(54) * 7],
    "callbacks/1/state/count": [-1, "x"],
    "callbacks/1/state/weights/flat": [np.ones(3), np.ones((2, 2)), "x"],
    "callbacks/1/state/weights/trained": [["x"], None],
    "callbacks/0/state/norms": [{"0.weight": 0}, []],
}


def classifier(n_epochs, *callbacks):
    own = [EarlyStopping("loss", restore_best=True, patience=50), GradientMonitor(), *callbacks]
    return sknet.MLPClassifier((3,), max_iter=n_epochs, random_state=0, early_stopping=True, callbacks=own)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    classifier(3, Checkpoint(folder)).fit(X, Y)
    return read(folder / "last.safetensors", "checkpoint")


def edited(state, path, value):
    state = copy.deepcopy(state)
    *inner, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = state
    for part in inner:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return state


def test_the_state_as_it_was_is_read(saved, tmp_path):
    write(tmp_path / "it", saved, "checkpoint")
    assert sknet.load(tmp_path / "it").keys() == saved.keys()
    assert classifier(4).fit(X, Y, resume_from=tmp_path / "it").n_iter_ == 4


@pytest.mark.parametrize("path", READ)
def test_edited_checkpoints_are_not_read(path, saved, tmp_path):
    for value in READ[path]:
        write(tmp_path / "it", edited(saved, path, value), "checkpoint")
        for use in (sknet.load, lambda file: classifier(4).fit(X, Y, resume_from=file)):
            with pytest.raises(LoadError, match=r"it (is damaged: .+|holds no state of a fit)"):
                use(tmp_path / "it")


@pytest.mark.parametrize("path", RESUMED)
def test_edited_checkpoints_are_not_resumed(path, saved, tmp_path):
    for value in RESUMED[path]:
        write(tmp_path / "it", edited(saved, path, value), "checkpoint")
        with pytest.raises((LoadError, StateError), match=r"damaged|of a fit of a Model|of another network"):
            classifier(4).fit(X, Y, resume_from=tmp_path / "it")
