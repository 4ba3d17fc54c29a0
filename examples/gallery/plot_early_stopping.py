"""
Learning curves and early stopping
==================================

A large network on few rows, without a penalty, overfits: its training loss goes on falling, while
the loss of held-out rows rises again. With early stopping, which rows for validation switch on, the fit
ends when nothing improves any more, and the weights of the best epoch are restored.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sknet import MLPClassifier
from sknet.display import LossCurveDisplay

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = make_classification(1500, 20, n_informative=8, flip_y=0.1, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=400, stratify=y, random_state=0)
X_val, y_val, X_test, y_test = X_test[:300], y_test[:300], X_test[300:], y_test[300:]

# %%
# With ``early_stopping=False``, held-out rows are only scored. A long patience lets the fit go on for all
# epochs.

settings = {"hidden_layer_sizes": (128,), "batch_size": 32, "alpha": 0.0, "random_state": 0}
long = MLPClassifier(early_stopping=False, max_iter=60, n_iter_no_change=60, **settings)
long.fit(X_train, y_train, X_val=X_val, y_val=y_val)

# %%
# Stopped: the loss is monitored, since accuracy stays the same for many epochs.

stopped = MLPClassifier(monitor="loss", n_iter_no_change=5, **settings)
stopped.fit(X_train, y_train, X_val=X_val, y_val=y_val)

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharex=True, sharey=True, layout="constrained")
for ax, clf, title in zip(axes, (long, stopped), ("all epochs", "early stopping"), strict=True):
    LossCurveDisplay.from_estimator(clf, ax=ax)
    ax.set_title(f"{title}: test loss {log_loss(y_test, clf.predict_proba(X_test)):.3f}")
plt.show()
