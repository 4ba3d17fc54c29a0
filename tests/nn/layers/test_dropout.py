"""Dropout: the share of zeros, the expectation, and the arguments that determine the mask."""

import numpy as np
import pytest

from sknet import Tensor, grad, nn, ops
from sknet.nn import functional_call

X = np.random.default_rng(0).uniform(1.0, 2.0, size=(200, 100))


def drop(p=0.3, x=X, net=None, **options):
    return functional_call(net or nn.Dropout(p), {}, x, **{"key": (1, 2), **options})[0].numpy()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share_of_zeros_and_scale(p):
    out = drop(p)
    kept = out != 0
    # five standard deviations of a binomial count
    assert abs(kept.mean() - (1 - p)) < 5 * np.sqrt(p * (1 - p) / X.size)
    np.testing.assert_allclose(out[kept], X[kept] / (1 - p), rtol=1e-12)


def test_expectation():
    total = sum(drop(0.4, step=step).mean() for step in range(20)) / 20
    deviation = np.sqrt(0.4 / 0.6 * (X**2).mean() / (20 * X.size))
    assert abs(total - X.mean()) < 5 * deviation


def test_key_and_step_decide():
    np.testing.assert_array_equal(drop(), drop())
    for other in ({"step": 1}, {"key": (1, 3)}, {"key": (2, 2)}):
        assert not np.array_equal(drop(), drop(**other))


def test_the_mask_does_not_depend_on_dtype():
    np.testing.assert_array_equal(drop() == 0, drop(x=X.astype(np.float32)) == 0)
    assert drop(x=X.astype(np.float32)).dtype == np.float32


def test_layers_of_one_pass_differ():
    class Twice(nn.Module):
        def __init__(self):
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x) - self.drop(x)

    assert drop(net=Twice()).any()


def test_calls_outside_a_scope_are_fresh():
    layer = nn.Dropout(0.5)
    assert not np.array_equal(layer(X).numpy(), layer(X).numpy())


def test_prediction_is_the_identity():
    x = Tensor(X)
    assert nn.Dropout(0.5).eval()(x) is x
    output, _ = functional_call(nn.Dropout(0.5), {}, x, training=False)
    assert output is x


def test_edges():
    x = Tensor(X)
    assert nn.Dropout(0.0)(x) is x
    assert not drop(1.0).any()


def test_gradient_is_the_mask():
    slope = grad(lambda x: functional_call(nn.Dropout(0.3), {}, x, key=(1, 2))[0].sum())(Tensor(X))
    np.testing.assert_allclose(slope.numpy() * X, drop(), rtol=1e-12)


@pytest.mark.parametrize("p", [-0.1, 1.1, None, "half"])
def test_wrong_arguments(p):
    with pytest.raises(
        ValueError, match=r"The 'p' parameter of Dropout must be a float in the range \[0.0, 1.0\]"
    ):
        nn.Dropout(p)


def test_what_is_dropped_becomes_the_limit_of_selu():
    x = np.full((50, 40), 3.0)
    found = functional_call(nn.AlphaDropout(0.5), {}, x, key=(0, 1))[0].numpy()
    low, high = np.unique(found)
    limit = ops.selu(-1e3).item()
    np.testing.assert_allclose((high - low) / (3.0 - limit), (0.5 + limit**2 * 0.25) ** -0.5, rtol=1e-12)
