"""Networks given to estimators by name are sized by the data, saved and frozen like any other."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import sknet
from sknet import NetClassifier, NetRegressor, nn
from sknet.callbacks import Callback, Checkpoint
from sknet.exceptions import FitInterruptedWarning
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
ROWS = RNG.permutation(1797)[:500]
DIGITS, LABELS = (x[ROWS] for x in load_digits(return_X_y=True))
IMAGES = DIGITS.reshape(-1, 8, 8).astype(np.float32)
IDS = RNG.integers(1, 12, (300, 8))
HAS_THREE = (IDS == 3).any(1).astype(int)
SERIES = RNG.normal(size=(300, 8, 2))
RISES = (SERIES[..., 0].mean(1) > 0).astype(int)
SMALL = {name: {"channels": 8, "augment": ()} for name in ("conv", "resnet")}


def fitted(name, X, y, kind=NetClassifier, **params):
    network = nn.NETWORKS[name].__sklearn_clone__().set_params(**SMALL.get(name, {}))
    with quiet():
        return kind(network, random_state=0, **params).fit(X, y)


def assert_stored(estimator, X, path):
    """Check that files and frozen predictors have the bits of an estimator."""
    sknet.save(estimator, path)
    expected = estimator.predict_proba(X)
    for predictor in (sknet.load(path), estimator.freeze(), sknet.load(path).freeze()):
        np.testing.assert_array_equal(predictor.predict_proba(X), expected)


@pytest.mark.parametrize("name", ["conv", "resnet"])
@pytest.mark.parametrize("layout", ["none", "first", "last", "bytes"])
def test_images_in_any_layout(name, layout, tmp_path):
    X = {
        "none": IMAGES,
        "first": IMAGES[:, None],
        "last": IMAGES[..., None],
        "bytes": IMAGES.astype(np.uint8),
    }
    estimator = fitted(name, X[layout], LABELS, max_iter=3, batch_size=50)
    assert_stored(estimator, X[layout], tmp_path / "net.safetensors")
    other = fitted(name, IMAGES, LABELS, max_iter=3, batch_size=50)
    np.testing.assert_allclose(estimator.predict_proba(X[layout]), other.predict_proba(IMAGES), rtol=1e-5)


@pytest.mark.parametrize("name", ["conv", "resnet"])
def test_images_are_learned(name):
    estimator = fitted(name, IMAGES[:400], LABELS[:400], max_iter=30, batch_size=20)
    assert estimator.score(IMAGES[400:], LABELS[400:]) > 0.9


SEQUENCES = {"ids": (IDS, HAS_THREE), "two": (SERIES, RISES)}


@pytest.mark.parametrize(
    ("name", "X", "y"),
    [
        *[(name, *rows) for name in ("lstm", "gru", "tcn", "transformer") for rows in SEQUENCES.values()],
        ("tcn", SERIES[..., 0], RISES),  # a sequence of numbers is one of a single feature for all of them
    ],
)
def test_sequences_are_learned(name, X, y, tmp_path):
    estimator = fitted(name, X, y, max_iter=30, batch_size=32, lr=1e-2)
    assert estimator.score(X, y) > 0.9
    assert_stored(estimator, X, tmp_path / "net.safetensors")


@pytest.mark.parametrize("name", ["lstm", "gru", "tcn", "transformer"])
def test_lengths_are_read(name):
    lengths = RNG.integers(2, 9, 300)
    with quiet():
        estimator = NetClassifier(name, max_iter=2, random_state=0).fit(IDS, HAS_THREE, lengths=lengths)
    other = np.where(np.arange(8) < lengths[:, None], IDS, 0)
    np.testing.assert_array_equal(
        estimator.predict_proba(IDS, lengths=lengths), estimator.predict_proba(other, lengths=lengths)
    )


def test_arguments_of_a_named_network_are_parameters():
    estimator = NetClassifier("conv", max_iter=1, random_state=0)
    assert estimator.get_params()["module"] == clone(estimator).module == "conv"
    with quiet():
        search = GridSearchCV(estimator, {"module__channels": [2, 3]}, cv=2).fit(IMAGES[:100], LABELS[:100])
    assert search.best_estimator_.module.get_params()["channels"] in (2, 3)
    assert estimator.module == "conv"
    estimator.set_params(module__augment="shift", module__channels=4)
    with quiet():
        estimator.fit(IMAGES, LABELS)
    assert isinstance(estimator.model_.module.augment[0], nn.RandomShift)


def test_augmented_fits_have_the_same_bits_for_a_seed():
    augmented = nn.ModuleFactory(nn.ConvNet, channels=4, augment=("shift", "flip", "cutout"))
    with quiet():
        first, second, other = (
            NetClassifier(augmented, max_iter=2, random_state=seed).fit(IMAGES, LABELS).predict_proba(IMAGES)
            for seed in (0, 0, 1)
        )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_networks_of_images_have_a_plan(tmp_path):
    def fit(n_rows=100, **given):
        net = NetClassifier("conv", random_state=0, **given).set_params(module__channels=2)
        return net, (IMAGES[:n_rows], LABELS[:n_rows])

    net, rows = fit()
    net.fit(*rows)  # without a warning that it has not converged
    rates = net.history_["lr"]
    assert net.n_iter_ == len(rates) == 100
    assert max(rates) == pytest.approx(5e-3, rel=1e-2)
    assert rates[0] < 1e-3
    assert rates[-1] < 1e-6
    assert fit(400)[0].fit(IMAGES[:400], LABELS[:400]).n_iter_ == 81  # 600 / 400 ** (1 / 3)
    for params in ({"lr": 1e-3}, {"optimizer": sknet.optim.Adam()}, {"max_iter": 3}):
        other, _ = fit(**params)
        with quiet():
            other.fit(*rows)
        assert set(other.history_["lr"]) == {1e-3}
        assert other.n_iter_ <= params.get("max_iter", 200)
    part, _ = fit()
    assert set(part.partial_fit(*rows, classes=range(10)).history_["lr"]) == {1e-3}
    path = tmp_path / "fit"
    saving, _ = fit()
    with pytest.warns(FitInterruptedWarning):
        saving.fit(*rows, callbacks=[Checkpoint(path), _End(50)])
    resumed = fit()[0].fit(*rows, resume_from=path)
    np.testing.assert_array_equal(resumed.predict_proba(rows[0]), net.predict_proba(rows[0]))


@pytest.mark.parametrize("X", [IMAGES[:100], IMAGES[:100, None], IMAGES[:100, ..., None]])
@pytest.mark.parametrize(("pixels", "epochs"), [(100 * 64 * 12, 12), (100 * 64, 8)])
def test_plans_end_by_pixels(X, pixels, epochs, monkeypatch):
    monkeypatch.setitem(nn.ConvNet._plan, "pixels", pixels)
    net = NetClassifier("conv", random_state=0).set_params(module__channels=2)
    assert net.fit(X, LABELS[:100]).n_iter_ == epochs


@pytest.mark.parametrize("name", ["conv", "resnet"])
def test_images_are_shifted_by_default(name, tmp_path):
    net = NetClassifier(name, max_iter=1, random_state=0).set_params(module__channels=2)
    with quiet():
        net.fit(IMAGES, LABELS)
    assert [type(each) for each in net.model_.module.augment] == [nn.RandomShift]
    assert_stored(net, IMAGES, tmp_path / "net.safetensors")
    with quiet():
        plain = net.set_params(module__augment=()).fit(IMAGES, LABELS)
    assert not len(plain.model_.module.augment)


class _End(Callback):
    """End a fit after some epochs."""

    def __init__(self, epochs):
        self.epochs = epochs

    def on_epoch_end(self, fit):
        if fit.epoch == self.epochs:
            raise KeyboardInterrupt


def test_draws_are_without_augmentation():
    network = nn.ModuleFactory(nn.ConvNet, channels=2, dropout=0.0, augment="shift")
    with quiet():
        net = NetClassifier(network, max_iter=1, random_state=0).fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match="its network has no dropout"):
        net.predict_samples(IMAGES, 2, random_state=0)


def test_targets_of_any_kind():
    with quiet():
        regressor = NetRegressor("conv", max_iter=20, batch_size=50, random_state=0).fit(
            IMAGES, IMAGES.mean((1, 2))
        )
        several = NetClassifier("gru", max_iter=2, random_state=0).fit(IDS, np.c_[HAS_THREE, RISES])
    assert regressor.score(IMAGES, IMAGES.mean((1, 2))) > 0.5
    assert several.predict(IDS).shape == (300, 2)


def test_channels_of_color_images_are_standardized_apart():
    colors = RNG.normal(size=(60, 6, 5, 3)) * [1, 10, 100] + [0, 5, -5]
    for X, shape in ((colors, (3,)), (np.moveaxis(colors, -1, 1), (3, 1, 1))):
        estimator = fitted("conv", X, LABELS[:60], max_iter=1)
        units = estimator._input_scaling.inputs["X"]
        np.testing.assert_allclose(units.mean.ravel(), colors.mean((0, 1, 2)), rtol=1e-12)
        np.testing.assert_allclose(units.scale.ravel(), colors.std((0, 1, 2)), rtol=1e-12)
        assert units.mean.shape == shape


@pytest.mark.parametrize(
    ("module", "X", "message"),
    [
        ("convv", IMAGES, r"must be a class of modules, a module, or a str among .*Did you mean 'conv'\?"),
        (
            "conv",
            DIGITS,
            r"ConvNet is for images, .* got X of shape \(n, 64\): rows of pixels become images by",
        ),
        ("lstm", IMAGES[:, None], r"RecurrentNet is for sequences"),
        ("gru", -IDS, r"ids must not be negative"),
    ],
)
def test_what_does_not_fit(module, X, message):
    with pytest.raises((TypeError, ValueError), match=message):
        NetClassifier(module, max_iter=1).fit(X, LABELS[: len(X)])


@pytest.mark.parametrize("name", ["lstm", "gru", "tcn", "transformer"])
def test_empty_sequences_are_finite_and_read_no_padding(name):
    rows = [[], *[row[: 1 + i % 8].tolist() for i, row in enumerate(IDS[:60])]]
    with quiet():
        net = NetClassifier(name, max_iter=2, random_state=0).fit(rows, [1, *HAS_THREE[:60]])
    beside = net.predict_proba([[], [1, 2, 3, 4]])
    assert np.isfinite(beside).all()
    np.testing.assert_allclose(net.predict_proba(np.full((1, 8), 5), lengths=[0]), beside[:1], rtol=1e-5)
    np.testing.assert_array_equal(net.freeze().predict_proba([[], [1, 2, 3, 4]]), beside)


def test_steps_have_as_many_features_as_in_the_fit():
    with quiet():
        net = NetClassifier("gru", max_iter=1, random_state=0).fit(SERIES, RISES)
    for predict in (net.predict, net.freeze().predict):
        with pytest.raises(ValueError, match=r"X of shape \(n, 8, 3\) must have 2 features, as in the fit"):
            predict(np.zeros((4, 8, 3)))
