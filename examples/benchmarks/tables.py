"""Scores of TabularClassifier and TabularRegressor compared with libraries of gradient-boosted trees.

    python examples/benchmarks/tables.py --data DIR [--sets NAME ...] [--seeds 0 1 2] [--rows N] [--json PATH]
    python examples/benchmarks/tables.py --data DIR --out-of-fold --params sharp__epochs=36 sharp__n_bins=8

DIR has a file ``datasets.json`` that describes each set (its ``file``, ``target``, ``task``, columns to
``ignore`` and those that are ``categorical``), and the sets as parquet files. Of each set, `rows` rows are
drawn for training, and up to 10,000 others are scored, once, after the fit: area under the ROC curve for
two classes, accuracy for more, R2 for regression. All use their defaults and the same data frame:
scikit-learn's HistGradientBoosting, and CatBoost, LightGBM and XGBoost where they are installed, whose
categories are named to them. HistGradientBoosting is also tuned for sets of several classes, where its
default rate diverges on rare ones: the best of six settings by the log loss of three folds. A line for each
set and seed has the scores, the log loss of classifiers, the out-of-fold score, and the seconds of the fit,
by the clock and of processors. With ``--out-of-fold``, no test rows are looked at: a line has the losses of
the out-of-fold predictions of sknet with other parameters, by which settings are chosen. It needs pandas and
pyarrow: ``python -m pip install "scikit-neural[data]" catboost lightgbm xgboost``.
"""

import ast
import json
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from measured import Table, parser_of, write
from sklearn.base import is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV

from sknet.tabular import TabularClassifier, TabularRegressor

SETS = ("adult", "covertype_16pct", "california_housing", "diamonds", "bike_sharing")
MOST_TEST_ROWS = 10_000
PEERS, TUNED = ("CatBoost", "LightGBM", "XGBoost"), "HistGradientBoosting, tuned"
CONTENDERS = ("sknet", "HistGradientBoosting", TUNED, *PEERS)
SCORES = Table("data set", {"score": "s", **dict.fromkeys(CONTENDERS, ".3f")})
LOSSES = Table("log loss", dict.fromkeys(CONTENDERS, ".3f"))
SECONDS = Table("seconds", dict.fromkeys(CONTENDERS, ".1f"))
GRID = {"learning_rate": [0.02, 0.05, 0.1], "l2_regularization": [0.0, 10.0]}


def load(folder: Path, name: str, rows: int, seed: int) -> tuple[Any, ...]:
    """Return training and test rows of a set, each as a data frame and targets, and its task."""
    import pandas as pd

    about = json.loads((folder / "datasets.json").read_text())[name]
    frame = pd.read_parquet(folder / about["file"]).drop(columns=about.get("ignore", []))
    y = frame.pop(about["target"])
    frame = frame.astype(dict.fromkeys(about["categorical"], "category"))
    order = np.random.default_rng(seed).permutation(len(frame))
    training, test = order[:rows], order[rows : rows + MOST_TEST_ROWS]
    return frame.iloc[training], y.iloc[training], frame.iloc[test], y.iloc[test], about["task"]


def estimators(task: str, seed: int) -> dict[str, Any]:
    """Return the contenders, with their defaults, and those that are installed."""
    is_numeric = task == "regression"
    ours, theirs = (
        (TabularRegressor, HistGradientBoostingRegressor)
        if is_numeric
        else (TabularClassifier, HistGradientBoostingClassifier)
    )
    boosting = theirs(categorical_features="from_dtype", random_state=seed)
    found = {"sknet": ours(random_state=seed), "HistGradientBoosting": boosting}
    if task == "multiclass":
        found[TUNED] = GridSearchCV(boosting, GRID, scoring="neg_log_loss", cv=3)
    kind = "Regressor" if is_numeric else "Classifier"
    if find_spec("catboost") is not None:
        make = getattr(import_module("catboost"), f"CatBoost{kind}")
        found["CatBoost"] = OfTexts(make(random_seed=seed, verbose=False, allow_writing_files=False))
    if find_spec("lightgbm") is not None:
        found["LightGBM"] = getattr(import_module("lightgbm"), f"LGBM{kind}")(random_state=seed, verbose=-1)
    if find_spec("xgboost") is not None:
        make = getattr(import_module("xgboost"), f"XGB{kind}")
        found["XGBoost"] = OfNumbers(make(random_state=seed, enable_categorical=True))
    return found


class OfTexts:
    """CatBoost, whose categories must be texts, with their names."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> None:
        self.model.set_params(cat_features=list(X.select_dtypes("category")))
        self.model.fit(self._texts(X), y)
        self.classes_ = getattr(self.model, "classes_", None)

    def predict(self, X: Any) -> Any:
        return np.ravel(self.model.predict(self._texts(X)))

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(self._texts(X))

    @staticmethod
    def _texts(X: Any) -> Any:
        return X.astype(dict.fromkeys(X.select_dtypes("category"), "str")).fillna(
            dict.fromkeys(X.select_dtypes("category"), "missing")
        )


class OfNumbers:
    """XGBoost, whose classes must be numbered."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> None:
        if is_classifier(self.model):
            self.classes_, y = np.unique(y, return_inverse=True)
        self.model.fit(X, y)

    def predict(self, X: Any) -> Any:
        found = self.model.predict(X)
        return self.classes_[found] if is_classifier(self.model) else found

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(X)


def scores(model: Any, X: Any, y: Any, task: str) -> dict[str, float]:
    """Return the scores of a fitted model on test rows, the one that counts first."""
    if task == "regression":
        return {"R2": r2_score(y, model.predict(X))}
    probabilities = model.predict_proba(X)
    loss = log_loss(y, probabilities, labels=model.classes_)
    if len(model.classes_) == 2:
        return {"AUC": roc_auc_score(y, probabilities[:, 1]), "log loss": loss}
    return {"accuracy": accuracy_score(y, model.predict(X)), "log loss": loss}


def known_rows(model: Any, y: Any) -> np.ndarray:
    """Return a mask of the rows that have predictions out of fold."""
    found: np.ndarray = np.isfinite(model.oof_prediction_.reshape(len(y), -1)).all(axis=1)
    return found


def out_of_fold(model: Any, y: Any, rows: Any = None) -> str:
    """Return the losses of the out-of-fold predictions of a fitted ensemble, or of some, as text."""
    found, y = model.oof_prediction_.reshape(len(y), -1), np.asarray(y)
    known = known_rows(model, y) if rows is None else rows
    if not is_classifier(model):
        return f"1 - R2 {1 - r2_score(y[known], found[known]):.4f}"
    wrong = np.mean(model.classes_[found[known].argmax(axis=1)] != y[known])
    return f"log loss {log_loss(y[known], found[known], labels=model.classes_):.4f}  error {wrong:.4f}"


def parameter(text: str) -> tuple[str, Any]:
    """Return the name and the value of ``name=value``, a Python literal or a text."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def add_means(name: str, of_all: dict[str, list[dict[str, float]]]) -> None:
    """Add the means over the seeds of a set."""
    means = {
        label: {key: float(np.mean([each[key] for each in found])) for key in found[0]}
        for label, found in of_all.items()
    }
    score = next(iter(means["sknet"]))
    of_key = {
        key: [means.get(label, {}).get(key) for label in CONTENDERS] for key in (score, "log loss", "seconds")
    }
    SCORES.add(name, score, *of_key[score])
    if "log loss" in means["sknet"]:
        LOSSES.add(name, *of_key["log loss"])
    SECONDS.add(name, *of_key["seconds"])


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with datasets.json")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=10_000, help="to train on")
    parser.add_argument("--draw", type=int, default=0, help="seed of the rows")
    parser.add_argument("--params", nargs="+", type=parameter, default=[], metavar="NAME=VALUE")
    parser.add_argument("--out-of-fold", action="store_true", help="look at no test rows")
    arguments = parser.parse_args()
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name in arguments.sets:
        X, y, X_test, y_test, task = load(arguments.data, name, arguments.rows, arguments.draw)
        for seed in arguments.seeds:
            for label, model in estimators(task, seed).items():
                if label == "sknet":
                    model.set_params(**dict(arguments.params))
                elif arguments.out_of_fold:
                    continue
                started, begun = time.perf_counter(), time.process_time()
                model.fit(X, y)
                seconds, used = time.perf_counter() - started, time.process_time() - begun
                if arguments.out_of_fold:
                    found = out_of_fold(model, y)
                else:
                    figures = scores(model, X_test, y_test, task)
                    found = "  ".join(f"{key} {value:.4f}" for key, value in figures.items())
                    of_set = results.setdefault(name, {}).setdefault(label, [])
                    of_set.append({**figures, "seconds": seconds})
                own = f"  out of fold {model.oof_score_:.4f}  mix {model.mix_}" if label == "sknet" else ""
                print(
                    f"{name:20} seed {seed}  {label:20}  {found}  {seconds:6.1f} s {used:6.1f} s{own}",
                    flush=True,
                )
    for name, of_all in results.items():
        add_means(name, of_all)
    write(arguments.json, {"scores": SCORES, "losses": LOSSES, "seconds": SECONDS})


if __name__ == "__main__":
    main()
