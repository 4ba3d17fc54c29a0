"""Split-conformal intervals and sets: coverage on other rows, and quantiles of residuals written out."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.model_selection import GridSearchCV

from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, load, nn, save
from sknet.callbacks import EpochScoring
from sknet.losses import Quantile

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
NOISE = 0.1 + np.abs(X[:, 1])
Y = X[:, 0] + NOISE * RNG.standard_t(3, size=3000)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.7 * RNG.normal(size=3000), [-0.5, 0.5])]
FITTED, HELD_OUT = slice(0, 600), slice(600, 1000)
OTHERS = slice(1000, 3000)
SPLIT = np.arange(600), np.arange(600, 1000)
FEW = {"calibrate": "conformal", "validation_split": SPLIT, "early_stopping": False, "random_state": 0}


def regressor(**params):
    return MLPRegressor((8,), lr=0.01, **{"max_iter": 15} | FEW | params).fit(X[:1000], Y[:1000])


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("loss", ["squared_error", "gaussian_nll", Quantile([0.2, 0.5, 0.8])], ids=str)
def test_intervals_cover_other_rows(loss, coverage):
    low, high = np.moveaxis(regressor(loss=loss).predict_interval(X[OTHERS], coverage), 1, 0)
    found = np.mean((low <= Y[OTHERS]) & (Y[OTHERS] <= high))
    # Four deviations of a share of 400 rows that calibrate, and of 2000 that are tested.
    assert abs(found - coverage) < 4 * math.sqrt(coverage * (1 - coverage) * (1 / 400 + 1 / 2000))


def test_intervals_cover_as_often_as_ranks_of_exchangeable_rows_say():
    """Another row is below that of the rank k among n rows with probability k / (n + 1)."""
    rng, n, coverage, found = np.random.default_rng(7), 9, 0.8, []
    for _ in range(120):
        x = rng.normal(size=(30 + n + 100, 2))
        y = np.exp(x[:, 0]) + rng.standard_t(2, size=len(x))
        split = np.arange(30), np.arange(30, 30 + n)
        reg = MLPRegressor((), max_iter=2, **FEW | {"validation_split": split}).fit(x[: 30 + n], y[: 30 + n])
        low, high = np.moveaxis(reg.predict_interval(x[30 + n :], coverage), 1, 0)
        found.append(np.mean((low <= y[30 + n :]) & (y[30 + n :] <= high)))
    deviation = math.sqrt(coverage * (1 - coverage) / (n + 2) / len(found))  # of a mean of beta variates
    assert abs(np.mean(found) - coverage) < 4 * deviation


class Steps(nn.Module):
    """The last state of a recurrent layer over steps of two numbers."""

    def __init__(self, n_outputs):
        self.layer, self.head = nn.GRU(2, 3, returns="last"), nn.Linear(3, n_outputs)

    def forward(self, x, lengths=None):
        return self.head(self.layer(x, lengths=lengths))


def of_offsets(rng, n):
    x, offset = rng.normal(size=(n, 2)), 3 * rng.normal(size=n)
    return x, x[:, 0] + offset + rng.standard_t(2, size=n), {"offset": offset}


def of_sequences(rng, n):
    x = np.empty(n, object)
    x[:] = [rng.normal(size=(length, 2)) for length in rng.integers(1, 5, n)]
    return x, np.array([row[:, 0].sum() for row in x]) + rng.standard_t(2, size=n), {}


def of_rare_classes(rng, n):
    x = rng.normal(size=(n, 2))
    y = np.where(rng.random(n) < 0.05, "rare", np.where(x[:, 0] + rng.normal(size=n) > 0, "a", "b"))
    y[:3] = "rare", "a", "b"
    return x, y, {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (MLPRegressor, of_offsets),
        (NetRegressor, of_sequences),
        (MLPClassifier, of_rare_classes),
    ],
)
def test_coverage_of_small_draws_is_that_of_ranks(make, draw):
    """The rank k of n rows that calibrate is covered with probability k / (n + 1), a variate of beta."""
    rng, n, coverage, found = np.random.default_rng(3), 19, 0.8, []
    first = Steps if make is NetRegressor else ()
    split = np.arange(40), np.arange(40, 40 + n)
    for _ in range(200):
        x, y, more = draw(rng, 40 + n + 100)
        fitted, others = slice(0, 40 + n), slice(40 + n, None)
        net = make(first, max_iter=1, **FEW | {"validation_split": split})
        net.fit(x[fitted], y[fitted], **{name: each[fitted] for name, each in more.items()})
        more = {name: each[others] for name, each in more.items()}
        if draw is of_rare_classes:
            sets = net.predict_set(x[others], coverage, **more)
            covered = sets[np.arange(100), np.searchsorted(net.classes_, y[others])]
        else:
            low, high = np.moveaxis(net.predict_interval(x[others], coverage, **more), 1, 0)
            covered = (low <= y[others]) & (y[others] <= high)
        found.append(covered.mean())
    rank = math.ceil((n + 1) * coverage) / (n + 1)
    deviation = math.sqrt(rank * (1 - rank) * (1 / (n + 2) + 1 / 100) / 200)
    assert np.mean(found) > rank - 4 * deviation
    assert draw is of_rare_classes or np.mean(found) < rank + 4 * deviation  # likeliest classes are added


def test_rows_with_a_missing_target_or_one_without_weight_do_not_calibrate():
    both, weight = np.c_[Y, 10 * Y], np.ones((3000, 2))
    both[600:700, 0], weight[700:800, 1] = np.nan, 0.0
    val = {"X_val": X[HELD_OUT], "y_val": both[HELD_OUT], "sample_weight_val": weight[HELD_OUT]}
    reg = MLPRegressor((8,), calibrate="conformal", max_iter=3, random_state=0)
    reg.fit(X[FITTED], both[FITTED], sample_weight=weight[FITTED], **val)
    half = np.diff(reg.predict_interval(X[:4], 0.9), axis=1)[:, 0] / 2
    residuals = np.abs(both[800:1000] - reg.predict(X[800:1000]))
    wanted = np.sort(residuals, axis=0)[math.ceil(201 * 0.9) - 1]
    np.testing.assert_allclose(half, np.tile(wanted, (4, 1)), rtol=1e-4)


def test_intervals_are_quantiles_of_residuals():
    reg = regressor()
    residuals = np.sort(np.abs(Y[HELD_OUT] - reg.predict(X[HELD_OUT])))
    half = residuals[math.ceil(401 * 0.9) - 1]
    low, high = np.moveaxis(reg.predict_interval(X[:5], 0.9), 1, 0)
    np.testing.assert_allclose([reg.predict(X[:5]) - low, high - reg.predict(X[:5])], half, rtol=1e-5)


def test_intervals_are_as_wide_as_the_noise():
    low, high = np.moveaxis(regressor(loss="gaussian_nll", max_iter=60).predict_interval(X[OTHERS]), 1, 0)
    assert np.corrcoef(high - low, NOISE[OTHERS])[0, 1] > 0.8


@pytest.mark.parametrize("coverage", [0.6, 0.9])
def test_sets_cover_other_rows(coverage):
    clf = MLPClassifier((8,), lr=0.01, max_iter=15, **FEW).fit(X[:1000], LABELS[:1000])
    sets = clf.predict_set(X[OTHERS], coverage)
    assert sets.dtype == bool
    assert sets.any(axis=1).all()
    places = np.searchsorted(clf.classes_, LABELS[OTHERS])
    found = np.mean(sets[np.arange(len(sets)), places])
    least = coverage - 4 * math.sqrt(coverage * (1 - coverage) * (1 / 400 + 1 / 2000))
    assert found > least  # with the likeliest class in each set it may be larger
    proba = clf.predict_proba(X[HELD_OUT])
    scores = np.sort(1 - proba[np.arange(400), np.searchsorted(clf.classes_, LABELS[HELD_OUT])])
    wanted = 1 - clf.predict_proba(X[OTHERS]) <= scores[math.ceil(401 * coverage) - 1]
    assert (sets >= wanted).all()
    assert ((sets & ~wanted).sum(axis=1) <= ~wanted.any(axis=1)).all()


def test_copies_files_and_frozen_predictors(tmp_path):
    reg = regressor()
    clf = MLPClassifier((8,), max_iter=5, **FEW).fit(X[:1000], LABELS[:1000])
    for name, fitted, method in (("reg", reg, "predict_interval"), ("clf", clf, "predict_set")):
        expected = getattr(fitted, method)(X[:9])
        save(fitted, tmp_path / name)
        save(fitted.freeze(), tmp_path / f"{name}_frozen")
        read = load(tmp_path / name), load(tmp_path / f"{name}_frozen"), pickle.loads(pickle.dumps(fitted))
        for other in (fitted.slim(), fitted.freeze(), *read):
            assert np.array_equal(getattr(other, method)(X[:9]), expected)
    reg.freeze().to_python(tmp_path / "net.py")
    names = {}
    exec((tmp_path / "net.py").read_text(), names)
    np.testing.assert_allclose(names["predict_interval"](X[:9]), reg.predict_interval(X[:9]), rtol=1e-5)
    for coverage in (0.9, 0.6):
        clf.freeze().to_python(tmp_path / "clf.py", coverage=None if coverage == 0.9 else coverage)
        exec((tmp_path / "clf.py").read_text(), names)
        assert np.array_equal(names["predict_set"](X[OTHERS]), clf.predict_set(X[OTHERS], coverage))
    with pytest.raises(ValueError, match=r"this file has sets of 0.6, got 0.7"):
        names["predict_set"](X[:9], coverage=0.7)


class Readable:
    """Numbers that can be read as an array, and by nothing else."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


SPARSE = [scipy.sparse.coo_array, scipy.sparse.dok_array, scipy.sparse.bsr_matrix]


@pytest.mark.parametrize("kind", [Readable, list, pd.DataFrame, *SPARSE])
def test_rows_in_any_container_are_held_out(kind):
    table = np.where(np.abs(X[:1000]) < 0.5, 0.0, X[:1000])
    y = Readable(LABELS[:1000] == "a") if kind is Readable else LABELS[:1000] == "a"
    options = FEW | {"max_iter": 2, "callbacks": [EpochScoring("accuracy", on="training")]}
    known = scipy.sparse.csr_array(table) if kind in SPARSE else table
    expected = MLPClassifier((8,), **options).fit(known, LABELS[:1000] == "a").predict_set(table)
    found = MLPClassifier((8,), **options).fit(kind(table), y).predict_set(table)
    np.testing.assert_array_equal(found, expected)


def test_rows_given_to_validate_on():
    one = MLPRegressor((8,), max_iter=5, calibrate="conformal", random_state=0)
    several = MLPRegressor((8,), max_iter=5, n_members=3, calibrate="conformal", random_state=0)
    for reg in (one, several):
        reg.fit(X[FITTED], Y[FITTED], X_val=X[HELD_OUT], y_val=Y[HELD_OUT])
        low, high = np.moveaxis(reg.predict_interval(X[OTHERS], 0.8), 1, 0)
        assert abs(np.mean((low <= Y[OTHERS]) & (Y[OTHERS] <= high)) - 0.8) < 0.1
        assert np.array_equal(reg.freeze().predict_interval(X[:5]), reg.predict_interval(X[:5]))
    mean, std = several.predict(X[:5], return_std=True)
    assert mean.shape == std.shape == (5,)
    with pytest.raises(ValueError, match="needs rows that no member is trained on"):
        several.fit(X[FITTED], Y[FITTED])


def test_parts_weights_and_several_targets():
    both, weight = np.c_[Y, 10 * Y], np.arange(3000) % 2
    reg = MLPRegressor((8,), calibrate="conformal", random_state=0)
    given = {"X_val": X[HELD_OUT], "y_val": both[HELD_OUT], "sample_weight_val": weight[HELD_OUT]}
    for _ in range(3):
        reg.partial_fit(X[FITTED], both[FITTED], **given)
    half = np.diff(reg.predict_interval(X[:4], 0.9), axis=1)[:, 0] / 2
    residuals = np.abs(both[HELD_OUT] - reg.predict(X[HELD_OUT]))[weight[HELD_OUT] == 1]
    wanted = np.sort(residuals, axis=0)[math.ceil(201 * 0.9) - 1]
    np.testing.assert_allclose(half, np.tile(wanted, (4, 1)), rtol=1e-4)


def test_searches_and_networks():
    rows = [RNG.normal(size=(n, 3)) for n in RNG.integers(1, 5, 60)]

    class Last(nn.Module):
        def __init__(self, n_outputs):
            self.layer, self.head = nn.GRU(3, 4), nn.Linear(4, n_outputs)

        def forward(self, x, lengths=None):
            return self.head(self.layer(x, lengths=lengths)[1][-1])

    params = {"max_iter": 2, "early_stopping": True, "validation_fraction": 0.5, "calibrate": "conformal"}
    net = NetRegressor(Last, random_state=0, **params)
    found = GridSearchCV(net, {"alpha": [0.0, 0.1]}, cv=2).fit(rows, np.arange(60.0))
    assert found.best_estimator_.predict_interval(rows).shape == (60, 2)
    clf = NetClassifier(Last, random_state=0, **params).fit(rows, np.arange(60) % 2)
    assert clf.predict_set(rows, coverage=0.5).shape == (60, 2)


@pytest.mark.parametrize(
    ("make", "y", "message"),
    [
        (lambda: MLPRegressor((4,), calibrate="conformal"), Y, "needs rows to validate on"),
        (
            lambda: MLPRegressor((4,), refit_on_all=True, **FEW | {"early_stopping": True}),
            Y,
            "not trained on",
        ),
        (lambda: MLPClassifier((4,), loss="hinge", **FEW), LABELS, "has none"),
        (lambda: MLPClassifier((4,), **FEW), np.c_[LABELS == "a", LABELS == "b"], "needs one label a row"),
        (lambda: MLPRegressor((4,), loss="aft", **FEW), np.c_[1 + Y**2, Y > 0], "needs one label a row"),
    ],
)
def test_fits_without_conformal_predictions(make, y, message):
    with pytest.raises(ValueError, match=message):
        make().fit(X[:1000], y[:1000])


def test_predictions_that_need_more_rows():
    with pytest.raises(
        ValueError, match=r"coverage=0\.999 needs at least 999 rows to calibrate on, and there were 400"
    ):
        regressor().predict_interval(X[:5], 0.999)
    plain = MLPClassifier((4,), max_iter=2, random_state=0).fit(X[:100], LABELS[:100])
    with pytest.raises(
        AttributeError, match="predicts sets only if it was fitted with calibrate='conformal'"
    ):
        plain.predict_set(X[:5])


@pytest.mark.parametrize("is_classifier", [False, True])
def test_setting_the_parameter_after_a_fit_changes_nothing(tmp_path, is_classifier):
    cls, y, method = (
        (MLPClassifier, LABELS, "predict_set") if is_classifier else (MLPRegressor, Y, "predict_interval")
    )
    options = {"early_stopping": True, "validation_fraction": 0.4, "max_iter": 2, "random_state": 0}
    plain = cls((4,), **options).fit(X[:300], y[:300])
    fitted = cls((4,), calibrate="conformal", **options).fit(X[:300], y[:300])
    expected = getattr(fitted, method)(X[:5])
    save(plain.set_params(calibrate="conformal"), tmp_path / "plain")
    for net in (plain, load(tmp_path / "plain"), plain.freeze()):
        assert not hasattr(net, method)
        with pytest.raises(AttributeError, match="calibrate='conformal'"):
            getattr(net, method)(X[:5])
    np.testing.assert_array_equal(getattr(fitted.set_params(calibrate=None), method)(X[:5]), expected)
    assert hasattr(cls(calibrate="conformal"), method)
