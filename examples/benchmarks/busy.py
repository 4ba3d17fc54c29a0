"""Time fits on digits with and without another process that keeps one core busy: sknet and scikit-learn.

BLAS chooses its number of threads, as in a user's process. Prints median seconds, and the ratio of a fit
with the busy core to one without.

    python examples/benchmarks/busy.py
    python examples/benchmarks/busy.py --quick --json busy.json
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

from sknet import MLPClassifier

KINDS = {"sknet": MLPClassifier, "scikit-learn": ScikitLearnMLP}
SPIN = "while True: pass"


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few epochs, to see that it runs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
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
    found: dict[str, Any] = {}
    print("| | quiet, s | beside a busy core, s | ratio |\n|---|---|---|---|")
    for name in KINDS:
        quiet, beside = (statistics.median(taken[name, is_busy]) for is_busy in (False, True))
        print(f"| {name} | {quiet:.3f} | {beside:.3f} | {beside / quiet:.2f} |")
        found[name] = {"quiet": quiet, "busy": beside, "ratio": beside / quiet}
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
