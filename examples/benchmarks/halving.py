"""Count the epochs of halving with 27 candidates that go on training, beside scikit-learn's, which restart.

Both sides have the same candidates, folds, rungs and scores on digits. The epochs that were trained follow
from the rungs, and do not depend on the machine. With a factor f, each rung but the first trains a share of
1 - 1/f: small factors save most.

    python examples/benchmarks/halving.py
    python examples/benchmarks/halving.py --quick --json halving.json
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV as Restarting

from sknet import MLPClassifier
from sknet.callbacks import Callback, FitView
from sknet.model_selection import HalvingGridSearchCV as GoingOn

GRID = {
    "optimizer__lr": [3e-4, 1e-3, 3e-3],
    "alpha": [1e-4, 1e-1, 10.0],
    "hidden_layer_sizes": [(16,), (32,), (64,)],
}
SIDES = {"sknet, going on": GoingOn, "scikit-learn, restarting": Restarting}
FACTORS = (1.5, 2, 3)
EPOCHS = 108


class Counter(Callback):
    """Counts the epochs of all fits."""

    epochs = 0

    def on_epoch_end(self, fit: FitView) -> None:
        Counter.epochs += 1


def search(kind: Any, factor: float, epochs: int, folds: int) -> dict[str, Any]:
    """Return epochs, seconds and best candidate of a search."""
    X, y = load_digits(return_X_y=True)
    clf = MLPClassifier(random_state=0, tol=0, n_iter_no_change=epochs, callbacks=[Counter()])
    found = kind(clf, GRID, resource="max_iter", factor=factor, max_resources=epochs, cv=folds, refit=False)
    Counter.epochs, started = 0, time.perf_counter()
    found.fit(X.astype("float32") / 16, y)
    seconds = time.perf_counter() - started
    rungs = [list(pair) for pair in zip(found.n_candidates_, found.n_resources_, strict=True)]
    best = {name: value for name, value in found.best_params_.items() if name != "max_iter"}
    score = float(found.best_score_)
    return {"epochs": Counter.epochs, "seconds": seconds, "rungs": rungs, "best": best, "score": score}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few epochs, to see that it runs")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # epochs that are limited do not converge
    factors, epochs, folds = ((3,), 27, 2) if args.quick else (FACTORS, EPOCHS, 3)
    search(GoingOn, 3, 27, 2)  # compiles and imports
    figures: dict[str, Any] = {}
    print("| factor | rungs | | epochs | seconds | best candidate | score |\n|---|---|---|---|---|---|---|")
    for factor in factors:
        sides = {name: search(kind, factor, epochs, folds) for name, kind in SIDES.items()}
        for name, side in sides.items():
            shown = f"{side['epochs']} | {side['seconds']:.2f} | {side['best']} | {side['score']:.4f}"
            print(f"| {factor} | {len(side['rungs'])} | {name} | {shown} |", flush=True)
        ours, theirs = (sides[name] for name in SIDES)
        share, same = ours["epochs"] / theirs["epochs"], ours["best"] == theirs["best"]
        seconds = f"{ours['seconds'] / theirs['seconds']:.1%}"
        print(f"| {factor} | | share | {share:.1%} | {seconds} | same: {same} | |", flush=True)
        figures[str(factor)] = {**sides, "share of epochs": share, "same best": same}
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
