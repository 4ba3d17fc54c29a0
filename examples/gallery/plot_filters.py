"""
What the filters of a convolutional network see
===============================================

A small convolutional network learns digits. Its filters look for edges and strokes; their outputs
show where in an image they find them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from sknet import NetClassifier, nn
from sknet.display import WeightsDisplay
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, y = load_digits(return_X_y=True)
images = (X / 16).astype("float32").reshape(-1, 1, 8, 8)
X_train, X_test, y_train, y_test = train_test_split(images, y, stratify=y, random_state=0)

network = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding="same"),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding="same"),
    nn.ReLU(),
    nn.Flatten(),
    nn.LazyLinear(10),
)
net = NetClassifier(network, optimizer=Adam(5e-3), batch_size=64, max_iter=6, random_state=0)
net.fit(X_train, y_train)
print(f"test accuracy {net.score(X_test, y_test):.3f}")

# %%
# The eight filters of the first layer, and what each makes of one image.

example = X_test[3:4]
seen = net.transform(example, layer="1")[0]

figure = plt.figure(figsize=(11, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.6))
WeightsDisplay.from_estimator(net, "0.weight", ax=left.subplots())
for ax, picture in zip(right.subplots(2, 5).flat, [example[0, 0], *seen, None], strict=True):
    ax.axis("off")
    if picture is not None:
        ax.imshow(picture, cmap="gray_r" if picture is example[0, 0] else "viridis")
right.suptitle("an image, and the outputs of the filters")
plt.show()

# %%
# The filters of the second layer combine the outputs of the first.

WeightsDisplay.from_estimator(net, "3.weight").plot(n_columns=16)
print(np.shape(net.model_.parameters["3.weight"]))
plt.show()
