"""Offsets: numbers that are added to the outputs of a network before the link of its loss."""

import pickle
import re

import numpy as np
import pytest
import sklearn
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import (
    MLPClassifier,
    MLPRegressor,
    NetClassifier,
    NetRegressor,
    model_selection,
    neural_network,
    nn,
)
from sknet.callbacks import Checkpoint
from sknet.losses import Cox, GaussianNLL, Ordinal, Quantile, SquaredError
from sknet.optim import LBFGS, Adam
from tests.freezing.test_python import module_of

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
N = 240
X = RNG.normal(size=(N, 3))
EXPOSURE = RNG.uniform(50.0, 5000.0, N)
LOG = np.log(EXPOSURE)
COUNTS = RNG.poisson(np.exp(X @ [0.5, -0.3, 0.2] - 4.0) * EXPOSURE).astype(float)
MARGIN = RNG.normal(size=N)
LABELS = np.where(RNG.random(N) < expit(X[:, 0] + MARGIN), "yes", "no")
MARGINS = RNG.normal(size=(N, 3))
THREE = np.array(["a", "b", "c"])[(MARGINS + X + RNG.gumbel(size=(N, 3))).argmax(axis=1)]
WEIGHT = RNG.uniform(0.5, 2.0, N)
SMALL = {"hidden_layer_sizes": (8,), "max_iter": 4, "random_state": 0, "batch_size": 50}
SMALL |= {"alpha": 1e-4, "optimizer": Adam()}  # which do not follow the rows
EXACT = {
    "hidden_layer_sizes": (),
    "alpha": 0.0,
    "optimizer": LBFGS(ftol=1e-15),
    "max_iter": 3000,
    "tol": 1e-9,
    "random_state": 0,
}


def with_ones(X):
    return np.c_[X, np.ones(len(X))]


def glm(X, y, offset, weight=1.0):
    """Return the coefficients of a Poisson GLM, by Newton's method."""
    A, weight = with_ones(X), np.broadcast_to(weight, len(X))
    b = np.zeros(A.shape[1])
    b[-1] = np.log((weight * y).sum() / (weight * np.exp(offset)).sum())
    for _ in range(50):
        mean = np.exp(A @ b + offset)
        b += np.linalg.solve(A.T @ ((weight * mean)[:, None] * A), A.T @ (weight * (y - mean)))
    return b


CASES = {
    "poisson": (lambda **p: MLPRegressor(loss="poisson", **p), COUNTS, LOG),
    "tweedie": (lambda **p: MLPRegressor(loss="tweedie", **p), COUNTS, LOG),
    "gamma": (lambda **p: MLPRegressor(loss="gamma", **p), COUNTS + 1.0, LOG),
    "squared": (MLPRegressor, X[:, 0] + EXPOSURE, EXPOSURE),
    "two targets": (MLPRegressor, np.c_[X[:, 0] + EXPOSURE, MARGIN], np.c_[EXPOSURE, MARGIN]),
    "quantile": (lambda **p: MLPRegressor(loss=Quantile(0.7), **p), X[:, 0] + EXPOSURE, EXPOSURE),
    "binary": (MLPClassifier, LABELS, MARGIN),
    "three classes": (MLPClassifier, THREE, MARGINS),
    "labels": (MLPClassifier, (X[:, :2] > 0).astype(int), MARGINS[:, :2]),
    "columns": (MLPClassifier, np.c_[THREE, LABELS], np.c_[MARGINS, -MARGIN, MARGIN]),
    "ordinal": (lambda **p: MLPClassifier(loss=Ordinal(), **p), THREE, MARGINS[:, :2]),
    "hinge": (lambda **p: MLPClassifier(loss="hinge", **p), LABELS, MARGIN),
    "cox": (lambda **p: MLPRegressor(loss=Cox(), **p), np.c_[EXPOSURE, LABELS == "yes"], MARGIN),
    "net": (
        lambda hidden_layer_sizes, **p: NetClassifier(nn.Sequential(nn.LazyLinear(3)), **p),
        THREE,
        MARGINS,
    ),
    "two outputs": (
        lambda hidden_layer_sizes, **p: NetClassifier(nn.Sequential(nn.LazyLinear(2)), **p),
        LABELS,
        np.c_[-MARGIN, MARGIN],
    ),
    "members": (lambda **p: MLPRegressor(loss="poisson", n_members=3, bootstrap=True, **p), COUNTS, LOG),
    "classifying members": (lambda **p: MLPClassifier(n_members=2, **p), THREE, MARGINS),
    "calibrated": (
        lambda **p: MLPClassifier(calibrate="temperature", **p | {"early_stopping": True}),
        THREE,
        MARGINS,
    ),
}
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "predict_quantiles")


def predictions(estimator, rows=slice(None), **given):
    X_ = X[rows]
    return {name: getattr(estimator, name)(X_, **given) for name in METHODS if hasattr(estimator, name)}


def assert_same(found, expected, equal=np.testing.assert_array_equal):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        each = zip(*(x if isinstance(x, list) else [x] for x in (found[name], value)), strict=True)
        for one, other in each:
            equal(one, other)


# -- what is learned ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale_target", [True, False])
def test_poisson_regression_with_exposure_is_a_glm(scale_target):
    net = MLPRegressor(loss="poisson", scale_target=scale_target, **EXACT)
    net.fit(X, COUNTS, sample_weight=WEIGHT, offset=LOG)
    rate = np.exp(with_ones(X) @ glm(X, COUNTS, LOG, WEIGHT))
    np.testing.assert_allclose(net.predict(X, offset=LOG), rate * EXPOSURE, rtol=1e-5)
    np.testing.assert_allclose(net.predict(X), rate, rtol=1e-5)  # of one unit of exposure
    mean = rate * EXPOSURE
    deviance = mean - COUNTS * np.log(mean)
    deviance += np.where(COUNTS > 0, COUNTS * np.log(np.where(COUNTS > 0, COUNTS, 1.0)) - COUNTS, 0.0)
    assert net.loss_ == pytest.approx(np.average(deviance, weights=WEIGHT), rel=1e-6)


def test_exposure_is_a_rate_with_weights():
    """A rate of events per exposure, with exposures as weights, has the same minimum."""
    counted = MLPRegressor(loss="poisson", **EXACT).fit(X, COUNTS, offset=LOG)
    rates = MLPRegressor(loss="poisson", **EXACT).fit(X, COUNTS / EXPOSURE, sample_weight=EXPOSURE)
    np.testing.assert_allclose(counted.predict(X), rates.predict(X), rtol=1e-5)


def test_logistic_regression_with_margins():
    net = MLPClassifier(**EXACT).fit(X, LABELS, offset=MARGIN)
    A, y, b = with_ones(X), (LABELS == "yes").astype(float), np.zeros(4)
    for _ in range(30):
        p = expit(A @ b + MARGIN)
        b += np.linalg.solve(A.T @ ((p * (1 - p))[:, None] * A), A.T @ (y - p))
    np.testing.assert_allclose(net.predict_proba(X, offset=MARGIN)[:, 1], expit(A @ b + MARGIN), atol=1e-6)
    np.testing.assert_allclose(net.decision_function(X, offset=MARGIN), A @ b + MARGIN, atol=1e-5)
    np.testing.assert_allclose(net.decision_function(X), A @ b, atol=1e-5)
    assert net.score(X, LABELS, offset=MARGIN) == np.mean((A @ b + MARGIN > 0) == (y > 0))


def test_of_a_squared_error_it_is_subtracted_from_targets():
    y = X[:, 0] + EXPOSURE
    net = MLPRegressor(**SMALL).fit(X, y, offset=EXPOSURE)
    plain = MLPRegressor(**SMALL).fit(X, y - EXPOSURE)
    np.testing.assert_allclose(net.predict(X), plain.predict(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(net.predict(X, offset=EXPOSURE), plain.predict(X) + EXPOSURE, rtol=1e-9)
    np.testing.assert_allclose(net.loss_curve_, plain.loss_curve_, rtol=1e-6)


def test_single_precision_beside_large_offsets():
    large = 1e6 + EXPOSURE
    options = EXACT | {"dtype": "float32", "tol": 1e-4}
    net = MLPRegressor(**options).fit(X, X[:, 0] + large, offset=large)
    np.testing.assert_allclose(net.predict(X), X[:, 0], atol=0.02)
    np.testing.assert_allclose(net.predict(X, offset=large) - large, X[:, 0], atol=0.02)
    single = net.predict(X[:1].astype("f4"), offset=large[:1])
    assert single.dtype == net.predict(X[:1].astype("f4")).dtype
    options = SMALL | {"dtype": "float32", "batch_size": N}
    fits = [MLPRegressor(**options, scoring=scoring) for scoring in (None, ["neg_mean_squared_error"])]
    by_default, by_scorer = (each.fit(X, X[:, 0] + large, offset=large).history_ for each in fits)
    np.testing.assert_allclose(by_default["loss"], by_scorer["loss"])
    squares = -np.array(by_scorer["neg_mean_squared_error"])
    np.testing.assert_allclose(squares, 2 * np.array(by_default["loss"]), rtol=1e-3)


@pytest.mark.parametrize("case", ["poisson", "three classes", "squared"])
def test_a_constant_shifts_the_bias(case):
    make, y, _ = CASES[case]
    shape = (N, 3) if case == "three classes" else N
    plain, shifted = make(**EXACT).fit(X, y), make(**EXACT).fit(X, y, offset=np.full(shape, 1.5))
    given = predictions(shifted, offset=np.full(shape, 1.5))
    assert_same(
        {"predict": given["predict"]},
        {"predict": plain.predict(X)},
        lambda a, b: (
            np.testing.assert_allclose(a, b, rtol=1e-4)
            if a.dtype.kind == "f"
            else np.testing.assert_array_equal(a, b)
        ),
    )


@pytest.mark.parametrize("case", [case for case in CASES if case != "calibrated"])  # to its decisions
def test_zeros_are_no_offset(case):
    make, y, offset = CASES[case]
    plain = make(**SMALL).fit(X, y)
    zeros = make(**SMALL).fit(X, y, offset=np.zeros_like(offset))
    close = lambda a, b: (  # noqa: E731
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
        if a.dtype.kind == "f"
        else np.testing.assert_array_equal(a, b)
    )
    assert_same(predictions(zeros), predictions(plain), close)
    np.testing.assert_allclose(zeros.loss_curve_, plain.loss_curve_, rtol=1e-6)
    if case != "cox":
        np.testing.assert_allclose(zeros.history_["score"], plain.history_["score"], atol=1e-6)
    assert zeros.score(X, y) == pytest.approx(plain.score(X, y))


@pytest.mark.parametrize("case", ["poisson", "three classes", "squared", "cox"])
def test_weights_are_repeated_rows(case):
    make, y, offset = CASES[case]
    options = EXACT | {"scale_inputs": False, "max_iter": 20}
    if case == "cox":
        return
    counts = np.arange(N) % 3
    rows = np.repeat(np.arange(N), counts)
    weighted = make(**options).fit(X, y, sample_weight=counts.astype(float), offset=offset)
    repeated = make(**options).fit(X[rows], y[rows], offset=offset[rows])
    for name, value in predictions(repeated, offset=offset).items():
        found = predictions(weighted, offset=offset)[name]
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


def test_outputs_and_offsets_make_predictions():
    net = MLPClassifier(**SMALL).fit(X, THREE, offset=MARGINS)
    raw = net.decision_function(X)
    np.testing.assert_allclose(net.decision_function(X, offset=MARGINS), raw + MARGINS, rtol=1e-12)
    np.testing.assert_allclose(net.predict_proba(X, offset=MARGINS), softmax(raw + MARGINS, axis=1))
    np.testing.assert_allclose(net.predict_log_proba(X, offset=MARGINS), log_softmax(raw + MARGINS, axis=1))
    np.testing.assert_array_equal(
        net.predict(X, offset=MARGINS), net.classes_[(raw + MARGINS).argmax(axis=1)]
    )
    net = MLPRegressor(loss="poisson", **SMALL).fit(X, COUNTS, offset=LOG)
    np.testing.assert_allclose(net.predict(X, offset=LOG), net.predict(X) * EXPOSURE, rtol=1e-6)


# -- fits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if not re.search("members|calibrated", case)])
def test_held_out_rows_are_scored_with_their_offset(case):
    make, y, offset = CASES[case]
    training, held_out = slice(0, 160), slice(160, None)
    val = {"X_val": X[held_out], "y_val": y[held_out], "offset_val": offset[held_out]}
    options = SMALL | {"early_stopping": True}
    net = make(**options).fit(X[training], y[training], offset=offset[training], **val)
    if case != "cox":
        score = net.score(X[held_out], y[held_out], offset=offset[held_out])
        assert score == pytest.approx(net.best_validation_score_, abs=1e-6)
    split = make(**options, validation_split=(np.arange(160), np.arange(160, N))).fit(X, y, offset=offset)
    assert split.history_["validation_loss"] == pytest.approx(net.history_["validation_loss"])
    if case != "cox":
        assert split.history_["score"] == net.history_["score"]


def test_scorers_see_offsets():
    options = SMALL | {"early_stopping": True, "scoring": ["accuracy", "neg_log_loss"], "monitor": "accuracy"}
    net = MLPClassifier(**options).fit(X, THREE, offset=MARGINS)
    np.testing.assert_allclose(
        net.history_["validation_neg_log_loss"], -np.array(net.history_["validation_loss"]), rtol=1e-5
    )
    default = MLPClassifier(**options | {"scoring": None, "monitor": "loss"}).fit(X, THREE, offset=MARGINS)
    assert net.history_["accuracy"] == pytest.approx(default.history_["score"])
    options |= {"scoring": ["neg_mean_poisson_deviance", "r2"], "monitor": "r2", "alpha": 0.0}
    net = MLPRegressor(loss="poisson", **options).fit(X, COUNTS, offset=LOG)
    halves = -2 * np.array(net.history_["validation_loss"])
    np.testing.assert_allclose(net.history_["validation_neg_mean_poisson_deviance"], halves, rtol=1e-4)


@pytest.mark.parametrize("case", ["poisson", "three classes", "columns"])
def test_resumed_fits_have_the_same_bits(case, tmp_path):
    make, y, offset = CASES[case]
    options = SMALL | {"early_stopping": True}
    whole = make(**options).fit(X, y, offset=offset)
    make(**options | {"max_iter": 2}, callbacks=[Checkpoint(tmp_path)]).fit(X, y, offset=offset)
    resumed = make(**options).fit(X, y, offset=offset, resume_from=tmp_path)
    assert_same(predictions(resumed, offset=offset), predictions(whole, offset=offset))
    assert resumed.history_["validation_loss"] == whole.history_["validation_loss"]
    with pytest.raises(ValueError, match=r"y "):
        make(**options).fit(X, y, offset=offset + 1.0, resume_from=tmp_path)


def test_parts_and_warm_starts():
    options = SMALL | {"shuffle": False, "batch_size": N}
    whole = MLPRegressor(loss="poisson", **options | {"max_iter": 3}).fit(X, COUNTS, offset=LOG)
    parts = MLPRegressor(loss="poisson", **options)
    for _ in range(3):
        parts.partial_fit(X, COUNTS, offset=LOG)
    np.testing.assert_allclose(parts.predict(X, offset=LOG), whole.predict(X, offset=LOG), rtol=1e-12)
    warm = MLPRegressor(loss="poisson", warm_start=True, **options | {"max_iter": 2, "scale_inputs": False})
    warm.fit(X, COUNTS, offset=LOG).set_params(max_iter=1).fit(X, COUNTS, offset=LOG)
    plain = MLPRegressor(loss="poisson", **options | {"max_iter": 3, "scale_inputs": False})
    np.testing.assert_allclose(warm.predict(X), plain.fit(X, COUNTS, offset=LOG).predict(X), rtol=1e-12)
    stream = MLPClassifier(**SMALL)
    for rows in (slice(0, 120), slice(120, N)):
        stream.partial_fit(X[rows], LABELS[rows], classes=["no", "yes"], offset=MARGIN[rows])
    assert stream.score(X, LABELS, offset=MARGIN) > 0.5


CALIBRATED = {
    "calibrate": "temperature",
    "validation_split": (np.arange(160), np.arange(160, N)),
    "early_stopping": True,
    "max_iter": 30,
}


def test_temperatures_divide_outputs_but_no_offsets():
    net = MLPClassifier(**SMALL | CALIBRATED).fit(X, THREE, offset=MARGINS)
    rows, scale = slice(160, None), net.temperature_
    raw = clone(net).set_params(calibrate=None).fit(X, THREE, offset=MARGINS).decision_function(X)
    codes, grid = np.searchsorted(net.classes_, THREE[rows]), np.geomspace(0.05, 20.0, 4001)
    losses = [-log_softmax(raw[rows] / t + MARGINS[rows], axis=1)[np.arange(80), codes].mean() for t in grid]
    assert abs(scale - 1.0) > 0.1
    assert scale == pytest.approx(grid[np.argmin(losses)], rel=0.01)
    z = raw / scale + MARGINS
    np.testing.assert_allclose(net.predict_proba(X, offset=MARGINS), softmax(z, axis=1), rtol=1e-5)
    np.testing.assert_allclose(net.decision_function(X, offset=MARGINS), z, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.decision_function(X), raw / scale, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(net.predict(X, offset=MARGINS), net.classes_[z.argmax(axis=1)])


@pytest.mark.parametrize("loss", ["log_loss", Ordinal()], ids=["log_loss", "ordinal"])
@pytest.mark.parametrize(
    ("y", "offset"),
    [(THREE, MARGINS), (LABELS, MARGIN), (np.c_[THREE, LABELS], np.c_[MARGINS, -MARGIN, MARGIN])],
    ids=["three", "two", "columns"],
)
@pytest.mark.parametrize("members", [1, 2])
def test_calibrated_classes_are_the_most_probable_beside_offsets(y, offset, loss, members):
    if isinstance(loss, Ordinal):
        if y.ndim == 2:
            return  # ordered classes are of one column
        offset = offset[:, :2] if offset.ndim == 2 else offset
    net = MLPClassifier(loss=loss, n_members=members, **SMALL | CALIBRATED).fit(X, y, offset=offset)
    plain = clone(net).set_params(calibrate=None).fit(X, y, offset=offset)
    found, frozen = net.predict_proba(X, offset=offset), net.freeze()
    assert (np.hstack(found) != np.hstack(plain.predict_proba(X, offset=offset))).any()
    several = found if isinstance(found, list) else [found]
    labels = net.predict(X, offset=offset).reshape(N, -1)
    for k, probable in enumerate(several):
        classes = net.classes_[k] if isinstance(found, list) else net.classes_
        np.testing.assert_array_equal(labels[:, k], classes[probable.argmax(axis=1)])
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        kept, own = (np.hstack(getattr(each, name)(X, offset=offset)) for each in (frozen, net))
        np.testing.assert_array_equal(kept, own)
    shifted = net.predict_log_proba(X, offset=np.asarray(offset) * 0.0)
    np.testing.assert_allclose(np.hstack(shifted), np.hstack(net.predict_log_proba(X)), rtol=1e-5, atol=1e-6)


def test_second_training_and_sampler():
    options = SMALL | {"early_stopping": True}
    refit = MLPRegressor(loss="poisson", refit_on_all=True, **options)
    refit.fit(
        X[:160], COUNTS[:160], offset=LOG[:160], X_val=X[160:], y_val=COUNTS[160:], offset_val=LOG[160:]
    )
    assert refit.refit_history_.n_epochs > 0
    assert refit.score(X, COUNTS, offset=LOG) > refit.score(X, COUNTS)
    sampled = MLPClassifier(sampler="balanced", **SMALL).fit(X, LABELS, offset=MARGIN)
    assert sampled.score(X, LABELS, offset=MARGIN) > 0.5


@pytest.mark.parametrize("members", [1, 2])
def test_conformal_predictions_have_their_coverage(members):
    options = SMALL | {"calibrate": "conformal", "early_stopping": True, "n_members": members}
    val = {"X_val": X[120:], "y_val": COUNTS[120:], "offset_val": LOG[120:]}
    net = MLPRegressor(loss="poisson", **options).fit(X[:120], COUNTS[:120], offset=LOG[:120], **val)
    low, high = net.predict_interval(X[120:], 0.8, offset=LOG[120:]).T
    assert np.mean((low <= COUNTS[120:]) & (COUNTS[120:] <= high)) == pytest.approx(0.8, abs=0.02)
    val = {"X_val": X[120:], "y_val": THREE[120:], "offset_val": MARGINS[120:]}
    net = MLPClassifier(**options).fit(X[:120], THREE[:120], offset=MARGINS[:120], **val)
    sets = net.predict_set(X[120:], 0.8, offset=MARGINS[120:])
    codes = np.searchsorted(net.classes_, THREE[120:])
    assert sets[np.arange(120), codes].mean() >= 0.8
    np.testing.assert_array_equal(
        net.freeze().predict_set(X, 0.8, offset=MARGINS), net.predict_set(X, 0.8, offset=MARGINS)
    )


def test_missing_targets():
    y = np.c_[X[:, 0] + EXPOSURE, MARGIN]
    y[::3, 0] = np.nan
    offset = np.c_[EXPOSURE, np.zeros(N)]
    net = MLPRegressor(**EXACT).fit(X, y, offset=offset)
    there = ~np.isnan(y[:, 0])
    fit = np.linalg.lstsq(with_ones(X)[there], (y[:, 0] - EXPOSURE)[there], rcond=None)[0]
    np.testing.assert_allclose(net.predict(X)[:, 0], with_ones(X) @ fit, atol=1e-5)


def test_ignored_rows_have_no_offset():
    from sknet.losses import LogLoss

    y = np.where(np.arange(N) % 5 == 0, -1, np.searchsorted(["a", "b", "c"], THREE))
    seen = y >= 0
    options = SMALL | {"loss": LogLoss(ignore_index=-1)}
    net = MLPClassifier(**options).fit(X, y, offset=MARGINS)
    plain = MLPClassifier(**options).fit(X[seen], y[seen], offset=MARGINS[seen])
    np.testing.assert_array_equal(net.predict_proba(X), plain.predict_proba(X))


def test_sequences_with_lengths():
    class Mean(nn.Module):
        def __init__(self, n_outputs):
            super().__init__()
            self.last = nn.Linear(1, n_outputs)

        def forward(self, x, lengths):
            return self.last(x.sum(axis=1, keepdims=True) / lengths.reshape(-1, 1))

    sequences = [RNG.normal(size=1 + i % 5) for i in range(N)]
    net = NetRegressor(Mean, loss="poisson", max_iter=3, random_state=0).fit(sequences, COUNTS, offset=LOG)
    np.testing.assert_allclose(
        net.predict(sequences, offset=LOG), net.predict(sequences) * EXPOSURE, rtol=1e-5
    )
    np.testing.assert_array_equal(
        net.freeze().predict(sequences, offset=LOG), net.predict(sequences, offset=LOG)
    )
    assert np.isfinite(net.score(sequences, COUNTS, offset=LOG))


# -- files and predictors ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_copies_predict_the_same_bits(case, tmp_path):
    make, y, offset = CASES[case]
    net = make(**SMALL).fit(X, y, offset=offset)
    frozen = net.freeze()
    sknet.save(net, tmp_path / "net.safetensors")
    sknet.save(frozen, tmp_path / "frozen.safetensors")
    copies = [
        frozen,
        sknet.load(tmp_path / "net.safetensors"),
        sknet.load(tmp_path / "frozen.safetensors"),
        pickle.loads(pickle.dumps(net)),
        pickle.loads(pickle.dumps(frozen)),
        net.slim() if hasattr(net, "slim") else net,
    ]
    for rows in (slice(None), slice(0, 1), slice(0, 7)):
        expected = predictions(net, rows, offset=offset[rows]), predictions(net, rows)
        for other in copies:
            assert_same(predictions(other, rows, offset=offset[rows]), expected[0])
            assert_same(predictions(other, rows), expected[1])


@pytest.mark.parametrize("case", CASES)
def test_python_files_add_offsets_to_the_same_bits(case, tmp_path):
    make, y, offset = CASES[case]
    frozen = make(**SMALL).fit(X, y, offset=offset).freeze()
    frozen.to_python(tmp_path / "net.py")
    module = module_of(tmp_path / "net.py")
    for rows in (slice(None), slice(0, 1), slice(0, 7)):
        assert_same(
            predictions(module, rows, offset=offset[rows]), predictions(frozen, rows, offset=offset[rows])
        )
        assert_same(predictions(module, rows), predictions(frozen, rows))
    with pytest.raises(ValueError, match=r"offset must have finite numbers of shape .*; got shape \(2,\)"):
        module.predict(X, offset=[1.0, 2.0])
    plain = make(**SMALL).fit(X, y).freeze()
    plain.to_python(tmp_path / "plain.py")
    with pytest.raises(TypeError, match="unexpected keyword argument 'offset'"):
        module_of(tmp_path / "plain.py").predict(X, offset=offset)


def test_python_files_of_deviations_and_intervals(tmp_path):
    net = MLPRegressor(loss="poisson", n_members=2, **SMALL).fit(X, COUNTS, offset=LOG)
    net.freeze().to_python(tmp_path / "members.py")
    found = module_of(tmp_path / "members.py").predict(X, return_std=True, offset=LOG)
    for one, other in zip(found, net.predict(X, return_std=True, offset=LOG), strict=True):
        np.testing.assert_array_equal(one, other)
    val = {"X_val": X[120:], "y_val": COUNTS[120:], "offset_val": LOG[120:]}
    net = MLPRegressor(loss="poisson", calibrate="conformal", early_stopping=True, **SMALL)
    net.fit(X[:120], COUNTS[:120], offset=LOG[:120], **val)
    net.freeze().to_python(tmp_path / "conformal.py", coverage=0.7)
    found = module_of(tmp_path / "conformal.py").predict_interval(X, 0.7, offset=LOG)
    np.testing.assert_array_equal(found, net.predict_interval(X, 0.7, offset=LOG))


def test_python_files_of_pipelines_add_offsets(tmp_path):
    net = MLPRegressor(loss="poisson", **SMALL)
    pipe = make_pipeline(StandardScaler(), net).fit(X, COUNTS, mlpregressor__offset=LOG)
    frozen = sknet.freeze(pipe)
    frozen.to_python(tmp_path / "pipe.py")
    found = module_of(tmp_path / "pipe.py").predict(X, offset=LOG)
    np.testing.assert_array_equal(found, frozen.predict(X, offset=LOG))


def test_frozen_pipelines_pass_offsets_on():
    net = MLPClassifier(**SMALL)
    pipe = make_pipeline(StandardScaler(), net).fit(X, THREE, mlpclassifier__offset=MARGINS)
    frozen = sknet.freeze(pipe)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        expected = getattr(pipe[-1], name)(pipe[:-1].transform(X), offset=MARGINS)
        np.testing.assert_array_equal(getattr(frozen, name)(X, offset=MARGINS), expected)


def test_frozen_pipelines_pass_offsets_to_intervals_and_sets():
    options = SMALL | {"calibrate": "conformal", "early_stopping": True, "validation_fraction": 0.4}
    fits = (
        (MLPRegressor(loss="poisson", **options), COUNTS, LOG, "predict_interval"),
        (MLPClassifier(**options), THREE, MARGINS, "predict_set"),
        (MLPRegressor(loss="poisson", n_members=2, **SMALL), COUNTS, LOG, "predict_std"),
        (MLPRegressor(loss=Quantile(0.7), **SMALL), COUNTS, LOG, "predict_quantiles"),
    )
    for net, y, offset, name in fits:
        pipe = make_pipeline(StandardScaler(), net)
        pipe.fit(X, y, **{f"{pipe.steps[-1][0]}__offset": offset})
        expected = getattr(pipe[-1], name)(pipe[:-1].transform(X), offset=offset)
        found = getattr(sknet.freeze(pipe), name)
        np.testing.assert_array_equal(found(X, offset=offset), expected)
        assert not np.array_equal(found(X), expected)


def test_summary_and_representation():
    net = MLPRegressor(loss="poisson", **SMALL).fit(X, COUNTS, offset=LOG)
    assert "offset: added to the outputs" in str(net.summary())
    assert repr(net.freeze()) == "FrozenRegressor(3-8-1, relu, Poisson, float64)"


# -- routing -----------------------------------------------------------------------------------------


def by_hand(splitter):
    found = []
    for training, test in splitter.split(X):
        net = MLPRegressor(loss="poisson", **SMALL).fit(X[training], COUNTS[training], offset=LOG[training])
        found.append(net.score(X[test], COUNTS[test], offset=LOG[test]))
    return found


@pytest.mark.parametrize("function", [cross_validate, model_selection.cross_validate])
def test_cross_validation_routes_offsets(function):
    splitter = KFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        net = (
            MLPRegressor(loss="poisson", **SMALL).set_fit_request(offset=True).set_score_request(offset=True)
        )
        found = function(net, X, COUNTS, cv=splitter, params={"offset": LOG})
    np.testing.assert_allclose(found["test_score"], by_hand(splitter))


@pytest.mark.parametrize("search", [GridSearchCV, model_selection.GridSearchCV])
def test_searches_route_offsets(search):
    splitter = KFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        net = MLPRegressor(loss="poisson", **SMALL).set_fit_request(offset=True)
        net.set_score_request(offset=True).set_predict_request(offset=True)
        found = search(net, {"alpha": [SMALL.get("alpha", 1e-4), 10.0]}, cv=splitter)
        found.fit(X, COUNTS, offset=LOG)
        assert clone(net).get_metadata_routing().predict.requests["offset"] is True
    scores = [found.cv_results_[f"split{k}_test_score"][0] for k in range(3)]
    np.testing.assert_allclose(scores, by_hand(splitter))


# -- errors ------------------------------------------------------------------------------------------


def wrong(place, value):
    offset = LOG.copy()
    offset[place] = value
    return offset


ERRORS = {
    "shape": (
        CASES["poisson"][0],
        COUNTS,
        {"offset": LOG[:-1]},
        r"shape \(240, 1\) or \(240,\); got shape \(239,\)",
    ),
    "columns": (MLPClassifier, THREE, {"offset": MARGIN}, r"shape \(240, 3\); got shape \(240,\)"),
    "NaN": (CASES["poisson"][0], COUNTS, {"offset": wrong(7, np.nan)}, r"got nan at offset\[7\]"),
    "infinity": (
        CASES["poisson"][0],
        COUNTS,
        {"offset": np.full(N, -np.inf)},
        r"got -inf at offset\[0\]",
    ),
    "text": (CASES["poisson"][0], COUNTS, {"offset": "exposure"}, "finite numbers.*got 'exposure'"),
    "no offset_val": (
        CASES["poisson"][0],
        COUNTS,
        {"offset": LOG, "X_val": X, "y_val": COUNTS},
        "offset is given without offset_val",
    ),
    "no offset": (
        CASES["poisson"][0],
        COUNTS,
        {"offset_val": LOG, "X_val": X, "y_val": COUNTS},
        "offset_val is given without offset",
    ),
    "no X_val": (
        CASES["poisson"][0],
        COUNTS,
        {"offset_val": LOG, "offset": LOG},
        "offset_val is given without X_val",
    ),
    "several outputs a target": (
        lambda **p: MLPRegressor(loss=GaussianNLL(), **p),
        COUNTS,
        {"offset": LOG},
        r"GaussianNLL.* has 2 outputs for a target",
    ),
}


@pytest.mark.parametrize(("make", "y", "given", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(make, y, given, message):
    with pytest.raises(ValueError, match=message):
        make(**SMALL).fit(X, y, **given)


def test_errors_of_predictions_and_later_fits():
    fitted = MLPRegressor(loss="poisson", **SMALL).fit(X, COUNTS, offset=LOG)
    plain = MLPRegressor(loss="poisson", **SMALL).fit(X, COUNTS)
    for made in (fitted, fitted.freeze()):
        with pytest.raises(ValueError, match=r"shape \(240, 1\) or \(240,\); got shape \(3,\)"):
            made.predict(X, offset=[1.0, 2.0, 3.0])
    for made in (plain, plain.freeze()):
        with pytest.raises(ValueError, match="was fitted with one, and this one was not"):
            made.predict(X, offset=LOG)
    with pytest.raises(ValueError, match="was fitted with an offset, and the fit that continues has none"):
        fitted.partial_fit(X, COUNTS)
    with pytest.raises(ValueError, match="was fitted with no offset, and the fit that continues has one"):
        plain.partial_fit(X, COUNTS, offset=LOG)
    with pytest.raises(ValueError, match=r"predict has scikit-learn's arguments in sknet.neural_network"):
        neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=2).fit(X, COUNTS, offset=LOG)
    heads = sknet.MultiHeadNet(nn.Sequential(nn.LazyLinear(1)), {"counts": "poisson"}, max_iter=2)
    with pytest.raises(ValueError, match="several heads have no common offset"):
        heads.fit(X, {"counts": COUNTS}, offset=LOG)


def test_link_of_a_loss_must_be_known_to_scale_targets():
    class SquareError(SquaredError):
        def predict(self, output):
            return output * output

    with pytest.raises(
        ValueError, match=r"predictions are its outputs, and those of SquareError.*scale_target=False"
    ):
        MLPRegressor(loss=SquareError(), **SMALL).fit(X, COUNTS, offset=LOG)
    MLPRegressor(loss=SquareError(), scale_target=False, **SMALL).fit(X, COUNTS, offset=LOG)
