"""The comparison of a layer with PyTorch's."""

import numpy as np

from sknet import Tensor

RNG = np.random.default_rng(0)


def same(layer, theirs, shape):
    """Compare outputs and gradients of a layer with PyTorch's."""
    import torch  # which modules of tests can do without

    values = RNG.normal(size=shape)
    x, tx = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    out, tout = layer(x), theirs(tx)
    np.testing.assert_allclose(out.numpy(), tout.detach().numpy(), rtol=1e-10, atol=1e-10)
    weights = RNG.normal(size=out.shape)
    (out * weights).sum().backward()
    (tout * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=1e-10, atol=1e-10)
