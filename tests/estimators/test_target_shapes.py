"""Targets of three and more axes, and targets that only the loss reads."""

import pickle

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from sknet import MLPRegressor, NetClassifier, NetRegressor, load, losses, nn, ops, save
from sknet.exceptions import ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(40, 1, 6, 5))
MASKS = (IMAGES[:, 0] > 0.3).astype(int) + (IMAGES[:, 0] > 1.2) + 4  # of three classes: 4, 5, 6
STEPS = RNG.normal(size=(40, 7, 3))
TARGETS = 100 + 20 * np.stack([STEPS.sum(axis=2), STEPS[:, :, 0]], axis=2)
TABLE = RNG.normal(size=(60, 3))
TIMES = np.c_[RNG.exponential(np.exp(-TABLE[:, 0])), RNG.random(60) < 0.7]
FEW = {"max_iter": 3, "batch_size": 16, "random_state": 0}


class Segments(nn.Module):
    """Logits of each pixel, channels first."""

    def __init__(self, n_outputs):
        self.body = nn.Sequential(nn.Conv2d(1, 8, 1), nn.ReLU(), nn.Conv2d(8, n_outputs, 1))

    def forward(self, image):
        return self.body(image)


class LastSegments(Segments):
    """The same, channels last."""

    def forward(self, image):
        return ops.moveaxis(self.body(image), 1, -1)


class Translates(nn.Module):
    """Two numbers for each step."""

    def __init__(self, n_outputs):
        self.layer, self.head = nn.GRU(3, 8, returns="sequence"), nn.Linear(8, n_outputs)

    def forward(self, x, lengths=None):
        return self.head(self.layer(x, lengths=lengths))


class Both(losses.Loss):
    """A squared error of the first output and a log loss of the others."""

    tasks = ("regression",)

    def values(self, output, target):
        label = ops.one_hot(ops.astype(target[:, 1], "int64"), 3)
        of_class = ops.logsumexp(output[:, 1:], axis=1) - (output[:, 1:] * label).sum(axis=1)
        return ops.square(output[:, 0] - target[:, 0]) + of_class


class Heads(nn.Module):
    """Outputs of two heads, side by side."""

    def __init__(self):
        self.body, self.number, self.label = nn.LazyLinear(16), nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x):
        h = ops.relu(self.body(x))
        return ops.concat([self.number(h), self.label(h)], axis=1)


CASES = {
    "masks": (NetClassifier(Segments, **FEW), IMAGES, MASKS),
    "masks last": (NetClassifier(LastSegments, **FEW), IMAGES, MASKS),
    "sequences": (NetRegressor(Translates, **FEW), STEPS, TARGETS),
    "hazards": (NetRegressor(nn.LazyLinear(1), loss=losses.Cox(), **FEW), TABLE, TIMES),
    "times": (NetRegressor(nn.LazyLinear(2), loss=losses.AFT(), **FEW), TABLE, TIMES),
    "perceptron": (MLPRegressor((4,), loss="aft", **FEW), TABLE, TIMES),
    "heads": (NetRegressor(Heads(), loss=Both(), **FEW), TABLE, np.c_[TABLE[:, 0], RNG.integers(0, 3, 60)]),
}
TRUSTED = [Segments, LastSegments, Translates, Heads, Both]
each_case = pytest.mark.parametrize("case", CASES)


def drawn(case):
    estimator, X, y = CASES[case]
    return type(estimator)(**estimator.get_params(deep=False)), X, y


@each_case
def test_copies_and_files_predict_the_same(case, tmp_path):
    net, X, y = drawn(case)
    expected = net.fit(X, y).predict(X)
    save(net, tmp_path / "net")
    read = load(tmp_path / "net", trusted=TRUSTED), pickle.loads(pickle.dumps(net))
    for other in (net.freeze(), net.slim(), *read):
        assert np.array_equal(other.predict(X), expected)
    save(net.freeze(), tmp_path / "frozen")
    assert np.array_equal(load(tmp_path / "frozen", trusted=TRUSTED).predict(X), expected)
    assert np.isfinite(net.score(X, y))


@each_case
@pytest.mark.parametrize(
    "options",
    [
        {"early_stopping": True, "validation_fraction": 0.3, "refit_on_all": True},
        {"n_members": 2, "bootstrap": True},
    ],
    ids=["stopping", "members"],
)
def test_fits_with_options(case, options):
    net, X, y = drawn(case)
    weight = np.ones(len(X))
    net.set_params(**options).fit(X, y, weight)
    assert np.array_equal(net.freeze().predict(X), net.predict(X))
    assert np.isfinite(net.loss_curve_).all()


@each_case
def test_parts_and_warm_starts(case):
    net, X, y = drawn(case)
    more = {"classes": np.unique(y)} if isinstance(net, NetClassifier) else {}
    net.partial_fit(X, y, **more).partial_fit(X, y)
    again = drawn(case)[0].set_params(warm_start=True, max_iter=1).fit(X, y)
    assert again.fit(X, y).n_iter_ == 1
    assert len(again.loss_curve_) == 2


@pytest.mark.parametrize("case", ["masks", "sequences", "hazards"])
def test_searches(case):
    net, X, y = drawn(case)
    scores = cross_val_score(net, X, y, cv=2)
    assert np.isfinite(scores).all()
    found = GridSearchCV(net, {"alpha": [0.0, 1e-2]}, cv=2).fit(X, y)
    assert found.predict(X).shape == found.best_estimator_.predict(X).shape


def test_masks_are_learned():
    net = NetClassifier(Segments, lr=0.05, max_iter=40, random_state=0).fit(IMAGES, MASKS)
    assert net.classes_.tolist() == [4, 5, 6]
    assert net.predict(IMAGES).shape == MASKS.shape
    assert np.mean(net.predict(IMAGES) == MASKS) > 0.9
    assert net.score(IMAGES, MASKS) == pytest.approx(np.mean(net.predict(IMAGES) == MASKS))
    logits = net.decision_function(IMAGES)
    assert logits.shape == (40, 6, 5, 3)
    np.testing.assert_allclose(net.predict_proba(IMAGES), softmax(logits, axis=-1), rtol=1e-5)
    larger = RNG.normal(size=(2, 1, 9, 8))
    assert np.mean(net.predict(larger) == (larger[:, 0] > 0.3).astype(int) + (larger[:, 0] > 1.2) + 4) > 0.9


def test_channels_first_and_last_are_the_same_fit():
    first, last = (NetClassifier(net, **FEW).fit(IMAGES, MASKS) for net in (Segments, LastSegments))
    np.testing.assert_allclose(first.predict_proba(IMAGES), last.predict_proba(IMAGES), rtol=1e-4)


@pytest.mark.parametrize("as_given", [np.asarray, lambda y: y.astype(object), np.ndarray.tolist])
def test_masks_of_texts(as_given):
    texts = np.array(["road", "sky", "tree"])[MASKS - 4]
    net = NetClassifier(Segments, **FEW).fit(IMAGES, as_given(texts))
    of_numbers = NetClassifier(Segments, **FEW).fit(IMAGES, MASKS)
    assert net.classes_.tolist() == ["road", "sky", "tree"]
    np.testing.assert_array_equal(net.predict_proba(IMAGES), of_numbers.predict_proba(IMAGES))
    assert net.score(IMAGES, as_given(texts)) == of_numbers.score(IMAGES, MASKS)
    np.testing.assert_array_equal(net.freeze().predict(IMAGES), net.classes_[of_numbers.predict(IMAGES) - 4])


def test_weights_of_classes_count_pixels():
    twice = NetClassifier(Segments, class_weight={4: 2.0, 5: 2.0, 6: 2.0}, **FEW).fit(IMAGES, MASKS)
    once = NetClassifier(Segments, **FEW).fit(IMAGES, MASKS)
    np.testing.assert_allclose(twice.predict_proba(IMAGES), once.predict_proba(IMAGES), rtol=1e-3)
    with pytest.raises(ValueError, match="class_weight='balanced' counts labels of rows"):
        NetClassifier(Segments, class_weight="balanced", **FEW).fit(IMAGES, MASKS)


def test_sequences_are_learned_in_their_units():
    net = NetRegressor(Translates, lr=0.03, max_iter=60, random_state=0).fit(STEPS, TARGETS)
    found = net.predict(STEPS)
    assert found.shape == TARGETS.shape
    assert net.score(STEPS, TARGETS) == r2_score(TARGETS.reshape(40, -1), found.reshape(40, -1)) > 0.9
    raw = NetRegressor(Translates, scale_target=False, **FEW).fit(STEPS, (TARGETS - 100) / 20)
    scaled = NetRegressor(Translates, **FEW).fit(STEPS, (TARGETS - 100) / 20)
    assert abs(raw.predict(STEPS) - scaled.predict(STEPS)).max() < 1


def test_padding_of_targets_counts_nothing():
    lengths = RNG.integers(1, 8, 40)
    padding = np.arange(7) >= lengths[:, None]
    other = np.where(padding[..., None], 1e6, TARGETS)
    nets = [NetRegressor(Translates, scale_target=False, **FEW) for _ in range(2)]
    for net, y in zip(nets, (TARGETS, other), strict=True):
        net.fit(STEPS, y, lengths=lengths)
    assert np.array_equal(*(net.predict(STEPS, lengths=lengths) for net in nets))
    assert nets[0].score(STEPS, TARGETS, lengths=lengths) == nets[1].score(STEPS, other, lengths=lengths)


def test_outputs_of_another_shape():
    with pytest.raises(ShapeError, match=r"returns an array of shape \(7, 2\) for each row"):
        NetRegressor(Translates, **FEW).fit(STEPS, TARGETS[:, :5])
    with pytest.raises(ShapeError, match="returns 1 output"):
        NetRegressor(nn.LazyLinear(1), **FEW).fit(TABLE, TIMES)
