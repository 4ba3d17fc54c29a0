"""Members that compare rows with those of the fit, by learned distances."""

import pickle
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, RepeatedKFold, TimeSeriesSplit

import sknet
from sknet.core import no_grad
from sknet.losses import LogLoss
from sknet.tabular import Members, TabularClassifier, TabularRegressor, _residuals
from sknet.tabular._importances import FEWEST_ROWS, rises_of
from sknet.tabular._neighbors import COMMON, Distances, _network, _shares, of_all_folds
from sknet.tabular._predicting import Mix, mixed
from sknet.tabular._residuals import (
    _Pairs,
    _parts_of,
    _telling,
    factor_of,
    groups_of,
    learned,
    network_of_means,
)
from sknet.tabular._training import Rows
from tests.freezing.test_python import module_of
from tests.tabular.similar_rows import QUICK, neighbors_of, places


def rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = places(n, rng)
    board = np.floor(1.5 * X["east"]) + np.floor(1.5 * X["north"])
    return X, np.array(["a", "b", "c"])[(board % 3).astype(int)]


X, Y = rows()


@pytest.fixture(scope="module")
def fitted():
    return TabularClassifier(**QUICK).fit(X, Y)


def test_outputs_are_logarithms_of_shares_of_similar_rows(fitted):
    [member] = neighbors_of(fitted)
    Z = member.encoder.transform(X).astype(np.float64)
    factors = np.sqrt(member.model.module.scale.weight.numpy().astype(np.float64))
    others = rows(40, 1)[0]
    found = member.outputs(member.encoder.transform(others))
    squares = cdist(member.encoder.transform(others) * factors, Z * factors, "sqeuclidean")
    labels = np.searchsorted(fitted.classes_, Y)
    shares = softmax(-squares, axis=1) @ np.eye(3)[labels]
    np.testing.assert_allclose(found, np.log((1 - COMMON) * shares + COMMON / 3), atol=1e-3)


def test_columns_that_tell_nothing_hardly_count(fitted):
    [member] = neighbors_of(fitted)
    # A flag that few rows have may have any factor.
    factors = dict(
        zip(member.encoder.get_feature_names_out(), member.model.module.scale.weight.numpy(), strict=True)
    )
    least = min(factors["east"], factors["north"])
    assert max(value for name, value in factors.items() if name in ("d", "city_Rome")) < least / 2


def test_they_are_a_gain(fitted):
    others, labels = rows(1000, 1)
    without = TabularClassifier(**QUICK, neighbors=None).fit(X, Y)
    assert not neighbors_of(without)
    assert "neighbors" not in without.mix_
    assert fitted.oof_score_ > without.oof_score_ + 0.1
    assert fitted.score(others, labels) > without.score(others, labels) + 0.1


def test_importances_count_them(fitted):
    """Held-out rows are compared with others only, so that noise has no importance."""
    importances = dict(zip(X.columns, fitted.feature_importances_, strict=True))
    assert importances["east"] + importances["north"] > 0.8


@pytest.mark.parametrize("budget", [0.01, 1.0])
def test_importances_permute_enough_rows(budget, monkeypatch):
    permuted = []

    def rises(task, firsts, rows, *args):
        permuted.append(rows)
        return rises_of(task, firsts, rows, *args)

    monkeypatch.setattr("sknet.tabular._importances.rises_of", rises)
    model = TabularClassifier(**{**QUICK, "smooth": "auto"}, budget=budget).fit(X, Y)
    assert model.mix_["neighbors"] > 0
    sizes = np.array([len(np.unique(rows)) for rows in permuted])
    assert len(sizes) == 2  # one for each fold
    assert (sizes >= FEWEST_ROWS).all()


def test_no_row_is_compared_with_itself_out_of_folds():
    labels = np.random.default_rng(0).integers(0, 3, len(X))
    model = TabularClassifier(**QUICK).fit(X, labels)
    known = np.isfinite(model.oof_prediction_[:, 0])
    assert 250 <= known.sum() <= 350
    assert model.oof_score_ < 0.45


def test_rows_that_cv_leaves_out_are_not_looked_at():
    table, labels = X[:1200].copy(), np.random.default_rng(0).integers(0, 3, 1200)
    place = np.r_[:300, :300, 300:600, 300:600]  # each row twice; of those held out, one is in an embargo
    table, labels = table.iloc[place].reset_index(drop=True), labels[place]
    model = TabularClassifier(**QUICK, cv=[(np.arange(600), np.arange(600, 900))]).fit(table, labels)
    assert model.oof_score_ < 0.45


def test_final_neighbors_are_the_rows_of_some_fold():
    folds = [(np.arange(100, 800), np.arange(900, 1100)), (np.arange(100, 1100), np.arange(1200, 1400))]
    model = TabularClassifier(**QUICK, cv=folds).fit(X, Y)
    [member] = neighbors_of(model)
    assert member.model.module.body[0].out_features == 1200


def test_all_folds_train_on_no_row_of_a_gap():
    splits = list(TimeSeriesSplit(3, gap=50, test_size=100).split(X))
    known, held_out = of_all_folds(splits, len(X))
    np.testing.assert_array_equal(known, np.arange(1500 - 300 - 50))
    np.testing.assert_array_equal(held_out, np.arange(1200, 1500))
    repeated = [(np.array([4, 0, 0, 4]), np.array([3]))]
    np.testing.assert_array_equal(of_all_folds(repeated, 6)[0], [0, 4])


def useless(outputs, *args):
    mix = mixed({kind: output for kind, output in outputs.items() if kind != "neighbors"}, *args)
    return Mix({**mix.weights, "neighbors": 0.0}, {**mix.temperatures, "neighbors": 1.0})


def test_neighbors_of_no_weight_are_not_kept(tmp_path, monkeypatch):
    without = TabularClassifier(**QUICK, neighbors=None).fit(X, Y)
    monkeypatch.setattr("sknet.tabular._base.mixed", useless)
    model = TabularClassifier(**QUICK).fit(X, Y)
    assert {member.kind for member in model.members_} == {*model.mix_} == {*model.temperature_} == {"smooth"}
    assert len(model.encoder_) == len(without.encoder_)
    np.testing.assert_array_equal(model.predict_proba(X), without.predict_proba(X))
    np.testing.assert_array_equal(model.oof_prediction_, without.oof_prediction_)
    np.testing.assert_array_equal(model.feature_importances_, without.feature_importances_)
    for each, other in [(model, without), (model.slim(), without.slim())]:
        assert len(pickle.dumps(each)) < 1.01 * len(pickle.dumps(other))
        assert "neighbors: " not in str(each.summary())
        sknet.save(each, tmp_path / "model")
        np.testing.assert_array_equal(sknet.load(tmp_path / "model").predict(X), model.predict(X))


def test_networks_of_distances_have_the_gradients_of_differences():
    rng = np.random.default_rng(0)
    keys, y = rng.normal(size=(30, 3)), rng.integers(0, 4, 30)
    network = Distances(keys, _shares(y, 4).astype(np.float64), rng.normal(size=30))
    network.scale.weight.data = rng.normal(size=3)
    inputs, right = rng.normal(size=(5, 3)), rng.normal(size=(5, 4))
    output = (network(inputs) * right).sum()
    output.backward()
    weight = network.scale.weight
    start, step = weight.numpy().copy(), 1e-6
    for i, found in enumerate(np.asarray(weight.grad)):
        values = []
        for sign in (1, -1):
            weight.data = start + sign * step * np.eye(3)[i]
            with no_grad():
                values.append(float((network(inputs) * right).sum().numpy()))
        assert found == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


def test_a_weight_counts_as_so_many_rows():
    rng = np.random.default_rng(0)
    inputs, y = rng.normal(size=(6, 3)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2])
    counts, others = np.array([1, 0, 3, 2, 1, 1]), rng.normal(size=(9, 3)).astype(np.float32)
    squares = np.array([0.5, 1.0, 2.0], np.float32)
    weighted = _network(Rows(inputs, y, counts.astype(np.float32)), squares, 3)
    repeated = _network(Rows(np.repeat(inputs, counts, axis=0), np.repeat(y, counts), None), squares, 3)
    with no_grad():
        found, expected = (each.eval()(others).numpy() for each in (weighted, repeated))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_held_out", [300, 512, 800])
def test_factors_are_decided_on_by_rows_of_everywhere(n_held_out, monkeypatch):
    monkeypatch.setattr("sknet.tabular._neighbors.DECIDING", 512)
    taken, take = [], Rows.take

    def seen(self, chosen):
        taken.append((self.n_rows, chosen))
        return take(self, chosen)

    monkeypatch.setattr(Rows, "take", seen)
    order = np.argsort(Y, kind="stable")  # the first of them have one class
    held_out = order[:: len(order) // n_held_out][:n_held_out]
    cv = [(np.setdiff1d(np.arange(len(X)), held_out), held_out)]
    TabularClassifier(**QUICK, cv=cv).fit(X, Y)
    [places] = [np.arange(n)[chosen] for n, chosen in taken if n == n_held_out]
    assert len(places) == min(n_held_out, 512)
    assert (places[0], places[-1]) == (0, n_held_out - 1)
    steps = np.diff(places)
    assert steps.min() >= 1
    assert steps.max() - steps.min() <= 1


def test_rows_of_no_weight_are_no_neighbors():
    weight = np.ones(len(X))
    weight[::2] = 0
    model = TabularClassifier(**QUICK).fit(X, Y, weight)
    [member] = neighbors_of(model)
    assert member.model.module.body[0].out_features == len(X) // 2


def test_validation_rows_are_no_neighbors():
    model = TabularClassifier(**QUICK).fit(X[:1200], Y[:1200], X_val=X[1200:], y_val=Y[1200:])
    [member] = neighbors_of(model)
    assert member.model.module.body[0].out_features == 1200


OTHERS = {
    "few rows": lambda **p: TabularClassifier(**p).fit(X[:900], Y[:900]),
    "two classes": lambda **p: TabularClassifier(**p).fit(X, Y == "a"),
    "several columns": lambda **p: TabularClassifier(**p).fit(X, np.c_[Y, Y]),
    "ordered": lambda **p: TabularClassifier(**p, loss="ordinal").fit(X, np.searchsorted(["a", "b"], Y)),
    "another loss": lambda **p: TabularClassifier(**p, loss="hinge").fit(X, Y),
    "offset": lambda **p: TabularClassifier(**p).fit(X, Y, offset=np.zeros((len(X), 3))),
    "sparse": lambda **p: TabularClassifier(**p).fit(sp.csr_array(X[["east", "north"]].to_numpy()), Y),
    "every row held out": lambda **p: TabularClassifier(**p, cv=KFold(2)).fit(X, Y),
    "few weights": lambda **p: TabularClassifier(**p).fit(X, Y, 1.0 * (np.arange(len(X)) < 400)),
    "wide": lambda **p: TabularClassifier(**p).fit(np.random.default_rng(0).normal(size=(1500, 201)), Y),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_have_none(name):
    assert not neighbors_of(OTHERS[name](**{**QUICK, "smooth": Members(hidden_layer_sizes=[4], epochs=1)}))


def test_they_are_no_ensemble_alone():
    with pytest.raises(ValueError, match="at least one must not be None"):
        TabularClassifier(smooth=None, sharp=None).fit(X, Y)
    with pytest.raises(ValueError, match="The 'neighbors' parameter of TabularClassifier must be"):
        TabularClassifier(neighbors=5).fit(X, Y)


@pytest.mark.parametrize("value", ["auto", None])
def test_they_have_no_parameters_of_their_own(value):
    model = TabularClassifier(neighbors=value)
    with pytest.raises(ValueError, match=r"'neighbors__epochs' for TabularClassifier: .* 'auto' or None"):
        model.set_params(neighbors__epochs=3, n_folds=2)
    assert model.neighbors is value
    assert model.n_folds == "auto"
    assert model.set_params(sharp__epochs=3, neighbors=None).sharp.epochs == 3
    with pytest.raises(ValueError, match=r"'neighbors__epochs' for TabularRegressor: .* 'auto' or None"):
        TabularRegressor(neighbors=value).set_params(neighbors__epochs=3)


def test_they_belong_to_all_folds(fitted, capsys):
    TabularClassifier(**{**QUICK, "verbose": True}).fit(X, Y)
    said = capsys.readouterr().out
    assert "(neighbors, all folds), loss = " in said
    assert said.count("(smooth, fold ") == 2
    assert "smooth: 2 in 2 folds, weight " in str(fitted.summary())
    assert "neighbors: 1 of all folds, weight " in str(fitted.summary())


def test_an_error_of_theirs_names_no_fold(monkeypatch):
    def fail(*args):
        raise RuntimeError("broken")

    monkeypatch.setattr("sknet.tabular._neighbors.start_of", fail)
    with pytest.raises(RuntimeError, match="broken") as found:
        TabularClassifier(**QUICK).fit(X, Y)
    assert "in the neighbors of all folds" in found.value.__notes__


def test_repeated_folds_and_threads(fitted):
    fifth = np.arange(len(X)) % 5
    one = np.flatnonzero(fifth), np.flatnonzero(fifth == 0)
    twice = TabularClassifier(**QUICK, cv=[one, one]).fit(X, Y)
    assert twice.oof_score_ > 0.7
    assert np.isnan(twice.oof_prediction_[one[0]]).all()
    same = TabularClassifier(**{**QUICK, "n_jobs": 2}).fit(X, Y)
    np.testing.assert_array_equal(same.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("budget", [0.1, "20s"])
def test_budgets(budget):
    model = TabularClassifier(**QUICK, budget=budget).fit(X, Y)
    assert len(neighbors_of(model)) == 1
    assert "neighbors: 1" in str(model.summary())


def test_frozen_stored_and_written(fitted, tmp_path):
    strange = pd.concat([X[:40], X[:4].assign(east=[np.inf, -np.inf, 1e300, np.nan], north=np.inf)])
    expected = fitted.predict_proba(strange)
    assert fitted.mix_["neighbors"] > 0
    frozen = fitted.freeze()
    sknet.save(fitted, tmp_path / "model")
    sknet.save(frozen, tmp_path / "frozen")
    copies = [
        *(frozen, fitted.slim(), pickle.loads(pickle.dumps(fitted)), pickle.loads(pickle.dumps(frozen))),
        *(sknet.load(tmp_path / "model"), sknet.load(tmp_path / "frozen")),
    ]
    frozen.to_python(tmp_path / "written.py")
    for copy in [*copies, module_of(tmp_path / "written.py")]:
        np.testing.assert_array_equal(copy.predict(strange), fitted.predict(strange))
        np.testing.assert_allclose(copy.predict_proba(strange), expected, rtol=1e-5)
    for copy in copies:
        np.testing.assert_array_equal(copy.predict_proba(strange), expected)
        for i in range(5):
            one = X[i : i + 1]
            np.testing.assert_array_equal(copy.predict_proba(one), fitted.predict_proba(one))
            np.testing.assert_allclose(copy.predict_proba(one), fitted.predict_proba(X)[i : i + 1], rtol=1e-5)


def test_three_kinds_are_mixed_by_a_grid():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    outputs = {
        k: 2 * np.eye(4)[y] + s * rng.normal(size=(300, 4)) for k, s in zip("abc", (2, 1.6, 1.8), strict=True)
    }
    mix = mixed(outputs, y, None, LogLoss().for_task("multiclass"), by_error=False)
    assert sum(mix.weights.values()) == pytest.approx(1)

    def badness(weights):
        z = sum(w * outputs[k] / mix.temperatures[k] for k, w in zip("abc", weights, strict=True))
        return log_loss(y, np.exp(log_softmax(z, axis=1)))

    grid = [np.array(each) / 10 for each in product(range(11), repeat=3) if sum(each) == 10]
    assert [*mix.weights.values()] == pytest.approx(min(grid, key=badness))
    assert min(mix.weights.values()) > 0


def looked_at(monkeypatch):
    """Return what the fit of a regressor finds residuals from."""
    found = []
    monkeypatch.setattr("sknet.tabular._base.found_residuals", lambda *args: found.append(args))
    TabularRegressor(**QUICK).fit(X, np.sin(4 * X["east"]))
    [args] = found
    return args


def test_distances_of_a_part_are_learned_from_the_others(monkeypatch):
    left, *_ = looked_at(monkeypatch)
    parts, groups = _parts_of(left.folds, len(X)), groups_of(left.encoder)
    pairs, targets = _Pairs(left.X, left.of_folds, left.weight, left.folds), []

    class Optimizer:
        def minimize(self, loss, start, max_iter):
            targets.append(loss.__self__.left)
            return SimpleNamespace(value=0.5, x=start)

    monkeypatch.setattr("sknet.tabular._residuals.LBFGS", Optimizer)
    assert len(learned(pairs, -1.0, groups, parts)) == 3
    known = np.array([len(each) for each in targets]).reshape(3, 3)  # of two starts, and of what follows
    np.testing.assert_array_equal(known, np.repeat([[300], [150], [150]], 3, axis=1))
    for part, found in enumerate(targets[3::3]):
        own, other = (left.of_folds[fold, left.folds[fold][1]] for fold in (part, 1 - part))
        np.testing.assert_array_equal(found, other)
        assert not np.isin(own, found).any()


def test_parts_of_held_out_rows():
    fold = np.arange(60), np.arange(60, 100)
    alike = _parts_of([fold, fold], 120)
    assert set(alike[60:100]) == {0, 1, 2}
    assert set(np.delete(alike, np.arange(60, 100))) == {-1}
    repeated = [(train, test) for train, test in RepeatedKFold(n_splits=4, n_repeats=2).split(np.zeros(100))]
    found = _parts_of(repeated, 100)
    for part, (_, held_out) in enumerate(repeated[:4]):
        assert (found[held_out] == part).all()


def test_a_weight_counts_as_so_many_residuals():
    rng = np.random.default_rng(0)
    inputs, left = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=6).astype(np.float32)
    counts, others = np.array([1, 0, 3, 2, 1, 1]), rng.normal(size=(9, 3)).astype(np.float32)
    squares = np.array([0.5, 1.0, 2.0], np.float32)
    weighted = network_of_means(Rows(inputs, left, counts.astype(np.float32)), squares)
    repeated = network_of_means(
        Rows(np.repeat(inputs, counts, axis=0), np.repeat(left, counts), None), squares
    )
    with no_grad():
        found, expected = (each.eval()(others).numpy() for each in (weighted, repeated))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    near = counts * np.exp(-cdist(others * np.sqrt(squares), inputs * np.sqrt(squares), "sqeuclidean"))
    oracle = near @ left / (near.sum(axis=1) + 1.0)
    np.testing.assert_allclose(found[:, 0], oracle, rtol=1e-4, atol=1e-5)


def test_pairs_have_the_gradients_of_differences():
    rng = np.random.default_rng(0)
    inputs, left = rng.normal(size=(40, 5)), rng.normal(size=(2, 40))
    folds = [(np.arange(30), np.arange(30, 40)), (np.arange(10, 40), np.arange(10))]
    groups = np.repeat(np.eye(3), [2, 1, 2], axis=0)
    at, step = np.array([0.1, -0.4, 0.3]), 1e-4
    pairs = _Pairs(inputs, left, rng.uniform(0.5, 2, 40), folds).near(at, groups)
    _, gradient = pairs.loss(at)
    for i, found in enumerate(gradient):
        change = step * np.eye(3)[i]
        expected = (pairs.loss(at + change)[0] - pairs.loss(at - change)[0]) / (2 * step)
        assert found == pytest.approx(expected, rel=1e-2, abs=1e-5)


def test_pairs_are_near_and_of_the_rows_of_their_fold():
    rng = np.random.default_rng(0)
    inputs, factors = rng.normal(size=(612, 3)).astype(np.float32), np.array([1.0, 0.0, -1.0])
    left = np.stack([np.arange(612.0), np.arange(612.0) + 1000]).astype(np.float32)  # which tell their place
    folds = [(np.arange(512), np.arange(512, 612)), (np.arange(100, 612), np.arange(100))]
    pairs = _Pairs(inputs, left, np.ones(612, np.float32), folds).near(factors, np.eye(3))
    np.testing.assert_array_equal(pairs.rows, [*range(512, 612), *range(100)])
    distances = cdist(inputs * np.exp(factors), inputs * np.exp(factors))
    for row, others in zip(pairs.rows, pairs.others.astype(int), strict=True):
        training = folds[int(row < 100)][0]
        own = others % 1000
        assert (others >= 1000).all() == (row < 100)
        assert len(set(own) - set(training)) == 0
        assert len(set(own)) == len(own)
        assert distances[row, own].min() == distances[row, training].min()
        assert np.mean(distances[row, own]) < 0.6 * np.mean(distances[row, training])


def test_factors_are_chosen_by_the_loss_of_held_out_rows():
    rng = np.random.default_rng(0)
    y, added, noise = rng.normal(size=(3, 500, 1))
    assert factor_of(y - 0.6 * added, added, y, None) == 0.5
    assert factor_of(y - 0.6 * added + noise, added, y, None) in (0.5, 0.75)
    assert factor_of(y - 0.3 * added + noise, added, y, None) in (0.25, 0.5)
    assert factor_of(y - 0.03 * added + noise, added, y, None) == 0.0  # hardly a gain
    assert factor_of(noise[:10], -added[:10], y[:10], None) == 0.0
    assert factor_of(y, added, y, None) == 0.0
    counts = rng.integers(0, 3, 500)
    repeated = [np.repeat(each, counts, axis=0) for each in (y - 1.1 * added, added, y)]
    assert factor_of(y - 1.1 * added, added, y, counts.astype(float)) == factor_of(*repeated, None) == 1.0


def test_rows_of_a_group_gain_together():
    """Two of three groups of a hundred rows gain, which is no more than chance."""
    added, groups = np.ones((300, 1)), np.repeat(np.arange(3), 100)
    outputs = np.repeat([-0.5, -0.5, 0.5], 100)[:, np.newaxis]
    assert factor_of(outputs, added, np.zeros((300, 1)), None) > 0
    assert factor_of(outputs, added, np.zeros((300, 1)), None, groups) == 0
    assert factor_of(outputs, added, np.zeros((300, 1)), None, np.arange(300)) > 0


def test_columns_that_count():
    inputs = np.random.default_rng(0).normal(size=(200, 12))
    factors = np.log(np.array([0.01, *np.arange(1, 12)]))
    np.testing.assert_array_equal(_telling(inputs, np.eye(12), factors), np.arange(12) >= 5)
    np.testing.assert_array_equal(_telling(inputs[:, :3], np.eye(3), factors[:3]), [False, True, True])
    np.testing.assert_array_equal(_telling(inputs[:, :1], np.eye(1), factors[:1]), [True])
    groups = np.repeat(np.eye(3), [1, 4, 7], axis=0)
    expected = [False] + 11 * [True]
    np.testing.assert_array_equal(_telling(inputs, groups, np.array([-5.0, 0.0, 0.0])), expected)


def test_networks_that_predict_nothing_add_nothing(monkeypatch):
    left, *others = looked_at(monkeypatch)
    assert _residuals.found_residuals(left, *others) is not None
    left.of_folds[0, left.folds[0][0][3]] = np.inf
    assert _residuals.found_residuals(left, *others) is None
