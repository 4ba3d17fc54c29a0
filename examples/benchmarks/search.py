"""Time searches and seeds: 100 fits on digits in GridSearchCV, and 100 networks of one structure.

The grid has 20 candidates, each fitted for 20 epochs on 5 folds. scikit-learn's GridSearchCV runs over both
libraries: in this process, in two processes and in two threads. Then `sknet.model_selection.GridSearchCV`,
which fits in threads that share programs, is compared with scikit-learn's networks in scikit-learn's search
with two processes, for X in float64 and in float32. "Steps alone" is what the same epochs need on two cores
without all else, from fits of 20 and of 120 epochs. At last, 100 networks 20-100-2 with batches of 32 are
trained one after the other, and by `sknet.engine.fit_many`. The sides alternate, with one BLAS thread each;
the first round, which compiles and imports, is not counted.

With `--floor`, only the steps alone are measured, and what NumPy needs on two cores for their matrix
products: no search over the same grid can take less.

    python examples/benchmarks/search.py
    python examples/benchmarks/search.py --quick --json search.json
    python examples/benchmarks/search.py --floor
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported, and for the processes of the search
os.environ["PYTHONWARNINGS"] = "ignore"  # few epochs do not converge, in other processes either

import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import parallel_backend
from measured import Table, parser_of, write
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

import sknet
from sknet import MLPClassifier, Model, nn
from sknet.engine import fit_many

SIZES = [(20,), (50,), (100,), (50, 50)]
GRID = {"alpha": [0.0, 1e-4, 1e-3, 1e-2, 0.1], "hidden_layer_sizes": SIZES}
QUICK = {"alpha": [0.0, 1e-2], "hidden_layer_sizes": SIZES[:2]}
WAYS = {
    "`n_jobs=1`": ("loky", 1),
    "`n_jobs=2`, processes": ("loky", 2),
    "`n_jobs=2`, threads": ("threading", 2),
}
EPOCHS, MORE_EPOCHS = 20, 120
BATCH = 200  # rows, as by default
PEERS = {"sknet, s": ".2f", "scikit-learn, s": ".2f", "times faster": ".1f"}
TABLES = {
    "both": Table("scikit-learn's search", PEERS, drawn=list(PEERS)[:2], unit="seconds"),
    "grouped": Table("each library's search, `n_jobs=2`", {**PEERS, "steps alone, s": ".2f"}),
    "seeds": Table(
        "networks 20-100-2", {"`fit_many`, s": ".2f", "one after the other, s": ".2f", "times faster": ".1f"}
    ),
}


def seconds(work: Callable[[], Any]) -> float:
    """Return how long a function takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def medians(sides: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median of the seconds of each side, in turns; the first round is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, work in sides.items():
            spent = seconds(work)
            if number:
                taken[name].append(spent)
    return {name: statistics.median(each) for name, each in taken.items()}


def add(table: str, row: str, found: Mapping[str, float], *more: float) -> None:
    """Add a row of seconds, and how much faster the first side is than the second."""
    ours, theirs = found.values()
    TABLES[table].add(row, ours, theirs, theirs / ours, *more)


# -- searches ------------------------------------------------------------------------------------


def digits(dtype: str = "float64") -> tuple[Any, Any]:
    """Return the digits, between 0 and 1."""
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(dtype), y


def search(search_of: Any, kind: Any, grid: Any, folds: int, n_jobs: int, dtype: str = "float64") -> None:
    """Search with one kind of search over one kind of network."""
    net = kind(max_iter=EPOCHS, random_state=0)
    search_of(net, grid, cv=folds, n_jobs=n_jobs, refit=False).fit(*digits(dtype))


def in_backend(backend: str, work: Callable[[], Any]) -> None:
    """Run with one of joblib's backends."""
    with parallel_backend(backend):
        work()


def steps_alone(grid: Any, folds: int, dtype: str) -> float:
    """Return the seconds that two cores need for the training steps of the search alone."""
    X, y = digits(dtype)
    part = slice(0, len(X) * (folds - 1) // folds)
    total = 0.0
    with sknet.config_context(native="always"):
        for sizes in grid["hidden_layer_sizes"]:
            few, many = (
                min(seconds(partial(steady(sizes, epochs).fit, X[part], y[part])) for _ in range(4))
                for epochs in (EPOCHS, MORE_EPOCHS)
            )
            total += (many - few) * EPOCHS / (MORE_EPOCHS - EPOCHS)
    return total * len(grid["alpha"]) * folds / 2


def products_alone(grid: Any, folds: int, dtype: str) -> float:
    """Return the seconds that two cores need for the matrix products of the search alone."""
    n_rows = len(digits(dtype)[0]) * (folds - 1) // folds
    total = 0.0
    for sizes in grid["hidden_layer_sizes"]:
        full, last = (products(sizes, rows, dtype) for rows in (BATCH, n_rows % BATCH))
        epoch = [*full * (n_rows // BATCH), *last]
        total += min(seconds(partial(multiply, epoch * EPOCHS)) for _ in range(4))
    return total * len(grid["alpha"]) * folds / 2


def floor(grid: Any, folds: int) -> None:
    """Print what the steps of a search take, and their products: neither is among the files' figures."""
    table = Table("all fits, two cores", {"steps alone, s": ".2f", "products alone, s": ".2f"})
    for dtype in ("float64", "float32"):
        table.add(dtype, steps_alone(grid, folds, dtype), products_alone(grid, folds, dtype))


Product = tuple[np.ndarray, np.ndarray, np.ndarray]


def products(sizes: tuple[int, ...], rows: int, dtype: str) -> list[Product]:
    """Return the factors of the products of a step, and arrays for the results."""
    rng = np.random.default_rng(0)
    widths = (64, *sizes, 10)
    weights = [rng.normal(size=pair).astype(dtype) for pair in pairwise(widths)]
    values = [rng.normal(size=(rows, width)).astype(dtype) for width in widths]
    found = []
    for i, w in enumerate(weights):
        x, y = values[i], values[i + 1]
        found += [(x, w, np.empty_like(y)), (x.T, y, np.empty_like(w))]
        if i:  # nothing needs the gradient of the inputs
            found.append((y, w.T, np.empty_like(x)))
    return found


def multiply(given: list[Product]) -> None:
    """Compute products."""
    for x, y, out in given:
        np.dot(x, y, out)


def steady(sizes: Any, epochs: int) -> Any:
    """Return a network that is trained for all epochs."""
    return MLPClassifier(sizes, max_iter=epochs, tol=0.0, n_iter_no_change=np.inf, random_state=0)


def searches(grid: Any, folds: int, rounds: int) -> None:
    """Measure searches."""
    for way, (backend, n_jobs) in WAYS.items():
        sides = {
            name: partial(in_backend, backend, partial(search, GridSearchCV, kind, grid, folds, n_jobs))
            for name, kind in (("sknet", MLPClassifier), ("scikit-learn", ScikitLearnMLP))
        }
        add("both", way, medians(sides, rounds))
    for dtype in ("float64", "float32"):
        sides = {
            "sknet": partial(
                search, sknet.model_selection.GridSearchCV, MLPClassifier, grid, folds, 2, dtype
            ),
            "scikit-learn": partial(search, GridSearchCV, ScikitLearnMLP, grid, folds, 2, dtype),
        }
        add("grouped", dtype, medians(sides, rounds), steps_alone(grid, folds, dtype))


# -- seeds ---------------------------------------------------------------------------------------


def networks(n_models: int) -> list[Model]:
    """Return networks of one structure."""
    made = []
    for seed in range(n_models):
        network = nn.Sequential(nn.Linear(20, 100), nn.ReLU(), nn.Linear(100, 2))
        made.append(Model(network, "log_loss", random_state=seed))
    return made


def one_by_one(n_models: int, X: Any, y: Any) -> None:
    """Train one after the other."""
    for model in networks(n_models):
        model.fit(X, y, epochs=EPOCHS, batch_size=32)


def together(n_models: int, X: Any, y: Any, n_jobs: int) -> None:
    """Train as a group."""
    fit_many(networks(n_models), X, y, epochs=EPOCHS, batch_size=32, n_jobs=n_jobs)


def seeds(n_models: int, rounds: int) -> None:
    """Measure many seeds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 20), dtype=np.float32)
    y = (X[:, :2] + rng.gumbel(size=(1000, 2))).argmax(axis=1)
    alone = partial(one_by_one, n_models, X, y)
    for n_jobs in (1, 2):
        sides = {"fit_many": partial(together, n_models, X, y, n_jobs), "one after the other": alone}
        add("seeds", f"{n_models}, `n_jobs={n_jobs}`", medians(sides, rounds))


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="few fits, to see that it runs")
    parser.add_argument("--floor", action="store_true", help="what bounds every search over the grid")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    grid, folds, rounds, count = (QUICK, 2, 1, 4) if args.quick else (GRID, 5, args.rounds, 100)
    if args.floor:
        floor(grid, folds)
        return
    searches(grid, folds, rounds)
    seeds(count, rounds)
    write(args.json, TABLES)


if __name__ == "__main__":
    main()
