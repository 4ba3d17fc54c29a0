"""Names, parameters, and optimizers that users write."""

import numpy as np
import pytest

from sknet.exceptions import InvalidParameterError
from sknet.optim import LBFGS, OPTIMIZERS, SGD, Adam, AdamW, Optimizer, RMSprop, check_optimizer
from sknet.optim.schedules import Constant, Progress


def test_names_become_optimizers():
    for name, optimizer in OPTIMIZERS.items():
        assert check_optimizer(name, caller="Net") == optimizer()


@pytest.mark.parametrize("optimizer", [Adam(lr=0.5), LBFGS(memory=3), SGD(lr=Constant(0.1))], ids=str)
def test_objects_pass(optimizer):
    assert check_optimizer(optimizer, caller="Net") is optimizer


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "adan",
            r"'optimizer' parameter of Net must be a str among \['adadelta', .*'sgd'\].* Did you mean 'adam'",
        ),
        ("rms_prop", r"Got 'rms_prop' instead\. Did you mean 'rmsprop'"),
        (SGD, r"or an instance of BaseOptimizer\. Got .* Pass an instance: SGD\(\)"),
        (3, r"Got 3 instead"),
        (
            SGD(lr=0),
            r"'lr' parameter of SGD must be a float in the range \(0\.0, inf\), .*Schedule' or a callable",
        ),
        (SGD(lr="fast"), r"'lr' parameter of SGD must be .* Got 'fast'"),
        (
            SGD(momentum=1.1),
            r"'momentum' parameter of SGD must be a float in the range \[0\.0, 1\.0\]\. Got 1\.1",
        ),
        (SGD(nesterov=3.5), r"'nesterov' parameter of SGD must be .* Got 3\.5"),
        (
            Adam(beta1=1.0),
            r"'beta1' parameter of Adam must be a float in the range \[0\.0, 1\.0\)\. Got 1\.0",
        ),
        (Adam(beta2=-0.1), r"'beta2' parameter of Adam must be .* Got -0\.1"),
        (Adam(eps=0.0), r"'eps' parameter of Adam must be a float in the range \(0\.0, inf\)\. Got 0\.0"),
        (AdamW(weight_decay=-1.0), r"'weight_decay' parameter of AdamW must be .* Got -1\.0"),
        (RMSprop(rho=1.0), r"'rho' parameter of RMSprop must be .* Got 1\.0"),
        (RMSprop(momentum=-1), r"'momentum' parameter of RMSprop must be .* Got -1"),
        (LBFGS(memory=0), r"'memory' parameter of LBFGS must be an int in the range \[1, inf\)\. Got 0"),
        (LBFGS(max_fun=0), r"'max_fun' parameter of LBFGS must be .* Got 0"),
        (LBFGS(gtol=-1.0), r"'gtol' parameter of LBFGS must be .* or None\. Got -1\.0"),
        (LBFGS(ftol=None), r"'ftol' parameter of LBFGS must be .* Got None"),
        (Adam(lr=Constant(-1.0)), r"'lr' parameter of Constant must be .* Got -1\.0"),
    ],
    ids=str,
)
def test_other_objects_raise(value, message):
    with pytest.raises(InvalidParameterError, match=message):
        check_optimizer(value, caller="Net")


def test_equality_is_by_type_and_parameters():
    assert Adam(lr=0.1) == Adam(0.1)
    assert Adam(lr=0.1) != Adam()
    assert Adam() != AdamW()
    assert SGD(lr=Constant(0.1)) == SGD(lr=Constant(0.1))
    assert SGD(lr=Constant(0.1)) != SGD(lr=0.1)


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Optimizer()


class Plain(Optimizer):
    """Gradient descent without any slot."""

    def __init__(self, lr=0.1):
        self.lr = lr

    def rule(self, gradient, param, slots, hyper):
        return gradient * -hyper["lr"], ()


def test_a_custom_optimizer():
    optimizer = check_optimizer(Plain(), caller="Net")
    params = {"a": np.array([1.0]), "b": np.array([2.0])}
    deltas, state = optimizer.update(params, optimizer.init(params), params, Progress(step=9))
    assert deltas == {"a": np.array([-0.1]), "b": np.array([-0.2])}
    assert state == (1, {})
