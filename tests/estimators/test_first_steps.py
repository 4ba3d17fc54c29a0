"""First attempts of users: functions for names, a learning rate, dtypes and generators of NumPy."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import _NotAnArray

import sknet
import sknet.neural_network
from sknet import (
    Autoencoder,
    MLPClassifier,
    MLPRegressor,
    MultiHeadNet,
    NetRegressor,
    TabularRegressor,
    nn,
    ops,
)
from sknet.model_selection import HalvingGridSearchCV
from sknet.optim import LBFGS, SGD, Adam, ClipNorm, Groups
from sknet.optim.schedules import Cosine

X, LABELS = load_iris(return_X_y=True)
INPUTS, Y = X[:, :3], X[:, 3]
FEW = {"max_iter": 5, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def half_square(y_true, output):
    return 0.5 * (y_true - output) ** 2


def swish(x):
    return x * ops.sigmoid(x)


def cross_entropy(y_true, output):
    return ops.logsumexp(output, axis=1) - ops.sum(output * ops.one_hot(y_true, 3), axis=1)


def binary_cross_entropy(y_true, output):
    return ops.softplus(output) - y_true * output


def predictions(estimator, y=Y):
    return estimator.fit(INPUTS, y).predict(INPUTS)


@pytest.mark.parametrize(
    ("function", "name"), [(np.tanh, "tanh"), (ops.relu, "relu"), (swish, "silu"), (nn.GELU(), "gelu")]
)
def test_an_activation_is_a_function_of_tensors(function, name):
    given = predictions(MLPRegressor(8, activation=function, **FEW))
    np.testing.assert_allclose(given, predictions(MLPRegressor(8, activation=name, **FEW)), rtol=1e-6)


def test_a_function_as_the_activation_of_an_autoencoder():
    given, named = (
        Autoencoder((3, 2), activation=each, **FEW).fit_transform(X) for each in (np.tanh, "tanh")
    )
    np.testing.assert_allclose(given, named, rtol=1e-6)


def test_a_fit_with_functions_can_be_continued():
    reg = MLPRegressor(8, activation=np.tanh, loss=half_square, **FEW).partial_fit(INPUTS, Y)
    same = MLPRegressor(8, activation="tanh", scale_target=False, **FEW).partial_fit(INPUTS, Y)
    np.testing.assert_allclose(
        reg.partial_fit(INPUTS, Y).predict(INPUTS), same.partial_fit(INPUTS, Y).predict(INPUTS), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x, y: x, TypeError, "needs a function that can be called with the input alone"),
        (lambda x: 3.0, sknet.exceptions.ShapeError, r"must return an array of shape \(n_samples, n_units\)"),
    ],
)
def test_a_function_that_is_no_activation(function, error, message):
    with pytest.raises(error, match=message):
        MLPRegressor(8, activation=function).fit(INPUTS, Y)


def test_a_loss_is_a_function_that_returns_one_value_per_row():
    weights = np.linspace(0.0, 2.0, len(Y))
    given, named = (
        MLPRegressor(8, loss=loss, scale_target=False, **FEW).fit(INPUTS, Y, sample_weight=weights)
        for loss in (half_square, "squared_error")
    )
    np.testing.assert_allclose(given.predict(INPUTS), named.predict(INPUTS), rtol=1e-6)
    np.testing.assert_allclose(given.loss_curve_, named.loss_curve_, rtol=1e-6)


def test_a_loss_of_several_targets_sums_over_them():
    def summed(y_true, output):
        return ops.sum(half_square(y_true, output), axis=1)

    given, named = (
        predictions(MLPRegressor(8, loss=loss, scale_target=False, **FEW), X)
        for loss in (summed, "squared_error")
    )
    np.testing.assert_allclose(given, named, rtol=1e-6)


@pytest.mark.parametrize(
    ("loss", "labels"), [(cross_entropy, LABELS), (binary_cross_entropy, LABELS > 0)], ids=["three", "two"]
)
def test_a_loss_of_classes_is_given_their_numbers_and_logits(loss, labels):
    given, named = (MLPClassifier(8, loss=each, **FEW).fit(X, labels) for each in (loss, "log_loss"))
    np.testing.assert_allclose(given.predict_proba(X), named.predict_proba(X), rtol=1e-5)
    assert given.score(X, labels) == named.score(X, labels)


def test_a_loss_that_averages_over_rows_is_told_to_return_one_value_per_row():
    def mean(y_true, output):
        return ops.mean(half_square(y_true, output))

    message = r"mean returned an array of shape \(\) .*: return one value per row, shape \(150,\)"
    with pytest.raises(sknet.exceptions.ShapeError, match=message):
        MLPRegressor(8, loss=mean).fit(INPUTS, Y)
    with pytest.raises(sknet.exceptions.ShapeError, match="return one value per row"):
        MLPRegressor(8, loss=half_square).fit(INPUTS, X)
    with pytest.raises(ValueError, match="must be a callable that takes y_true and the output"):
        MLPRegressor(8, loss=swish).fit(INPUTS, Y)


@pytest.mark.parametrize(
    "wrong", [lambda y_true, output: ops.sum(output, axis=1), lambda y_true, output: None]
)
def test_errors_within_a_loss_name_its_shapes(wrong):
    with pytest.raises((ValueError, TypeError)) as raised:
        MLPRegressor(8, loss=wrong).fit(INPUTS, Y)
    told = "\n".join(raised.value.__notes__)
    assert (
        "y_true has shape (150,) and the output (150,), and it returns one value per row, shape (150,)"
        in told
    )


def test_a_model_takes_a_function_as_its_loss():
    model = sknet.Model(nn.Linear(3, 1), loss=half_square, random_state=0)
    same = sknet.Model(nn.Linear(3, 1), loss="squared_error", random_state=0)
    assert model.step(INPUTS, Y).loss == pytest.approx(same.step(INPUTS, Y).loss, rel=1e-6)


@pytest.mark.parametrize("loss", [half_square, lambda y, z: half_square(y, z)], ids=["function", "lambda"])
def test_predictors_need_no_function_of_the_user(tmp_path, loss):
    reg = MLPRegressor(8, loss=loss, activation=swish, **FEW).fit(INPUTS, Y)
    sknet.save(reg.freeze(), tmp_path / "reg.sknet")
    assert np.array_equal(sknet.load(tmp_path / "reg.sknet").predict(INPUTS), reg.predict(INPUTS))


def test_a_fitted_estimator_is_stored_with_its_functions(tmp_path):
    reg = MLPRegressor(8, loss=half_square, activation=swish, **FEW).fit(INPUTS, Y)
    sknet.save(reg, tmp_path / "reg.sknet")
    again = sknet.load(tmp_path / "reg.sknet", trusted=[half_square, swish])
    assert np.array_equal(
        again.partial_fit(INPUTS, Y).predict(INPUTS), reg.partial_fit(INPUTS, Y).predict(INPUTS)
    )


# -- the learning rate -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "lr", "same"),
    [
        ("adam", 0.03, Adam(lr=0.03)),
        ("sgd", Cosine(0.1), SGD(lr=Cosine(0.1))),
        (ClipNorm(Adam(beta1=0.8)), 0.03, ClipNorm(Adam(0.03, beta1=0.8))),
        (Groups({"*": SGD(lr=Cosine(1.0))}), 0.03, Groups({"*": SGD(lr=0.03)})),
    ],
)
def test_lr_is_the_rate_of_the_optimizer(optimizer, lr, same):
    before = repr(optimizer)
    given = MLPRegressor(8, optimizer=optimizer, lr=lr, **FEW).fit(INPUTS, Y)
    named = MLPRegressor(8, optimizer=same, **FEW).fit(INPUTS, Y)
    assert np.array_equal(given.predict(INPUTS), named.predict(INPUTS))
    assert given.model_.optimizer == same
    assert repr(optimizer) == before


def test_lr_is_cloned_set_and_searched():
    reg = clone(MLPRegressor(8, lr=0.5, **FEW)).set_params(optimizer__beta1=0.5)
    assert reg.lr == 0.5
    assert reg.fit(INPUTS, Y).model_.optimizer == Adam(0.5, beta1=0.5)
    for search in (GridSearchCV, HalvingGridSearchCV):
        scores = [
            search(MLPRegressor(8, **FEW), {name: [0.1, 0.01, 0.001]}, cv=2)
            .fit(INPUTS, Y)
            .cv_results_["mean_test_score"]
            for name in ("lr", "optimizer__lr")
        ]
        np.testing.assert_array_equal(*scores)


def test_a_continued_fit_takes_another_lr():
    reg = MLPRegressor(8, lr=0.5, **FEW).partial_fit(INPUTS, Y).set_params(lr=0.25).partial_fit(INPUTS, Y)
    assert reg.history_["lr"] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lr": -1.0}, "The 'lr' parameter of Adam must be a float in the range"),
        ({"lr": "fast"}, "The 'lr' parameter of Adam must be a float in the range"),
        ({"lr": 0.1, "optimizer": LBFGS()}, r"lr=0.1 needs an optimizer with a learning rate, got LBFGS\(\)"),
    ],
)
def test_an_lr_that_no_optimizer_has(params, message):
    with pytest.raises(ValueError, match=message):
        MLPRegressor(8, **params).fit(INPUTS, Y)


# -- as NumPy has them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float64"), float])
def test_a_precision_is_a_dtype(dtype):
    reg = MLPRegressor(8, dtype=dtype, **FEW).fit(INPUTS, Y)
    assert reg.model_.dtype == np.dtype(dtype)
    assert clone(reg).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float16, np.int64, None, "half"])
def test_a_dtype_that_nothing_computes_in(dtype):
    with pytest.raises(
        ValueError, match=r"must be a str among .*'float64'.* or a dtype of one of these names"
    ):
        MLPRegressor(8, dtype=dtype).fit(INPUTS, Y)


@pytest.mark.parametrize("n_members", [1, 2])
def test_no_device_is_where_the_data_are(n_members):
    given, named = (MLPRegressor(8, device=each, n_members=n_members, **FEW) for each in (None, "auto"))
    assert np.array_equal(predictions(given), predictions(named))


def test_a_generator_is_a_random_state():
    few = {"max_iter": 2, "early_stopping": True}
    first, again = (predictions(MLPRegressor(8, random_state=np.random.default_rng(3), **few)) for _ in "ab")
    other = predictions(MLPRegressor(8, random_state=np.random.default_rng(4), **few))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    generator = np.random.default_rng(3)
    reg = NetRegressor(nn.Linear(3, 1), random_state=generator, **few)
    assert clone(reg).random_state is not generator
    sknet.TableEncoder(random_state=generator).fit(INPUTS, Y)


def test_tables_take_a_generator_and_no_device():
    inputs, y = load_diabetes(return_X_y=True)
    given = {"n_folds": 2, "members": 1, "budget": 0.1, "device": None}
    first, again = (
        sknet.TabularRegressor(random_state=np.random.default_rng(3), **given).fit(inputs[:60], y[:60])
        for _ in "ab"
    )
    assert np.array_equal(first.predict(inputs), again.predict(inputs))


# -- shapes ----------------------------------------------------------------------------------------------


class Flat(nn.Module):
    """A network that returns one number for each row."""

    def __init__(self):
        self.body, self.head = nn.LazyLinear(8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(ops.relu(self.body(x)))[:, 0]


class Column(Flat):
    """The same network, which returns a column."""

    def forward(self, x):
        return self.head(ops.relu(self.body(x)))


def test_a_regressors_network_returns_a_number_for_each_row(tmp_path):
    flat, column = (NetRegressor(each, scale_target=True, **FEW).fit(INPUTS, Y) for each in (Flat, Column))
    assert np.array_equal(flat.predict(INPUTS), column.predict(INPUTS))
    assert flat.score(INPUTS, Y) == column.score(INPUTS, Y)
    assert flat.partial_fit(INPUTS[:1], Y[:1]).predict(INPUTS[:1]).shape == (1,)
    sknet.save(flat.freeze(), tmp_path / "flat.sknet")
    assert np.array_equal(sknet.load(tmp_path / "flat.sknet").predict(INPUTS), flat.predict(INPUTS))
    together = NetRegressor(Flat, n_members=2, **FEW).fit(INPUTS, Y)
    assert together.predict(INPUTS).shape == (150,)


def test_a_classifiers_network_returns_a_logit_for_each_row():
    flat, column = (sknet.NetClassifier(each, **FEW).fit(X, LABELS > 0) for each in (Flat, Column))
    assert np.array_equal(flat.predict_proba(X), column.predict_proba(X))


RAGGED = [[1, 2, 3], [4, 5], [6]] * 4


@pytest.mark.parametrize(
    "rows",
    [RAGGED, [np.array(row, float) for row in RAGGED], np.array(RAGGED, dtype=object)],
    ids=["lists", "arrays", "objects"],
)
@pytest.mark.parametrize("estimator", [MLPRegressor(), NetRegressor(Flat)], ids=["perceptron", "network"])
def test_sequences_of_different_lengths(estimator, rows):
    with pytest.raises((ValueError, TypeError), match="forward takes `lengths`"):
        estimator.fit(rows, np.arange(12.0))
    with pytest.raises(TypeError, match="forward takes `lengths`"):
        NetRegressor(Flat).fit({"x": RAGGED}, np.arange(12.0))


def test_sequences_with_features_of_different_lengths():
    with pytest.raises(TypeError, match="forward takes `lengths`"):
        NetRegressor(Flat).fit([np.ones((len(row), 3)) for row in RAGGED], np.arange(12.0))


def test_images_for_a_perceptron():
    with pytest.raises(
        ValueError, match=r"X.reshape\(len\(X\), -1\) makes one row of features of each image"
    ):
        MLPRegressor().fit(np.ones((12, 8, 8)), np.arange(12.0))


# -- rows of JSON ----------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "age": np.arange(40.0),
        "city": list("abca") * 10,
        "day": pd.date_range("2024-01-01", periods=40).strftime("%Y-%m-%d"),
    }
)
EVEN = np.arange(40) % 2


def encoded():
    columns = make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["age"]))
    return sknet.freeze(make_pipeline(columns, MLPClassifier(8, **FEW)).fit(FRAME[["age", "city"]], EVEN))


PREDICTORS = {
    "numbers": lambda: MLPClassifier(8, **FEW).fit(FRAME[["age"]], EVEN).freeze(),
    "encoder": lambda: MLPClassifier(8, encoder="table", **FEW).fit(FRAME, EVEN).freeze(),
    "pipeline": encoded,
    "ensemble": lambda: (
        sknet.TabularClassifier(n_folds=2, members=1, budget=0.02, random_state=0).fit(FRAME, EVEN).freeze()
    ),
}


@pytest.mark.filterwarnings("ignore:column 'day' is read as:UserWarning")
@pytest.mark.parametrize("name", PREDICTORS)
def test_a_frozen_predictor_takes_rows_of_json(name):
    predictor = PREDICTORS[name]()
    columns = {"numbers": ["age"], "pipeline": ["age", "city"]}.get(name, list(FRAME))
    rows = FRAME[columns].to_dict("records")
    wanted = predictor.predict_proba(FRAME[columns])
    assert np.array_equal(predictor.predict_proba(rows), wanted)
    turned = [dict(reversed(row.items())) for row in rows]
    assert np.array_equal(predictor.predict_proba(turned), wanted)
    np.testing.assert_allclose(predictor.predict_proba(rows[3]), wanted[3:4], rtol=1e-5)
    assert predictor.predict(rows[3]).shape == (1,)
    lacking = [{("Age" if key == "age" else key): value for key, value in row.items()} for row in rows]
    with pytest.raises(ValueError, match=r"row 0 of X has no column 'age'\. Did you mean 'Age'"):
        predictor.predict(lacking)
    with pytest.raises(ValueError, match=r"row 1 of X has columns \['more'\] that the fit has not seen"):
        predictor.predict([rows[0], rows[1] | {"more": 1}])


def test_rows_of_json_need_names():
    predictor = MLPClassifier(8, **FEW).fit(FRAME[["age"]].to_numpy(), EVEN).freeze()
    with pytest.raises(ValueError, match="the fit has seen no names of columns: pass lists of values"):
        predictor.predict({"age": 3.0})


def test_missing_values_of_json_are_those_of_a_frame():
    table = FRAME[["age", "city"]].copy()
    table.loc[table.index % 7 == 3] = None
    predictor = MLPClassifier(8, encoder="table", **FEW).fit(table, EVEN).freeze()
    found = predictor.predict_proba([{"age": None, "city": None}, {"age": 3, "city": "b"}])
    np.testing.assert_allclose(found[0], predictor.predict_proba(table)[3], rtol=1e-5)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("form", [list, tuple, pd.Series])
@pytest.mark.parametrize(
    "estimator",
    [MLPRegressor(), MLPRegressor(encoder="table"), NetRegressor(Flat), TabularRegressor()],
    ids=["perceptron", "encoder", "network", "tables"],
)
def test_a_fit_to_rows_of_json(estimator, form):
    rows = form([{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}])
    with pytest.raises(TypeError, match=r"got a (list|tuple|Series) of dicts.*pandas.DataFrame\(X\)"):
        estimator.fit(rows, [0.0, 1.0])


class Pair(nn.Module):
    def __init__(self):
        self.first, self.second = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, x):
        return {"a": self.first(x), "b": self.second(x)}


@pytest.mark.parametrize(
    ("estimator", "y", "error", "message"),
    [
        (MLPRegressor(loss={"a": "squared_error"}), Y, ValueError, r"a dict of \['a'\].*MultiHeadNet"),
        (MLPClassifier(), {"a": Y, "b": Y}, TypeError, r"got a dict of \['a', 'b'\]: MultiHeadNet"),
        (NetRegressor(Pair), Y, TypeError, "a dict of 2, expected one tensor.*MultiHeadNet"),
    ],
    ids=["losses", "targets", "network"],
)
def test_several_heads_lead_to_their_estimator(estimator, y, error, message):
    with pytest.raises(error, match=message):
        estimator.fit(INPUTS, y)


def test_a_search_takes_targets_by_heads():
    heads = MultiHeadNet(Pair, {"a": "squared_error", "b": "absolute_error"}, **FEW)
    found = sknet.model_selection.cross_validate(heads, INPUTS, {"a": Y, "b": Y}, cv=3)
    plain = cross_validate(heads, INPUTS, pd.DataFrame({"a": Y, "b": Y}), cv=3)
    np.testing.assert_array_equal(found["test_score"], plain["test_score"])


@pytest.mark.parametrize(
    ("kind", "n_rows", "size"),
    [
        (sknet.MLPRegressor, 150, 150),
        (sknet.MLPRegressor, 4_999, 200),
        (sknet.MLPRegressor, 5_000, 64),
        (sknet.MLPRegressor, 18_000, 120),
        (sknet.MLPRegressor, 40_000, 200),
        (sknet.neural_network.MLPRegressor, 5_000, 200),
    ],
)
def test_rows_in_a_step_follow_the_rows(kind, n_rows, size):
    X = np.random.default_rng(0).normal(size=(n_rows, 1)).astype("float32")
    regressor = kind(hidden_layer_sizes=(1,), max_iter=1, early_stopping=False, random_state=0)
    regressor.fit(X, X[:, 0])
    assert regressor.model_.progress.step == -(-n_rows // size)


@pytest.mark.parametrize(
    ("n_rows", "params", "alpha", "lr"),
    [
        (15, {}, 5 * 15 / 200, 0.005),
        (200, {}, 5, 0.005),
        (400, {}, 5 * 200 / 400, 0.005),
        (1_000, {}, 5 * 200 / 1_000, 0.002),
        (2_000, {"max_iter": 200}, 5 * 200 / 2_000 / 2, 0.001),
        (8_000, {"max_iter": 75}, 5 * 64 / 8_000 / 8, 0.001),
        (400, {"batch_size": 50}, 5 * 50 / 400, 0.005),
        (400, {"optimizer": "lbfgs"}, 5, None),
        (400, {"alpha": 0.5, "lr": 0.1}, 0.5, 0.1),
        (400, {"optimizer": Adam()}, 5 * 200 / 400, 0.001),
        (400, {"optimizer": "sgd", "max_iter": 1}, 5 * 200 / 400, 0.01),
        (400, {"early_stopping": True, "max_iter": 1}, 1e-4, 0.005),
    ],
)
def test_penalty_and_rate_follow_the_rows(n_rows, params, alpha, lr):
    X = np.random.default_rng(0).normal(size=(n_rows, 4)).astype("float32")
    options = {"hidden_layer_sizes": (1,), "max_iter": 50, "early_stopping": False, "random_state": 0}
    regressor = MLPRegressor(**options | params, tol=10.0, n_iter_no_change=1).fit(X, X[:, 0])
    assert regressor.model_.alpha == pytest.approx(alpha)
    assert set(regressor.history_.get("lr", [None])) == {lr}
    assert regressor.get_params()["alpha"] == params.get("alpha", "auto")


@pytest.mark.parametrize(("n_columns", "part"), [(1, 1 / 16), (2, 1 / 4), (3, 9 / 16), (4, 1), (9, 1)])
def test_penalty_is_less_for_few_columns(n_columns, part):
    X = np.random.default_rng(0).normal(size=(200, n_columns))
    for rows in (X, X.tolist(), pd.DataFrame(X), scipy.sparse.csr_array(X), _NotAnArray(X)):
        regressor = MLPRegressor((1,), max_iter=1, random_state=0).fit(rows, X[:, 0])
        assert regressor.model_.alpha == pytest.approx(5 * part)


@pytest.mark.parametrize("n_rows", [60, 200, 600])
def test_defaults_learn_a_curve(n_rows):
    x = np.linspace(0, 10, n_rows)[:, None]
    regressor = MLPRegressor(random_state=0).fit(x, np.sin(x[:, 0]))
    assert regressor.score(x, np.sin(x[:, 0])) > 0.9


def test_penalty_counts_weights_as_rows():
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(30, 3)), np.arange(30) % 3, rng.integers(0, 4, 30)
    repeated = MLPClassifier(random_state=0).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    weighted = MLPClassifier(random_state=0).fit(X, y, sample_weight=weight)
    assert weighted.model_.alpha == repeated.model_.alpha == pytest.approx(27 / 16 * weight.sum() / 200)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-9)
    doubled = MLPClassifier(random_state=0).fit(X, y, sample_weight=2.0 * weight)
    assert doubled.model_.alpha == pytest.approx(27 / 8 * weight.sum() / 200)


def test_few_rows_are_learned_by_heart():
    X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    for seed in range(3):
        assert MLPClassifier(random_state=seed).fit(X, y).score(X, y) == 1
        assert MLPClassifier(random_state=seed).fit(X[::3], y[:2]).score(X[::3], y[:2]) == 1


def test_parts_have_a_penalty_that_no_number_of_rows_decides():
    X = np.random.default_rng(0).normal(size=(50, 2))
    regressor = MLPRegressor((2,), random_state=0).partial_fit(X, X[:, 0])
    assert (regressor.model_.alpha, regressor.history_["lr"]) == (1e-4, [1e-3])
    network = NetRegressor(nn.Linear(2, 1), alpha="auto", max_iter=1, random_state=0).fit(X, X[:, 0])
    assert (network.model_.alpha, network.history_["lr"]) == (pytest.approx(5 / 16), [1e-3])
    with pytest.raises(ValueError, match="'alpha' parameter of MLPRegressor must be"):
        MLPRegressor(alpha="Auto").fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("factor", "shift", "is_far"), [(1, 0, False), (77, 152, True), (1, 40, True), (1e-3, 0, True)]
)
def test_a_function_as_the_loss_warns_of_targets_in_other_units(factor, shift, is_far, recwarn):
    X = np.random.default_rng(0).normal(size=(60, 2))
    regressor = MLPRegressor((4,), loss=lambda y, output: (y - output) ** 2, max_iter=2, random_state=0)
    regressor.fit(X, factor * X[:, 0] + shift)
    told = [w for w in recwarn if "a function as the loss does not say how it changes" in str(w.message)]
    assert [w.filename for w in told] == is_far * [__file__]
    regressor.partial_fit(X, factor * X[:, 0] + shift)
    assert sum("does not say how it changes" in str(w.message) for w in recwarn) == is_far
