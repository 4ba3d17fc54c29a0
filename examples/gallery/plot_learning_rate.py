"""
Finding a learning rate
=======================

`LearningRateFinder` trains a copy of the network with rates that grow from step to step, and
records the losses: too small a rate learns nothing, too large a rate diverges. It suggests a tenth
of the rate with the smallest loss.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier
from sknet.callbacks import LearningRateFinder
from sknet.display import LearningRateDisplay
from sknet.optim import SGD

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = load_digits(return_X_y=True)
X = X / 16

finder = LearningRateFinder(min_lr=1e-4, max_lr=100.0, stop=True)  # tries rates, and does not train
clf = MLPClassifier((64,), optimizer=SGD(momentum=0.9), random_state=0)
tried = clf.fit(X, y, callbacks=[finder]).callbacks_[0]

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
LearningRateDisplay.from_finder(tried, ax=axes[0])
axes[0].set(title="range test", yscale="log")

# Fits with rates around the suggestion, for 15 epochs each.

for factor in (0.01, 0.1, 1, 10):
    rate = tried.suggestion_ * factor
    clf = MLPClassifier((64,), optimizer=SGD(rate, momentum=0.9), max_iter=15)
    clf.set_params(random_state=0).fit(X, y)
    axes[1].plot(clf.loss_curve_, label=f"lr = {rate:.2g}")
axes[1].set(yscale="log", xlabel="epoch", ylabel="loss", title="fits", ylim=(0.03, 1e3))
axes[1].legend()
plt.show()
