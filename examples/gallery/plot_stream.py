"""
Partial fit on a stream
=======================

Batches arrive one by one, and what they mean changes on the way: the classes turn around the
origin. Each batch is first predicted and then learned. A network that keeps learning follows; one
that stopped after the first third does not.
"""

import matplotlib.pyplot as plt
import numpy as np

from sknet import MLPClassifier
from sknet.optim import Adam

rng = np.random.default_rng(0)


def batch(time):
    X = rng.normal(size=(100, 2))
    angle = 2 * np.pi * max(time - 1 / 3, 0)
    return X, (X @ [np.cos(angle), np.sin(angle)] > 0).astype(int)


learning = MLPClassifier((16,), optimizer=Adam(3e-2), random_state=0)
stopped = MLPClassifier((16,), optimizer=Adam(3e-2), random_state=0)
times = np.linspace(0, 1, 300)
scores = {"keeps learning": [], "stopped after a third": []}
for time in times:
    X, y = batch(time)
    if time > 0:
        scores["keeps learning"].append(learning.score(X, y))
        scores["stopped after a third"].append(stopped.score(X, y))
    learning.partial_fit(X, y, classes=[0, 1])
    if time < 1 / 3:
        stopped.partial_fit(X, y, classes=[0, 1])

figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
for name, values in scores.items():
    ax.plot(times[1:], np.convolve(values, np.ones(10) / 10, mode="same"), label=name)
ax.axvspan(1 / 3, 1, color="0.93", label="the classes turn")
ax.set(xlabel="time", ylabel="accuracy of the next batch", xlim=(0.02, 0.98), ylim=(0, 1.02))
ax.legend(loc="lower left")
plt.show()
