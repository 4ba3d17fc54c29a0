"""Rung 1, arrays: a network is two matrix products, and its gradient is the chain rule written out.

This uses nothing from sknet. Every line of the backward pass corresponds to a line of the forward pass,
in reverse order; changing one requires changing the other. The next rungs take this over step by step,
for the same network and the same data.
"""

import numpy as np

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2))
y = np.sin(3 * X[:, :1]) * X[:, 1:]

W1, b1 = rng.standard_normal((2, 32)), np.zeros(32)
W2, b2 = rng.standard_normal((32, 1)) / 6, np.zeros(1)

for step in range(201):
    h = np.maximum(X @ W1 + b1, 0)
    error = h @ W2 + b2 - y
    loss = (error**2).mean()
    if step % 50 == 0:
        print(f"step {step:3}  loss {loss:.4f}")

    d_output = 2 * error / len(X)
    d_hidden = (d_output @ W2.T) * (h > 0)
    slopes = (X.T @ d_hidden, d_hidden.sum(0), h.T @ d_output, d_output.sum(0))

    for parameter, slope in zip((W1, b1, W2, b2), slopes, strict=True):
        parameter -= 0.1 * slope
