"""Estimators through random sequences of what a user does with a fitted one.

A compiled estimator and a twin whose model takes eager steps are fitted in parts, changed, written
to, pickled and asked. After each of them batches, single rows, coefficients, pickles and copies
have to say the same; the twins agree to rounding, since a compiled fit may fuse.

    python -m tests.fuzz.estimators --cases 2000 --seed 0
"""

import copy
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.base import clone

from sknet import MLPClassifier, MLPRegressor, nn
from sknet.optim import EMA, SGD, Adam
from tests.fuzz.command import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4))
Y = np.sin(X @ RNG.normal(size=(4, 2)))
LABELS = np.arange(24) % 3
LONGEST = 8

Act = Callable[[Any], Any]


def fit_part(rng: Generator) -> Act:
    rows, times = rng.integers(0, 24, 12), int(rng.integers(1, 3))

    def act(estimator: Any) -> Any:
        for _ in range(times):
            estimator.partial_fit(X[rows], _targets(estimator)[rows], **_classes(estimator))
        return estimator

    return act


def warm_start(rng: Generator) -> Act:
    def act(estimator: Any) -> Any:
        estimator.set_params(warm_start=True, max_iter=2)
        return estimator.fit(X, _targets(estimator))

    return act


def fit_anew(rng: Generator) -> Act:
    def act(estimator: Any) -> Any:
        estimator.set_params(warm_start=False, max_iter=2)
        return estimator.fit(X, _targets(estimator))

    return act


def load_state_dict(rng: Generator) -> Act:
    seed = int(rng.integers(1 << 30))

    def act(estimator: Any) -> Any:
        draws, module = np.random.default_rng(seed), estimator.model_.module
        module.load_state_dict({name: draws.normal(size=a.shape) for name, a in module.state_dict().items()})
        return estimator

    return act


def write(rng: Generator) -> Act:
    value, index = float(rng.normal()), rng.random()

    def act(estimator: Any) -> Any:
        known = list(estimator.model_.module.parameters())
        parameter = known[int(index * len(known))]
        parameter.data = parameter.data * value
        return estimator

    return act


def freeze(rng: Generator) -> Act:
    mode = bool(rng.random() < 0.5)

    def act(estimator: Any) -> Any:
        estimator.model_.module[0].requires_grad_(mode)
        return estimator

    return act


def rate(rng: Generator) -> Act:
    lr = float(rng.uniform(0.001, 0.05))

    def act(estimator: Any) -> Any:
        optimizer = estimator.optimizer
        name = "optimizer__optimizer__lr" if isinstance(optimizer, EMA) else "optimizer__lr"
        return estimator.set_params(**{name: lr})

    return act


def pickled(rng: Generator) -> Act:
    return lambda estimator: pickle.loads(pickle.dumps(estimator))


def copied(rng: Generator) -> Act:
    return copy.deepcopy


def failing(rng: Generator) -> Act:
    def act(estimator: Any) -> Any:
        for wrong in (X[:, :2], X * np.nan):
            try:
                estimator.partial_fit(wrong, _targets(estimator), **_classes(estimator))
            except ValueError:
                continue
            raise AssertionError("a fit of wrong inputs passed")
        return estimator

    return act


ACTIONS = [
    *(fit_part, fit_part, fit_part, warm_start, fit_anew, load_state_dict, write, freeze, rate),
    *(pickled, copied, failing),
]


def _targets(estimator: Any) -> Any:
    return LABELS if isinstance(estimator, MLPClassifier) else Y


def _classes(estimator: Any) -> dict[str, Any]:
    return {"classes": [0, 1, 2]} if isinstance(estimator, MLPClassifier) else {}


def check(estimator: Any) -> None:
    """Assert that all ways to ask an estimator give the same answer."""
    together = estimator.predict(X[:5])
    decided = [_decided(estimator, X[i : i + 1]) for i in range(5)]
    close(np.concatenate(decided), _decided(estimator, X[:5]), "single rows")
    model = estimator.model_
    by_hand = np.asarray(X[:5], model.dtype)
    if not isinstance(estimator.optimizer, EMA):  # which predicts with averages
        module = model.module
        was = module._training
        found = module.eval()(by_hand).numpy()
        module.train(was)
        close(_decided(estimator, X[:5]), found[:, 0] if found.shape[1] == 1 else found, "module")
        for shown, layer in ((estimator.coefs_[0], module[0]), (estimator.coefs_[-1], module[-1])):
            np.testing.assert_array_equal(shown, layer.weight.numpy(), err_msg="coefs_")
    for other in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
        np.testing.assert_array_equal(other.predict(X[:5]), together, err_msg="copies")
    close(_frozen(estimator), together, "frozen")
    clone(estimator)


def _decided(estimator: Any, rows: Any) -> Any:
    found = estimator.decision_function(rows) if hasattr(estimator, "decision_function") else None
    return estimator.predict(rows) if found is None else found


def _frozen(estimator: Any) -> Any:
    return estimator.freeze().predict(X[:5])


def close(a: Any, b: Any, what: str) -> None:
    """Assert that two results are equal to rounding."""
    tolerance = 1e-3 if np.asarray(a).dtype == np.float32 else 1e-7
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def drawn(rng: Generator) -> Callable[[], Any]:
    """Draw an estimator."""
    kind = [MLPClassifier, MLPRegressor][int(rng.integers(2))]
    optimizer = [lambda: Adam(0.01), lambda: SGD(0.01, momentum=0.9), lambda: EMA(Adam(0.01), 0.9)]
    chosen = optimizer[int(rng.integers(3))]
    activation = ["relu", "tanh", nn.PReLU(), nn.Sequential(nn.Linear(6, 6), nn.Tanh())][int(rng.integers(4))]
    settings = {
        "alpha": float(rng.choice([0.0, 0.01])),
        "batch_size": int(rng.choice([5, 12])),
        "max_iter": 2,
        "random_state": int(rng.integers(100)),
    }
    return lambda: kind((6,), activation=copy.deepcopy(activation), optimizer=chosen(), **settings)


def mismatch(seed: int) -> str | None:
    """Run one case; return what went wrong, or None."""
    rng, done = np.random.default_rng([20260102, seed]), []
    made = drawn(rng)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            compiled, eager = (
                made().fit(X, LABELS if isinstance(made(), MLPClassifier) else Y) for _ in range(2)
            )
            eager.model_.compile = False
            for _ in range(int(rng.integers(2, LONGEST))):
                function = ACTIONS[int(rng.integers(len(ACTIONS)))]
                done.append(function.__name__)
                act = function(rng)
                compiled, eager = act(compiled), act(eager)
                eager.model_.compile = False
                for each in (compiled, eager):
                    check(each)
                close(_decided(compiled, X), _decided(eager, X), "twins")
    except Exception as error:
        said = f"case {seed}: {type(error).__name__}: {str(error)[:500]}"
        return "\n    ".join([said, repr(made()), " ".join(done)])
    return None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, cases=200))
