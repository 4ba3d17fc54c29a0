"""Raw tables with categories, dates and missing values, without any preprocessing.

::

    python examples/tables.py [--rows 2000] [--budget 1.0] [--seed 0]

It generates a table of rented flats (size, rooms, district, heating, date, and a sometimes missing
balcony), predicts the rent with `TabularRegressor`, and with `TabularClassifier` whether a flat is let
within a week. It prints

- the out-of-fold score, and the score on a test part, which is used once;
- the weights of the kinds of members;
- predictions for a flat of unknown size in a new district.

It needs pandas: ``python -m pip install "scikit-neural[data]"``.
"""

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import train_test_split

from sknet import TabularClassifier, TabularRegressor

if TYPE_CHECKING:
    import pandas as pd

DISTRICTS = [f"district {i}" for i in range(50)]


def flats(rows: int, seed: int) -> "tuple[pd.DataFrame, Any, Any]":
    """Return a table of flats, their rents, and whether each was let within a week."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    district, size = rng.integers(0, len(DISTRICTS), rows), np.exp(rng.normal(4.1, 0.4, rows))
    heating, balcony = rng.choice(["gas", "oil", "district"], rows), rng.random(rows) < 0.4
    days = rng.integers(0, 1500, rows)
    price = 8 + np.sin(district) * 3 + balcony + days / 800 - (heating == "oil")
    rent = size * price * np.exp(0.05 * rng.normal(size=rows))
    table = pd.DataFrame(
        {
            "size": np.where(rng.random(rows) < 0.05, np.nan, size.round(1)),
            "rooms": (size / 25).round().astype(int) + 1,
            "district": np.array(DISTRICTS, dtype=object)[district],
            "heating": pd.Series(heating, dtype="category"),
            "balcony": pd.Series(balcony, dtype="boolean").mask(rng.random(rows) < 0.2),
            "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D"),
        }
    )
    soon = price + rng.normal(size=rows) < np.where(balcony, 10, 9)
    return table, rent, np.where(soon, "yes", "no")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--budget", type=float, default=1.0, help="work, as a multiple of the default")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    table, rent, soon = flats(arguments.rows, arguments.seed)
    estimators = {
        "rent": (TabularRegressor, rent, "R2"),
        "let within a week": (TabularClassifier, soon, "accuracy"),
    }
    stranger = table[:1].assign(size=np.nan, district="a new one")
    for name, (kind, y, measure) in estimators.items():
        X, X_test, y_train, y_test = train_test_split(table, y, random_state=arguments.seed)
        model = kind(budget=arguments.budget, random_state=arguments.seed).fit(X, y_train)
        mix = ", ".join(f"{kind} {weight:.1f}" for kind, weight in model.mix_.items())
        print(
            f"{name}: {measure} {model.oof_score_:.3f} out of fold, {model.score(X_test, y_test):.3f} on test"
        )
        print(f"  mixed of {mix}; a flat of unknown size in a new district: {model.predict(stranger)[0]}")


if __name__ == "__main__":
    main()
