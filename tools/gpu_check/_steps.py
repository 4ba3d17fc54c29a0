"""Time and launches of a training step in whole fits, beside PyTorch's and the least possible time."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sknet.device import HALVES, active, backend, to_device
from sknet.estimators import MLPClassifier
from tools.gpu_check import _torch
from tools.gpu_check._found import Found
from tools.gpu_check._machine import Machine
from tools.gpu_check._roofline import work_of
from tools.gpu_check._timed import epochs_of, per_call, per_step, quiet

__all__ = ["CONFIGURATIONS", "TINY", "Configuration", "fit", "fit_seconds", "steps"]


@dataclass(frozen=True)
class Configuration:
    """A perceptron, and how long it is trained."""

    sizes: tuple[int, ...]
    batch: int
    n_batches: int
    few: int
    many: int

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and classes."""
        rng, n = np.random.default_rng(0), self.batch * self.n_batches
        y = np.arange(n) % self.sizes[-1]
        return rng.standard_normal((n, self.sizes[0]), dtype=np.float32), y


CONFIGURATIONS = {
    "54-512-512-7, batch 4,096": Configuration((54, 512, 512, 7), 4096, 16, 3, 33),
    "784-1024-1024-10, batch 8,192": Configuration((784, 1024, 1024, 10), 8192, 8, 3, 28),
    "20-100-2, batch 256": Configuration((20, 100, 2), 256, 32, 3, 63),
}
TINY = {"4-8-3, batch 16": Configuration((4, 8, 3), 16, 2, 1, 4)}


def steps(
    machine: Machine,
    configurations: Mapping[str, Configuration] = CONFIGURATIONS,
    side: int = 8192,
    rounds: int = 5,
    dtype: str = "float32",
) -> Found:
    """Time all configurations."""
    found = Found()
    found.attempt("rates", partial(rates, machine, side, dtype))
    measured = found.figures.get("rates")
    for name, each in configurations.items():
        rows: dict[str, Any] = {}
        part = Found(rows)
        part.attempt("sknet", partial(fit_seconds, machine, each, rounds, dtype))
        part.attempt("sknet, held-out rows", partial(fit_seconds, machine, each, rounds, dtype, True))
        part.attempt("launches", partial(fit_launches, machine, each, dtype))
        part.attempt("torch", partial(torch_seconds, each, dtype))
        if isinstance(measured, dict):
            work = work_of(each.sizes, each.batch, 2 if dtype == "bfloat16" else 4)
            rows["floor"] = work.floor(measured["operations per second"], measured["bytes per second"])
        found.figures[name] = rows
        found.failures += [failure | {"name": f"{name}: {failure['name']}"} for failure in part.failures]
    return found


def rates(machine: Machine, side: int, dtype: str) -> dict[str, float]:
    """Return the rates of a large product in a precision and of a copy within the device's memory."""
    owner = backend(machine.device.kind)
    at_once, dtype = (3, "tf32") if dtype == "tf32x3" else (1, dtype)
    arrays, one, of = ("uint16", 0x3F80, HALVES) if dtype == "bfloat16" else ("float32", 1, dtype)
    with active(machine.device, dtype):
        a, b, out = (owner.ones((side, side), arrays, machine.device) for _ in range(3))
        a[...], b[...] = one, one
        product = owner.products(of)(a, b, out)

        def copy() -> None:
            out[...] = a

        product_seconds = per_call(product, machine.synchronize, 3)
        copy_seconds = per_call(copy, machine.synchronize, 20)
    return {
        "operations per second": 2.0 * side**3 / product_seconds / at_once,
        "bytes per second": 2.0 * a.nbytes / copy_seconds,
    }


def fit(
    machine: Machine,
    each: Configuration,
    X: Any,
    y: np.ndarray,
    epochs: int,
    dtype: str,
    is_validated: bool = False,
) -> int:
    """Train for a number of epochs; return the number of steps. The first batch may be the held-out rows."""
    estimator = epochs_of(MLPClassifier, each.sizes[1:-1], each.batch, epochs, machine.device, dtype)
    held_out = {"X_val": X[: each.batch], "y_val": y[: each.batch]} if is_validated else {}
    estimator.set_params(early_stopping=is_validated).fit(X, y, **held_out)
    machine.synchronize()
    return int(estimator.model_.progress.step)


def fit_seconds(
    machine: Machine, each: Configuration, rounds: int, dtype: str, is_validated: bool = False
) -> float:
    """Return the seconds of a step in a whole fit."""
    X, y = each.data()
    there = to_device(X, machine.device)

    def train(epochs: int) -> int:
        return fit(machine, each, there, y, epochs, dtype, is_validated)

    return per_step(train, each.few, each.many, rounds)


def fit_launches(machine: Machine, each: Configuration, dtype: str) -> float:
    """Return the launches of a step in a whole fit."""
    _torch.load()  # whose profiler counts them
    X, y = each.data()
    counts, done = [], []

    def train(epochs: int) -> None:
        done.append(fit(machine, each, X, y, epochs, dtype))

    with quiet():
        train(each.few)
        for epochs in (each.few, each.few + 2):
            counts.append(_torch.launches(partial(train, epochs)))
    return (counts[1] - counts[0]) / (done[2] - done[1])


def torch_seconds(each: Configuration, dtype: str) -> dict[str, float]:
    """Return PyTorch's seconds of a step."""
    calls = each.n_batches * (each.many - each.few)
    return _torch.seconds(each.sizes, each.batch, each.n_batches, calls, dtype)
