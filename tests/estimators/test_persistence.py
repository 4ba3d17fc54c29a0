"""A reloaded estimator predicts and continues training bitwise identically."""

import copy
import io
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sknet
from sknet import neural_network, nn
from sknet.losses import Huber
from sknet.optim import EMA, SGD, Adam, AdamW, RMSprop
from sknet.optim.schedules import Cosine
from tests.estimators.data import TABLES, TASKS, WEIGHTS, estimator_for, outputs, quiet, same_bits
from tests.estimators.nets import Net, Normed, net_for
from tests.project import ROOT


def through_joblib(estimator, **options):
    file = io.BytesIO()
    joblib.dump(estimator, file, **options)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "pickle": lambda e: pickle.loads(pickle.dumps(e)),
    "oldest protocol": lambda e: pickle.loads(pickle.dumps(e, protocol=2)),
    "joblib": through_joblib,
    "compressed": lambda e: through_joblib(e, compress=3),
    "deepcopy": copy.deepcopy,
}
OPTIMIZERS = [Adam(), SGD(0.01, 0.9, True), AdamW(), RMSprop(), Adam(Cosine(0.01))]


def fitted(task, **params):
    with quiet():
        return estimator_for(task, dropout=0.2, warm_start=True, **params).fit(*TABLES[task], WEIGHTS)


def assert_goes_on(a, b, X, y):
    np.testing.assert_array_equal(outputs(a, X), outputs(b, X))
    assert same_bits(a, b)
    for estimator in (a, b):
        estimator.partial_fit(X, y)
    assert same_bits(a, b)
    for estimator in (a, b):
        with quiet():
            estimator.fit(X, y)
    assert same_bits(a, b)
    np.testing.assert_array_equal(outputs(a, X), outputs(b, X))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("task", TASKS)
def test_reloaded(task, way):
    estimator = fitted(task)
    assert_goes_on(WAYS[way](estimator), estimator, *TABLES[task])


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimizer_state_is_saved(optimizer, dtype):
    estimator = fitted("regression", optimizer=optimizer, dtype=dtype)
    assert_goes_on(WAYS["joblib"](estimator), estimator, *TABLES["regression"])


def test_patience_is_saved():
    X, y = TABLES["binary"]
    estimator = fitted("binary", early_stopping=True)
    other = WAYS["pickle"](estimator)
    for e in (estimator, other):
        with quiet():
            e.fit(X, y)
    assert same_bits(estimator, other)


def test_a_memory_map(tmp_path):
    """joblib passes read-only arrays to its workers."""
    estimator = fitted("multiclass")
    joblib.dump(estimator, tmp_path / "estimator")
    assert_goes_on(joblib.load(tmp_path / "estimator", mmap_mode="r"), estimator, *TABLES["multiclass"])


def test_unfitted_and_cloned():
    estimator = estimator_for("regression", loss=Huber(2.0), optimizer=Adam(0.5))
    assert WAYS["pickle"](estimator).get_params() == estimator.get_params()
    with quiet():
        copied = clone(estimator.fit(*TABLES["regression"]))
    assert copied.get_params() == estimator.get_params()
    assert copied.loss is not estimator.loss
    with pytest.raises(NotFittedError):
        copied.predict(TABLES["regression"][0])


def test_size_is_that_of_the_weights_and_moments():
    X = np.zeros((10, 300), dtype="float32")
    estimator = estimator_for(
        "regression", hidden_layer_sizes=(500,), max_iter=1, batch_size=10, optimizer="adam"
    )
    with quiet():
        estimator.fit(X, np.zeros(10))
    weights = sum(array.nbytes for array in (*estimator.coefs_, *estimator.intercepts_))
    rows = X.nbytes  # of whose contributions `feature_importances_` are means
    assert len(pickle.dumps(estimator)) < 3 * weights + rows + 20_000


SCRIPT = """
import sys
from importlib.machinery import PathFinder


class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        optional = name.split(".")[0] in ("torch", "cupy", "pandas", "matplotlib")
        return None if optional else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Without
import joblib
import numpy as np
estimator, X, y, expected = joblib.load(sys.argv[1])
assert np.array_equal(estimator.predict_proba(X), expected)
estimator.partial_fit(X, y)
np.save(sys.argv[2], estimator.predict_proba(X))
"""


@pytest.mark.slow
def test_without_optional_packages(tmp_path):
    X, y = TABLES["multiclass"]
    estimator = fitted("multiclass")
    joblib.dump((estimator, X, y, estimator.predict_proba(X)), tmp_path / "estimator")
    subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "estimator", tmp_path / "after.npy"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    estimator.partial_fit(X, y)
    np.testing.assert_array_equal(np.load(tmp_path / "after.npy"), estimator.predict_proba(X))


@pytest.mark.parametrize("kind", [neural_network.MLPClassifier, neural_network.MLPRegressor])
def test_scikit_learns_signature(kind):
    X, y = TABLES["binary"]
    with quiet():
        estimator = kind(max_iter=3, random_state=0, warm_start=True).fit(X, y)
    assert_goes_on(WAYS["joblib"](estimator), estimator, X, y)


# -- skops: the content of a file is inspected before it is loaded --------------------------------------


SKOPS = {
    "sgd": {"optimizer": SGD(Cosine(0.1), 0.9)},
    "lbfgs": {"optimizer": "lbfgs"},
    "average": {"optimizer": EMA(Adam(), 0.9)},
    "early stopping": {"early_stopping": True},
    "module": {"activation": nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.BatchNorm(8))},
}


@pytest.mark.parametrize("case", SKOPS)
@pytest.mark.parametrize("task", TASKS)
def test_skops(case, task):
    X, y = TABLES[task]
    with quiet():
        estimator = estimator_for(task, random_state=np.random.RandomState(0), **SKOPS[case]).fit(X, y)
    for one in (estimator, estimator.freeze()):
        written = skops.io.dumps(one)
        types = skops.io.get_untrusted_types(data=written)
        assert all(name.startswith(("sknet.", "numpy.", "functools.partial")) for name in types)
        loaded = skops.io.loads(written, trusted=types)
        np.testing.assert_array_equal(outputs(loaded, X), outputs(one, X))
        np.testing.assert_array_equal(outputs(loaded, X[:1]), outputs(one, X[:1]))
        if case in ("sgd", "module", "average") and one is estimator:
            loaded.partial_fit(X, y)
            one.partial_fit(X, y)
            assert same_bits(loaded, one)


def test_skops_of_what_was_not_fitted():
    for module in (sknet, neural_network):
        for kind in (module.MLPClassifier, module.MLPRegressor):
            written = skops.io.dumps(kind())
            loaded = skops.io.loads(written, trusted=skops.io.get_untrusted_types(data=written))
            assert repr(loaded) == repr(kind())


@pytest.mark.parametrize("frozen", [None, "*.bias", "first"])
def test_a_memory_mapped_estimator_can_be_trained(frozen, tmp_path):
    """joblib maps arrays as read-only ones of another class, including frozen parameters and buffers."""
    X, y = TABLES["multiclass"]
    with quiet():
        net = net_for("multiclass", Normed if frozen is None else Net, frozen=frozen).fit(X, y)
        joblib.dump(net, tmp_path / "net")
        mapped, plain = (joblib.load(tmp_path / "net", mmap_mode=mode) for mode in ("r", None))
        for change in ({}, {"frozen": None, "warm_start": True}):
            for each in (mapped, plain):
                each.set_params(**change).partial_fit(X, y).fit(X, y)
            assert np.array_equal(mapped.predict_proba(X), plain.predict_proba(X))
            assert np.array_equal(mapped.freeze().predict_proba(X[:3]), plain.freeze().predict_proba(X[:3]))
    shared = joblib.load(tmp_path / "net", mmap_mode="r")
    assert np.array_equal(shared.predict_proba(X), net.predict_proba(X))
