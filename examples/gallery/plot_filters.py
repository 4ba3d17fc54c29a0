"""
What the filters of a convolutional network see
===============================================

A small convolutional network learns digits. Its filters look for edges and strokes; their outputs
show where in an image they find them.

With ``--data PATH``, it learns clothes: a file of NumPy with the arrays ``X_train``, ``y_train``,
``X_test`` and ``y_test`` of Fashion-MNIST (https://github.com/zalandoresearch/fashion-mnist).
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from sknet import NetClassifier, nn
from sknet.display import WeightsDisplay
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs


def digits():
    """Return images of 8 x 8 pixels between 0 and 1, and their labels, to train on and to test on."""
    X, y = load_digits(return_X_y=True)
    return train_test_split((X / 16).reshape(-1, 8, 8), y, stratify=y, random_state=0)


def clothes(path, n_train=10_000, n_test=2_000):
    """Return images of 28 x 28 pixels, and their labels."""
    arrays = np.load(path)
    X_train, X_test = (arrays[f"X_{part}"] / 255 for part in ("train", "test"))
    return X_train[:n_train], X_test[:n_test], arrays["y_train"][:n_train], arrays["y_test"][:n_test]


parser = argparse.ArgumentParser()
parser.add_argument("--data", metavar="PATH")
path = parser.parse_known_args()[0].data
X_train, X_test, y_train, y_test = digits() if path is None else clothes(path)
X_train, X_test = (images[:, None].astype("float32") for images in (X_train, X_test))  # one channel

network = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding="same"),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding="same"),
    nn.ReLU(),
    nn.Flatten(),
    nn.LazyLinear(10),
)
net = NetClassifier(network, optimizer=Adam(5e-3), batch_size=64, max_iter=6, random_state=0)
net.fit(X_train, y_train)
print(f"test accuracy {net.score(X_test, y_test):.3f}")

# %%
# The eight filters of the first layer, and what each makes of one image.

image = X_test[3, 0]
seen = net.transform(X_test[3:4], layer="1")[0]

figure = plt.figure(figsize=(11, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.6))
WeightsDisplay.from_estimator(net, "0.weight", ax=left.subplots())
for ax, picture in zip(right.subplots(2, 5).flat, [image, *seen, None], strict=True):
    ax.axis("off")
    if picture is not None:
        ax.imshow(picture, cmap="gray_r" if picture is image else "viridis")
right.suptitle("an image, and the outputs of the filters")
plt.show()

# %%
# Each of the 16 filters of the second layer combines the eight outputs of the first. A column shows
# one of them.

weights = net.model_.parameters["3.weight"]  # (outputs, inputs, height, width)
figure, ax = plt.subplots(figsize=(11, 5.4), layout="constrained")
WeightsDisplay(weights.swapaxes(0, 1), name="second layer").plot(ax, n_columns=16)
plt.show()
