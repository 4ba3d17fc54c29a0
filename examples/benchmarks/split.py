"""Print how the time of a training step splits, for the NumPy plan.

Each part of the step is run separately, many times: gathering the batch, the gradient program (and its
matrix products alone, the floor), and the update program. The rest of a fit is the loop: hyperparameters
of the step, the finite check, losses and scores.

    python examples/benchmarks/split.py [--rounds 5] [--json PATH]
"""

import os
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np

os.environ["SKNET_NATIVE"] = "never"  # before sknet is imported

from measured import Table, parser_of, write
from training import LONG, NETWORKS, SHORT, Network, data, fit_estimator, floor, seconds

import sknet
from sknet import Model, nn
from sknet.engine import compiled_step

PARTS = ("whole", "gather", "gradient", "products", "update", "loop")
STEPS = Table(
    "network", dict.fromkeys(("whole, us", "gather", "gradient", "of it products", "update", "loop"), ".0f")
)


def network_of(network: Network) -> nn.Module:
    """Return the module that the estimator trains."""
    layers: list[nn.Module] = []
    width = network.features
    for size in network.hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, network.classes if network.classes > 2 else 1))


def microseconds(function: Callable[[], object], least: float = 0.05) -> float:
    """Return the time of a call, averaged over many."""
    calls = max(3, int(least / max(seconds(function), 1e-7)))
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls * 1e6


def parts(network: Network) -> dict[str, float]:
    """Return the microseconds of each part of a step."""
    X, y = data(network)
    targets = y if network.classes > 2 else y.astype(np.float32)[:, None]
    model = Model(network_of(network), loss="log_loss", random_state=0, alpha=1e-4)
    step = compiled_step(model, X[: network.batch], targets[: network.batch])
    rows = np.random.default_rng(0).permutation(len(X))[: network.batch]
    slots = step.gradient.slots[3:5]

    def gather() -> None:
        for array, slot in zip((X, targets), slots, strict=True):
            array.take(rows, axis=0, out=slot, mode="clip")

    gather()
    short, long = (
        seconds(fit_estimator, sknet.MLPClassifier, network, X, y, epochs) for epochs in (SHORT, LONG)
    )
    return {
        "whole": (long - short) / ((LONG - SHORT) * network.steps) * 1e6,
        "gather": microseconds(gather),
        "gradient": microseconds(step.gradient.run),
        "products": floor(network),
        "update": microseconds(step.update.run),
    }


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for network in NETWORKS:
        fit_estimator(sknet.MLPClassifier, network, *data(network), 1)
        found = [parts(network) for _ in range(args.rounds)]
        median = {name: statistics.median(part[name] for part in found) for name in found[0]}
        median["loop"] = median["whole"] - median["gather"] - median["gradient"] - median["update"]
        STEPS.add(str(network), *[median[name] for name in PARTS])
    write(args.json, {"steps": STEPS})


if __name__ == "__main__":
    main()
