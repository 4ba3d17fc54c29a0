"""Mistakes raise clear errors, and leave the estimator unchanged."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import sknet
from sknet import neural_network
from sknet.exceptions import DeviceError
from sknet.losses import Huber, LogLoss
from sknet.optim import LBFGS, SGD, Adam
from sknet.optim.schedules import Cosine
from tests.estimators.data import TABLES, estimator_for, quiet, unchanged

X, Y = TABLES["multiclass"]
_, BINARY = TABLES["binary"]
_, Z = TABLES["regression"]
LABELS = TABLES["multilabel"][1]
N = len(X)
ONES = np.ones(N)


def with_bad(array, value):
    array = np.array(array, dtype=float)
    array[3] = value
    return array


NAN_X, INF_X = with_bad(X, np.nan), with_bad(X, np.inf)
WORDS = np.full(X.shape, "a")
DICTS = np.full(X.shape, {}, dtype=object)
COMPLEX = "Complex data not supported"
NO_NUMBER = "could not convert string to float"
ONE_CLASS = "at least 2 classes in the data, but the data contains only one class"

# Arguments of fit that cause the error.
DATA = [
    ("multiclass", (NAN_X, Y), "Input X contains NaN"),
    ("multiclass", (INF_X, Y), "Input X contains infinity"),
    ("regression", (scipy.sparse.csr_array(NAN_X), Z), "Input X contains NaN"),
    ("multiclass", (X[0], Y), "Expected 2D array, got 1D array"),
    ("multiclass", (X[:, :, None], Y), "Found array with dim 3"),
    ("multiclass", (X[:0], Y[:0]), r"Found array with 0 sample\(s\)"),
    ("multiclass", (X[:, :0], Y), r"Found array with 0 feature\(s\)"),
    ("multiclass", (X + 0j, Y), COMPLEX),
    ("multiclass", (WORDS, Y), NO_NUMBER),
    ("multiclass", (DICTS, Y), "argument must be .* string or a .*number"),
    ("multiclass", (X, with_bad(Y, np.nan)), "y has missing values: leave these rows out"),
    ("regression", (X, with_bad(Z, np.inf)), "Input y contains infinity"),
    ("regression", (X, None), "requires y to be passed, but the target y is None"),
    ("multiclass", (X, Y[:5]), r"inconsistent numbers of samples: \[230, 5\]"),
    ("regression", (X, np.zeros((N, 2, 2))), "Found array with dim 3"),
    ("multiclass", (X, Z), "Unknown label type: continuous"),
    ("multiclass", (X, np.c_[Y, np.zeros(N, int)]), ONE_CLASS + ": 0$"),
    ("multiclass", (X, Y + 1j), COMPLEX),
    ("regression", (X, Z + 1j), COMPLEX),
    ("multiclass", (X, DICTS[:, 0]), "Unknown label type: unknown"),
    ("regression", (X, WORDS[:, 0].astype(object)), NO_NUMBER),
    ("multiclass", (X, 0 * Y), ONE_CLASS + ": 0$"),
    ("multiclass", (X, WORDS[:, 0]), ONE_CLASS + ": 'a'$"),
    ("multiclass", (X[:1], Y[:1]), ONE_CLASS),
    ("regression", (X, Z, with_bad(ONES, np.nan)), "Input sample_weight contains NaN"),
    ("regression", (X, Z, with_bad(ONES, np.inf)), "Input sample_weight contains infinity"),
    ("regression", (X, Z, with_bad(ONES, -1e6)), "sample_weight must have a positive sum, got -"),
    ("regression", (X, Z, 0 * ONES), "at least one (non-zero number|weight must be positive)"),
    ("regression", (X, Z, 1e-310 * ONES), r"too small for float64: .* sum, which is 2.3e-308. Multiply the"),
    ("multiclass", (X, Y, 1e306 * ONES), r"too large for float64: .* sum, which is inf. Divide the"),
    (
        "multiclass",
        (X.astype("f"), Y, 1e37 * ONES),
        "too large for float32: .* sum, which is 2.3e[+]39. Divide",
    ),
    (
        "regression",
        (X, Z, 1e-30 * ONES),
        "a sum of 2.3e-28, by .* alpha=0.0001 it hides the data from a network",
    ),
    ("regression", (X, Z, ONES[:9]), r"sample_weight.shape == \(9,\), expected \(230,\)"),
    ("regression", (X, Z, ONES[:, None]), "Sample weights must be 1D array or scalar"),
    ("regression", (X, Z, ["a"] * N), NO_NUMBER),
]


@pytest.mark.parametrize(("task", "args", "message"), DATA)
def test_data(task, args, message):
    estimator = estimator_for(task)
    with unchanged(estimator, X), pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        estimator.fit(*args)
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    if len(args) == 2 and args[1] is not None:
        with unchanged(estimator, X), pytest.raises((ValueError, TypeError)):
            estimator.partial_fit(*args)


# Parameters with which valid data cannot be fitted.
CHOICES = [
    ("multiclass", {"class_weight": "bal"}, "'class_weight' parameter of MLPClassifier must be"),
    ("multiclass", {"class_weight": {0: -1}}, r"class_weight\[0\] must be a finite number >= 0, got -1"),
    ("multiclass", {"class_weight": {1: np.nan}}, r"class_weight\[1\] must be .* got nan"),
    ("multiclass", {"class_weight": {1: "a"}}, r"class_weight\[1\] must be .* got 'a'"),
    (
        "multiclass",
        {"class_weight": {0: 0, 1: 0, 2: 0}},
        "class_weight: at least one sample must have a posi",
    ),
    ("multiclass", {"class_weight": {7: 1}}, r"names 7, which is not among the labels \[0, 1, 2\]"),
    ("multiclass", {"class_weight": [1, 2]}, "as a list must hold one dict for each label of y, got 1"),
    ("multilabel", {"class_weight": {0: 2}}, "For multi-output, class_weight should be a list"),
    ("multilabel", {"class_weight": [{0: 2}]}, "number of elements in class_weight should match"),
    ("multiclass", {"loss": "logloss"}, r"'loss' parameter of MLPClassifier .* Did you mean 'log_loss' or"),
    ("multiclass", {"loss": "squared_error"}, "SquaredError supports the tasks regression; .*multiclass"),
    ("regression", {"loss": "log_loss"}, "LogLoss supports the tasks .*; the task here is regression"),
    ("regression", {"loss": "poisson"}, r"y must be 0 or more for Poisson.* but y\[\d, 0\] is -"),
    ("multiclass", {"loss": LogLoss}, "'loss' parameter of MLPClassifier must not be a class. Got <class"),
    ("regression", {"loss": Huber(delta=0)}, "'delta' parameter of Huber must be a float in the range"),
    ("multiclass", {"optimizer": "adamm"}, r"'optimizer' .* Did you mean 'adam'"),
    ("multiclass", {"optimizer": "sdg"}, r"'optimizer' .* Did you mean 'sgd'\?"),
    ("multiclass", {"optimizer": 3}, "'optimizer' parameter of MLPClassifier must be .*Got 3 instead"),
    ("multiclass", {"optimizer": Adam(lr=-1)}, "'lr' parameter of Adam must be a float in the range"),
    ("multiclass", {"optimizer": Adam(Cosine(-1.0))}, "'lr' parameter of Cosine must be a float"),
    ("multiclass", {"activation": "rellu"}, r"'activation' .* Did you mean 'relu' or .*\?"),
    ("multiclass", {"activation": None}, "'activation' parameter of MLPClassifier must be"),
    ("multiclass", {"device": "gpu"}, "unknown device 'gpu': expected one of"),
    ("multiclass", {"device": "cpu:7"}, "'cpu:7' requested, but there is only one"),
    ("multiclass", {"optimizer": LBFGS(), "early_stopping": True}, r"early_stopping=True needs .* Adam\(\)"),
    ("multiclass", {"optimizer": LBFGS(), "dropout": 0.5}, "dropout=0.5 needs .* got LBFGS"),
]


@pytest.mark.parametrize(("task", "params", "message"), CHOICES)
def test_choices(task, params, message):
    estimator = estimator_for(task, **params)
    with unchanged(estimator, X), pytest.raises((ValueError, DeviceError), match=message):
        estimator.fit(*TABLES[task])
    with pytest.raises(NotFittedError):
        estimator.predict(X)


ALL = {"classes": [0, 1, 2]}
BALANCED = {"class_weight": "balanced"}
PARTS = [
    ({}, Y, {}, ValueError, "classes must be passed on the first call to partial_fit"),
    ({}, Y, {"classes": [0, 1]}, ValueError, "`y` has classes not in `self.classes_`.* Name all classes"),
    ({}, 0 * Y, {"classes": [0]}, ValueError, ONE_CLASS),
    ({}, Z, ALL, ValueError, "Unknown label type: continuous"),
    ({"early_stopping": True}, Y, ALL, ValueError, "partial_fit does not support early_stopping=True"),
    (
        BALANCED,
        Y,
        ALL,
        ValueError,
        "class_weight='balanced' needs all of y, and partial_fit sees a part: .*dict",
    ),
    ({"optimizer": "lbfgs"}, Y, ALL, AttributeError, "has no attribute 'partial_fit'"),
    ({"optimizer": LBFGS()}, Y, ALL, AttributeError, "has no attribute 'partial_fit'"),
]


@pytest.mark.parametrize(("params", "y", "classes", "error", "message"), PARTS)
def test_first_part(params, y, classes, error, message):
    estimator = estimator_for("multiclass", **params)
    with unchanged(estimator, X), pytest.raises(error, match=message):
        estimator.partial_fit(X, y, **classes)


NO_WEIGHT = (
    "all sample weights of the (training rows|validation set) are zero: give more rows a positive weight"
)
SPLITS = [
    ("regression", (X[:1], Z[:1]), "the resulting train set will be empty"),
    ("regression", (X[:5], Z[:5]), "The validation set is too small. Increase"),
    ("binary", (X, np.eye(N)[0].astype(int)), "least populated classes in y have only 1"),
    ("regression", (X, Z, np.eye(N)[0]), NO_WEIGHT),
    ("multiclass", (X, Y, np.eye(N)[N // 2]), NO_WEIGHT),
]


@pytest.mark.parametrize(("task", "args", "message"), SPLITS)
def test_validation_sets(task, args, message):
    estimator = estimator_for(task, early_stopping=True, batch_size="auto")
    with unchanged(estimator, X), pytest.raises(ValueError, match=message):
        estimator.fit(*args)


@pytest.mark.parametrize("row", range(0, N, 5))
def test_standardized_inputs_of_rows_without_weight(row):
    estimator = estimator_for("regression", early_stopping=True, batch_size="auto", scale_inputs=True)
    with pytest.raises(ValueError, match=NO_WEIGHT):
        estimator.fit(X, Z, np.eye(N)[row])


VALUES = [
    ("hidden_layer_sizes", [0, -3, None, "a"], "must be an array-like or an int in the range"),
    ("hidden_layer_sizes", [(5, 0), (5, -1), (2.5,), ((5,),), ["a"]], "must be > 0, got .* a hidden layer"),
    ("alpha", [-1, np.nan, np.inf, "a"], r"in the range \[0.0, inf\)"),
    ("batch_size", [0, -1, 2.5, "all", None], "must be a str among {'auto'} or an int in the range"),
    ("max_iter", [0, -1, 1.5, None], "must be an int in the range"),
    ("tol", [-1, np.nan, "a"], "must be a float in the range"),
    ("dropout", [-0.1, 1.0, 2, None], r"must be a float in the range \[0.0, 1.0\)"),
    ("validation_fraction", [0, 1, -1, 2.0], r"must be a float in the range \(0.0, 1.0\)"),
    ("n_iter_no_change", [0, -1, 2.5, None], "must be an int in the range"),
    ("shuffle", ["yes", None, 2], "must be an instance of 'bool'"),
    ("early_stopping", ["yes", None], "must be an instance of 'bool'"),
    ("warm_start", ["yes", None], "must be an instance of 'bool'"),
    ("verbose", ["yes", -1, None], "parameter of MLPClassifier must be"),
    ("device", [3], "must be an instance of 'str'"),
    ("dtype", ["float16", None, "f4", "bf16"], r"be a str among (?=.*'bfloat16')(?=.*'float64').*'tf32'"),
    ("random_state", ["a", -1, 2.5], "must be an int in the range"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [(name, value, message) for name, values, message in VALUES for value in values],
)
def test_parameters(name, value, message):
    estimator = sknet.MLPClassifier(**{name: value})
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, Y)
    assert not hasattr(estimator, "model_")


def fitted(task, **params):
    estimator = estimator_for(task, warm_start=True, **params)
    with quiet():
        return estimator.fit(*TABLES[task])


def fit(*args):
    return lambda estimator: estimator.fit(*args)


def part(*args, **more):
    return lambda estimator: estimator.partial_fit(*args, **more)


# Changes that a continued fit rejects; a fit from scratch accepts them.
CONTINUED = [
    (
        "multiclass",
        {"hidden_layer_sizes": (6,)},
        fit(X, Y),
        r"hidden_layer_sizes was \(8,\) .* is \(6,\) now",
    ),
    ("multiclass", {"activation": "tanh"}, fit(X, Y), "activation was 'relu' .* and is 'tanh' now"),
    ("multiclass", {"dropout": 0.5}, fit(X, Y), "dropout was 0.0 .* and is 0.5 now"),
    ("multiclass", {"dtype": "float32"}, fit(X, Y), "dtype was 'auto' .* and is 'float32' now"),
    ("multiclass", {"dtype": "tf32"}, fit(X, Y), "dtype was 'auto' .* and is 'tf32' now"),
    ("multiclass", {"device": "cpu"}, fit(X, Y), "device was 'auto' .* and is 'cpu' now"),
    ("multiclass", {}, fit(X[:, :3], Y), "X has 3 features, but MLPClassifier is expecting 12"),
    ("multiclass", {}, fit(X, Y % 2), "warm_start can only be used where `y` has the same classes"),
    ("multiclass", {}, fit(X, LABELS), "warm_start can only be used where `y` has the same classes"),
    ("multilabel", {}, fit(X, Y), "y must be an indicator of 5 labels a row, got shape"),
    ("regression", {}, fit(X, np.c_[Z, Z]), r"y must have 1 column\(s\) as in the fit before, got 2"),
]
PARTIAL = [
    ("multiclass", {"activation": "tanh"}, part(X, Y), "activation was 'relu' .* and is 'tanh' now"),
    ("multiclass", {}, part(X[:, :3], Y), "X has 3 features"),
    ("multiclass", {}, part(X, Y + 1), "`y` has classes not in `self.classes_`"),
    ("multiclass", {}, part(X, Y, classes=[0, 1]), "is not the same as on last call to partial_fit"),
    ("multiclass", {}, part(X, Y, -ONES), "sample_weight must have a positive sum, got -"),
    ("multilabel", {}, part(X, LABELS[:, :2]), "y must be an indicator of 5 labels a row"),
    ("multioutput", {}, part(X, Z), r"y must have 3 column\(s\) as in the fit before, got 1"),
    (
        "regression",
        {"optimizer": SGD(1e300)},
        part(X, Z),
        "diverged in epoch 1, batch [1234] of 4: .*parameter",
    ),
    (
        "regression",
        {"optimizer": SGD(1e308), "batch_size": N},
        part(1e9 * X, Z),
        r"non-finite parameter weights.* \(first in parameter '0\.weight', after the last update\)",
    ),
]
ANY = [
    ("multiclass", {}, fit(NAN_X, Y), "Input X contains NaN"),
    ("multiclass", {"loss": "squared_error"}, fit(X, Y), "SquaredError supports the tasks regression"),
    ("regression", {"loss": "poisson"}, fit(X, Z), "y must be 0 or more for Poisson"),
    ("regression", {"early_stopping": True}, fit(X[:5], Z[:5]), "The validation set is too small"),
    (
        "regression",
        {"optimizer": SGD(1e300)},
        fit(X, Z),
        "diverged in epoch 1, batch [1234] of 4: .*parameter",
    ),
    (
        "regression",
        {"optimizer": "lbfgs", "alpha": 1e308},
        fit(1e160 * X, Z),
        "L-BFGS ended after 0 iterations",
    ),
]


@pytest.mark.parametrize(("task", "change", "call", "message"), [*CONTINUED, *PARTIAL, *ANY])
def test_continued_fit(task, change, call, message):
    estimator = fitted(task).set_params(**change)
    with unchanged(estimator, TABLES[task][0]), pytest.raises(ValueError, match=f"(?s){message}"):
        call(estimator)


@pytest.mark.parametrize(("task", "change", "call", "message"), ANY)
def test_fit_from_scratch(task, change, call, message):
    estimator = fitted(task).set_params(warm_start=False, **change)
    with unchanged(estimator, TABLES[task][0]), pytest.raises(ValueError, match=f"(?s){message}"):
        call(estimator)


@pytest.mark.parametrize(("task", "change", "call"), [row[:3] for row in CONTINUED])
def test_a_fit_from_scratch_may_differ(task, change, call):
    estimator = fitted(task).set_params(warm_start=False, **change)
    with quiet():
        call(estimator)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_prediction(method):
    estimator = fitted("multiclass")
    for bad, message in (
        (NAN_X, "Input X contains NaN"),
        (X[:, :3], "X has 3 features"),
        (X[0], "Expected 2D array"),
    ):
        with pytest.raises(ValueError, match=message):
            getattr(estimator, method)(bad)
    with pytest.raises(NotFittedError, match="This MLPClassifier instance is not fitted yet"):
        getattr(sknet.MLPClassifier(), method)(X)


@pytest.mark.parametrize("kind", [sknet.MLPRegressor, neural_network.MLPRegressor])
def test_unfitted_attributes(kind):
    assert not hasattr(kind(), "coefs_")
    with pytest.raises(AttributeError, match="this MLPRegressor is not fitted yet: call fit first"):
        kind().intercepts_  # noqa: B018
    with pytest.raises(NotFittedError):
        kind().predict(X)


def test_a_batch_larger_than_the_data_is_clipped_with_one_warning():
    for call in (lambda e: e.fit(X, Y), lambda e: e.partial_fit(X, Y, classes=[0, 1, 2])):
        with (
            pytest.warns(
                UserWarning, match="larger than sample size: 500 rows of 230. It is going"
            ) as caught,
            quiet(),
        ):
            call(estimator_for("multiclass", batch_size=500))
        assert len([w for w in caught if w.category is UserWarning]) == 1
        assert {w.filename for w in caught} == {__file__}


def test_divergence_in_scikit_learns_signature():
    estimator = neural_network.MLPRegressor(solver="sgd", learning_rate_init=1e300, random_state=0)
    message = "Solver produced non-finite parameter weights.*training diverged in epoch 1, batch [12] of 2"
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, Z)
    assert not hasattr(estimator, "model_")


@pytest.mark.filterwarnings("error")
def test_divergence_is_an_error_and_no_warnings():
    with pytest.raises(ValueError, match="training diverged"):
        estimator_for("regression", optimizer=SGD(1e300), max_iter=20).fit(X, Z)


def test_one_row_is_enough_for_a_regression():
    with quiet():
        assert estimator_for("regression", batch_size="auto").fit(X[:1], Z[:1]).predict(X[:1]).shape == (1,)


class Unreadable:
    def __repr__(self):
        return repr(self)


@pytest.mark.parametrize("estimator", [sknet.MLPClassifier, sknet.MLPRegressor])
def test_scores_name_targets_that_are_no_collection(estimator):
    fitted = estimator(max_iter=1, random_state=0)
    with quiet():
        fitted.fit(X, Y)
    with pytest.raises(TypeError, match=r"y must be one target for each row.*got an object of"):
        fitted.score(X, Unreadable())
