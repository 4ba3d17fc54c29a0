import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from sknet import MLPClassifier, MLPRegressor, TabularClassifier
from sknet.losses import Quantile
from sknet.optim import Adam
from sknet.preprocessing import TableEncoder


def rows(n_rows=50):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)).astype("f4")
    return X, X[:, 0] + X[:, 1] * X[:, 2]


@pytest.fixture(scope="module")
def fitted():
    """Estimators that were fitted in this process; no test here has a cluster."""
    X, y = rows()
    params = {
        "random_state": 0,
        "optimizer": Adam(lr=0.01),
        "max_iter": 9,
        "tol": 10.0,
        "n_iter_no_change": 1,
    }
    labels = np.where(y > 0.5, "high", np.where(y > -0.5, "middle", "low"))
    return {
        "classifier": MLPClassifier((8,), **params).fit(X, labels),
        "regressor": MLPRegressor((8,), **params).fit(X, np.stack([y, -y], axis=1)),
        "gaussian": MLPRegressor((8,), loss="gaussian_nll", **params).fit(X, y),
        "quantiles": MLPRegressor((8,), loss=Quantile([0.1, 0.5, 0.9]), **params).fit(X, y),
    }


METHODS = [
    *[
        ("classifier", name)
        for name in ("predict", "predict_proba", "predict_log_proba", "decision_function")
    ],
    *[("regressor", "predict"), ("gaussian", "predict"), ("gaussian", "predict_std")],
    *[("quantiles", "predict_quantiles"), ("quantiles", "predict_interval")],
]
FORMS = {
    "rows divided": lambda X: da.from_array(X, chunks=(20, 4)),
    "columns divided": lambda X: da.from_array(X, chunks=(17, 2)),
    "unknown": lambda X: dd.from_pandas(pd.DataFrame(X), npartitions=3).to_dask_array(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_partitions_are_predicted_as_their_rows(fitted, kind, method, form):
    X, _ = rows()
    estimator = fitted[kind]
    found = getattr(estimator, method)(FORMS[form](X))
    expected = getattr(estimator, method)(X)
    assert isinstance(found, da.Array)
    assert found.dtype == expected.dtype
    assert found.shape[1:] == expected.shape[1:]
    computed = found.compute(scheduler="synchronous")
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(computed, expected)


def test_several_results_are_several_arrays(fitted):
    X, _ = rows()
    mean, std = fitted["gaussian"].predict(da.from_array(X, chunks=(20, 4)), return_std=True)
    for found, expected in zip((mean, std), fitted["gaussian"].predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found.compute(scheduler="threads"), expected, rtol=1e-5, atol=1e-6)


def test_nothing_is_computed_before_it_is_asked_for(fitted):
    def never(block):
        raise AssertionError("computed")

    X = da.map_blocks(never, chunks=((5, 5), (4,)), dtype="f4", meta=np.zeros((0, 4), "f4"))
    predicted = fitted["classifier"].predict_proba(X)
    assert predicted.shape == (10, 3)
    assert predicted.chunks == ((5, 5), (3,))


def test_predictions_are_those_of_the_estimator_as_it_was(fitted):
    X, y = rows()
    net = MLPRegressor((8,), random_state=0, max_iter=1)
    with pytest.warns(match="Maximum iterations"):
        net.fit(X, y)
    before, lazy = net.predict(X), net.predict(da.from_array(X, chunks=(25, 4)))
    net.partial_fit(X, y)
    np.testing.assert_allclose(lazy.compute(scheduler="synchronous"), before, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_frames_are_predicted_by_their_columns():
    X, y = rows()
    table = pd.DataFrame(X, columns=list("abcd"))
    net = MLPRegressor((8,), random_state=0, max_iter=2).fit(table, y)
    shuffled = dd.from_pandas(table, npartitions=4)
    found = net.predict(shuffled)
    assert np.isnan(found.shape[0])
    np.testing.assert_allclose(
        found.compute(scheduler="synchronous"), net.predict(table), rtol=1e-5, atol=1e-6
    )


def test_empty_partitions_have_no_predictions(fitted):
    X, _ = rows()
    whole = da.from_array(X, chunks=(10, 4))
    some = whole[whole[:, 0] > X[:10, 0].max()]  # none of the first partition
    expected = fitted["classifier"].predict(X[X[:, 0] > X[:10, 0].max()])
    np.testing.assert_array_equal(
        fitted["classifier"].predict(some).compute(scheduler="synchronous"), expected
    )


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_scores_of_collections(fitted, kind):
    X, y = rows()
    y = np.where(y > 0, "high", "low") if kind == "classifier" else np.stack([y, -y], axis=1)
    weight = np.linspace(1, 2, len(X))
    lazy = [da.from_array(array, chunks=(20, *array.shape[1:])) for array in (X, y, weight)]
    estimator = fitted[kind]
    assert estimator.score(*lazy) == pytest.approx(estimator.score(X, y, weight), rel=1e-6)


def test_an_estimator_must_be_fitted():
    with pytest.raises(NotFittedError):
        MLPClassifier().predict(da.zeros((4, 2)))


def test_a_fit_without_a_client_says_how_to_create_one():
    X, y = (da.from_array(array, chunks=25) for array in rows())
    with pytest.raises(
        ValueError, match=r"no client is set.*Client\(\).*fit\(X.compute\(\), y.compute\(\)\)"
    ):
        MLPRegressor().fit(X, y)


IN_MEMORY = {
    "frozen classifier": lambda X, y: MLPClassifier((4,), max_iter=1).fit(X, y > 0).freeze().predict,
    "frozen probabilities": lambda X, y: MLPClassifier((4,), max_iter=1).fit(X, y > 0).freeze().predict_proba,
    "frozen regressor": lambda X, y: MLPRegressor((4,), max_iter=1).fit(X, y).freeze().predict,
    "frozen encoder": lambda X, y: MLPRegressor((4,), max_iter=1, encoder="table").fit(X, y).freeze().predict,
    "encoder": lambda X, y: TableEncoder().fit(X, y).transform,
    "fit of an encoder": lambda X, y: TableEncoder().fit,
    "fit of an ensemble for tables": lambda X, y: lambda lazy: TabularClassifier().fit(lazy, y > 0),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("kind", ["array", "frame"])
@pytest.mark.parametrize("case", IN_MEMORY)
def test_what_reads_only_what_is_in_memory_does_not_compute(case, kind):
    X, y = rows()
    method = IN_MEMORY[case](X, y)
    table = pd.DataFrame(X, columns=list("abcd"))
    lazy = da.from_array(X, chunks=(25, 4)) if kind == "array" else dd.from_pandas(table, npartitions=2)
    with pytest.raises(TypeError, match=r"reads what is in memory, got a Dask \w+: pass X.compute\(\)"):
        method(lazy)


def test_ensembles_for_tables_predict_what_is_in_memory():
    X, y = rows()
    net = TabularClassifier(budget=0.01, random_state=0).fit(X, y > 0)
    for predictor in (net, net.freeze()):
        with pytest.raises(TypeError, match="reads what is in memory, got a Dask Array"):
            predictor.predict(da.from_array(X, chunks=(25, 4)))
