"""Temperatures agree with an independent search, and do not make held-out predictions worse on average."""

import copy
import pickle

import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import sknet
from sknet import NetClassifier, nn
from sknet.losses import Hinge, Ordinal
from tests.estimators.data import WEIGHTS, estimator_for, quiet

N = 400
RNG = np.random.default_rng(0)
X, MULTICLASS = make_classification(
    N, 12, n_informative=6, n_redundant=0, n_classes=3, flip_y=0.3, random_state=0
)
NEW, NEW_MULTICLASS = X[300:], MULTICLASS[300:]
X, MULTICLASS = X[:300], MULTICLASS[:300]
WEIGHT = np.resize(WEIGHTS, 300)
TARGETS = {
    "binary": (MULTICLASS > 0).astype(int),
    "multiclass": MULTICLASS,
    "multilabel": np.stack([MULTICLASS == 0, MULTICLASS > 0, X[:, 0] + RNG.normal(size=300) > 0], axis=1) * 1,
    "columns": np.stack([MULTICLASS, 3 + (MULTICLASS > 1)], axis=1),
    "ordinal": MULTICLASS,
}
LOSSES = {
    "binary": ["log_loss", "focal"],
    "multiclass": ["log_loss", "focal"],
    "multilabel": ["log_loss", "focal"],
    "columns": ["log_loss"],
    "ordinal": ["ordinal", Ordinal([2, 0, 1])],
}
CASES = [(task, loss) for task, losses in LOSSES.items() for loss in losses]


def fitted(task, weight=None, **params):
    """Return an estimator trained until it is overconfident."""
    settings = {"calibrate": "temperature", "early_stopping": True, "validation_fraction": 0.3, "tol": 0.0}
    settings |= {"hidden_layer_sizes": (32,), "max_iter": 60, "optimizer": sknet.optim.Adam(0.02)}
    with quiet():
        return estimator_for(task, **settings | {"dtype": "float64"} | params).fit(X, TARGETS[task], weight)


def held_out_rows(task, estimator):
    """Return the held-out rows of a fit: drawn after the weights, by scikit-learn's function."""
    y = TARGETS[task]
    random_state = np.random.RandomState(0)
    for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True):
        random_state.uniform(size=weight.size)
        random_state.uniform(size=bias.size)
    stratify = y.astype(bool) if task == "binary" else None
    return train_test_split(np.arange(len(y)), random_state=random_state, test_size=0.3, stratify=stratify)[1]


def mean_log_loss(task, outputs, y, weight, reciprocal, loss):
    """Return the log loss of outputs multiplied by a number, by the definition."""
    if task == "multiclass":
        found = -log_softmax(outputs * reciprocal, axis=1)[np.arange(len(y)), y]
    elif task == "ordinal":
        steps = np.logaddexp(0, outputs[:, 1:]).cumsum(axis=1)
        odds = reciprocal * (outputs[:, :1] - np.concatenate([np.zeros((len(y), 1)), steps], axis=1))
        beyond = np.concatenate([np.ones((len(y), 1)), expit(odds), np.zeros((len(y), 1))], axis=1)
        places = np.array([0, 1, 2] if loss == "ordinal" else [1, 2, 0])[y]
        found = -np.log((beyond[:, :-1] - beyond[:, 1:])[np.arange(len(y)), places])
    else:
        signs = 2 * y.reshape(len(y), -1) - 1
        found = np.logaddexp(0, -signs * outputs * reciprocal).sum(axis=1)
    return np.average(found, weights=weight)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize(("task", "loss"), CASES, ids=str)
def test_the_temperature_is_the_one_that_another_search_finds(task, loss, weight):
    estimator = fitted(task, weight, loss=loss)
    rows = held_out_rows(task, estimator)
    outputs, y = estimator.model_(X[rows]).numpy(), TARGETS[task][rows]
    weight = None if weight is None else weight[rows]
    parts = [(task, outputs, y)]
    if task == "columns":
        parts = [("multiclass", outputs[:, :3], y[:, 0]), ("multiclass", outputs[:, 3:], y[:, 1] - 3)]
    found = np.ravel(estimator.temperature_)
    assert len(found) == len(parts)
    for temperature, (kind, z, labels) in zip(found, parts, strict=True):

        def objective(reciprocal, kind=kind, z=z, labels=labels):
            return mean_log_loss(kind, z, labels, weight, reciprocal, loss)

        best = scipy.optimize.minimize_scalar(objective, bracket=(0.01, 1.0), tol=1e-10)
        assert temperature == pytest.approx(1 / best.x, rel=1e-4)
        assert objective(1 / temperature) <= objective(1.0)


@pytest.mark.parametrize(("task", "loss"), CASES, ids=str)
def test_probabilities_change_and_nothing_else(task, loss):
    calibrated, plain = fitted(task, loss=loss), fitted(task, loss=loss, calibrate=None)
    assert not hasattr(plain, "temperature_")
    np.testing.assert_array_equal(calibrated.predict(NEW), plain.predict(NEW))
    for mine, other in zip(
        _listed(calibrated.decision_function(NEW)), _listed(plain.decision_function(NEW)), strict=True
    ):
        np.testing.assert_array_equal(mine, other)
    sure, less_sure = (_listed(e.predict_proba(NEW)) for e in (plain, calibrated))
    logarithms = _listed(calibrated.predict_log_proba(NEW))
    temperatures = np.ravel(calibrated.temperature_)
    for before, after, logarithm, temperature in zip(sure, less_sure, logarithms, temperatures, strict=False):
        np.testing.assert_allclose(np.log(after), logarithm, rtol=1e-9, atol=1e-12)
        assert (np.abs(after - 0.5).mean() < np.abs(before - 0.5).mean()) == (temperature > 1) or len(
            before.T
        ) > 2
        if task != "multilabel":
            np.testing.assert_allclose(after.sum(axis=1), 1, rtol=1e-12)


def _listed(found):
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("task", ["binary", "multiclass", "ordinal"])
def test_new_rows_are_predicted_better(task):
    """A network trained too long is overconfident, which increases its log loss."""
    settings = {"n_iter_no_change": 1000, "max_iter": 150, "alpha": 0.0, "monitor": "score"}
    y = NEW_MULTICLASS if task != "binary" else NEW_MULTICLASS > 0
    plain, calibrated = (fitted(task, calibrate=c, **settings) for c in (None, "temperature"))
    assert calibrated.temperature_ > 1
    losses = [log_loss(y, estimator.predict_proba(NEW)) for estimator in (plain, calibrated)]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(("task", "loss"), CASES, ids=str)
def test_copies_and_frozen_predictors(task, loss):
    estimator = fitted(task, loss=loss)
    frozen = estimator.freeze()
    for other in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator)), frozen,
                  pickle.loads(pickle.dumps(frozen))):  # fmt: skip
        for method in ("predict_proba", "predict_log_proba", "predict"):
            for mine, theirs in zip(
                _listed(getattr(other, method)(NEW)), _listed(getattr(estimator, method)(NEW)), strict=True
            ):
                np.testing.assert_allclose(mine, theirs, rtol=1e-10)
    assert clone(estimator).calibrate == "temperature"


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
@pytest.mark.parametrize("how", ["X_val", "validation_split", "partial_fit"])
def test_any_rows_to_validate_on_will_do(how, weight):
    """The temperature is that of the rows given, without early stopping too."""
    settings = {"calibrate": "temperature", "dtype": "float64", "optimizer": sknet.optim.Adam(0.02)}
    settings |= {"max_iter": 40, "random_state": 0, "early_stopping": False}
    estimator = sknet.MLPClassifier((32,), **settings)
    training, held_out = slice(0, 200), slice(200, 300)
    parts = [None if weight is None else weight[rows] for rows in (training, held_out)]
    validation = {"X_val": X[held_out], "y_val": MULTICLASS[held_out], "sample_weight_val": parts[1]}
    with quiet():
        if how == "X_val":
            estimator.fit(X[training], MULTICLASS[training], parts[0], **validation)
        elif how == "validation_split":
            pair = np.arange(200), np.arange(200, 300)
            estimator.set_params(validation_split=pair).fit(X, MULTICLASS, weight)
        else:
            for _ in range(40):
                estimator.partial_fit(X[training], MULTICLASS[training], parts[0], [0, 1, 2], **validation)
    z = estimator.decision_function(X[held_out])
    best = scipy.optimize.minimize_scalar(
        lambda b: mean_log_loss("multiclass", z, MULTICLASS[held_out], parts[1], b, "log_loss"),
        bracket=(0.01, 1.0),
    )
    assert estimator.temperature_ == pytest.approx(1 / best.x, rel=1e-4)


def test_a_second_training_on_all_rows_keeps_the_temperature_of_the_first():
    first, second = fitted("multiclass"), fitted("multiclass", refit_on_all=True)
    assert first.temperature_ == second.temperature_
    z = second.decision_function(NEW) / second.temperature_
    np.testing.assert_allclose(second.predict_log_proba(NEW), log_softmax(z, axis=1), rtol=1e-9)
    assert np.abs(first.decision_function(NEW) - second.decision_function(NEW)).max() > 1e-3


def test_inputs_by_name_and_positions_of_sequences():
    class Two(nn.Module):
        def __init__(self, n_outputs):
            self.left, self.right = nn.Linear(6, 8), nn.Linear(6, 8)
            self.top = nn.Linear(8, n_outputs)

        def forward(self, left, right):
            return self.top((self.left(left) + self.right(right)).tanh())

    settings = {"calibrate": "temperature", "early_stopping": True, "max_iter": 30, "random_state": 0}
    settings |= {"optimizer": sknet.optim.Adam(0.02), "dtype": "float64"}
    named = {"left": X[:, :6], "right": X[:, 6:]}
    steps = np.stack([X, NEW.repeat(3, axis=0)], axis=1)  # two positions a sample, each with a label
    labels = np.stack([MULTICLASS, NEW_MULTICLASS.repeat(3)], axis=1)
    layers = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))
    for module, given, y in ((Two, named, MULTICLASS), (layers, steps, labels)):
        with quiet():
            estimator = sknet.NetClassifier(module, **settings).fit(given, y)
        expected = log_softmax(estimator.decision_function(given) / estimator.temperature_, axis=-1)
        assert expected.shape == (*y.shape, 3)
        np.testing.assert_allclose(estimator.predict_log_proba(given), expected, rtol=1e-9)


def test_scorers_see_a_fit_under_way_without_the_temperature_of_the_one_before():
    settings = {"scoring": "neg_log_loss", "warm_start": True, "shuffle": False}
    warm = fitted("multiclass", **settings)
    warm.temperature_ = 50.0
    warm.set_params(optimizer=sknet.optim.SGD(1e-300), max_iter=1, calibrate=None)
    with quiet():
        warm.fit(X, MULTICLASS)
    assert warm.history_["loss"][-1] == pytest.approx(-warm.history_["neg_log_loss"][-1], rel=0.05)


def test_a_fit_without_calibration_removes_the_temperature():
    estimator = fitted("multiclass")
    known = estimator.predict_proba(NEW)
    estimator.set_params(calibrate=None, warm_start=True, max_iter=1, optimizer=sknet.optim.SGD(1e-300))
    with quiet():
        estimator.fit(X, MULTICLASS)
    assert not hasattr(estimator, "temperature_")
    assert np.abs(estimator.predict_proba(NEW) - known).max() > 0.01
    estimator.set_params(calibrate="temperature")
    with quiet():
        estimator.fit(X, MULTICLASS)
    assert estimator.temperature_ > 0


def test_custom_networks():
    network = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(3))
    settings = {"early_stopping": True, "random_state": 0, "max_iter": 20}
    with quiet():
        estimator = sknet.NetClassifier(network, calibrate="temperature", **settings).fit(X, MULTICLASS)
    z = estimator.decision_function(NEW) / estimator.temperature_
    np.testing.assert_allclose(estimator.predict_log_proba(NEW), log_softmax(z, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"early_stopping": False, "optimizer": "lbfgs"},
            r"calibrate='temperature' needs rows to validate on",
        ),
        (
            {"early_stopping": False},
            r"calibrate='temperature' needs rows to validate on, and there are none: give X_val",
        ),
        (
            {"loss": Hinge()},
            r"calibrate='temperature' needs a loss with probabilities from logits, got Hinge",
        ),
        ({"calibrate": "platt"}, r"The 'calibrate' parameter of MLPClassifier must be .*'temperature'"),
    ],
)
def test_invalid_calibrations(params, message):
    with pytest.raises(ValueError, match=message):
        fitted("multiclass", **params)


def test_uninformative_outputs_become_nearly_equal_probabilities():
    settings = {"calibrate": "temperature", "max_iter": 30, "optimizer": sknet.optim.Adam(0.02)}
    with quiet():
        estimator = estimator_for("multiclass", **settings).fit(
            X, MULTICLASS, X_val=X, y_val=(MULTICLASS + 1) % 3
        )
    assert estimator.temperature_ == pytest.approx(100, rel=1e-3)
    np.testing.assert_allclose(estimator.predict_proba(X), 1 / 3, atol=0.05)


def test_rows_that_determine_no_temperature_warn():
    y = (X[:, 0] > 0).astype(int)
    with (
        quiet(),
        pytest.warns(UserWarning, match=r"left at 1: the log loss of the 6 .* with lower temperatures"),
    ):
        estimator = estimator_for(
            "binary", calibrate="temperature", early_stopping=True, validation_fraction=0.02, max_iter=100,
            optimizer=sknet.optim.Adam(0.02),
        ).fit(X[:, :2], y)  # fmt: skip
    assert estimator.temperature_ == 1.0


class Given(nn.Module):
    """A network whose outputs are its inputs, as long as it is not trained."""

    def __init__(self):
        self.weight = nn.Parameter(np.ones((1, 1)))

    def forward(self, x):
        return x @ self.weight


def of_outputs(outputs, y):
    """Return the temperature of a network with these outputs of held-out rows."""
    rows = np.arange(len(y))
    clf = NetClassifier(
        Given, calibrate="temperature", early_stopping=True, validation_split=(rows, rows + len(y)),
        max_iter=1, optimizer=sknet.optim.SGD(1e-300), scale_inputs=False, dtype="float64", random_state=0,
    )  # fmt: skip
    with quiet():
        return clf.fit(np.concatenate([outputs, outputs]), np.concatenate([y, y])).temperature_


@pytest.mark.parametrize("margin", [0.1, 1.0, 10.0, 30.0, 100.0])
def test_temperatures_of_separable_rows_do_not_depend_on_rounding(margin):
    """The loss falls towards the lowest temperature, or is zero from some temperature on."""
    rng = np.random.default_rng(3)
    y = np.arange(40) % 2
    logits = (2 * y - 1) * margin * (1 + rng.exponential(size=40))
    for _ in range(5):
        given = (logits * (1 + 1e-6 * rng.normal(size=40)))[:, np.newaxis]
        with pytest.warns(UserWarning, match="left at 1"):
            assert of_outputs(given, y) == 1.0


def test_equal_outputs_have_the_temperature_one():
    assert of_outputs(np.zeros((40, 1)), np.arange(40) % 2) == 1.0


def test_the_temperature_of_logits_that_are_too_large_is_that_by_which_they_are():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 1))
    y = (rng.random(4000) < expit(logits[:, 0])).astype(int)
    assert of_outputs(3.0 * logits, y) == pytest.approx(3.0, rel=0.1)
