"""Fits over the full batch."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipys
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPRegressor, Model, nn
from sknet.exceptions import FitInterruptedWarning, NonFiniteError
from sknet.losses import SquaredError
from sknet.optim import LBFGS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X @ RNG.normal(size=(3, 2)) + 0.1 * RNG.normal(size=(40, 2)) + [1.0, 2.0]
W = RNG.uniform(0.1, 2, 40)


def linear(loss="squared_error", optimizer=None, dtype="float64", alpha=0.0):
    return Model(nn.Linear(3, 2), loss, optimizer or LBFGS(), dtype=dtype, alpha=alpha, random_state=0)


def run(model, weight=None, epochs=500, **more):
    """Return the number of iterations, and the loss after the last."""
    history = model.fit(X, Y, weight, epochs=epochs, **more)
    return history.n_epochs, history["loss"][-1]


@pytest.mark.parametrize("weight", [None, W], ids=["alike", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_finds_the_least_squares_solution(weight, dtype):
    told = {"alpha": 0.0, "tol": 1e-4 if dtype == "float32" else 1e-9, "max_iter": 500, "random_state": 0}
    plain = {"scale_inputs": False, "scale_target": False}
    model = MLPRegressor((), optimizer="lbfgs", dtype=dtype, **told, **plain).fit(X, Y, weight)
    root = np.ones((40, 1)) if weight is None else np.sqrt(weight)[:, None]
    solution, *_ = np.linalg.lstsq(root * np.column_stack([X, np.ones(40)]), root * Y, rcond=None)
    atol = 1e-3 if dtype == "float32" else 1e-5
    np.testing.assert_allclose(model.coefs_[0], solution[:3], atol=atol)
    np.testing.assert_allclose(model.intercepts_[0], solution[3], atol=atol)
    assert model.coefs_[0].dtype == dtype
    residual = 0.5 * (model.predict(X) - Y) ** 2
    assert model.loss_ == pytest.approx(np.average(residual.mean(axis=1), weights=weight), rel=1e-4)
    assert model.model_.progress.step == model.n_iter_ > 1


def test_the_penalty_is_part_of_the_objective():
    model = linear(alpha=10.0)
    _, loss = run(model)

    def objective(flat):
        weight, bias = flat[:6].reshape(3, 2), flat[6:]
        return 0.5 * ((X @ weight + bias - Y) ** 2).sum() / 40 + 0.5 * 10 / 40 * (weight**2).sum()

    found = scipys(objective, np.zeros(8), tol=1e-12).x
    np.testing.assert_allclose(model.parameters["weight"], found[:6].reshape(3, 2), atol=1e-5)
    assert loss == pytest.approx(
        0.25 * ((model.predict(X) - Y) ** 2).sum() / 40 + 5 / 40 * (model.parameters["weight"] ** 2).sum()
    )


@pytest.mark.parametrize(
    ("limit", "optimizer"), [(1, LBFGS()), (500, LBFGS(max_fun=2))], ids=["max_iter", "max_fun"]
)
def test_a_limit_is_warned_of(limit, optimizer):
    with pytest.warns(
        ConvergenceWarning, match=r"lbfgs failed to converge after \d iteration\(s\): .*Raise max_iter"
    ):
        run(linear(optimizer=optimizer), epochs=limit)


def test_verbose_prints_each_iteration(capsys):
    with pytest.warns(ConvergenceWarning):
        run(linear(), epochs=3, verbose=True)
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"Iteration {i}" for i in (1, 2, 3)
    ]


class CountedError(SquaredError):
    """Raises KeyboardInterrupt, or returns a wrong value, at its k-th call."""

    def __init__(self, after=6, what="interrupt"):
        self.after = after
        self.what = what
        self.calls = []

    def values(self, output, target):
        self.calls.append(1)
        if len(self.calls) == self.after and self.what == "interrupt":
            raise KeyboardInterrupt
        values = super().values(output, target)
        return values * (np.nan if self.what == "nan" else 1.0)


def test_an_interrupt_keeps_the_last_whole_iteration():
    model = linear(CountedError())
    with pytest.warns(
        FitInterruptedWarning, match=r"interrupted by user after \d whole iterations; what was learned"
    ):
        n_iter, loss = run(model)
    assert n_iter >= 1
    other = linear()
    with pytest.warns(ConvergenceWarning):
        _, expected = run(other, epochs=n_iter)
    np.testing.assert_array_equal(model.parameters["weight"], other.parameters["weight"])
    assert loss == expected


@pytest.mark.filterwarnings("error")
def test_an_objective_that_is_not_finite():
    with pytest.raises(NonFiniteError, match=r"L-BFGS ended after 0 iterations with an objective of nan"):
        run(linear(CountedError(what="nan")))
