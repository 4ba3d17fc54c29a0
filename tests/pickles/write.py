"""Write a pickle of every kind of estimator with its predictions, using the installed versions.

    python -m tests.pickles.write

The files lie beside this one; `tests/test_pickles_of_versions.py` reads those of all versions.
"""

import pickle
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

import sknet
from sknet import neural_network, nn

HERE = Path(__file__).parent
LABELS = np.array(["cold", "mild", "hot"])


def data():
    """Return numbers, labels, and targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    return X, LABELS[rng.integers(0, 3, 40)], X[:, 0] - X[:, 1]


def estimators():
    """Yield a fitted estimator of each kind, by name, and the method that is compared."""
    X, y, numbers = data()
    common = {"max_iter": 3, "batch_size": 20, "random_state": 0}
    small = {"hidden_layer_sizes": (4,), **common}
    clf = sknet.MLPClassifier(early_stopping=True, calibrate="temperature", **small).fit(X, y)
    yield "classifier", clf, "predict_proba"
    yield "slim classifier", clf.slim(), "predict_proba"
    yield "frozen classifier", clf.freeze(), "predict_proba"
    yield (
        "regressor",
        sknet.MLPRegressor(loss="gaussian_nll", scale_target=True, **small).fit(X, numbers),
        "predict",
    )
    yield "two classes", sknet.MLPClassifier(optimizer="lbfgs", **small).fit(X, y == "hot"), "predict_proba"
    yield "scikit-learn's", neural_network.MLPClassifier(**small).fit(X, y), "predict_proba"
    network = nn.Sequential(nn.LazyLinear(4), nn.BatchNorm(4), nn.GELU(), nn.LazyLinear(3))
    yield "network", sknet.NetClassifier(network, **common).fit(X, y), "predict_proba"
    yield "autoencoder", sknet.Autoencoder((3, 2), max_iter=3, random_state=0).fit(X), "transform"
    yield "encoder", sknet.TableEncoder().fit(X), "transform"


def main() -> None:
    """Write both files."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, _, _ = data()
    found = {name: (estimator, method) for name, estimator, method in estimators()}
    stem = f"sklearn-{sklearn.__version__}-numpy-{np.__version__}"
    (HERE / f"{stem}.pickle").write_bytes(pickle.dumps({name: e for name, (e, _) in found.items()}, 4))
    outputs = {name: np.asarray(getattr(e, method)(X)) for name, (e, method) in found.items()}
    np.savez_compressed(HERE / f"{stem}.npz", **outputs)


if __name__ == "__main__":
    main()
