"""
A categorical embedding drawn
=============================

A network that predicts demand by the hour of the day, the day of the week and the month sees
nothing but numbers of levels. The vectors that it learns for the levels lie in the order of the
clock: neighbours have similar effects.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from sknet import NetRegressor, nn
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

rng = np.random.default_rng(0)
levels = np.stack([rng.integers(0, n, 6000) for n in (24, 7, 12)], axis=1)
hour, day, month = levels.T
demand = np.sin(2 * np.pi * (hour - 8) / 24) * (1 + 0.5 * (day < 5)) + 0.7 * np.cos(
    2 * np.pi * (month - 6) / 12
)
demand += 0.2 * rng.standard_normal(6000)

network = nn.Sequential(nn.CategoryEmbeddings([24, 7, 12], 3), nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
reg = NetRegressor(network, optimizer=Adam(1e-2), max_iter=25, random_state=0)
reg.fit(levels, demand)

names = [
    [f"{h}h" for h in range(24)],
    ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
]
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for ax, place, title in zip(axes, range(3), ("hour", "day", "month"), strict=True):
    vectors = reg.model_.parameters[f"0.embeddings.{place}.weight"][: len(names[place])]
    points = PCA(2).fit_transform(vectors)
    ax.plot(*np.vstack([points, points[:1]]).T, color="0.8", zorder=0)
    ax.scatter(*points.T, c=np.arange(len(points)), cmap="twilight")
    for name, point in zip(names[place], points, strict=True):
        ax.annotate(name, point, fontsize=8, xytext=(3, 3), textcoords="offset points")
    ax.set(title=title, xticks=[], yticks=[])
figure.suptitle(f"learned vectors, two principal components (R2 {reg.score(levels, demand):.2f})")
plt.show()
