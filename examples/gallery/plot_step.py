"""
One step in pieces, with the graph drawn
========================================

A training step is a forward pass, a loss, a gradient and an update. A `Model` does each of them on
its own, none of which changes the model, and shows what a step computes as a graph.
"""

import matplotlib.pyplot as plt
import numpy as np

from sknet import Model, nn, ops
from sknet.compile import capture
from sknet.display import GraphDisplay
from sknet.optim import Adam


class Residual(nn.Module):
    """Adds what it computes to its inputs."""

    def __init__(self, width):
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + ops.relu(self.inner(x))


rng = np.random.default_rng(0)
X = rng.normal(size=(64, 4)).astype("float32")
y = X[:, :1] * X[:, 1:2]
network = nn.Sequential(nn.Linear(4, 8), Residual(8), nn.Linear(8, 1))
model = Model(network, loss="squared_error", optimizer=Adam(1e-2), random_state=0)

# %%
# The pieces:

output = model(X)
loss = model.loss(output, y)
gradient = model.backward(loss)
state = model.update(gradient)
after = model.replace(state)
print(f"loss {loss.item():.4f}, after the step {after.loss(after(X), y).item():.4f}")

# %%
# The network layer by layer, and its forward pass operation by operation, as it is captured and
# compiled.

figure, axes = plt.subplots(1, 2, figsize=(9, 7), layout="constrained", width_ratios=(1, 2))
GraphDisplay.from_module(network, (64, 4)).plot(axes[0])
axes[0].set_title("layers")
GraphDisplay.from_graph(capture(model.module, X)).plot(axes[1])
axes[1].set_title("operations of the forward pass")
plt.show()

# %%
# What the step would change: the update of each weight of the last layer, Adam's step against the
# sign of the gradient.

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
name = "2.weight"
ax.bar(np.arange(8) - 0.2, gradient[name].ravel(), 0.4, label="gradient")
twin = ax.twinx()
change = after.parameters[name] - model.parameters[name]
twin.bar(np.arange(8) + 0.2, change.ravel(), 0.4, color="C1", label="change")
ax.set(xlabel="weight of the last layer", ylabel="gradient")
twin.set_ylabel("change")
figure.legend(loc="outside upper right", ncols=2)
plt.show()
