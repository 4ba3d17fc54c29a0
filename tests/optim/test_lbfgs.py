"""L-BFGS: SciPy's path on Rosenbrock's valley, its limits, and what it reports."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from sknet.exceptions import NonFiniteError, ShapeError
from sknet.optim import LBFGS

START = np.array([-1.2, 1.0, -0.5, 2.0])


def rosenbrock(x):
    return rosen(x), rosen_der(x)


def test_path_is_scipys():
    expected = minimize(rosen, START, jac=rosen_der, method="L-BFGS-B", options={"gtol": 1e-6})
    result = LBFGS().minimize(rosenbrock, START, gtol=1e-6)
    np.testing.assert_array_equal(result.x, expected.x)
    assert (result.value, result.n_iter, result.n_evaluations) == (expected.fun, expected.nit, expected.nfev)
    assert result.converged
    assert "CONVERGENCE" in result.message


def test_finds_the_minimum():
    result = LBFGS(gtol=1e-9, ftol=0.0).minimize(rosenbrock, START)
    np.testing.assert_allclose(result.x, 1.0, rtol=1e-8)
    assert result.x.dtype == np.float64


def test_start_is_not_changed():
    start = START.copy()
    LBFGS().minimize(rosenbrock, start)
    np.testing.assert_array_equal(start, START)


def test_limit_of_iterations():
    result = LBFGS().minimize(rosenbrock, START, max_iter=3)
    assert result.n_iter == 3
    assert not result.converged


def test_limit_of_evaluations():
    result = LBFGS(max_fun=4).minimize(rosenbrock, START)
    assert result.n_evaluations < 10
    assert not result.converged


def test_memory_changes_the_path():
    paths = [LBFGS(memory=memory).minimize(rosenbrock, START).n_evaluations for memory in (1, 10)]
    assert paths[0] != paths[1]


@pytest.mark.parametrize("memory", [15_000, 2**40])
def test_memory_follows_the_iterations(memory):
    found, expected = (
        LBFGS(memory=m, gtol=1e-9).minimize(rosenbrock, START, max_iter=30) for m in (memory, 30)
    )
    np.testing.assert_array_equal(found.x, expected.x)


def test_memory_that_does_not_exist():
    with pytest.raises(MemoryError, match=r"10000000 past steps of 4 parameters take 8.2e\+06 GiB"):
        LBFGS(memory=10**9).minimize(rosenbrock, START, max_iter=10**7)


def test_own_gtol_comes_first():
    loose = LBFGS(gtol=1e2).minimize(rosenbrock, START, gtol=1e-9)
    tight = LBFGS().minimize(rosenbrock, START, gtol=1e-9)
    assert loose.n_iter < tight.n_iter
    assert loose.converged


def test_callback_sees_every_iteration():
    seen = []
    result = LBFGS().minimize(rosenbrock, START, callback=lambda n, value, x: seen.append((n, value, x)))
    assert [n for n, _, _ in seen] == list(range(1, result.n_iter + 1))
    values = [value for _, value, _ in seen]
    assert values == sorted(values, reverse=True)
    assert values == [rosen(x) for _, _, x in seen]
    assert values[-1] == result.value


def test_callback_can_end_it():
    result = LBFGS().minimize(rosenbrock, START, callback=lambda n, value, x: n == 2)
    assert result.n_iter == 2
    assert not result.converged


def test_verbose_prints_every_iteration(capsys):
    result = LBFGS().minimize(rosenbrock, START, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == result.n_iter
    assert lines[-1] == f"Iteration {result.n_iter}, loss = {result.value:.8f}"
    LBFGS().minimize(rosenbrock, START)
    assert capsys.readouterr().out == ""


def test_start_must_be_a_vector():
    with pytest.raises(ShapeError, match=r"x0 must be a vector, but its shape is \(2, 2\)\. Ravel it first"):
        LBFGS().minimize(rosenbrock, np.ones((2, 2)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_objective_must_be_finite(bad):
    with pytest.raises(NonFiniteError, match=rf"an objective of {bad}: it must be finite\. Scale the data"):
        LBFGS().minimize(lambda x: (bad, np.ones_like(x)), START)


def test_errors_of_the_objective_come_through():
    def fails(x):
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        LBFGS().minimize(fails, START)
