"""
Hidden activations in two dimensions
====================================

A network with two units in its last hidden layer has to place the classes in a plane before it
separates them. Every estimator is a transformer: ``transform`` returns the outputs of a hidden
layer.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = load_digits(return_X_y=True)
X = X / 16
clf = MLPClassifier(
    (64, 2), activation="softplus", optimizer=Adam(1e-2), alpha=0.01, batch_size=64, max_iter=60
)
clf.set_params(random_state=0).fit(X, y)
wide = MLPClassifier((64,), optimizer=Adam(1e-2), max_iter=20, random_state=0).fit(X, y)

views = {
    "pixels, principal components": PCA(2).fit_transform(X),
    "64 hidden units, principal components": PCA(2).fit_transform(wide.transform(X)),
    "two hidden units": clf.transform(X),
}
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for ax, (title, points) in zip(axes, views.items(), strict=True):
    shown = ax.scatter(*points.T, c=y, cmap="tab10", s=6)
    ax.set(title=title, xticks=[], yticks=[])
figure.colorbar(shown, ax=axes, ticks=range(10), label="digit")
plt.show()
