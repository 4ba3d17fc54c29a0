"""Time fits on digits with and without another process that keeps one core busy: sknet and scikit-learn.

BLAS chooses its number of threads, as in a user's process. Prints median seconds, and the ratio of a fit
with the busy core to one without.

    python examples/benchmarks/busy.py
    python examples/benchmarks/busy.py --quick --json busy.json
"""

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from measured import Table, parser_of, write
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

from sknet import MLPClassifier

KINDS = {"sknet": MLPClassifier, "scikit-learn": ScikitLearnMLP}
SPIN = "while True: pass"
FITS = Table("a fit of 20 epochs", {"alone, s": ".3f", "beside a busy core, s": ".3f", "ratio": ".2f"})


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


def seconds(kind: Any, epochs: int) -> float:
    """Return the seconds of a fit."""
    X, y = load_digits(return_X_y=True)
    estimator = kind((100,), max_iter=epochs, random_state=0)
    started = time.perf_counter()
    estimator.fit(X / 16, y)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="a few epochs, to see that it runs")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    epochs, rounds = (2, 1) if args.quick else (20, args.rounds)
    taken: dict[tuple[str, bool], list[float]] = {}
    for kind in KINDS.values():
        seconds(kind, epochs)
    for _ in range(rounds):
        for is_busy in (False, True):
            with busy(is_busy):
                for name, kind in KINDS.items():
                    taken.setdefault((name, is_busy), []).append(seconds(kind, epochs))
    for name in KINDS:
        quiet, beside = (statistics.median(taken[name, is_busy]) for is_busy in (False, True))
        FITS.add(name, quiet, beside, beside / quiet)
    write(args.json, {"fits": FITS})


if __name__ == "__main__":
    main()
