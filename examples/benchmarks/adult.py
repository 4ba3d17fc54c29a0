"""The README's figure: raw Adult data, area under the ROC curve and seconds, in sknet and in scikit-learn.

    python examples/benchmarks/adult.py --data DIR [--seeds 0 1 2] [--rows 10000] [--json PATH]

DIR is as for ``tables.py``, which draws the same rows. Each contender has its defaults and gets the data
frame as it is: sknet's estimators and HistGradientBoosting read categories and missing values
themselves, and scikit-learn's network is behind a one-hot encoding, without and with a scaler of the
numbers. Means over seeds; seconds are those of the processor for a fit in one thread. It needs pandas
and pyarrow: ``python -m pip install "scikit-neural[data]"``.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # a fit has one core

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measured import Table, parser_of, write
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier as ScikitLearnMLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tables import load

from sknet import MLPClassifier
from sknet.tabular import TabularClassifier


def one_hot(seed: int, numbers: Any) -> Any:
    """Return scikit-learn's network behind a one-hot encoding of the categories."""
    categories = make_column_selector(dtype_include="category")
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), categories), remainder=numbers, sparse_threshold=0.0
    )
    return make_pipeline(encoder, ScikitLearnMLPClassifier(random_state=seed))


CONTENDERS: dict[str, Callable[[int], Any]] = {
    "sknet, TabularClassifier": lambda seed: TabularClassifier(random_state=seed, n_jobs=1),
    "sknet, MLPClassifier": lambda seed: MLPClassifier(encoder="table", random_state=seed),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "scikit-learn's MLP, scaled": lambda seed: one_hot(seed, StandardScaler()),
    "scikit-learn's MLP, unscaled": lambda seed: one_hot(seed, "passthrough"),
}
ADULT = Table("raw Adult", {"AUC": ".3f", "CPU, s": ".1f"})


def measure(make: Callable[[int], Any], folder: Path, rows: int, seed: int) -> tuple[float, float]:
    """Return the area under the ROC curve on other rows, and the seconds of the fit."""
    X, y, X_test, y_test, _ = load(folder, "adult", rows, seed)
    model = make(seed)
    started = time.process_time()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(X, y)
    seconds = time.process_time() - started
    return float(roc_auc_score(y_test == model.classes_[1], model.predict_proba(X_test)[:, 1])), seconds


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with datasets.json")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=10_000, help="rows to train on")
    arguments = parser.parse_args()
    for name, make in CONTENDERS.items():
        found = [measure(make, arguments.data, arguments.rows, seed) for seed in arguments.seeds]
        ADULT.add(name, *map(float, np.mean(found, axis=0)))
    write(arguments.json, {"scores": ADULT})


if __name__ == "__main__":
    main()
