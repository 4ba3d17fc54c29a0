"""
An autoencoder
==============

An autoencoder learns to return its inputs through a narrow layer, whose outputs are a code of the
inputs. With noise on the inputs it learns to remove noise. Pixels have one unit, so they are not
standardized: noise would count most where images are always white.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from sknet import Autoencoder
from sknet.optim import Adam

warnings.simplefilter("ignore", ConvergenceWarning)  # fits of a given number of epochs

X, _ = load_digits(return_X_y=True)
X_train, X_test = train_test_split(X / 16, random_state=0)

settings = {"scale_inputs": False, "optimizer": Adam(5e-3), "max_iter": 60, "random_state": 0}
coder = Autoencoder((64, 8), **settings)
coder.fit(X_train)
pca = PCA(8).fit(X_train)
cleaner = Autoencoder((64, 16), noise=0.3, **settings)
cleaner.fit(X_train)

rng = np.random.default_rng(0)
some = X_test[:12]
noisy = some + 0.3 * rng.standard_normal(some.shape)
rows = {
    "digits": some,
    "8 numbers, autoencoder": coder.inverse_transform(coder.transform(some)),
    "8 numbers, principal components": pca.inverse_transform(pca.transform(some)),
    "with noise": noisy,
    "noise removed": cleaner.inverse_transform(cleaner.transform(noisy)),
}
figure, axes = plt.subplots(len(rows), 1, figsize=(8, 4.6), layout="constrained")
for ax, (title, images) in zip(axes, rows.items(), strict=True):
    ax.imshow(np.concatenate(images.reshape(-1, 8, 8), axis=1), cmap="gray_r", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.set_ylabel(title, rotation=0, ha="right", va="center")
plt.show()
