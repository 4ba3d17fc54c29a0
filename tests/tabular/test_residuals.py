"""Members that add means of what networks leave of the targets of similar rows."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, TimeSeriesSplit

import sknet
from sknet.tabular import Members, TabularRegressor
from tests.freezing.test_python import module_of
from tests.tabular.similar_rows import QUICK, neighbors_of, places


def rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = places(n, rng)
    hills = np.sin(4 * X["east"]) * np.cos(3 * X["north"])
    return X, (hills + 0.5 * X["d"] + 0.1 * rng.normal(size=n)).to_numpy()


X, Y = rows()


class Watched(TabularRegressor):
    """A regressor that keeps what it adds to outputs for held-out rows, and the folds."""

    def _residuals(self, task, jobs, trained, mix, held_out, mixed):
        self.residuals = super()._residuals(task, jobs, trained, mix, held_out, mixed)
        self.held_out, self.mixed, self.targets = held_out, mixed, task.y
        self.folds = [rows for _, rows in sorted({job.fold: job.rows for job in jobs}.items())]
        return self.residuals


@pytest.fixture(scope="module")
def seen():
    return Watched(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def fitted():
    return TabularRegressor(**QUICK).fit(X, Y)


def networks_of(model):
    return [member for member in model.members_ if member.kind != "neighbors"]


def outputs_of(model, fold):
    """Return the mean outputs of the networks of a fold."""
    own = [each for each in networks_of(model) if each.fold == fold]
    return np.mean([each.outputs(each.encoder.transform(X)) for each in own], axis=0)[:, 0]


def means(keys, left, inputs, squares, weight=1.0):
    """Return means of residuals by differences in double precision."""
    factors = np.sqrt(squares.astype(np.float64))
    near = weight * np.exp(-cdist(inputs * factors, keys * factors, "sqeuclidean"))
    return near @ left / (near.sum(axis=1) + 1.0)


def test_outputs_are_means_of_what_is_left_of_similar_rows(seen):
    [member] = neighbors_of(seen)
    keys = member.encoder.transform(X).astype(np.float64)
    center, scale = Y.mean(), Y.std()
    found = []
    for fold in range(2):
        outputs = [each.outputs(each.encoder.transform(X)) for each in networks_of(seen) if each.fold == fold]
        found.append((Y - center) / scale - np.mean(outputs, axis=0)[:, 0])
    is_trained = np.ones((2, len(X)), bool)
    for fold, (_, held_out) in enumerate(seen.folds):
        is_trained[fold, held_out] = False
    left = (np.array(found) * is_trained).sum(axis=0) / is_trained.sum(axis=0)
    others = member.encoder.transform(rows(40, 1)[0])
    squares = member.model.module.scale.weight.numpy()
    expected = means(keys, left, others.astype(np.float64), squares)
    np.testing.assert_allclose(member.outputs(others)[:, 0], expected, atol=2e-3)
    assert np.abs(expected).max() > 0.3


def test_held_out_rows_are_compared_with_those_that_their_fold_trains_on(seen):
    """What is added is computed anew, with residuals of that fold's networks."""
    residuals = seen.residuals
    assert residuals.outputs.shape == (len(seen.held_out), 1)
    for fold, (training, held_out) in enumerate(seen.folds):
        assert not np.intersect1d(training, held_out).size
        member = residuals.of_folds[fold]
        assert (member.fold, member.kind) == (fold, "neighbors")
        own = seen.targets[:, 0] - outputs_of(seen, fold)
        keys = member.encoder.transform(X).astype(np.float64)
        squares = member.model.module.scale.weight.numpy()
        expected = means(keys[training], own[training], keys[held_out], squares)
        found = residuals.outputs[np.isin(seen.held_out, held_out), 0]
        np.testing.assert_allclose(found, expected, atol=2e-3)


def test_out_of_fold_predictions_add_them(seen):
    z = seen.mixed + seen.mix_["neighbors"] * seen.residuals.outputs
    lowest, highest = Y.min(), Y.max()
    expected = np.clip(z[:, 0] * Y.std() + Y.mean(), lowest, highest)
    known = np.isfinite(seen.oof_prediction_)
    np.testing.assert_array_equal(np.flatnonzero(known), seen.held_out)
    np.testing.assert_allclose(seen.oof_prediction_[known], expected, atol=1e-4)
    assert seen.oof_score_ == pytest.approx(r2_score(Y[known], expected), abs=1e-5)


def test_they_are_a_gain(fitted):
    others, targets = rows(1000, 1)
    without = TabularRegressor(**QUICK, neighbors=None).fit(X, Y)
    assert not neighbors_of(without)
    assert "neighbors" not in without.mix_
    assert fitted.mix_["neighbors"] in np.arange(1, 9) / 4
    assert sum(fitted.mix_.values()) == pytest.approx(1 + fitted.mix_["neighbors"])
    assert fitted.oof_score_ > without.oof_score_ + 0.1
    assert fitted.score(others, targets) > without.score(others, targets) + 0.1
    for one, other in zip(networks_of(fitted), without.members_, strict=True):
        encoded = one.encoder.transform(X[:50])
        np.testing.assert_array_equal(one.outputs(encoded), other.outputs(other.encoder.transform(X[:50])))


def test_columns_that_tell_nothing_are_not_compared(fitted):
    [member] = neighbors_of(fitted)
    names = {*member.encoder.get_feature_names_out()}
    assert {"east", "north"} <= names
    assert not {"c", "c_missing"} & names
    importances = dict(zip(X.columns, fitted.feature_importances_, strict=True))
    assert importances["east"] + importances["north"] + importances["d"] > 0.8


def test_noise_is_left_out_and_not_predicted():
    noise = np.random.default_rng(0).normal(size=len(X))
    model = TabularRegressor(**QUICK).fit(X, noise)
    without = TabularRegressor(**QUICK, neighbors=None).fit(X, noise)
    assert not neighbors_of(model)
    assert len(model.encoder_) == len(without.encoder_)
    np.testing.assert_array_equal(model.predict(X), without.predict(X))
    np.testing.assert_array_equal(model.oof_prediction_, without.oof_prediction_)
    np.testing.assert_array_equal(model.feature_importances_, without.feature_importances_)
    assert len(pickle.dumps(model)) < 1.01 * len(pickle.dumps(without))


def test_rows_that_cv_leaves_out_are_not_looked_at():
    """Each row is there twice: one of both is held out, and the other in an embargo."""
    table, noise = X[:1200].copy(), np.random.default_rng(0).normal(size=1200)
    place = np.r_[:300, :300, 300:600, 300:600]
    table, noise = table.iloc[place].reset_index(drop=True), noise[place]
    model = TabularRegressor(**QUICK, cv=[(np.arange(600), np.arange(600, 900))]).fit(table, noise)
    assert model.oof_score_ < 0.1


def test_groups_of_rows_are_not_compared_with_themselves():
    """Rows of a group have the same noise, which tells nothing of other groups."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(300), 5)
    table = X.iloc[group].reset_index(drop=True)
    noise = rng.normal(size=300)[group]
    model = TabularRegressor(**QUICK).fit(table, noise, groups=group)
    assert model.oof_score_ < 0.1


def test_groups_of_another_length():
    with pytest.raises(ValueError, match="one entry per row, 1500 in all, got 1499"):
        TabularRegressor(**QUICK, cv=[(np.arange(1000), np.arange(1000, 1500))]).fit(X, Y, groups=range(1499))


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(4, test_size=0.1, random_state=0),
        TimeSeriesSplit(3, gap=50, test_size=100),
        [(np.arange(1000), np.arange(1000, 1100))],
        [(np.arange(1000), np.arange(1000, 1001))],
        [(np.r_[:1000, :1000], np.arange(1000, 1200))],
    ],
    ids=["shuffled", "time series", "one fold", "one row", "rows twice"],
)
def test_folds_of_all_kinds(cv):
    model = TabularRegressor(**QUICK, cv=cv).fit(X, Y)
    known = np.isfinite(model.oof_prediction_)
    held_out = np.unique(np.concatenate([test for _, test in (cv if type(cv) is list else cv.split(X))]))
    np.testing.assert_array_equal(np.flatnonzero(known), held_out)
    if len(held_out) > 1:
        assert neighbors_of(model)
        assert model.oof_score_ > 0.5
    assert np.isfinite(model.predict(X)).all()


def test_few_held_out_rows_do_not_tell_a_gain():
    """Half of all single rows of noise gain by chance."""
    noise = np.random.default_rng(0).normal(size=len(X))
    for row in range(8):
        model = TabularRegressor(**QUICK, cv=[(np.arange(8, 1500), [row])]).fit(X, noise)
        assert not neighbors_of(model)


def test_validation_rows_are_no_neighbors():
    model = TabularRegressor(**QUICK).fit(X[:1200], Y[:1200], X_val=X[1200:], y_val=Y[1200:])
    [member] = neighbors_of(model)
    assert member.model.module.body[-1].values.in_features == 1200
    assert len(model.oof_prediction_) == 300
    assert model.oof_score_ > 0.5


@pytest.mark.filterwarnings("ignore:.* negative weights")
def test_rows_of_no_weight_are_absent():
    weight = np.ones(len(X))
    weight[::3], weight[3] = 0, -1
    model = TabularRegressor(**QUICK).fit(X, Y, weight)
    [member] = neighbors_of(model)
    assert member.model.module.body[-1].values.in_features == 1000


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e3])
def test_weights_have_any_unit(unit, fitted):
    model = TabularRegressor(**QUICK).fit(X, Y, np.full(len(X), unit))
    np.testing.assert_allclose(model.predict(X), fitted.predict(X), atol=0.02)
    assert model.mix_["neighbors"] == fitted.mix_["neighbors"]


OTHERS = {
    "few rows": lambda **p: TabularRegressor(**p).fit(X[:900], Y[:900]),
    "several targets": lambda **p: TabularRegressor(**p).fit(X, np.c_[Y, Y]),
    "missing targets": lambda **p: TabularRegressor(**p).fit(
        X, np.c_[Y, np.where(np.arange(len(Y)) % 3, Y, np.nan)]
    ),
    "another loss": lambda **p: TabularRegressor(**p, loss="absolute_error").fit(X, Y),
    "offset": lambda **p: TabularRegressor(**p).fit(X, Y, offset=np.zeros(len(X))),
    "directions": lambda **p: TabularRegressor(**p, monotonic_cst={"d": 1}).fit(X, Y),
    "seconds": lambda **p: TabularRegressor(**p, budget="20s").fit(X, Y),
    "sparse": lambda **p: TabularRegressor(**p).fit(sp.csr_array(X[["east", "north"]].to_numpy()), Y),
    "every row held out": lambda **p: TabularRegressor(**p, cv=KFold(2)).fit(X, Y),
    "few weights": lambda **p: TabularRegressor(**p).fit(X, Y, 1.0 * (np.arange(len(X)) < 400)),
    "many validation rows": lambda **p: TabularRegressor(**p).fit(
        X, Y, X_val=pd.concat([X] * 13, ignore_index=True), y_val=np.tile(Y, 13)
    ),
    "wide": lambda **p: TabularRegressor(**p).fit(np.random.default_rng(0).normal(size=(1500, 201)), Y),
    "many levels": lambda **p: TabularRegressor(**p).fit(
        X.assign(**{f"level{i}": pd.Categorical(np.arange(len(X)) % 35 + i) for i in range(6)}), Y
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_have_none(name):
    assert not neighbors_of(OTHERS[name](**{**QUICK, "smooth": Members(hidden_layer_sizes=[4], epochs=1)}))


TABLES = {
    "a single column": lambda: (X[["east"]], np.sin(9 * X["east"])),
    "numbers alone": lambda: (X[["east", "north"]].to_numpy(), Y - 0.5 * X["d"]),
    "categories alone": lambda: (
        pd.DataFrame({"a": pd.Categorical(np.arange(1500) % 30), "b": pd.Categorical(np.arange(1500) % 7)}),
        np.random.default_rng(0).normal(size=210)[np.arange(1500) % 210],
    ),
    "rows of a few kinds": lambda: (pd.concat([X[:30]] * 50, ignore_index=True), np.tile(Y[:30], 50)),
    "one row again and again": lambda: (np.zeros((1500, 2)) + np.eye(2)[np.arange(1500) % 2], Y),
    "large targets": lambda: (X, 1e12 * Y + 1e13),
    "constant targets": lambda: (X, np.ones(1500)),
    "a column of targets": lambda: (X, Y[:, np.newaxis]),
    "strange numbers": lambda: (
        X.assign(east=np.where(np.arange(1500) % 99, X["east"], np.inf), c=1e300 * X["c"]),
        Y,
    ),
}


@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_all_kinds(name):
    table, y = TABLES[name]()
    y = np.asarray(y)
    model = TabularRegressor(**QUICK).fit(table, y)
    found = model.predict(table)
    assert np.isfinite(found).all()
    assert found.min() >= y.min() - 1e-6 * abs(y.min())
    assert found.max() <= y.max() + 1e-6 * abs(y.max())
    np.testing.assert_array_equal(model.freeze().predict(table), found)
    if name not in ("constant targets", "one row again and again", "rows of a few kinds"):
        assert model.oof_score_ > 0.4


def test_members_are_stored_with_their_kind(fitted):
    [member] = neighbors_of(fitted)
    assert fitted.members_[-1] is member
    assert fitted.encoder_[-1] is member.encoder
    assert member.fold == 0
    said = str(fitted.summary())
    assert "neighbors: 1 of all folds, weight " in said
    assert "smooth: 2 in 2 folds, weight " in said
    assert "neighbors: LBFGS(" in said
    assert "neighbors loss" not in fitted.history_
    more = TabularRegressor(**{**QUICK, "members": 2, "smooth": "auto"}, budget=0.1).fit(X, Y)
    assert len(neighbors_of(more)) == 1
    assert len(more.members_) == 5


def test_parameters():
    model = clone(TabularRegressor(neighbors=None))
    assert model.get_params()["neighbors"] is None
    with pytest.raises(ValueError, match="The 'neighbors' parameter of TabularRegressor must be"):
        model.set_params(neighbors=5).fit(X, Y)
    with pytest.raises(ValueError, match="at least one must not be None"):
        TabularRegressor(smooth=None, sharp=None).fit(X, Y)
    search = GridSearchCV(TabularRegressor(**QUICK), {"neighbors": ["auto", None]}, cv=2)
    search.fit(pd.concat([X, X], ignore_index=True), np.tile(Y, 2))
    assert search.best_params_ == {"neighbors": "auto"}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_repeat(n_jobs, fitted):
    same = TabularRegressor(**{**QUICK, "n_jobs": n_jobs}).fit(X, Y)
    np.testing.assert_array_equal(same.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(same.oof_prediction_, fitted.oof_prediction_)
    np.testing.assert_array_equal(same.feature_importances_, fitted.feature_importances_)


def test_frozen_stored_and_written(fitted, tmp_path):
    strange = pd.concat([X[:40], X[:4].assign(east=[np.inf, -np.inf, 1e300, np.nan], north=np.inf)])
    expected = fitted.predict(strange)
    assert np.isfinite(expected).all()
    frozen = fitted.freeze()
    sknet.save(fitted, tmp_path / "model")
    sknet.save(frozen, tmp_path / "frozen")
    sknet.save(fitted, tmp_path / "small", include="predict")
    copies = [
        *(frozen, fitted.slim(), pickle.loads(pickle.dumps(fitted)), pickle.loads(pickle.dumps(frozen))),
        *(sknet.load(tmp_path / "model"), sknet.load(tmp_path / "frozen")),
        sknet.load(tmp_path / "small"),
    ]
    frozen.to_python(tmp_path / "written.py")
    np.testing.assert_allclose(module_of(tmp_path / "written.py").predict(strange), expected, rtol=1e-4)
    for copy in copies:
        np.testing.assert_array_equal(copy.predict(strange), expected)
        for i in range(5):
            one = X[i : i + 1]
            np.testing.assert_array_equal(copy.predict(one), fitted.predict(one))
            np.testing.assert_allclose(copy.predict(one), fitted.predict(X)[i : i + 1], rtol=1e-4, atol=1e-4)


def test_a_mix_of_others_is_refused(fitted, tmp_path):
    other, state = clone(fitted), pickle.loads(pickle.dumps(vars(fitted)))
    weights = {**fitted.mix_, "smooth": 0.5}
    other.__setstate__({**state, "_mix": replace(state["_mix"], weights=weights), "mix_": weights})
    sknet.save(other, tmp_path / "other")
    with pytest.raises(ValueError, match="must sum to 1"):
        sknet.load(tmp_path / "other")


def test_attributions_sum_to_differences(fitted):
    found = fitted.integrated_gradients(X[:4], X[5:6], n_steps=1000).sum(axis=1)
    np.testing.assert_allclose(found, fitted.predict(X[:4]) - fitted.predict(X[5:6]), atol=0.05)
