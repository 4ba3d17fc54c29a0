"""Rung 9, the model: module, loss and optimizer have one owner, and a step is one call.

There is no gradient to reset, no list of parameters passed around, no state in the optimizer: all of it
belongs to the `Model`. Values that used to be hidden are in the result of the step, by name.
"""

import numpy as np

from sknet import Model, nn
from sknet.optim import Adam

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2)).astype("float32")
y = np.sin(3 * X[:, :1]) * X[:, 1:]

model = Model(
    nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)),
    loss="squared_error",
    optimizer=Adam(lr=0.02),
    random_state=0,
)
for step in range(201):
    result = model.step(X, y)
    if step % 50 == 0:
        print(f"step {step:3}  loss {result.loss:.4f}")

for path, gradient in result.gradient.items():
    slope, change = np.abs(gradient).max(), np.abs(result.update[path]).max()
    print(f"{path:8}  largest slope {slope:.1e}, largest change {change:.1e}")
