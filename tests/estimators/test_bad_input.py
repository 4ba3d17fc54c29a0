"""What cannot be meant is an error that says so, and the estimator is as it was before."""

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
from tests.estimators.data import TABLES, estimator_for, first_part, quiet, unchanged

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


def clf(**params):
    return estimator_for("multiclass", **params)


def reg(**params):
    return estimator_for("regression", **params)


NAN_X, INF_X = with_bad(X, np.nan), with_bad(X, np.inf)

FITS = [
    # inputs
    (clf, lambda e: e.fit(NAN_X, Y), ValueError, "Input X contains NaN"),
    (clf, lambda e: e.fit(INF_X, Y), ValueError, "Input X contains infinity"),
    (reg, lambda e: e.fit(scipy.sparse.csr_array(NAN_X), Z), ValueError, "Input X contains NaN"),
    (clf, lambda e: e.fit(X[0], Y), ValueError, "Expected 2D array, got 1D array"),
    (clf, lambda e: e.fit(X[:, :, None], Y), ValueError, "Found array with dim 3"),
    (clf, lambda e: e.fit(X[:0], Y[:0]), ValueError, r"Found array with 0 sample\(s\)"),
    (clf, lambda e: e.fit(X[:, :0], Y), ValueError, r"Found array with 0 feature\(s\)"),
    (clf, lambda e: e.fit(X + 0j, Y), ValueError, "Complex data not supported"),
    (clf, lambda e: e.fit(np.full(X.shape, "a"), Y), ValueError, "could not convert string to float"),
    (clf, lambda e: e.fit(np.full(X.shape, {}, dtype=object), Y), TypeError, "argument must be .* string or a .*number"),
    # targets
    (clf, lambda e: e.fit(X, with_bad(Y, np.nan)), ValueError, "Input y contains NaN"),
    (reg, lambda e: e.fit(X, with_bad(Z, np.inf)), ValueError, "Input y contains infinity"),
    (reg, lambda e: e.fit(X, None), ValueError, "requires y to be passed, but the target y is None"),
    (clf, lambda e: e.fit(X, Y[:5]), ValueError, r"inconsistent numbers of samples: \[230, 5\]"),
    (reg, lambda e: e.fit(X, np.zeros((N, 2, 2))), ValueError, "Found array with dim 3"),
    (clf, lambda e: e.fit(X, Z), ValueError, "Unknown label type: continuous"),
    (clf, lambda e: e.fit(X, np.c_[Y, Y]), ValueError, r"Multioutput target data is not supported: .* shape \(230, 2\)"),
    (clf, lambda e: e.fit(X, Y + 1j), ValueError, "Complex data not supported"),
    (clf, lambda e: e.fit(X, np.array([{}] * N)), ValueError, "Unknown label type: unknown"),
    (reg, lambda e: e.fit(X, np.full(N, "a", dtype=object)), ValueError, "could not convert string to float"),
    (clf, lambda e: e.fit(X, 0 * Y), ValueError, "at least 2 classes in the data, but the data contains only one class: 0$"),
    (clf, lambda e: e.fit(X, np.full(N, "a")), ValueError, "only one class: 'a'$"),
    (clf, lambda e: e.fit(X[:1], Y[:1]), ValueError, "at least 2 classes"),
    (lambda: reg(loss="poisson"), lambda e: e.fit(X, Z), ValueError, r"y must be 0 or more for Poisson.* but y\[\d, 0\] is -"),
    # weights
    (reg, lambda e: e.fit(X, Z, with_bad(ONES, np.nan)), ValueError, "Input sample_weight contains NaN"),
    (reg, lambda e: e.fit(X, Z, with_bad(ONES, np.inf)), ValueError, "Input sample_weight contains infinity"),
    (reg, lambda e: e.fit(X, Z, with_bad(ONES, -1)), ValueError, "Negative values in data passed to `sample_weight`"),
    (reg, lambda e: e.fit(X, Z, 0 * ONES), ValueError, "at least one (non-zero number|weight must be positive)"),
    (reg, lambda e: e.fit(X, Z, ONES[:9]), ValueError, r"sample_weight.shape == \(9,\), expected \(230,\)"),
    (reg, lambda e: e.fit(X, Z, ONES[:, None]), ValueError, "Sample weights must be 1D array or scalar"),
    (reg, lambda e: e.fit(X, Z, ["a"] * N), ValueError, "could not convert string to float"),
    (lambda: reg(early_stopping=True), lambda e: e.fit(X, Z, np.eye(N)[0]), ValueError,
     "all sample weights of the (training rows|validation set) are zero: give more rows a weight"),
    # class weights
    (lambda: clf(class_weight="bal"), lambda e: e.fit(X, Y), ValueError, "'class_weight' parameter of MLPClassifier must be"),
    (lambda: clf(class_weight={0: -1}), lambda e: e.fit(X, Y), ValueError, r"class_weight\[0\] must be a finite number >= 0, got -1"),
    (lambda: clf(class_weight={1: np.nan}), lambda e: e.fit(X, Y), ValueError, r"class_weight\[1\] must be .* got nan"),
    (lambda: clf(class_weight={1: "a"}), lambda e: e.fit(X, Y), ValueError, r"class_weight\[1\] must be .* got 'a'"),
    (lambda: clf(class_weight={0: 0, 1: 0, 2: 0}), lambda e: e.fit(X, Y), ValueError, "class_weight: at least one sample must have"),
    (lambda: clf(class_weight={7: 1}), lambda e: e.fit(X, Y), ValueError, r"names classes \[7\] that are not among \[0, 1, 2\]"),
    (lambda: clf(class_weight=[1, 2]), lambda e: e.fit(X, Y), ValueError, "as a list must hold one dict for each label of y, got 1"),
    (lambda: clf(class_weight={0: 2}), lambda e: e.fit(X, LABELS), ValueError, "For multi-output, class_weight should be a list"),
    (lambda: clf(class_weight=[{0: 2}]), lambda e: e.fit(X, LABELS), ValueError, "number of elements in class_weight should match"),
    (lambda: clf(class_weight="balanced"), lambda e: first_part("multiclass", e, X, Y), ValueError,
     "class_weight='balanced' needs all of y, and partial_fit sees a part: .*as a dict"),
    # names
    (lambda: clf(loss="logloss"), lambda e: e.fit(X, Y), ValueError, r"'loss' parameter of MLPClassifier .* Did you mean 'log_loss'\?"),
    (lambda: clf(loss="squared_error"), lambda e: e.fit(X, Y), ValueError, "SquaredError serves the tasks regression; .*multiclass"),
    (lambda: reg(loss="log_loss"), lambda e: e.fit(X, Z), ValueError, "LogLoss serves the tasks .*; the task here is regression"),
    (lambda: clf(loss=LogLoss), lambda e: e.fit(X, Y), ValueError, "'loss' parameter of MLPClassifier must be a str among .* or an instance of Loss"),
    (lambda: reg(loss=Huber(delta=0)), lambda e: e.fit(X, Z), ValueError, "'delta' parameter of Huber must be a float in the range"),
    (lambda: clf(optimizer="adamm"), lambda e: e.fit(X, Y), ValueError, r"'optimizer' .* Did you mean 'adam' or 'adamw'\?"),
    (lambda: clf(optimizer="sdg"), lambda e: e.fit(X, Y), ValueError, r"'optimizer' .* Did you mean 'sgd'\?"),
    (lambda: clf(optimizer=3), lambda e: e.fit(X, Y), ValueError, "'optimizer' parameter of MLPClassifier must be a str among .* or an instance of Optimizer"),
    (lambda: clf(optimizer=Adam(lr=-1)), lambda e: e.fit(X, Y), ValueError, "'lr' parameter of Adam must be a float in the range"),
    (lambda: clf(optimizer=Adam(Cosine(-1.0))), lambda e: e.fit(X, Y), ValueError, "'lr' parameter of Cosine must be a float"),
    (lambda: clf(activation="rellu"), lambda e: e.fit(X, Y), ValueError, r"'activation' .* Did you mean 'relu' or .*\?"),
    (lambda: clf(activation=None), lambda e: e.fit(X, Y), ValueError, "'activation' parameter of MLPClassifier must be"),
    (lambda: clf(device="gpu"), lambda e: e.fit(X, Y), DeviceError, "unknown device 'gpu': expected one of"),
    (lambda: clf(device="cpu:7"), lambda e: e.fit(X, Y), DeviceError, "'cpu:7' asked for, but there is only one"),
    # L-BFGS
    (lambda: clf(optimizer="lbfgs"), lambda e: e.partial_fit(X, Y), AttributeError, "has no attribute 'partial_fit'"),
    (lambda: clf(optimizer=LBFGS(), early_stopping=True), lambda e: e.fit(X, Y), ValueError, r"early_stopping=True needs .* Adam\(\)"),
    (lambda: clf(optimizer=LBFGS(), dropout=0.5), lambda e: e.fit(X, Y), ValueError, r"dropout=0.5 needs .* got LBFGS"),
    # parts
    (clf, lambda e: e.partial_fit(X, Y), ValueError, "classes must be passed on the first call to partial_fit"),
    (clf, lambda e: e.partial_fit(X, Y, classes=[0, 1]), ValueError, "`y` has classes not in `self.classes_`.* Name all classes"),
    (clf, lambda e: e.partial_fit(X, 0 * Y, classes=[0]), ValueError, "at least 2 classes"),
    (lambda: clf(early_stopping=True), lambda e: e.partial_fit(X, Y, classes=[0, 1, 2]), ValueError, "does not support early_stopping"),
    # validation
    (lambda: reg(early_stopping=True), lambda e: e.fit(X[:1], Z[:1]), ValueError, "the resulting train set will be empty"),
    (lambda: reg(early_stopping=True), lambda e: e.fit(X[:5], Z[:5]), ValueError, "The validation set is too small. Increase"),
    (lambda: clf(early_stopping=True), lambda e: e.fit(X, np.eye(N)[0].astype(int)), ValueError, "least populated classes in y have only 1"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "call", "error", "message"), FITS)
def test_first_fit(make, call, error, message):
    estimator = make()
    with unchanged(estimator, X), pytest.raises(error, match=f"(?s){message}"):
        call(estimator)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


VALUES = [
    ("hidden_layer_sizes", [0, -3, None, "a"], "must be an array-like or an int in the range"),
    ("hidden_layer_sizes", [(5, 0), (5, -1), (2.5,), ((5,),), ["a"]], "hidden_layer_sizes must be > 0, got .* one a hidden layer"),
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
    ("device", [None, 3], "must be an instance of 'str'"),
    ("dtype", ["float16", None, "f4"], "must be a str among"),
    ("random_state", ["a", -1, 2.5], "must be an int in the range"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "message"), [(name, value, message) for name, values, message in VALUES for value in values]
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


SECONDS = [
    ("multiclass", {}, lambda e: e.fit(NAN_X, Y), "Input X contains NaN"),
    ("multiclass", {"hidden_layer_sizes": (6,)}, lambda e: e.fit(X, Y), r"hidden_layer_sizes was \(8,\) .* and is \(6,\) now"),
    ("multiclass", {"activation": "tanh"}, lambda e: e.fit(X, Y), "activation was 'relu' .* and is 'tanh' now"),
    ("multiclass", {"dropout": 0.5}, lambda e: e.fit(X, Y), "dropout was 0.0 .* and is 0.5 now"),
    ("multiclass", {"dtype": "float32"}, lambda e: e.fit(X, Y), "dtype was 'auto' .* and is 'float32' now"),
    ("multiclass", {"device": "cpu"}, lambda e: e.partial_fit(X, Y), "device was 'auto' .* and is 'cpu' now"),
    ("multiclass", {"loss": "squared_error"}, lambda e: e.fit(X, Y), "SquaredError serves the tasks regression"),
    ("multiclass", {}, lambda e: e.fit(X[:, :3], Y), "X has 3 features, but MLPClassifier is expecting 12"),
    ("multiclass", {}, lambda e: e.partial_fit(X[:, :3], Y), "X has 3 features"),
    ("multiclass", {}, lambda e: e.fit(X, Y % 2), "warm_start can only be used where `y` has the same classes"),
    ("multiclass", {}, lambda e: e.fit(X, LABELS), "warm_start can only be used where `y` has the same classes"),
    ("multiclass", {}, lambda e: e.partial_fit(X, Y + 1), "`y` has classes not in `self.classes_`"),
    ("multiclass", {}, lambda e: e.partial_fit(X, Y, classes=[0, 1]), "is not the same as on last call to partial_fit"),
    ("multiclass", {}, lambda e: e.partial_fit(X, Y, -ONES), "Negative values in data passed to `sample_weight`"),
    ("multilabel", {}, lambda e: e.fit(X, Y), "y must be an indicator of 5 labels a row, got shape"),
    ("multilabel", {}, lambda e: e.partial_fit(X, LABELS[:, :2]), "y must be an indicator of 5 labels a row"),
    ("regression", {}, lambda e: e.fit(X, np.c_[Z, Z]), r"y must have 1 column\(s\) as in the fit before, got 2"),
    ("multioutput", {}, lambda e: e.partial_fit(X, Z), r"y must have 3 column\(s\) as in the fit before, got 1"),
    ("regression", {"loss": "poisson"}, lambda e: e.fit(X, Z), "y must be 0 or more for Poisson"),
    ("regression", {"early_stopping": True}, lambda e: e.fit(X[:5], Z[:5]), "The validation set is too small"),
    ("regression", {"optimizer": SGD(1e300)}, lambda e: e.fit(X, Z), "training diverged in epoch [12], batch [1234] of 4: .*parameter"),
    ("regression", {"optimizer": SGD(1e300)}, lambda e: e.partial_fit(X, Z), "training diverged in epoch 1, batch [1234] of 4"),
    ("regression", {"optimizer": SGD(1e308), "batch_size": 230}, lambda e: e.partial_fit(1e9 * X, Z),
     r"non-finite parameter weights.* \(first in parameter '0\.weight', after the last update\)"),
    ("regression", {"optimizer": "lbfgs", "alpha": 1e308}, lambda e: e.fit(1e160 * X, Z), "L-BFGS ended after 0 iterations"),
]  # fmt: skip


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "anew"])
@pytest.mark.parametrize(("task", "change", "call", "message"), SECONDS)
def test_second_fit(task, change, call, message, warm):
    estimator = fitted(task).set_params(warm_start=warm, **change)
    calls_part = "partial_fit" in call.__code__.co_names
    needs_the_first = message.startswith(("hidden", "act", "dropout", "dtype", "device", "X has", "warm", "y must"))
    if not (warm or calls_part) and needs_the_first and "Poisson" not in message:
        with quiet():
            call(estimator)  # a new fit may have all that anew
        return
    with unchanged(estimator, TABLES[task][0]), pytest.raises(ValueError, match=f"(?s){message}"):
        call(estimator)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_prediction(method):
    estimator = fitted("multiclass")
    for bad, message in ((NAN_X, "Input X contains NaN"), (X[:, :3], "X has 3 features"), (X[0], "Expected 2D array")):
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
        with pytest.warns(UserWarning, match="larger than sample size: 500 rows of 230. It is going") as caught, quiet():
            call(clf(batch_size=500))
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
        reg(optimizer=SGD(1e300), max_iter=20).fit(X, Z)


def test_one_row_is_enough_for_a_regression():
    with quiet():
        assert reg(batch_size="auto").fit(X[:1], Z[:1]).predict(X[:1]).shape == (1,)
