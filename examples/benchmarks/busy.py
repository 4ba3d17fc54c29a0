"""Time fits with and without another process that keeps one core busy: sknet, scikit-learn and PyTorch.

A perceptron on digits, of sknet and scikit-learn, and the network of convolutions of `networks.py`, of sknet
and PyTorch. Libraries choose their numbers of threads, as in a user's process. Prints median seconds, and
the ratio of a fit with the busy core to one without.

    python examples/benchmarks/busy.py
    python examples/benchmarks/busy.py --quick --json busy.json
"""

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from measured import Table, parser_of, write
from networks import CASES, contenders, data
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP
from training import seconds

from sknet import MLPClassifier

KINDS = {"sknet": MLPClassifier, "scikit-learn": ScikitLearnMLP}
Fits = dict[str, Callable[[], float]]
SPIN = "while True: pass"
COLUMNS = {"alone, s": ".3f", "beside a busy core, s": ".3f", "ratio": ".2f"}
FITS = Table("a fit of 20 epochs", COLUMNS)
IMAGES = Table("4 epochs of 8 steps", COLUMNS)


@contextmanager
def busy(is_busy: bool) -> Iterator[None]:
    """Keep a core busy with a separate process."""
    process = subprocess.Popen([sys.executable, "-c", SPIN]) if is_busy else None
    try:
        time.sleep(0.2)
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def perceptrons(epochs: int) -> Fits:
    """Return fits on digits."""
    X, y = load_digits(return_X_y=True)
    estimators = {name: kind((100,), max_iter=epochs, random_state=0) for name, kind in KINDS.items()}
    return {name: partial(seconds, each.fit, X / 16, y) for name, each in estimators.items()}


def images(epochs: int) -> Fits:
    """Return fits of a network of convolutions."""
    case = CASES[0]
    X, y = data(case)
    return {name: partial(seconds, fit, case, X, y, epochs) for name, fit in contenders().items()}


def measure(table: Table, fits: Fits, rounds: int) -> None:
    """Alternate fits, alone and beside a busy core."""
    taken: dict[tuple[str, bool], list[float]] = {}
    for fit in fits.values():
        fit()
    for _ in range(rounds):
        for is_busy in (False, True):
            with busy(is_busy):
                for name, fit in fits.items():
                    taken.setdefault((name, is_busy), []).append(fit())
    for name in fits:
        quiet, beside = (statistics.median(taken[name, is_busy]) for is_busy in (False, True))
        table.add(name, quiet, beside, beside / quiet)


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="a few epochs, to see that it runs")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rounds = 1 if args.quick else args.rounds
    measure(FITS, perceptrons(2 if args.quick else 20), rounds)
    measure(IMAGES, images(1 if args.quick else 4), rounds)
    write(args.json, {"fits": FITS, "images": IMAGES})


if __name__ == "__main__":
    main()
