"""A training step as the engine writes it, and its eager twin; primitives of one's own."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sknet import nn
from sknet.core import PRIMITIVES, Primitive, gradients
from sknet.engine._memory import Layout
from sknet.losses import Loss
from sknet.optim import Optimizer
from sknet.optim.schedules import Progress


@contextmanager
def named(name: str) -> Iterator[Primitive]:
    """Have a primitive of this name, which multiplies by a number, until the block ends."""
    primitive = Primitive(name).define(
        forward=_multiplied,
        shape=lambda x, factor=3.0: (x.shape, x.dtype),
        vjp=None,
        writes_out=False,
    )
    try:
        yield primitive
    finally:
        del PRIMITIVES[name]


def _multiplied(xp: Any, x: Any, *, factor: float = 3.0) -> Any:
    number = x.dtype.type(factor)
    return xp.multiply(x, number)


def network(*sizes: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return a multi-layer perceptron of these widths."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


def training_step(module: nn.Module, loss: Loss, optimizer: Optimizer, layout: Layout) -> Callable[..., Any]:
    """Return the pure step on flat buffers: new parameters, new slots, and the loss before."""

    def step(flat: Any, slots: Any, X: Any, y: Any, weight: Any, hyper: Any) -> Any:
        flat.requires_grad = True
        values = {name: flat[part].reshape(layout.shapes[name]) for name, part in layout.slices.items()}
        output, _ = nn.functional_call(module, values, X)
        per_sample = loss.values(output, y)
        mean = (per_sample * weight).sum() / weight.sum()
        [gradient] = gradients(mean, [flat])
        delta, slots = optimizer.rule(gradient, flat.detach(), slots, hyper)
        return flat.detach() + delta, slots, mean

    return step


def hyper_arrays(optimizer: Optimizer, count: int, dtype: Any) -> dict[str, np.ndarray]:
    """Return what changes from update to update as arrays of shape ()."""
    found = optimizer.hyper(count, Progress(step=count - 1))
    return {name: np.array(value, dtype) for name, value in found.items()}


class Batches:
    """Arguments of a training step, and batches to continue with."""

    def __init__(
        self, module: nn.Module, optimizer: Optimizer, shape: tuple[int, int], classes: int, dtype: Any
    ) -> None:
        module.to(dtype=dtype)
        module.initialize(0)
        parameters = {name: p.data for name, p in module.named_parameters()}
        self.layout = Layout({name: p.shape for name, p in parameters.items()})
        self.flat = np.zeros(self.layout.size, dtype)
        self.layout.fill(self.flat, parameters)
        self.slots = tuple(np.zeros_like(self.flat) for _ in optimizer.slots)
        self.dtype, self._shape, self._classes = dtype, shape, classes
        self._rng = np.random.default_rng(0)

    def batch(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw X, y and weights; without classes, y is a number for each sample."""
        rng, n = self._rng, self._shape[0]
        X = rng.standard_normal(self._shape).astype(self.dtype)
        y = rng.integers(0, self._classes, n) if self._classes else rng.standard_normal(n).astype(self.dtype)
        return X, y, rng.uniform(0.5, 1.5, n).astype(self.dtype)
