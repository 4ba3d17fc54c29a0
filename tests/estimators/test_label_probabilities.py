"""Several labels a row: each has a probability of its own, whatever computes it."""

import importlib.util

import numpy as np
import pytest
from scipy.special import expit

import sknet
from sknet import TabularClassifier
from tests.estimators.data import TABLES, estimator_for, quiet

X, Y = TABLES["multilabel"]
PARAMS = [
    {},
    {"n_members": 3},
    {"calibrate": "temperature", "early_stopping": True},
    {"loss": "focal"},
    {"dtype": "float32"},
]


def from_python(frozen, folder):
    frozen.to_python(folder / "labels.py")
    spec = importlib.util.spec_from_file_location("labels", folder / "labels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def routes(clf, folder):
    """Yield everything that computes probabilities as the estimator does."""
    frozen = clf.freeze()
    yield "frozen", frozen.predict_proba(X)
    yield "rows", np.concatenate([frozen.predict_proba(X[i : i + 1]) for i in range(5)])
    yield "log", np.exp(clf.predict_log_proba(X))
    yield "Python", from_python(frozen, folder).predict_proba(X)
    sknet.save(frozen, folder / "labels.safetensors")
    yield "file", sknet.load(folder / "labels.safetensors").predict_proba(X)


@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_each_label_has_the_logistic_of_its_own_decision(params, tmp_path):
    with quiet():
        clf = estimator_for("multilabel", max_iter=30, **params).fit(X, Y)
    probable = clf.predict_proba(X)
    if "n_members" not in params:
        temperature = getattr(clf, "temperature_", 1.0)
        np.testing.assert_allclose(probable, expit(clf.decision_function(X) / temperature), rtol=1e-5)
    assert np.ptp(probable.sum(axis=1)) > 0.2
    for name, found in routes(clf, tmp_path):
        np.testing.assert_allclose(found, probable[: len(found)], rtol=1e-5, err_msg=name)
    np.testing.assert_array_equal(clf.predict(X), (probable > 0.5).astype(int))


def test_members_are_averaged_label_by_label():
    with quiet():
        clf = estimator_for("multilabel", n_members=3).fit(X, Y)
    outputs = clf.model_.module.eval()(X).numpy()
    wanted = expit(outputs.reshape(len(X), 3, Y.shape[1])).mean(axis=1)
    np.testing.assert_allclose(clf.predict_proba(X), wanted, rtol=1e-10)


@pytest.mark.slow
def test_tables():
    clf = TabularClassifier(budget=0.05, random_state=0).fit(X, Y)
    probable = clf.predict_proba(X)
    np.testing.assert_allclose(probable, expit(clf.decision_function(X)), rtol=1e-4)
    np.testing.assert_allclose(clf.freeze().predict_proba(X), probable, rtol=1e-6)
    assert np.ptp(probable.sum(axis=1)) > 0.2
