"""Losses that ignore a label, or weight some: in estimators they mean labels, and not numbers of classes."""

import numpy as np
import pandas
import pytest
import scipy.sparse

import sknet
from sknet import MLPClassifier, NetClassifier, TabularClassifier, nn
from sknet.losses import Focal, LogLoss
from sknet.optim import Adam
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
N = 90
X = RNG.normal(size=(N, 3))
HIDDEN = RNG.random(N) < 0.4
TWO = (X[:, 0] > 0).astype(int)
THREE = TWO + (X[:, 1] > 0)
WEIGHT = RNG.uniform(0.5, 2.0, N)
PARAMS = {"max_iter": 3, "batch_size": 16, "random_state": 0}
LOSSES = {"LogLoss": LogLoss, "Focal": Focal}


def labels(t, ignored):
    return np.where(HIDDEN, ignored, t)


def same(a, b):
    for x, y in zip(a.coefs_ + a.intercepts_, b.coefs_ + b.intercepts_, strict=True):
        np.testing.assert_array_equal(x, y)
    columns = [name for name in a.history_ if name != "time"]
    assert all(a.history_[name] == b.history_[name] for name in columns)
    np.testing.assert_array_equal(a.classes_, b.classes_)


@pytest.mark.parametrize("ignored", [-1, -100, 1000])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("t", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize(
    "params",
    [{}, {"early_stopping": True}, {"n_members": 2}, {"class_weight": "balanced"}, {"solver": 0}],
    ids=str,
)
def test_a_fit_is_one_of_the_rows_that_count(ignored, loss, t, params):
    params = {"optimizer": "lbfgs", "batch_size": "auto"} if "solver" in params else params
    with quiet():
        found = MLPClassifier((4,), loss=LOSSES[loss](ignore_index=ignored), **PARAMS | params)
        found.fit(X, labels(t, ignored), WEIGHT)
        wanted = MLPClassifier((4,), loss=LOSSES[loss](), **PARAMS | params)
        wanted.fit(X[~HIDDEN], t[~HIDDEN], WEIGHT[~HIDDEN])
    assert ignored not in found.classes_
    if "n_members" not in params:
        same(found, wanted)
    np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
    score = found.score(X, labels(t, ignored), WEIGHT)
    assert score == pytest.approx(wanted.score(X[~HIDDEN], t[~HIDDEN], WEIGHT[~HIDDEN]), rel=1e-12)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.tolist(),
        lambda x: pandas.DataFrame(x, columns=list("abc")) if x.ndim == 2 else pandas.Series(x),
        lambda x: scipy.sparse.csr_matrix(x) if x.ndim == 2 else x.reshape(-1, 1)[:, 0],
    ],
    ids=["lists", "frames", "sparse"],
)
def test_every_container(convert):
    y = labels(TWO, -1)
    with quiet():
        found = MLPClassifier((4,), loss=LogLoss(ignore_index=-1), **PARAMS).fit(convert(X), convert(y))
        wanted = MLPClassifier((4,), **PARAMS).fit(convert(X[~HIDDEN]), convert(TWO[~HIDDEN]))
    same(found, wanted)


def test_a_stream_and_a_warm_start():
    y = labels(THREE, -1)
    found = MLPClassifier((4,), loss=LogLoss(ignore_index=-1), warm_start=True, **PARAMS)
    wanted = MLPClassifier((4,), warm_start=True, **PARAMS)
    for part in (slice(0, 40), slice(40, 90)):
        found.partial_fit(X[part], y[part], classes=[-1, 0, 1, 2])
        kept = ~HIDDEN[part]
        wanted.partial_fit(X[part][kept], THREE[part][kept], classes=[0, 1, 2])
        same(found, wanted)
    with quiet():
        same(found.fit(X, y), wanted.fit(X[~HIDDEN], THREE[~HIDDEN]))


def test_a_validation_of_ones_own():
    y, params = labels(TWO, -1), PARAMS | {"early_stopping": True}
    kept, val = ~HIDDEN[:60], ~HIDDEN[60:]
    with quiet():
        found = MLPClassifier((4,), loss=LogLoss(ignore_index=-1), **params)
        found.fit(X[:60], y[:60], X_val=X[60:], y_val=y[60:], sample_weight_val=WEIGHT[60:])
        wanted = MLPClassifier((4,), **params).fit(
            X[:60][kept],
            TWO[:60][kept],
            X_val=X[60:][val],
            y_val=TWO[60:][val],
            sample_weight_val=WEIGHT[60:][val],
        )
    same(found, wanted)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_number_that_is_no_label_ignores_nothing(loss):
    pets = np.array(["cat", "dog"])[TWO]
    for y in (pets, pets.astype(object), TWO + 5):
        with quiet():
            found = MLPClassifier((4,), loss=LOSSES[loss](ignore_index=1), **PARAMS).fit(X, y)
            same(found, MLPClassifier((4,), loss=LOSSES[loss](), **PARAMS).fit(X, y))


def test_class_weights_of_a_loss_are_of_labels():
    y = THREE + 1
    with quiet():
        found = MLPClassifier((4,), loss=LogLoss(class_weight={1: 50.0}), **PARAMS).fit(X, y)
        same(found, MLPClassifier((4,), loss=LogLoss(class_weight=[50.0, 1.0, 1.0]), **PARAMS).fit(X, y))
        pets = np.array(["cat", "dog"])[TWO]
        found = MLPClassifier((4,), loss=LogLoss(class_weight={"dog": 9.0}), **PARAMS).fit(X, pets)
        same(found, MLPClassifier((4,), loss=LogLoss(class_weight=[1.0, 9.0]), **PARAMS).fit(X, pets))
    with pytest.raises(ValueError, match=r"class_weight names 0, which is not among the labels \[1, 2, 3\]"):
        MLPClassifier((4,), loss=LogLoss(class_weight={0: 2.0}), **PARAMS).fit(X, y)


def test_keys_of_class_weights_may_be_dates_of_numpy_and_of_python():
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[D]")
    params = PARAMS | {"scale_inputs": False}  # weights of a loss do not count in means of inputs
    with quiet():
        right = MLPClassifier((4,), class_weight={1: 50.0}, **params).fit(X, THREE)
        for key in (days[1], days.tolist()[1]):
            for weights in ({"class_weight": {key: 50.0}}, {"loss": LogLoss(class_weight={key: 50.0})}):
                found = MLPClassifier((4,), **weights, **params).fit(X, days[THREE])
                np.testing.assert_array_equal(found.predict_proba(X), right.predict_proba(X))


@pytest.mark.parametrize("key", [np.datetime64("2020-01-01"), pandas.NA, float("nan")], ids=str)
def test_keys_of_class_weights_that_are_no_labels(key):
    for weights in ({"class_weight": {key: 50.0}}, {"loss": LogLoss(class_weight={key: 50.0})}):
        with pytest.raises(
            ValueError, match=r"class_weight names .*, which is not among the labels \[1, 2, 3\]"
        ):
            MLPClassifier((4,), **weights, **PARAMS).fit(X, THREE + 1)


def test_class_weights_beyond_any_float_are_refused():
    with pytest.raises(
        ValueError, match=r"class_weight\[1\] must be a finite number >= 0, got an int of 1329 bits"
    ):
        MLPClassifier((4,), class_weight={1: 10**400}, **PARAMS).fit(X, THREE)


# -- positions -----------------------------------------------------------------------------------------


class Tagger(nn.Module):
    def __init__(self, n_outputs):
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, n_outputs)

    def forward(self, x, lengths=None):
        return self.head(self.table(x))


IDS = RNG.integers(0, 9, (30, 6))
ENDS = RNG.integers(2, 7, 30)
PADDING = np.arange(6) >= ENDS[:, None]
TAGS = IDS % 3


@pytest.mark.parametrize("ignored", [-1, 255])
@pytest.mark.parametrize("early", [False, True])
def test_positions_that_are_ignored_are_like_padding(ignored, early):
    """Positions behind the end of a sequence count nothing, by lengths or by their label."""
    params = PARAMS | {"early_stopping": early, "optimizer": Adam(0.01), "dtype": "float64", "alpha": 0.0}
    with quiet():
        found = NetClassifier(Tagger, loss=LogLoss(ignore_index=ignored), **params)
        found.fit(IDS, np.where(PADDING, ignored, TAGS))
        wanted = NetClassifier(Tagger, **params).fit(IDS, TAGS, lengths=ENDS)
    np.testing.assert_array_equal(found.classes_, [0, 1, 2])
    np.testing.assert_allclose(
        found.predict_proba(IDS), wanted.predict_proba(IDS, lengths=np.full(30, 6)), rtol=1e-9
    )
    y = np.where(PADDING, ignored, TAGS)
    assert found.score(IDS, y) == pytest.approx(wanted.score(IDS, TAGS, lengths=ENDS))
    assert found.score(IDS, y, WEIGHT[:30]) == pytest.approx(
        wanted.score(IDS, TAGS, WEIGHT[:30], lengths=ENDS)
    )
    assert found.history_["score"] == pytest.approx(wanted.history_["score"])


def test_weights_of_classes_with_ignored_positions():
    y, loss = np.where(PADDING, 255, TAGS), LogLoss(ignore_index=255)
    found = NetClassifier(Tagger, loss=loss, class_weight={2: 5.0}, **PARAMS)
    found.partial_fit(IDS, y, classes=[0, 1, 2])
    wanted = NetClassifier(Tagger, class_weight={2: 5.0}, **PARAMS)
    wanted.partial_fit(IDS, TAGS, classes=[0, 1, 2], lengths=ENDS)
    np.testing.assert_allclose(
        found.predict_proba(IDS), wanted.predict_proba(IDS, lengths=np.full(30, 6)), rtol=1e-5
    )
    with pytest.raises(ValueError, match="class_weight='balanced' counts labels of rows, and the loss"):
        NetClassifier(Tagger, loss=loss, class_weight="balanced", **PARAMS).fit(IDS, y)


def test_a_tagger_is_saved_and_goes_on(tmp_path):
    y = np.where(PADDING, -1, TAGS)
    net = NetClassifier(Tagger, loss=LogLoss(ignore_index=-1), **PARAMS)
    net.partial_fit(IDS, y, classes=[0, 1, 2])
    sknet.save(net, tmp_path / "net.safetensors")
    other = sknet.load(tmp_path / "net.safetensors", trusted=[Tagger])
    for each in (net, other):
        each.partial_fit(IDS, y)
    np.testing.assert_array_equal(net.predict_proba(IDS), other.predict_proba(IDS))


# -- refused -------------------------------------------------------------------------------------------


def test_what_cannot_be_ignored_is_refused():
    two = np.c_[labels(TWO, -1), THREE]
    with pytest.raises(ValueError, match="ignore_index is not supported for several columns of labels"):
        MLPClassifier((4,), loss=LogLoss(ignore_index=-1), **PARAMS).fit(X, two)
    with pytest.raises(ValueError, match="class_weight by labels is of one column of them, and y has"):
        MLPClassifier((4,), loss=LogLoss(class_weight={1: 2.0}), **PARAMS).fit(X, two)
    for loss in (LogLoss(ignore_index=-1), Focal(ignore_index=-1)):
        with pytest.raises(ValueError, match="ignore_index is not supported by TabularClassifier"):
            TabularClassifier(loss=loss).fit(X, labels(TWO, -1))
    clf = MLPClassifier((4,), loss=LogLoss(ignore_index=-1), **PARAMS)
    with pytest.raises(ValueError, match=r"every label of y is -1, which .* ignores"):
        clf.fit(X, np.full(N, -1))
    split = (np.arange(40), np.arange(40, 90))
    with pytest.raises(ValueError, match="validation_split has row numbers"):
        clf.set_params(validation_split=split).fit(X, labels(TWO, -1))
    with quiet():
        clf.set_params(validation_split=None).fit(X, labels(TWO, -1))
    with pytest.raises(ValueError, match="there is nothing to score"):
        clf.score(X, np.full(N, -1))
