"""Time one training step of sknet, scikit-learn and PyTorch, alternating in one process.

A step's time is the difference between a long and a short fit, divided by the difference in steps:
validation, capture and planning cancel out, and are in the column "start". The floor is the time
of the step's matrix products alone.

sknet runs in native code where it was built; SKNET_NATIVE=never does without.

Prints, for each network, microseconds per step (median over the rounds), the ratio of the others to
sknet, and of sknet to the floor; at the end the geometric means.

    python examples/benchmarks/training.py [--quick] [--rounds 5] [--json PATH]
"""

import importlib.util
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import sklearn
from measured import Table, parser_of, write
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

import sknet

SHORT, LONG = 2, 8  # epochs
NEVER = 10**6  # epochs without improvement that are allowed
SIDES = ("sknet", "scikit-learn", "PyTorch", "floor")
RATIOS = ("scikit-learn / sknet", "PyTorch / sknet", "sknet / floor")
STEPS = Table(
    "network",
    {**dict.fromkeys(SIDES, ".0f"), **dict.fromkeys(RATIOS, ".2f"), "start, ms": ".1f"},
    drawn=SIDES,
    unit="microseconds per step",
)
REST = 0.3  # seconds before each turn, since threads of the previous one spin for a while


class Network(NamedTuple):
    """A classification network and how it is trained."""

    features: int
    hidden: tuple[int, ...]
    classes: int
    batch: int
    steps: int  # in an epoch

    def __str__(self) -> str:
        sizes = "-".join(map(str, (self.features, *self.hidden, self.classes)))
        return f"{sizes}, batch {self.batch}"


NETWORKS = [
    Network(20, (100,), 2, 32, 100),
    Network(30, (100,), 2, 200, 50),
    Network(64, (100,), 10, 200, 50),
    Network(54, (256, 256), 7, 256, 20),
    Network(784, (256, 128), 10, 200, 15),
    Network(784, (1024, 1024), 10, 1024, 3),
]


def data(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Draw noisy but learnable classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((network.batch * network.steps, network.features), dtype=np.float32)
    y = (X[:, : network.classes] + rng.gumbel(size=(len(X), network.classes))).argmax(axis=1)
    y[: network.classes] = range(network.classes)
    return X, y


def fit_estimator(
    estimator: type, network: Network, X: np.ndarray, y: np.ndarray, epochs: int, **settings: object
) -> None:
    """Fit a perceptron with Adam for exactly this many epochs."""
    estimator(
        network.hidden,
        batch_size=network.batch,
        max_iter=epochs,
        tol=0,
        n_iter_no_change=NEVER,
        random_state=0,
        **settings,
    ).fit(X, y)


def fit_torch(network: Network, X: np.ndarray, y: np.ndarray, epochs: int) -> None:
    """Run a typical PyTorch training loop, with the fused Adam."""
    import torch

    layers: list[torch.nn.Module] = []
    width = network.features
    for size in network.hidden:
        layers += [torch.nn.Linear(width, size), torch.nn.ReLU()]
        width = size
    net = torch.nn.Sequential(*layers, torch.nn.Linear(width, network.classes))
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    loss_function = torch.nn.CrossEntropyLoss()
    inputs, targets = torch.from_numpy(X), torch.from_numpy(y)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(network.batch):
            optimizer.zero_grad()
            loss_function(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()


def contenders() -> dict[str, Callable[..., None]]:
    """Return the contenders; PyTorch if it is installed."""
    found: dict[str, Callable[..., None]] = {
        "sknet": lambda *args: fit_estimator(sknet.MLPClassifier, *args),
        "scikit-learn": lambda *args: fit_estimator(ScikitLearnMLP, *args),
    }
    if importlib.util.find_spec("torch") is not None:
        found["PyTorch"] = fit_torch
    return found


def floor(network: Network) -> float:
    """Return the microseconds of one step's matrix products."""
    rng = np.random.default_rng(0)
    sizes = [network.features, *network.hidden, network.classes]
    outputs = [rng.standard_normal((network.batch, n), dtype=np.float32) for n in sizes]
    weights = [rng.standard_normal(pair, dtype=np.float32) for pair in pairwise(sizes)]
    gradients = [np.empty_like(w) for w in weights]

    def products() -> None:
        for i, weight in enumerate(weights):
            np.matmul(outputs[i], weight, out=outputs[i + 1])
        for i in reversed(range(len(weights))):
            np.matmul(outputs[i].T, outputs[i + 1], out=gradients[i])
            if i:
                np.matmul(outputs[i + 1], weights[i].T, out=outputs[i])

    return statistics.median([seconds(products) for _ in range(30)][5:]) * 1e6


def seconds(function: Callable[..., object], *args: object) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def measure(network: Network, fits: dict[str, Callable[..., None]], rounds: int) -> dict[str, float]:
    """Return medians over the rounds: microseconds per step of each contender, floor and start."""
    X, y = data(network)
    for fit in fits.values():
        fit(network, X, y, 1)
    times: dict[str, list[float]] = {name: [] for name in ["floor", "start", *fits]}
    for _ in range(rounds):
        times["floor"].append(floor(network))
        for name, fit in fits.items():
            time.sleep(REST)
            fit(network, X, y, 1)  # a processor that has slept is slow for some milliseconds
            short, long = (seconds(fit, network, X, y, epochs) for epochs in (SHORT, LONG))
            step = (long - short) / ((LONG - SHORT) * network.steps)
            times[name].append(step * 1e6)
            if name == "sknet":
                times["start"].append((short - step * SHORT * network.steps) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="only the three small networks")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    fits = contenders()
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}, "
        f"sknet {sknet.__version__}, float32, Adam, microseconds per step\n"
    )
    of_all: dict[str, list[float]] = {name: [] for name in RATIOS}
    for network in NETWORKS[:3] if arguments.quick else NETWORKS:
        found = measure(network, fits, arguments.rounds)
        ratios = ratios_of(found)
        if any(ratio <= 0 for ratio in ratios.values()):
            sys.exit("\nA long fit took less time than a short one: this machine is too busy to measure on.")
        for name, ratio in ratios.items():
            of_all[name].append(ratio)
        STEPS.add(str(network), *map(found.get, SIDES), *map(ratios.get, RATIOS), found["start"])
    means = [statistics.geometric_mean(values) if values else None for values in of_all.values()]
    STEPS.add("geometric mean", *[None for _ in SIDES], *means, None)
    write(arguments.json, {"steps": STEPS})


def ratios_of(found: dict[str, float]) -> dict[str, float]:
    """Return the ratios that were measured: of the peers to sknet, and of sknet to the floor."""
    pairs = (name.split(" / ") for name in RATIOS)
    return {f"{x} / {y}": found[x] / found[y] for x, y in pairs if x in found}


if __name__ == "__main__":
    main()
