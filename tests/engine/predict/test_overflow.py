"""Predictions that overflow issue one warning."""

import warnings

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, Tensor, nn
from tests.estimators.data import TABLES, TASKS, estimator_for, quiet

HUGE = np.full((5, 12), 1.7e308)


def predictors(task, **params):
    """Fit a network whose first hidden unit sums a row, which overflows for HUGE numbers."""
    with quiet():
        estimator = estimator_for(task, activation="identity", **params).fit(*TABLES[task])
    weight = estimator.coefs_[0].copy()
    weight[:, 0] = 1.0
    estimator.coefs_[0] = weight
    return [estimator, estimator.freeze()]


def said(call):
    """Return the result of a call and its warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        return call(), [str(warning.message) for warning in found], [w.filename for w in found]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n_rows", [1, 5])
def test_one_warning_names_the_predictor(task, dtype, n_rows):
    for predictor in predictors(task, dtype=dtype):
        methods = ["predict"] if task in ("regression", "multioutput") else ["predict", "decision_function"]
        for method in methods:
            for X in (HUGE[:n_rows], scipy.sparse.csr_array(HUGE[:n_rows])):
                _, messages, files = said(lambda p=predictor, m=method, X=X: getattr(p, m)(X))
                assert messages == [
                    f"{n_rows} of {n_rows} predictions of {type(predictor).__name__} are NaN or infinite "
                    "although X is finite: numbers overflow inside the network. "
                    "Scale the inputs as for the fit."
                ]
                assert files == [__file__]


@pytest.mark.parametrize("task", TASKS)
def test_only_the_rows_that_overflow_are_counted(task):
    X = TABLES[task][0][:5].copy()
    X[1:3] = HUGE[1:3]
    for predictor in predictors(task, dtype="float64"):
        found, messages, _ = said(lambda p=predictor: p.predict(X))
        assert len(messages) == 1
        assert messages[0].startswith("2 of 5 predictions of ")
        if found.dtype.kind == "f":
            assert np.isfinite(np.delete(found, [1, 2], axis=0)).all()


@pytest.mark.parametrize("task", TASKS)
def test_finite_predictions_do_not_warn(task):
    X = TABLES[task][0]
    for predictor in predictors(task):
        for factor in (1.0, 1e30):
            _, messages, _ = said(lambda p=predictor, f=factor: p.predict(f * X))
            assert not messages


def test_a_model():
    model = Model(nn.Sequential(nn.Linear(12, 3), nn.Linear(3, 2)), dtype="float64", random_state=0)
    model.module[0].weight.data = np.ones((12, 3))
    for X in (HUGE, Tensor(HUGE), scipy.sparse.csr_array(HUGE)):
        _, messages, files = said(lambda X=X: model.predict(X))
        assert len(messages) == 1
        assert messages[0].startswith(
            "5 of 5 predictions of the model are NaN or infinite although X is finite"
        )
        assert files == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(model.predict(np.full((1, 12), np.nan))).all()  # as its inputs are
        assert np.isfinite(model.predict(np.ones((2, 12)))).all()
