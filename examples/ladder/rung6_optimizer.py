"""Rung 6, the optimizer: a stateless update rule.

`update` takes gradients, state and parameters, and returns differences and the next state. There are no
hidden changes, and no gradient to reset: `value_and_grad` returns it, and `functional_call` runs the
network with the given parameters. The complete state of training is in the two variables ``params`` and
``state``.
"""

import numpy as np

from sknet import nn, value_and_grad
from sknet.losses import SquaredError
from sknet.optim import Adam

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2)).astype("float32")
y = np.sin(3 * X[:, :1]) * X[:, 1:]

network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)).initialize(0)
criterion, optimizer = SquaredError(), Adam(lr=0.02)


@value_and_grad
def loss_and_gradient(params):
    output, _ = nn.functional_call(network, params, X)
    return criterion.values(output, y).mean()


params = {path: parameter.detach() for path, parameter in network.named_parameters()}
state = optimizer.init(params)
for step in range(201):
    loss, gradient = loss_and_gradient(params)
    if step % 50 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}")
    deltas, state = optimizer.update(gradient, state, params)
    params = {path: value + deltas[path] for path, value in params.items()}

print(f"{state.count} updates; moments of {list(state.slots)} for each of {list(params)}")
