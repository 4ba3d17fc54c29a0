"""
Learning curves and early stopping
==================================

A large network on few rows overfits: its training loss goes on falling, while the loss of held-out
rows no longer does. With ``early_stopping=True`` the fit ends when nothing improves any more, and
the weights of the best epoch are restored.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from sknet import MLPClassifier
from sknet.display import LossCurveDisplay

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, train_size=300, stratify=y, random_state=0)

# %%
# Without ``early_stopping=True``, held-out rows are only scored. A long patience lets the fit go on
# for all epochs.

settings = {"hidden_layer_sizes": (128,), "batch_size": 32, "random_state": 0}
long = MLPClassifier(max_iter=50, n_iter_no_change=50, **settings)
long.fit(X_train, y_train, X_val=X_test[:300], y_val=y_test[:300])

# %%
# Stopped: the loss is monitored, since accuracy stays the same for many epochs.

stopped = MLPClassifier(early_stopping=True, monitor="loss", n_iter_no_change=5, **settings)
stopped.fit(X_train, y_train, X_val=X_test[:300], y_val=y_test[:300])

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
for ax, clf, title in zip(axes, (long, stopped), ("all epochs", "early stopping"), strict=True):
    LossCurveDisplay.from_estimator(clf, ax=ax)
    ax.set(title=f"{title}: test accuracy {clf.score(X_test[300:], y_test[300:]):.3f}", yscale="log")
plt.show()
