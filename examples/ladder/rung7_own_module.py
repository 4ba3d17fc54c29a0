"""Rung 7, a custom module: `forward` is any code.

Attributes that are modules or parameters are registered automatically. This network adds the output of
its hidden layer to a plain linear map, with a learned weight: no list of layers could express that.
"""

import numpy as np

from sknet import nn, no_grad, ops
from sknet.losses import SquaredError


class WithShortcut(nn.Module):
    """A linear map, and a hidden layer beside it."""

    def __init__(self, n_in, width, n_out):
        self.hidden = nn.Linear(n_in, width)
        self.output = nn.Linear(width, n_out)
        self.shortcut = nn.Linear(n_in, n_out)
        self.strength = nn.Parameter(np.float32([0.5]))

    def forward(self, x):
        return self.shortcut(x) + self.strength * self.output(ops.tanh(self.hidden(x)))


rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2)).astype("float32")
y = np.sin(3 * X[:, :1]) * X[:, 1:]

network, criterion = WithShortcut(2, 32, 1).initialize(0), SquaredError()
for step in range(401):
    loss = criterion.values(network(X), y).mean()
    if step % 100 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}  strength {network.strength.item():.2f}")

    loss.backward()
    with no_grad():
        for parameter in network.parameters():
            parameter -= 0.3 * parameter.grad
            parameter.grad = None
