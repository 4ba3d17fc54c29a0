"""Displays of estimators that read tables speak of the columns of the table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sknet import MLPRegressor, TableEncoder, TabularRegressor
from sknet.display import AttributionDisplay, LossCurveDisplay

plt = pytest.importorskip("matplotlib.figure")
QUICK = {"max_iter": 20, "tol": 10.0, "n_iter_no_change": 15, "random_state": 0}


def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=100), "kind": rng.choice(list("xyz"), 100)})
    return X, X["size"] + (X["kind"] == "x")


def axes():
    return plt.Figure().subplots()


def labels(display):
    return sorted(label.get_text() for label in display.ax_.get_yticklabels())


@pytest.mark.parametrize(
    "estimator",
    [
        MLPRegressor((8,), encoder="table", **QUICK),
        make_pipeline(TableEncoder(sparse_output=False, random_state=0), MLPRegressor((8,), **QUICK)),
        TabularRegressor(budget=0.05, n_folds=2, random_state=0),
    ],
    ids=["encoder", "pipeline", "ensemble"],
)
def test_attributions_are_those_of_columns(estimator):
    X, y = table()
    display = AttributionDisplay.from_estimator(estimator.fit(X, y), X[:1], ax=axes())
    assert labels(display) == ["kind", "size"]
    assert display.attributions.shape == (1, 2)


def test_gradients_are_those_of_encoded_inputs():
    X, y = table()
    reg = MLPRegressor((8,), encoder="table", **QUICK).fit(X, y)
    display = AttributionDisplay.from_estimator(reg, X[:1], method="input_gradient", ax=axes())
    assert {"size", "kind_x"} <= set(map(str, display.feature_names))
    ensemble = TabularRegressor(budget=0.05, n_folds=1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="TabularRegressor has no input_gradient"):
        AttributionDisplay.from_estimator(ensemble, X[:1], method="input_gradient", ax=axes())
    other = AttributionDisplay.from_estimator(ensemble, X[:1], baseline=X[1:2], ax=axes())
    np.testing.assert_array_equal(other.attributions, ensemble.integrated_gradients(X[:1], X[1:2]))
    with pytest.raises(ValueError, match="input_gradient has no baseline"):
        AttributionDisplay.from_estimator(reg, X[:1], baseline=0.5, method="input_gradient", ax=axes())


def test_names_come_through_a_pipeline():
    X, y = table()
    X = X[["size"]].assign(other=1.0 + np.arange(100) % 7)
    pipeline = make_pipeline(StandardScaler(), MLPRegressor((8,), **QUICK)).fit(X, y)
    assert labels(AttributionDisplay.from_estimator(pipeline, X[:1], ax=axes())) == ["other", "size"]


def test_losses_of_an_ensemble():
    X, y = table()
    reg = TabularRegressor(budget=0.05, n_folds=2, random_state=0).fit(X, y)
    display = LossCurveDisplay.from_estimator(reg, ax=axes())
    told = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(told) == ["sharp", "smooth"]
    own = [member.history["loss"] for member in reg.members_ if member.kind == told[0]]
    np.testing.assert_allclose(display.line_.get_ydata()[: len(own[0])], np.mean(own, axis=0))
