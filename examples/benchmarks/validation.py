"""Time an epoch with and without predicting held-out rows after it.

Training and prediction have to share one thread pool: otherwise idle threads of one spin on the cores that
the other needs. With early stopping, a tenth of the rows is held out, so an epoch trains on fewer rows, and
should not take longer.

    python examples/benchmarks/validation.py [--rounds 5] [--json PATH]
"""

import statistics
import warnings

import numpy as np
from measured import Table, parser_of, write
from training import NETWORKS, Network, data, fit_estimator, seconds

from sknet import MLPClassifier

SHORT, LONG = 4, 24  # epochs
EPOCHS = Table("network", {"one epoch, ms": ".1f", "with held-out rows": ".1f"})


def milliseconds(network: Network, X: np.ndarray, y: np.ndarray, early_stopping: bool, rounds: int) -> float:
    """Return the time of an epoch: a long fit minus a short one, the median of the rounds."""

    def fit(epochs: int) -> None:
        fit_estimator(MLPClassifier, network, X, y, epochs, early_stopping=early_stopping)

    fit(1)
    times = [seconds(fit, LONG) - seconds(fit, SHORT) for _ in range(rounds)]
    return statistics.median(times) / (LONG - SHORT) * 1e3


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for network in NETWORKS[:-1]:
        X, y = data(network)
        plain, early = (milliseconds(network, X, y, early, args.rounds) for early in (False, True))
        EPOCHS.add(str(network), plain, early)
    write(args.json, {"epochs": EPOCHS})


if __name__ == "__main__":
    main()
