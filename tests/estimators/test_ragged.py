"""Sequences of different lengths, given as they are: equal to padded ones with their lengths, to the bit."""

import pickle
from functools import cache

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from sknet import (
    MLPClassifier,
    MLPRegressor,
    NetClassifier,
    NetRegressor,
    NetTransformer,
    TabularClassifier,
    load,
    model_selection,
    nn,
    onnx,
    ops,
    save,
)
from sknet.exceptions import ShapeError
from sknet.losses import LogLoss
from sknet.nn import pad_sequences

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FEW = {"max_iter": 3, "batch_size": 8, "random_state": 0}
RNG = np.random.default_rng(0)
COUNTS = RNG.integers(1, 7, 30)
IDS = [RNG.integers(0, 9, n).tolist() for n in COUNTS]
SIGNALS = [RNG.normal(size=(n, 3)) for n in COUNTS]
LABELS = np.array([row[-1] > 4 for row in IDS])
NUMBERS = np.array([float(row[0]) for row in IDS])
AGES = RNG.normal(size=len(IDS))


class Words(nn.Module):
    """The last state of a recurrent layer over embedded ids."""

    def __init__(self, n_outputs):
        self.vectors, self.layer, self.head = nn.Embedding(9, 4), nn.GRU(4, 4), nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        return self.head(self.layer(self.vectors(x), lengths=lengths)[1][-1])


class Signals(nn.Module):
    """The last state of a recurrent layer over steps of three numbers."""

    def __init__(self, n_outputs):
        self.layer, self.head = nn.LSTM(3, 4), nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        return self.head(self.layer(x, lengths=lengths)[1][0][-1])


class WordsAndAge(Words):
    """The same, with a number beside the ids."""

    def forward(self, words, age, lengths=None):
        last = self.layer(self.vectors(words), lengths=lengths)[1][-1]
        return self.head(last * ops.reshape(age, (-1, 1)))


class WordsAndAges(Words):
    """The same, with two numbers that differ in what they do."""

    def forward(self, words, age, lengths=None):
        last = self.layer(self.vectors(words), lengths=lengths)[1][-1]
        return self.head(last * age[:, :1] + age[:, 1:])


class Flat(nn.Module):
    """A network that takes no lengths."""

    def __init__(self, n_outputs):
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, x):
        return self.head(x)


def objects(rows):
    found = np.empty(len(rows), object)
    found[:] = rows
    return found


COLUMNS = {
    "list": list,
    "tuple": tuple,
    "arrays": lambda rows: [np.asarray(row) for row in rows],
    "objects": objects,
    "series": pd.Series,
    "frame": lambda rows: pd.DataFrame({"words": rows}),
    "pandas of Arrow": lambda rows: pd.Series(pa.array(rows), dtype=pd.ArrowDtype(pa.array(rows).type)),
    "polars": pl.Series,
    "polars frame": lambda rows: pl.DataFrame({"words": rows}),
    "Arrow": pa.array,
    "Arrow chunks": lambda rows: pa.chunked_array([rows[:7], rows[7:]]),
    "Arrow table": lambda rows: pa.table({"words": rows}),
}


CASES = {
    "ids": (NetClassifier(Words, **FEW), IDS, LABELS),
    "numbers": (NetRegressor(Signals, **FEW), [row.tolist() for row in SIGNALS], NUMBERS),
}


@cache
def of_padded(case):
    """Return what a fit on padded sequences predicts."""
    estimator, rows, y = CASES[case]
    padded, lengths = pad_sequences(rows)
    return clone(estimator).fit(padded, y, lengths=lengths).predict(padded, lengths=lengths)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("case", CASES)
def test_a_fit_equals_that_of_padded_sequences_with_lengths(case, kind):
    estimator, rows, y = CASES[case]
    X = COLUMNS[kind](rows)
    assert np.array_equal(clone(estimator).fit(X, y).predict(X), of_padded(case))


@pytest.mark.parametrize("kind", ["list", "arrays", "objects", "series", "polars", "Arrow"])
def test_predictions_are_those_of_each_sequence_alone(kind):
    net = NetClassifier(Words, **FEW).fit(IDS, LABELS)
    whole = net.predict_proba(COLUMNS[kind](IDS))
    for predictor in (net, net.freeze()):
        alone = [predictor.predict_proba(COLUMNS[kind]([row]))[0] for row in IDS]
        np.testing.assert_allclose(alone, whole, rtol=1e-5)
    order = RNG.permutation(len(IDS))
    assert np.allclose(net.predict_proba([IDS[i] for i in order]), whole[order], rtol=1e-5)


def test_files_and_frozen_copies_predict_the_same(tmp_path):
    net = NetClassifier(Words, **FEW).fit(IDS, LABELS)
    expected = net.predict_proba(IDS)
    save(net, tmp_path / "net")
    read = load(tmp_path / "net", trusted=[Words]), pickle.loads(pickle.dumps(net))
    for other in (net.freeze(), net.slim(), *read):
        assert np.array_equal(other.predict_proba(IDS), expected)
    assert net.score(IDS, LABELS) == np.mean(net.predict(IDS) == LABELS)
    padded, lengths = pad_sequences(IDS)
    assert np.array_equal(net.transform(IDS), net.transform(padded, lengths=lengths))


EMPTY = {"ids": [], "flat": [], "numbers": np.zeros((0, 3))}


@pytest.mark.parametrize("name", ["lstm", "gru", "transformer", "tcn"])
@pytest.mark.parametrize("kind", EMPTY)
def test_empty_sequences_alone_are_predicted_as_beside_others(name, kind, tmp_path):
    flat = [row[:, 0] for row in SIGNALS]
    nothing, rows = EMPTY[kind], {"ids": IDS, "flat": flat, "numbers": SIGNALS}[kind]
    net = NetClassifier(name, max_iter=1, random_state=0).fit([*rows, nothing], [*LABELS, True])
    expected = net.predict_proba([nothing, rows[0]])[:1]
    assert np.isfinite(expected).all()
    frozen = net.freeze()
    frozen.to_python(tmp_path / "net.py")
    names = {}
    exec((tmp_path / "net.py").read_text(), names)
    for predict in (net.predict_proba, frozen.predict_proba, names["predict_proba"]):
        for X in ([nothing], [nothing] * 3, [np.zeros(0)], [[]]):
            np.testing.assert_allclose(predict(X), np.repeat(expected, len(X), 0), rtol=1e-6)
    np.testing.assert_allclose(names["predict_proba"](rows), net.predict_proba(rows), rtol=1e-5)
    onnx.export(net, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    padded, lengths = pad_sequences([nothing, nothing])
    padded = padded.astype(np.int64 if kind == "ids" else np.float32)
    found = session.run(["probabilities"], {"x": padded, "lengths": lengths})[0]
    np.testing.assert_allclose(found, np.repeat(expected, 2, 0), rtol=1e-4)
    assert np.isfinite(net.partial_fit([nothing] * 2, [False, True]).predict_proba(rows)).all()


@pytest.mark.parametrize(("rows", "message"), [([[], []], "0 feature"), ([np.zeros((0, 3))] * 2, "is empty")])
def test_fits_of_empty_sequences_alone_have_nothing_to_learn(rows, message):
    with pytest.raises(ValueError, match=message):
        NetClassifier("lstm").fit(rows, [0, 1])


def pair(net, *fits):
    """Return a network fitted on sequences, one fitted on padded ones, and both forms."""
    padded, lengths = pad_sequences(IDS)
    first, second = NetClassifier(net, **FEW), NetClassifier(net, **FEW)
    for options in fits:
        first.set_params(**options).fit(IDS, LABELS)
        second.set_params(**options).fit(padded, LABELS, lengths=lengths)
    return first, second, padded, lengths


@pytest.mark.parametrize(
    "fits",
    [
        ({"early_stopping": True, "validation_fraction": 0.3},),
        ({"n_members": 3, "bootstrap": True},),
        ({"warm_start": True}, {"max_iter": 2}),
        ({"early_stopping": True, "calibrate": "temperature", "refit_on_all": True},),
        ({"scoring": "roc_auc"},),
    ],
    ids=["stopping", "members", "warm start", "calibrated", "scored"],
)
def test_fits_with_options(fits):
    first, second, padded, lengths = pair(Words, *fits)
    assert np.array_equal(first.predict_proba(IDS), second.predict_proba(padded, lengths=lengths))
    assert first.loss_curve_ == second.loss_curve_


def test_weights_and_rows_to_validate_on():
    padded, lengths = pad_sequences(IDS)
    weight = RNG.random(len(IDS))
    first = NetClassifier(Words, **FEW).fit(IDS, LABELS, weight, X_val=IDS[:9], y_val=LABELS[:9])
    second = NetClassifier(Words, **FEW).fit(
        padded, LABELS, weight, lengths=lengths, X_val=padded[:9], y_val=LABELS[:9], lengths_val=lengths[:9]
    )
    assert np.array_equal(first.predict_proba(IDS), second.predict_proba(IDS))


def test_parts_of_different_lengths():
    first, second = NetRegressor(Words, **FEW), NetRegressor(Words, **FEW)
    for part in (slice(0, 10), slice(10, 20), slice(20, 30)):
        padded, lengths = pad_sequences(IDS[part])
        first.partial_fit(IDS[part], NUMBERS[part])
        second.partial_fit(padded, NUMBERS[part], lengths=lengths)
    assert np.array_equal(first.predict(IDS), second.predict(IDS))


SHORT = [row[:1] * 3 for row in IDS]  # three steps each


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_that_have_one_length_by_chance(kind):
    in_parts = NetClassifier(Words, **FEW)
    for rows in (SHORT, IDS):
        in_parts.partial_fit(COLUMNS[kind](rows), LABELS, classes=[False, True])
    X = COLUMNS[kind](SHORT)
    ours = clone(in_parts).fit(X, LABELS, X_val=IDS[:5], y_val=LABELS[:5])
    theirs = clone(in_parts).fit(np.array(SHORT), LABELS, lengths=np.full(30, 3))
    padded, lengths = pad_sequences(IDS)
    assert np.array_equal(ours.predict_proba(IDS), theirs.predict_proba(padded, lengths=lengths))
    assert ours.predict_proba(X[:2]).shape == (2, 2)


def test_an_array_fits_no_lengths():
    fitted = NetClassifier(Words, **FEW).fit(np.array(SHORT), LABELS)
    with pytest.raises(ValueError, match=r"the fit had rows of one length.*or with a list of sequences as X"):
        fitted.predict(IDS)


def test_lengths_of_rows_that_have_some():
    _, lengths = pad_sequences(IDS)
    net, shorter = NetClassifier(Words, **FEW), np.minimum(lengths, 2)
    assert np.array_equal(net.fit(IDS, LABELS, lengths=lengths).predict(IDS), of_padded("ids"))
    assert np.array_equal(net.predict(IDS, lengths=shorter), net.predict([row[:2] for row in IDS]))
    for wrong in (lengths + 1, lengths[1:], 3):
        with pytest.raises(ValueError, match="lengths= differs from these: leave it out"):
            net.predict(IDS, lengths=wrong)


@pytest.mark.parametrize("change", [lambda n: n + 5, lambda n: -n])
def test_lengths_by_name_are_within_the_steps(change, tmp_path):
    padded, lengths = pad_sequences(IDS)
    wrong = {"x": padded, "lengths": change(lengths)}
    net = NetClassifier(Words, **FEW)
    fitted = clone(net).fit(IDS, LABELS)
    calls = [lambda: net.fit(wrong, LABELS), lambda: fitted.partial_fit(wrong, LABELS)]
    calls += [lambda each=each: each.predict(wrong) for each in (fitted, fitted.freeze())]
    for call in calls:
        with pytest.raises(
            ValueError, match="lengths must be at most 6, as X has so many steps, and not negative"
        ):
            call()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frozen_networks_find_columns_of_several_inputs_by_name(kind):
    frame = kind({"age__a": AGES, "words": IDS, "age__b": AGES**2})
    net = NetClassifier(WordsAndAges, **FEW).fit(frame, LABELS)
    turned = frame[["age__b", "age__a", "words"]]
    assert np.array_equal(net.freeze().predict_proba(turned), net.predict_proba(frame))
    with pytest.raises(ValueError, match="X has no column 'age__b'"):
        net.freeze().predict(frame[["words", "age__a"]])


def test_searches():
    net = NetClassifier(Words, **FEW)
    assert cross_val_score(net, IDS, LABELS, cv=3).shape == (3,)
    assert cross_val_predict(net, pd.Series(IDS), LABELS, cv=3).shape == LABELS.shape
    for search in (GridSearchCV, model_selection.GridSearchCV):
        found = search(net, {"alpha": [0.0, 1e-2]}, cv=2).fit(IDS, LABELS)
        assert np.array_equal(found.predict(IDS), found.best_estimator_.predict(IDS))
    found = model_selection.cross_validate(net, IDS, LABELS, cv=2)
    assert np.array_equal(found["test_score"], cross_val_score(net, IDS, LABELS, cv=2))


def test_a_reconstruction_ignores_padding():
    class Coder(nn.Module):
        def __init__(self):
            self.encoder, self.decoder = nn.LSTM(3, 4, returns="sequence"), nn.Linear(4, 3)

        def forward(self, x, lengths=None):
            return self.decoder(self.encoder(x, lengths=lengths))

    padded, lengths = pad_sequences(SIGNALS)
    first = NetTransformer(Coder(), **FEW).fit(SIGNALS)
    second = NetTransformer(Coder(), **FEW).fit(padded, lengths=lengths)
    assert np.array_equal(first.transform(SIGNALS), second.transform(padded, lengths=lengths))
    assert first.score(SIGNALS) == second.score(padded, lengths=lengths)


def test_a_sequence_beside_other_inputs():
    padded, lengths = pad_sequences(IDS)
    net = NetClassifier(WordsAndAge, **FEW)
    expected = net.fit({"words": padded, "age": AGES}, LABELS, lengths=lengths).predict_proba(
        {"words": padded, "age": AGES, "lengths": lengths}
    )
    for X in (
        {"words": IDS, "age": AGES},
        pd.DataFrame({"words": IDS, "age": AGES}),
        pl.DataFrame({"words": IDS, "age": AGES}),
    ):
        assert np.array_equal(net.fit(X, LABELS).predict_proba(X), expected)


class Two(Words):
    """Two sequences."""

    def forward(self, x, z, lengths=None):
        return super().forward(x, lengths) + super().forward(z, lengths)


def test_sequences_in_one_row_have_one_length():
    net = NetClassifier(Two, **FEW)
    net.fit({"x": IDS, "z": IDS[::1]}, LABELS)
    with pytest.raises(ValueError, match=r"the inputs \['x', 'z'\] have different lengths in the same rows"):
        net.fit({"x": IDS, "z": IDS[::-1]}, LABELS)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([[1, 2], ["a"]], ValueError, r"sequences\[1\] must be numbers"),
        ([[1.0, np.inf], [1.0]], ValueError, "input 'x' contains NaN or infinity"),
        (
            pd.Series([[1, 2], None, [1]]),
            ShapeError,
            r"sequences\[1\] must be numbers .* got None: .* is \[\]",
        ),
        ([[[1, 2], [3]], [[1]]], ShapeError, r"sequences\[0\] has steps of different lengths"),
    ],
)
def test_rows_that_are_no_sequences(rows, error, message):
    with pytest.raises(error, match=message):
        NetRegressor(Words, **FEW).fit(rows, np.arange(float(len(rows))))


def test_a_network_without_lengths():
    with pytest.raises(TypeError, match="without them a network would learn from padding"):
        NetRegressor(Flat, **FEW).fit(IDS, NUMBERS)


class Steps(nn.Module):
    """A label for each step."""

    def __init__(self, n_outputs):
        self.outputs = nn.LazyLinear(n_outputs)

    def forward(self, x, lengths):
        return self.outputs(x)


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(
    "estimator", [MLPClassifier(), MLPRegressor(), TabularClassifier(), NetClassifier(Steps)], ids=repr
)
def test_targets_of_different_lengths_lead_to_padding(estimator, as_array):
    y = [[0, 1, 0], [0, 1, 1, 1, 0], [1, 1]] * 5
    y = np.array(y, object) if as_array else y
    X = [np.ones((len(row), 2)) for row in y] if isinstance(estimator, NetClassifier) else np.ones((15, 2))
    with pytest.raises(ValueError, match=r"y has rows of 2 and of 5 values.*pad_sequences\(y, value=-1\)"):
        estimator.fit(X, y)


def test_padded_targets_of_steps_are_left_out():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in rng.integers(2, 6, 40)]
    y, _ = pad_sequences([(x[:, 0] > 0).astype(int) for x in X], value=-1)
    clf = NetClassifier(Steps, loss=LogLoss(ignore_index=-1), max_iter=300, lr=0.1, random_state=0)
    assert (clf.fit(X, y).predict(X) == y)[y >= 0].mean() > 0.95
    assert clf.classes_.tolist() == [0, 1]
