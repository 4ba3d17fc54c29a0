"""Scores of untouched defaults on raw numbers: sknet, scikit-learn's networks, HistGradientBoosting (HGB).

    python examples/benchmarks/untouched.py --data DIR [--sets NAME ...] [--seeds 5] [--jobs 2] [--json PATH]
    python examples/benchmarks/untouched.py --data DIR --settings [NAME ...]
    python examples/benchmarks/untouched.py --data DIR --few [NAME ...]
    python examples/benchmarks/untouched.py --data DIR --first [NAME ...]
    python examples/benchmarks/untouched.py --columns [--seeds 3]

DIR is as for ``tables.py``; of its sets, the columns of numbers are taken as they are, without the rows in
which one is missing. 10,000 rows are drawn for training, and up to 10,000 others are scored; of
scikit-learn's small sets, a fifth of the rows is scored. Scores are accuracies and R2, seconds those of a
processor. "Tuned" is the better of six settings (penalty and learning rate) by cross-validation. With
``--settings``, other settings of sknet's `MLPClassifier` and `MLPRegressor` are compared by their mean rank,
as when defaults were chosen; with ``--few``, their penalties and rates, on few rows of those that are
trained on otherwise, and others of these to score; with ``--first``, the rates from which these begin, in
few and many epochs, and the defaults; with ``--columns``, their penalties for one to three
columns, on drawn curves with noise. It needs pandas and pyarrow: ``python -m pip install
"scikit-neural[data]"``.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # a fit has one core
os.environ["PYTHONWARNINGS"] = "ignore"  # scikit-learn's default does not converge on some

import json
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from measured import Table, parser_of, write
from scipy.stats import rankdata
from sklearn import datasets
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier as ScikitLearnMLPClassifier
from sklearn.neural_network import MLPRegressor as ScikitLearnMLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sknet import MLPClassifier, MLPRegressor
from sknet.neural_network import MLPClassifier as DropInClassifier
from sknet.neural_network import MLPRegressor as DropInRegressor
from sknet.optim import Adam, AdamW, ScheduleFreeAdamW
from sknet.optim.schedules import Cosine, InverseTime, WarmUp
from sknet.tabular import TabularClassifier, TabularRegressor

SMALL = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": partial(datasets.load_diabetes, scaled=False),
}
DRAWN = {  # of rows, with noise
    "linear": partial(datasets.make_regression, n_features=20, n_informative=8, noise=60.0),
    "friedman": partial(datasets.make_friedman1, noise=1.0),
    "clusters": partial(datasets.make_classification, n_informative=6, n_redundant=4, flip_y=0.1),
    "5 clusters": partial(
        datasets.make_classification, n_informative=8, n_classes=5, n_clusters_per_class=1, flip_y=0.05
    ),
    "moons": partial(datasets.make_moons, noise=0.3),
}


def curve(n_columns: int, function: Callable[..., Any]) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Return a function that draws rows of columns from 0 to 10 and a function of them with noise."""

    def draw(n_rows: int, random_state: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(random_state)
        X = rng.uniform(0, 10, (n_rows, n_columns))
        y = function(*X.T)
        return X, y + rng.normal(scale=0.3 * y.std(), size=n_rows)

    return draw


CURVES = {  # of one to three columns
    "a": curve(1, lambda a: a),
    "sin(a)": curve(1, np.sin),
    "sin(a) b": curve(2, lambda a, b: np.sin(a) * b),
    "a + b + c": curve(3, lambda a, b, c: a + b + c),
    "sin(a) b + 3 cos(c)": curve(3, lambda a, b, c: np.sin(a) * b + 3 * np.cos(c)),
    "moons": DRAWN["moons"],
    "circles": partial(datasets.make_circles, noise=0.1, factor=0.5),
}
LARGE = ("adult", "california_housing", "diamonds", "bike_sharing", "covertype_16pct")
ROWS = 10_000
PENALTIES, RATES = (1e-4, 1e-2, 1.0), (1e-3, 1e-2)
Contender = Callable[[bool, int, int], Any]  # of a regression or not, a seed and the number of rows

COLUMNS = ("sknet MLP", "sknet Tabular", "MLP, raw", "MLP, scaled", "MLP, tuned", "HGB")
SCORES = Table("raw numbers of", dict.fromkeys(COLUMNS, ".3f"))
SECONDS = Table("seconds on", dict.fromkeys(COLUMNS, ".2f"))


@cache
def large(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the numbers of a set, its targets, and whether they are numbers."""
    import pandas as pd

    about = json.loads((folder / "datasets.json").read_text())[name]
    frame = pd.read_parquet(folder / about["file"]).drop(columns=about.get("ignore", []))
    y = frame.pop(about["target"]).to_numpy()
    X = frame.select_dtypes("number").to_numpy(np.float64)
    complete = np.isfinite(X).all(axis=1)
    return X[complete], y[complete], about["task"] == "regression"


HELD_OUT = 2000  # rows that score a fit to few others
FEW = (
    *(f"{name}:{rows}" for name in LARGE for rows in (200, 600)),
    *(f"{name}:200" for name in DRAWN),
    *("iris:90", "wine:107", "breast_cancer:342", "diabetes:266"),  # three quarters of what is trained on
)


def parts(folder: Path, name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Return X and y to train on, X and y to score, and whether the targets are numbers."""
    if ":" in name:
        name, rows = name.split(":")
        n, drawn = int(rows), {**DRAWN, **CURVES}
        if name in drawn:
            X, y = drawn[name](n + HELD_OUT, random_state=seed)
            is_numeric = y.dtype.kind == "f"
        else:
            X, y, _, _, is_numeric = parts(folder, name, seed)
        return X[:n], y[:n], X[n : n + HELD_OUT], y[n : n + HELD_OUT], is_numeric
    if name in SMALL:
        X, y = SMALL[name](return_X_y=True)
        is_numeric, n_test = name == "diabetes", len(X) // 5
        n_train = len(X) - n_test
    else:
        X, y, is_numeric = large(folder, name)
        n_train, n_test = ROWS, ROWS
    order = np.random.default_rng(seed).permutation(len(X))
    training, test = order[:n_train], order[n_train : n_train + n_test]
    return X[training], y[training], X[test], y[test], is_numeric


def of_task(classifier: Any, regressor: Any, **parameters: Any) -> Contender:
    """Return a contender of two classes with the same parameters."""

    def make(is_numeric: bool, seed: int, n_rows: int) -> Any:
        return (regressor if is_numeric else classifier)(random_state=seed, **parameters)

    return make


def scaled(contender: Contender) -> Contender:
    """Return a contender behind a scaler, also of the targets of a regression."""

    def make(is_numeric: bool, seed: int, n_rows: int) -> Any:
        pipeline = make_pipeline(StandardScaler(), contender(is_numeric, seed, n_rows))
        return TransformedTargetRegressor(pipeline, transformer=StandardScaler()) if is_numeric else pipeline

    return make


def tuned(is_numeric: bool, seed: int, n_rows: int) -> Any:
    """Return a search over settings of scikit-learn's networks, fitted by the drop-ins: the same weights."""
    network = of_task(DropInClassifier, DropInRegressor)(is_numeric, seed, n_rows)
    step = type(network).__name__.lower()
    grid = {f"{step}__alpha": PENALTIES, f"{step}__learning_rate_init": RATES}
    scoring = None if is_numeric else "neg_log_loss"
    search = GridSearchCV(make_pipeline(StandardScaler(), network), grid, cv=3, scoring=scoring)
    return TransformedTargetRegressor(search, transformer=StandardScaler()) if is_numeric else search


scikit_learns = of_task(ScikitLearnMLPClassifier, ScikitLearnMLPRegressor)
DEFAULTS: Mapping[str, Contender] = {
    "sknet MLP": of_task(MLPClassifier, MLPRegressor),
    "sknet Tabular": of_task(TabularClassifier, TabularRegressor),
    "MLP, raw": scikit_learns,
    "MLP, scaled": scaled(scikit_learns),
    "MLP, tuned": tuned,
    "HGB": of_task(HistGradientBoostingClassifier, HistGradientBoostingRegressor),
}


def ours(**parameters: Any) -> Contender:
    """Return sknet's networks with other parameters."""
    return of_task(MLPClassifier, MLPRegressor, **parameters)


def lasting(epochs: int, make_optimizer: Callable[[], Any], **parameters: Any) -> Contender:
    """Return sknet's networks that train for so many epochs, and for 1,500 updates at least."""

    def make(is_numeric: bool, seed: int, n_rows: int) -> Any:
        batch_size = min(max(n_rows // 20, 16), 256)
        least = -(-1500 * batch_size // n_rows)
        contender = ours(
            optimizer=make_optimizer(),
            batch_size=batch_size,
            max_iter=max(epochs, least),
            n_iter_no_change=np.inf,
            **parameters,
        )
        return contender(is_numeric, seed, n_rows)

    return make


def decayed(lr: float, epochs: int, rule: Any = Adam, **parameters: Any) -> Contender:
    """Return sknet's networks with a warm-up and a cosine over all epochs."""
    return lasting(epochs, lambda: rule(WarmUp(Cosine(lr), n_steps=50)), **parameters)


def penalized(penalty: float, lr: float) -> Contender:
    """Return sknet's networks with a rate, and a penalty on the losses of all rows together."""

    def make(is_numeric: bool, seed: int, n_rows: int) -> Any:
        return ours(alpha=penalty * min(200, n_rows) / n_rows, lr=lr)(is_numeric, seed, n_rows)

    return make


EPOCHS = (10, 30, 200)


def beginning(rate: float, epochs: int) -> Contender:
    """Return sknet's networks with a first rate, which falls to the default's last one."""

    def make(is_numeric: bool, seed: int, n_rows: int) -> Any:
        last = 1e-3 * min(5.0, max(1.0, 2000 / n_rows))
        lr = InverseTime(max(rate, last), round(1 / rate), last)
        return ours(max_iter=epochs, lr=lr)(is_numeric, seed, n_rows)

    return make


def penalized_as_four(is_numeric: bool, seed: int, n_rows: int) -> Any:
    """Return sknet's networks with the default penalty of four columns and more."""
    share, scale = min(200, n_rows) / n_rows, min(1.0, n_rows / 200, 1000 / n_rows)
    return ours(alpha=(5.0 if is_numeric else 3.0) * share * scale)(is_numeric, seed, n_rows)


BY_COLUMNS: Mapping[str, Contender] = {
    "defaults": of_task(MLPClassifier, MLPRegressor),
    "penalty of four columns": penalized_as_four,
}
PENALIZED: Mapping[str, Contender] = {
    "defaults": ours(),
    "penalty 1e-4 on each batch, rate 1e-3": ours(alpha=1e-4, lr=1e-3),
    **{
        f"penalty {penalty}, rate {lr:g}": penalized(penalty, lr)
        for penalty in (1, 3, 10)
        for lr in (1e-3, 3e-3, 1e-2)
    },
}
BEGINNING: Mapping[str, Contender] = {
    **{f"{epochs} epochs": ours(max_iter=epochs) for epochs in EPOCHS},
    **{
        f"{epochs} epochs, {rate:g} first": beginning(rate, epochs)
        for epochs in EPOCHS
        for rate in (0.001, 0.01, 0.02, 0.03)
    },
}
OTHERS: Mapping[str, Contender] = {
    "defaults": ours(),
    "rate 3e-3": ours(optimizer=Adam(3e-3)),
    "batches of 64": ours(batch_size=64),
    "batches of 128": ours(batch_size=128),
    "256 units": ours(hidden_layer_sizes=(256,)),
    "100, 100 units": ours(hidden_layer_sizes=(100, 100)),
    "penalty 1e-2": ours(alpha=1e-2),
    "early stopping": ours(early_stopping=True),
    "cosine 5e-3, 50 epochs": decayed(5e-3, 50),
    "cosine 5e-3, 100 epochs": decayed(5e-3, 100),
    "cosine 5e-3, 200 epochs": decayed(5e-3, 200),
    "cosine 5e-3, 100 epochs, decay 0.1": decayed(5e-3, 100, partial(AdamW, weight_decay=0.1)),
    "cosine 5e-3, 100 epochs, dropout": decayed(5e-3, 100, dropout=0.1),
    "schedule-free 5e-3, 100 epochs": lasting(100, lambda: ScheduleFreeAdamW(5e-3)),
    "schedule-free 1e-2, 100 epochs": lasting(100, lambda: ScheduleFreeAdamW(1e-2)),
}


def measure(folder: Path, name: str, seed: int, contender: str) -> tuple[float, float]:
    """Return the score and the seconds of a fit."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, is_numeric = parts(folder, name, seed)
    model = {**DEFAULTS, **OTHERS, **PENALIZED, **BEGINNING, **BY_COLUMNS}[contender](
        is_numeric, seed, len(X)
    )  # closures cannot be sent to workers
    started = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - started
    score = r2_score if is_numeric else accuracy_score
    return float(score(y_test, model.predict(X_test))), seconds


def ranked(results: np.ndarray, names: list[str]) -> Table:
    """Return the settings by their mean rank; `results` has axes (settings, sets, score or seconds)."""
    table = Table("setting", {"mean rank": ".1f", "mean score": ".4f", "mean seconds": ".2f"})
    ranks = rankdata(-results[:, :, 0].round(4), axis=0).mean(axis=1)
    for i in np.argsort(ranks):
        table.add(names[i], float(ranks[i]), *map(float, results[i].mean(axis=0)))
    return table


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, help="folder with datasets.json")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--jobs", type=int, default=2, help="fits at the same time")
    parser.add_argument("--settings", nargs="*", help="compare settings of sknet's networks instead")
    parser.add_argument(
        "--few", nargs="*", help="compare penalties and rates of sknet's networks on few rows"
    )
    parser.add_argument(
        "--first", nargs="*", help="compare first rates of sknet's networks on few rows, in 10 to 200 epochs"
    )
    parser.add_argument(
        "--columns", nargs="*", help="compare penalties of sknet's networks on one to three columns"
    )
    arguments = parser.parse_args()
    if arguments.data is None and arguments.columns is None:
        parser.error("--data is needed: a folder with datasets.json")
    chosen = (
        *((arguments.settings, OTHERS), (arguments.few, PENALIZED), (arguments.first, BEGINNING)),
        *((arguments.columns, BY_COLUMNS), ([], DEFAULTS)),
    )
    names, known = next((names, known) for names, known in chosen if names is not None)
    contenders = names or list(known)
    curves = [f"{name}:{n}" for name in CURVES for n in (60, 200)]
    drawn = sorted({*FEW, *curves})
    sets = {id(PENALIZED): FEW, id(BEGINNING): drawn, id(BY_COLUMNS): curves}
    arguments.sets = arguments.sets or sets.get(id(known), [*LARGE, *SMALL])
    jobs = [
        (arguments.data, name, seed, contender)
        for contender in contenders
        for name in arguments.sets
        for seed in range(arguments.seeds)
    ]
    found = Parallel(arguments.jobs, backend="multiprocessing")(delayed(measure)(*job) for job in jobs)
    shape = (len(contenders), len(arguments.sets), arguments.seeds, 2)
    means = np.array(found).reshape(shape).mean(axis=2)
    if known is BY_COLUMNS:
        table = Table("curve and rows", dict.fromkeys(contenders, ".3f"))
        for name, of_set in zip(arguments.sets, means[:, :, 0].T, strict=True):
            table.add(name, *map(float, of_set))
        write(arguments.json, {"scores": table})
        return
    if known is not DEFAULTS:
        write(arguments.json, {"settings": ranked(means, contenders)})
        return
    for table, values in ((SCORES, means[:, :, 0]), (SECONDS, means[:, :, 1])):
        for name, of_set in zip(arguments.sets, values.T, strict=True):
            table.add(name, *map(float, of_set))
        table.add("mean", *map(float, values.mean(axis=1)))
    write(arguments.json, {"scores": SCORES, "seconds": SECONDS})


if __name__ == "__main__":
    main()
