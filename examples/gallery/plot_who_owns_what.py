"""
Who owns what
=============

What connects loss, optimizer and network? In sknet the `Model` holds everything that changes:
parameters and the optimizer's moments. Loss and optimizer are settings, like a learning rate. The
pictures show a layer's weights, its moments and its update, before the first step and after some.
"""

import matplotlib.pyplot as plt
import numpy as np

from sknet import Model, nn
from sknet.losses import SquaredError
from sknet.optim import Adam

rng = np.random.default_rng(0)
X = rng.normal(size=(256, 8)).astype("float32")
y = (X @ rng.normal(size=(8, 6))).astype("float32")
loss, optimizer = SquaredError(), Adam(lr=0.05)
model = Model(nn.Linear(8, 6), loss=loss, optimizer=optimizer, random_state=0)


def held():
    """Return what the model holds of the weight: itself, and its two moments."""
    state = model.state
    slots = {name: values[:48].reshape(8, 6) for name, values in state.optimizer.slots.items()}
    return {"weight": np.array(state.parameters["weight"]), **slots}


columns = {"before": held()}
for steps in (1, 20, 200):
    while model.progress.step < steps:
        result = model.step(X, y)
    columns[f"after {steps}"] = {**held(), "last update": result.update["weight"].reshape(8, 6)}

names = list(columns["after 1"])
figure, axes = plt.subplots(len(names), 4, figsize=(8, 8), layout="constrained")
for column, (title, arrays) in zip(axes.T, columns.items(), strict=True):
    column[0].set_title(title)
    for ax, name in zip(column, names, strict=True):
        ax.set(xticks=[], yticks=[])
        if title == "before":
            ax.set_ylabel({"mu": "first moment", "nu": "second moment"}.get(name, name))
        if name in arrays:
            bound = np.abs(arrays[name]).max() or 1
            ax.imshow(arrays[name], cmap="RdBu_r", vmin=-bound, vmax=bound)
        else:
            ax.spines[:].set_visible(False)  # there was no update yet
plt.show()

# %%
# The loss and the optimizer hold what they held before:

print(vars(loss), vars(optimizer))
