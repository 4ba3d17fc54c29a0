"""Rung 4, a custom function: a new operation with the gradient that you define.

Here the hidden units are quantized to steps of a quarter, as on cheap hardware. The true gradient of
rounding is zero almost everywhere, so nothing would be learned; this `Function` uses a straight-through
gradient within the range. The rest of the script does not change.
"""

import numpy as np

from sknet import Function, Tensor, no_grad, ops


class Quantized(Function):
    """Rounds to quarters from 0 to 3; the backward pass is straight-through."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (4 * ops.clip(x, 0, 3) + 0.5).astype("int64") / 4

    @staticmethod
    def backward(ctx, gradient):
        [x] = ctx.saved_tensors
        return gradient * (x > 0) * (x < 3)


rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2))
y = np.sin(3 * X[:, :1]) * X[:, 1:]

W1, b1 = Tensor(rng.standard_normal((2, 32)), requires_grad=True), Tensor(np.zeros(32), requires_grad=True)
W2, b2 = Tensor(rng.standard_normal((32, 1)) / 6, requires_grad=True), Tensor(np.zeros(1), requires_grad=True)

for step in range(201):
    output = Quantized.apply(X @ W1 + b1) @ W2 + b2
    loss = ((output - y) ** 2).mean()
    if step % 50 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}")

    loss.backward()
    with no_grad():
        for parameter in (W1, b1, W2, b2):
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
