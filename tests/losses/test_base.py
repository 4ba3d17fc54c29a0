"""Names, parameters, and losses that users write."""

import numpy as np
import pytest

from sknet import ops
from sknet.exceptions import InvalidParameterError
from sknet.losses import LOSSES, AbsoluteError, Huber, LogLoss, Loss, Quantile, SquaredError, check_loss


def test_names_become_losses():
    for name, loss in LOSSES.items():
        assert check_loss(name, caller="Net") == loss()


def test_objects_pass():
    loss = Huber(delta=2.0)
    assert check_loss(loss, caller="Net") is loss


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "logloss",
            r"The 'loss' parameter of Net must be a str among \['absolute_error', .* Did you mean 'log_loss'",
        ),
        ("square_error", r"Got 'square_error' instead\. Did you mean 'squared_error'"),
        (Huber, r"Pass an instance: Huber\(\)"),
        (None, r"must be .* or an instance of Loss\. Got None instead"),
        (
            Huber(-1.0),
            r"The 'delta' parameter of Huber must be a float in the range \(0\.0, inf\)\. Got -1\.0",
        ),
        (
            Quantile(1.0),
            r"The 'quantile' parameter of Quantile must be a float in the range \(0\.0, 1\.0\) .* Got 1\.0",
        ),
        (
            LogLoss(multilabel="yes"),
            r"The 'multilabel' parameter of LogLoss must be .*bool.* Got 'yes' instead",
        ),
    ],
    ids=str,
)
def test_objects_that_are_not_losses(value, message):
    with pytest.raises(InvalidParameterError, match=message):
        check_loss(value, caller="Net")


def test_equality_is_by_type_and_parameters():
    assert Huber(1.0) == Huber()
    assert Huber(2.0) != Huber()
    assert SquaredError() != AbsoluteError()
    assert SquaredError() != "squared_error"


def test_set_params():
    assert Huber().set_params(delta=3.0) == Huber(3.0)
    with pytest.raises(ValueError, match="Invalid parameter 'alpha' for estimator Huber"):
        Huber().set_params(alpha=3.0)


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Loss()


class Relative(Loss):
    """Squared error of the logarithm, for positive targets."""

    tasks = ("regression",)

    def values(self, output, target):
        z, y = self.pair(output, target)
        return self.total(ops.square(z - ops.log(y)))


def test_a_custom_loss():
    loss = check_loss(Relative(), caller="Net")
    assert loss.for_task("regression") is loss
    values = loss.values(np.zeros((2, 3)), np.full((2, 3), np.e))
    np.testing.assert_allclose(values.numpy(), [3.0, 3.0])
    assert not loss.mean_over_outputs
