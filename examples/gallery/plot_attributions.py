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
digits = np.pad(X_test[rows].reshape(10, 8, 8), ((0, 0), (0, 0), (0, 1)))
figure, axes = plt.subplots(2, 1, figsize=(10, 2.9), layout="constrained")
drawn = axes[0].imshow(np.concatenate(digits, axis=1)[:, :-1], cmap="gray_r")
axes[0].set(xticks=[], yticks=[])
figure.colorbar(drawn, ax=axes[0], label="pixel")
contributions = clf.integrated_gradients(X_test[rows])
AttributionDisplay(contributions, image_shape=(8, 8)).plot(axes[1], n_columns=10)
plt.show()

# %%
# The contributions of a row sum to the difference of the logits.

classes = clf.predict(X_test[rows])
logits = clf.decision_function(X_test[rows])[np.arange(10), classes]
start = clf.decision_function(np.zeros((1, 64)))[0, classes]
print("the same up to rounding:", np.allclose(contributions.sum(axis=1), logits - start))
