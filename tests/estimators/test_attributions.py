"""Attributions of estimators: central differences, closed forms, and the axiom of completeness."""

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sknet
from sknet import neural_network, nn, ops
from sknet.device import Device, to_device, to_host
from sknet.losses import Quantile
from tests.estimators.data import CLASSIFICATIONS, TABLES, TASKS, estimator_for, quiet

RNG = np.random.default_rng(0)


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.hidden = nn.Linear(n_features, 6)
        self.norm = nn.BatchNorm(6)
        self.head = nn.Linear(6, n_outputs)

    def forward(self, x):
        return self.head(self.norm(self.hidden(x)).tanh())


def fitted(kind, task, **params):
    X, y = TABLES[task]
    name = "Classifier" if task in CLASSIFICATIONS else "Regressor"
    params = {"max_iter": 3, "random_state": 0} | params
    estimator = {
        "MLP": lambda: estimator_for(task, activation="tanh", **params),
        "drop-in": lambda: getattr(neural_network, f"MLP{name}")(
            hidden_layer_sizes=(8,), activation="tanh", **params
        ),
        "Net": lambda: getattr(sknet, f"Net{name}")(Net, **params),
    }[kind]()
    with quiet():
        return estimator.fit(X, y), X, y


def decisions(estimator, X):
    """Return raw outputs, of which there is a column for two classes."""
    if not hasattr(estimator, "decision_function"):
        return estimator.model_(X, training=False).numpy()
    found = estimator.decision_function(X)
    return np.hstack(found) if isinstance(found, list) else found.reshape(len(X), -1)


def values(estimator, X, target):
    """Return the output selected by a target for each row, using other public methods."""
    rows = np.arange(len(X))
    if not hasattr(estimator, "classes_"):
        found = estimator.predict(X)
        return found if found.ndim == 1 else found[rows, np.broadcast_to(target, len(X))]
    raw, target = decisions(estimator, X), np.broadcast_to(target, len(X))
    if len(estimator.classes_) == 2:
        return np.where(target == estimator.classes_[1], raw[:, 0], -raw[:, 0])
    if estimator.predict(X).ndim == 2:
        return raw[rows, target]
    return raw[rows, np.searchsorted(estimator.classes_, target)]


def differences(estimator, X, target, eps=1e-6):
    steps = eps * np.eye(X.shape[1])
    ends = [values(estimator, X + step, target) - values(estimator, X - step, target) for step in steps]
    return np.stack(ends, axis=1) / (2 * eps)


def targets_of(estimator, X, y):
    """Return valid targets of every form."""
    if y.ndim == 2:
        return [0, 2, -1, np.int64(1), RNG.integers(3, size=len(X))]
    if not hasattr(estimator, "classes_"):
        return [None, 0]
    return [None, *estimator.classes_, y, estimator.predict(X).tolist()]


@pytest.fixture(params=["MLP", "drop-in", "Net"])
def kind(request):
    return request.param


@pytest.mark.parametrize("task", TASKS)
def test_gradients_are_those_of_central_differences(kind, task):
    estimator, X, y = fitted(kind, task)
    X, y = X[:40], y[:40]
    for target in targets_of(estimator, X, y):
        found = estimator.input_gradient(X, target=target)
        meant = estimator.predict(X) if target is None and task in CLASSIFICATIONS else target
        meant = 0 if meant is None else meant
        np.testing.assert_allclose(found, differences(estimator, X, meant), rtol=1e-4, atol=1e-7)
        assert found.dtype == X.dtype


@pytest.mark.parametrize("task", TASKS)
def test_contributions_sum_to_the_difference_from_the_baseline(kind, task):
    estimator, X, y = fitted(kind, task)
    X, y = X[:40], y[:40]
    baselines = {None: np.zeros_like(X), 0.5: np.full_like(X, 0.5)}
    given = [*baselines.items(), (X.mean(axis=0), np.tile(X.mean(axis=0), (40, 1))), (X[::-1], X[::-1])]
    for target in targets_of(estimator, X, y):
        meant = estimator.predict(X) if target is None and task in CLASSIFICATIONS else target
        meant = 0 if meant is None else meant
        for baseline, start in given:
            found = estimator.integrated_gradients(X, baseline=baseline, target=target)
            assert found.shape == X.shape
            change = values(estimator, X, meant) - values(estimator, start, meant)
            np.testing.assert_allclose(found.sum(axis=1), change, rtol=1e-6, atol=1e-7)


def test_a_linear_model_has_a_closed_form():
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = sknet.MLPClassifier((5,), activation="identity", max_iter=5, random_state=0).fit(X, y)
        regressor = sknet.MLPRegressor((5,), activation="identity", scale_target=True, max_iter=5).fit(
            X, 50 * X[:, 0]
        )
    weight = estimator.coefs_[0] @ estimator.coefs_[1]
    for number, label in enumerate(estimator.classes_):
        expected = np.tile(weight[:, number], (len(X), 1))
        np.testing.assert_allclose(estimator.input_gradient(X, target=label), expected, rtol=1e-9)
        found = estimator.integrated_gradients(X, target=label, baseline=X.mean(axis=0), n_steps=1)
        np.testing.assert_allclose(found, expected * (X - X.mean(axis=0)), rtol=1e-9, atol=1e-12)
    found = regressor.integrated_gradients(X)  # in the units of the targets
    np.testing.assert_allclose(found.sum(axis=1), regressor.predict(X) - regressor.predict(0 * X), rtol=1e-6)


LOSSES = ["poisson", "gaussian_nll", Quantile([0.1, 0.5, 0.9]), Quantile(0.9), "huber"]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("task", ["counts", "many counts"])
def test_regressors_explain_predictions(loss, task):
    X, y = TABLES[task]
    with quiet():
        reg = sknet.MLPRegressor((8,), activation="tanh", loss=loss, max_iter=3, random_state=0).fit(X, y)
    X, target = X[:20], None if y.ndim == 1 else 1
    found = reg.input_gradient(X, target=target)
    np.testing.assert_allclose(found, differences(reg, X, target or 0), rtol=1e-4, atol=1e-7)


def test_columns_of_labels_and_ordered_classes():
    X, y = TABLES["multiclass"]
    columns = np.stack([y, y[::-1] % 2], axis=1)
    params = {"activation": "tanh", "max_iter": 2, "random_state": 0}
    with quiet():
        several = sknet.MLPClassifier((8,), **params).fit(X, columns)
        ordered = sknet.MLPClassifier((8,), loss="ordinal", **params).fit(X, y)
    rows = X[:20]
    for number in range(5):
        raw = [decisions(several, X)[:, number] for X in (rows, 0 * rows)]
        found = several.integrated_gradients(rows, target=number)
        np.testing.assert_allclose(found.sum(axis=1), raw[0] - raw[1], rtol=1e-7, atol=1e-9)
    for number, label in enumerate(ordered.classes_):
        ends = [ordered.decision_function(X)[:, number] for X in (rows, 0 * rows)]
        found = ordered.integrated_gradients(rows, target=label)
        np.testing.assert_allclose(found.sum(axis=1), ends[0] - ends[1], rtol=1e-6, atol=1e-8)


def test_string_labels():
    X, y = TABLES["binary"]
    with quiet():
        estimator = estimator_for("binary").fit(X, np.array(["no", "yes"])[y])
    yes, no = (estimator.input_gradient(X, target=word) for word in ("yes", "no"))
    np.testing.assert_array_equal(yes, -no)
    np.testing.assert_array_equal(
        estimator.input_gradient(X), np.where(estimator.predict(X)[:, None] == "yes", yes, no)
    )


def test_an_unused_input_contributes_nothing():
    X, y = TABLES["regression"]
    with quiet():
        reg = estimator_for("regression").fit(X, y)
    reg.coefs_[0] = np.where(np.arange(12)[:, None] == 4, 0, reg.coefs_[0])
    assert not reg.integrated_gradients(X)[:, 4].any()
    assert reg.integrated_gradients(X)[:, 5].all()


@pytest.mark.parametrize("convert", [lambda X: X.tolist(), pandas.DataFrame, scipy.sparse.csr_array])
def test_inputs_of_any_form(convert):
    X, y = TABLES["multiclass"]
    with quiet():
        estimator = estimator_for("multiclass", dtype="float64").fit(X, y)
        given = convert(X)
        other = clone(estimator).fit(given, y)
    for found, expected in (
        (other.input_gradient(given), estimator.input_gradient(X)),
        (other.integrated_gradients(given, n_steps=3), estimator.integrated_gradients(X, n_steps=3)),
    ):
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_arrays_of_a_device(task, fake_device):
    X, y = TABLES[task]
    place = Device.parse("fake:1")
    with quiet():
        there = estimator_for(task, dtype="float64").fit(to_device(X, place), to_device(y, place))
        here = estimator_for(task, dtype="float64").fit(X, y)
    target = 1 if y.ndim == 2 else None
    for found, expected in (
        (there.input_gradient(to_device(X, place), target=target), here.input_gradient(X, target)),
        (
            there.integrated_gradients(to_device(X, place), to_device(X[0], place), target, n_steps=4),
            here.integrated_gradients(X, X[0], target, n_steps=4),
        ),
    ):
        assert type(found) is type(to_device(X, place))
        np.testing.assert_allclose(to_host(found), expected, rtol=1e-5, atol=1e-9)


def test_after_more_training():
    estimator, X, y = fitted("Net", "multiclass")
    for change in (
        lambda: estimator.partial_fit(X, y),
        lambda: estimator.model_.module.requires_grad_(False),
        lambda: setattr(estimator.model_.module.norm, "eps", 0.5),
    ):
        with quiet():
            change()
        found = estimator.input_gradient(X[:20], target=0)
        np.testing.assert_allclose(found, differences(estimator, X[:20], 0), rtol=1e-4, atol=1e-7)
    with pytest.raises(NotFittedError):
        clone(estimator).input_gradient(X)
    with pytest.raises(NotFittedError):
        clone(estimator).integrated_gradients(X)


BAD = [
    ("multiclass", {"target": 7}, r"target 7 is none of the classes \[0, 1, 2\]"),
    ("multiclass", {"target": "a" * 10**5}, r"^target 'a.{0,2000} is none of the classes \[0, 1, 2\]"),
    ("multiclass", {"target": pandas.NA}, r"target <NA> is none of the classes \[0, 1, 2\]"),
    ("multiclass", {"target": np.zeros(1, "V4")[0]}, r"is none of the classes \[0, 1, 2\]"),
    (
        "multiclass",
        {"target": [0, 1]},
        r"target must .* for each of 230 rows, got an array of shape \(2,\)",
    ),
    ("multilabel", {}, "this MLPClassifier has 5 outputs: say which one is meant, target=0 to target=4"),
    ("multilabel", {"target": 5}, "there is no output 5: this MLPClassifier has 5"),
    ("multioutput", {}, "this MLPRegressor has 3 outputs: say which one"),
    ("multioutput", {"target": -4}, "there is no output -4"),
    ("multioutput", {"target": 1.0}, "must be the number of an output, an int, got 1.0"),
    ("regression", {"target": 1}, "there is no output 1: this MLPRegressor has 1"),
]


@pytest.mark.parametrize(("task", "arguments", "message"), BAD)
def test_missing_targets(task, arguments, message):
    estimator, X, _ = fitted("MLP", task)
    for method in (estimator.input_gradient, estimator.integrated_gradients):
        with pytest.raises(ValueError, match=message):
            method(X, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"baseline": np.zeros(3)},
            r"baseline must be a number, one row of shape \(12,\), .* shape \(3,\)",
        ),
        ({"n_steps": 0}, r"'n_steps' parameter of MLPRegressor.integrated_gradients must be an int .* Got 0"),
        ({"n_steps": 2.5}, "Got 2.5"),
        ({"n_steps": 2**31}, r"in the range \[1, 1000\]. Got 2147483648"),
    ],
)
def test_invalid_baselines(arguments, message):
    estimator, X, _ = fitted("MLP", "regression")
    with pytest.raises(ValueError, match=message):
        estimator.integrated_gradients(X, **arguments)
    with pytest.raises(ValueError, match="X has 5 features, but MLPRegressor is expecting 12"):
        estimator.integrated_gradients(X[:, :5])


class Two(nn.Module):
    """Takes real numbers and the numbers of words."""

    def __init__(self, n_outputs):
        self.words = nn.Embedding(5, 4)
        self.last = nn.LazyLinear(n_outputs)

    def forward(self, x, ids):
        return self.last(ops.concat([x, self.words(ids)], axis=1).tanh())


def test_several_inputs():
    """There is a result for each that holds real numbers."""
    inputs = {"x": RNG.normal(size=(40, 3)), "ids": RNG.integers(5, size=40)}
    with quiet():
        clf = sknet.NetClassifier(Two, max_iter=2, random_state=0).fit(inputs, np.arange(40) % 3)
    changed = {**inputs, "x": inputs["x"] * 0 + 0.5}
    difference = (clf.decision_function(inputs) - clf.decision_function(changed))[:, 1]
    for baseline in (0.5, {"x": np.full(3, 0.5)}):
        found = clf.integrated_gradients(inputs, baseline, target=1)
        assert list(found) == ["x"]
        np.testing.assert_allclose(found["x"].sum(axis=1), difference, rtol=1e-7, atol=1e-9)
    steps = [{**inputs, "x": inputs["x"] + sign * 1e-6 * np.eye(3)[0]} for sign in (1, -1)]
    ends = [clf.decision_function(step)[:, 1] for step in steps]
    slope = clf.input_gradient(inputs, target=1)["x"][:, 0]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-8)
    with pytest.raises(ValueError, match=r"baseline has no use for 'z': the inputs are \['x', 'ids'\]"):
        clf.integrated_gradients(inputs, {"z": 0}, target=1)
