"""
Tables: neural networks beside boosted trees
============================================

``TabularClassifier`` and ``TabularRegressor`` are ensembles of small networks with tuned defaults. On
small tables of numbers they are level with gradient boosting, or ahead; each dot is one of three folds.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_score

from sknet import TabularClassifier, TabularRegressor

SETS = {
    "wine, accuracy": (load_wine, TabularClassifier, HistGradientBoostingClassifier),
    "breast cancer, accuracy": (load_breast_cancer, TabularClassifier, HistGradientBoostingClassifier),
    "diabetes, R2": (load_diabetes, TabularRegressor, HistGradientBoostingRegressor),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for ax, (name, (load, ours, trees)) in zip(axes, SETS.items(), strict=True):
    X, y = load(return_X_y=True, as_frame=True)
    for row, make in enumerate((trees, ours)):
        scores = cross_val_score(make(random_state=0), X, y, cv=3)
        ax.plot(scores, [row] * len(scores), "o", alpha=0.6)
        ax.plot(scores.mean(), row, "k|", markersize=20)
        print(f"{name}: {make.__name__} {scores.mean():.3f}")
    ax.set(title=name, yticks=[0, 1], yticklabels=["boosted trees", "sknet"], ylim=(-0.6, 1.6))
plt.show()

# %%
# Raw frames with texts, dates and missing values go in as they are: see :doc:`/guide/tables`. The ensembles
# take more time than boosted trees, which are far ahead on millions of rows.
