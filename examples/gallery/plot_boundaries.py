"""
Decision boundaries as training goes on
=======================================

A classifier with 32 hidden units on two moons. ``partial_fit`` trains for one epoch at a time, so
that the boundary can be drawn in between: at first it is a line, and it bends where the data ask
for it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

from sknet import MLPClassifier
from sknet.optim import Adam

X, y = make_moons(400, noise=0.2, random_state=0)
clf = MLPClassifier((32,), optimizer=Adam(lr=1e-2), batch_size=50, random_state=0)

figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), sharex=True, sharey=True, layout="constrained")
epoch = 0
for ax, until in zip(axes, (1, 5, 20, 100), strict=True):
    while epoch < until:
        clf.partial_fit(X, y, classes=np.unique(y))
        epoch += 1
    DecisionBoundaryDisplay.from_estimator(
        clf, X, response_method="predict_proba", class_of_interest=1, cmap="RdBu", alpha=0.7, ax=ax
    )
    ax.scatter(*X.T, c=y, cmap="RdBu", s=8, edgecolor="k", linewidth=0.3)
    ax.set(title=f"epoch {until}, accuracy {clf.score(X, y):.2f}", xticks=[], yticks=[])
plt.show()
