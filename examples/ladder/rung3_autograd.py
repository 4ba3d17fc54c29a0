"""Rung 3, autograd: the backward pass is automatic.

Operations on tensors that require a gradient are recorded, and `backward` follows that record from the
loss back to them. The update itself must not be recorded, so it is inside `no_grad`. A new gradient is
added to the existing one; setting it to None clears it.
"""

import numpy as np

from sknet import Tensor, no_grad, ops

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2))
y = np.sin(3 * X[:, :1]) * X[:, 1:]

W1, b1 = Tensor(rng.standard_normal((2, 32)), requires_grad=True), Tensor(np.zeros(32), requires_grad=True)
W2, b2 = Tensor(rng.standard_normal((32, 1)) / 6, requires_grad=True), Tensor(np.zeros(1), requires_grad=True)

for step in range(201):
    output = ops.relu(X @ W1 + b1) @ W2 + b2
    loss = ((output - y) ** 2).mean()
    if step % 50 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}")

    loss.backward()
    with no_grad():
        for parameter in (W1, b1, W2, b2):
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
