"""A grid search reaches into nested optimizers and schedules, also when it replaces them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

from sknet import MLPRegressor
from sknet.losses import AFT, Quantile
from sknet.optim import EMA, SGD, Adam, ClipNorm, Groups, Muon
from sknet.optim.schedules import Adaptive, Constant, Joined, Linear, Product, WarmUp

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.standard_normal(40)

# An optimizer, a grid over it, and the optimizer of each candidate made by hand.
CASES = [
    (
        SGD(lr=Joined([Constant(0.1), Linear(0.1, n_steps=5)], [3])),
        {"lr__0__lr": [0.01, 0.05], "lr__1__end_lr": [0.02], "lr__boundaries": [[2], [4]]},
        lambda p: SGD(lr=Joined([Constant(p["lr__0__lr"]), Linear(0.1, 0.02, 5)], p["lr__boundaries"])),
    ),
    (
        SGD(lr=Joined([Constant(0.1), 0.2], [3])),
        {"lr__schedules": [[Constant(0.3), Constant(0.4)]], "lr__1__lr": [0.01, 0.02]},
        lambda p: SGD(lr=Joined([Constant(0.3), Constant(p["lr__1__lr"])], [3])),
    ),
    (
        Adam(lr=Product([Constant(0.1), WarmUp(1.0, 3)])),
        {"lr__0": [Constant(0.2)], "lr__0__lr": [0.01, 0.03], "lr__1__n_steps": [2, 5]},
        lambda p: Adam(lr=Product([Constant(p["lr__0__lr"]), WarmUp(1.0, p["lr__1__n_steps"])])),
    ),
    (
        Groups({"*.bias": SGD(lr=0.1), "*": EMA(ClipNorm(Adam()))}),
        {"*.bias__lr": [0.01, 0.2], "*__optimizer__optimizer__lr": [0.02], "*__decay": [0.5, 0.9]},
        lambda p: Groups(
            {"*.bias": SGD(lr=p["*.bias__lr"]), "*": EMA(ClipNorm(Adam(lr=0.02)), p["*__decay"])}
        ),
    ),
    (
        Groups({"*": SGD(lr=0.1)}),
        {"groups": [{"*.bias": Adam(), "*": SGD()}], "*.bias__lr": [0.01], "*__momentum": [0.0, 0.5]},
        lambda p: Groups({"*.bias": Adam(lr=0.01), "*": SGD(momentum=p["*__momentum"])}),
    ),
    (
        Muon(rest=SGD(lr=Adaptive(0.1))),
        {"rest": [SGD(lr=Adaptive(0.3))], "rest__lr__factor": [2.0, 3.0], "lr": [0.01]},
        lambda p: Muon(lr=0.01, rest=SGD(lr=Adaptive(0.3, factor=p["rest__lr__factor"]))),
    ),
]


def regressor(optimizer):
    return MLPRegressor(
        (4,), optimizer=optimizer, max_iter=3, n_iter_no_change=9, random_state=0, dtype="float64"
    )


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("optimizer", "grid", "by_hand"), CASES, ids=lambda x: type(x).__name__)
def test_grid_search(optimizer, grid, by_hand):
    before = clone(optimizer)
    search = GridSearchCV(regressor(optimizer), {f"optimizer__{k}": v for k, v in grid.items()}, cv=2)
    search.fit(X, Y)
    assert optimizer == before  # a search changes copies
    candidates = [
        {k.removeprefix("optimizer__"): v for k, v in p.items()} for p in search.cv_results_["params"]
    ]
    assert len(candidates) == len(ParameterGrid(grid))
    expected = GridSearchCV(regressor(optimizer), {"optimizer": [by_hand(p) for p in candidates]}, cv=2).fit(
        X, Y
    )
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )
    assert search.best_estimator_.optimizer == expected.best_params_["optimizer"]


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("loss", "targets", "after"),
    [
        (Quantile([0.1, 0.5, 0.9]), Y, {"loss__quantile": 0.2}),
        (AFT("weibull"), np.column_stack([np.exp(Y), np.ones(40)]), {"loss__distribution": "log_normal"}),
    ],
    ids=["quantiles", "times"],
)
def test_parameters_of_a_loss_are_those_of_the_next_fit(loss, targets, after):
    fitted = MLPRegressor((3,), loss=loss, max_iter=2, random_state=0).fit(X, targets)
    expected = fitted.predict(X), fitted.predict_interval(X), fitted.score(X, targets)
    fitted.set_params(**after)
    found = fitted.predict(X), fitted.predict_interval(X), fitted.score(X, targets)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(fitted.fit(X, targets).predict(X), clone(fitted).fit(X, targets).predict(X))
