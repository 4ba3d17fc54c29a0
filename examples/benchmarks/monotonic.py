"""Cost of monotonic constraints: scores with and without them, of sknet and of HistGradientBoosting (HGB).

    python examples/benchmarks/monotonic.py --data DIR [--sets NAME ...] [--seeds 0 1 2] [--rows N]

DIR is as for ``tables.py``, and so are the rows and the scores. Constrained is one column of each set, whose
direction is known. If HistGradientBoosting loses by a constraint, it does not quite hold of the rows.
Violations are steps in the wrong direction, of 100 for each of 50 test rows, of both estimators of sknet.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measured import Table, parser_of, write
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from tables import load, scores

from sknet import MLPClassifier, MLPRegressor
from sknet.tabular import TabularClassifier, TabularRegressor

DIRECTIONS = {
    "adult": {"education-num": 1},
    "california_housing": {"median_income": 1},
    "diamonds": {"carat": 1},
}
CLASSES = {
    "MLP": (MLPClassifier, MLPRegressor, {"encoder": "table"}),
    "Tabular": (TabularClassifier, TabularRegressor, {}),
    "HGB": (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        {"categorical_features": "from_dtype"},
    ),
}
COLUMNS = {f"{name}{with_}": ".4f" for name in CLASSES for with_ in ("", ", constrained")}
COLUMNS |= {"violations": ".0f", "violations, constrained": ".0f"}
SCORES = Table("set, column", COLUMNS)


def figures(rows: tuple[Any, ...], directions: dict[str, int], seed: int) -> list[float]:
    """Return the scores of all estimators, each without constraints and with them."""
    X, y, X_test, y_test, task = rows
    found, violations = [], [0, 0]
    for name, (classifier, regressor, params) in CLASSES.items():
        for constrained, given in enumerate((None, directions)):
            model = (regressor if task == "regression" else classifier)(
                monotonic_cst=given, random_state=seed, **params
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, y)
            found.append(next(iter(scores(model, X_test, y_test, task).values())))
            if name != "HGB":
                violations[constrained] += violated(model, X_test, directions, task)
    return [*found, *violations]


def violated(model: Any, X: Any, directions: dict[str, int], task: str) -> int:
    """Return how many steps along constrained columns go in the wrong direction, apart from rounding."""
    count = 0
    for column, direction in directions.items():
        values = np.linspace(X[column].min(), X[column].max(), 101)
        rows = X.iloc[np.repeat(np.arange(50), len(values))].astype({column: float})
        rows[column] = np.tile(values, 50)
        predict = model.predict if task == "regression" else model.decision_function
        found = np.asarray(predict(rows), np.float64).reshape(50, -1)
        count += int((direction * np.diff(found) < -2e-6 * np.abs(found).max()).sum())
    return count


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with datasets.json")
    parser.add_argument("--sets", nargs="+", default=[*DIRECTIONS], choices=[*DIRECTIONS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=4000, help="to train on")
    arguments = parser.parse_args()
    for name in arguments.sets:
        of_seeds = [
            figures(load(arguments.data, name, arguments.rows, seed), DIRECTIONS[name], seed)
            for seed in arguments.seeds
        ]
        columns = ", ".join(DIRECTIONS[name])
        SCORES.add(f"{name}, {columns}", *map(float, np.mean(of_seeds, axis=0)))
    write(arguments.json, {"scores": SCORES})


if __name__ == "__main__":
    main()
