"""Rung 8, a dynamic graph: one layer, applied a random number of times in every step.

The computation is recorded while it runs, so loops and branches need no special constructs. The layer in
the middle is one module with one weight: its gradient is the sum over all its uses.
"""

import numpy as np

from sknet import nn, no_grad, ops
from sknet.losses import SquaredError

rng = np.random.default_rng(0)


class Repeating(nn.Module):
    """A network whose middle layer is used any number of times."""

    def __init__(self, n_in, width, n_out):
        self.first = nn.Linear(n_in, width)
        self.shared = nn.Linear(width, width)
        self.last = nn.Linear(width, n_out)

    def forward(self, x, times):
        h = ops.tanh(self.first(x))
        for _ in range(times):
            h = ops.tanh(self.shared(h))
        return self.last(h)


X = rng.uniform(-1, 1, (256, 2)).astype("float32")
y = np.sin(3 * X[:, :1]) * X[:, 1:]

network, criterion = Repeating(2, 32, 1).initialize(0), SquaredError()
for step in range(801):
    times = 2 if step % 200 == 0 else int(rng.integers(4))
    loss = criterion.values(network(X, times), y).mean()
    if step % 200 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}  with the shared layer used twice")

    loss.backward()
    with no_grad():
        for parameter in network.parameters():
            if parameter.grad is not None:  # 0 times: the shared layer was not used
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
