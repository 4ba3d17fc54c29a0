"""Buckets of similar lengths: the same steps as with all padding, in an order that a seed decides."""

import numpy as np
import pytest

import sknet
from sknet import Model, NetClassifier, NetRegressor, NetTransformer, nn
from sknet.callbacks import Checkpoint
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
LENGTHS = np.maximum(1, np.exp(RNG.normal(1.5, 0.8, 123))).astype(int)
ROWS = [RNG.integers(1, 9, n) for n in LENGTHS]
SERIES = [RNG.normal(size=(n, 2)) for n in LENGTHS]
LABELS = np.array([int((row == 3).any()) for row in ROWS])
SMALL = {"gru": {"hidden_size": 5}, "tcn": {"channels": 6}, "transformer": {"embed_dim": 8}}


def fitted(name, rows, y=LABELS, epochs=3, given=(), **params):
    network = nn.NETWORKS[name].__sklearn_clone__().set_params(**SMALL[name], dropout=0.0)
    net = NetClassifier(
        network, max_iter=epochs, batch_size=10, tol=0, lr=0.01, random_state=0, dtype="float64", **params
    )
    with quiet():
        return net.fit(rows, y, **dict(given))


def weights(net):
    return net.model_.weights().flat


@pytest.mark.parametrize(
    ("name", "rows"), [("gru", ROWS), ("gru", SERIES), ("tcn", ROWS), ("transformer", SERIES)]
)
@pytest.mark.parametrize("native", [True, False])
def test_steps_are_those_with_all_padding(name, rows, native, limits, monkeypatch):
    if not native:
        monkeypatch.setenv("SKNET_NATIVE", "never")
    short = fitted(name, rows)
    limits("numbers of steps that batches may have", 1)
    whole = fitted(name, rows)
    np.testing.assert_allclose(weights(short), weights(whole), rtol=1e-8, atol=1e-10)
    limits("batches of similar lengths", 1000)
    assert not np.allclose(weights(fitted(name, rows)), weights(whole))  # whose batches are others


@pytest.mark.parametrize("params", [{}, {"sampler": "balanced"}, {"early_stopping": True}, {"n_members": 2}])
def test_fits_have_the_same_bits_for_a_seed_and_resumed(params, tmp_path):
    first = fitted("gru", ROWS, epochs=4, **params)
    expected = first.predict_proba(ROWS)
    np.testing.assert_array_equal(fitted("gru", ROWS, epochs=4, **params).predict_proba(ROWS), expected)
    if "n_members" not in params:
        fitted("gru", ROWS, epochs=2, given={"callbacks": [Checkpoint(tmp_path)]}, **params)
        resumed = fitted("gru", ROWS, epochs=4, given={"resume_from": tmp_path}, **params)
        np.testing.assert_array_equal(resumed.predict_proba(ROWS), expected)


def test_eager_steps_and_zero_weights():
    X, lengths = nn.pad_sequences(ROWS)
    weight = np.where(LENGTHS > 8, 0.0, RNG.uniform(0.5, 2, len(ROWS)))
    found = []
    for compiled in (True, False):
        network = nn.RecurrentNet(X.shape[1:], 2, n_ids=9, hidden_size=3, dropout=0.0)
        model = Model(network, "log_loss", random_state=0, dtype="float64")
        model.compile = compiled
        model.fit({"x": X, "lengths": lengths}, LABELS, epochs=2, batch_size=10, sample_weight=weight)
        found.append(model.weights().flat)
    np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-10)


def test_rows_are_predicted_in_their_order():
    net = fitted("gru", ROWS)
    np.testing.assert_allclose(
        net.predict_proba(ROWS), [net.predict_proba([row])[0] for row in ROWS], rtol=1e-12
    )


class Counted(nn.Module):
    """A network that counts the steps which it reads."""

    def __init__(self, input_shape, n_outputs):
        self.net = nn.RecurrentNet(input_shape, n_outputs, hidden_size=4, dropout=0.0)
        self.seen = []

    def forward(self, x, lengths=None):
        self.seen.append(x.shape[0] * x.shape[1])
        return self.net(x, lengths)


@pytest.mark.parametrize("kind", [NetClassifier, NetRegressor])
@pytest.mark.parametrize(("name", "rows"), [("gru", ROWS), ("tcn", SERIES), ("transformer", ROWS)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predictions_are_those_with_all_padding(kind, name, rows, dtype, limits, tmp_path):
    network = nn.NETWORKS[name].__sklearn_clone__().set_params(**SMALL[name])
    with quiet():
        net = kind(network, max_iter=1, random_state=0, dtype=dtype).fit(rows, LABELS)
    sknet.save(net, tmp_path / "net.safetensors")
    predictors = net, net.freeze(), sknet.load(tmp_path / "net.safetensors")
    names = ["predict_proba", "decision_function"] if kind is NetClassifier else ["predict"]
    short = [[getattr(each, name)(rows) for name in names] for each in predictors]
    limits("sequences in passes by length", 1000)
    whole = [getattr(net, name)(rows) for name in names]
    for found in short:
        for one, first, expected in zip(found, short[0], whole, strict=True):
            assert one.tobytes() == first.tobytes()
            np.testing.assert_allclose(one, expected, rtol=1e-4 if dtype == "float32" else 1e-9, atol=1e-6)


def test_padding_is_not_computed_in_predictions(monkeypatch):
    with quiet():
        net = NetRegressor(Counted, max_iter=1, random_state=0).fit(SERIES, LABELS)
    X, lengths = nn.pad_sequences(SERIES)
    seen = net.model_.module.seen
    seen.clear()
    codes = net.predict(X, lengths=lengths)
    assert sum(seen) < 2 * lengths.sum() < X[..., 0].size
    wide = np.concatenate([X, np.full((len(X), 30, 2), 7.0)], axis=1)  # padding that no row reaches
    np.testing.assert_array_equal(net.predict(wide, lengths=lengths).shape, codes.shape)
    np.testing.assert_allclose(net.predict(wide, lengths=lengths), codes, rtol=1e-4, atol=1e-6)
    seen.clear()
    net.predict(X[:50], lengths=lengths[:50])
    assert sum(seen) == X[:50, :, 0].size  # few rows go together


@pytest.mark.parametrize("extra", [0, 5])
def test_outputs_of_steps_are_as_wide_as_the_rows(extra):
    X, lengths = nn.pad_sequences(SERIES)
    X = np.concatenate([X, np.zeros((len(X), extra, 2))], axis=1)
    with quiet():
        net = NetRegressor(Steps, max_iter=1, random_state=0).fit(X, X[..., :1], lengths=lengths)
    for each in (net, net.freeze()):
        assert each.predict(X, lengths=lengths).shape == X[..., :1].shape


def test_codes_are_those_with_all_padding(limits):
    X, lengths = nn.pad_sequences(SERIES)
    with quiet():
        net = NetTransformer(Coder, target="y", max_iter=1, random_state=0)
        net.fit(X, LABELS * 1.0, lengths=lengths)
    short = net.transform(X, lengths=lengths)
    assert short.tobytes() == net.freeze().transform(X, lengths=lengths).tobytes()
    limits("sequences in passes by length", 1000)
    np.testing.assert_allclose(short, net.transform(X, lengths=lengths), rtol=1e-4, atol=1e-6)


class Coder(nn.Module):
    """A network whose code is the last state of its sequences."""

    def __init__(self, n_outputs):
        self.encoder, self.head = nn.GRU(2, 4, returns="last"), nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        return self.head(self.encoder(x, lengths=lengths))


class Steps(nn.Module):
    """A network of one output a step, or with a norm of steps."""

    def __init__(self, norm=False):
        self.norm, self.head = (nn.BatchNorm(2) if norm else nn.Identity()), nn.Linear(2, 1)

    def forward(self, x, lengths):
        return self.head(self.norm(x.reshape((-1, 2))).reshape(x.shape))
