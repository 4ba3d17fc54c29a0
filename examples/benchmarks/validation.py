"""Time an epoch with and without predicting held-out rows after it.

Training and prediction have to share one thread pool: otherwise idle threads of one spin on the cores that
the other needs. With early stopping, a tenth of the rows is held out, so an epoch trains on fewer rows, and
should not take longer.

    python examples/benchmarks/validation.py [--rounds 5]
"""

import argparse
import statistics
import warnings

import numpy as np
from training import NETWORKS, Network, data, fit_estimator, seconds

from sknet import MLPClassifier

SHORT, LONG = 4, 24  # epochs


def milliseconds(network: Network, X: np.ndarray, y: np.ndarray, early_stopping: bool, rounds: int) -> float:
    """Return the time of an epoch: a long fit minus a short one, the median of the rounds."""

    def fit(epochs: int) -> None:
        fit_estimator(MLPClassifier, network, X, y, epochs, early_stopping=early_stopping)

    fit(1)
    times = [seconds(fit, LONG) - seconds(fit, SHORT) for _ in range(rounds)]
    return statistics.median(times) / (LONG - SHORT) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    print("| network | one epoch, ms | with held-out rows |\n|---|---|---|")
    for network in NETWORKS[:-1]:
        plain, early = (milliseconds(network, *data(network), early, rounds) for early in (False, True))
        print(f"| {network} | {plain:.1f} | {early:.1f} |", flush=True)


if __name__ == "__main__":
    main()
