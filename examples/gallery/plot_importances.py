"""
Importances of columns
======================

``feature_importances_`` of an ensemble for tables says how much worse held-out rows are predicted when a
column is permuted; that of a network is the mean size of the column's contributions. Both need no
further fit, so that ``SelectFromModel`` and ``RFE`` work with them. Here ``noise`` is a column of random
numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.feature_selection import SelectFromModel

from sknet import MLPRegressor, TabularRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X["noise"] = np.random.default_rng(0).normal(size=len(X))

tabular = TabularRegressor(random_state=0).fit(X, y)
network = MLPRegressor((32,), max_iter=60, lr=3e-3, random_state=0).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), sharey=True, layout="constrained")
order = np.argsort(tabular.feature_importances_)
for ax, (name, model) in zip(
    axes, {"TabularRegressor": tabular, "MLPRegressor": network}.items(), strict=True
):
    ax.barh(X.columns[order], model.feature_importances_[order])
    ax.set(title=name, xlabel="importance")
plt.show()

# %%
# Columns whose importance is above the mean:

chosen = SelectFromModel(tabular, prefit=True).fit(X, y)
print(list(X.columns[chosen.get_support()]))
