"""A search over small convolutional networks on Fashion-MNIST: about 0.91 accuracy on the test split.

::

    python examples/cnn_fashion_mnist.py --data PATH [--epochs 6] [--seed 0] [--plot loss.png] [--quick]
        [--checkpoint FOLDER]

PATH is as for `fashion_mnist.py`: the folder with the four published files, or one ``.npz`` file.
Without ``--data`` the script says where to get them and what they must contain, and exits with
status 2. ``--quick`` trains on 2000 images for one epoch, as a test.

A `Pipeline` turns rows into images and trains a `NetClassifier`. A `GridSearchCV` in two processes tries
numbers of channels and learning rates for one epoch each, on 6000 images. The best candidate is then trained
on most of the training images and validated on the rest, which go through the same Pipeline. A bar shows the
progress. With ``--checkpoint`` the fit is saved after every epoch, and a script that was stopped continues
when it is started again.

It prints

- the sizes of the training, validation and test parts;
- a line for every candidate of the search: channels, learning rate and its accuracy;
- at the end: the number of parameters, the accuracy on the test part, the training time, and the file with
  the plot of training and validation loss (if matplotlib is installed).

A few minutes on two cores.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from fashion_mnist import EXPLANATION, FILES, load
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from sknet import NetClassifier, Tensor, nn
from sknet.callbacks import Checkpoint, ProgressBar
from sknet.engine import History
from sknet.optim import Adam
from sknet.optim.schedules import Cosine

GRID = {"net__module__channels": [16, 32], "net__optimizer__lr": [Cosine(1e-3), Cosine(2e-3)]}


class ConvNet(nn.Module):
    """Two blocks of convolution, norm, ReLU and pooling, followed by a perceptron."""

    def __init__(self, n_outputs: int, channels: int = 32, hidden: int = 128, dropout: float = 0.3) -> None:
        self.body = nn.Sequential(*block(channels), *block(2 * channels), nn.Flatten())
        self.hidden = nn.LazyLinear(hidden)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, n_outputs)

    def forward(self, x: Any) -> Tensor:
        return self.head(self.dropout(nn.ReLU()(self.hidden(self.body(x)))))


def block(channels: int) -> list[nn.Module]:
    return [nn.LazyConv2d(channels, 3, padding=1), nn.BatchNorm(channels), nn.ReLU(), nn.MaxPool2d(2)]


def as_images(X: np.ndarray) -> np.ndarray:
    """Return rows as images with one channel."""
    return X.reshape(-1, 1, 28, 28)


def estimator(epochs: int, seed: int) -> Pipeline:
    """Return the pipeline, which also transforms the validation rows of its last step."""
    net = NetClassifier(
        nn.ModuleFactory(ConvNet),
        optimizer=Adam(),
        alpha=0.0,
        batch_size=64,
        max_iter=epochs,
        random_state=seed,
    )
    steps = [("images", FunctionTransformer(as_images)), ("net", net.set_fit_request(X_val=True, y_val=True))]
    return Pipeline(steps, transform_input=["X_val"])


def searched(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Return the best parameters of a search over a few images."""
    search = GridSearchCV(estimator(1, seed), GRID, cv=2, n_jobs=2, refit=False).fit(X[:6000], y[:6000])
    found = search.cv_results_
    for candidate, score in zip(found["params"], found["mean_test_score"], strict=True):
        channels, lr = (candidate[name] for name in GRID)
        print(f"{channels} channels, lr {lr.lr:g}: accuracy {score:.4f}")
    return dict(search.best_params_)


def plot(history: History, path: Path) -> None:
    """Save a plot of the losses, if matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print('no plot: matplotlib is not installed (pip install "scikit-neural[plot]")')
        return
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for name in ("loss", "validation_loss"):
        axes.plot(range(1, len(history[name]) + 1), history[name], marker="o", label=name)
    axes.set(xlabel="epoch", ylim=(0, None))
    axes.legend()
    figure.savefig(path)
    print(f"the losses are plotted in {path}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Search for a convolutional network for Fashion-MNIST.")
    parser.add_argument("--data", type=Path, help="folder with the four published files, or one .npz file")
    parser.add_argument("--epochs", type=int, default=6, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="random_state of the network")
    parser.add_argument("--plot", type=Path, default=Path("cnn_fashion_mnist.png"), help="where to plot")
    parser.add_argument("--checkpoint", type=Path, help="folder to save the fit in, and to continue from")
    parser.add_argument("--quick", action="store_true", help="one epoch of 2000 images, to see it run")
    arguments = parser.parse_args()
    if arguments.data is not None and not arguments.data.exists():
        parser.error(f"{arguments.data} does not exist")
    return arguments


def main() -> int:
    arguments = parse()
    if arguments.data is None:
        print(EXPLANATION.replace("fashion_mnist.py", Path(__file__).name), file=sys.stderr)
        return 2
    warnings.simplefilter("ignore", ConvergenceWarning)  # few epochs do not converge
    sklearn.set_config(enable_metadata_routing=True)
    data = load(arguments.data)
    X, y, X_test, y_test = (data[name] for name in FILES)
    if arguments.quick:
        X, y = X[:2000], y[:2000]
    X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=1 / 12, random_state=arguments.seed)
    print(f"Fashion-MNIST: {len(X_train)} to train on, {len(X_val)} to validate on, {len(X_test)} to test on")
    best = searched(X_train, y_train, arguments.seed)

    epochs = 1 if arguments.quick else arguments.epochs
    saved = [Checkpoint(arguments.checkpoint, resume=True)] if arguments.checkpoint else []
    pipeline = clone(estimator(epochs, arguments.seed)).set_params(**best)
    pipeline.set_params(net__callbacks=[ProgressBar("CNN"), *saved])
    started = time.perf_counter()
    pipeline.fit(X_train, y_train, X_val=X_val, y_val=y_val)
    seconds = time.perf_counter() - started

    net = pipeline[-1]
    n_learned = sum(p.size for p in net.model_.parameters.values())
    accuracy = pipeline.score(X_test, y_test)
    print(f"{n_learned} parameters, test accuracy {accuracy:.4f}, trained in {seconds:.0f} s")
    plot(net.history_, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
