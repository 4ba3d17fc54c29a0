"""Weighted means: ignored targets, class weights, and weights of single positions, against PyTorch."""

import itertools

import numpy as np
import pytest

from sknet import Model, Tensor, nn
from sknet.exceptions import ShapeError
from sknet.losses import NLL, BinaryCrossEntropy, Focal, LogLoss, SquaredError
from sknet.optim import SGD
from tests.engine.helpers import assert_same

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

RNG = np.random.default_rng(0)
W = [0.5, 2.0, 1.5]
SHAPES = [(7,), (4, 5), (2, 3, 2)]
SETTINGS = [
    dict(zip(("class_weight", "label_smoothing", "ignore_index"), values, strict=True))
    for values in itertools.product([None, W], [0.0, 0.3], [None, -1, 2, -100])
]


def mean(loss, z, y, weight=None):
    """Return a model's mean loss, and its gradient in the output."""
    output = Tensor(z, requires_grad=True)
    found = Model(nn.Linear(1, 1), loss, dtype="float64").loss(output, y, weight)
    found.backward()
    return found.item(), output.grad.numpy()


def drawn(shape, ignored=None):
    y = RNG.integers(0, 3, shape)
    if ignored is not None:
        y[RNG.random(shape) < 0.4] = ignored
        y.ravel()[0] = 0
    return RNG.normal(size=(*shape, 3)), y


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_mean_of_cross_entropy_is_pytorchs(settings, shape):
    z, y = drawn(shape, settings["ignore_index"])
    theirs = torch.tensor(z, requires_grad=True)
    options = {"ignore_index": -100} | {
        k: v for k, v in settings.items() if k != "class_weight" and v is not None
    }
    weight = None if settings["class_weight"] is None else torch.tensor(W).double()
    expected = torch.nn.functional.cross_entropy(theirs.movedim(-1, 1), torch.tensor(y), weight, **options)
    expected.backward()
    value, gradient = mean(LogLoss(**settings), z, y)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-12)
    np.testing.assert_allclose(gradient, theirs.grad.numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "loss", [LogLoss(), LogLoss(class_weight=W, ignore_index=1, label_smoothing=0.1), Focal(), NLL()], ids=str
)
def test_weights_of_positions_are_those_of_rows(loss, shape):
    z, y = drawn(shape)
    z = np.exp(z) / np.exp(z).sum(-1, keepdims=True) if loss.of_probabilities else z
    weight = RNG.uniform(0, 2, shape)
    weight[RNG.random(shape) < 0.2] = 0
    expected, flat = mean(loss, z.reshape(-1, 3), y.ravel(), weight.ravel())
    value, gradient = mean(loss, z, y, weight)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient.reshape(-1, 3), flat, rtol=1e-12)


@pytest.mark.parametrize("loss", [LogLoss(), SquaredError(), LogLoss(multilabel=True)], ids=str)
def test_equal_position_weights_change_nothing(loss):
    z, y = drawn((4, 5))
    y = y if loss == LogLoss() else RNG.integers(0, 2, z.shape).astype(float)
    for weight in (np.full(4, 0.5), np.full((4, 5), 0.5)):
        np.testing.assert_allclose(mean(loss, z, y, weight)[0], mean(loss, z, y)[0], rtol=1e-12)


def test_weights_of_samples_and_ignored_positions():
    """The weighted mean, by hand: 1 * (l00 + l01) + 3 * l10 over 1 + 1 + 3."""
    z, y, weight = drawn((2, 2))[0], np.array([[0, 2], [1, -1]]), np.array([1.0, 3.0])
    each = LogLoss().values(z[:, :, None].reshape(4, 3), np.array([0, 2, 1, 0])).numpy()
    value, gradient = mean(LogLoss(ignore_index=-1), z, y, weight)
    np.testing.assert_allclose(value, (each[0] + each[1] + 3 * each[2]) / 5, rtol=1e-12)
    assert (gradient[1, 1] == 0).all()


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_ignored_positions_may_hold_anything(shape):
    z, y = drawn(shape, -1)
    y.ravel()[:2] = (0, -1)
    value, _ = mean(LogLoss(ignore_index=-1), z, y)
    z[y == -1] = np.nan
    assert mean(LogLoss(ignore_index=-1), z, y)[0] == value


def test_a_batch_with_only_ignored_targets_costs_nothing():
    value, gradient = mean(LogLoss(ignore_index=-1), np.ones((2, 3, 4)), np.full((2, 3), -1))
    assert value == 0
    assert (gradient == 0).all()


def test_one_output_and_two_classes_are_weighted_alike():
    z, y = RNG.normal(size=(9, 1)), RNG.integers(-1, 2, 9)
    settings = {"class_weight": {1: 4.0}, "ignore_index": -1, "label_smoothing": 0.1}
    one, _ = mean(LogLoss(**settings), z, y)
    two, _ = mean(LogLoss(**settings | {"label_smoothing": 0.0}), np.hstack([0 * z, z]), y)
    plain, _ = mean(LogLoss(**settings | {"label_smoothing": 0.0}), z, y)
    np.testing.assert_allclose(plain, two, rtol=1e-12)
    assert one != plain


@pytest.mark.parametrize("loss", [LogLoss(), Focal(), NLL()], ids=str)
@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_negative_class_numbers_are_refused(loss, shape):
    z, y = drawn(shape, -1)
    y.ravel()[-1] = -1
    z = np.exp(z)
    with pytest.raises(ValueError, match=r"y must be a class, an integer from 0 to 2, but y\[.*\] is -1"):
        loss.values(z, y)
    with pytest.raises(ValueError, match=r"from 0 to 2, or -2 to be ignored, but y\[.*\] is -1"):
        type(loss)(ignore_index=-2).values(z, y)
    assert type(loss)(ignore_index=-1).values(z, y).shape == shape[:1]


def test_ignored_targets_pass_the_check():
    LogLoss(ignore_index=-1).check_target(np.array([0, -1, 2]), n_outputs=3)
    LogLoss(ignore_index=7).check_target(np.array([0, 7, 2]), n_outputs=3)
    LogLoss(multilabel=True, ignore_index=-1).check_target(np.array([[0, -1]]), n_outputs=2)
    with pytest.raises(ValueError, match=r"y must be 0 or 1 for .*, but y\[0, 1\] is -2"):
        LogLoss(multilabel=True, ignore_index=-1).check_target(np.array([[0, -2]]), n_outputs=2)


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        (
            {"class_weight": [1.0, 2.0]},
            (4, 3),
            "class_weight must have one number for each of 3 classes or labels",
        ),
        ({"class_weight": {3: 2.0}}, (4, 3), "class_weight has 3, which is not a class from 0 to 2"),
        (
            {"class_weight": [1.0, -2.0, 1.0]},
            (4, 3),
            r"must hold finite numbers of 0 or more, got \[1.0, -2.0",
        ),
        ({"class_weight": {1: 10**400}}, (4, 3), "must hold finite numbers of 0 or more, got {1: "),
        ({"class_weight": {1: "3"}}, (4, 3), "class_weight must hold numbers, one for each of 3 classes"),
        ({"class_weight": {1: None}}, (4, 3), "class_weight must hold numbers, one for each of 3 classes"),
        ({"class_weight": [1.0, [2.0], 3.0]}, (4, 3), "class_weight must hold numbers, one for each of 3"),
        ({"class_weight": np.array([1.0, 2j, 3.0], object)}, (4, 3), "must hold finite numbers of 0 or more"),
        (
            {"pos_weight": 2.0},
            (4, 3),
            "pos_weight is for one output or several labels, got 3 mutually exclusive",
        ),
        (
            {"pos_weight": [1.0, 2.0]},
            (4, 1),
            "pos_weight must have one number for each of 1 classes or labels",
        ),
    ],
)
def test_weights_that_do_not_fit(settings, shape, message):
    with pytest.raises(ValueError, match=message):
        LogLoss(**settings).values(np.zeros(shape), np.zeros(4, int))


@pytest.mark.parametrize(
    ("loss", "z", "y", "weight", "allowed"),
    [
        (LogLoss(), (2, 4, 3), (2, 4), (2, 3), "one number per position"),
        (LogLoss(), (2, 4, 3), (2, 4), (2, 4, 3), "one number per position"),
        (SquaredError(), (2, 4), (2, 4), (2, 3), r"\(2, 4\) for weights of targets"),
        (BinaryCrossEntropy(), (2, 1), (2, 1), (2, 2), r"\(2, 1\) for weights of targets"),
    ],
    ids=str,
)
def test_weights_of_missing_positions(loss, z, y, weight, allowed):
    with pytest.raises(ShapeError, match=rf"sample_weight must have shape \(2,\), or {allowed}"):
        mean(loss, np.full(z, 0.5), np.zeros(y, int), np.ones(weight))


@pytest.mark.parametrize("weight", [None, (3,), (3, 4)], ids=str)
def test_compiled_steps_keep_every_bit(weight):
    loss = LogLoss(class_weight=W, ignore_index=-1, label_smoothing=0.1)
    X, y = RNG.normal(size=(3, 4, 5)), drawn((3, 4), -1)[1]
    weight = None if weight is None else RNG.uniform(0.1, 2, weight)
    models = [
        Model(nn.Linear(5, 3), loss, SGD(0.1), alpha=0.1, random_state=0, dtype="float64", compile=mode)
        for mode in (True, False)
    ]
    for _ in range(4):
        found, expected = (model.step(X, y, weight) for model in models)
        assert found.loss == expected.loss
        assert_same(found.gradient, expected.gradient)
    assert models[0].loss_function == loss
