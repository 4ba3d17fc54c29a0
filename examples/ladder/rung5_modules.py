"""Rung 5, modules: layers hold their parameters, and a network is a list of layers.

`Sequential` passes the data through; `parameters` finds everything to be learned, however deeply nested;
`initialize` draws all of it from one seed. The loss has a name as well. Only the step is still written by
hand, in a loop over the parameters.
"""

import numpy as np

from sknet import nn, no_grad
from sknet.losses import SquaredError

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2)).astype("float32")
y = np.sin(3 * X[:, :1]) * X[:, 1:]

network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)).initialize(0)
criterion = SquaredError()

for step in range(201):
    loss = criterion.values(network(X), y).mean()
    if step % 50 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}")

    loss.backward()
    with no_grad():
        for parameter in network.parameters():
            parameter -= 0.2 * parameter.grad
            parameter.grad = None

print({path: parameter.shape for path, parameter in network.named_parameters()})
