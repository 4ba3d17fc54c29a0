"""Fit, predict, score, search and save on the handwritten digits that come with scikit-learn.

Run it with ``python examples/quickstart.py``; it needs only sknet, and takes a few seconds. It prints

- the sizes of the training and test parts;
- a fit with early stopping: epochs, time, accuracy on held-out rows and on the test part;
- the first predictions with their probabilities, and the true digits;
- every candidate of a small grid search over the learning rate and the hidden layers, with its
  cross-validated accuracy, then the best and its accuracy on the test part;
- the size of the saved model, that the reloaded one predicts bitwise identically, and that both are
  still identical after one more epoch.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from sknet import MLPClassifier
from sknet.optim import Adam


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype("float32")
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
    print(f"digits: {len(X_train)} to train on, {len(X_test)} to test on, {X.shape[1]} pixels each")

    clf = fit(X_train, y_train)
    print(f"test accuracy {clf.score(X_test, y_test):.3f}")
    show_predictions(clf, X_test[:5], y_test[:5])
    search(clf, X_train, y_train, X_test, y_test)
    save_and_reload(clf, X_train, y_train, X_test)


def fit(X: np.ndarray, y: np.ndarray) -> MLPClassifier:
    clf = MLPClassifier(
        (64,),
        activation="gelu",
        dropout=0.1,
        optimizer=Adam(lr=3e-3),
        batch_size=64,
        early_stopping=True,
        random_state=0,
    )
    started = time.perf_counter()
    clf.fit(X, y)
    print(
        f"\nfit: {clf.n_iter_} epochs in {time.perf_counter() - started:.1f} s, "
        f"best held-out accuracy {clf.best_validation_score_:.3f}"
    )
    return clf


def show_predictions(clf: MLPClassifier, X: np.ndarray, y: np.ndarray) -> None:
    for label, probability, truth in zip(clf.predict(X), clf.predict_proba(X).max(axis=1), y, strict=True):
        print(f"  predicted {label} with probability {probability:.3f}, is {truth}")


def search(clf: MLPClassifier, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> None:
    # A nested name reaches into the optimizer, with scikit-learn's own search.
    grid = {"optimizer__lr": [3e-3, 1e-2], "hidden_layer_sizes": [(32,), (64, 32)]}
    started = time.perf_counter()
    found = GridSearchCV(clf, grid, cv=3).fit(X, y)
    print(f"\ngrid search, 3 folds: {time.perf_counter() - started:.1f} s")
    results = found.cv_results_
    for candidate, score in zip(results["params"], results["mean_test_score"], strict=True):
        print(f"  {describe(candidate)}: accuracy {score:.3f}")
    print(f"best: {describe(found.best_params_)}, test accuracy {found.score(X_test, y_test):.3f}")


def describe(candidate: dict[str, Any]) -> str:
    return f"lr {candidate['optimizer__lr']:g}, hidden layers {candidate['hidden_layer_sizes']}"


def save_and_reload(clf: MLPClassifier, X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "digits.joblib")
        joblib.dump(clf, path)
        again = joblib.load(path)
        print(f"\nsaved: {path.stat().st_size / 1024:.0f} KiB")
    print(f"reloaded, the same predictions to the bit: {same_bits(clf, again, X_test)}")
    # partial_fit continues the fit; without validation rows, early stopping must be off.
    for model in (clf, again):
        model.set_params(early_stopping=False).partial_fit(X, y)
    print(f"the same after one more epoch of each: {same_bits(clf, again, X_test)}")


def same_bits(one: MLPClassifier, other: MLPClassifier, X: np.ndarray) -> bool:
    return bool(np.array_equal(one.predict_proba(X), other.predict_proba(X)))


if __name__ == "__main__":
    main()
