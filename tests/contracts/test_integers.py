"""Wherever an int is accepted, a NumPy integer is: lengths and axes often come from arrays."""

import numpy as np
import pytest

from sknet import Tensor, autograd, nn, ops
from tests.combinations import every

X = Tensor(np.linspace(0.1, 1.2, 12).reshape(3, 4))
IMAGES = Tensor(np.linspace(-1.0, 1.0, 64).reshape(2, 2, 4, 4))
KERNEL = np.linspace(-1.0, 1.0, 18).reshape(2, 1, 3, 3)
CASES = {
    "reshape": lambda n: ops.reshape(X, n(12)),
    "reshape, method": lambda n: X.reshape(n(12)),
    "broadcast_to": lambda n: ops.broadcast_to(2.0, n(3)),
    "zeros": lambda n: ops.zeros(n(3)),
    "full": lambda n: ops.full(n(3), 2.0),
    "one_hot": lambda n: ops.one_hot([0, 1], n(3)),
    "sum": lambda n: ops.sum(X, axis=n(1)),
    "expand_dims": lambda n: ops.expand_dims(X, n(1)),
    "moveaxis": lambda n: ops.moveaxis(X, n(0), n(-1)),
    "tensordot": lambda n: ops.tensordot(X, X.T, n(1)),
    "tile": lambda n: ops.tile(X, n(2)),
    "roll": lambda n: ops.roll(X, n(1), axis=n(0)),
    "index": lambda n: X[n(1)],
    "layer_norm": lambda n: ops.layer_norm(X, n(4)),
    "conv2d": lambda n: ops.conv2d(IMAGES, KERNEL, stride=n(1), padding=n(1), groups=n(2)),
    "max_pool2d": lambda n: ops.max_pool2d(IMAGES, n(2)),
    "adaptive_avg_pool2d": lambda n: ops.adaptive_avg_pool2d(IMAGES, n(2)),
    "vmap": lambda n: autograd.vmap(ops.sum, n(1))(X),
    "grad": lambda n: autograd.grad(lambda a, b: (a * b).sum(), n(1))(X, X),
    "value_and_grad": lambda n: autograd.value_and_grad(lambda a, b: (a * b).sum(), n(1))(X, X)[1],
    "jacobian": lambda n: autograd.jacobian(lambda a, b: a * b, n(1))(X[0], X[0]),
    "Linear": lambda n: nn.Linear(n(4), n(2)).initialize(0)(X),
    "LayerNorm": lambda n: nn.LayerNorm(n(4))(X),
}


@pytest.mark.parametrize("integer", [np.int64, np.uint8, np.intp], ids=lambda x: x.__name__)
@every(name=CASES)
def test_integers_of_numpy(name, integer):
    case = CASES[name]
    signed = np.int8 if integer is np.uint8 and name == "moveaxis" else integer
    found, expected = case(signed), case(int)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
