"""Slim ensembles for tables: the same predictions, hardly larger than their parameters."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import sknet
from sknet.tabular import Members, TabularClassifier, TabularRegressor

RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {"a": RNG.normal(size=300), "b": RNG.choice(["x", "y", "z"], 300), "c": RNG.normal(size=300)}
)
# As wide as for large tables, so that parameters outweigh all that is written besides.
WIDE = {"smooth": Members(hidden_layer_sizes=(128, 128)), "sharp": Members(hidden_layer_sizes=(256, 256))}
QUICK = {"n_folds": 2, "budget": 0.02, "random_state": 0, **WIDE}
CASES = {
    "classifier": (TabularClassifier(**QUICK), X["b"]),
    "regressor": (TabularRegressor(**QUICK), X["c"]),
    "several": (TabularRegressor(**QUICK), X[["a", "c"]].to_numpy()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_predictions_and_sizes(name, tmp_path):
    estimator, y = CASES[name]
    before = str(estimator.fit(X, y).summary())
    own = sum(array.nbytes for each in estimator.members_ for array in each.model.parameters.values())
    slim = estimator.slim()
    sknet.save(estimator, tmp_path / "it", include="predict")
    assert (tmp_path / "it").stat().st_size < 1.05 * own
    assert len(pickle.dumps(slim)) < len(pickle.dumps(estimator)) < 1.2 * own  # no state of an optimizer
    for other in (slim, pickle.loads(pickle.dumps(slim)), sknet.load(tmp_path / "it"), slim.slim()):
        np.testing.assert_array_equal(other.predict(X), estimator.predict(X))
        np.testing.assert_array_equal(other.freeze().predict(X), estimator.predict(X))
        assert other.oof_score_ == estimator.oof_score_
        assert len(other.oof_prediction_) == 0
        assert "parameters: " in str(other.summary())
        assert str(other.summary()).split("members:")[0] == before.split("members:")[0]
        other.fit(X, y)
        np.testing.assert_array_equal(other.predict(X), estimator.predict(X))
    assert str(estimator.summary()) == before  # it stays as it is
    assert len(estimator.oof_prediction_) == len(X)


def test_only_fitted_ones_are_slimmed():
    with pytest.raises(NotFittedError, match="This TabularClassifier instance is not fitted yet"):
        TabularClassifier().slim()
