"""Count the epochs of halving with 27 candidates that go on training, beside scikit-learn's, which restart.

Both sides have the same candidates, folds, rungs and scores on digits. The epochs that were trained follow
from the rungs, and do not depend on the machine. With a factor f, each rung but the first trains a share of
1 - 1/f: small factors save most.

    python examples/benchmarks/halving.py
    python examples/benchmarks/halving.py --quick --json halving.json
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported

import warnings
from typing import Any

from measured import Table, parser_of, write
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
COUNTS = Table("factor", {"rungs": "d", "going on": "d", "starting again": "d", "share": ".0%"})


class Counter(Callback):
    """Counts the epochs of all fits."""

    epochs = 0

    def on_epoch_end(self, fit: FitView) -> None:
        Counter.epochs += 1


def search(kind: Any, factor: float, epochs: int, folds: int) -> dict[str, Any]:
    """Return epochs, rungs, and the best candidate of a search."""
    X, y = load_digits(return_X_y=True)
    clf = MLPClassifier(random_state=0, tol=0, n_iter_no_change=epochs, callbacks=[Counter()])
    found = kind(clf, GRID, resource="max_iter", factor=factor, max_resources=epochs, cv=folds, refit=False)
    Counter.epochs = 0
    found.fit(X.astype("float32") / 16, y)
    rungs = [list(pair) for pair in zip(found.n_candidates_, found.n_resources_, strict=True)]
    best = {name: value for name, value in found.best_params_.items() if name != "max_iter"}
    score = float(found.best_score_)
    return {"epochs": Counter.epochs, "rungs": rungs, "best": best, "score": score}


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="few epochs, to see that it runs")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # epochs that are limited do not converge
    factors, epochs, folds = ((3,), 27, 2) if args.quick else (FACTORS, EPOCHS, 3)
    search(GoingOn, 3, 27, 2)  # compiles and imports
    for factor in factors:
        sides = {name: search(kind, factor, epochs, folds) for name, kind in SIDES.items()}
        ours, theirs = (sides[name] for name in SIDES)
        if any(ours[same] != theirs[same] for same in ("rungs", "best", "score")):
            raise RuntimeError(f"the searches differ: {ours} and {theirs}")
        epochs_of = ours["epochs"], theirs["epochs"]
        COUNTS.add(str(factor), len(ours["rungs"]), *epochs_of, epochs_of[0] / epochs_of[1])
    write(args.json, {"epochs": COUNTS})


if __name__ == "__main__":
    main()
