"""When patience runs out: cases worked by hand."""

import math

import pytest

from sknet.callbacks._stopping import Plateau

CASES = [
    # patience, tol, higher, values, count after each
    (2, 0.1, False, [1.0, 0.8, 0.75, 0.74, 0.73], [0, 0, 1, 2, 3]),
    (2, 0.1, False, [1.0, 0.95, 0.91, 0.80], [0, 1, 2, 0]),  # best moves with every better value
    (1, 0.0, False, [1.0, 1.0, 1.0], [0, 0, 0]),  # equal is at most best - 0
    (1, 0.0, False, [1.0, 1.1, 1.0], [0, 1, 0]),
    (1, 0.5, False, [1.0, 0.5, 0.0], [0, 0, 0]),  # exactly tol is enough
    (2, 0.1, True, [0.5, 0.6, 0.65, 0.69, 0.7], [0, 0, 1, 2, 3]),
    (2, 0.1, True, [0.5, 0.4, 0.8], [0, 1, 0]),
    (math.inf, 1e9, False, [1.0, 0.5, 0.4, 0.3], [0, 1, 2, 3]),
    (1, 0.1, True, [-5.0, math.nan, -6.0], [0, 0, 1]),  # a NaN counts as an improvement
    (1, 0.1, False, [math.nan, 3.0, 4.0], [0, 0, 1]),
]


@pytest.mark.parametrize(("patience", "tol", "higher", "values", "counts"), CASES)
def test_worked_cases(patience, tol, higher, values, counts):
    plateau = Plateau(patience, tol, higher)
    for value, count in zip(values, counts, strict=True):
        exhausted = plateau.observe(value)
        assert plateau.count == count
        assert exhausted == (count > patience)
    finite = [value for value in values if not math.isnan(value)]
    assert plateau.best == (max(finite) if higher else min(finite))


def test_it_records_the_best():
    plateau = Plateau(3, 0.0, True)
    found = []
    for value in (0.5, 0.4, 0.5, 0.6, math.nan):
        plateau.observe(value)
        found.append(plateau.is_best)
    assert found == [True, False, False, True, False]


def test_a_restart_keeps_the_best():
    plateau = Plateau(0, 0.1, False)
    assert [plateau.observe(value) for value in (1.0, 1.0)] == [False, True]
    plateau.restart()
    assert (plateau.count, plateau.best) == (0, 1.0)
    assert plateau.observe(0.95)


@pytest.mark.parametrize("higher", [True, False])
def test_resuming_restores_the_state(higher):
    before, after = Plateau(1, 0.1, False), Plateau(5, 0.2, higher)
    for value in (1.0, 1.0):
        before.observe(value)
    after.load_state(before.state())
    assert (after.best, after.count) == ((-math.inf, 0) if higher else (1.0, 1))
    assert after.patience == 5
