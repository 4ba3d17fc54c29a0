"""Budgets in seconds: which members are trained, by hand-worked examples; wide tables have few bins."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sknet import TabularClassifier, TabularRegressor
from sknet.losses import LogLoss
from sknet.tabular import Members, _base
from sknet.tabular._budget import Cost, is_affordable, planned
from sknet.tabular._members import Job, setting_of
from sknet.tabular._training import Rows, Training

SETTINGS = {
    kind: replace(setting_of(kind, "auto", "binary", (20_000, 5), per_fold), epochs=epochs)
    for kind, epochs, per_fold in (("smooth", 10, 2), ("sharp", 16, 1))
}
COSTS = {"smooth": Cost(1.0, 0.5), "sharp": Cost(2.0, 1.0)}
ROWS = (np.arange(9000), np.arange(9000, 9010))  # 36 batches of 256
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
    [
        *[(2_000, 20, 16), (10_000, 2000, 16), (2_000, 800, 8), (2_000, 3_200, 2), (2_000, 10_000, None)],
        *[(600, 20, 8), (100, 20, 4), (100, 40, 2), (100, 160, None)],
    ],
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


TOO_SHORT = r"a budget of 0.01 s is too short .* 1 member for 8 epochs of 4 updates, the least"


def test_a_small_budget_makes_thirty_updates_for_a_wide_table():
    X, y = wide(2000)
    reg = TabularRegressor(budget="0.01s", random_state=0)
    with pytest.warns(UserWarning, match=TOO_SHORT):
        reg.fit(X, y)
    assert [len(member.history["loss"]) for member in reg.members_] == [8]  # of 54 rows, 16 in a batch
    assert np.isfinite(reg.predict(X)).all()


@pytest.mark.parametrize(("n_rows", "epochs"), [(9, 30), (9000, 1)])
def test_one_member_has_thirty_updates_at_least(n_rows, epochs):
    jobs = [Job(job.kind, job.fold, (np.arange(n_rows), ROWS[1]), job.seeds) for job in JOBS]
    jobs, settings = planned(jobs, SETTINGS, COSTS, -5.0, 1)
    assert len(jobs) == 1
    assert settings["smooth"].epochs == epochs


def test_what_has_been_measured_counts_as_done():
    """A member of each kind is encoded, prepared and trained for 2 epochs: 3.5 + 7 seconds are gone."""
    costs = {"smooth": Cost(1.0, 0.5, 1.5, done=2), "sharp": Cost(2.0, 1.0, 3.0, done=2)}
    _, settings = planned(JOBS, SETTINGS, costs, 100.0, 1)
    fixed = FIXED + 4 * 2 * 1.5 + 4 * 3.0 - 3.5 - 7.0
    assert settings["sharp"].epochs == round(16 * (0.75 * 100 - fixed) / WORK)
    _, settings = planned(JOBS, SETTINGS, costs, -5.0, 1)
    assert settings["smooth"].epochs == 2  # not less than there are


@pytest.mark.parametrize(("left", "fits"), [(20.0, True), (8.0, False)])
def test_another_kind_is_measured_if_it_fits(left, fits):
    """A quarter of 10 epochs, less 2, of half a second; 1 + 3 seconds, and a quarter of 16 epochs."""
    costs = {"smooth": Cost(1.0, 0.5, 3.0, done=2)}
    sharp = next(job for job in JOBS if job.kind == "sharp")
    assert is_affordable(sharp, SETTINGS, costs, left) is fits


def test_first_epochs_are_trained_once(monkeypatch):
    made = []

    class Counted(Training):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(_base, "Training", Counted)
    clock = itertools.count()
    monkeypatch.setattr(_base, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    X, y = wide(5)
    few = Members(hidden_layer_sizes=[8], epochs=20, per_fold=1)
    reg = TabularRegressor(budget="300s", smooth=few, sharp=few, n_folds=2, random_state=0).fit(X, y)
    assert len(made) == len(reg.members_) == 4
    assert {(len(member.history["loss"]), member.kind) for member in reg.members_} == {
        (training.done, kind) for kind in ("smooth", "sharp") for training in made
    }


@pytest.mark.parametrize("kind", ["smooth", "sharp"])
@pytest.mark.parametrize("n_epochs", [6, 12])
def test_a_training_in_parts_follows_the_schedule_of_its_length(kind, n_epochs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 4)).astype(np.float32)
    rows = Rows(X, (X[:, :1] > 0).astype(np.float32), None)
    setting, expected = (
        setting_of(kind, Members(hidden_layer_sizes=[8], epochs=n), "binary", X.shape, "auto")
        for n in (6, n_epochs)
    )
    _, whole = Training(expected, rows, rows, LogLoss(), 1, 0).finish(n_epochs)
    training = Training(setting, rows, rows, LogLoss(), 1, 0)
    training.begin(1)
    training.begin(1)
    model, history = training.finish(n_epochs)
    assert len(history["loss"]) == training.done == n_epochs
    assert history["lr"][2:] == whole["lr"][2:]
    assert (history["lr"][:2] == whole["lr"][:2]) is (n_epochs == 6)
    assert model.predict(X[:1]).shape == (1, 1)
