"""Seeded fits whose results no change of the project's structure may change."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits, load_iris

import sknet
from sknet import Model, losses, model_selection, neural_network, nn, optim
from sknet.callbacks import Checkpoint

__all__ = ["CASES"]

Results = dict[str, Any]
CASES: dict[str, Callable[[], Results]] = {}


def case(function: Callable[[], Results]) -> Callable[[], Results]:
    """Register a case by the function's name."""
    CASES[function.__name__] = function
    return function


# -- data and what is recorded of an estimator ----------------------------------------------------


@functools.cache
def iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return (X[order] - X.mean(0)) / X.std(0), y[order]


@functools.cache
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    return 20 * X[:200], (y[:200] - 150) / 77


@functools.cache
def images() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:150].reshape(-1, 1, 8, 8) / 16, y[:150] % 4


@functools.cache
def sequences() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X, lengths = rng.normal(size=(120, 7, 3)), rng.integers(1, 8, 120)
    inside = np.arange(7) < lengths[:, None]
    return X, (np.where(inside, X[..., 0], 0).sum(1) > 0).astype(int), lengths


@functools.cache
def ids() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(2).integers(0, 20, (150, 6))
    return X, (X.sum(1) > 57).astype(int)


@functools.cache
def frame() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(160, 3)).astype(object)
    numbers[::9, 1] = np.nan
    levels = np.array(["red", "green", "blue"], object)[rng.integers(0, 3, 160)]
    return np.column_stack([numbers, levels]), (levels == "red").astype(int) + (numbers[:, 0] > 0)


def results(estimator: Any, X: Any, **with_rows: Any) -> Results:
    """Return the losses of a fit and the predictions of the estimator, frozen and loaded ones included."""
    found: Results = {"losses": getattr(estimator, "loss_curve_", [])}
    names = ("predict", "predict_proba", "transform")
    methods = [name for name in names if hasattr(estimator, name)]
    for name in methods:
        found[name] = getattr(estimator, name)(X, **with_rows)
    if with_rows or not hasattr(estimator, "freeze"):
        return found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.sknet")
        sknet.save(estimator, path)
        loaded = sknet.load(path)
    frozen = estimator.freeze()
    for name in methods:
        np.testing.assert_array_equal(getattr(loaded, name)(X), found[name])
        if hasattr(frozen, name):
            np.testing.assert_array_equal(getattr(frozen, name)(X), found[name])
            found[f"{name} of a row"] = getattr(frozen, name)(X[:1])
    return found


# -- perceptrons ----------------------------------------------------------------------------------


def classifier(**parameters: Any) -> Results:
    X, y = iris()
    settings = {"hidden_layer_sizes": (8,), "max_iter": 4, "random_state": 0, **parameters}
    return results(sknet.MLPClassifier(**settings).fit(X, y), X)


def regressor(y: Any = None, **parameters: Any) -> Results:
    X, targets = diabetes()
    settings = {"hidden_layer_sizes": (8,), "max_iter": 4, "random_state": 0, **parameters}
    return results(sknet.MLPRegressor(**settings).fit(X, targets if y is None else y), X)


PARAMETERS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "float64": {"dtype": "float64"},
    "sgd": {"optimizer": optim.SGD(0.1, momentum=0.9, nesterov=True)},
    "adamw": {"optimizer": optim.AdamW(optim.schedules.Cosine(0.01)), "alpha": 0.0},
    "lbfgs": {"optimizer": "lbfgs", "dtype": "float64"},
    "early_stopping": {"early_stopping": True, "max_iter": 6},
    "members": {"n_members": 3},
    "tanh": {"activation": "tanh", "hidden_layer_sizes": (6, 5)},
    "dropout": {"dropout": 0.3},
    "balanced": {"class_weight": "balanced"},
    "smoothed": {"loss": losses.LogLoss(label_smoothing=0.1)},
}
for _name, _parameters in PARAMETERS.items():
    CASES[f"classifier_{_name}"] = functools.partial(classifier, **_parameters)


@case
def classifier_of_two_classes() -> Results:
    X, y = iris()
    net = sknet.MLPClassifier((8,), max_iter=4, random_state=0).fit(X, np.where(y == 1, "yes", "no"))
    return {"predict_proba": net.predict_proba(X), "score": net.score(X, np.where(y == 1, "yes", "no"))}


@case
def classifier_of_labels() -> Results:
    X, y = iris()
    labels = np.column_stack([y == 0, y == 1, X[:, 0] > 0]).astype(int)
    return results(sknet.MLPClassifier((8,), max_iter=4, random_state=0).fit(X, labels), X)


@case
def classifier_with_weights() -> Results:
    X, y = iris()
    net = sknet.MLPClassifier((8,), max_iter=4, random_state=0)
    return results(net.fit(X, y, sample_weight=np.linspace(0.0, 2.0, len(y))), X)


@case
def classifier_in_parts() -> Results:
    X, y = iris()
    net = sknet.MLPClassifier((8,), random_state=0)
    for part in np.split(np.arange(150), 5):
        net.partial_fit(X[part], y[part], classes=[0, 1, 2])
    return results(net, X)


@case
def classifier_that_goes_on() -> Results:
    X, y = iris()
    net = sknet.MLPClassifier((8,), max_iter=2, random_state=0, warm_start=True)
    return results(net.fit(X, y).fit(X, y), X)


@case
def classifier_resumed() -> Results:
    X, y = iris()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.sknet")
        settings: dict[str, Any] = {"hidden_layer_sizes": (8,), "random_state": 0, "dropout": 0.2}
        sknet.MLPClassifier(max_iter=2, callbacks=[Checkpoint(path)], **settings).fit(X, y)
        resumed = sknet.MLPClassifier(max_iter=4, **settings).fit(X, y, resume_from=path)
    whole = sknet.MLPClassifier(max_iter=4, **settings).fit(X, y)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    return results(resumed, X)


@case
def regressor_defaults() -> Results:
    return regressor()


@case
def regressor_of_several_targets() -> Results:
    y = diabetes()[1]
    return regressor(np.column_stack([y, y**2, -y]), dtype="float64")


@case
def regressor_that_scales() -> Results:
    return regressor(1e6 + 1e3 * diabetes()[1], scale_target=True)


@case
def regressor_of_quantiles() -> Results:
    X, y = diabetes()
    net = sknet.MLPRegressor((8,), loss=losses.Quantile([0.1, 0.5, 0.9]), max_iter=4, random_state=0).fit(
        X, y
    )
    return {"quantiles": net.predict_quantiles(X), "losses": net.loss_curve_}


@case
def regressor_of_deviations() -> Results:
    X, y = diabetes()
    net = sknet.MLPRegressor((8,), loss="gaussian_nll", max_iter=4, random_state=0).fit(X, y)
    return {"predict": net.predict(X), "std": net.predict_std(X)}


# -- networks of one's own ------------------------------------------------------------------------


@case
def convolutions() -> Results:
    X, y = images()
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(4),
    )
    net = sknet.NetClassifier(network, max_iter=2, batch_size=32, random_state=0)
    return results(net.fit(X, y), X)


class Recurrent(nn.Module):
    """An LSTM whose last state is classified."""

    def __init__(self) -> None:
        self.cell = nn.LSTM(3, 5, returns="last")
        self.head = nn.Linear(5, 2)

    def forward(self, x: Any, lengths: Any = None) -> Any:
        return self.head(self.cell(x, lengths=lengths))


@case
def recurrent() -> Results:
    X, y, lengths = sequences()
    net = sknet.NetClassifier(Recurrent(), max_iter=3, batch_size=32, random_state=0)
    return results(net.fit(X, y, lengths=lengths), X, lengths=lengths)


@case
def embeddings() -> Results:
    X, y = ids()
    network = nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.LayerNorm(24), nn.Linear(24, 2))
    net = sknet.NetClassifier(network, max_iter=3, batch_size=32, random_state=0)
    return results(net.fit(X, y), X)


@case
def autoencoder() -> Results:
    X, _ = iris()
    return results(sknet.Autoencoder((6, 2), max_iter=4, random_state=0).fit(X), X)


@case
def model() -> Results:
    X, y = iris()
    made = Model(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), "log_loss", random_state=0)
    history = made.fit(X.astype("float32"), y, epochs=3, batch_size=20)
    return {"losses": history["loss"], "output": made.predict(X.astype("float32"))}


# -- tables, searches, the drop-in ----------------------------------------------------------------


@case
def encoded_table() -> Results:
    X, y = frame()
    net = sknet.MLPClassifier((8,), encoder="table", max_iter=4, random_state=0)
    return results(net.fit(X, y), X)


@case
def tabular_classifier() -> Results:
    X, y = frame()
    net = sknet.TabularClassifier(members=1, budget=0.1, n_folds=2, random_state=0)
    return results(net.fit(X, y), X)


@case
def tabular_regressor() -> Results:
    X, y = diabetes()
    net = sknet.TabularRegressor(members=1, budget=0.1, n_folds=2, random_state=0)
    return results(net.fit(X, y), X)


@case
def search() -> Results:
    X, y = iris()
    net = sknet.MLPClassifier((8,), max_iter=3, random_state=0)
    grid = {"alpha": [0.0, 0.1], "hidden_layer_sizes": [(4,), (8,)]}
    found = model_selection.GridSearchCV(net, grid, cv=2).fit(X, y)
    return {"scores": found.cv_results_["mean_test_score"], "predict_proba": found.predict_proba(X)}


@case
def cross_validation() -> Results:
    X, y = diabetes()
    net = sknet.MLPRegressor((8,), max_iter=3, random_state=0)
    return {"predictions": model_selection.cross_val_predict(net, X, y, cv=3)}


@case
def drop_in() -> Results:
    X, y = iris()
    net = neural_network.MLPClassifier((8,), max_iter=4, random_state=0).fit(X, y)
    return {"losses": net.loss_curve_, "predict_proba": net.predict_proba(X)}


@case
def boltzmann_machine() -> Results:
    X = images()[0].reshape(150, -1)
    rbm = neural_network.BernoulliRBM(6, n_iter=2, random_state=0).fit(X)
    return {"transform": rbm.transform(X)}
