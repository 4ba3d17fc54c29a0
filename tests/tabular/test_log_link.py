"""Members that learn the logarithm of the mean of amounts and counts."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import KFold

import sknet
from sknet.tabular import Members, TabularRegressor
from tests.freezing.test_python import module_of

QUICK = {"n_folds": 2, "n_jobs": 1, "random_state": 0, "neighbors": None}


def rows(n=1500, seed=0, power=1.0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["a", "b", "c"])
    X["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], n))
    mean = np.exp(3 + 2 * X["a"] + X["b"] * X["c"] + (X["kind"] == "x"))
    return X, rng.poisson(mean**power)


X, Y = rows()


def few(**params):
    return Members(hidden_layer_sizes=[16], epochs=3, **params)


def quick(**params):
    return TabularRegressor(**{**QUICK, "smooth": None, "sharp": few(), **params})


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


def has_links(model):
    return {member.model.module.link is not None for member in model.members_}


def test_outputs_are_means_of_logarithms_that_the_poisson_deviance_has_taught(fitted):
    """Compare with ensembles that are fitted to the same rows by the loss itself."""
    other = quick(loss="poisson").fit(X, Y)
    mean, deviation = Y.mean(), Y.std()
    for member, logs in zip(fitted.members_, other.members_, strict=True):
        Z = member.encoder.transform(X)
        expected = np.minimum(mean * np.exp(logs.outputs(Z)), Y.max())
        np.testing.assert_allclose(deviation * member.outputs(Z) + mean, expected, rtol=0.05)


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("below 0", Y - 1.0),
        ("noise", np.random.default_rng(0).uniform(0, 1, len(Y))),
        ("sums", 5 + X["a"] + np.sin(3 * X["b"])),
        ("a large mean", Y + 3.0 * Y.std()),
        ("constant", np.ones(len(Y))),
        ("zeros", np.zeros(len(Y))),
        ("several", np.column_stack([Y, Y])),
    ],
)
def test_other_targets_are_learned_as_they_are(name, y):
    assert has_links(quick().fit(X, y)) == {False}


@pytest.mark.parametrize(
    ("params", "given"),
    [({"loss": "absolute_error"}, {}), ({"extrapolate": True}, {}), ({}, {"offset": np.zeros(len(Y))})],
)
def test_so_are_those_of_another_task(params, given):
    assert has_links(quick(**params).fit(X, Y, **given)) == {False}
    model = quick(**params, sharp=few(log_link=True))
    with pytest.raises(ValueError, match="sharp__log_link=True is for the squared error of one target"):
        model.fit(X, Y, **given)


@pytest.mark.parametrize("y", [Y - 1.0, Y + 3.0 * Y.std(), np.zeros(len(Y))])
def test_logarithms_of_other_targets_are_refused(y):
    with pytest.raises(ValueError, match="mean above 0 of at most 3 standard deviations"):
        quick(sharp=few(log_link=True)).fit(X, y)


@pytest.mark.parametrize(("kind", "is_logarithm"), [("smooth", False), ("sharp", True)])
def test_only_sharp_members_learn_logarithms_unless_they_are_told(kind, is_logarithm):
    model = quick(**{"sharp": None, kind: few()}).fit(X, Y)
    assert has_links(model) == {is_logarithm}
    model.set_params(**{f"{kind}__log_link": not is_logarithm})
    assert has_links(model.fit(X, Y)) == {not is_logarithm}


def test_rows_that_count_decide():
    both, n = pd.concat([X, X], ignore_index=True), len(Y)
    y = np.concatenate([20 + 5 * X["a"], Y])
    for counted, expected in ((slice(None, n), {False}), (slice(n, None), {True})):
        for others in (0.0, 1e-6):
            weight = np.full(2 * n, others)
            weight[counted] = 1.0
            assert has_links(quick().fit(both, y, weight)) == expected


def test_rows_that_do_not_count_may_be_below_zero():
    weight, y = np.ones(len(Y)), Y.astype(float)
    weight[5], y[5] = 0.0, -4.0
    assert has_links(quick().fit(X, y, weight)) == {True}
    assert has_links(quick(sharp=few(log_link=True)).fit(X, y, weight)) == {True}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("place", [0, 60])  # which each fold has, and which one holds out
def test_targets_may_nearly_all_be_zero(place):
    y = np.eye(1, len(Y), place)[0]
    model = quick(sharp=few(log_link=True)).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(quick().fit(X, y).predict(X)).all()


@pytest.mark.filterwarnings("error")
def test_squares_may_overflow():
    y, weight = Y.astype(float), np.ones(len(Y))
    y[5], weight[5] = 1e30, 1e-25
    with np.errstate(all="raise"):
        assert has_links(quick().fit(X, y, weight)) == {False}


def test_few_rows_have_none():
    assert has_links(quick().fit(X[:500], Y[:500])) == {False}


@pytest.mark.parametrize("cv", [None, KFold(3)])
def test_a_thousand_rows_have_links_whatever_folds_they_have(cv):
    assert has_links(quick(cv=cv).fit(X[:1050], Y[:1050])) == {True}


def test_units_of_targets_do_not_matter(fitted):
    other = quick().fit(X, 1e6 * Y)
    np.testing.assert_allclose(other.predict(X), 1e6 * fitted.predict(X), rtol=1e-5)


def test_they_predict_amounts_better():
    X, y = rows(2000, power=1.5)
    others, seen = rows(1000, 1, power=1.5)
    models = [quick(sharp=Members(log_link=how, epochs=10)).fit(X, y) for how in (True, False)]
    logs, plain = (mean_poisson_deviance(seen, np.maximum(each.predict(others), 0.1)) for each in models)
    assert logs < 0.5 * plain


def test_predictions_are_the_same_in_all_forms(fitted, tmp_path):
    expected = fitted.predict(X)
    sknet.save(fitted, tmp_path / "model.sknet")
    frozen = fitted.freeze()
    frozen.to_python(tmp_path / "model.py")
    others = (
        pickle.loads(pickle.dumps(frozen)),
        sknet.load(tmp_path / "model.sknet"),
        fitted.slim(),
        module_of(tmp_path / "model.py"),
    )
    for other in others:
        np.testing.assert_array_equal(other.predict(X), expected)
    np.testing.assert_array_equal(frozen.predict(X[:1]), fitted.predict(X[:1]))


def test_held_out_rows_may_be_below_zero():
    model = quick(sharp=few(keep="best"))
    model.fit(X, Y, X_val=X[:50], y_val=Y[:50] - 30.0)
    assert has_links(model) == {True}
    assert np.isfinite(model.members_[0].history["validation_loss"]).all()


def test_predictions_rise_where_they_must():
    model = quick(monotonic_cst={"a": 1}).fit(X, Y)
    assert has_links(model) == {True}
    line = pd.concat([X[:1]] * 50, ignore_index=True).assign(a=np.linspace(-1, 1, 50))
    assert (np.diff(model.predict(line)) >= -1e-5).all()
