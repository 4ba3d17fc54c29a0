"""Budgets in seconds: which members are trained, by hand-worked examples; wide tables have few bins."""

import numpy as np
import pytest

from sknet import TabularClassifier, TabularRegressor
from sknet.tabular._base import Job
from sknet.tabular._budget import Cost, planned
from sknet.tabular._members import setting_of

SETTINGS = {kind: setting_of(kind, "auto", "binary", (20_000, 5), "auto") for kind in ("smooth", "sharp")}
COSTS = {"smooth": Cost(1.0, 0.5), "sharp": Cost(2.0, 1.0)}
ROWS = (np.arange(9), np.arange(9, 10))
JOBS = [
    Job(kind, fold, ROWS, (0, 1, 2)[: 1 + SETTINGS[kind].per_fold]) for kind in SETTINGS for fold in range(4)
]
# 4 folds of 2 smooth members of 10 epochs, and 1 sharp one of 16.
FIXED, WORK = 4 * 1.0 + 4 * 2.0, 4 * 2 * 10 * 0.5 + 4 * 16 * 1.0


@pytest.mark.parametrize("seconds", [100.0, 200.0, 1e4])
def test_all_members_get_what_fits(seconds):
    jobs, settings = planned(JOBS, SETTINGS, COSTS, seconds, 1)
    budget = min((0.75 * seconds - FIXED) / WORK, 10.0)
    assert jobs == JOBS
    assert {kind: x.epochs for kind, x in settings.items()} == {
        "smooth": round(10 * budget), "sharp": round(16 * budget)
    }  # fmt: skip
    assert settings["smooth"].per_fold == 2


@pytest.mark.parametrize(
    ("seconds", "kinds", "n_folds"),
    [
        (43.0, ["smooth", "sharp"], 4),  # one member each: 12 + 0.25 * 84 are less than 0.75 * 44
        (30.0, ["smooth", "sharp"], 2),
        (14.0, ["smooth", "sharp"], 1),
        (9.0, ["smooth"], 1),
        (-5.0, ["smooth"], 1),
    ],
)
def test_fewer_members_rather_than_none_that_is_trained(seconds, kinds, n_folds):
    seconds += 1.0
    jobs, settings = planned(JOBS, SETTINGS, COSTS, seconds, 1)
    assert list(settings) == kinds
    assert {(job.kind, job.fold) for job in jobs} == {(kind, i) for kind in kinds for i in range(n_folds)}
    assert all(x.per_fold == 1 and x.epochs >= 1 for x in settings.values())
    taken = sum(COSTS[job.kind].encoding + COSTS[job.kind].epoch * settings[job.kind].epochs for job in jobs)
    assert taken <= max(seconds, COSTS["smooth"].encoding + COSTS["smooth"].epoch)


def test_kinds_that_were_not_measured_are_left_out():
    jobs, settings = planned(JOBS, SETTINGS, {"smooth": COSTS["smooth"]}, 1e3, 1)
    assert list(settings) == ["smooth"]
    assert {job.kind for job in jobs} == {"smooth"}


def test_threads_count():
    one, two = (planned(JOBS, SETTINGS, COSTS, 100.0, n)[1]["sharp"].epochs for n in (1, 2))
    assert two == round(16 * (0.75 * 200 - FIXED) / WORK) > one


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_bins"),
    [(100, 20, 16), (10_000, 2000, 16), (100, 40, 8), (100, 160, 2), (100, 500, None)],
)
def test_bins_follow_rows_and_columns(n_rows, n_columns, n_bins):
    setting = setting_of("sharp", "auto", "binary", (n_rows, n_columns), "auto")
    assert (setting.piecewise, setting.n_bins) == (("both", n_bins) if n_bins else (None, 2))


def wide(p, n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, p))
    return X, X[:, 0] + X[:, 1]


def test_wide_tables_have_an_input_for_each_column():
    X, y = wide(400)
    clf = TabularClassifier(budget=0.01, n_folds=1, random_state=0).fit(X, y > 0)
    assert {encoder.plan.width for encoder in clf.encoder_} == {400}


def test_a_small_budget_ends_for_a_wide_table():
    X, y = wide(2000)
    reg = TabularRegressor(budget="0.01s", random_state=0).fit(X, y)
    assert len(reg.members_) == 1
    assert np.isfinite(reg.predict(X)).all()
