"""
Schedules compared
==================

A learning rate is a number or a schedule: a function of the progress of the fit. Schedules can be
nested and multiplied.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier
from sknet.display import LearningRateDisplay
from sknet.optim import SGD
from sknet.optim.schedules import Constant, Cosine, Exponential, OneCycle, WarmUp

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = load_digits(return_X_y=True)
steps = 20 * 29  # 20 epochs of 29 batches
schedules = {
    "constant": Constant(0.1),
    "exponential": Exponential(0.1, factor=0.8),
    "cosine": Cosine(0.1, n_steps=steps),
    "warm-up, then cosine": WarmUp(Cosine(0.1, n_steps=steps), n_steps=60),
    "one cycle": OneCycle(0.2, n_steps=steps),
}

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
LearningRateDisplay.from_schedules(schedules, steps, steps_per_epoch=29, ax=axes[0])
axes[0].set_title("learning rates")

# The same network with each of them.

for name, schedule in schedules.items():
    optimizer = SGD(schedule, momentum=0.9)
    clf = MLPClassifier((64,), optimizer=optimizer, batch_size=62, max_iter=20, random_state=0)
    clf.fit(X / 16, y)
    axes[1].plot(range(1, len(clf.loss_curve_) + 1), clf.loss_curve_, label=name)
axes[1].set(xlabel="epoch", ylabel="training loss", yscale="log", title="fits of digits")
plt.show()
