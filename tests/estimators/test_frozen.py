"""A frozen predictor predicts like its estimator, whatever its components."""

import contextvars
import copy
import gc
import pickle
import tracemalloc
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import sknet
from sknet import nn, ops
from sknet.losses import LOSSES, Ordinal, Quantile
from tests.estimators.data import TABLES, estimator_for, quiet
from tests.estimators.nets import Gate

ROWS = (1, 2, 3, 7, 64, 230)
METHODS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("predict_std", "predict_quantiles", "predict_interval"),
)


class Reading(nn.Module):
    """An activation that cannot be captured, because it reads a value."""

    def forward(self, x):
        return ops.relu(x) if float(ops.sum(x).item()) > -1e9 else x


def trained_inside():
    return nn.Sequential(nn.Linear(8, 8, bias=False), nn.PReLU(), nn.BatchNorm(8))


MODULES = {
    **{name: cls() for name, cls in nn.ACTIVATIONS.items()},
    "BatchNorm": nn.BatchNorm(8),
    "LayerNorm": nn.LayerNorm(8),
    "LazyBatchNorm": nn.LazyBatchNorm(),
    "weights inside": trained_inside(),
    "PReLU of 8": nn.PReLU(8, 0.1),
    "LeakyReLU(0.3)": nn.LeakyReLU(0.3),
    "GLU": nn.GLU(),
    "wider": nn.Linear(8, 11),
    "one's own": Gate(),
    "dropout inside": nn.Sequential(nn.Tanh(), nn.Dropout(0.5)),
}
KINDS = {"binary": "log_loss", "multiclass": "log_loss", "multilabel": "log_loss", "multioutput": "huber"}


def assert_frozen_is(estimator, X):
    """Compare every method for every number of rows, and for two of them in copies: to the last bit."""
    frozen = estimator.freeze()
    copies = pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen)
    sparse = scipy.sparse.csr_array(X[:5])
    for method in METHODS:
        assert {hasattr(each, method) for each in (frozen, *copies)} == {hasattr(estimator, method)}
        if not hasattr(estimator, method):
            continue
        theirs = getattr(estimator, method)
        of_rows, of_sparse = {n: theirs(X[:n]) for n in ROWS}, theirs(sparse)
        for predictor, numbers in ((frozen, ROWS), *[(other, (1, 7)) for other in copies]):
            ours = getattr(predictor, method)
            for n in numbers:
                for found, expected in pairs(ours(X[:n]), of_rows[n]):
                    assert found.dtype == expected.dtype
                    assert found.shape == expected.shape
                    np.testing.assert_array_equal(found, expected)
            for found, expected in (
                *pairs(ours(sparse), of_sparse),
                *pairs(ours(sparse.tocsc()), of_sparse),
            ):
                np.testing.assert_array_equal(found, expected)


def pairs(found, expected):
    """Return what two methods returned side by side, array by array."""
    assert isinstance(found, list) == isinstance(expected, list)
    return zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]


def fitted(task, **params):
    X, y = TABLES[task]
    with quiet():
        return estimator_for(task, **params).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("activation", MODULES)
def test_every_activation(activation):
    estimator = fitted("multiclass", activation=MODULES[activation], dtype="float32", dropout=0.3)
    assert_frozen_is(estimator, TABLES["multiclass"][0])


@pytest.mark.slow
@pytest.mark.parametrize("name", nn.ACTIVATIONS)
def test_every_name_of_an_activation(name):
    estimator = fitted("binary", activation=name, hidden_layer_sizes=(8, 5), dtype="float64")
    assert_frozen_is(estimator, TABLES["binary"][0])


def tasks_of(loss):
    tasks = ("binary", "multiclass", "multilabel", "multioutput", "ordinal", "columns")
    return [task for task in tasks if serves(loss, task)]


def serves(loss, task):
    kind = {"multioutput": "regression", "columns": "multiclass"}.get(task, task)
    return kind in LOSSES[loss].tasks and not LOSSES[loss]().of_probabilities


def targets_for(loss, task):
    X, y = TABLES[task]
    if task != "multioutput":
        return X, y
    y = np.abs(y) + 0.1
    if LOSSES[loss].columns_per_target == 2:
        return X, np.c_[y[:, 0], y[:, 1] > y[:, 2]]
    return X, y / y.sum(axis=1, keepdims=True) if loss == "kl_divergence" else y


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "task"), [(loss, task) for loss in LOSSES for task in tasks_of(loss)])
def test_every_loss(loss, task):
    X, y = targets_for(loss, task)
    with quiet():
        estimator = estimator_for(task, loss=loss, activation=trained_inside(), dtype="float64").fit(X, y)
    assert_frozen_is(estimator, X)


@pytest.mark.parametrize("task", ["regression", "multioutput"])
def test_several_quantiles(task):
    estimator = fitted(task, loss=Quantile([0.1, 0.3, 0.6, 0.9]), dtype="float64")
    assert_frozen_is(estimator, TABLES[task][0])
    X = TABLES[task][0][:7]
    frozen = estimator.freeze()
    for coverage in (0.8, 0.8 + 1e-12):
        for n in (1, 7):
            found, expected = (each.predict_interval(X[:n], coverage) for each in (frozen, estimator))
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(
            estimator.freeze().predict_interval(X, coverage), estimator.predict_interval(X, coverage)
        )


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_an_order_other_than_the_sorted_one(task):
    X, y = TABLES[task]
    order = [1, 0] if task == "binary" else [1, 2, 0]
    with quiet():
        estimator = estimator_for("ordinal", loss=Ordinal(order), dtype="float64").fit(X, y)
    assert_frozen_is(estimator, X)


@pytest.mark.parametrize("optimizer", ["sgd", "lbfgs", sknet.optim.EMA(sknet.optim.Adam(), 0.9)])
def test_every_kind_of_optimizer(optimizer):
    estimator = fitted("multiclass", optimizer=optimizer, activation=Gate(), dtype="float64")
    assert_frozen_is(estimator, TABLES["multiclass"][0])


@pytest.mark.parametrize("hidden", [(), (4,), (16, 8, 4)])
def test_every_depth(hidden):
    estimator = fitted("regression", hidden_layer_sizes=hidden, activation=nn.PReLU(), dtype="float64")
    assert_frozen_is(estimator, TABLES["regression"][0])


def test_an_activation_that_cannot_be_captured():
    X, y = TABLES["binary"]
    with quiet(), pytest.warns(UserWarning, match="the training step is not compiled"):
        estimator = estimator_for("binary", activation=Reading(), dtype="float64").fit(X, y)
    with pytest.warns(UserWarning, match="it cannot become a graph: the value of a tensor is read"):
        assert_frozen_is(estimator, X)


def test_it_does_not_change():
    X, y = TABLES["multiclass"]
    estimator = fitted("multiclass", activation=trained_inside())
    frozen = estimator.freeze()
    before = [frozen.predict_proba(X[:n]) for n in (1, 230)]
    estimator.partial_fit(X, y)
    for n, expected in zip((1, 230), before, strict=True):
        np.testing.assert_array_equal(frozen.predict_proba(X[:n]), expected)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("activation", ["relu", "prelu", *[m for m in MODULES if m not in nn.ACTIVATIONS]])
def test_fitted_attributes_are_of_the_linear_layers_alone(activation, dropout):
    activation = MODULES.get(activation, activation)
    estimator = fitted("multiclass", activation=activation, hidden_layer_sizes=(8,), dropout=dropout)
    inner = {"GLU()": 4, "Linear(8, 11)": 11}.get(repr(activation), 8)
    assert [w.shape for w in estimator.coefs_] == [(12, 8), (inner, 3)]
    assert [b.shape for b in estimator.intercepts_] == [(8,), (3,)]
    assert (estimator.n_layers_, estimator.n_outputs_) == (3, 3)
    last = 3 if dropout else 2
    linear = [estimator.model_.module[0], estimator.model_.module[last]]
    for layer, weight, bias in zip(linear, estimator.coefs_, estimator.intercepts_, strict=True):
        np.testing.assert_array_equal(layer.weight.numpy(), weight)
        np.testing.assert_array_equal(layer.bias.numpy(), bias)


# -- activations that change the width -----------------------------------------------------------------


def test_an_activation_that_does_not_fit_is_named():
    X, y = TABLES["binary"]
    for activation, message in (
        (nn.GLU(), r"activation GLU\(\) does not fit a hidden layer of 7 units: .*7"),
        (nn.Linear(8, 8), r"activation Linear\(8, 8\) does not fit a hidden layer of 7 units"),
        (nn.Flatten(), None),
    ):
        estimator = estimator_for("binary", activation=activation, hidden_layer_sizes=(7,))
        if message is None:
            with quiet():
                assert estimator.fit(X, y).coefs_[1].shape == (7, 1)
            continue
        with pytest.raises(ValueError, match=message):
            estimator.fit(X, y)


class Summing(nn.Module):
    def forward(self, x):
        return ops.sum(x, axis=1)


def test_an_activation_that_returns_no_columns_is_named():
    X, y = TABLES["binary"]
    message = (
        r"activation Summing\(\) must return an array of shape \(n_samples, n_units\), and returns shape"
    )
    with pytest.raises(ValueError, match=message + r" \(2,\) for inputs of shape \(2, 8\)"):
        estimator_for("binary", activation=Summing()).fit(X, y)


# -- what it is -----------------------------------------------------------------------------------------


def test_repr():
    assert repr(fitted("multiclass").freeze()) == "FrozenClassifier(12-8-3, relu, LogLoss, float64)"
    regressor = fitted("multioutput", activation=nn.GLU(), hidden_layer_sizes=(8, 6), dtype="float32")
    assert repr(regressor.freeze()) == "FrozenRegressor(12-8-6-3, GLU(), SquaredError, float32)"
    several = fitted("binary", activation=trained_inside())
    assert repr(several.freeze()) == "FrozenClassifier(12-8-1, Sequential(...), LogLoss, float64)"


def test_a_pickle_holds_every_number_once():
    estimator = fitted("multiclass", hidden_layer_sizes=(1000,), activation=nn.BatchNorm(1000))
    frozen = estimator.freeze()
    numbers = 12 * 1000 + 1000 + 1000 * 3 + 3 + 4 * 1000
    assert 8 * numbers <= frozen.nbytes < 8 * numbers + 1000
    assert len(pickle.dumps(frozen)) < 8 * numbers + 5000


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 5)), r"expected a 2-D array of numbers with 12 columns, got float64 of shape \(2, 5\)"),
        (np.zeros(12), r"expected a 2-D array of numbers with 12 columns, got float64 of shape \(12,\)"),
        (np.zeros((0, 12)), "expected at least one row, got none"),
        (np.full((2, 12), "a"), "expected a 2-D array of numbers"),
        (np.full((2, 12), np.nan), "Input X contains NaN or infinity"),
        (scipy.sparse.csr_array(np.full((2, 12), np.inf)), "Input X contains NaN or infinity"),
    ],
)
def test_inputs_that_cannot_be_predicted(X, message):
    with pytest.raises(ValueError, match=message):
        fitted("binary").freeze().predict(X)


# -- memory ----------------------------------------------------------------------------------------------


def test_any_numbers_of_rows_need_few_programs():
    """A program for each of 400 batch sizes would need some 40 MB of memory."""
    frozen = fitted("multiclass", hidden_layer_sizes=(64,), dtype="float32").freeze()
    X = np.random.default_rng(0).normal(size=(400, 12))
    expected = frozen.predict_proba(X)
    tracemalloc.start()
    for n in range(1, 400):
        np.testing.assert_allclose(frozen.predict_proba(X[:n]), expected[:n], rtol=1e-4, atol=1e-6)
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert now < 3e6


@pytest.mark.slow
def test_many_rows_are_computed_in_parts():
    """All hidden outputs at once would take 820 MB."""
    frozen = fitted("binary", hidden_layer_sizes=(1 << 10,), dtype="float32").freeze()
    X = np.zeros((200_000, 12), "float32")
    tracemalloc.start()
    frozen.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_single_rows_of_frames_and_arrays(dtype):
    """What is read and computed in a short way has the bits of the estimator, whatever X holds."""
    X, y = TABLES["multiclass"]
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    with quiet():
        estimator = estimator_for("multiclass", dtype=dtype).fit(frame, y)
    frozen = estimator.freeze()
    whole = frame.round().astype("int64")
    kinds = (frame, frame.astype("float32"), whole, whole.assign(c0=frame["c0"]), frame.astype(object))
    for table in (*kinds, frame.astype({"c1": "float32"}), frame[frame.columns[::-1]] * 1e30):
        for _ in range(2):  # the second time by the program of the first
            for i in range(3):
                row = table.iloc[i : i + 1]
                ordered = row[frame.columns]  # which the estimator insists on
                np.testing.assert_array_equal(frozen.predict_proba(row), estimator.predict_proba(ordered))
                given = ordered.to_numpy()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # an array has no names
                    expected = estimator.predict(given)
                np.testing.assert_array_equal(frozen.predict(given), expected)
    wrong = frame.iloc[:1].assign(c0=np.inf)
    for X in (wrong, wrong.to_numpy(), wrong.to_numpy().astype("float32")):
        with pytest.raises(ValueError, match="Input X contains NaN or infinity"):
            frozen.predict(X)


def test_nothing_of_a_caller_is_kept():
    """A service sets variables for each request, which programs made in one must not keep alive."""
    with quiet():
        frozen = estimator_for("regression").fit(*TABLES["regression"]).freeze()
    variable = contextvars.ContextVar("request")

    def first_request():
        request = Request()
        variable.set(request)
        for _ in range(2):
            frozen.predict(TABLES["regression"][0][:1])
        return weakref.ref(request)

    request = contextvars.copy_context().run(first_request)
    gc.collect()
    assert request() is None


class Request:
    pass
