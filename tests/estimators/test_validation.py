"""Validation during a fit: which rows, what is measured, what decides, and errors."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import (
    accuracy_score,
    get_scorer,
    log_loss,
    make_scorer,
    mean_pinball_loss,
    mean_squared_error,
)
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, TimeSeriesSplit

import sknet
from sknet import neural_network, nn, ops
from sknet.losses import Huber, Quantile, SquaredError
from sknet.optim import SGD, Adam
from tests.estimators.data import (
    CLASSIFICATIONS,
    HELD_OUT,
    ROWS,
    TABLES,
    TASKS,
    TRAINING,
    WEIGHTS,
    estimator_for,
    parts,
    quiet,
    same_bits,
    unchanged,
)


def fitted(task, weighted=False, val=True, **params):
    """Return an estimator fitted with given validation rows."""
    (X, y, w), (X_val, y_val, w_val) = parts(task)
    given = {"X_val": X_val, "y_val": y_val} if val else {}
    if weighted:
        given |= {"sample_weight": w} | ({"sample_weight_val": w_val} if val else {})
    with quiet():
        return estimator_for(task, **{"early_stopping": True, "max_iter": 8} | params).fit(X, y, **given)


# -- the monitored number ----------------------------------------------------------------------------------


def skewed(n=1500):
    """Return a regression problem with heavy-tailed, heteroscedastic noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    noise = rng.standard_t(4, size=n) * (0.3 + 0.3 * np.abs(X[:, 2]))
    return X, X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + noise


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [0.05, 0.95])
def test_a_quantile_that_stops_early_covers_what_it_should(level, seed):
    """R2 of a high quantile is best before it has moved away from the mean."""
    X, y = skewed()
    reg = sknet.MLPRegressor((32,), loss=Quantile(level), early_stopping=True, random_state=seed)
    with quiet():
        reg.fit(X[:1000], y[:1000])
    assert abs((y[1000:] <= reg.predict(X[1000:])).mean() - level) < 0.04
    assert reg.monitor_ == "validation_loss"


REGRESSION_LOSSES = ["absolute_error", "huber", "quantile", "log_cosh", SquaredError(), "squared_error"]


@pytest.mark.parametrize("loss", REGRESSION_LOSSES, ids=str)
def test_regressors_monitor_the_loss_except_for_the_squared_error(loss):
    expected = "score" if loss in ("squared_error", SquaredError()) else "loss"
    assert fitted("regression", loss=loss).monitor_ == f"validation_{expected}"


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_regressors_of_counts_monitor_the_loss(loss):
    assert fitted("counts", loss=loss).monitor_ == "validation_loss"


@pytest.mark.parametrize("loss", ["log_loss", "focal", "hinge"])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_classifiers_monitor_the_loss(task, loss):
    assert fitted(task, loss=loss).monitor_ == "validation_loss"


@pytest.mark.parametrize("task", TASKS)
def test_the_drop_in_keeps_scikit_learns_rule(task):
    X, y = TABLES[task]
    kind = neural_network.MLPClassifier if task in CLASSIFICATIONS else neural_network.MLPRegressor
    with quiet():
        found = kind(hidden_layer_sizes=(8,), early_stopping=True, max_iter=4, random_state=0).fit(X, y)
    assert found.monitor_ == "validation_score"
    assert found.best_validation_score_ == max(found.validation_scores_)


MONITORS = [
    (None, "loss", np.argmin),
    (None, "score", np.argmax),
    (None, "validation_score", np.argmax),
    ("neg_log_loss", None, np.argmax),
    (["accuracy", "neg_log_loss"], "accuracy", np.argmax),
    (["accuracy", "neg_log_loss"], "loss", np.argmin),
    ("loss", None, np.argmin),
]


@pytest.mark.parametrize(("scoring", "monitor", "best"), MONITORS)
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_best_epoch_is_that_of_what_is_monitored(task, scoring, monitor, best):
    params = {"max_iter": 12, "optimizer": Adam(0.05), "n_iter_no_change": 4}
    clf = fitted(task, scoring=scoring, monitor=monitor, **params)
    curve = clf.history_[clf.monitor_]
    assert clf.best_epoch_ == best(curve) + 1
    (_, _, _), (X_val, y_val, _) = parts(task)
    found = log_loss(y_val, clf.predict_proba(X_val))
    assert clf.history_["validation_loss"][clf.best_epoch_ - 1] == pytest.approx(found)


def test_without_early_stopping_validation_is_only_recorded():
    (X, y, _), (X_val, y_val, _) = parts("binary")
    with quiet():
        plain, looked_at = (
            estimator_for("binary", max_iter=5, tol=0).fit(X, y, **given)
            for given in ({}, {"X_val": X_val, "y_val": y_val})
        )
    assert all(map(np.array_equal, plain.coefs_, looked_at.coefs_))
    assert plain.history_["loss"] == looked_at.history_["loss"]
    found = log_loss(y_val, looked_at.predict_proba(X_val))
    assert looked_at.history_["validation_loss"][-1] == pytest.approx(found)
    assert looked_at.best_loss_ == plain.best_loss_


# -- which rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_given_rows_are_as_good_as_a_pair_of_row_numbers(task, weighted):
    X, y = TABLES[task]
    pair = (ROWS[TRAINING], ROWS[HELD_OUT])
    with quiet():
        split = estimator_for(task, early_stopping=True, max_iter=8, validation_split=pair)
        split.fit(X, y, WEIGHTS if weighted else None)
    assert same_bits(fitted(task, weighted), split)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [None, "absolute_error", Huber(0.5)])
def test_validation_numbers_are_scikit_learns(weighted, loss):
    (_, _, _), (X_val, y_val, w_val) = parts("regression")
    reg = fitted("regression", weighted, loss=loss or "squared_error", monitor="loss", max_iter=20)
    weight = w_val if weighted else None
    best = reg.best_epoch_ - 1
    assert reg.history_["validation_score"][best] == pytest.approx(reg.score(X_val, y_val, weight))
    if loss is None:
        expected = mean_squared_error(y_val, reg.predict(X_val), sample_weight=weight)
        assert reg.history_["validation_loss"][best] == pytest.approx(expected / 2)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 1: 0.5}])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes_weigh_in_given_rows_as_in_the_training(class_weight, weighted):
    (_, y, _), (X_val, y_val, w_val) = parts("multiclass")
    clf = fitted("multiclass", weighted, class_weight=class_weight, max_iter=5)
    counts = np.bincount(y)
    of_class = len(y) / (3 * counts) if class_weight == "balanced" else np.array([3.0, 0.5, 1.0])
    weight = of_class[y_val] * (w_val if weighted else 1)
    best = clf.best_epoch_ - 1
    found = log_loss(y_val, clf.predict_proba(X_val), sample_weight=weight)
    assert clf.history_["validation_loss"][best] == pytest.approx(found)
    right = np.average(clf.predict(X_val) == y_val, weights=weight)
    assert clf.history_["validation_score"][best] == pytest.approx(right)
    scored = fitted(
        "multiclass", weighted, class_weight=class_weight, scoring=["accuracy"], monitor="loss", max_iter=5
    )
    assert scored.best_epoch_ == best + 1
    plain = accuracy_score(y_val, clf.predict(X_val), sample_weight=w_val if weighted else None)
    assert scored.history_["validation_accuracy"][best] == pytest.approx(plain)  # as in a search


SPLITS = [
    ShuffleSplit(1, test_size=0.3, random_state=3),
    TimeSeriesSplit(2),
    GroupShuffleSplit(1, test_size=0.3, random_state=3),
]


@pytest.mark.parametrize("splitter", SPLITS, ids=str)
@pytest.mark.parametrize("task", ["multiclass", "multioutput"])
def test_a_splitter_selects_the_rows(task, splitter):
    X, y = TABLES[task]
    groups = ROWS // 5
    more = {"groups": groups} if "Group" in type(splitter).__name__ else {}
    pair = next(splitter.split(X, y, **more))
    with quiet():
        found, expected = (
            estimator_for(task, early_stopping=True, max_iter=5, validation_split=split).fit(X, y, **given)
            for split, given in ((splitter, more), (pair, {}))
        )
    assert same_bits(found, expected)


def test_a_fraction_of_groups_keeps_them_together():
    X, y = TABLES["regression"]
    groups = np.random.default_rng(0).permutation(ROWS) // 10
    rows = []

    def seen(estimator, X, y):
        rows.append((len(y), len(np.unique(X[:, -1]))))
        return 0.0

    seen.greater_is_better = True
    numbered = np.column_stack([X, groups])
    with quiet():
        estimator_for("regression", early_stopping=True, scoring=seen).fit(numbered, y, groups=groups)
    assert rows[0] == (200, 20)  # the training rows: 3 of 23 groups are held out
    assert rows[1] == (30, 3)


@pytest.mark.parametrize("convert", [csr_array, np.asfortranarray, lambda X: X.astype("float32")])
def test_inputs_of_every_kind(convert):
    (X, y, _), (X_val, y_val, _) = parts("multiclass")
    expected = fitted("multiclass", dtype="float32")
    with quiet():
        found = estimator_for("multiclass", early_stopping=True, max_iter=8, dtype="float32")
        found.fit(convert(X), y, X_val=convert(X_val), y_val=y_val)
    np.testing.assert_allclose(found.history_["validation_loss"], expected.history_["validation_loss"], 1e-5)


# -- what is measured --------------------------------------------------------------------------------------


def rmse(estimator, X, y):
    return float(np.sqrt(mean_squared_error(y, estimator.predict(X))))


rmse.greater_is_better = False

SCORINGS = {
    "binary": ["accuracy", "roc_auc", "neg_log_loss", "f1", "average_precision", "neg_brier_score"],
    "multiclass": ["balanced_accuracy", "roc_auc_ovr", "neg_log_loss", "f1_macro", "top_k_accuracy"],
    "multilabel": ["accuracy", "f1_samples", "roc_auc"],
    "regression": ["r2", "neg_mean_absolute_error", "neg_median_absolute_error", "neg_max_error"],
    "multioutput": ["r2", "neg_root_mean_squared_error"],
}
WITHOUT_WEIGHTS = {"neg_max_error", "neg_median_absolute_error"}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_every_scorer_agrees_with_the_fitted_estimator(task, weighted):
    (_, _, _), (X_val, y_val, w_val) = parts(task)
    names = SCORINGS[task]
    found = fitted(task, weighted, scoring=names, monitor="loss")
    best = found.best_epoch_ - 1
    for name in names:
        scorer = get_scorer(name)
        more = {"sample_weight": w_val} if weighted and scorer._accept_sample_weight() else {}
        expected = scorer(found, X_val, y_val, **more)
        assert found.history_[f"validation_{name}"][best] == pytest.approx(expected), name
    assert "score" not in found.history_


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_training_curves_are_of_the_running_outputs(task, shuffle):
    """With a learning rate near zero, the outputs of an epoch are those of one network."""
    (X, y, w), _ = parts(task)
    names = SCORINGS[task]
    found = fitted(
        task, True, scoring=names, monitor="loss", optimizer=SGD(1e-14), max_iter=1, shuffle=shuffle
    )
    for name in names:
        scorer = get_scorer(name)
        more = {"sample_weight": w} if scorer._accept_sample_weight() else {}
        assert found.history_[name][0] == pytest.approx(scorer(found, X, y, **more)), name


def test_training_curves_without_validation():
    clf = fitted("binary", val=False, early_stopping=False, scoring=["roc_auc", "f1"], max_iter=3)
    assert set(clf.history_) == {"loss", "roc_auc", "f1", "lr", "time"}
    assert clf.validation_scores_ is None


def test_custom_functions_and_metrics():
    pinball = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.9)
    (_, _, _), (X_val, y_val, _) = parts("regression")
    reg = fitted("regression", scoring={"pinball": pinball, "rmse": rmse}, monitor="rmse", max_iter=15)
    best = reg.best_epoch_ - 1
    assert reg.history_["validation_rmse"][best] == min(reg.history_["validation_rmse"])
    assert reg.history_["validation_rmse"][best] == pytest.approx(rmse(reg, X_val, y_val))
    assert reg.history_["validation_pinball"][best] == pytest.approx(pinball(reg, X_val, y_val))
    assert reg.validation_scores_ == reg.history_["validation_rmse"]
    assert reg.best_validation_score_ == min(reg.validation_scores_)


def test_a_scorer_may_predict_any_rows():
    """It gets the original rows, and an estimator that can predict any others."""
    (X_train, _, _), (X_val, _, _) = parts("binary")

    def other_rows(estimator, X, y):
        np.testing.assert_array_equal(X, X_val if len(X) == len(X_val) else X_train)
        half = estimator.predict_proba(X[::2])
        np.testing.assert_allclose(half, estimator.predict_proba(X)[::2], rtol=1e-6)
        return float(half[0, 0])

    clf = fitted("binary", scoring=["loss", other_rows], monitor="loss", optimizer=SGD(1e-14))
    assert len(clf.history_["validation_other_rows"]) == clf.n_iter_


class Counting(nn.Module):
    """Counts the rows it computes in evaluation mode."""

    rows = 0

    def forward(self, x):
        if not self.training:
            Counting.rows += x.shape[0]
        return ops.relu(x)


def test_all_scorers_share_one_prediction_an_epoch():
    counted = []
    for scoring in (None, SCORINGS["binary"]):
        Counting.rows = 0
        fitted("binary", activation=Counting(), scoring=scoring, monitor="loss", max_iter=4)
        counted.append(Counting.rows)
    assert counted[0] == counted[1]


# -- errors ------------------------------------------------------------------------------------------------


X, Y = TABLES["multiclass"]
X_VAL, Y_VAL = X[HELD_OUT], Y[HELD_OUT]

BAD_ROWS = {
    "fewer columns": (
        {"X_val": X_VAL[:, :5], "y_val": Y_VAL},
        r"X_val.*: X has 5 features, but .* expecting 12",
    ),
    "one axis": ({"X_val": X_VAL[0], "y_val": Y_VAL[:1]}, r"X_val.*: Expected 2D array, got 1D array"),
    "NaN": ({"X_val": X_VAL * np.nan, "y_val": Y_VAL}, r"X_val.*contains NaN"),
    "strings": ({"X_val": np.full(X_VAL.shape, "a"), "y_val": Y_VAL}, r"X_val.*could not convert string"),
    "complex": ({"X_val": X_VAL * 1j, "y_val": Y_VAL}, r"X_val.*Complex data not supported"),
    "other length": (
        {"X_val": X_VAL, "y_val": Y_VAL[1:]},
        r"y_val.*inconsistent numbers of samples: \[70, 69\]",
    ),
    "no y_val": ({"X_val": X_VAL}, "X_val is given without y_val"),
    "no X_val": ({"y_val": Y_VAL}, "y_val is given without X_val"),
    "weights alone": ({"sample_weight_val": Y_VAL}, "sample_weight_val is given without X_val"),
    "unseen class": (
        {"X_val": X_VAL, "y_val": np.where(Y_VAL == 0, 7, Y_VAL)},
        r"y_val has classes \[7\] that are not among those of y, \[0, 1, 2\]",
    ),
    "other kind": ({"X_val": X_VAL, "y_val": Y_VAL + 0.5}, r"y_val"),
    "negative weight": (
        {"X_val": X_VAL, "y_val": Y_VAL, "sample_weight_val": -np.ones(70)},
        "sample_weight_val: sample_weight must have a positive sum",
    ),
    "no weight": (
        {"X_val": X_VAL, "y_val": Y_VAL, "sample_weight_val": np.zeros(70)},
        "sample_weight_val: Sample weights must contain at least one non-zero number",
    ),
    "weight length": (
        {"X_val": X_VAL, "y_val": Y_VAL, "sample_weight_val": np.ones(3)},
        r"sample_weight_val: .*shape",
    ),
    "one row": (
        {"X_val": X_VAL[:1], "y_val": Y_VAL[:1]},
        "X_val has 1 row, and a validation needs at least 2",
    ),
    "groups too": (
        {"X_val": X_VAL, "y_val": Y_VAL, "groups": ROWS},
        "groups have no effect if X_val is given",
    ),
    "group lengths": ({"groups": ROWS[:5]}, r"groups.*inconsistent numbers of samples"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_invalid_validation_rows_raise(case):
    given, message = BAD_ROWS[case]
    clf = estimator_for("multiclass", early_stopping=True, max_iter=2)
    with quiet():
        clf.fit(X, Y)
    with unchanged(clf, X), pytest.raises((ValueError, TypeError), match=message):
        clf.fit(X, Y, **given)


GIVEN = {"X_val": X_VAL, "y_val": Y_VAL}
BAD_PARAMETERS = [
    ({"validation_split": ShuffleSplit(1)}, GIVEN, "X_val and validation_split are both given"),
    ({"early_stopping": False}, {"groups": ROWS}, "groups have no effect, as no rows are held out"),
    ({"early_stopping": False, "refit_on_all": True}, GIVEN, "refit_on_all=True needs early_stopping=True"),
    ({"validation_split": 0.2}, {}, "validation_fraction=0.2"),
    ({"scoring": "acuracy"}, {}, "Did you mean 'accuracy'"),
    ({"scoring": ["f1_macro", "accuracy"]}, {}, "has several scorers"),
    ({"monitor": "accuracy"}, {}, r"must be one of \['loss', 'score'\]"),
    ({"scoring": lambda e, X, y: 0.0}, {}, "it is unknown whether"),
    ({"scoring": "f1"}, {}, r"scoring 'f1' of the training rows failed: ValueError: .*average"),
    (
        {"scoring": "roc_auc_ovr", "loss": "hinge"},
        {},
        "scoring 'roc_auc_ovr' of the .* rows failed: .*predict_proba",
    ),
    ({"scoring": {"v": rmse, "n": lambda e, X, y: None}, "monitor": "v"}, {}, "'n' of .* returned None"),
]


@pytest.mark.parametrize(("params", "given", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS)))
def test_contradictory_parameters_raise(params, given, message):
    clf = estimator_for("multiclass", **{"early_stopping": True} | params)
    with unchanged(clf, X), pytest.raises(ValueError, match=message):
        clf.fit(X, Y, **given)


def test_what_is_monitored_must_be_a_number():
    def nothing(estimator, X, y):
        return np.nan

    nothing.greater_is_better = True
    with pytest.raises(ValueError, match="scoring 'validation_nothing' decides when to stop, and is nan"):
        fitted("binary", scoring=nothing)


LBFGS_CASES = [
    ({}, GIVEN, "X_val"),
    ({"validation_split": ShuffleSplit(1)}, {}, "validation_split"),
    ({"scoring": "accuracy"}, {}, "scoring"),
    ({"early_stopping": True}, {}, "early_stopping"),
]


@pytest.mark.parametrize(("params", "given", "name"), LBFGS_CASES)
def test_options_that_need_steps(params, given, name):
    clf = estimator_for("multiclass", optimizer="lbfgs", **params)
    with pytest.raises(ValueError, match=f"{name}.*needs an optimizer that goes step by step, got LBFGS"):
        clf.fit(X, Y, **given)


# -- continuing --------------------------------------------------------------------------------------------


def stepwise(task="binary", calls=6, **params):
    """Return an estimator after some calls of partial_fit with validation rows."""
    (X, y, _), (X_val, y_val, _) = parts(task)
    estimator = estimator_for(task, **params)
    more = {"classes": np.unique(y)} if task in CLASSIFICATIONS else {}
    for _ in range(calls):
        estimator.partial_fit(X, y, X_val=X_val, y_val=y_val, **more)
    return estimator


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_partial_fit_with_validation_records_it(task):
    parted = stepwise(task, shuffle=False)
    with quiet():
        whole = fitted(task, early_stopping=False, max_iter=6, tol=0, shuffle=False)
    assert same_bits(parted, whole)


def test_validation_in_turns_leaves_gaps():
    (X, y, _), (X_val, y_val, _) = parts("regression")
    reg = estimator_for("regression")
    for turn in range(4):
        reg.partial_fit(X, y, **({"X_val": X_val, "y_val": y_val} if turn % 2 else {}))
    assert np.isnan(reg.history_["validation_loss"]).tolist() == [True, False, True, False]
    assert not np.isnan(reg.history_["loss"]).any()


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("in_the_middle", [lambda e: e, lambda e: pickle.loads(pickle.dumps(e))])
def test_partial_fit_stops_as_fit_does(task, in_the_middle):
    (X, y, _), (X_val, y_val, _) = parts(task)
    params = {"early_stopping": True, "optimizer": Adam(0.05), "n_iter_no_change": 3, "max_iter": 200}
    params |= {"shuffle": False}  # a whole fit permutes the order of the epoch before
    whole = fitted(task, **params)
    assert whole.n_iter_ < 200
    parted = estimator_for(task, **params)
    more = {"classes": np.unique(y)} if task in CLASSIFICATIONS else {}
    calls = 0
    while calls < 200 and not getattr(parted, "stopped_early_", False):
        parted = in_the_middle(parted.partial_fit(X, y, X_val=X_val, y_val=y_val, **more))
        calls += 1
    assert calls == whole.n_iter_
    assert same_bits(parted, whole)
    assert parted.best_epoch_ == whole.best_epoch_
    with unchanged(parted, X), pytest.warns(UserWarning, match="has stopped early, after epoch"):
        parted.partial_fit(X, y, X_val=X_val, y_val=y_val)


def test_partial_fit_that_stops_early_needs_rows():
    (X, y, _), _ = parts("binary")
    clf = estimator_for("binary", early_stopping=True)
    with pytest.raises(ValueError, match=r"partial_fit does not support early_stopping=True without X_val"):
        clf.partial_fit(X, y, classes=[0, 1])
    for early_stopping in (False, "auto"):
        clf.set_params(early_stopping=early_stopping, validation_split=ShuffleSplit(1))
        with pytest.raises(ValueError, match=r"partial_fit does not support validation_split"):
            clf.partial_fit(X, y, classes=[0, 1])


def test_a_warm_start_with_other_rows_resets_the_best_score():
    """The best score on other rows says nothing about these."""
    (X, y, _), (X_val, y_val, _) = parts("regression")
    reg = estimator_for("regression", early_stopping=True, monitor="loss", warm_start=True, max_iter=20)
    with quiet():
        reg.fit(X, y, X_val=X[:50], y_val=y[:50] * 0.99)
        before = reg.n_iter_
        reg.fit(X, y, X_val=X_val, y_val=y_val + 5)  # no epoch will be as good as the best before
    curve = reg.history_["validation_loss"][before:]
    assert reg.best_epoch_ == before + 1 + int(np.argmin(curve))
    assert min(curve) == pytest.approx(mean_squared_error(y_val + 5, reg.predict(X_val)) / 2)


def test_a_warm_start_with_the_same_rows_continues():
    (X, y, _), (X_val, y_val, _) = parts("regression")
    params = {"early_stopping": True, "monitor": "loss", "warm_start": True}
    reg = estimator_for("regression", max_iter=5, optimizer=Adam(0.3), **params)
    with quiet():
        reg.fit(X, y, X_val=X_val, y_val=y_val)
        for _ in range(6):
            reg.fit(X, y, X_val=X_val, y_val=y_val)
            found = mean_squared_error(y_val, reg.predict(X_val)) / 2
            assert found == pytest.approx(min(reg.history_["validation_loss"]))
            assert reg.best_epoch_ == 1 + int(np.argmin(reg.history_["validation_loss"]))


def test_clones_and_pickles():
    params = {"scoring": {"r": rmse, "m": "r2"}, "monitor": "r", "validation_split": ShuffleSplit(1)}
    reg = estimator_for("regression", early_stopping=True, **params)
    copy = clone(reg)
    X, y = TABLES["regression"]
    with quiet():
        assert same_bits(copy.fit(X, y), reg.fit(X, y))
    loaded = pickle.loads(pickle.dumps(reg))
    assert same_bits(loaded, reg)
    assert loaded.best_epoch_ == reg.best_epoch_


def test_a_fit_that_reaches_its_limit_warns():
    (X, y, _), (X_val, y_val, _) = parts("binary")
    clf = estimator_for("binary", early_stopping=True, max_iter=2)
    with pytest.warns(ConvergenceWarning), warnings.catch_warnings():
        clf.fit(X, y, X_val=X_val, y_val=y_val)
