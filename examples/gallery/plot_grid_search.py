"""
Results of a grid search
========================

Nested names reach into the optimizer: ``optimizer__lr`` is searched together with the width of the
network. The map shows the mean accuracy over the folds, and the best candidate.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier
from sknet.model_selection import GridSearchCV

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = load_digits(return_X_y=True)
X, y = (X[:900] / 16).astype("float32"), y[:900]
rates, widths = [1e-4, 1e-3, 1e-2, 1e-1], [4, 16, 64]
clf = MLPClassifier(optimizer="adam", batch_size=64, max_iter=12, random_state=0)
grid = {"hidden_layer_sizes": [(width,) for width in widths], "optimizer__lr": rates}
search = GridSearchCV(clf, grid, cv=3).fit(X, y)

scores = search.cv_results_["mean_test_score"].reshape(len(widths), len(rates))
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.imshow(scores, cmap="viridis")
best = np.unravel_index(scores.argmax(), scores.shape)
for (row, column), score in np.ndenumerate(scores):
    weight = "bold" if (row, column) == best else "normal"
    ax.text(
        column,
        row,
        f"{score:.3f}",
        ha="center",
        va="center",
        weight=weight,
        color="white" if score < scores.mean() else "black",
    )
ax.set(xlabel="learning rate", ylabel="hidden units", title=f"best: {search.best_score_:.3f}")
ax.set_xticks(range(len(rates)), rates)
ax.set_yticks(range(len(widths)), widths)
plt.show()
