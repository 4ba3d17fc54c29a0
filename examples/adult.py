"""A multi-layer perceptron in a Pipeline on Adult: at least 0.90 ROC AUC on the official test split.

::

    python examples/adult.py --data PATH [--seed 0] [--epochs 100]

The data set asks who earns more than 50000 dollars a year, from 14 columns of the US census of 1994
(Becker & Kohavi, 1996). Eight columns hold categories, three of them with gaps. PATH is either the
folder with the two files that are published, or one ``.parquet`` file. Without ``--data`` the
script says where to get them and what they must contain, and exits with status 2. It needs pandas,
and pyarrow for parquet: ``python -m pip install "sknet[data]"``.

It prints

- the sizes of the official training and test parts, and the share of high incomes in each;
- how many numbers the columns became, and whether the network was given them as a sparse matrix;
- how the fit with early stopping went: epochs, seconds, best held-out accuracy;
- accuracy and ROC AUC on the test part, which is used once, after the fit.

A few seconds on two cores.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sknet import MLPClassifier
from sknet.optim import Adam

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
CATEGORIES = [
    *("workclass", "education", "marital-status", "occupation"),
    *("relationship", "race", "sex", "native-country"),
]
# In the order of the published files. fnlwgt says how many people a row represents: it is not a feature.
COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
]
N_TRAIN = 32561
EXPLANATION = f"""\
This example needs the data set Adult, about 6 MB. Get it from the UCI repository, at
    https://archive.ics.uci.edu/dataset/2/adult
and name the folder that holds the files adult.data and adult.test; or one .parquet file with the
rows of adult.data (the first {N_TRAIN}, the official training part) and then those of adult.test, an
unknown value as null, and the columns
    {", ".join(COLUMNS[:8])},
    {", ".join(COLUMNS[8:])}
where income is "<=50K" or ">50K". Then
    python examples/adult.py --data PATH"""
NEEDS_PANDAS = """\
This example reads tables with pandas, and parquet files with pyarrow; {missing} is not installed:
    python -m pip install "sknet[data]\""""


def load(path: Path) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Return the official training and test parts."""
    import pandas as pd

    if path.is_dir():
        parts = [
            # adult.test begins with a remark, and ends its labels with a full stop.
            pd.read_csv(path / name, names=COLUMNS, skipinitialspace=True, na_values="?", comment="|")
            for name in ("adult.data", "adult.test")
        ]
    else:
        table = pd.read_parquet(path)
        if len(table) <= N_TRAIN:
            raise SystemExit(
                f"{path} has {len(table)} rows: expected the {N_TRAIN} to train on, then those to test on"
            )
        parts = [table[:N_TRAIN], table[N_TRAIN:]]
    training, test = (part.assign(income=part["income"].astype(str).str.rstrip(".")) for part in parts)
    return training, test


def network(seed: int, epochs: int) -> Pipeline:
    """Return the pipeline: fill gaps, scale numbers, one-hot categories, then the perceptron."""
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
            (
                "categories",
                make_pipeline(
                    SimpleImputer(strategy="constant", fill_value="unknown"),
                    OneHotEncoder(handle_unknown="ignore", dtype="float32"),
                ),
                CATEGORIES,
            ),
        ]
    )
    mlp = MLPClassifier(
        (64,),
        activation="relu",
        dropout=0.2,
        optimizer=Adam(lr=1e-3),
        max_iter=epochs,
        early_stopping=True,
        n_iter_no_change=5,
        dtype="float32",
        random_state=seed,
    )
    return Pipeline([("columns", columns), ("mlp", mlp)])


def report(model: Pipeline, test: "pd.DataFrame", seconds: float) -> None:
    inputs, mlp = model["columns"].transform(test), model["mlp"]
    kind = "a sparse matrix" if issparse(inputs) else "a dense array"
    print(f"{len(NUMBERS) + len(CATEGORIES)} columns became {inputs.shape[1]} numbers per row, in {kind}")
    print(f"{mlp.n_iter_} epochs in {seconds:.1f} s, best held-out accuracy {mlp.best_validation_score_:.4f}")
    print(f"test accuracy {accuracy_score(test['income'], model.predict(test)):.4f}")
    print(f"test ROC AUC {roc_auc_score(test['income'] == '>50K', model.predict_proba(test)[:, 1]):.4f}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit a multi-layer perceptron to the Adult census data.")
    parser.add_argument(
        "--data", type=Path, help="folder with adult.data and adult.test, or one .parquet file"
    )
    parser.add_argument("--seed", type=int, default=0, help="random_state of the network")
    parser.add_argument("--epochs", type=int, default=100, help="at most this many")
    arguments = parser.parse_args()
    if arguments.data is None:
        print(EXPLANATION, file=sys.stderr)
        return 2
    if not arguments.data.exists():
        parser.error(f"{arguments.data} does not exist")
    try:
        training, test = load(arguments.data)
    except ImportError as error:
        # pandas itself names no module when its parquet reader is missing.
        print(NEEDS_PANDAS.format(missing=error.name or "pyarrow"), file=sys.stderr)
        return 2
    for name, part in (("train", training), ("test", test)):
        print(f"Adult: {len(part)} to {name} on, {(part['income'] == '>50K').mean():.1%} with a high income")

    model = network(arguments.seed, arguments.epochs)
    started = time.perf_counter()
    model.fit(training, training["income"])
    report(model, test, time.perf_counter() - started)
    return 0


if __name__ == "__main__":
    sys.exit(main())
