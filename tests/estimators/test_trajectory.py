"""In float64 and from one seed, fits follow scikit-learn's own, step by step."""

from itertools import product

import numpy as np
import pytest
import sklearn.neural_network

import sknet
from sknet import neural_network
from sknet.optim import SGD, Adam
from sknet.optim.schedules import Adaptive, InverseScaling
from tests.estimators.data import CLASSIFICATIONS, TABLES, WEIGHTS, N, quiet

RTOL = 1e-10  # 1e-6 is promised; what is measured is 1e-14, and a slip would cost more than four digits
BOTH = (True, False)

ACTIVATIONS = [
    (task, {"activation": activation, "solver": solver, "batch_size": size, "shuffle": shuffle})
    for activation, solver, size, shuffle in product(
        ("identity", "logistic", "tanh", "relu"), ("adam", "sgd"), ("auto", 64), BOTH
    )
    for task in ("binary", "multiclass", "multioutput")
]
SCHEDULES = [
    (task, {"solver": "sgd", "learning_rate": mode, "nesterovs_momentum": nesterov, "early_stopping": stop}
     | ({"learning_rate_init": 0.1, "alpha": 0.1, "tol": 1e-2, "n_iter_no_change": 2}
        if task in CLASSIFICATIONS else {"learning_rate_init": 0.01}))
    for mode, nesterov, stop in product(("constant", "invscaling", "adaptive"), BOTH, BOTH)
    for task in ("binary", "multiclass", "regression")
]  # fmt: skip
OTHERS = [
    (task, {"solver": solver, "early_stopping": stop, "learning_rate_init": 0.01} | more)
    for solver, stop in product(("adam", "sgd"), BOTH)
    for task, more in (
        ("multilabel", {"alpha": 1.0}),
        ("multioutput", {"momentum": 0.5}),
        ("regression", {"hidden_layer_sizes": (), "beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
        ("counts", {"loss": "poisson"}),
        ("many counts", {"loss": "poisson", "alpha": 1.0}),
        ("binary", {"batch_size": 1, "max_iter": 3}),
        ("multiclass", {"batch_size": 199, "power_t": 0.3, "learning_rate": "invscaling"}),
    )
]
PLAIN = [*ACTIVATIONS, *SCHEDULES, *OTHERS]
WEIGHTED = [*SCHEDULES[::4], *OTHERS]


def shown(case):
    return case if isinstance(case, str) else "-".join(map(str, case.values()))


def fitted(module, task, params, weight=None):
    X, y = TABLES[task]
    kind = module.MLPClassifier if task in CLASSIFICATIONS else module.MLPRegressor
    common = {"hidden_layer_sizes": (20, 10), "random_state": 3, "max_iter": 15}
    with quiet():
        return kind(**common | params).fit(X, y, weight)


def assert_follows(ours, theirs):
    for name in ("coefs_", "intercepts_"):
        for mine, other in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            np.testing.assert_allclose(mine, other, rtol=0, atol=RTOL * np.abs(other).max())
    np.testing.assert_allclose(ours.loss_curve_, theirs.loss_curve_, rtol=RTOL)
    np.testing.assert_allclose(ours.loss_, theirs.loss_, rtol=RTOL)
    for name in ("n_iter_", "t_", "n_layers_", "n_outputs_", "out_activation_"):
        assert getattr(ours, name) == getattr(theirs, name), name
    if theirs.validation_scores_ is None:
        assert ours.validation_scores_ is None
        assert ours.best_validation_score_ is None
        np.testing.assert_allclose(ours.best_loss_, theirs.best_loss_, rtol=RTOL)
    else:
        np.testing.assert_allclose(ours.validation_scores_, theirs.validation_scores_, rtol=RTOL, atol=RTOL)
        np.testing.assert_allclose(ours.best_validation_score_, theirs.best_validation_score_, rtol=RTOL)
        assert ours.best_loss_ is None
        assert theirs.best_loss_ is None


@pytest.mark.parametrize(("task", "params"), PLAIN, ids=shown)
def test_scikit_learns_signature(task, params):
    assert_follows(fitted(neural_network, task, params), fitted(sklearn.neural_network, task, params))


@pytest.mark.parametrize(("task", "params"), WEIGHTED, ids=shown)
def test_sample_weights(task, params):
    ours = fitted(neural_network, task, params, WEIGHTS)
    assert_follows(ours, fitted(sklearn.neural_network, task, params, WEIGHTS))


def translated(params):
    """Turn scikit-learn's parameters into those of sknet's own estimators."""
    rate = params.pop("learning_rate_init", 1e-3)
    mode, power = params.pop("learning_rate", "constant"), params.pop("power_t", 0.5)
    schedules = {"invscaling": InverseScaling(rate, power), "adaptive": Adaptive(rate), "constant": rate}
    momentum, nesterov = params.pop("momentum", 0.9), params.pop("nesterovs_momentum", True)
    betas = [
        params.pop(name, default) for name, default in (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-8))
    ]
    if params.pop("solver") == "adam":
        return params | {"optimizer": Adam(rate, *betas)}
    return params | {"optimizer": SGD(schedules[mode], momentum, nesterov)}


OWN = [*ACTIVATIONS[::3], *SCHEDULES[::2], *OTHERS]


@pytest.mark.parametrize(("task", "params"), OWN, ids=shown)
def test_sknets_signature(task, params):
    raw = {"scale_inputs": False} | ({} if task in CLASSIFICATIONS else {"scale_target": False})
    raw |= {"dtype": "float64", "monitor": "score", "early_stopping": False, "alpha": 1e-4}
    ours = fitted(sknet, task, raw | translated(dict(params)))
    assert_follows(ours, fitted(sklearn.neural_network, task, params))


@pytest.mark.parametrize("kind", ["MLPClassifier", "MLPRegressor"])
def test_integer_and_single_precision_inputs(kind):
    X, y = TABLES["binary" if kind == "MLPClassifier" else "regression"]
    for dtype, rtol in ((np.int64, RTOL), (np.float32, 1e-3)):
        data = (4 * X).astype(dtype)
        with quiet():
            pair = [
                getattr(module, kind)(hidden_layer_sizes=(10,), random_state=0, max_iter=10).fit(data, y)
                for module in (neural_network, sklearn.neural_network)
            ]
        assert pair[0].coefs_[0].dtype == pair[1].coefs_[0].dtype
        np.testing.assert_allclose(pair[0].loss_curve_, pair[1].loss_curve_, rtol=rtol)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression", "counts"])
def test_lbfgs(task):
    """Another summation order changes the line search, so end points are compared, not trajectories."""
    params = {
        "solver": "lbfgs",
        "hidden_layer_sizes": (5,),
        "activation": "tanh",
        "alpha": 5.0,
        "max_iter": 2000,
    }
    if task == "counts":
        params["loss"] = "poisson"
    ours, theirs = (fitted(module, task, params) for module in (neural_network, sklearn.neural_network))
    np.testing.assert_allclose(ours.loss_, theirs.loss_, rtol=1e-5)
    X, _ = TABLES[task]
    mine, other = (e.predict_proba(X) if task in CLASSIFICATIONS else e.predict(X) for e in (ours, theirs))
    np.testing.assert_allclose(mine, other, atol=2e-3 * np.abs(other).max())


def test_lbfgs_of_several_outputs_goes_further():
    """scikit-learn gives the line search the mean over outputs, but the gradient of their sum."""
    params = {"solver": "lbfgs", "activation": "tanh", "max_iter": 2000}
    ours = fitted(neural_network, "multioutput", params)
    theirs = fitted(sklearn.neural_network, "multioutput", params)
    assert ours.loss_ < theirs.loss_
    X, y = TABLES["multioutput"]
    penalty = 0.5 * ours.alpha / N * sum((c**2).sum() for c in ours.coefs_)
    np.testing.assert_allclose(ours.loss_, 0.5 * ((ours.predict(X) - y) ** 2).mean() + penalty)


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_lbfgs_follows_for_some_iterations(task):
    params = {"solver": "lbfgs", "activation": "tanh", "max_iter": 8}
    ours, theirs = (
        fitted(module, task, params, WEIGHTS) for module in (neural_network, sklearn.neural_network)
    )
    np.testing.assert_allclose(ours.loss_, theirs.loss_, rtol=1e-8)
    assert ours.n_iter_ == theirs.n_iter_
    for mine, other in zip(ours.coefs_, theirs.coefs_, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-6 * np.abs(other).max())


@pytest.mark.parametrize("task", ["binary", "multilabel", "multioutput", "counts"])
def test_partial_fit(task):
    """Not shuffled: scikit-learn draws the same order in every call, sknet continues the stream."""
    X, y = TABLES[task]
    pair = []
    for module in (neural_network, sklearn.neural_network):
        kind = module.MLPClassifier if task in CLASSIFICATIONS else module.MLPRegressor
        e = kind(hidden_layer_sizes=(10,), random_state=0, batch_size=50, shuffle=False)
        classes = {"binary": [0, 1], "multilabel": range(5)}.get(task)
        for part in (slice(0, 100), slice(100, 230), slice(0, 60)):
            with quiet():
                args = (X[part], y[part], WEIGHTS[part])
                e.partial_fit(*args) if classes is None else e.partial_fit(*args, classes=classes)
        pair.append(e)
    assert_follows(*pair)
