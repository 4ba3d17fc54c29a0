"""Time of a training step without one of the ways in which it is made faster, each by itself."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from sknet import nn
from sknet.compile._compile import forget_programs
from sknet.compile.cuda import _executor, _heads, _maps, _precisions, _rules
from sknet.device import to_device
from sknet.engine import _device_runner
from sknet.estimators import NetClassifier
from tools.gpu_check._found import Found
from tools.gpu_check._machine import Machine
from tools.gpu_check._steps import CONFIGURATIONS, Configuration, fit_seconds
from tools.gpu_check._timed import epochs_of, per_step

__all__ = ["LEVERS", "levers", "without"]

NEVER = 1 << 62
IMAGES = Configuration((28, 32, 64), 64, 32, 2, 12)  # rows and columns, channels, filters
COLUMNS = "convolutions by columns"
WHOLE = "arrays of float32"  # in bfloat16 alone
# By what is done in its place: names in modules, and their values then.
LEVERS: dict[str, list[tuple[Any, str, Any]]] = {
    "last layer by products": [(_heads, "MOST_OUTPUTS", 0)],
    "loads of one element": [(_maps, "LEAST_WIDE", NEVER), (_heads, "MOST_WIDE_ROWS", 0)],
    "rows that are not padded": [(_device_runner, "LEAST_PADDED", NEVER)],
    "products one after the other": [(_executor, "products_beside", lambda graph, groups: {})],
    COLUMNS: [(_rules, "LEAST_CHANNELS", NEVER)],
    WHOLE: [(_precisions, "LEAST_PRODUCTS", NEVER)],
}


def levers(
    machine: Machine,
    configurations: Mapping[str, Configuration] = CONFIGURATIONS,
    dtypes: tuple[str, ...] = ("float32", "tf32"),
    rounds: int = 3,
    images: Configuration = IMAGES,
) -> Found:
    """Time a step of each configuration with all of them, and without each."""
    found = Found()
    for dtype in dtypes:
        timed = partial(image_seconds, machine, images, rounds, dtype)
        found.attempt(f"images, {dtype}", timed)
        with without(COLUMNS):
            found.attempt(f"images, {dtype}, {COLUMNS}", timed)
    for name, each in configurations.items():
        for dtype in dtypes:
            timed = partial(fit_seconds, machine, each, rounds, dtype)
            found.attempt(f"{name}, {dtype}", timed)
            for lever in [lever for lever in LEVERS if lever not in (COLUMNS, WHOLE)]:
                with without(lever):
                    found.attempt(f"{name}, {dtype}, {lever}", timed)
        with without(WHOLE):
            timed = partial(fit_seconds, machine, each, rounds, "bfloat16")
            found.attempt(f"{name}, bfloat16, {WHOLE}", timed)
    return found


def image_seconds(machine: Machine, each: Configuration, rounds: int, dtype: str) -> float:
    """Return the seconds of a step of two convolutions of 3 x 3."""
    side, channels, filters = each.sizes
    n = each.batch * each.n_batches
    rows = np.random.default_rng(0).standard_normal((n, 1, side, side), dtype=np.float32)
    X, y = to_device(rows, machine.device), np.arange(n) % 10
    layers = (nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, filters, 3, padding=1))

    def train(epochs: int) -> int:
        network = nn.Sequential(*layers, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(10)).copy()
        estimator = epochs_of(partial(_net, network), (), each.batch, epochs, machine.device, dtype).fit(X, y)
        machine.synchronize()
        return int(estimator.model_.progress.step)

    return per_step(train, each.few, each.many, rounds)


def _net(network: nn.Module, hidden_layer_sizes: tuple[int, ...], **params: Any) -> NetClassifier:
    return NetClassifier(network, **params)


@contextmanager
def without(lever: str) -> Iterator[None]:
    """Let programs that are compiled meanwhile do without it."""
    before = [(module, name, getattr(module, name)) for module, name, _ in LEVERS[lever]]
    for module, name, value in LEVERS[lever]:
        setattr(module, name, value)
    forget_programs()
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        forget_programs()
