"""Fits killed by SIGKILL at random moments and resumed are bitwise identical to uninterrupted ones.

Each case is a fit that is killed up to three times; then weights, optimizer state, history, random state,
validation and best scores are compared, as bytes.

    python -m tests.fuzz.kills --cases 200 --seed 0
"""

import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.random import Generator

from sknet import MLPClassifier, MLPRegressor, NetClassifier, nn, ops
from sknet.callbacks import Callback, Checkpoint
from sknet.losses import Huber
from sknet.neural_network import MLPClassifier as DropIn
from sknet.optim import EMA, SGD, Adam, AdamW
from sknet.optim.schedules import Adaptive, Cosine, OneCycle, Step
from sknet.persistence import write
from tests.fuzz.command import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 12)).astype(np.float32)
WEIGHT = RNG.uniform(0, 2, len(X))
REAL = np.sin(X @ RNG.normal(size=(12, 2))) + 0.3 * RNG.normal(size=(len(X), 2))
LABELS = (REAL[:, 0] > 0).astype(int) + (REAL[:, 1] > 0.5)
SPARSE = scipy.sparse.csr_array(np.where(X > 0.8, X, 0))
EVERY = (1, 3, "7 steps", "29 steps", "0.05 s")
Fit = tuple[Any, Any, Any, Any]


class Lazy(nn.Module):
    """A lazy network with layers that draw numbers or keep statistics."""

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.first, self.norm = nn.LazyLinear(16), nn.BatchNorm(16)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(16, n_outputs)

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(ops.tanh(self.norm(self.first(x)))))


class Eager(Lazy):
    """Cannot be captured, because it reads a value."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__(n_outputs)
        self.first = nn.Linear(n_features, 16)

    def forward(self, x: Any) -> Any:
        return super().forward(x) * (1.0 if ops.sum(x).item() < 1e9 else 0.5)


class Two(nn.Module):
    """Takes two arrays."""

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.left, self.right = nn.LazyLinear(8), nn.LazyLinear(8)
        self.last = nn.Linear(8, n_outputs)

    def forward(self, left: Any, right: Any) -> Any:
        return self.last(ops.tanh(self.left(left) + self.right(right)))


def classifier(optimizer: Any, **params: Any) -> Fit:
    told = {"max_iter": 15, "batch_size": 64, "dropout": 0.2, "n_iter_no_change": 6} | params
    return MLPClassifier((16,), optimizer=optimizer, random_state=3, **told), X, LABELS, None


def regressor(**params: Any) -> Fit:
    told = {"max_iter": 15, "batch_size": 64, "random_state": 0} | params
    return MLPRegressor((16,), **told), X, REAL, WEIGHT


def network(module: type, **params: Any) -> Fit:
    told = {"max_iter": 8, "batch_size": 64, "random_state": 0, "optimizer": AdamW()} | params
    return NetClassifier(module, **told), X, LABELS, WEIGHT


def several(**params: Any) -> Fit:
    net, inputs, labels, weight = network(Two, early_stopping=True, **params)
    return net, {"left": inputs[:, :5], "right": inputs[:, 5:]}, labels, weight


# what is fitted; whether native code may be
FITS: dict[str, tuple[Callable[[], Fit], bool]] = {
    "native": (lambda: classifier(Adam(), early_stopping=True), True),
    "compiled": (lambda: classifier(Adam(Cosine(0.01)), early_stopping=True), False),
    "eager": (lambda: network(Eager, early_stopping=True, n_iter_no_change=3), False),
    "lazy": (lambda: network(Lazy, early_stopping=True, optimizer=EMA(Adam())), False),
    "by plateau": (lambda: classifier(SGD(Adaptive(0.3, factor=3.0)), n_iter_no_change=2, tol=0.01), False),
    "by epoch": (lambda: classifier(SGD(Step(0.3, 4, 0.5, unit="epoch"), 0.9), early_stopping=True), True),
    "by step": (lambda: regressor(optimizer=Adam(OneCycle(0.02)), early_stopping=True), False),
    "refit": (lambda: classifier(Adam(), early_stopping=True, refit_on_all=True), False),
    "robust": (lambda: regressor(loss=Huber(), shuffle=False), True),
    "sparse": (lambda: (classifier(Adam(), class_weight="balanced")[0], SPARSE, LABELS, WEIGHT), False),
    "several inputs": (several, True),
    "frozen": (lambda: several(frozen=["left", "last.bias"]), True),
    "drop-in": (
        lambda: (DropIn((16,), max_iter=15, random_state=0, early_stopping=True), X, LABELS, None),
        True,
    ),
}


class Tells(Callback):
    """Signals through a pipe that the fit has begun."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def on_fit_begin(self, fit: Any) -> None:
        os.write(self.pipe, b".")


def fit_and_write(name: str, callbacks: list[Callback], end: Path) -> None:
    """Fit, and write all results except times."""
    make, may_be_native = FITS[name]
    if not may_be_native:
        os.environ["SKNET_NATIVE"] = "never"
    estimator, inputs, y, weight = make()
    if isinstance(estimator, DropIn):
        estimator.fit(inputs, y, callbacks=callbacks)
    else:
        estimator.fit(inputs, y, weight, callbacks=callbacks)
    model = estimator.model_
    state = model.state
    history = {name: np.array(column) for name, column in estimator.history_.items() if name != "time"}
    left = {
        "parameters": dict(state.parameters),
        "slots": dict(state.optimizer.slots),
        "buffers": dict(state.buffers),
        "progress": state.progress._asdict(),
        "history": history,
        "random_state": model.random_state.get_state(legacy=False),
        "key": list(model.memory.key),
        "best": [estimator.n_iter_, estimator.best_validation_score_, estimator.best_loss_],
    }
    write(end, left, "end")


def started(name: str, folder: Path, every: int | str | None) -> tuple[int, int]:
    """Begin a fit in a separate process; return its id, and a pipe that is readable when the fit begins."""
    read, told = os.pipe()
    child = os.fork()
    if child:
        os.close(told)
        return child, read
    try:
        warnings.simplefilter("ignore")
        saves = [] if every is None else [Checkpoint(folder / "fit", every=every, resume=True)]
        fit_and_write(name, [*saves, Tells(told)], folder / "end")
    except BaseException:  # any error is reported
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def finished(child: int, read: int) -> None:
    """Wait for a process, which must succeed."""
    os.close(read)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the fit failed with status {status}")


@cache
def left_alone(name: str) -> tuple[bytes, float]:
    """Return the result of an uninterrupted fit, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):  # the first may have compiled
            child, read = started(name, Path(folder), None)
            os.read(read, 1)
            begun = time.perf_counter()
            finished(child, read)
        return Path(folder, "end").read_bytes(), time.perf_counter() - begun


def kill_some(name: str, folder: Path, every: int | str, rng: Generator) -> int:
    """Begin a fit up to three times, and kill it at some moment; return how often it was alive then."""
    seconds, killed = left_alone(name)[1], 0
    for _ in range(rng.integers(1, 4)):
        child, read = started(name, folder, every)
        os.read(read, 1)
        time.sleep(rng.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        os.close(read)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    return killed


def mismatch(seed: int) -> str | None:
    """Kill and resume one fit; return what went wrong."""
    rng = np.random.default_rng(seed)
    name, every = list(FITS)[seed % len(FITS)], EVERY[rng.integers(len(EVERY))]
    expected, _ = left_alone(name)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        killed = kill_some(name, folder, every, rng)
        (folder / "end").unlink(missing_ok=True)
        finished(*started(name, folder, every))
        found = (folder / "end").read_bytes()
    KILLED.append(killed)
    return None if found == expected else f"case {seed}: {name!r} saved every {every!r} ends with other bytes"


KILLED: list[int] = []

if __name__ == "__main__":
    status = run(mismatch, __doc__, 200)
    print(f"{sum(map(bool, KILLED))} fits were killed, {sum(KILLED)} times")
    sys.exit(status)
