"""Compare early stopping of classifiers by the loss and by the accuracy of held-out rows.

For data sets that come with scikit-learn, prints accuracy and log loss on test rows, and the epochs, as means
over splits and seeds.

    python examples/benchmarks/early_stopping.py
    python examples/benchmarks/early_stopping.py --seeds 1 --only wine
"""

import warnings

import numpy as np
from measured import Table, parser_of, write
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sknet import MLPClassifier

DATA = {
    "digits": lambda: load_digits(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "a fifth of the labels wrong": lambda: make_classification(
        2000, 20, n_informative=5, flip_y=0.2, random_state=0
    ),
}
HIDDEN = ((100,), (256, 256))
MEANS = Table("data, hidden layers, monitor", {"accuracy": ".3f", "log loss": ".3f", "epochs": ".0f"})


def measured(X, y, hidden, monitor, seed):
    """Return accuracy, log loss and epochs of a fit."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    scaler = StandardScaler().fit(X_train)
    clf = MLPClassifier(hidden, early_stopping=True, monitor=monitor, random_state=seed, dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(scaler.transform(X_train), y_train)
    probabilities = clf.predict_proba(scaler.transform(X_test))
    accuracy = (clf.classes_[probabilities.argmax(axis=1)] == y_test).mean()
    return accuracy, log_loss(y_test, probabilities, labels=clf.classes_), clf.n_iter_


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="splits and seeds for each line")
    parser.add_argument("--only", choices=list(DATA), help="one data set")
    args = parser.parse_args()
    for name, load in DATA.items():
        if args.only not in (None, name):
            continue
        X, y = load()
        for hidden in HIDDEN:
            for monitor in ("loss", "score"):
                found = [measured(X, y, hidden, monitor, seed) for seed in range(args.seeds)]
                shown = "-".join(map(str, hidden))
                MEANS.add(f"{name}, {shown}, by the {monitor}", *map(float, np.mean(found, axis=0)))
    write(args.json, {"means": MEANS})


if __name__ == "__main__":
    main()
