"""Monotonic constraints: predictions never fall along a column, for any input, however they are computed."""

import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.utils.estimator_checks import parametrize_with_checks

import sknet
from sknet import MLPClassifier, MLPRegressor, Tensor, nn, onnx
from sknet.exceptions import InvalidParameterError
from sknet.losses import Quantile
from tests.estimators.checks import run_check
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
DIRECTIONS = [1, 0, -1, 0]
FAR = 1e4  # deviations from the rows of the fit
REGRESSION = {
    "relu": {},
    "two layers": {"hidden_layer_sizes": (9, 6), "activation": "tanh", "dropout": 0.3},
    "no hidden layer": {"hidden_layer_sizes": ()},
    "L-BFGS": {"optimizer": "lbfgs"},
    "units of X": {"scale_inputs": False, "scale_target": False},
    "members": {"n_members": 2, "bootstrap": True},
    "averaged": {"optimizer": sknet.optim.EMA(sknet.optim.Adam(1e-2))},
    "float64": {"dtype": "float64", "activation": "softplus"},
    "early stopping": {"early_stopping": True, "refit_on_all": True},
    "table": {"encoder": "table"},
    "quantile": {"loss": "quantile"},
}
CLASSIFICATION = {
    "log loss": {},
    "hinge": {"loss": "hinge"},
    "calibrated": {"calibrate": "temperature", "early_stopping": True, "class_weight": "balanced"},
    "members": {"n_members": 2},
    "table": {"encoder": "table", "activation": "elu"},
}


def table(n_rows=120):
    """Return rows whose target falls along columns that are to rise, and the other way round."""
    X = RNG.normal(size=(n_rows, 4))
    return X, np.sin(3 * X[:, 0]) - X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3])


X, Y = table()


def regressor(**params):
    return MLPRegressor(**{"hidden_layer_sizes": (12,), "max_iter": 15, "random_state": 0} | params)


def classifier(**params):
    return MLPClassifier(**{"hidden_layer_sizes": (12,), "max_iter": 15, "random_state": 0} | params)


def lines(column):
    """Return rows that differ in a column only, of shape (n_lines, n_points, 4), also far from all others."""
    points = np.concatenate([[-FAR, -50.0], np.linspace(-4, 4, 40), [50.0, FAR]])
    rows = np.repeat(RNG.normal(size=(8, 1, 4)) * 2, len(points), axis=1)
    rows[..., column] = points
    return rows


def least_step(predict, directions=DIRECTIONS):
    """Return the smallest step in the right direction along all columns with one, and the rounding."""
    found, largest = np.inf, 0.0
    for column in np.flatnonzero(directions):
        rows = lines(column)
        values = np.asarray(predict(rows.reshape(-1, 4)), np.float64).reshape(*rows.shape[:2], -1)
        found = min(found, float((directions[column] * np.diff(values, axis=1)).min()))
        largest = max(largest, float(np.abs(values).max()))
    return found, 2e-6 * largest


def assert_monotonic(predict, directions=DIRECTIONS):
    found, rounding = least_step(predict, directions)
    assert found >= -rounding


def one_by_one(predict):
    return lambda rows: np.concatenate([predict(row) for row in rows[:, np.newaxis]])


def assert_all_monotonic(fitted, method, folder):
    """Check predictions of an estimator, of many rows and of one, and of what it is written as."""
    sknet.save(fitted, folder / "it.safetensors")
    loaded, frozen = sknet.load(folder / "it.safetensors"), fitted.freeze()
    for each in (fitted, loaded, frozen):
        assert_monotonic(getattr(each, method))
    assert_monotonic(one_by_one(getattr(frozen, method)))


@pytest.mark.parametrize("case", REGRESSION)
def test_regressors_never_fall(case, tmp_path):
    plain, fitted = regressor(**REGRESSION[case]), regressor(monotonic_cst=DIRECTIONS, **REGRESSION[case])
    with quiet():
        plain.fit(X, Y)
        fitted.fit(X, Y)
    found, rounding = least_step(plain.predict)
    assert found < -100 * rounding
    assert_all_monotonic(fitted, "predict", tmp_path)


@pytest.mark.parametrize("case", CLASSIFICATION)
def test_the_second_class_never_becomes_less_probable(case, tmp_path):
    y = np.where(Y > 0, "yes", "no")
    fitted = classifier(monotonic_cst=DIRECTIONS, **CLASSIFICATION[case])
    with quiet():
        fitted.fit(X, y)
    assert_all_monotonic(fitted, "decision_function", tmp_path)
    if hasattr(fitted, "predict_proba"):
        assert_monotonic(lambda rows: fitted.predict_proba(rows)[:, list(fitted.classes_).index("yes")])


class RisingWithTheFirst(MLPRegressor):
    """A regressor that is constrained in its first column, however many there are."""

    def fit(self, X, y, *args, **kwargs):
        return self._constrained(super().fit, X, y, *args, **kwargs)

    def partial_fit(self, X, y, *args, **kwargs):
        return self._constrained(super().partial_fit, X, y, *args, **kwargs)

    def _constrained(self, fit, X, *args, **kwargs):
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
        if len(shape) == 2 and shape[1] > 0:
            self.monotonic_cst = [1] + [0] * (shape[1] - 1)
        try:
            return fit(X, *args, **kwargs)
        finally:
            self.monotonic_cst = None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([RisingWithTheFirst()])
def test_scikit_learns_checks_of_constrained_fits(estimator, check):
    run_check(estimator, check)


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("make", [regressor, classifier])
def test_weights_are_repeated_rows(make, optimizer):
    repeats = np.random.default_rng(1).integers(0, 4, len(X))
    y = Y if make is regressor else (Y > 0).astype(int)
    options = {"optimizer": optimizer, "shuffle": False, "dtype": "float64", "alpha": 1.0}
    weighted, repeated = (
        make(monotonic_cst=DIRECTIONS, batch_size=n, **options) for n in (len(X), repeats.sum())
    )
    with quiet():
        weighted.fit(X, y, repeats)
        repeated.fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    rtol = 1e-9 if optimizer == "adam" else 1e-5
    for mine, other in zip(weighted.coefs_, repeated.coefs_, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=rtol * np.abs(other).max())
    np.testing.assert_allclose(weighted.loss_curve_, repeated.loss_curve_, rtol=rtol)
    assert_monotonic(weighted.predict if make is regressor else weighted.decision_function)


def test_each_of_several_numbers_is_constrained():
    Z = np.stack([Y, -Y], axis=1)
    with quiet():
        fitted = regressor(monotonic_cst=DIRECTIONS).fit(X, Z)
    assert_monotonic(fitted.predict)


def test_counts_never_fall():
    with quiet():
        fitted = regressor(monotonic_cst=DIRECTIONS, loss="poisson").fit(X, np.round(np.exp(Y / 4)))
    for column in (0, 2):
        rows = lines(column)[:, 1:-1]  # the farthest are beyond the largest float32
        values = np.diff(fitted.predict(rows.reshape(-1, 4)).reshape(rows.shape[:2]), axis=1)
        assert (DIRECTIONS[column] * values >= 0).all()


def test_a_sparse_table_is_constrained():
    with quiet():
        fitted = regressor(monotonic_cst=DIRECTIONS).fit(csr_matrix(X), Y)
    assert_monotonic(lambda rows: fitted.predict(csr_matrix(rows)))


def test_a_function_that_is_monotonic_is_learned():
    rng = np.random.default_rng(0)

    def drawn(n_rows):
        rows = rng.normal(size=(n_rows, 3))
        return rows, np.tanh(2 * rows[:, 0]) - rows[:, 1] * np.exp(rows[:, 2] / 2)

    (rows, y), (others, z) = drawn(2000), drawn(1000)
    with quiet():
        fitted = regressor(hidden_layer_sizes=(32,), monotonic_cst=[1, -1, 0], lr=0.01, max_iter=80)
        fitted.fit(rows, y)
    assert fitted.score(others, z) > 0.99


def test_what_levels_off_on_both_sides_is_learned():
    """Sums of convex functions and of concave ones cannot."""
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    y = np.tanh(3 * rows.sum(axis=1))
    params = {"lr": 0.01, "max_iter": 60}
    with quiet():
        free, fitted = (regressor(monotonic_cst=given, **params).fit(rows, y) for given in (None, [1, 1]))
    assert fitted.score(rows, y) > free.score(rows, y) - 0.003


def test_names_are_those_of_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    with quiet():
        by_name = regressor(monotonic_cst={"a": 1, "c": -1}).fit(frame, Y)
        by_place = regressor(monotonic_cst=np.array(DIRECTIONS)).fit(frame, Y)
        in_another_order = regressor(monotonic_cst=pd.Series({"c": -1, "d": 0, "b": 0, "a": 1})).fit(frame, Y)
        free, without = regressor(monotonic_cst={"a": 0}).fit(frame, Y), regressor().fit(frame, Y)
    np.testing.assert_array_equal(by_name.predict(frame), by_place.predict(frame))
    np.testing.assert_array_equal(in_another_order.predict(frame), by_place.predict(frame))
    np.testing.assert_array_equal(free.predict(frame), without.predict(frame))


def test_weights_are_those_that_multiply_inputs():
    with quiet():
        fitted = regressor(monotonic_cst=DIRECTIONS, scale_target=False, dtype="float64").fit(X, Y)
    (first, last), (bias, shift) = fitted.coefs_, fitted.intercepts_
    inside = np.clip(X, -2, 2)
    hidden = np.maximum(inside @ first + bias, 0)
    hidden[:, 4::3] = np.minimum(hidden[:, 4::3], 1)  # a third of the 8 of 12 units with a direction
    expected = hidden @ last + shift
    np.testing.assert_allclose(fitted.predict(inside), expected[:, 0], rtol=1e-9, atol=1e-11)
    fitted.coefs_ = [2 * first, last]
    np.testing.assert_allclose(fitted.coefs_[0], 2 * first, rtol=1e-12)
    with pytest.raises(ValueError, match=r"coefs_ of the layer of '2.weight' have other signs"):
        fitted.coefs_[1] = -last
    np.testing.assert_allclose(fitted.coefs_[1], last, rtol=1e-12)


def test_fits_go_on_under_the_same_constraints():
    with quiet():
        fitted = regressor(monotonic_cst=DIRECTIONS, warm_start=True).fit(X, Y).fit(X, -Y)
        assert_monotonic(fitted.partial_fit(X, -Y).predict)
    for other in (None, [1, 0, 0, 0]):
        with pytest.raises(ValueError, match=r"monotonic_cst was \[1, 0, -1, 0\] when this network"):
            fitted.set_params(monotonic_cst=other).fit(X, Y)
    with quiet():
        part = classifier(monotonic_cst=DIRECTIONS).partial_fit(X, Y > 0, classes=[False, True])
        assert_monotonic(part.partial_fit(X, Y < 0).decision_function)


def test_exports_compute_the_same(tmp_path):
    pytest.importorskip("onnxruntime", reason="exported models are computed by onnxruntime")
    from tests.onnx.runtime import names_and_arrays

    with quiet():
        fitted = regressor(monotonic_cst=DIRECTIONS).fit(X.astype(np.float32), Y)
    rows = lines(0)[:, 1:-1].reshape(-1, 4).astype(np.float32)
    found = next(iter(names_and_arrays(onnx.export(fitted), rows).values()))
    np.testing.assert_allclose(found.ravel(), fitted.predict(rows), rtol=2e-5, atol=2e-5)
    fitted.freeze().to_python(tmp_path / "it.py")
    names = {}
    exec(compile((tmp_path / "it.py").read_text(), "it.py", "exec"), names)
    np.testing.assert_array_equal(names["predict"](rows), fitted.predict(rows))


# -- tables ------------------------------------------------------------------------------------------


def frame_of(n_rows=600):
    """Return a column with repeated numbers, whose means fall and rise, missing ones, and a category."""
    steps, kind = RNG.integers(0, 30, n_rows).astype(float), RNG.choice(["a", "b"], n_rows)
    y = np.where(steps % 2 == 0, 3.0, -3.0)
    frame = pd.DataFrame({"steps": steps, "other": RNG.normal(size=n_rows), "kind": kind})
    frame.loc[RNG.random(n_rows) < 0.2, "steps"] = np.nan
    return frame, y + (frame["kind"] == "a")


def test_encodings_of_a_constrained_column_rise_with_it():
    frame, y = frame_of()
    with quiet():
        free = regressor(encoder="table").fit(frame, y)
        fitted = regressor(encoder="table", monotonic_cst={"steps": 1}).fit(frame, y)
    assert "steps_target" in free.encoder_.get_feature_names_out()
    assert "steps_target" not in fitted.encoder_.get_feature_names_out()
    rows = pd.DataFrame({"steps": np.linspace(-5, 20, 300), "other": 0.3, "kind": "b"})
    assert (np.diff(free.predict(rows)) < -1e-3).any()
    assert (np.diff(fitted.predict(rows)) >= -1e-5).all()


@pytest.mark.parametrize(("name", "kind"), [("kind", "category"), ("day", "date"), ("words", "text")])
def test_columns_without_an_order_are_named(name, kind):
    frame, y = frame_of(60)
    frame["day"] = pd.date_range("2024-01-01", periods=60)
    frame["words"] = [f"the {word} of number {i} is {i % 7}" for i, word in enumerate(["house", "sea"] * 30)]
    params = {"encoder": sknet.preprocessing.TableEncoder(columns={"words": "text"})}
    message = f"monotonic_cst constrains column '{name}', which is read as a {kind}, and only numbers have"
    with quiet(), pytest.raises(ValueError, match=message):
        regressor(monotonic_cst={name: 1}, **params).fit(frame, y)


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 0], "monotonic_cst has shape .* but the input data X has 4 features"),
        ([1, 0, 2, 0], "monotonic_cst must be an array-like of -1, 0 or 1. Observed values: "),
        ([1, None, 0, 0], "monotonic_cst must be an array-like of -1, 0 or 1, or a dict of these by column"),
        (["a", "b", "c", "d"], "monotonic_cst must be an array-like of -1, 0 or 1, or a dict of these by"),
        ({"a": 1}, "was not fitted on data with feature names"),
    ],
)
def test_wrong_constraints_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        regressor(monotonic_cst=given).fit(X, Y)


def test_unknown_names_are_named():
    frame = pd.DataFrame(X, columns=list("abcd"))
    with pytest.raises(ValueError, match=r"monotonic_cst contains 1 unexpected feature names: \['e'\]"):
        regressor(monotonic_cst={"e": 1}).fit(frame, Y)
    with pytest.raises(ValueError, match=r"monotonic_cst\['b'\] must be either -1, 0 or 1"):
        regressor(monotonic_cst={"b": 5}).fit(frame, Y)


@pytest.mark.parametrize("given", ["up", 1])
def test_other_values_are_refused(given):
    with pytest.raises(InvalidParameterError, match="The 'monotonic_cst' parameter of MLPRegressor must be"):
        regressor(monotonic_cst=given).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.arange(120) % 3, "multiclass"),
        (np.stack([Y > 0, Y > 1], axis=1).astype(int), "multilabel"),
        (np.stack([np.arange(120) % 3, np.arange(120) % 2], axis=1), "multiclass"),
    ],
)
def test_other_tasks_are_refused(y, task):
    with pytest.raises(ValueError, match=f"of the second of two classes, and the targets are {task}"):
        classifier(monotonic_cst=DIRECTIONS).fit(X, y)


def test_losses_with_several_outputs_are_refused():
    for loss in ("gaussian_nll", Quantile([0.1, 0.9])):
        with pytest.raises(ValueError, match="monotonic_cst needs a loss with one output for each target"):
            regressor(monotonic_cst=DIRECTIONS, loss=loss).fit(X, Y)


@pytest.mark.parametrize("activation", ["gelu", "prelu", np.tanh, nn.ReLU()])
def test_activations_that_may_fall_are_refused(activation):
    with pytest.raises(InvalidParameterError, match="With monotonic_cst, the 'activation' parameter of MLPR"):
        regressor(monotonic_cst=DIRECTIONS, activation=activation).fit(X, Y)


def test_the_activations_that_never_fall():
    x = np.linspace(-20, 20, 40_001)[:, np.newaxis]
    with np.errstate(all="ignore"):
        rise = {
            name
            for name, kind in nn.ACTIVATIONS.items()
            if (np.diff(kind()(Tensor(x)).numpy()[:, 0]) >= -1e-12).all()
        }
    rise -= {"prelu", "softmax", "log_softmax"}  # slopes are learned; outputs depend on other columns
    for name in nn.ACTIVATIONS:
        told = pytest.raises(InvalidParameterError, match="With monotonic_cst, the 'activation' parameter")
        with nullcontext() if name in rise else told, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an epoch that is not enough
            regressor(monotonic_cst=DIRECTIONS, activation=name, max_iter=1).fit(X[:20], Y[:20])
