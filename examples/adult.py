"""A multi-layer perceptron on the raw Adult data: at least 0.90 ROC AUC on the official test split.

::

    python examples/adult.py --data PATH [--seed 0] [--epochs 100]

The task is to predict who earns more than 50000 dollars a year, from 14 columns of the US census of 1994
(Becker & Kohavi, 1996). Eight columns are categorical, three of them with missing values: the perceptron
takes the data frame without preprocessing, with ``encoder="table"``. PATH is either the folder with the two
published files, or one ``.parquet`` file. Without ``--data`` the script says where to get them and what they
must contain, and exits with status 2. It needs pandas, and pyarrow for parquet:
``python -m pip install "scikit-neural[data]"``.

It prints

- the sizes of the official training and test parts, and the share of high incomes in each;
- the number of encoded columns, and whether they are a sparse matrix;
- a fit with early stopping: epochs, seconds, lowest held-out loss;
- accuracy and ROC AUC on the test part, which is used once, after the fit.

A few seconds on two cores.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.sparse import issparse
from sklearn.metrics import accuracy_score, roc_auc_score

from sknet import MLPClassifier
from sknet.optim import Adam

if TYPE_CHECKING:
    import pandas as pd

# In the order of the published files.
COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
]
# The target, and the number of people that a row represents.
NO_FEATURES = ["income", "fnlwgt"]
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
    python -m pip install "scikit-neural[data]\""""


def load(path: Path) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Return the official training and test parts."""
    import pandas as pd

    if path.is_dir():
        parts = [
            # adult.test begins with a comment line, and its labels end with a full stop.
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


def network(seed: int, epochs: int) -> MLPClassifier:
    """Return the perceptron, which reads frames."""
    return MLPClassifier(
        (64,),
        encoder="table",
        dropout=0.2,
        optimizer=Adam(lr=1e-3),
        max_iter=epochs,
        early_stopping=True,
        n_iter_no_change=5,
        random_state=seed,
    )


def report(mlp: MLPClassifier, rows: "pd.DataFrame", income: "pd.Series", seconds: float) -> None:
    inputs = mlp.encoder_.transform(rows)
    kind = "a sparse matrix" if issparse(inputs) else "a dense array"
    print(f"{rows.shape[1]} columns became {inputs.shape[1]} numbers per row, in {kind}")
    lowest = min(mlp.history_["validation_loss"])
    print(f"{mlp.n_iter_} epochs in {seconds:.1f} s, lowest held-out loss {lowest:.4f}")
    print(f"test accuracy {accuracy_score(income, mlp.predict(rows)):.4f}")
    print(f"test ROC AUC {roc_auc_score(income == '>50K', mlp.predict_proba(rows)[:, 1]):.4f}")


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

    mlp = network(arguments.seed, arguments.epochs)
    started = time.perf_counter()
    mlp.fit(training.drop(columns=NO_FEATURES), training["income"])
    report(mlp, test.drop(columns=NO_FEATURES), test["income"], time.perf_counter() - started)
    return 0


if __name__ == "__main__":
    sys.exit(main())
