"""Rows that are encoded when they are read, compared with arrays of encoded rows."""

import copy
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import sknet
from sknet.losses import LogLoss
from sknet.ops._codes import codes_of, decoded
from sknet.preprocessing import TableEncoder
from sknet.preprocessing._encoder import fit_encoder
from sknet.preprocessing._encodings import target_of
from sknet.tabular import Member, Members, TabularClassifier, TabularRegressor
from sknet.tabular import _training as rows_module
from sknet.tabular._members import setting_of
from sknet.tabular._training import MOST_BYTES, EncodedRows, Rows, Training, encoded_rows, reads_codes

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
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


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
