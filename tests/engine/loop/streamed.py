"""Fits whose inputs stay on the host, chunk by chunk on a device, or lie there: they have the same bits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, Model, nn, ops
from sknet.device import Feed, backend, to_host
from tests.estimators.data import quiet

SIZE = 4
RNG = np.random.default_rng(0)
X = RNG.standard_normal((102, 6))  # 25 batches and a rest of two rows
SMALL = RNG.standard_normal((102, 1))
CLASSES, WEIGHT = RNG.integers(0, 3, 102), RNG.uniform(0.5, 2, 102)
FREE = 4600  # bytes: X has more than half of them; a sixteenth has two batches of float32, one of float64

# The most bytes of a buffer in the host's memory: a row at a time, two rows of a batch, or a whole chunk.
BUFFERS = {"rows": 1, "two rows": 60, "chunks": 1 << 20}


@contextmanager
def limited(device: str, most_bytes: int = BUFFERS["chunks"], free: int = FREE) -> Iterator[None]:
    """Let only so many bytes of a device be free, and the host's buffers have at most so many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(backend(device)), "free_memory", lambda self, device: free)
        patch.setattr(Feed, "most_bytes", most_bytes)
        yield


def classifier(device: str, **params: Any) -> MLPClassifier:
    defaults = {"batch_size": SIZE, "max_iter": 3, "random_state": 0, "dtype": "float32"}
    return MLPClassifier((10,), device=device, **defaults | params)


def learned(estimator: Any, rows: Any = X) -> list[np.ndarray]:
    """Return what a fit has found."""
    found = [*estimator.coefs_, *estimator.intercepts_, np.array(estimator.loss_curve_)]
    scores = getattr(estimator, "validation_scores_", None)
    return [*found, estimator.predict(rows), np.array([] if scores is None else scores, dtype=float)]


def fitted(device: str, rows: Any = X, weight: Any = None, **params: Any) -> list[np.ndarray]:
    with quiet():
        return learned(classifier(device, **params).fit(rows, CLASSES, weight), rows)


def in_parts(device: str) -> list[np.ndarray]:
    estimator = classifier(device)
    for _ in range(3):
        estimator.partial_fit(X, CLASSES, classes=[0, 1, 2])
    return learned(estimator)


def regression(device: str) -> list[np.ndarray]:
    estimator = MLPRegressor((5,), device=device, batch_size=SIZE, max_iter=2, random_state=0)
    with quiet():
        return learned(estimator.fit(X, X[:, :2] ** 2))


class Joined(nn.Module):
    """Two inputs, of which one is small."""

    def __init__(self) -> None:
        self.layer = nn.Linear(7, 3)

    def forward(self, wide: Any, narrow: Any) -> Any:
        return self.layer(ops.concat([wide, narrow], axis=1))


def several_inputs(device: str) -> list[np.ndarray]:
    model = Model(Joined(), "log_loss", random_state=0, device=device)
    model.fit({"wide": X, "narrow": SMALL}, CLASSES, epochs=2, batch_size=SIZE)
    return [to_host(x) for x in model.parameters.values()]


def images(device: str) -> list[np.ndarray]:
    """Integers for an embedding, with several axes."""
    net = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(18, 3))
    model = Model(net, "log_loss", random_state=0, device=device)
    ids = (10 * np.abs(X)).astype(np.int32).reshape(-1, 3, 2) % 5
    model.fit(ids, CLASSES, epochs=2, batch_size=SIZE)
    return [to_host(x) for x in model.parameters.values()]


CASES: dict[str, Callable[[str], list[np.ndarray]]] = {
    "shuffled": fitted,
    "in the order of the data": lambda device: fitted(device, shuffle=False),
    "in the dtype of the data": lambda device: fitted(device, X.astype("float32")),
    "float64": lambda device: fitted(device, dtype="float64"),
    "weights": lambda device: fitted(device, weight=WEIGHT),
    "early stopping": lambda device: fitted(device, early_stopping=True, validation_fraction=0.2),
    "dropout": lambda device: fitted(device, dropout=0.3),
    "some columns": lambda device: fitted(device, np.repeat(X, 2, axis=1)[:, ::2]),
    "in Fortran order": lambda device: fitted(device, np.asfortranarray(X)),
    "in parts": in_parts,
    "regression": regression,
    "several inputs": several_inputs,
    "embedding": images,
}


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
