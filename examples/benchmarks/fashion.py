"""Accuracy and time of `NetClassifier("conv")` on Fashion-MNIST, untouched, beside PyTorch's same network.

    OMP_NUM_THREADS=2 python examples/benchmarks/fashion.py --data DIR [--seed 0] [--epochs 1] [--json PATH]

DIR holds ``fashion_mnist.npz``, with the arrays X_train, X_test, y_train and y_test. sknet's estimator gets
images and labels, and nothing else is set but the seed. The test part is looked at once, after the fit.
PyTorch trains the same layers on as many rows, with batches of the same size, Adam and the same schedule of
the rate; ``--epochs 15`` does so to the end, and scores it; it shifts no images.

CPU seconds are those of all threads together. sknet's have the accuracy of each epoch in them, PyTorch's not.
"""

import os
import statistics
import time
from typing import Any

import numpy as np
from measured import Table, parser_of, write

from sknet import NetClassifier

COLUMNS = {"epochs": "d", "CPU s per epoch": ".1f", "CPU, s": ".0f", "seconds": ".0f", "test": ".4f"}
FASHION = Table("Fashion-MNIST", COLUMNS)
BATCH, PEAK, CHANNELS, DROPOUT = 200, 5e-3, 32, 0.3


def fit_sknet(data: dict[str, np.ndarray], seed: int) -> int:
    """Fit the network with its defaults; return its number of epochs."""
    net = NetClassifier("conv", random_state=seed)
    began, started = time.perf_counter(), time.process_time()
    net.fit(data["X_train"], data["y_train"])
    seconds, cpu = time.perf_counter() - began, time.process_time() - started
    test = net.score(data["X_test"], data["y_test"])
    FASHION.add('sknet, `NetClassifier("conv")`', net.n_iter_, cpu / net.n_iter_, cpu, seconds, test)
    return int(net.n_iter_)


def counterpart(torch: Any) -> Any:
    """Return the layers of `sknet.nn.ConvNet` for these images."""
    of = torch.nn
    layers, width = [], 1
    for filters in (CHANNELS, 2 * CHANNELS, 4 * CHANNELS):
        layers.append(of.Conv2d(width, filters, 3, padding=1, bias=False))
        if filters < 4 * CHANNELS:
            layers.append(of.MaxPool2d(2))
        layers += [of.BatchNorm2d(filters), of.ReLU()]
        width = filters
    return of.Sequential(*layers, of.Flatten(), of.Dropout(DROPOUT), of.Linear(49 * width, 10))


def fit_torch(data: dict[str, np.ndarray], seed: int, planned: int, epochs: int) -> None:
    """Train by a typical loop for some of the planned epochs."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    torch.manual_seed(seed)
    X, X_test = (torch.from_numpy(data[name][:, None].astype(np.float32)) for name in ("X_train", "X_test"))
    y, mean, scale = torch.from_numpy(data["y_train"].astype(np.int64)), X.mean(), X.std()
    X, X_test = (X - mean) / scale, (X_test - mean) / scale
    net = counterpart(torch)
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    steps = planned * -(-len(X) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, steps, cycle_momentum=False)
    loss_function, times, began = torch.nn.CrossEntropyLoss(), [], time.perf_counter()
    for _ in range(epochs):
        started = time.process_time()
        for rows in torch.randperm(len(X)).split(BATCH):
            optimizer.zero_grad()
            loss_function(net(X[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
        times.append(time.process_time() - started)
    seconds, test = time.perf_counter() - began, None
    net.eval()
    if epochs == planned:
        with torch.no_grad():
            found = torch.cat([net(part).argmax(1) for part in X_test.split(1000)]).numpy()
        test = float((found == data["y_test"]).mean())
    FASHION.add("PyTorch, the same layers", epochs, statistics.median(times), sum(times), seconds, test)


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--data", required=True, help="folder with fashion_mnist.npz")
    parser.add_argument("--seed", type=int, default=0, help="random_state of the fit")
    parser.add_argument("--epochs", type=int, default=1, help="epochs of PyTorch")
    arguments = parser.parse_args()
    with np.load(os.path.join(arguments.data, "fashion_mnist.npz")) as archive:
        data = {name: archive[name] for name in archive.files}
    for name in ("X_train", "X_test"):
        data[name] = data[name].reshape(-1, 28, 28)
    planned = fit_sknet(data, arguments.seed)
    fit_torch(data, arguments.seed, planned, arguments.epochs)
    write(arguments.json, {"fashion": FASHION})


if __name__ == "__main__":
    main()
