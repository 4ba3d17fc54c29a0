"""A multi-layer perceptron on Fashion-MNIST: at least 0.89 accuracy on the official test split.

::

    python examples/fashion_mnist.py --data PATH [--seed 0] [--epochs 100]

The data set is 70000 grayscale images of clothes in 10 classes (Xiao, Rasul & Vollgraf, 2017). PATH is
either the folder with the four published files, or one ``.npz`` file. Without ``--data`` the script
says where to get them and what they must contain, and exits with status 2. It prints

- the sizes of the official training and test parts;
- a line for every epoch: training loss, and accuracy on 6000 held-out training images;
- a line when that accuracy has reached a plateau and the learning rate is divided by ten, and one at
  the next plateau, where the fit stops and the best epoch's weights are restored;
- at the end: epochs, seconds, best held-out accuracy, and accuracy on the test part, per class and
  overall.

A minute or two on two cores. The test part is used once, after the fit.
"""

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np

from sknet import MLPClassifier
from sknet.optim import Adam
from sknet.optim.schedules import Adaptive

CLASSES = ["top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
FILES = {
    "X_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "X_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}
EXPLANATION = f"""\
This example needs Fashion-MNIST, about 30 MB. Get it from its authors, at
    https://github.com/zalandoresearch/fashion-mnist
and name the folder that holds these four files:
    {"  ".join(list(FILES.values())[:2])}
    {"  ".join(list(FILES.values())[2:])}
or one .npz file with the arrays X_train, X_test: uint8 of shape (n, 28, 28), and y_train, y_test:
class numbers 0 to 9 of shape (n,), in the official split. Then
    python examples/fashion_mnist.py --data PATH"""


def load(path: Path) -> dict[str, np.ndarray]:
    """Return images as rows of numbers from 0 to 1, and labels."""
    if path.is_dir():
        data = {name: read_idx(path / file) for name, file in FILES.items()}
    else:
        with np.load(path) as archive:
            data = {name: archive[name] for name in FILES}
    for name in ("X_train", "X_test"):
        data[name] = data[name].reshape(len(data[name]), -1).astype("float32") / 255
    return data


def read_idx(path: Path) -> np.ndarray:
    """Read a file in MNIST's format: a header, then unsigned bytes."""
    raw = gzip.decompress(path.read_bytes())
    n_axes = raw[3]
    shape = np.frombuffer(raw, ">i4", count=n_axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def network(seed: int, epochs: int) -> MLPClassifier:
    """Return the classifier: two hidden layers with dropout, Adam, a rate that decreases at plateaus."""
    return MLPClassifier(
        (512, 128),
        activation="relu",
        dropout=0.25,
        optimizer=Adam(lr=Adaptive(1e-3, factor=10, min_lr=2e-4)),
        batch_size=256,
        max_iter=epochs,
        early_stopping=True,
        n_iter_no_change=5,
        verbose=True,
        random_state=seed,
    )


def report(clf: MLPClassifier, data: dict[str, np.ndarray], seconds: float) -> None:
    predicted = clf.predict(data["X_test"])
    right = predicted == data["y_test"]
    print(
        f"\n{clf.n_iter_} epochs in {seconds:.0f} s, best held-out accuracy {clf.best_validation_score_:.4f}"
    )
    for label, name in enumerate(CLASSES):
        print(f"  {name:9}{right[data['y_test'] == label].mean():.3f}")
    print(f"test accuracy {right.mean():.4f}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit a multi-layer perceptron to Fashion-MNIST.")
    parser.add_argument("--data", type=Path, help="folder with the four published files, or one .npz file")
    parser.add_argument("--seed", type=int, default=0, help="random_state of the network")
    parser.add_argument("--epochs", type=int, default=100, help="at most this many")
    arguments = parser.parse_args()
    if arguments.data is None:
        print(EXPLANATION, file=sys.stderr)
        return 2
    if not arguments.data.exists():
        parser.error(f"{arguments.data} does not exist")
    data = load(arguments.data)
    print(f"Fashion-MNIST: {len(data['X_train'])} to train on, {len(data['X_test'])} to test on")

    clf = network(arguments.seed, arguments.epochs)
    started = time.perf_counter()
    clf.fit(data["X_train"], data["y_train"])
    report(clf, data, time.perf_counter() - started)
    return 0


if __name__ == "__main__":
    sys.exit(main())
