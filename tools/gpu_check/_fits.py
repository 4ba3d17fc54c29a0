"""Whole fits on the device, and the same on the CPU: losses, weights and predictions agree."""

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from sknet import nn
from sknet.device import arrays_in, to_device, to_host
from sknet.estimators import MLPClassifier, MLPRegressor, NetClassifier
from sknet.optim import SGD, Adam
from tools.gpu_check._found import Found
from tools.gpu_check._machine import Machine
from tools.gpu_check._timed import quiet

__all__ = ["CASES", "Case", "check", "fits"]

N = 230
TOLERANCE = {"float64": 1e-6, "float32": 2e-3, "tf32x3": 2e-3, "tf32": 2e-2, "bfloat16": 1e-1}


@dataclass
class Case:
    """A small network, how it is trained, and how well the two fits agree."""

    kind: Callable[..., Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = (12,)
    weighted: bool = False
    parts: bool = False
    tolerance: float | None = None

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return X, y and weights or None."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((N, *self.shape)).astype(arrays_in(self.dtype))
        signal = X.reshape(N, -1)[:, :3].sum(axis=1)
        y = signal.astype(np.float64) if self.kind is MLPRegressor else np.digitize(signal, [-1.0, 1.0])
        if str(self.params.get("loss")) == "poisson":
            y = np.exp(y / 2)
        return X, y, rng.uniform(0.5, 2.0, N) if self.weighted else None

    @property
    def dtype(self) -> str:
        """The precision of the fit."""
        return str(self.params.get("dtype", "float64"))

    def fitted(self, device: str) -> Any:
        """Return the estimator, trained."""
        common: dict[str, Any] = {"max_iter": 3, "batch_size": 64, "random_state": 0, "dtype": "float64"}
        estimator = self.kind(device=device, **common | dict(self.params))
        X, y, weight = self.data()
        more = {} if weight is None else {"sample_weight": weight}
        with quiet():
            if not self.parts:
                return estimator.fit(X, y, **more)
            classes = {} if self.kind is MLPRegressor else {"classes": np.unique(y)}
            estimator.partial_fit(X, y, **more, **classes)
            return estimator.partial_fit(X[:100], y[:100], **{name: w[:100] for name, w in more.items()})


def perceptron(**params: Any) -> dict[str, Any]:
    """Return parameters of a small perceptron."""
    return {"hidden_layer_sizes": (16, 8), **params}


def network(*layers: nn.Module) -> Callable[..., Any]:
    """Return what builds a classifier of some layers and a last one."""

    def build(**params: Any) -> NetClassifier:
        return NetClassifier(nn.Sequential(*layers, nn.LazyLinear(3)), **params)

    return build


CASES: dict[str, Case] = {
    "classifier, adam": Case(MLPClassifier, perceptron()),
    "classifier, float32": Case(MLPClassifier, perceptron(dtype="float32")),
    "classifier, tf32": Case(MLPClassifier, perceptron(dtype="tf32")),
    "classifier, bfloat16": Case(MLPClassifier, perceptron(dtype="bfloat16")),
    "classifier, arrays in bfloat16": Case(
        MLPClassifier, {"hidden_layer_sizes": (512,), "dtype": "bfloat16", "optimizer": Adam(1e-3)}, (512,)
    ),
    "classifier, tf32x3": Case(MLPClassifier, {"hidden_layer_sizes": (512,), "dtype": "tf32x3"}, (512,)),
    "regressor, adam": Case(MLPRegressor, perceptron()),
    "regressor, float32": Case(MLPRegressor, perceptron(dtype="float32")),
    "momentum": Case(MLPClassifier, perceptron(optimizer=SGD(0.01, 0.9, True), shuffle=False)),
    "adamw": Case(MLPClassifier, perceptron(optimizer="adamw")),
    "rmsprop": Case(MLPRegressor, perceptron(optimizer="rmsprop")),
    "lbfgs": Case(MLPRegressor, perceptron(optimizer="lbfgs", max_iter=5), tolerance=1e-3),
    "huber": Case(MLPRegressor, perceptron(loss="huber")),
    "poisson": Case(MLPRegressor, perceptron(loss="poisson")),
    "hinge": Case(MLPClassifier, perceptron(loss="hinge")),
    "gelu and dropout": Case(MLPClassifier, perceptron(activation="gelu", dropout=0.3)),
    "gelu in products": Case(MLPClassifier, perceptron(activation=nn.GELU("tanh"), dtype="float32")),
    "sample weights": Case(MLPClassifier, perceptron(), weighted=True),
    "early stopping": Case(MLPClassifier, perceptron(early_stopping=True, max_iter=20)),
    "partial_fit": Case(MLPClassifier, perceptron(), parts=True),
    "partial_fit, weighted": Case(MLPRegressor, perceptron(), weighted=True, parts=True),
    "members": Case(MLPClassifier, perceptron(n_members=3)),
    "batch norm": Case(network(nn.Linear(12, 16), nn.BatchNorm(16), nn.ReLU(), nn.Dropout(0.2))),
    "layer norm": Case(network(nn.Linear(12, 16), nn.LayerNorm(16), nn.SiLU())),
    "images": Case(
        network(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), shape=(1, 6, 6)
    ),
    "images, float32": Case(
        network(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        {"dtype": "float32"},
        shape=(1, 6, 6),
    ),
    "images by tiles, float32": Case(
        network(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten()),
        {"dtype": "float32"},
        shape=(1, 6, 6),
    ),
    "lstm": Case(network(nn.LSTM(3, 8, returns="last")), shape=(5, 3)),
    "gru": Case(network(nn.GRU(3, 8, returns="last")), shape=(5, 3)),
    "attention": Case(
        network(nn.Linear(3, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1), nn.Flatten()),
        shape=(5, 3),
    ),
}


def check(case: Case, device: str) -> dict[str, float]:
    """Fit on the device and on the CPU; return the largest differences."""
    there, here = case.fitted(device), case.fitted("cpu")
    X = case.data()[0]
    if there.model_.device.kind == "cpu":
        raise AssertionError(f"a fit with device={device!r} computed on the CPU")
    method = "predict_proba" if hasattr(here, "predict_proba") else "decision_function"
    method = method if hasattr(here, method) else "predict"
    rows = to_device(X, there.model_.device)  # few of the host's are predicted there
    moved = pickle.loads(pickle.dumps(there)).set_params(device="cpu")
    pairs = {
        "loss_curve_": (there.loss_curve_, here.loss_curve_),
        method: (to_host(getattr(there, method)(rows)), getattr(here, method)(X)),
        "predictions of rows of the host": (getattr(there, method)(X), getattr(here, method)(X)),
        "predictions of its pickle on the CPU": (getattr(moved, method)(X), getattr(here, method)(X)),
    }
    limit = TOLERANCE[case.dtype] if case.tolerance is None else case.tolerance
    return {
        name: _difference(name, np.asarray(found), np.asarray(expected), limit)
        for name, (found, expected) in pairs.items()
    }


def _difference(name: str, found: np.ndarray, expected: np.ndarray, limit: float) -> float:
    if found.shape != expected.shape:
        raise AssertionError(f"{name} has the shape {found.shape} here, and {expected.shape} on the CPU")
    size = float(np.abs(expected).max()) or 1.0
    apart = np.abs(found - expected) / size
    worst = float(apart.max())
    if not worst <= limit:  # also of nan
        at = np.unravel_index(int(np.argmax(apart)), apart.shape)
        raise AssertionError(
            f"{name} differs from the CPU's by {worst:.2g} of the largest value, more than {limit:.2g}: "
            f"{found[at]!r} instead of {expected[at]!r} at {tuple(map(int, at))}"
        )
    return worst


def fits(machine: Machine, names: Iterable[str] | None = None) -> Found:
    """Run cases of some names, by default all."""
    found = Found()
    for name in CASES if names is None else names:
        found.attempt(name, partial(check, CASES[name], str(machine.device)))
    return found
