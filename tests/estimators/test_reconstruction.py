"""NetTransformer on tables, sequences, images and ids: codes and reconstructions, against the network."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sknet import NetTransformer, nn, ops
from sknet.exceptions import ShapeError
from sknet.losses import LogLoss
from sknet.optim import Adam
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
N, STEPS = 24, 6
TABLE = RNG.normal(size=(N, 5))
SEQUENCES = RNG.normal(size=(N, STEPS, 3))
IMAGES = RNG.normal(size=(N, 2, 4, 4))
IDS = RNG.integers(0, 7, (N, STEPS))
BITS = RNG.integers(0, 2, (N, 1, 4, 4))
LENGTHS = RNG.integers(1, STEPS + 1, N)
REAL = np.arange(STEPS) < LENGTHS[:, None]


class OfTables(nn.Module):
    def __init__(self, n_outputs):
        self.encoder = nn.LazyLinear(3)
        self.decoder = nn.Sequential(nn.Tanh(), nn.Linear(3, n_outputs))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class OfSteps(nn.Module):
    """A code for each step, which sees all steps that are not padding."""

    def __init__(self, n_outputs):
        self.encoder = Encoder()
        self.decoder = nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        return self.decoder(self.encoder(x, lengths))


class Encoder(nn.Module):
    def __init__(self):
        self.rnn = nn.GRU(3, 4)

    def forward(self, x, lengths=None):
        return self.rnn(x, lengths=lengths)[0]


class Unrolled(nn.Module):
    """One code per sequence, unrolled by a decoder that has to know its length."""

    def __init__(self, n_outputs):
        self.encoder = Last()
        self.decoder = Unrolling(n_outputs)

    def forward(self, x, lengths=None):
        return self.decoder(self.encoder(x, lengths), lengths)


class Last(nn.Module):
    def __init__(self):
        self.rnn = nn.GRU(3, 4)

    def forward(self, x, lengths=None):
        return self.rnn(x, lengths=lengths)[1][-1]


class Unrolling(nn.Module):
    def __init__(self, n_outputs):
        self.rnn = nn.GRU(4, 5)
        self.head = nn.Linear(5, n_outputs)

    def forward(self, code, lengths=None):
        steps = ops.broadcast_to(ops.expand_dims(code, 1), (code.shape[0], STEPS, code.shape[1]))
        return self.head(self.rnn(steps, lengths=lengths)[0])


class OfImages(nn.Module):
    def __init__(self, n_outputs):
        self.encoder = nn.Sequential(nn.LazyConv2d(3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2))
        self.decoder = nn.ConvTranspose2d(3, n_outputs, 2, stride=2)

    def forward(self, x):
        return self.decoder(self.encoder(x))


class OfIds(nn.Module):
    def __init__(self, n_outputs):
        self.encoder = nn.Embedding(9, 3)
        self.decoder = nn.Linear(3, n_outputs)

    def forward(self, x, lengths=None):
        return self.decoder(self.encoder(x))


CASES = {
    "table": (OfTables, TABLE, {}),
    "sequences": (OfSteps, SEQUENCES, {}),
    "unrolled": (Unrolled, SEQUENCES, {}),
    "images": (OfImages, IMAGES, {}),
    "absolute error": (OfImages, IMAGES, {"loss": "absolute_error"}),
    "ids": (OfIds, IDS, {"loss": "log_loss"}),
    "bits": (OfImages, BITS, {"loss": LogLoss()}),
    "bits as numbers": (OfTables, BITS.reshape(N, -1) * 1.0, {"loss": "log_loss"}),
    "bytes": (OfImages, RNG.integers(0, 256, (N, 2, 4, 4)).astype(np.uint8), {}),
}


def fitted(name, **more):
    module, X, params = CASES[name]
    few = {"max_iter": 3, "batch_size": 8, "random_state": 0, "dtype": "float64", "scale_inputs": False}
    with quiet():
        return NetTransformer(module, **few | params | more).fit(X), X


def expected_of(name, coder, X):
    """Return reconstructions and the negative loss, from the output of the whole network."""
    out = coder.model_(X if X.dtype.kind == "f" or name == "ids" else X * 1.0, training=False).numpy()
    if name == "ids":
        odds = out - out.max(axis=-1, keepdims=True)
        logs = odds - np.log(np.exp(odds).sum(axis=-1, keepdims=True))
        return out.argmax(axis=-1), np.take_along_axis(logs, X[..., None], axis=-1).mean()
    if "bits" in name:
        shares = 1 / (1 + np.exp(-out))
        logs = np.where(X == 1, np.log(shares), np.log1p(-shares))
        return shares, logs.reshape(len(X), -1).sum(axis=1).mean()
    if name == "absolute error":
        return out, -np.abs(out - X).mean()
    return out, -((out - X) ** 2).mean() / 2


@pytest.mark.parametrize("name", CASES)
def test_codes_the_way_back_and_scores_are_the_networks(name):
    coder, X = fitted(name)
    codes = coder.transform(X)
    rebuilt, score = expected_of(name, coder, X)
    assert rebuilt.shape == X.shape
    np.testing.assert_allclose(coder.inverse_transform(codes), rebuilt, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(coder.score(X), score, rtol=1e-9)
    np.testing.assert_allclose(coder.score(X[:1]), expected_of(name, coder, X[:1])[1], rtol=1e-9)
    encoder = coder.model_.module.encoder
    np.testing.assert_allclose(codes, encoder(nn_input(coder, X)).numpy(), rtol=1e-9, atol=1e-12)
    for other in (
        coder.freeze(),
        pickle.loads(pickle.dumps(coder)),
        pickle.loads(pickle.dumps(coder.freeze())),
    ):
        np.testing.assert_allclose(other.transform(X), codes, rtol=1e-9, atol=1e-12)
        for rows in (slice(0, 1), slice(0, 5), slice(None)):
            found = other.inverse_transform(codes[rows])
            np.testing.assert_allclose(found, rebuilt[rows], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(coder.layer().transform(X), codes, rtol=1e-9, atol=1e-12)


def nn_input(coder, X):
    return X if X.dtype.kind == "f" or coder._inputs.integers else X.astype(float)


@pytest.mark.parametrize("name", CASES)
def test_it_learns_to_return_x(name):
    """The loss falls, and its history is minus the score."""

    held_out = {"validation_split": (range(16), range(16, N)), "early_stopping": False}
    coder, X = fitted(name, optimizer=Adam(lr=0.02), max_iter=40, alpha=0.0, **held_out)
    losses = coder.history_["loss"]
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(coder.history_["validation_loss"][-1], -coder.score(X[16:]), rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_parts_and_warm_starts(name):
    with quiet():
        coder, X = fitted(name)
        parts = clone(coder).partial_fit(X)
        rebuilt = parts.inverse_transform(parts.transform(X))
        assert rebuilt.shape == X.shape
        parts.partial_fit(X[:9], X_val=X[9:])
        assert "validation_loss" in parts.history_
        again = clone(coder).set_params(warm_start=True, max_iter=2).fit(X).fit(X)
    assert len(again.loss_curve_) == 4


def test_weights_of_rows():
    weight = np.repeat([1.0, 0.0], N // 2)
    for name in CASES:
        params = {"batch_size": N, "shuffle": False, "alpha": 0.0}
        coder, X = fitted(name, **params)
        with quiet():
            weighted = clone(coder).fit(X, sample_weight=weight)
            alone = clone(coder).set_params(batch_size=N // 2).fit(X[: N // 2])
        # The number of classes, of which an id may be missing in one half, decides the initial weights.
        if name != "ids":
            np.testing.assert_allclose(weighted.transform(X), alone.transform(X), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            weighted.score(X, sample_weight=weight), weighted.score(X[: N // 2]), rtol=1e-9
        )


# -- padding -------------------------------------------------------------------------------------------

PADDED = ["sequences", "unrolled", "ids"]


def with_lengths(name, X=None, **more):
    module, rows, params = CASES[name]
    rows = rows if X is None else X
    params = {"max_iter": 3, "batch_size": 8, "random_state": 0, "dtype": "float64"} | params | more
    with quiet():
        return NetTransformer(module, **params).fit(rows, lengths=LENGTHS), rows


def spoiled(X):
    """Return X with different padding, using existing ids."""
    noise = np.roll(X, 1, axis=0)
    return np.where(REAL.reshape(REAL.shape + (1,) * (X.ndim - 2)), X, noise)


@pytest.mark.parametrize("name", PADDED)
def test_padding_is_ignored(name):
    coder, X = with_lengths(name)
    other, padded = with_lengths(name, spoiled(X))
    assert not np.array_equal(X, padded)
    np.testing.assert_allclose(other.history_["loss"], coder.history_["loss"], rtol=1e-9)
    np.testing.assert_allclose(
        other.transform(X, lengths=LENGTHS)[REAL]
        if name != "unrolled"
        else other.transform(X, lengths=LENGTHS),
        coder.transform(X, lengths=LENGTHS)[REAL]
        if name != "unrolled"
        else coder.transform(X, lengths=LENGTHS),
        rtol=1e-7,
        atol=1e-10,
    )
    score = coder.score(X, lengths=LENGTHS)
    np.testing.assert_allclose(coder.score(padded, lengths=LENGTHS), score, rtol=1e-9)
    with quiet():
        early = clone(coder).set_params(early_stopping=True, n_iter_no_change=2)
        early.fit(X[:16], lengths=LENGTHS[:16], X_val=X[16:], lengths_val=LENGTHS[16:])
    np.testing.assert_allclose(
        early.history_["validation_loss"][early.best_epoch_ - 1],
        -early.score(X[16:], lengths=LENGTHS[16:]),
        rtol=1e-9,
    )


@pytest.mark.parametrize("name", PADDED)
def test_padded_sequences_are_those_of_each_alone(name):
    coder, X = with_lengths(name)
    codes = coder.transform(X, lengths=LENGTHS)
    rebuilt = (
        coder.inverse_transform(codes, lengths=LENGTHS)
        if name == "unrolled"
        else coder.inverse_transform(codes)
    )
    losses = []
    for predictor in (coder, coder.freeze()):
        for row, length in enumerate(LENGTHS):
            rows = X[row : row + 1, :length]
            alone = predictor.transform(rows, lengths=[length])
            found = codes[row] if name == "unrolled" else codes[row, :length]
            np.testing.assert_allclose(found, alone[0], rtol=1e-9, atol=1e-12)
            given = {"lengths": [length]} if name == "unrolled" else {}
            back = predictor.inverse_transform(alone, **given)[0, :length]
            np.testing.assert_allclose(rebuilt[row, :length], back, rtol=1e-9, atol=1e-12)
            if predictor is coder and name != "unrolled":
                losses.append(coder.score(rows, lengths=[length]))
        if name == "unrolled":
            with pytest.raises(ValueError, match=r"inverse_transform of .* needs lengths="):
                predictor.inverse_transform(codes)
    if losses:
        np.testing.assert_allclose(
            coder.score(X, lengths=LENGTHS), np.average(losses, weights=LENGTHS), rtol=1e-9
        )


@pytest.mark.parametrize("name", ["input_gradient", "integrated_gradients"])
def test_attributions_of_padded_codes(name):
    coder, X = with_lengths("unrolled")
    whole = getattr(coder, name)(X, target=1, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS):
        alone = getattr(coder, name)(X[row : row + 1, :length], target=1, lengths=[length])
        np.testing.assert_allclose(whole[row, :length], alone[0], rtol=1e-7, atol=1e-12)
    assert not whole[~REAL].any()


# -- other targets, and bad use ------------------------------------------------------------------------


def test_targets_of_any_rank():
    """Learns to denoise; or to return images for a table."""
    noisy = IMAGES + RNG.normal(size=IMAGES.shape)

    class Painting(nn.Module):
        def __init__(self):
            self.decoder = nn.Linear(5, 32)

        def forward(self, x):
            return ops.reshape(self.decoder(x), (-1, 2, 4, 4))

    for module, X in ((OfImages, noisy), (Painting, TABLE)):
        with quiet():
            net = NetTransformer(
                module, target="y", scale_inputs=False, max_iter=2, random_state=0, code=-1
            ).fit(X, IMAGES)
        out = net.model_(X, training=False).numpy()
        np.testing.assert_allclose(net.score(X, IMAGES), -((out - IMAGES) ** 2).mean() / 2, rtol=1e-6)


class Two(nn.Module):
    def __init__(self, n_outputs):
        self.encoder = nn.Linear(5, n_outputs)

    def forward(self, a, b):
        return self.encoder(a) + b


BAD = [
    (OfIds, IDS, {}, ShapeError, r"shape \(6, 6\) for each row, .* shape \(6,\): logits .* loss='log_loss'"),
    (
        nn.Sequential(nn.Flatten()),
        IMAGES,
        {},
        ShapeError,
        r"shape \(32,\) for each row, .* \(2, 4, 4\): .*input_shape",
    ),
    (
        Two,
        {"a": TABLE, "b": TABLE},
        {},
        ValueError,
        r"reconstructs one input, and X has \['a', 'b'\]: set target='y'",
    ),
    (OfImages, IMAGES, {"loss": "log_loss"}, ValueError, "must be 0 or 1"),
]


@pytest.mark.parametrize(
    ("module", "X", "params", "error", "message"), BAD, ids=lambda x: getattr(x, "__name__", "")
)
def test_bad_use_raises(module, X, params, error, message):
    with pytest.raises(error, match=message):
        NetTransformer(module, max_iter=2, **params).fit(X)


def test_codes_and_lengths_that_do_not_fit_raise():
    coder, X = fitted("images")
    for predictor in (coder, coder.freeze()):
        with pytest.raises(
            ValueError, match=r"codes as transform returns them, of shape \(n_samples, 3, 2, 2\)"
        ):
            predictor.inverse_transform(X[:, 0, 0])
        with pytest.raises(TypeError, match="lengths= needs a network whose forward takes `lengths`"):
            predictor.inverse_transform(predictor.transform(X), lengths=LENGTHS)
    coder, X = fitted("sequences")
    with pytest.raises(ValueError, match="must have 3 axes"):
        coder.partial_fit(X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert coder.transform(X[:, :2]).shape == (N, 2, 4)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_compiled_fits_are_those_of_one_operation_after_the_other(name, shuffle):
    module, X, params = CASES[name]
    padded = {"lengths": LENGTHS} if name in PADDED else {}
    found = []
    for compiled in ("auto", False):
        coder = NetTransformer(
            module, max_iter=1, batch_size=8, shuffle=shuffle, random_state=0, dtype="float64", **params
        )
        with quiet():
            coder.fit(X, **padded)
            coder.model_.compile = compiled
            coder.set_params(warm_start=True, max_iter=2).fit(X, **padded)
        found.append(coder)
    one, other = found
    np.testing.assert_allclose(one.loss_curve_, other.loss_curve_, rtol=1e-9)
    np.testing.assert_allclose(
        one.transform(X, **padded), other.transform(X, **padded), rtol=1e-9, atol=1e-12
    )
