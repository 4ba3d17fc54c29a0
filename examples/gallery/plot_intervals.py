"""
Quantile bands and predicted standard deviations
================================================

One network predicts three quantiles that never cross, another a mean and a standard deviation for
every row. Both learn that the noise grows to the right.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPRegressor
from sknet.display import IntervalDisplay
from sknet.losses import Quantile
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 3, (1500, 1)), axis=0)
y = np.sin(2 * X[:, 0]) + 0.25 * X[:, 0] * rng.standard_normal(1500)

settings = {"optimizer": Adam(lr=1e-2), "early_stopping": True, "n_iter_no_change": 20, "random_state": 0}
bands = MLPRegressor((32,), loss=Quantile([0.1, 0.5, 0.9]), **settings).fit(X, y)
normal = MLPRegressor((32,), loss="gaussian_nll", **settings).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
IntervalDisplay.from_estimator(bands, X, y, coverage=0.8, ax=axes[0])
axes[0].set_title("quantiles 0.1, 0.5 and 0.9")
IntervalDisplay.from_estimator(normal, X, y, coverage=0.95, ax=axes[1])
axes[1].set_title("mean and standard deviation")
plt.show()
