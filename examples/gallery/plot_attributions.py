"""
Attributions on digits
======================

Which pixels speak for a digit, and which against it? Integrated gradients divide the difference of
the logit from that of a black image among the pixels: red ones speak for the predicted class, blue
ones against it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sknet import MLPClassifier
from sknet.display import AttributionDisplay
from sknet.optim import Adam

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, stratify=y, random_state=0)
clf = MLPClassifier((64,), activation="gelu", optimizer=Adam(1e-2), early_stopping=True, random_state=0)
clf.fit(X_train, y_train)

rows = np.array([np.flatnonzero(y_test == digit)[0] for digit in range(10)])
figure, axes = plt.subplots(2, 1, figsize=(10, 3.6), layout="constrained")
axes[0].imshow(np.concatenate(X_test[rows].reshape(10, 8, 8), axis=1), cmap="gray_r")
axes[0].axis("off")
display = AttributionDisplay.from_estimator(clf, X_test[rows], image_shape=(8, 8), ax=axes[1], n_columns=10)
plt.show()

# %%
# The contributions of a row sum to the difference of the logits.

contributions = clf.integrated_gradients(X_test[rows], target=y_test[rows])
logits = clf.decision_function(X_test[rows])[np.arange(10), y_test[rows]]
start = clf.decision_function(np.zeros((1, 64)))[0, y_test[rows]]
print(np.abs(contributions.sum(axis=1) - (logits - start)).max().round(3))
