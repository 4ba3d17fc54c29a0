"""The losses of probabilities: PyTorch's limits, and the log loss's values."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from sknet.exceptions import DtypeError
from sknet.losses import NLL, BinaryCrossEntropy, KLDivergence, LogLoss
from tests.losses.helpers import value_and_gradient

RNG = np.random.default_rng(0)


def test_probabilities_cost_what_their_logits_cost():
    z, classes, labels = RNG.normal(size=(20, 4)), RNG.integers(0, 4, 20), RNG.integers(0, 2, (20, 4))
    np.testing.assert_allclose(
        NLL().values(softmax(z, 1), classes).numpy(), LogLoss().values(z, classes).numpy()
    )
    expected = LogLoss(multilabel=True).values(z, labels).numpy()
    np.testing.assert_allclose(BinaryCrossEntropy().values(expit(z), labels).numpy(), expected)


@pytest.mark.parametrize(("dtype", "largest"), [("float64", 100.0), ("float32", 87.34)])
def test_no_probability_costs_infinitely_much(dtype, largest):
    p = np.array([[0.0, 1.0]], dtype)
    for loss, y, expected in (
        (NLL(), [0], largest),
        (NLL(), [1], 0),
        (BinaryCrossEntropy(), [[1, 0]], 2 * largest),
        (BinaryCrossEntropy(), [[0, 1]], 0),
    ):
        values, gradient = value_and_gradient(loss, p, np.array(y))
        np.testing.assert_allclose(values, expected, rtol=1e-4)
        assert np.isfinite(gradient).all()


def test_the_limit_is_pytorchs():
    torch = pytest.importorskip("torch")
    p, y = np.array([0.0, 1e-60, 0.3, 1.0]), np.array([1.0, 1.0, 1.0, 0.0])
    expected = torch.nn.functional.binary_cross_entropy(torch.tensor(p), torch.tensor(y), reduction="none")
    np.testing.assert_allclose(
        BinaryCrossEntropy().values(p[:, None], y).numpy(), expected.numpy(), rtol=1e-12
    )


def test_links():
    p = softmax(RNG.normal(size=(5, 3)), axis=1)
    for loss in (NLL(), BinaryCrossEntropy()):
        np.testing.assert_array_equal(loss.predict(p).numpy(), p)
        assert loss.threshold == 0.5
    z = RNG.normal(size=(5, 3))
    np.testing.assert_allclose(KLDivergence().predict(z).numpy(), softmax(z, axis=1))


def test_divergence_of_one_hot_targets_is_the_log_loss():
    z, classes = RNG.normal(size=(20, 4)), RNG.integers(0, 4, 20)
    np.testing.assert_allclose(
        KLDivergence().values(z, np.eye(4)[classes]).numpy(), LogLoss().values(z, classes).numpy(), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (NLL(), [0, -1], r"y must be a class, an integer from 0, but y\[1\] is -1"),
        (
            BinaryCrossEntropy(),
            [[0, 1.5]],
            r"y must be between 0 and 1 for BinaryCrossEntropy, but y\[0, 1\] is 1.5",
        ),
        (KLDivergence(), [0.5, 0.5], r"y must have a column for each outcome, but its shape is \(2,\)"),
        (KLDivergence(), [[1.0], [1.0]], r"y must have a column for each outcome, but its shape is \(2, 1\)"),
        (KLDivergence(), [[1.5, -0.5]], r"y must be 0 or more for KLDivergence, .*, but y\[0, 1\] is -0.5"),
        (
            KLDivergence(),
            [[0.5, 0.5], [0.5, 0.4]],
            r"the sum over y's columns must be 1 for KLDivergence, but .* is 0.9",
        ),
    ],
)
def test_targets_outside_the_domain(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.check_target(np.array(y))


def test_class_targets_must_be_integers():
    with pytest.raises(
        DtypeError, match=r"NLL got targets of dtype float64 .* use BinaryCrossEntropy\(\) for 0/1"
    ):
        NLL().values(np.ones((2, 3)), np.zeros(2))
