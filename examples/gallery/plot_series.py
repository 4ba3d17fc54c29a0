"""
A recurrent network on a series
===============================

A GRU reads 24 hours of a series and predicts the next one. Fed with its own predictions, it goes on
by itself.

The series is made up. With ``--data hour.csv``, it is that of the hourly counts of the data set Bike
Sharing (https://archive.ics.uci.edu/dataset/275), as csv or parquet.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sknet import NetRegressor, nn
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs


def made_up(days=40):
    """Return a series with a daily and a weekly rhythm."""
    hours = np.arange(24 * days)
    noise = 0.05 * np.random.default_rng(0).standard_normal(len(hours))
    return np.sin(2 * np.pi * hours / 24) * (1 + 0.3 * np.sin(2 * np.pi * hours / 168)) + noise


def bikes(path, days=120):
    """Return the standardized roots of the hourly counts of a summer of Bike Sharing."""
    import pandas as pd

    frame = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_csv(path)
    counts = np.sqrt(frame["cnt"].to_numpy(float)[-24 * (days + 100) :][: 24 * days])
    return (counts - counts.mean()) / counts.std()


parser = argparse.ArgumentParser()
parser.add_argument("--data", metavar="hour.csv")
path = parser.parse_known_args()[0].data
series = (made_up() if path is None else bikes(path)).astype("float32")
windows = np.lib.stride_tricks.sliding_window_view(series, 25)
X, y = windows[:, :-1, None], windows[:, -1]
split = len(series) - 24 * 8


class Forecast(nn.Module):
    """Reads a window, and predicts what follows from the last state."""

    def __init__(self, n_features, hidden=16):
        self.gru = nn.GRU(n_features, hidden, returns="last")
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.gru(x))


net = NetRegressor(Forecast(1), optimizer=Adam(1e-2), batch_size=64, max_iter=6, random_state=0)
net.fit(X[:split], y[:split])

# %%
# One step ahead, and 72 hours ahead from its own predictions.

ahead = net.predict(X[split:])
window = list(series[split : split + 24])
for _ in range(72):
    window.append(float(net.predict(np.array(window[-24:], "float32")[None, :, None])[0]))

figure, ax = plt.subplots(figsize=(10, 3.6), layout="constrained")
shown = np.arange(split, split + 120)
ax.plot(shown, series[shown], color="0.6", label="series")
ax.plot(np.arange(split + 24, split + 120), ahead[:96], label="one hour ahead")
ax.plot(np.arange(split + 24, split + 96), window[24:], "--", label="by itself")
ax.set(xlabel="hour", title=f"R2 one hour ahead: {net.score(X[split:], y[split:]):.3f}")
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()
