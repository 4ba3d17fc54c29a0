"""A scaled quotient: cases that the contract tests do not cover."""

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import compile

X = np.arange(1.0, 4.0)


@pytest.mark.parametrize("operands", [(X, 2.0, X + 1), (X, X, -1.5), (2, 3.0, X), (3.0, X, 2)])
def test_numbers(operands):
    scale, x, y = operands
    np.testing.assert_array_equal(ops.scaled_quotient(*operands).numpy(), scale * x / y)
    narrow = [v.astype("float32") if isinstance(v, np.ndarray) else v for v in operands]
    assert ops.scaled_quotient(*narrow).dtype == "float32"


@pytest.mark.parametrize("exact", [True, False])
def test_order(exact):
    """Uncompiled and exact, the product comes first."""
    args = np.array(0.1), np.random.default_rng(0).standard_normal(1000), np.arange(1.0, 1001.0)
    eager = ops.scaled_quotient(*map(Tensor, args)).numpy()
    np.testing.assert_array_equal(eager, args[0] * args[1] / args[2])
    found = compile(ops.scaled_quotient, args, exact=exact)(*args)
    np.testing.assert_array_equal(found, eager if exact else args[0] * (args[1] / args[2]))
    assert np.any(args[0] * (args[1] / args[2]) != eager)


def test_a_constant_and_an_argument():
    found = compile(lambda y: ops.scaled_quotient(0.5, X, y), (X,))(X + 1)
    np.testing.assert_allclose(found, 0.5 * X / (X + 1))
