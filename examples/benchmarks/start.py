"""Time the overhead of short fits, and predictions of few rows: sknet and scikit-learn.

Measured alternately, in one process, with one BLAS thread:

- a second fit of 20 epochs on iris, and its time before the first step;
- the time before the first step of the first fit of a fresh process, without and with Numba;
- a call of `partial_fit` on one batch of a stream, and its overhead besides the step;
- predictions of 1, 2 and 10 rows, in microseconds and in calls of Python functions.

    python examples/benchmarks/start.py
    python examples/benchmarks/start.py --quick --json start.json
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported; second threads do not help here

import argparse
import cProfile
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

from sknet import MLPClassifier
from sknet.callbacks import Callback

KINDS = {"sknet": MLPClassifier, "scikit-learn": ScikitLearnMLP}
EPOCHS = 20
ROWS = 200  # of a batch of the stream

FIRST = """
import json, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.datasets import load_iris
from sknet import MLPClassifier
from sknet.callbacks import Callback
X, y = load_iris(return_X_y=True)

class Clock(Callback):
    def on_epoch_begin(self, fit):
        if fit.epoch == 1:
            print(json.dumps(time.perf_counter() - started))

clf = MLPClassifier(max_iter=2, random_state=0, callbacks=[Clock()])
started = time.perf_counter()
clf.fit(X, y)
"""


class Clock(Callback):
    """Records when the first epoch begins."""

    def on_epoch_begin(self, fit: Any) -> None:
        """Record the time."""
        if fit.epoch == 1:
            self.began_ = time.perf_counter()


def in_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median measurement of each function, called alternately."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return {name: statistics.median(values) for name, values in found.items()}


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def before_the_first_step(X: Any, y: Any) -> float:
    """Return the seconds of a fit before its first epoch."""
    clf = MLPClassifier(max_iter=1, random_state=0, callbacks=[Clock()])
    started = time.perf_counter()
    return float(clf.fit(X, y).callbacks_[0].began_ - started)


def drawing_weights() -> float:
    """Return the seconds of drawing the weights of a network for iris."""
    random_state = np.random.RandomState(0)
    return seconds(lambda: [random_state.uniform(-1, 1, n) for n in (400, 100, 300, 3)])


def second_fits(rounds: int) -> dict[str, float]:
    """Return milliseconds of a second fit on iris."""
    X, y = load_iris(return_X_y=True)
    ways: dict[str, Callable[[], float]] = {
        f"iris, second fit of {EPOCHS} epochs, {name}": (
            lambda kind=kind: seconds(lambda: kind(max_iter=EPOCHS, random_state=0).fit(X, y))
        )
        for name, kind in KINDS.items()
    }
    ways["before its first step, sknet"] = lambda: before_the_first_step(X, y)
    ways["of it, drawing the weights"] = drawing_weights
    in_turns(ways, 3)
    return {name: value * 1e3 for name, value in in_turns(ways, rounds).items()}


def first_fits(rounds: int) -> dict[str, float]:
    """Return the milliseconds before the first step of the first fit in a process."""

    def fresh(native: bool) -> float:
        environment = os.environ | {"SKNET_NATIVE": "auto" if native else "never"}
        command = [sys.executable, "-c", FIRST]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return float(json.loads(done.stdout))

    ways = {"before the first step of a process, NumPy's plan": lambda: fresh(False)}
    try:
        import numba  # noqa: F401

        ways["the same, where Numba is installed"] = lambda: fresh(True)
    except ImportError:
        pass
    return {name: value * 1e3 for name, value in in_turns(ways, rounds).items()}


def streams(rounds: int) -> dict[str, float]:
    """Return the microseconds of a call of `partial_fit`, and of its steps."""
    X, y = load_digits(return_X_y=True)
    X, y = (X / 16)[:ROWS].astype(np.float32), y[:ROWS]
    calls = 50
    found: dict[str, Callable[[], float]] = {}
    for name, kind in KINDS.items():
        clf = kind(random_state=0)
        clf.partial_fit(X, y, classes=np.arange(10))
        found[f"partial_fit of {ROWS} rows, {name}"] = lambda clf=clf: seconds(
            lambda: clf.partial_fit(X, y), calls
        )
    many = {n: np.tile(X, (n, 1)) for n in (20, 220)}
    classes = {n: np.tile(y, n) for n in many}

    def step() -> float:
        """Return the seconds of a step, as the difference between long and short epochs."""
        fits = {
            n: MLPClassifier(max_iter=1, batch_size=ROWS, shuffle=False, random_state=0).fit for n in many
        }
        long, short = (seconds(lambda n=n: fits[n](many[n], classes[n])) for n in (220, 20))
        return (long - short) / 200

    found["of it, the step, sknet"] = step
    in_turns(found, 2)
    return {name: value * 1e6 for name, value in in_turns(found, rounds).items()}


def predictions(rounds: int) -> dict[str, float]:
    """Return the microseconds of predictions of few rows, and their number of Python function calls."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    fitted = {name: kind(max_iter=5, random_state=0).fit(X, y) for name, kind in KINDS.items()}
    ways: dict[str, Callable[[], float]] = {}
    calls = {}
    for n in (1, 2, 10):
        for name, clf in fitted.items():
            rows = X[:n]
            ways[f"predict of {n} rows, {name}"] = lambda clf=clf, rows=rows: seconds(
                lambda: clf.predict(rows), 200
            )
            clf.predict(rows)
            profile = cProfile.Profile()
            profile.runcall(clf.predict, rows)
            calls[f"function calls of predict of {n} rows, {name}"] = float(
                sum(entry.callcount for entry in profile.getstats())
            )
    return {name: value * 1e6 for name, value in in_turns(ways, rounds).items()} | calls


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that it runs")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rounds = 3 if args.quick else 41
    sections = {
        "milliseconds": second_fits(rounds) | first_fits(2 if args.quick else 9),
        "microseconds": streams(rounds) | predictions(rounds),
    }
    found = {}
    print("| | figure | unit |\n|---|---|---|")
    for unit, figures in sections.items():
        for name, value in figures.items():
            shown = "calls" if name.startswith("function calls") else unit
            print(f"| {name} | {value:.3g} | {shown} |")
            found[name] = {"value": value, "unit": shown}
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
