"""Time searches and seeds: 100 fits on digits in GridSearchCV, and 100 networks of one structure.

The grid has 20 candidates, each fitted for 20 epochs on 5 folds. scikit-learn's GridSearchCV runs over both
libraries: in this process, in two processes and in two threads. Then `sknet.model_selection.GridSearchCV`,
which fits in threads that share programs, is compared with scikit-learn's networks in scikit-learn's search
with two processes, for X in float64 and in float32. "Steps alone" is what the same epochs need on two cores
without all else, from fits of 20 and of 120 epochs. At last, 100 networks 20-100-2 with batches of 32 are
trained one after the other, and by `sknet.engine.fit_many`. The sides alternate, with one BLAS thread each;
the first round, which compiles and imports, is not counted.

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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_backend
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier as ScikitLearnMLP

import sknet
from sknet import MLPClassifier, Model, nn
from sknet.engine import fit_many

SIZES = [(20,), (50,), (100,), (50, 50)]
GRID = {"alpha": [0.0, 1e-4, 1e-3, 1e-2, 0.1], "hidden_layer_sizes": SIZES}
QUICK = {"alpha": [0.0, 1e-2], "hidden_layer_sizes": SIZES[:2]}
WAYS = {"n_jobs=1": ("loky", 1), "n_jobs=2, processes": ("loky", 2), "n_jobs=2, threads": ("threading", 2)}
EPOCHS, MORE_EPOCHS = 20, 120


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


def table(found: Mapping[str, Mapping[str, float]], first: str) -> None:
    """Print rows of figures; the last column says how much faster the first side is than the second."""
    names = list(next(iter(found.values())))
    print(f"\n| {first} | {' | '.join(f'{name}, s' for name in names)} | times faster |")
    print("|---" * (len(names) + 2) + "|")
    for row, figures in found.items():
        ours, theirs = list(figures.values())[:2]
        shown = " | ".join(f"{figure:.2f}" for figure in figures.values())
        print(f"| {row} | {shown} | {theirs / ours:.1f} |", flush=True)


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


def steady(sizes: Any, epochs: int) -> Any:
    """Return a network that is trained for all epochs."""
    return MLPClassifier(sizes, max_iter=epochs, tol=0.0, n_iter_no_change=np.inf, random_state=0)


def searches(grid: Any, folds: int, rounds: int) -> dict[str, dict[str, float]]:
    """Measure searches."""
    found = {}
    for way, (backend, n_jobs) in WAYS.items():
        sides = {
            name: partial(in_backend, backend, partial(search, GridSearchCV, kind, grid, folds, n_jobs))
            for name, kind in (("sknet", MLPClassifier), ("scikit-learn", ScikitLearnMLP))
        }
        found[way] = medians(sides, rounds)
    table(found, "scikit-learn's GridSearchCV over both")
    grouped = {}
    for dtype in ("float64", "float32"):
        sides = {
            "sknet": partial(
                search, sknet.model_selection.GridSearchCV, MLPClassifier, grid, folds, 2, dtype
            ),
            "scikit-learn": partial(search, GridSearchCV, ScikitLearnMLP, grid, folds, 2, dtype),
        }
        grouped[dtype] = {**medians(sides, rounds), "steps alone": steps_alone(grid, folds, dtype)}
    table(grouped, "each library's GridSearchCV, n_jobs=2")
    return {**found, **{f"grouped, {dtype}": figures for dtype, figures in grouped.items()}}


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


def seeds(n_models: int, rounds: int) -> dict[str, dict[str, float]]:
    """Measure many seeds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 20), dtype=np.float32)
    y = (X[:, :2] + rng.gumbel(size=(1000, 2))).argmax(axis=1)
    alone = partial(one_by_one, n_models, X, y)
    found = {}
    for n_jobs in (1, 2):
        sides = {"fit_many": partial(together, n_models, X, y, n_jobs), "one after the other": alone}
        found[f"n_jobs={n_jobs}"] = medians(sides, rounds)
    table(found, f"{n_models} networks 20-100-2")
    return found


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
    grid, folds, rounds, count = (QUICK, 2, 1, 4) if args.quick else (GRID, 5, args.rounds, 100)
    found = {**searches(grid, folds, rounds), **seeds(count, rounds)}
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
