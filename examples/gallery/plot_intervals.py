"""
Quantile bands and predicted standard deviations
================================================

One network predicts three quantiles that never cross, another a mean and a standard deviation for
every row. Both learn that the noise grows to the right.

The rows are made up. With ``--data housing.csv``, they are districts of California
(https://github.com/ageron/data/tree/main/housing, as csv or parquet): the median income, and the median
value of a house.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPRegressor
from sknet.display import IntervalDisplay
from sknet.losses import Quantile
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs


def made_up(n=1500):
    """Return a sine whose noise grows."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 3, (n, 1)), axis=0)
    return X, np.sin(2 * X[:, 0]) + 0.25 * X[:, 0] * rng.standard_normal(n)


def districts(path, n=4000):
    """Return incomes, and values in 100,000 dollars, below the cap of both."""
    import pandas as pd

    frame = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_csv(path)
    frame = frame[(frame["median_house_value"] < 500_000) & (frame["median_income"] < 10)]
    frame = frame.sample(min(n, len(frame)), random_state=0)
    return frame[["median_income"]].to_numpy(), frame["median_house_value"].to_numpy() / 1e5


parser = argparse.ArgumentParser()
parser.add_argument("--data", metavar="housing.csv")
path = parser.parse_known_args()[0].data
X, y = made_up() if path is None else districts(path)

settings = {"optimizer": Adam(lr=1e-2), "early_stopping": True, "n_iter_no_change": 20, "random_state": 0}
bands = MLPRegressor((32,), loss=Quantile([0.1, 0.5, 0.9]), **settings).fit(X, y)
normal = MLPRegressor((32,), loss="gaussian_nll", **settings).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
IntervalDisplay.from_estimator(bands, X, y, coverage=0.8, ax=axes[0])
axes[0].set_title("quantiles 0.1, 0.5 and 0.9")
IntervalDisplay.from_estimator(normal, X, y, coverage=0.95, ax=axes[1])
axes[1].set_title("mean and standard deviation")
plt.show()
