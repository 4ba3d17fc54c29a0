"""Time the overhead of short fits, and predictions of few rows: sknet and scikit-learn.

Measured alternately, in one process, with one BLAS thread:

- a second fit of 20 epochs on iris, and its time before the first step;
- the first fit of a fresh process, of two epochs, without and with native code;
- a call of `partial_fit` on one batch of a stream, and its overhead besides the step;
- predictions of 1, 2 and 10 rows, in microseconds and in calls of Python functions.

    python examples/benchmarks/start.py
    python examples/benchmarks/start.py --quick --json start.json
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported; second threads do not help here

import cProfile
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from measured import Table, parser_of, write
from sklearn.datasets import load_digits, load_iris
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

from sknet import MLPClassifier

KINDS = {"sknet": MLPClassifier, "scikit-learn": ScikitLearnMLP}
STARTS = Table("", dict.fromkeys(KINDS, ".4g"))
EPOCHS = 20
ROWS = 200  # of a batch of the stream

FIRST = """
import json, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.datasets import load_iris
from sknet import MLPClassifier
X, y = load_iris(return_X_y=True)
clf = MLPClassifier(max_iter=2, random_state=0)
started = time.perf_counter()
clf.fit(X, y)
print(json.dumps(time.perf_counter() - started))
"""


def in_turns(ways: Mapping[Any, Callable[[], float]], rounds: int) -> dict[Any, float]:
    """Return the median measurement of each function, called alternately."""
    found: dict[Any, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return {name: statistics.median(values) for name, values in found.items() if values}


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def before_the_first_step(X: Any, y: Any) -> float:
    """Return the seconds of a fit before its first step: of a short one, without the rest of a longer one."""
    options = {"random_state": 0, "tol": 0, "n_iter_no_change": np.inf}
    short, long = (
        seconds(lambda n=n: MLPClassifier(max_iter=n, **options).fit(X, y)) for n in (EPOCHS, 2 * EPOCHS)
    )
    return 2 * short - long


def drawing_weights() -> float:
    """Return the seconds of drawing the weights of a network for iris."""
    random_state = np.random.RandomState(0)
    return seconds(lambda: [random_state.uniform(-1, 1, n) for n in (400, 100, 300, 3)])


Sides = dict[str, Callable[[], float]]  # by "sknet" and "scikit-learn"


def measured(rows: Mapping[str, Sides], factor: float, rounds: int, warm: int = 2) -> None:
    """Add the median measurements of functions by row and side, all called alternately."""
    ways = {(row, name): way for row, sides in rows.items() for name, way in sides.items()}
    in_turns(ways, warm)
    found = in_turns(ways, rounds)
    for row in rows:
        STARTS.add(row, *[None if (row, name) not in found else found[row, name] * factor for name in KINDS])


def second_fits(rounds: int) -> None:
    """Measure milliseconds of a second fit on iris."""
    X, y = load_iris(return_X_y=True)
    whole: Sides = {
        name: lambda kind=kind: seconds(lambda: kind(max_iter=EPOCHS, random_state=0).fit(X, y))
        for name, kind in KINDS.items()
    }
    rows = {
        f"iris, second fit of {EPOCHS} epochs, ms": whole,
        "before its first step, ms": {"sknet": lambda: before_the_first_step(X, y)},
        "of it, drawing the weights, ms": {"sknet": drawing_weights},
    }
    measured(rows, 1e3, rounds, warm=3)


def first_fits(rounds: int) -> None:
    """Measure the milliseconds of the first fit in a process."""

    def fresh(native: bool) -> float:
        environment = os.environ | {"SKNET_NATIVE": "auto" if native else "never"}
        command = [sys.executable, "-c", FIRST]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return float(json.loads(done.stdout))

    rows: dict[str, Sides] = {
        "the first fit of a process, 2 epochs, ms": {"sknet": lambda: fresh(False)},
        "the same with native code, ms": {"sknet": lambda: fresh(True)},
    }
    measured(rows, 1e3, rounds, warm=0)


def streams(rounds: int) -> None:
    """Measure the microseconds of a call of `partial_fit`, and of its steps."""
    X, y = load_digits(return_X_y=True)
    X, y = (X / 16)[:ROWS].astype(np.float32), y[:ROWS]
    calls: Sides = {}
    for name, kind in KINDS.items():
        clf = kind(random_state=0)
        clf.partial_fit(X, y, classes=np.arange(10))
        calls[name] = lambda clf=clf: seconds(lambda: clf.partial_fit(X, y), 50)
    many, classes = np.tile(X, (20, 1)), np.tile(y, 20)

    def step() -> float:
        """Return the seconds of a step, as the difference between long and short fits."""
        options = {"batch_size": ROWS, "shuffle": False, "tol": 0, "n_iter_no_change": np.inf}
        fits = {n: MLPClassifier(max_iter=n, random_state=0, **options).fit for n in (12, 2)}
        long, short = (seconds(lambda n=n: fits[n](many, classes)) for n in fits)
        return (long - short) / 200

    rows = {f"`partial_fit` of {ROWS} rows, us": calls, "its step alone, us": {"sknet": step}}
    measured(rows, 1e6, rounds)


def predictions(rounds: int) -> None:
    """Measure the microseconds of predictions of few rows, and count their calls of Python functions."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    fitted = {name: kind(max_iter=5, random_state=0).fit(X, y) for name, kind in KINDS.items()}
    names = {1: "1 row", 2: "2 rows", 10: "10 rows"}
    rows: dict[str, Sides] = {
        f"`predict` of {shown}, us": {
            name: lambda clf=clf, n=n: seconds(lambda: clf.predict(X[:n]), 200)
            for name, clf in fitted.items()
        }
        for n, shown in names.items()
    }
    measured(rows, 1e6, rounds)
    for n, shown in names.items():
        STARTS.add(
            f"function calls of `predict` of {shown}", *[calls_of(clf, X[:n]) for clf in fitted.values()]
        )


def calls_of(clf: Any, rows: Any) -> float:
    """Return the number of Python function calls of a prediction."""
    profile = cProfile.Profile()
    profile.runcall(clf.predict, rows)
    return float(sum(entry.callcount for entry in profile.getstats()))


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that it runs")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rounds = 3 if args.quick else 41
    second_fits(rounds)
    first_fits(2 if args.quick else 9)
    streams(rounds)
    predictions(rounds)
    write(args.json, {"starts": STARTS})


if __name__ == "__main__":
    main()
