"""Inputs of any rank, several inputs, and lengths: against simpler networks that compute the same."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from sknet import NetClassifier, NetRegressor, nn, ops
from sknet.nn.init import GlorotUniform
from sknet.optim import SGD
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
N = 60
IMAGES = RNG.normal(size=(N, 2, 6, 6)).astype("float32")
SEQUENCES = RNG.normal(size=(N, 5, 3)).astype("float32")
TOKENS = RNG.integers(0, 9, (N, 5))
NUMBERS = RNG.normal(size=(N, 3)).astype("float32")
LENGTHS = RNG.integers(1, 6, N)
LABELS = RNG.integers(0, 3, N)
Y = RNG.normal(size=N)
GLOROT = GlorotUniform(6.0)


def estimator(module, **params):
    return NetClassifier(module, **{"max_iter": 3, "batch_size": 16, "random_state": 0} | params)


def fitted(module, X, y=LABELS, **params):
    with quiet():
        return estimator(module, **params).fit(X, y)


def probabilities(net, X):
    return net.predict_proba(X)


# -- any rank --------------------------------------------------------------------------------------


class Flat(nn.Module):
    """The same as a linear layer over the flattened rows."""

    def __init__(self, n_outputs, input_shape):
        self.head = nn.Linear(int(np.prod(input_shape)), n_outputs, init=GLOROT)

    def forward(self, x):
        return self.head(ops.reshape(x, (x.shape[0], -1)))


class Conv(nn.Module):
    def __init__(self, n_outputs, channels=3):
        self.body = nn.Sequential(nn.LazyConv2d(channels, 3), nn.BatchNorm(channels), nn.ReLU(), nn.Flatten())
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, x):
        return self.head(self.body(x))


class Recurrent(nn.Module):
    def __init__(self, n_outputs, hidden=4):
        self.lstm = nn.LSTM(3, hidden)
        self.head = nn.Linear(hidden, n_outputs)

    def forward(self, x, lengths=None):
        _, (last, _) = self.lstm(x, lengths=lengths)
        return self.head(last[-1])


class Words(nn.Module):
    def __init__(self, n_outputs):
        self.words = nn.Embedding(9, 4)
        self.head = nn.Linear(4, n_outputs)

    def forward(self, x):
        return self.head(self.words(x).mean(axis=1))


WAYS = {"native": {}, "in the order of the data": {"shuffle": False}, "in one batch": {"batch_size": 60}}
KINDS = {
    "images": (Conv, IMAGES),
    "sequences": (Recurrent, SEQUENCES),
    "tokens": (Words, TOKENS),
    "small integers": (Words, TOKENS.astype("uint8")),
    "pictures of bytes": (Conv, (IMAGES * 20 + 100).astype("uint8")),
    "flags": (Flat, IMAGES > 0),
}


@pytest.mark.parametrize("shape", [(N, 72), (N, 8, 9), (N, 2, 6, 6), (N, 2, 3, 2, 6)])
@pytest.mark.parametrize("params", [{}, {"early_stopping": True}, {"optimizer": "lbfgs"}], ids=str)
def test_rows_of_any_rank_are_those_of_the_flat_table(shape, params):
    X = IMAGES.reshape(shape)
    params = params | {"scale_inputs": False}  # features of images are channels, those of tables columns
    net, flat = fitted(Flat, X, **params), fitted(Flat, IMAGES.reshape(N, 72), **params)
    assert np.array_equal(probabilities(net, X), probabilities(flat, IMAGES.reshape(N, 72)))
    assert np.array_equal(net.model_.module.head.weight.numpy(), flat.model_.module.head.weight.numpy())


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_compiled_fits_are_those_of_one_operation_after_the_other(name, way):
    module, X = KINDS[name]
    found = []
    for compiled in ("auto", False):
        net = estimator(module, dtype="float64", max_iter=1, **WAYS[way])
        with quiet():
            net.fit(X, LABELS)
            net.model_.compile = compiled
            net.set_params(warm_start=True, max_iter=2).fit(X, LABELS)
        found.append(probabilities(net, X))
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)
    assert hasattr(net, "n_features_in_") == (X.ndim == 2)


@pytest.mark.parametrize("name", KINDS)
def test_one_row_many_rows_copies_and_frozen_agree(name):
    module, X = KINDS[name]
    net = fitted(module, X)
    together = probabilities(net, X)
    singles = np.concatenate([probabilities(net, X[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(singles, together[:5], rtol=1e-5, atol=1e-7)
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert np.array_equal(probabilities(other, X), together)
    for frozen in (net.freeze(), pickle.loads(pickle.dumps(net.freeze()))):
        np.testing.assert_allclose(probabilities(frozen, X), together, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(probabilities(frozen, X[:1]), together[:1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", KINDS)
def test_parts_and_warm_starts(name):
    module, X = KINDS[name]
    net = estimator(module).partial_fit(X[:30], LABELS[:30], classes=[0, 1, 2]).partial_fit(X, LABELS)
    before = net.model_.progress.step
    with quiet():
        net.set_params(warm_start=True).fit(X, LABELS)
    assert net.model_.progress.step == before + 3 * 4


def test_bytes_are_pictures_where_the_network_computes_with_them():
    bytes_ = (IMAGES * 20 + 100).astype("uint8")
    net, real = fitted(Conv, bytes_), fitted(Conv, bytes_.astype("float32"))
    assert np.array_equal(probabilities(net, bytes_), probabilities(real, bytes_.astype("float32")))
    assert net.model_.dtype == np.float32


def test_integers_of_a_table_are_real_numbers_where_the_network_computes_with_them():
    net, real = fitted(nn.ModuleFactory(Flat), TOKENS), fitted(Flat, TOKENS.astype("float32"))
    assert np.array_equal(probabilities(net, TOKENS), probabilities(real, TOKENS.astype("float32")))
    assert net.n_features_in_ == 5


def test_sequences_of_other_lengths_are_predicted():
    for module, X in ((Recurrent, SEQUENCES), (Words, TOKENS)):
        net = fitted(module, X, scale_inputs=False)
        for count in (1, 4):
            shorter = probabilities(net, X[:count, :3])
            by_hand = net.model_.predict(X[:count, :3])
            np.testing.assert_allclose(shorter, by_hand, rtol=1e-5)


# -- several inputs ----------------------------------------------------------------------------------


class Both(nn.Module):
    """A bag of words and a table, concatenated."""

    def __init__(self, n_outputs, hidden=4):
        self.words = nn.Embedding(9, hidden)
        self.table = nn.LazyLinear(hidden)
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, words, numbers):
        parts = [self.words(words).mean(axis=1), nn.ReLU()(self.table(numbers))]
        return self.head(ops.concat(parts, axis=1))


class Split(nn.Module):
    """The same layers as `Flat`, of inputs that are parts of a table."""

    def __init__(self, n_outputs):
        self.head = nn.LazyLinear(n_outputs, init=GLOROT)

    def forward(self, left, right):
        return self.head(ops.concat([left, right], axis=1))


X_BOTH = {"words": TOKENS, "numbers": NUMBERS}
TABLE = RNG.normal(size=(N, 6))
HALVES = {"left": TABLE[:, :2], "right": TABLE[:, 2:]}


@pytest.mark.parametrize(
    "params", [{}, {"shuffle": False}, {"early_stopping": True}, {"optimizer": "lbfgs"}], ids=str
)
def test_parts_of_a_table_by_name_are_the_table(params):
    net, whole = fitted(Split, HALVES, **params), fitted(Flat, TABLE, **params)
    np.testing.assert_allclose(probabilities(net, HALVES), probabilities(whole, TABLE), rtol=1e-9)
    reordered = dict(reversed(HALVES.items()))
    np.testing.assert_allclose(probabilities(net, reordered), probabilities(whole, TABLE), rtol=1e-9)


def test_several_inputs_are_compiled_predicted_copied_and_frozen():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Stochastic Optimizer")
        net = estimator(Both).fit(X_BOTH, LABELS)
    assert "X['words']: int64[16,5]" in repr(net.compiled_step_)
    together = probabilities(net, X_BOTH)
    one = {name: x[:1] for name, x in X_BOTH.items()}
    for other in (
        net,
        pickle.loads(pickle.dumps(net)),
        net.freeze(),
        pickle.loads(pickle.dumps(net.freeze())),
    ):
        np.testing.assert_allclose(probabilities(other, X_BOTH), together, rtol=1e-5)
        np.testing.assert_allclose(probabilities(other, one), together[:1], rtol=1e-5)
    net.partial_fit(X_BOTH, LABELS)


def test_columns_of_a_frame_are_inputs_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {f"words__{i}": TOKENS[:, i] for i in range(5)} | {f"numbers__{i}": NUMBERS[:, i] for i in range(3)}
    )
    net, by_dict = fitted(Both, frame), fitted(Both, X_BOTH)
    assert np.array_equal(probabilities(net, frame), probabilities(by_dict, X_BOTH))
    assert list(net.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        net.predict(frame.rename(columns={"words__0": "words__9"}))


def test_a_column_transformer_names_the_inputs_in_a_search():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"color": np.array(["red", "green", "blue"])[LABELS], "size": NUMBERS[:, 0], "weight": NUMBERS[:, 1]}
    )
    columns = ColumnTransformer(
        [
            ("words", OrdinalEncoder(dtype=np.int64), ["color"]),
            ("numbers", StandardScaler(), ["size", "weight"]),
        ]
    ).set_output(transform="pandas")
    grid = {"netclassifier__module__hidden": [2, 4], "netclassifier__optimizer__lr": [1e-9, 0.1]}
    with quiet():
        pipeline = make_pipeline(columns, estimator(nn.ModuleFactory(Both), max_iter=50))
        search = GridSearchCV(pipeline, grid, cv=2).fit(table, LABELS)
    assert search.best_score_ > 0.95
    assert search.best_params_["netclassifier__optimizer__lr"] == 0.1


# -- lengths -------------------------------------------------------------------------------------------


def test_lengths_leave_out_the_padding():
    padded = SEQUENCES.copy()
    for row, length in zip(padded, LENGTHS, strict=True):
        row[length:] = 1e3
    net = fitted_with_lengths(SEQUENCES)
    other = fitted_with_lengths(padded)
    assert np.array_equal(
        net.predict_proba(SEQUENCES, lengths=LENGTHS), other.predict_proba(padded, lengths=LENGTHS)
    )
    alone = net.predict_proba(SEQUENCES[:1, : LENGTHS[0]], lengths=LENGTHS[:1])
    np.testing.assert_allclose(net.predict_proba(SEQUENCES, lengths=LENGTHS)[:1], alone, rtol=1e-5)
    assert net.score(padded, LABELS, lengths=LENGTHS) == net.score(SEQUENCES, LABELS, lengths=LENGTHS)


def fitted_with_lengths(X, **params):
    with quiet():
        return estimator(Recurrent, **params).fit(X, LABELS, lengths=LENGTHS)


def test_lengths_are_an_input_like_others():
    net = fitted_with_lengths(SEQUENCES)
    both = {"x": SEQUENCES, "lengths": LENGTHS}
    by_name = fitted(Recurrent, both)
    assert np.array_equal(net.predict_proba(SEQUENCES, lengths=LENGTHS), by_name.predict_proba(both))
    assert np.array_equal(net.predict_log_proba(both), by_name.predict_log_proba(SEQUENCES, lengths=LENGTHS))
    assert np.array_equal(net.predict(both), net.predict(SEQUENCES, lengths=LENGTHS))
    assert np.array_equal(net.decision_function(both), net.decision_function(SEQUENCES, lengths=LENGTHS))
    net.partial_fit(SEQUENCES, LABELS, lengths=LENGTHS)
    assert not np.array_equal(net.predict_proba(both), by_name.predict_proba(both))


def test_lengths_of_a_regressor():
    with quiet():
        net = NetRegressor(Recurrent, max_iter=2, random_state=0).fit(SEQUENCES, Y, lengths=LENGTHS)
        net.partial_fit(SEQUENCES, Y, lengths=LENGTHS)
    alone = net.predict(SEQUENCES[:1, : LENGTHS[0]], lengths=LENGTHS[:1])
    np.testing.assert_allclose(net.predict(SEQUENCES, lengths=LENGTHS)[:1], alone, rtol=1e-5)
    assert net.score(SEQUENCES, Y, lengths=LENGTHS) < 1


def test_a_search_splits_lengths_with_the_rows():
    grid = {"module__hidden": [2, 3]}
    with quiet():
        search = GridSearchCV(
            estimator(nn.ModuleFactory(Recurrent)), grid, cv=2, scoring=lambda net, X, y: 0.0
        ).fit(SEQUENCES, LABELS, lengths=LENGTHS)
    assert search.best_estimator_.predict(SEQUENCES, lengths=LENGTHS).shape == (N,)


# -- bad inputs --------------------------------------------------------------------------------------


def function(n_outputs):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(n_outputs))


@pytest.mark.parametrize(
    ("module", "X", "more", "error", "message"),
    [
        (Both, {"words": TOKENS}, {}, ValueError, "no input 'numbers', which the network needs: got"),
        (Both, X_BOTH | {"number": NUMBERS}, {}, ValueError, "no input 'number'. Did you mean 'numbers'"),
        (Both, X_BOTH | {"numbers": NUMBERS[:9]}, {}, ValueError, "inconsistent numbers of samples"),
        (Both, X_BOTH | {"numbers": NUMBERS * np.nan}, {}, ValueError, "input 'numbers' contains NaN"),
        (
            Both,
            X_BOTH | {"numbers": NUMBERS.astype(str)},
            {},
            ValueError,
            "input 'numbers' must be an ar",
        ),
        (Both, X_BOTH | {"words": NUMBERS}, {}, TypeError, "expected integers, got float32: use .astype"),
        (
            Both,
            TABLE,
            {},
            ValueError,
            r"needs the inputs \['words', 'numbers'\], and X is one array",
        ),
        (Both, {}, {}, ValueError, "X has no inputs"),
        (Words, TOKENS.astype(float), {}, TypeError, "expected integers, got float64"),
        (Conv, IMAGES * np.inf, {}, ValueError, "input 'X' contains NaN or infinity"),
        (Conv, IMAGES[:0], {}, ValueError, "must have at least one row"),
        (Conv, IMAGES[:9], {}, ValueError, "inconsistent numbers of samples"),
        (
            Words,
            TOKENS,
            {"lengths": LENGTHS},
            TypeError,
            r"`lengths`; the arguments are \['x'\]",
        ),
        (function, SEQUENCES, {"lengths": LENGTHS}, TypeError, "give its class, or all inputs by name"),
        (Recurrent, SEQUENCES, {"lengths": LENGTHS + 5}, ValueError, "lengths must be at most 5"),
        (Recurrent, SEQUENCES, {"lengths": -LENGTHS}, ValueError, "an integer for each row, none negative"),
        (Recurrent, SEQUENCES, {"lengths": LENGTHS[:4]}, ValueError, "inconsistent numbers of samples"),
        (Recurrent, SEQUENCES, {"lengths": LENGTHS * 1.0}, ValueError, "must be an integer for each row"),
    ],
)
def test_bad_inputs_are_explained(module, X, more, error, message):
    net = estimator(module)
    with pytest.raises(error, match=message):
        net.fit(X, LABELS, **more)
    assert not hasattr(net, "model_")


@pytest.mark.parametrize(
    ("module", "X", "wrong", "message"),
    [
        (
            Both,
            X_BOTH,
            TABLE,
            r"like those of the fit, \['words', 'numbers'\], got one array",
        ),
        (Both, X_BOTH, X_BOTH | {"numbers": NUMBERS[:, None]}, "'numbers' must have 2 axes, as in the fit"),
        (Both, X_BOTH, X_BOTH | {"words": NUMBERS}, "'words' must hold integers, got float32: use .astype"),
        (Conv, IMAGES, IMAGES.reshape(N, -1), "'X' must have 4 axes, as in the fit"),
        (Words, TOKENS, TOKENS * 1.0, "'X' must hold integers, got float64"),
        (Words, TOKENS, {"x": TOKENS}, r"like those of the fit, one array, got \['x'\]"),
    ],
)
def test_inputs_unlike_those_of_the_fit_are_explained(module, X, wrong, message):
    net = fitted(module, X)
    for act in (net.predict, net.freeze().predict, lambda X: net.partial_fit(X, LABELS)):
        with pytest.raises(ValueError, match=message):
            act(wrong)


def test_columns_that_belong_nowhere_are_explained():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE[:, :3], columns=["words__0", "numbers__0", "number__1"])
    with pytest.raises(ValueError, match="'number__1' belongs to no argument of the network"):
        estimator(Both).fit(frame, LABELS)
    with pytest.raises(ValueError, match="no column is for argument 'numbers'"):
        estimator(Both).fit(frame[["words__0"]], LABELS)


def test_a_failed_fit_leaves_the_inputs_as_they_were():
    net = fitted(Words, TOKENS)
    before = net.predict(TOKENS)
    for act in (
        lambda: net.fit(TABLE, LABELS),
        lambda: net.set_params(optimizer=SGD(1e300)).fit(TOKENS, LABELS),
    ):
        with pytest.raises((ValueError, TypeError)):
            act()
        assert np.array_equal(net.predict(TOKENS), before)
