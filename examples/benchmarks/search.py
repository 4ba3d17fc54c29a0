"""Time scikit-learn's GridSearchCV over sknet's perceptron and over scikit-learn's own: 100 fits on digits.

The grid has 20 candidates, each fitted for 20 epochs on 5 folds: in this process, in two processes and in
two threads. Both libraries alternate, with one BLAS thread each; the first round, which compiles and imports,
is not counted.

    python examples/benchmarks/search.py
    python examples/benchmarks/search.py --quick --json search.json
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported, and for the processes of the search
os.environ["PYTHONWARNINGS"] = "ignore"  # few epochs do not converge, in other processes either

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

from joblib import parallel_backend
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

from sknet import MLPClassifier

GRID = {"alpha": [0.0, 1e-4, 1e-3, 1e-2, 0.1], "hidden_layer_sizes": [(20,), (50,), (100,), (50, 50)]}
QUICK = {"alpha": [0.0, 1e-2], "hidden_layer_sizes": [(20,), (50,)]}
WAYS = {"n_jobs=1": ("loky", 1), "n_jobs=2, processes": ("loky", 2), "n_jobs=2, threads": ("threading", 2)}
KINDS = {"sknet": MLPClassifier, "scikit-learn": ScikitLearnMLP}


def search(kind: Any, way: str, grid: dict[str, Any], folds: int) -> float:
    """Return the seconds of a search."""
    X, y = load_digits(return_X_y=True)
    backend, n_jobs = WAYS[way]
    found = GridSearchCV(kind(max_iter=20, random_state=0), grid, cv=folds, n_jobs=n_jobs, refit=False)
    started = time.perf_counter()
    with parallel_backend(backend):
        found.fit(X / 16, y)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few fits, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    grid, folds, rounds = (QUICK, 2, 1) if args.quick else (GRID, 5, args.rounds)
    found: dict[str, Any] = {}
    print("| | sknet, s | scikit-learn, s | times faster |\n|---|---|---|---|")
    for way in WAYS:
        seconds: dict[str, list[float]] = {name: [] for name in KINDS}
        for number in range(rounds + 1):
            for name, kind in KINDS.items():
                taken = search(kind, way, grid, folds)
                if number:
                    seconds[name].append(taken)
        ours, theirs = (statistics.median(seconds[name]) for name in KINDS)
        print(f"| {way} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |", flush=True)
        found[way] = {"sknet": ours, "scikit-learn": theirs, "times faster": theirs / ours}
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
