"""A small convolutional network on Fashion-MNIST: at least 0.91 accuracy on the official test split.

::

    python examples/cnn_fashion_mnist.py --data PATH [--epochs 6] [--seed 0] [--plot loss.png] [--quick]

PATH is what `fashion_mnist.py` reads: the folder with the four published files, or one ``.npz`` file.
Without ``--data`` the script says where to get them and what they must contain, and exits with
status 2. ``--quick`` trains on 2000 images for one epoch, to see it run.

It prints

- the sizes of the training and test part, and how many numbers the network learns;
- a bar for every epoch while it runs, and a line when it is done: training loss and accuracy;
- at the end: the accuracy on the test part, how long training took, and where the loss is plotted
  (for which it needs matplotlib; without it, it says so).

A few minutes on two cores. The step is captured and compiled when training begins.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from fashion_mnist import EXPLANATION, FILES, load

from sknet import Model, nn
from sknet.engine import Accuracy, Batches, History, Settings, predict_rows, train
from sknet.optim import Adam
from sknet.optim.schedules import Cosine

BATCH = 64
WIDTH = 30  # characters of the bar


def network() -> nn.Module:
    """Return two blocks of convolution, norm, rectifier and pool, and a perceptron behind them."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 128),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(128, 10),
    )


class WatchedBatches(Batches):
    """Batches that draw a bar: the loop asks for one after the other."""

    def part(self, order: Any, number: int) -> tuple[Any, int]:
        done = WIDTH * (number + 1) // self.n_batches
        print(f"\r[{'#' * done:.<{WIDTH}}] batch {number + 1} of {self.n_batches}", end="", flush=True)
        return super().part(order, number)


class Report(History):
    """A history that says what it takes in."""

    def append(self, **record: float) -> None:
        super().append(**record)
        print(f", loss {record['loss']:.4f}, accuracy {record['score']:.4f}, {record['time']:.1f} s")


def plot(losses: list[float], path: Path) -> None:
    """Save a plot of the loss, if matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        print('no plot: matplotlib is not installed (pip install "sknet[plot]")')
        return
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.plot(range(1, len(losses) + 1), losses, marker="o")
    axes.set(xlabel="epoch", ylabel="training loss", ylim=(0, None))
    figure.savefig(path)
    print(f"the loss is plotted in {path}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fit a convolutional network to Fashion-MNIST.")
    parser.add_argument("--data", type=Path, help="folder with the four published files, or one .npz file")
    parser.add_argument("--epochs", type=int, default=6, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="random_state of the network")
    parser.add_argument("--plot", type=Path, default=Path("cnn_fashion_mnist.png"), help="where to plot")
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
    data = load(arguments.data)
    X_train, y_train, X_test, y_test = (data[name] for name in FILES)
    if arguments.quick:
        X_train, y_train = X_train[:2000], y_train[:2000]
    X_train, X_test = X_train.reshape(-1, 1, 28, 28), X_test.reshape(-1, 1, 28, 28)

    model = Model(network(), loss="log_loss", optimizer=Adam(lr=Cosine(2e-3)), random_state=arguments.seed)
    print(
        f"Fashion-MNIST: {len(X_train)} to train on, {len(X_test)} to test on, "
        f"{sum(p.size for p in model.parameters.values())} parameters"
    )
    batches = WatchedBatches(X_train, y_train.astype(np.int64), None, BATCH, model.dtype, model.device)
    history = Report()
    settings = Settings(max_iter=1 if arguments.quick else arguments.epochs, seeded=True)
    started = time.perf_counter()
    train(model, batches, history, settings, Accuracy)
    seconds = time.perf_counter() - started

    predicted = predict_rows(model, X_test).argmax(axis=1)
    print(f"test accuracy {np.mean(predicted == y_test):.4f}, trained in {seconds:.0f} s")
    plot(list(history["loss"]), arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
