"""The log loss: scikit-learn's values, every logit, its link and its targets."""

import numpy as np
import pytest
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.metrics import hinge_loss, log_loss

from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import Focal, Hinge, LogLoss
from tests.losses.helpers import value_and_gradient


def test_binary_equals_scikit_learn():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(50, 1)), rng.integers(0, 2, 50)
    assert LogLoss().values(z, y).numpy().mean() == pytest.approx(log_loss(y, expit(z.ravel())), rel=1e-13)


def test_multiclass_equals_scikit_learn():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    expected = log_loss(y, softmax(z, axis=1), labels=range(4))
    assert LogLoss().values(z, y).numpy().mean() == pytest.approx(expected, rel=1e-13)


def test_multilabel_is_the_sum_of_its_labels():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 3))
    expected = sum(log_loss(y[:, k], expit(z[:, k])) for k in range(3))
    assert LogLoss(multilabel=True).values(z, y).numpy().mean() == pytest.approx(expected, rel=1e-13)


def test_two_classes_equal_one_output():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(20, 1)), rng.integers(0, 2, 20)
    both = np.hstack([np.zeros_like(z), z])
    one, two = LogLoss().values(z, y).numpy(), LogLoss().values(both, y).numpy()
    np.testing.assert_allclose(one, two, rtol=1e-13)


def test_output_without_its_axis_is_binary():
    z, y = np.array([0.5, -2.0]), np.array([1.0, 0.0])
    np.testing.assert_array_equal(LogLoss().values(z, y).numpy(), LogLoss().values(z[:, None], y).numpy())
    np.testing.assert_array_equal(LogLoss().predict(z).numpy(), LogLoss().predict(z[:, None]).numpy().ravel())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("loss", "z", "y", "values", "gradient"),
    [
        (LogLoss(), [[1e4], [-1e4], [1e4], [-1e4]], [1, 0, 0, 1], [0, 0, 1e4, 1e4], [[0], [0], [1], [-1]]),
        (LogLoss(multilabel=True), [[1e4, -1e4]], [[0, 0]], [1e4], [[1, 0]]),
        (LogLoss(), [[1e4, -1e4, 0]], [0], [0], [[0, 0, 0]]),
        (LogLoss(), [[1e4, -1e4, 0]], [1], [2e4], [[1, -1, 0]]),
        (LogLoss(), [[1e4, 1e4]], [1], [np.log(2)], [[0.5, -0.5]]),
    ],
)
def test_no_logit_is_too_large(dtype, loss, z, y, values, gradient):
    got = value_and_gradient(loss, np.array(z, dtype), np.array(y))
    np.testing.assert_allclose(got[0], values, rtol=1e-6)
    np.testing.assert_allclose(got[1], gradient, rtol=1e-6)


def test_small_losses_keep_their_digits_in_float32():
    z = np.array([[100.0, 90.0]], np.float32)
    np.testing.assert_allclose(LogLoss().values(z, np.array([0])).numpy(), np.log1p(np.exp(-10.0)), rtol=2e-3)


def test_link():
    z = np.random.default_rng(0).normal(size=(5, 3)) * 10
    cases = [
        (LogLoss(), z, softmax(z, axis=1), log_softmax(z, axis=1)),
        (LogLoss(True), z, expit(z), log_expit(z)),
        (LogLoss(), z[:, :1], expit(z[:, :1]), log_expit(z[:, :1])),
    ]
    for loss, output, expected, log_expected in cases:
        np.testing.assert_allclose(loss.predict(output).numpy(), expected, rtol=1e-13)
        np.testing.assert_allclose(loss.log_predict(output).numpy(), log_expected, rtol=1e-13)


def test_log_link_where_the_probability_is_zero():
    z = np.array([[-1e4, 1e4]])
    np.testing.assert_array_equal(LogLoss().log_predict(z).numpy(), [[-2e4, 0]])
    np.testing.assert_array_equal(LogLoss(multilabel=True).log_predict(z).numpy(), [[-1e4, 0]])
    np.testing.assert_array_equal(LogLoss().log_predict(z[:, :1]).numpy(), [[-1e4]])


@pytest.mark.parametrize(
    ("loss", "y", "n_outputs", "message"),
    [
        (LogLoss(), [0, 1, -1], None, r"y must be a class, an integer from 0, but y\[2\] is -1"),
        (LogLoss(), [0, 1.5], None, r"y must be a class, an integer from 0, but y\[1\] is 1.5"),
        (LogLoss(), [0, 3], 3, r"y must be a class, an integer from 0 to 2, but y\[1\] is 3"),
        (LogLoss(), [0, 2], 1, r"y must be 0 or 1 for LogLoss\(\), but y\[1\] is 2"),
        (
            LogLoss(True),
            [[0, 1], [0, 2]],
            2,
            r"y must be 0 or 1 for LogLoss\(multilabel=True\), but y\[1, 1\] is 2",
        ),
        (LogLoss(True), [[0, 0.5]], None, r"y must be 0 or 1 for .*, but y\[0, 1\] is 0.5"),
    ],
)
def test_targets_outside_the_domain(loss, y, n_outputs, message):
    with pytest.raises(ValueError, match=message):
        loss.check_target(np.array(y), n_outputs=n_outputs)


def test_booleans_and_whole_numbers_are_targets():
    LogLoss().check_target(np.array([True, False]))
    LogLoss().check_target(np.array([0.0, 2.0]), n_outputs=3)
    LogLoss().check_target([0, 1, 2])


def test_class_targets_must_be_integers():
    with pytest.raises(
        DtypeError, match=r"targets of dtype float64 for 3 classes; they must be integers\. Cast"
    ):
        LogLoss().values(np.zeros((2, 3)), np.zeros(2))


def test_a_class_at_every_position():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(6, 3, 5, 4)), rng.integers(0, 4, (6, 3, 5))
    expected = [LogLoss().values(z[i].reshape(15, 4), y[i].ravel()).numpy().mean() for i in range(6)]
    np.testing.assert_allclose(LogLoss().values(z, y).numpy(), expected, rtol=1e-13)
    _, slope = value_and_gradient(LogLoss(), z, y)
    _, flat = value_and_gradient(LogLoss(), z.reshape(90, 4), y.ravel())
    np.testing.assert_allclose(slope.reshape(90, 4), flat / 15, rtol=1e-12)


def test_one_class_per_position():
    with pytest.raises(ShapeError, match=r"must have shape \(2, 3\), one class number a position"):
        LogLoss().values(np.zeros((2, 3, 4)), np.zeros(2, int))


def test_one_hot_targets_raise():
    with pytest.raises(ShapeError, match=r"target of shape \(2, 3\)"):
        LogLoss().values(np.zeros((2, 3)), np.eye(3, dtype=int)[:2])


def test_for_task_turns_to_several_labels():
    loss = LogLoss()
    assert loss.for_task("binary") is loss.for_task("multiclass") is loss
    assert loss.for_task("multilabel") == LogLoss(multilabel=True)
    assert loss == LogLoss()
    assert Hinge(squared=True).for_task("multilabel") == Hinge(squared=True, multilabel=True)
    labels = LogLoss(multilabel=True)
    assert labels.for_task("multilabel") is labels


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_several_labels_are_not_classes(task):
    with pytest.raises(ValueError, match=rf"several 0/1 labels; the task here is {task}. Use LogLoss\(\)"):
        LogLoss(multilabel=True).for_task(task)
    with pytest.raises(ValueError, match=r"Use Focal\(gamma=1.0\), which also"):
        Focal(1.0, multilabel=True).for_task(task)


def test_smoothed_labels_are_two_smoothed_classes():
    z, y = np.random.default_rng(0).normal(size=(20, 1)), np.random.default_rng(1).integers(0, 2, 20)
    loss, both = LogLoss(label_smoothing=0.3), np.hstack([np.zeros_like(z), z])
    np.testing.assert_allclose(loss.values(z, y).numpy(), loss.values(both, y).numpy(), rtol=1e-12)


@pytest.mark.parametrize("shape", [(50, 1), (50, 4)])
def test_hinge_equals_scikit_learn(shape):
    rng = np.random.default_rng(0)
    z, y = 2 * rng.normal(size=shape), rng.integers(0, max(shape[1], 2), 50)
    expected = hinge_loss(
        y, z if shape[1] > 1 else z.ravel(), labels=range(shape[1]) if shape[1] > 1 else None
    )
    assert Hinge().values(z, y).numpy().mean() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(Hinge(squared=True).values(z, y).numpy(), Hinge().values(z, y).numpy() ** 2)
    np.testing.assert_array_equal(Hinge().predict(z).numpy(), z)
    assert not Hinge.has_probabilities


def test_hinge_moves_the_true_class_and_the_one_that_is_too_near():
    _, gradient = value_and_gradient(Hinge(), np.array([[2.0, 0.0, 1.5], [5.0, 1.0, 1.0]]), np.array([0, 0]))
    np.testing.assert_array_equal(gradient, [[-1, 0, 1], [0, 0, 0]])


def test_focal_without_gamma_is_the_log_loss():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(20, 4)), rng.integers(0, 4, 20)
    np.testing.assert_allclose(Focal(0.0).values(z, y).numpy(), LogLoss().values(z, y).numpy(), rtol=1e-12)
    np.testing.assert_array_equal(Focal().predict(z).numpy(), LogLoss().predict(z).numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_focal_is_finite_far_out(gamma, dtype):
    loss = Focal(gamma)
    for z, y, expected in (
        ([[1e4], [-1e4]], [1, 0], [0, 0]),
        ([[1e4], [-1e4]], [0, 1], [1e4, 1e4]),
        ([[1e4, -1e4, 0], [1e4, -1e4, 0]], [0, 1], [0, 2e4]),
    ):
        values, gradient = value_and_gradient(loss, np.array(z, dtype), np.array(y))
        np.testing.assert_allclose(values, expected, atol=1e-12)
        assert np.isfinite(gradient).all()
