"""Rung 2, tensors: the same arithmetic on any device.

A `Tensor` is an array on a device, with the operators of arrays. The gradient is still written by
hand, but the script runs on a GPU without another change: ``python rung2_tensors.py cuda``.
"""

import sys

import numpy as np

from sknet import Tensor, ops

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2))
y = np.sin(3 * X[:, :1]) * X[:, 1:]
X, y = Tensor(X, device=device), Tensor(y, device=device)

W1, b1 = Tensor(rng.standard_normal((2, 32)), device=device), Tensor(np.zeros(32), device=device)
W2, b2 = Tensor(rng.standard_normal((32, 1)) / 6, device=device), Tensor(np.zeros(1), device=device)

for step in range(201):
    h = ops.relu(X @ W1 + b1)
    error = h @ W2 + b2 - y
    if step % 50 == 0:
        print(f"step {step:3}  loss {(error**2).mean().item():.4f}  on {error.device}")

    d_output = 2 * error / len(X)
    d_hidden = (d_output @ W2.T) * (h > 0)
    slopes = (X.T @ d_hidden, d_hidden.sum(0), h.T @ d_output, d_output.sum(0))

    for parameter, slope in zip((W1, b1, W2, b2), slopes, strict=True):
        parameter -= 0.1 * slope  # in place: these tensors record nothing
