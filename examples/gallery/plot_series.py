"""
A recurrent network on a series
===============================

A GRU reads 24 hours of a series and predicts the next one. Fed with its own predictions, it goes on
by itself.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sknet import NetRegressor, nn
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

rng = np.random.default_rng(0)
hours = np.arange(24 * 40)
series = np.sin(2 * np.pi * hours / 24) * (1 + 0.3 * np.sin(2 * np.pi * hours / 168))
series = (series + 0.05 * rng.standard_normal(len(hours))).astype("float32")
windows = np.lib.stride_tricks.sliding_window_view(series, 25)
X, y = windows[:, :-1, None], windows[:, -1]
split = 24 * 32


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
ax.legend(loc="lower left", ncols=3)
plt.show()
