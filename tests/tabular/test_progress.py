"""Lines and bars that show how far the members of an ensemble are."""

import re
import sys

import numpy as np
import pytest

from sknet.tabular import Members, TabularClassifier, TabularRegressor
from tests.callbacks.test_progress_bar import Bar

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
QUICK = {
    "n_folds": 2,
    "members": 2,
    "smooth": Members(hidden_layer_sizes=[4], epochs=2),
    "sharp": Members(hidden_layer_sizes=[8, 4], epochs=3),
    "random_state": 0,
}
LINE = re.compile(
    r"Member (\d+) of (\d+) \((smooth|sharp), fold (\d)\), loss = (\S+), time = \d+\.\d{3} s, left = (\d+) s"
)


@pytest.fixture
def bars(monkeypatch):
    auto = type(sys)("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    monkeypatch.setattr(Bar, "made", [])
    return Bar.made


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", [TabularClassifier, TabularRegressor])
def test_a_line_for_each_member(kind, n_jobs, capsys):
    silent = kind(**QUICK, n_jobs=n_jobs).fit(X, Y)
    assert not capsys.readouterr().out
    loud = kind(**QUICK, n_jobs=n_jobs, verbose=True).fit(X, Y)
    np.testing.assert_array_equal(loud.predict(X), silent.predict(X))
    found = [LINE.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    assert [(int(line[1]), int(line[2])) for line in found] == [(i, 8) for i in range(1, 9)]
    said = sorted((line[3], int(line[4]), line[5]) for line in found)
    losses = [(each.kind, each.fold, f"{each.history['loss'][-1]:.8f}") for each in loud.members_]
    assert said == sorted(losses)
    assert int(found[-1][6]) == 0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_bar_for_all_members(bars, n_jobs, capsys):
    silent = TabularClassifier(**QUICK, n_jobs=n_jobs).fit(X, Y)
    assert not bars
    loud = TabularClassifier(**QUICK, n_jobs=n_jobs, verbose="bar").fit(X, Y)
    np.testing.assert_array_equal(loud.predict_proba(X), silent.predict_proba(X))
    (bar,) = bars
    assert bar.said == [f"member {i}/8" for i in range(9)]
    assert bar.n == bar.total == 4 * 2 * 16 + 4 * 3 * (64 + 16)
    assert bar.closed
    assert not capsys.readouterr().out


def test_a_bar_is_closed_if_a_fit_fails(bars):
    estimator = TabularRegressor(**{**QUICK, "smooth": Members(lr=1e30)}, verbose="bar")
    with pytest.raises(Exception, match="training diverged"):
        estimator.fit(X, X[:, 0])
    assert bars[0].closed


@pytest.mark.filterwarnings("ignore:a budget of 0.1 s is too short")
def test_a_budget_in_seconds_is_measured_in_silence(bars):
    TabularClassifier(**QUICK, verbose="bar", budget="0.1s").fit(X, Y)
    (bar,) = bars
    assert bar.n == bar.total


def test_wrong_values_are_refused():
    with pytest.raises(ValueError, match="The 'verbose' parameter of TabularClassifier must be"):
        TabularClassifier(verbose="line").fit(X, Y)
