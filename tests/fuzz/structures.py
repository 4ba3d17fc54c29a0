"""Pairs of models with one difference: the second never gets the programs of the first.

A model is built from rows of the tables of layers, losses and optimizers, and its programs are compiled.
Another is built alike except for one change: of an attribute, a hyperparameter, a hook, a dtype, a shape, a
buffer, a frozen or shared parameter, or a function. Its programs have to equal those of a new capture.

    python -m tests.fuzz.structures --cases 20000 --seed 0
"""

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from numpy.random import Generator

from sknet import Model, nn
from sknet.compile import compile
from sknet.engine._fingerprint import structure_of
from sknet.engine._programs import Programs
from sknet.optim import SGD
from tests.fuzz.command import run
from tests.losses.test_contract import CASES as LOSSES
from tests.nn.layers.test_contract import ROWS as LAYERS
from tests.optim.test_contract import CASES as OPTIMIZERS

USED = ("sknet.engine._programs.compile_cached", "sknet.engine._network.compile_cached")
TEXTS = ("tanh", "relu", "mean", "sum", "max", "reflect", "none")
NAMES = sorted(LAYERS)


class Shared(nn.Module):
    """A custom module that reads a number from outside."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def forward(self, x: Any) -> Any:
        """Return the function of x."""
        return self.function(x)


def scaled_by(factor: float) -> Callable[[Any], Any]:
    """Return a function that closes over a number."""
    return lambda x: x * factor


FACTORIES: tuple[Callable[[float], Any], ...] = (
    lambda factor: nn.Lambda(scaled_by(factor)),
    lambda factor: Shared(scaled_by(factor)),
    lambda factor: nn.LeakyReLU(factor),
    lambda factor: nn.Dropout(factor),
    lambda factor: nn.Dropout(nn_schedule(factor)),
)


def nn_schedule(factor: float) -> Any:
    """Return a probability that follows a custom schedule."""
    return lambda progress: factor * (progress.step + 1)


class Parts:
    """The parts of a model and its batch; the same for equal seeds."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([20261122, seed])
        name = NAMES[seed % len(NAMES)]
        make, shape = LAYERS[name]
        factory = FACTORIES[rng.integers(len(FACTORIES))]
        self.factor = 0.25
        self.factory = factory
        n = int(rng.integers(3, 6))
        self.X = rng.uniform(0.2, 2.0, (n, *shape)).astype("f4")
        case = LOSSES[rng.integers(len(LOSSES))]
        self.with_loss = bool(rng.random() < 0.4)
        self.loss: Any = "squared_error"
        self.y = rng.normal(size=(n, 2)).astype("f4")
        self.layers: list[Any] = [make(), nn.Flatten(1), nn.LazyLinear(3), nn.Tanh(), nn.Linear(3, 2)]
        if self.with_loss:
            shape = case.shapes[0]
            self.X, target = case.draw(shape, np.float32)
            self.loss, self.y = copy.deepcopy(case.loss), target
            size = int(np.prod(shape[1:]))
            self.layers = [nn.Flatten(1), nn.Linear(size, size), nn.Unflatten(1, shape[1:])]
        self.optimizer: Any = copy.deepcopy(OPTIMIZERS[rng.integers(len(OPTIMIZERS))].optimizer)
        self.weight: Any = None
        self.options: dict[str, Any] = {"alpha": 0.0, "dtype": "float32", "random_state": 3}
        self.after: Callable[[Model], None] = lambda model: None

    def model(self) -> Model:
        """Return the model with the change."""
        module = nn.Sequential(*self.layers)
        model = Model(module, self.loss, self.optimizer, **self.options)
        model.materialize(self.X)
        self.after(model)
        return model

    def modules(self) -> list[nn.Module]:
        """Return all modules that have attributes."""
        return [module for layer in self.layers for module in layer.modules()]


def other(value: Any, rng: Generator) -> Any:
    """Return another value of the same kind, or of another kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return -0.0 if value == 0.0 and rng.random() < 0.5 else 0.5 * value + 0.125
    if isinstance(value, str):
        return str(rng.choice([text for text in TEXTS if text != value]))
    if value is None:
        return 1
    if isinstance(value, (tuple, list)) and value:
        place = int(rng.integers(len(value)))
        return type(value)(other(x, rng) if i == place else x for i, x in enumerate(value))
    if isinstance(value, np.ndarray) and value.size:
        changed = value.copy()
        changed.reshape(-1)[-1] += 1
        return changed
    return None


def an_attribute(parts: Parts, rng: Generator) -> str:
    """Change an attribute of a module."""
    found = [
        (module, name)
        for module in parts.modules()
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, nn.Module)
    ]
    module, name = found[rng.integers(len(found))]
    before = getattr(module, name)
    setattr(module, name, other(before, rng))
    return f"{type(module).__name__}.{name}: {before!r} -> {getattr(module, name)!r}"


def a_hyperparameter(of: str) -> Callable[[Parts, Generator], str]:
    """Return the change of a parameter of the loss or the optimizer."""

    def change(parts: Parts, rng: Generator) -> str:
        part = getattr(parts, of)
        names = [] if isinstance(part, str) else list(vars(part))
        if not names:
            setattr(parts, of, "absolute_error" if of == "loss" else SGD(momentum=0.5))
            return f"another {of}"
        name = str(rng.choice(names))
        before = getattr(part, name)
        setattr(part, name, other(before, rng))
        return f"{type(part).__name__}.{name}: {before!r} -> {getattr(part, name)!r}"

    return change


def a_hook(parts: Parts, rng: Generator) -> str:
    """Register a hook."""
    modules = parts.modules()
    modules[rng.integers(len(modules))].register_forward_hook(lambda module, args, output: output * 2)
    return "a hook"


def a_function(parts: Parts, rng: Generator) -> str:
    """Replace a module's forward pass by a user's function."""
    modules = parts.modules()
    modules[rng.integers(len(modules))].forward = scaled_by(float(rng.integers(2, 9)))
    return "another forward"


def a_factor(parts: Parts, rng: Generator) -> str:
    """Add a layer from a factory, which closes over another number than the first model's."""
    parts.factor = 0.5
    return "another number in a closure"


def an_option(parts: Parts, rng: Generator) -> str:
    """Change the penalty, the dtype, or the random stream."""
    name, value = [("alpha", 0.1), ("dtype", "float64"), ("random_state", 4)][rng.integers(3)]
    parts.options[name] = value
    return f"{name}={value}"


def a_batch(parts: Parts, rng: Generator) -> str:
    """Change the batch: its number of rows, dtypes, weights."""
    what = str(rng.choice(["rows", "X", "y", "weights"]))
    if what == "rows":
        parts.X, parts.y = parts.X[:-1], parts.y[:-1]
    if what == "X":
        parts.X = parts.X.astype(np.float64)
    if what == "y":
        parts.y = parts.y.astype(np.float64)
    if what == "weights":
        parts.weight = np.ones(len(parts.X), np.float32)
    return f"another batch: {what}"


def shared(layers: list[Any]) -> None:
    """Share a weight between the last two layers."""
    one, twin = nn.Linear(2, 2), nn.Linear(2, 2)
    twin.weight = one.weight
    layers += [nn.Linear(2, 2), one, twin]


def with_longer_buffers(layers: list[Any]) -> None:
    """Change the shape of buffers."""
    for module in [module for layer in layers for module in layer.modules()]:
        for name, buffer in dict(module.named_buffers()).items():
            if "." not in name:
                module.register_buffer(name, np.zeros((*buffer.shape, 1), np.float32))


RESTRUCTURED: dict[str, Callable[[list[Any]], Any]] = {
    "another buffer": lambda layers: layers[0].register_buffer("extra", np.zeros(3, np.float32)),
    "a shared weight": shared,
    "another layer": lambda layers: layers.append(nn.ReLU()),
    "a layer before": lambda layers: layers.insert(0, nn.ReLU()),
    "layers in another order": lambda layers: layers.insert(0, layers.pop()),
    "longer buffers": with_longer_buffers,
}


def the_structure(parts: Parts, rng: Generator) -> str:
    """Share, add or exchange a parameter, a buffer or a layer."""
    what = str(rng.choice(list(RESTRUCTURED)))
    RESTRUCTURED[what](parts.layers)
    return what


def a_frozen_parameter(parts: Parts, rng: Generator) -> str:
    """Freeze a parameter."""
    place = rng.random()

    def frozen(model: Model) -> None:
        parameters = list(model.module.parameters())
        parameters[int(place * len(parameters))].requires_grad_(False)

    parts.after = frozen
    return "frozen"


CHANGES = (
    *(an_attribute, an_attribute, an_attribute, an_attribute),
    *(a_hyperparameter("loss"), a_hyperparameter("loss"), a_hyperparameter("optimizer")),
    *(a_hook, a_function, a_factor, an_option, a_batch, the_structure, a_frozen_parameter),
)


def outcome(model: Model, parts: Parts) -> list[Any]:
    """Return the graphs of a model's programs, or what was raised instead."""
    found: list[Any] = []
    y, weight = parts.y, parts.weight

    def gradient() -> Any:
        programs = Programs(model)
        found.append(programs.update.graph)
        return programs.gradient_of(parts.X.astype(model.dtype), y, weight).graph

    for make in (gradient, lambda: model.predict(parts.X[:2]).tobytes()):
        try:
            found.append(make())
        except Exception as error:  # a change may be invalid; then a new capture has to raise the same error
            found.append((type(error), str(error)))
    return found


def has_key(model: Model) -> bool:
    """Tell whether another model may find the programs of a model."""
    return structure_of(model.module, model.loss_function, model.optimizer) is not None


@contextmanager
def without_captures() -> Iterator[None]:
    """Refuse to capture a function."""
    with mock.patch("sknet.compile._compile.prepared", side_effect=AssertionError("captured again")):
        yield


def captured(structure: Any, function: Any, args: Any, *, stream: Any = None, **options: Any) -> Any:
    """Compile without looking up a cached program."""
    return compile(function, args, **options)


def differs(one: Any, other: Any) -> bool:
    """Tell whether two graphs differ, or two errors."""
    if hasattr(one, "key") and hasattr(other, "key"):
        return one is not other and bool(one.key() != other.key())
    return bool(one != other)


def mismatch(seed: int) -> str | None:
    """Return what is wrong with a pair; None if nothing is."""
    first, second, third = Parts(seed), Parts(seed), Parts(seed)
    rng = np.random.default_rng([20261123, seed])
    change = CHANGES[rng.integers(len(CHANGES))]
    state = rng.bit_generator.state
    text = change(second, rng)
    rng.bit_generator.state = state
    change(third, rng)
    if change is a_factor:
        for parts in (first, second, third):
            parts.layers.insert(0, parts.factory(parts.factor))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            models = [parts.model() for parts in (first, second, third)]
        except Exception:  # the change is invalid
            return None
        outcome(models[0], first)
        found = outcome(models[1], second)
        with mock.patch(USED[0], captured), mock.patch(USED[1], captured):
            expected = outcome(models[2], third)
    if len(found) != len(expected) or any(map(differs, found, expected)):
        return f"case {seed}, {NAMES[seed % len(NAMES)]}, {text}: found {found}, expected {expected}"
    return None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__ or "", 1000))
