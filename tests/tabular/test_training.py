"""What trains the members of a table: rows as they are read, folds, settings, networks, budgets, mixing."""

import copy
import itertools
import pickle
import tracemalloc
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, ShuffleSplit

import sknet
from sknet.core import Tensor, no_grad
from sknet.losses import LogLoss, SquaredError
from sknet.ops._codes import codes_of, decoded
from sknet.preprocessing import TableEncoder
from sknet.preprocessing._encoder import fit_encoder
from sknet.preprocessing._encodings import target_of
from sknet.tabular import Member, Members, TabularClassifier, TabularRegressor, _base, _budget, _training
from sknet.tabular import _training as rows_module
from sknet.tabular._budget import Cost, is_affordable, planned
from sknet.tabular._members import Job, folds_of, setting_of
from sknet.tabular._predicting import mixed
from sknet.tabular._training import (
    MOST_BYTES,
    EncodedRows,
    Rows,
    TabularNet,
    Training,
    encoded_rows,
    even_size,
    reads_codes,
)
from tests.devices.fake import FakeBackend

NATIVE = ["never", "always"]


def frame(n, seed=0):
    """Return a frame with every kind of column, and labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.integers(0, 60, n).astype(str),
            "c": rng.integers(0, 9, n),
            "d": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n) ** 3),
            "e": pd.Categorical(rng.choice(["x", "y", None], n)),
            "f": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**7, n), unit="s"),
            "g": rng.integers(0, 40, n) / 4.0,
            "h": 3.0,
        }
    )
    y = (X["a"] * (X["c"] - 4) + 4 * (X["g"] * 4 % 3 == 1) > 1).to_numpy().astype(int)
    return X, y


@pytest.fixture(scope="module")
def table():
    X, y = frame(2500)
    encoder = TableEncoder(sparse_output=False, random_state=0)
    expected = encoder.fit_transform(X, y)
    same, fitted = fit_encoder(
        encoder, encoder, encoder.fit(X, y)._schema, encoder.read(X), target_of(y, "auto"), _seeded()
    )
    assert {"b_target", "g_target"} <= set(encoder.get_feature_names_out())
    return same, encoder.read(X), fitted, expected, y


def _seeded():
    return np.random.RandomState(0)


CHOSEN = {
    "slice": slice(3, 900),
    "repeated": np.array([5, 5, 2, 2499]),
    "one": np.array([7]),
    "none": np.array([], int),
    "from the end": np.array([-1, -2500, 3]),
    "int32": np.array([8, 1], np.int32),
}


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_any_rows_are_those_of_the_array(table, chosen, native):
    encoder, read, fitted, expected, _ = table
    rows = EncodedRows(encoder, read, None, fitted)
    assert (rows.shape, rows.dtype, rows.ndim, len(rows), rows.nbytes) == (
        *(expected.shape, expected.dtype, 2, len(expected), expected.nbytes),
    )
    with sknet.config_context(native=native):
        np.testing.assert_array_equal(rows[chosen], expected[chosen])
        if isinstance(chosen, slice):
            return
        np.testing.assert_array_equal(rows.take(chosen, axis=0), expected[chosen])
        for order in "CF":
            out = np.empty((len(chosen), expected.shape[1]), "float32", order)
            assert rows.take(chosen, axis=0, out=out, mode="clip") is out
            np.testing.assert_array_equal(out, expected[chosen])


@pytest.mark.parametrize("native", NATIVE)
def test_rows_out_of_range_are_an_error(table, native):
    encoder, read, fitted, *_ = table
    with sknet.config_context(native=native), pytest.raises(IndexError, match="out of bounds"):
        EncodedRows(encoder, read, None, fitted)[[2500]]


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("seed", range(3))
def test_some_rows_of_a_table_are_those_of_a_table_of_them(seed, native):
    X, y = frame(600, seed)
    rows = np.random.default_rng(seed).permutation(600)[:400]
    part, target = X.iloc[rows], target_of(y, "auto")
    options = {"n_bins": 5 + seed, "max_levels": 10, "min_count": 3, "subsample": 300, "sparse_output": False}
    whole = TableEncoder(**options)
    whole.fit(X, y)
    read, schema = whole.read(X), whole._schema
    one, fitted = fit_encoder(whole, whole, schema, read, target, _seeded(), rows)
    other, alone = fit_encoder(whole, whole, schema, read.take(rows), target.take(rows), _seeded())
    found = EncodedRows(one, read, rows, fitted)
    with sknet.config_context(native=native):
        np.testing.assert_array_equal(found[:], other.encode(whole.read(part), alone))
        np.testing.assert_array_equal(EncodedRows(one, read)[:], other.transform(X))


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("kind", ["smooth", "sharp"])
def test_members_are_those_of_the_array(table, kind, native):
    encoder, read, fitted, expected, y = table
    setting = setting_of(kind, "auto", "binary", (len(y), 1), 1).times(0.2)
    weight = np.random.default_rng(0).random(len(y)).astype("float32")
    weight[::3] = 0.0
    members = []
    for X in (expected, EncodedRows(encoder, read, None, fitted)):
        training = Rows(X, y[:, np.newaxis].astype("float32"), weight)
        held_out = Rows(X[:50], training.y[:50], None)
        with sknet.config_context(native=native):
            member = Training(setting, training, held_out, LogLoss(), 1, seed=3)
            members.append(member.finish(setting.epochs)[0])
    for one, other in zip(*(model.module.parameters() for model in members), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("native", NATIVE)
def test_codes_stand_for_the_rows_of_the_array(table, native):
    encoder, read, fitted, expected, _ = table
    blocks = encoder.plan.blocks
    rows = EncodedRows(encoder, read, None, fitted, blocks)
    assert rows.shape == (len(expected), 2 * len(blocks))
    assert sum(count for count, _ in blocks) == expected.shape[1] > 2 * len(blocks)
    with sknet.config_context(native=native):
        np.testing.assert_allclose(decoded(rows[:], blocks), expected, 0, 1e-7)
        np.testing.assert_array_equal(rows[[7, 2, 7]], rows[:][[7, 2, 7]])


@pytest.mark.parametrize("kind", ["smooth", "sharp"])
def test_members_of_codes_are_those_of_the_array(table, kind):
    encoder, _, _, expected, y = table
    blocks = encoder.plan.blocks
    setting = setting_of(kind, "auto", "binary", (len(y), 1), 1).times(0.2)
    y, found = y[:, np.newaxis].astype("float32"), []
    spans = encoder.plan.one_hot
    for X, own in ((expected, ()), (codes_of(expected, blocks), blocks)):
        training, held_out = Rows(X[300:], y[300:], None, own), Rows(X[:300], y[:300], None, own)
        member = Training(setting, training, held_out, LogLoss(), 1, seed=3, one_hot=spans)
        model, history = member.finish(setting.epochs)
        assert not model.module.blocks
        outputs = Member(kind, 0, encoder, model, history).outputs
        found.append((outputs(held_out), outputs(expected[:300]), history["loss"]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, 2e-3, 2e-3)
    np.testing.assert_allclose(found[1][0], found[1][1], 1e-5, 1e-5)


def test_members_read_codes_where_native_code_multiplies_them(table):
    _, read, *_ = table
    with sknet.config_context(native="never"):
        assert not reads_codes(read)
    with sknet.config_context(native="always"):
        assert reads_codes(read)


@pytest.mark.slow
@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("kind", [TabularClassifier, TabularRegressor])
def test_ensembles_are_those_of_arrays(kind, native, monkeypatch):
    X, y = frame(300)
    unseen = X.assign(b="new", e=None, d=np.inf, a=-1e300)
    found = []
    for n_bytes in (2**40, 0):
        monkeypatch.setattr(rows_module, "KEPT_BYTES", n_bytes)
        monkeypatch.setattr(rows_module, "MOST_BYTES", n_bytes)
        with sknet.config_context(native=native):
            model = kind(budget=0.1, n_folds=2, random_state=0).fit(X, y, sample_weight=1.0 + y)
            predict = getattr(model, "predict_proba", model.predict)
            found.append((model.oof_prediction_, predict(X), predict(unseen), predict(X[:1])))
    *arrays, row = zip(*found, strict=True)
    for one, other in arrays:
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(*row, rtol=1e-6)  # which native code reads by codes where members do


def test_large_tables_are_encoded_when_they_are_read():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 40)), rng.integers(0, 2, 1000)
    encoder = TableEncoder(sparse_output=False).fit(X, y)
    few, many = encoder.read(X), encoder.read(np.tile(X, (60, 1)))
    assert isinstance(encoded_rows(encoder, few), np.ndarray)
    assert many.n_rows * encoder.n_features_out_ * 4 > MOST_BYTES
    assert isinstance(encoded_rows(encoder, many), EncodedRows)
    with sknet.config_context(native="always"):
        assert isinstance(encoded_rows(encoder, encoder.read(np.tile(X, (6, 1)))), EncodedRows)


def test_sparse_tables_are_encoded_at_once():
    from scipy import sparse

    X, y = sparse.random(400, 30, 0.1, format="csr", random_state=0), np.arange(400) % 2
    encoder = TableEncoder(random_state=0).fit(X, y)
    read, rows = encoder.read(X), np.array([5, 300, 2])
    np.testing.assert_array_equal(
        encoded_rows(encoder, read, rows).toarray(), encoder.transform(X[rows]).toarray()
    )


def test_a_fit_takes_little_more_memory_than_its_table():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60_000, 20)), rng.integers(0, 2, 60_000)
    few = Members(hidden_layer_sizes=(8,), epochs=1, piecewise="quantile", n_bins=24)
    model = TabularClassifier(smooth=None, sharp=few, n_folds=1, n_jobs=1, random_state=0)
    with sknet.config_context(native="always"):
        model.fit(X[:500], y[:500])  # what is loaded by a first fit
        tracemalloc.start()
        try:
            model.fit(X, y)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 6 * X.nbytes  # a matrix of all outputs alone takes 11 times as much


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "columns chosen": lambda X: np.hstack([X, X])[:, list(range(X.shape[1]))],
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda X: np.broadcast_to(X[:, :1], X.shape),
    "float32": lambda X: np.asfortranarray(X, np.float32),
    "int": lambda X: np.asfortranarray(10 * X, int),
}


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_an_array_does_not_matter(layout, native, monkeypatch):
    X = np.random.default_rng(0).normal(size=(120, 5)).round(2)
    y = X[:, 0] - X[:, 1] * X[:, 4]
    given = LAYOUTS[layout](X)
    quick = {"n_folds": 2, "budget": 0.2, "sharp": None, "smooth": Members(hidden_layer_sizes=[8])}
    monkeypatch.setattr(rows_module, "KEPT_BYTES", 0)
    with sknet.config_context(native=native):
        model = TabularRegressor(**quick, random_state=0).fit(given, y)
        other = TabularRegressor(**quick, random_state=0).fit(np.array(given, order="C"), y)
        expected = other.predict(np.array(given, order="C"))
        np.testing.assert_array_equal(model.predict(given), expected)
        np.testing.assert_allclose(other.predict(given[:7]), expected[:7], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("native", NATIVE)
def test_rows_that_are_not_in_the_table_are_refused(table, native):
    encoder, whole, _, expected, _ = table
    with sknet.config_context(native=native):
        for rows in ([0, -1], [2500], [-(10**9)]):
            with pytest.raises(IndexError, match="rows of a table of 2500 rows must be from 0 to 2499"):
                EncodedRows(encoder, whole, np.array(rows))
        rows = EncodedRows(encoder, whole, np.arange(100))
        with pytest.raises(ValueError, match="broadcast"):
            rows.write(np.arange(4), np.empty((2, expected.shape[1]), np.float32))
        with pytest.raises(IndexError):
            rows[np.array([100])]


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("way", [copy.deepcopy, lambda rows: pickle.loads(pickle.dumps(rows))])
def test_copies_of_rows_that_were_read_are_alike(table, way, native):
    encoder, read, fitted, expected, _ = table
    rows = EncodedRows(encoder, read, None, fitted)
    with sknet.config_context(native=native):
        rows[:10]
        np.testing.assert_array_equal(way(rows)[:], expected)


SETTINGS = {
    kind: replace(setting_of(kind, "auto", "binary", (20_000, 5), per_fold), epochs=epochs)
    for kind, epochs, per_fold in (("smooth", 10, 2), ("sharp", 16, 1))
}
COSTS = {"smooth": Cost(1.0, 0.5), "sharp": Cost(2.0, 1.0)}
ROWS = (np.arange(9000), np.arange(9000, 9010))  # 36 batches of 256
JOBS = [
    Job(kind, fold, ROWS, (0, 1, 2)[: 1 + SETTINGS[kind].per_fold]) for kind in SETTINGS for fold in range(4)
]
FIXED = 4 * 1.0 + 4 * 2.0  # seconds of encoding


def assert_fills(settings, seconds, fixed, of_smooth, of_sharp):
    """Check that epochs of two kinds, which take these seconds each, fit, and that no more of them would."""
    taken = fixed + of_smooth * settings["smooth"].epochs + of_sharp * settings["sharp"].epochs
    assert taken <= seconds < taken + min(of_smooth, of_sharp)


@pytest.mark.parametrize("seconds", [100.0, 200.0, 500.0])
def test_all_members_get_what_fits(seconds):
    jobs, settings = planned(JOBS, SETTINGS, COSTS, seconds, 1)
    assert jobs == JOBS
    assert settings["smooth"].per_fold == 2
    assert_fills(settings, 0.95 * seconds, FIXED, 4 * 2 * 0.5, 4 * 1.0)
    assert settings["smooth"].epochs / 10 == pytest.approx(settings["sharp"].epochs / 16, abs=0.15)


def test_no_member_has_more_than_ten_times_its_epochs():
    _, settings = planned(JOBS, SETTINGS, COSTS, 1e4, 1)
    assert {kind: x.epochs for kind, x in settings.items()} == {"smooth": 100, "sharp": 160}


@pytest.mark.parametrize("seconds", [60.0, 120.0, 300.0])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_long_epochs_fill_the_seconds(n_jobs, seconds):
    """Epochs of a million rows, one of each kind trained: 23 seconds are gone."""
    costs = {"smooth": Cost(0.4, 6.2, 0.1, 1), "sharp": Cost(0.4, 13.6, 0.3, 1)}
    settings = {
        "smooth": replace(SETTINGS["smooth"], epochs=4),
        "sharp": replace(SETTINGS["sharp"], epochs=5),
    }
    jobs, chosen = planned(JOBS, settings, costs, seconds - 23.0, n_jobs)
    left = [0.0] * n_jobs
    known = {kind: cost.encoding + cost.setup + cost.epoch for kind, cost in costs.items()}
    for job in jobs:
        cost, x = costs[job.kind], chosen[job.kind]
        work = cost.encoding + x.per_fold * (cost.setup + x.epochs * cost.epoch) - known.pop(job.kind, 0.0)
        left[left.index(min(left))] += work
    assert 0.75 * seconds <= 23.0 + max(left) <= seconds


@pytest.mark.parametrize(
    ("seconds", "kinds", "n_folds"),
    [
        (35.0, ["smooth", "sharp"], 4),  # one member each: 12 + 2 * 2 + 4 * 4 are less than 0.95 * 36
        (30.0, ["smooth", "sharp"], 2),
        (14.0, ["smooth", "sharp"], 1),
        (6.0, ["smooth"], 1),
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
    _, settings = planned(JOBS, SETTINGS, COSTS, 100.0, 2)
    assert_fills(settings, 0.85 * 100.0, FIXED / 2, 2 * 2 * 0.5, 2 * 1.0)


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
    assert_fills(settings, 0.95 * 100.0, fixed, 4 * 2 * 0.5, 4 * 1.0)
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
    epochs = [len(member.history["loss"]) for member in reg.members_]
    assert sorted(epochs) == sorted(training.done for training in made)


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


SMOOTH = Members(epochs=6, per_fold=1)
# Networks that are as good as untrained.
UNTRAINED = Members(epochs=1, lr=1e-9, dropout=0.0, hidden_layer_sizes=(8,))


def table_of_choice(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


@pytest.fixture
def is_large(monkeypatch):
    """Let tables be large that have some hundred rows."""
    monkeypatch.setattr(_budget, "MANY_ROWS", 400)
    monkeypatch.setattr(_budget, "LEAST_HELD_OUT", 40)


@pytest.fixture
def trained(monkeypatch):
    """The sizes of the first layers of all networks whose training has begun."""
    found, begin = [], _training.Training.__init__

    def counted(self, setting, *args, **kwargs):
        found.append(setting.hidden_layer_sizes[0])
        begin(self, setting, *args, **kwargs)

    monkeypatch.setattr(_training.Training, "__init__", counted)
    return found


def fitted(sharp, n_folds=3, n_jobs=1, smooth=SMOOTH):
    clf = TabularClassifier(n_folds=n_folds, smooth=smooth, sharp=sharp, n_jobs=n_jobs, random_state=0)
    return clf.fit(*table_of_choice())


def large(**params):
    return Members(**{**UNTRAINED.get_params(), "hidden_layer_sizes": (100, 100), **params})


@pytest.mark.usefixtures("is_large")
def test_a_kind_without_weight_is_not_trained_in_other_folds(trained):
    clf = fitted(large())
    assert trained.count(100) == 1
    assert clf.mix_ == {"smooth": 1.0}
    assert [(member.kind, member.fold) for member in clf.members_] == [("smooth", i) for i in range(3)]
    # What is left is what there would be without that kind.
    alone, X = fitted(None), table_of_choice()[0]
    np.testing.assert_array_equal(clf.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(clf.oof_prediction_, alone.oof_prediction_)
    assert clf.oof_score_ == alone.oof_score_


@pytest.mark.usefixtures("is_large")
@pytest.mark.parametrize("by_error", [False, True])
def test_rows_whose_weights_cancel_count_alike_in_the_choice(by_error):
    rows, y = np.arange(40), np.arange(400) % 3
    right = 3.0 * np.eye(3)[y[rows]]
    found = []
    for weight in (None, np.zeros(400), np.resize([1.0, -1.0], 400)):
        task = SimpleNamespace(
            table=SimpleNamespace(n_rows=400),
            weight=weight,
            settings={"smooth": None, "sharp": None},
            y=y,
            loss=LogLoss().for_task("multiclass"),
        )
        jobs = [
            Job(kind, fold, (rows, rows), (0,))
            for kind, fold in itertools.product(("sharp", "smooth"), (0, 1))
        ]
        choice = _budget.Choice(task, jobs, by_error)
        for job, outputs in [(jobs[0], np.roll(right, 1, axis=1)), (jobs[2], right)]:
            choice.see(job, [outputs])
        found.append(choice.is_needless)
    assert found == [True, True, True]


@pytest.mark.usefixtures("is_large")
def test_the_choice_does_not_depend_on_threads():
    X, (one, two) = table_of_choice()[0], (fitted(large(), n_jobs=n) for n in (1, 4))
    assert one.mix_ == two.mix_ == {"smooth": 1.0}
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.feature_importances_, two.feature_importances_)


def test_a_kind_with_a_weight_is_trained_as_in_small_tables(monkeypatch):
    kinds, X = (
        {"sharp": Members(epochs=6, hidden_layer_sizes=(16,)), "smooth": UNTRAINED},
        table_of_choice()[0],
    )
    small = fitted(**kinds)
    monkeypatch.setattr(_budget, "MANY_ROWS", 400)
    monkeypatch.setattr(_budget, "LEAST_HELD_OUT", 40)
    clf = fitted(**kinds)
    assert 0 < small.mix_["sharp"] == clf.mix_["sharp"]
    np.testing.assert_array_equal(clf.predict_proba(X), small.predict_proba(X))


@pytest.mark.parametrize(("most", "n_folds"), [(401, 3), (400, 1)])
def test_small_tables_and_a_single_fold_keep_all_kinds(most, n_folds, trained, monkeypatch):
    monkeypatch.setattr(_budget, "MANY_ROWS", most)
    monkeypatch.setattr(_budget, "LEAST_HELD_OUT", 40)
    clf = fitted(large(), n_folds)
    assert trained.count(100) == n_folds
    assert clf.mix_["sharp"] == 0.0


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "factor"),
    [(49_999, 256, 1.0), (50_000, 512, 2**0.5), (199_999, 512, 2**0.5), (200_000, 1024, 1.0)],
)
def test_members_of_large_tables(n_rows, batch_size, factor):
    found = setting_of("smooth", "auto", "binary", (n_rows, 5), "auto")
    assert (found.batch_size, found.lr) == (batch_size, pytest.approx(0.03 * factor))


def test_a_batch_size_that_is_given_leaves_the_rate():
    found = setting_of("smooth", Members(batch_size=300), "binary", (60_000, 5), "auto")
    assert (found.batch_size, found.lr) == (300, 0.03)


@pytest.mark.parametrize(
    ("task", "n_rows", "per_fold"),
    [("binary", 999, 1), ("multilabel", 999, 1), ("multiclass", 999, 2), ("multiclass", 1000, 1)],
)
def test_members_of_small_tables(task, n_rows, per_fold):
    assert setting_of("smooth", "auto", task, (n_rows, 5), "auto").per_fold == per_fold


@pytest.mark.parametrize(
    ("task", "n_rows", "units"),
    [
        *(
            ("binary", 999, 64),
            ("binary", 1000, 128),
            ("regression", 19_999, 128),
            ("regression", 20_000, 256),
        ),
        *(("multiclass", 999, 64), ("multiclass", 1000, 128), ("multiclass", 4_999, 128)),
        *(("multiclass", 5_000, 256), ("ordinal", 20_000, 256)),
    ],
)
def test_units_follow_the_rows(task, n_rows, units):
    assert setting_of("sharp", "auto", task, (n_rows, 5), "auto").hidden_layer_sizes == (units, units)
    assert (
        setting_of("smooth", "auto", task, (n_rows, 5), "auto").hidden_layer_sizes == (min(units, 128),) * 2
    )
    assert setting_of("smooth", "auto", task, (n_rows, 5), 3).per_fold == 3


def check(folds, n_rows, disjoint=True):
    for training, held_out in folds:
        assert not set(training) & set(held_out)
        assert len(training) + len(held_out) == n_rows
    held = np.concatenate([held_out for _, held_out in folds])
    assert not disjoint or len(set(held)) == len(held)


@pytest.mark.parametrize(("n_rows", "n_folds"), [(100, 4), (7, 4), (2, 4), (200, 12), (25, 10)])
def test_rows_are_held_out_once(n_rows, n_folds):
    folds = folds_of(None, n_folds, np.zeros(n_rows), None, None, RandomState(0))
    check(folds, n_rows)
    assert len(folds) == min(n_folds, n_rows)
    share = 1 / max(10, n_folds)
    assert all(abs(len(held_out) - share * n_rows) < 1 for _, held_out in folds)


@pytest.mark.parametrize(
    ("classes", "n_rows", "n_folds", "others"),
    [
        *((2, 999, 4, {}), (2, 1000, 3, {}), (3, 999, 4, {}), (3, 1000, 3, {}), (0, 1000, 3, {})),
        (3, 1000, 4, {"neighbors": None}),
    ],
)
def test_large_tables_have_fewer_folds_but_for_networks_of_several_classes(classes, n_rows, n_folds, others):
    kind, few = (TabularClassifier, TabularRegressor)[not classes], Members(hidden_layer_sizes=[2], epochs=1)
    X = np.arange(n_rows, dtype=float)[:, np.newaxis]
    y = np.arange(n_rows) % classes if classes else X[:, 0]
    for chosen, found in (("auto", n_folds), (2, 2)):
        model = kind(n_folds=chosen, smooth=few, sharp=None, n_jobs=1, random_state=0, **others).fit(X, y)
        assert len({member.fold for member in model.members_}) == found


@pytest.mark.parametrize(
    ("size", "n_rows", "found"), [(256, 9000, 250), (128, 9000, 125), (128, 997, 128), (100, 220, 100)]
)
def test_batches_are_alike_where_a_size_divides_the_rows(size, n_rows, found):
    assert even_size(size, n_rows) == found


def test_classes_have_their_share():
    y = np.repeat([0, 1, 2], [500, 90, 10])
    for _, held_out in folds_of(None, 4, y, y, None, RandomState(0)):
        assert np.bincount(y[held_out]).tolist() == [50, 9, 1]


def test_groups_stay_together():
    groups = np.random.default_rng(0).integers(0, 25, 300).astype(str)
    folds = folds_of(None, 4, np.zeros(300), None, groups, RandomState(0))
    check(folds, 300)
    for training, held_out in folds:
        assert not set(groups[training]) & set(groups[held_out])


@pytest.mark.parametrize(
    "cv", [KFold(3), ShuffleSplit(3, random_state=0), list(KFold(3).split(np.zeros((30, 1))))]
)
def test_custom_folds(cv):
    folds = folds_of(cv, 4, np.zeros(30), None, None, RandomState(0))
    assert len(folds) == 3
    check(folds, 30, disjoint=not isinstance(cv, ShuffleSplit))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cv": []}, "yields no folds"),
        ({"cv": np.array(1)}, r"cv must be a splitter or yield pairs .* got array\(1\)"),
        ({"cv": [([0, 1], [1, 2])]}, "same rows on both sides"),
        ({"cv": [([0, 1], [40])]}, "pairs of row indices, from 0 to 29"),
        ({"cv": [([0, 1], [-1])]}, "pairs of row indices, from 0 to 29"),
        ({"groups": ["a"] * 30}, "at least 2 groups, got 1"),
        ({"groups": ["a", "b"]}, "one entry per row, 30 in all, got 2"),
    ],
)
def test_invalid_folds(arguments, message):
    groups = arguments.pop("groups", None)
    with pytest.raises(ValueError, match=message):
        TabularRegressor(**arguments).fit(np.arange(30.0).reshape(-1, 1), np.arange(30.0), groups=groups)


rng = np.random.default_rng(0)


def best(badness):
    found = [badness(i / 10) for i in range(11)]
    return found.index(min(found)) / 10


def test_numbers_are_mixed_by_squared_error():
    y = rng.normal(size=(200, 1))
    outputs = {"smooth": y + rng.normal(size=y.shape), "sharp": y + 0.7 * rng.normal(size=y.shape)}
    mix = mixed(outputs, y, None, SquaredError().for_task("regression"), by_error=False)
    expected = best(lambda w: np.mean(((1 - w) * outputs["smooth"] + w * outputs["sharp"] - y) ** 2))
    assert mix.weights == pytest.approx({"smooth": 1 - expected, "sharp": expected})
    assert 0 < expected < 1
    assert mix.temperatures == {"smooth": 1.0, "sharp": 1.0}
    w = mix.weights["sharp"]
    np.testing.assert_allclose(mix.of(outputs), (1 - w) * outputs["smooth"] + w * outputs["sharp"])


def test_each_kind_has_its_temperature():
    p = rng.random(2000)
    y = (rng.random(2000) < p).astype(float).reshape(-1, 1)
    logits = np.log(p / (1 - p)).reshape(-1, 1)
    outputs = {"smooth": 0.5 * logits, "sharp": 3 * logits + 0.1 * rng.normal(size=logits.shape)}
    mix = mixed(outputs, y, None, LogLoss().for_task("binary"), by_error=False)
    for kind, output in outputs.items():
        found = minimize_scalar(
            lambda t, z=output: log_loss(y, expit(z / t)), bounds=(0.05, 20), method="bounded"
        )
        assert mix.temperatures[kind] == pytest.approx(found.x, rel=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_are_mixed_by_their_errors(weighted):
    y = rng.integers(0, 4, 400)
    weight = rng.random(400) if weighted else None
    right = np.eye(4)[y]
    outputs = {
        kind: 2 * right + scale * rng.normal(size=right.shape)
        for kind, scale in (("smooth", 2.0), ("sharp", 1.6))
    }
    mix = mixed(outputs, y, weight, LogLoss().for_task("multiclass"), by_error=True)

    def badness(w):
        z = (1 - w) * outputs["smooth"] / mix.temperatures["smooth"]
        z = z + w * outputs["sharp"] / mix.temperatures["sharp"]
        error = np.average(z.argmax(axis=1) != y, weights=weight)
        return error, log_loss(y, softmax(z, axis=1), sample_weight=weight)

    assert mix.weights["sharp"] == pytest.approx(best(badness))


def test_one_kind_alone_is_all():
    y = rng.normal(size=(20, 1))
    mix = mixed({"sharp": y}, y, None, SquaredError().for_task("regression"), by_error=False)
    assert mix.weights == {"sharp": 1.0}


@pytest.mark.parametrize("n_rows", [3, 4, 12])
def test_few_rows_leave_numbers_that_vanish_unmentioned(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows tell no temperature
        clf = TabularClassifier(budget=0.05, n_folds=2, random_state=0).fit(X, np.arange(n_rows) % 2)
        assert np.isfinite(clf.predict_proba(X)).all()


WIDTH = 12
SPANS = {
    "in front": ((0, 3),),
    "behind": ((8, 12),),
    "in the middle": ((4, 7),),
    "side by side": ((2, 5), (5, 9)),
    "all": ((0, 5), (5, 12)),
    "apart": ((0, 3), (4, 8), (9, 12)),
}


def rows_of(spans, n=40):
    """Return rows with at most one 1 among the columns of each category, as for levels that are unseen."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, WIDTH))
    for start, stop in spans:
        chosen = rng.integers(-1, stop - start, n)
        x[:, start:stop] = np.arange(stop - start) == chosen[:, np.newaxis]
    return x


def network_of(spans):
    """Return a network with parameters drawn at random, in float64."""
    network = TabularNet(WIDTH, 2, (7, 5), 0.0, spans=spans).initialize(0).to("float64")
    rng = np.random.default_rng(1)
    for parameter in network.parameters():
        parameter.data = rng.normal(size=parameter.shape)
    return network


@pytest.mark.parametrize("name", SPANS)
def test_vectors_in_front_are_factors_of_the_weights(name):
    x, network = Tensor(rows_of(SPANS[name])), network_of(SPANS[name])
    in_training, gradients = network.train()(x), {}
    (in_training**2).sum().backward()
    for path, parameter in network.named_parameters():
        gradients[path], parameter.grad = parameter.grad.numpy(), None
    in_front = network.eval()(x)
    np.testing.assert_allclose(in_training.numpy(), in_front.numpy(), rtol=1e-10)
    (in_front**2).sum().backward()
    for path, parameter in network.named_parameters():
        np.testing.assert_allclose(gradients[path], parameter.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", SPANS)
def test_without_vectors_predictions_are_the_same(name):
    x, network = Tensor(rows_of(SPANS[name])), network_of(SPANS[name]).eval()
    before = {path: parameter.numpy().copy() for path, parameter in network.named_parameters()}
    plain = network.without_vectors().eval()
    assert plain.vectors is None
    assert plain.body[0].in_features == WIDTH
    with no_grad():
        np.testing.assert_allclose(plain(x).numpy(), network(x).numpy(), rtol=1e-10)
    assert plain.without_vectors() is plain
    for path, parameter in network.named_parameters():  # which is unchanged
        np.testing.assert_array_equal(parameter.numpy(), before[path])


def test_categories_with_an_output_for_each_level():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "four": pd.Categorical(rng.choice(list("abcd"), 200)),
            "number": rng.normal(size=200),
            "two": pd.Categorical(rng.choice(list("xy"), 200)),
            "many": pd.Categorical(rng.integers(0, 60, 200)),
            "one": pd.Categorical(["same"] * 200),
            "three": pd.Categorical(rng.choice(["u", "v", None], 200)),
        }
    )
    plan = TableEncoder(random_state=0).fit(frame, frame["number"]).plan
    names = [plan.names[start:stop] for start, stop in plan.one_hot]
    assert names == [["four_a", "four_b", "four_c", "four_d"], ["three_u", "three_v", "three_missing"]]


@pytest.mark.slow
def test_on_a_device():
    """Vectors are folded on the host."""
    X = np.c_[np.arange(60.0) % 5, np.arange(60.0)]
    params = {"n_folds": 1, "budget": 0.1, "categorical_features": [0], "random_state": 0, "n_jobs": 1}
    on_host, on_device = (
        TabularRegressor(**params, device=device).fit(X, X[:, 0]) for device in ("cpu", FakeBackend.kind)
    )
    np.testing.assert_allclose(on_device.predict(X), on_host.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TabularClassifier, TabularRegressor])
def test_ensembles_with_embeddings(kind):
    """Other predictions than without, which survive pickling, and levels that the fit has not seen."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"level": pd.Categorical(rng.choice(list("abcde"), 300)), "x": rng.normal(size=300)})
    y = X["level"].cat.codes.to_numpy() % 2 + X["x"]
    y = y > 0.5 if kind is TabularClassifier else y
    found = {}
    for chosen in (False, True):
        model = kind(n_folds=2, budget=0.5, random_state=0, n_jobs=1)
        model.set_params(smooth__embeddings=chosen, sharp__embeddings=chosen).fit(X, y)
        found[chosen] = model.predict_proba(X) if kind is TabularClassifier else model.predict(X)
        assert model.score(X, y) > 0.9
    assert np.abs(found[True] - found[False]).max() > 1e-4
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.freeze().predict(X), model.predict(X))
    unseen = pd.DataFrame({"level": ["f", None, "a"], "x": [0.0, np.nan, 1.0]})
    assert np.isfinite(np.asarray(model.predict(unseen), float)).all()


RNG = np.random.default_rng(0)
FEW = {
    "binary": RNG.integers(0, 2, (300, 1)),
    "beside a constant": np.c_[RNG.integers(0, 2, 300), np.ones(300)],
    "three": RNG.integers(0, 3, (300, 1)),
}


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "squared_error", "log_loss"])
@pytest.mark.parametrize(
    ("columns", "exposed"),
    [("binary", False), ("binary", True), ("beside a constant", False), ("three", False)],
)
def test_columns_of_few_values_do_not_diverge(columns, exposed, loss):
    """Dropout made outputs of hundreds of first weights that were divided by tiny deviations."""
    X = FEW[columns].astype(float)
    rate, exposure = np.exp(0.2 + 0.6 * X[:, 0]), np.where(np.arange(300) % 2, 1.0, 2.0)
    rng, means = np.random.default_rng(1), rate * exposure if exposed else rate
    y = rng.gamma(5.0, means / 5.0) if loss == "gamma" else rng.poisson(means)
    y = y > 3 if loss == "log_loss" else y
    kind = TabularClassifier if loss == "log_loss" else TabularRegressor
    offset = {"offset": np.log(exposure)} if exposed else {}
    for seed in range(3):
        found = kind(loss=loss, n_folds=1, random_state=seed).fit(X, y, **offset)
        predicted = (found.predict_proba if loss == "log_loss" else found.predict)(X, **offset)
        assert np.isfinite(predicted).all()


def test_signs_become_weights():
    directions = np.array([0, 0, 0, 1, -1, 0])
    network = TabularNet(6, 2, (9, 6), 0.1, spans=((0, 3),), directions=directions).initialize(0)
    network.scale.weight.data = RNG.normal(size=network.scale.n_features).astype(np.float32)
    network.skip.weight.data = RNG.normal(size=network.skip.weight.shape).astype(np.float32)
    x = RNG.normal(size=(7, 6)).astype(np.float32)
    sknet.nn.init.from_data(network, x, random_state=0)
    expected = network.eval()(x).numpy()
    plain = network.without_signs()
    assert not plain.is_monotonic
    np.testing.assert_allclose(plain(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plain.without_vectors()(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    for column in (3, 4):
        rows = np.repeat(x[:1], 30, axis=0)
        rows[:, column] = np.linspace(-9, 9, 30)
        assert (directions[column] * np.diff(plain(rows).numpy(), axis=0) >= -1e-6).all()
