"""
Residuals
=========

Scikit-learn's displays take sknet's estimators. Residuals of cross-validated predictions show what a
score hides: here, errors grow with the prediction. A regressor with a likelihood predicts that, too:
``predict_std``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.metrics import PredictionErrorDisplay
from sklearn.model_selection import cross_val_predict, train_test_split

from sknet import MLPRegressor

X, y = load_diabetes(return_X_y=True)
reg = MLPRegressor((16,), max_iter=60, lr=3e-3, random_state=0)
predicted = cross_val_predict(reg, X, y)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
PredictionErrorDisplay(y_true=y, y_pred=predicted).plot(axes[0], scatter_kwargs={"s": 10})

X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
spread = MLPRegressor((16,), loss="gaussian_nll", max_iter=60, lr=3e-3, random_state=0).fit(X_train, y_train)
std = spread.predict_std(X_test)
errors = np.abs(y_test - spread.predict(X_test))
axes[1].scatter(std, errors, s=10)
axes[1].axline((40, 40), slope=1, color="gray", linewidth=1, label="one deviation")
axes[1].set(xlabel="predicted deviation", ylabel="absolute residual")
axes[1].legend()
plt.show()

print(f"residuals within two predicted deviations: {np.mean(errors < 2 * std):.0%}")
