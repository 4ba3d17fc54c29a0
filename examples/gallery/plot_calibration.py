"""
Calibration before and after
============================

Networks that were trained for long are overconfident: of the rows whose class gets a probability of
0.95, fewer than 95 % are right. ``calibrate="temperature"`` divides the logits by one number, which is
fitted to held-out rows. The order of the classes, and so ``predict``, stays the same.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sknet import MLPClassifier
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = make_classification(4000, 20, n_informative=6, flip_y=0.15, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=1500, random_state=0)
X_fit, X_val, y_fit, y_val = train_test_split(X_train, y_train, test_size=0.3, random_state=0)

settings = {"optimizer": Adam(5e-3), "batch_size": 64, "max_iter": 25, "early_stopping": False, "alpha": 0.0}
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for name, calibrate in (("as trained", None), ("with a temperature", "temperature")):
    clf = MLPClassifier((128,), calibrate=calibrate, random_state=0, **settings)
    clf.fit(X_fit, y_fit, X_val=X_val, y_val=y_val)
    loss = log_loss(y_test, clf.predict_proba(X_test))
    label = f"{name}: log loss {loss:.2f}, accuracy {clf.score(X_test, y_test):.3f}"
    CalibrationDisplay.from_estimator(clf, X_test, y_test, n_bins=10, name=label, ax=ax)
ax.set_title(f"temperature {clf.temperature_:.2f}")
plt.show()
