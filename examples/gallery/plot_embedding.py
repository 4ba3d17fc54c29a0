"""
A categorical embedding drawn
=============================

A network that predicts demand by the hour of the day, the day of the week and the month sees
nothing but numbers of levels. It learns a vector for each level, and levels with similar effects
get similar vectors: hours and months form rings, and the
weekend stands apart.

The demand is made up. With ``--data hour.csv``, it is that of the hourly counts of the data set Bike
Sharing (https://archive.ics.uci.edu/dataset/275), as csv or parquet.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from sknet import NetRegressor, nn
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs


def made_up():
    """Return levels and demand."""
    rng = np.random.default_rng(0)
    levels = np.stack([rng.integers(0, n, 6000) for n in (24, 7, 12)], axis=1)
    hour, day, month = levels.T
    daily, yearly = 2 * np.pi * hour / 24, 2 * np.pi * month / 12
    weekend = np.isin(day, (0, 6))  # two other shapes of a day, and of a year
    demand = np.where(weekend, np.cos(daily), np.sin(daily)) + np.where(
        weekend, np.cos(yearly), np.sin(yearly)
    )
    return levels, demand + 0.2 * rng.standard_normal(6000)


def bikes(path):
    """Return the levels and the standardized logarithms of the counts of Bike Sharing."""
    import pandas as pd

    frame = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_csv(path)
    levels = frame[["hr", "weekday", "mnth"]].to_numpy(int) - [0, 0, 1]
    demand = np.log1p(frame["cnt"].to_numpy(float))
    return levels, (demand - demand.mean()) / demand.std()


parser = argparse.ArgumentParser()
parser.add_argument("--data", metavar="hour.csv")
path = parser.parse_known_args()[0].data
levels, demand = made_up() if path is None else bikes(path)

network = nn.Sequential(nn.CategoryEmbeddings([24, 7, 12], 3), nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
reg = NetRegressor(network, optimizer=Adam(1e-2), alpha=1.0, max_iter=25, random_state=0)
reg.fit(levels, demand)

names = [
    [f"{h}h" for h in range(24)],
    ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"],
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
    ax.set_aspect("equal", adjustable="datalim")
figure.suptitle(f"learned vectors, two principal components (R2 {reg.score(levels, demand):.2f})")
plt.show()
