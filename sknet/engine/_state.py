"""The values of a model's state: flat layouts, gradients, weights, states, and the results of steps."""

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Tensor
from sknet.device import to_host
from sknet.exceptions import StateError
from sknet.optim import OptimizerState
from sknet.optim.schedules import Progress

__all__ = [
    "Arrays",
    "Epoch",
    "Gradient",
    "Layout",
    "ModelState",
    "StepResult",
    "Weights",
    "check_state",
    "copied_random_state",
    "frozen",
    "shapes",
    "thawed",
]


MOST = 6  # arrays that are listed


def shapes(arrays: Mapping[str, Any]) -> str:
    """Return the names and shapes of arrays as text, the first few of many."""
    named = [f"{name!r}: {tuple(array.shape)}" for name, array in list(arrays.items())[:MOST]]
    left_out = len(arrays) - len(named)
    return "{" + ", ".join(named + [f"... {left_out} more"] * (left_out > 0)) + "}"


ALIGNMENT = 16  # elements: every parameter starts on a new cache line, also in float32


class Layout:
    """The offset of every parameter in a flat buffer."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = dict(shapes)
        self.slices: dict[str, slice] = {}
        start = 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            self.slices[name] = slice(start, stop)
            start = -(-stop // ALIGNMENT) * ALIGNMENT
        self.size = start

    def views(self, flat: Any) -> dict[str, Any]:
        """Return views of `flat` for every parameter, in its shape."""
        return {name: _shaped(flat[part], self.shapes[name]) for name, part in self.slices.items()}

    def fill(self, flat: Any, values: Mapping[str, Any]) -> None:
        """Copy arrays by name to their offsets in `flat`."""
        self.check(values)
        for name, part in self.slices.items():
            flat[part] = values[name].reshape(-1)

    def check(self, values: Mapping[str, Any]) -> None:
        """Raise a StateError unless `values` has exactly the parameters, in their shapes."""
        if set(values) != set(self.shapes):
            raise StateError(f"expected arrays for exactly {sorted(self.shapes)}, got {sorted(values)}")
        for name, shape in self.shapes.items():
            if tuple(values[name].shape) != shape:
                raise StateError(f"{name!r} must have shape {shape}, got {tuple(values[name].shape)}")


def _shaped(part: Any, shape: tuple[int, ...]) -> Any:
    return part if len(shape) == 1 else part.reshape(shape)


class Arrays(Mapping[str, Any]):
    """An array for every parameter, by name, all in one flat buffer."""

    def __init__(self, layout: Layout, flat: Any) -> None:
        self.layout = layout
        self.flat = flat
        self._views = layout.views(flat)

    def __getitem__(self, name: str) -> Any:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shapes(self._views)})"


class Gradient(Arrays):
    """The gradient of a loss: an array for every parameter, by name, all in one flat buffer.

    Parameters
    ----------
    layout : Layout
        Offsets of the arrays.
    flat : array of shape (layout.size,)
        The buffer.
    buffers : mapping of str to array
        New values of the modules' buffers (running means, ...) if this gradient is applied.

    Examples
    --------
    >>> import numpy as np
    >>> gradient = Gradient(Layout({"weight": (2,)}), np.arange(16.0), {})
    >>> gradient["weight"]
    array([0., 1.])
    """

    def __init__(self, layout: Layout, flat: Any, buffers: Mapping[str, Any]) -> None:
        super().__init__(layout, flat)
        self.buffers = dict(buffers)


class ModelState(NamedTuple):
    """Everything that a training step changes, as immutable values.

    Attributes
    ----------
    parameters : mapping of str to array
        Read-only arrays.
    optimizer : OptimizerState
        Update count, and flat arrays by slot name.
    buffers : mapping of str to array
        Read-only arrays.
    progress : Progress
        Steps, epochs and samples so far.

    Examples
    --------
    >>> from sknet import Model, nn
    >>> state = Model(nn.Linear(2, 1), loss="squared_error", random_state=0).state
    >>> sorted(state.parameters), state.progress.step
    (['bias', 'weight'], 0)
    """

    parameters: Mapping[str, Any]
    optimizer: OptimizerState
    buffers: Mapping[str, Any]
    progress: Progress

    def __reduce__(self) -> tuple[Any, ...]:
        optimizer = OptimizerState(self.optimizer.count, _on_host(self.optimizer.slots))
        return _rebuilt, (_on_host(self.parameters), optimizer, _on_host(self.buffers), self.progress)

    def __repr__(self) -> str:
        slots = ", ".join(self.optimizer.slots)
        parts = f"parameters={shapes(self.parameters)}, buffers={shapes(self.buffers)}"
        return f"ModelState({parts}, optimizer=<slots {slots}>, {self.progress})"


def _on_host(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: to_host(array) for name, array in arrays.items()}


def _rebuilt(
    parameters: dict[str, Any], optimizer: OptimizerState, buffers: dict[str, Any], progress: Progress
) -> ModelState:
    """Return an unpickled state, with mappings and arrays made read-only again."""
    for array in (*parameters.values(), *optimizer.slots.values(), *buffers.values()):
        frozen(array)
    return ModelState(MappingProxyType(parameters), optimizer, MappingProxyType(buffers), progress)


def check_state(
    state: ModelState, layout: Layout, slots: Mapping[str, Any], buffers: Mapping[str, Any]
) -> None:
    """Raise a StateError unless a state has the same names and shapes as a model."""
    layout.check(state.parameters)
    if set(state.optimizer.slots) != set(slots):
        raise StateError(
            f"the state was made by an optimizer with the slots {sorted(state.optimizer.slots)}, this one "
            f"keeps {sorted(slots)}: states can be loaded only by models with the same class of optimizer"
        )
    for kind, mine, theirs in (("slot", slots, state.optimizer.slots), ("buffer", buffers, state.buffers)):
        if set(mine) != set(theirs):
            raise StateError(f"expected {kind}s for exactly {sorted(mine)}, got {sorted(theirs)}")
        for name, array in mine.items():
            if tuple(theirs[name].shape) != tuple(array.shape):
                raise StateError(
                    f"{kind} {name!r} must have shape {tuple(array.shape)}, got {tuple(theirs[name].shape)}"
                )


class Weights(NamedTuple):
    """All that a model's predictions depend on."""

    flat: Any
    buffers: Mapping[str, Any]
    slots: Mapping[str, Any]
    layout: Layout | None = None
    frozen: Mapping[str, Any] = {}

    def trained_by(self, names: Iterable[str], thawed: Mapping[str, Any]) -> "Weights":
        """Return weights for another set of trained parameters of the same network."""
        mine = {} if self.layout is None else self.layout.views(self.flat)
        known = {**self.frozen, **mine}
        layout = Layout({name: tuple(known[name].shape) for name in names})
        others = {name: array for name, array in known.items() if name not in layout.shapes}
        return self._replace(layout=layout, frozen={**others, **thawed})


class StepResult(NamedTuple):
    """The result of one training step.

    Attributes
    ----------
    loss : float
        The objective before the update: mean loss of the batch plus penalty.
    gradient : Gradient
        Gradient of the objective, an array for every parameter name.
    update : mapping of str to array
        The change of every parameter.
    output : Tensor of shape (n_samples, n_outputs)
        The module's raw output before the update.
    data_loss, penalty : float
        The two terms of `loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), loss="squared_error", random_state=0)
    >>> result = model.step(np.ones((4, 2)), np.zeros((4, 1)))
    >>> result.loss == result.data_loss + result.penalty
    True
    """

    loss: float
    gradient: Gradient
    update: Mapping[str, Any]
    output: Tensor
    data_loss: float
    penalty: float

    def __reduce__(self) -> tuple[Any, ...]:
        return StepResult, (self.loss, self.gradient, dict(self.update), *self[3:])

    def __repr__(self) -> str:
        parts = f"gradient={self.gradient!r}, update={shapes(self.update)}"
        output = f"output=<{tuple(self.output.shape)} {self.output.dtype}>"
        terms = f"data_loss={self.data_loss:.6g}, penalty={self.penalty:.6g}"
        return f"StepResult(loss={self.loss:.6g}, {parts}, {output}, {terms})"


def copied_random_state(random_state: np.random.RandomState) -> np.random.RandomState:
    """Return an independent random state that draws the same numbers."""
    copy = np.random.RandomState()
    copy.set_state(random_state.get_state())
    return copy


def is_seeded(random_state: np.random.RandomState, seed: int) -> bool:
    """Tell whether a random state draws the numbers that a seed stands for, from the first."""
    (name, *found), (other, *fresh) = random_state.get_state(), np.random.RandomState(seed).get_state()
    return name == other and all(map(np.array_equal, found, fresh))


def frozen(array: Any) -> Any:
    """Make an array read-only, if its device supports that."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array


def thawed(array: Any) -> bool:
    """Make an array that was `frozen` writeable again; return whether that was possible."""
    if isinstance(array, np.ndarray):
        try:
            array.flags.writeable = True
        except ValueError:  # it does not own its memory, such as a read-only memory map
            return False
    return array is not None


class Epoch(NamedTuple):
    """The progress since the end of the last epoch."""

    began: int = 0
    rows: int = 0

    def seen(self, n_rows: int) -> "Epoch":
        """Return the epoch after a step on `n_rows` rows."""
        return Epoch(self.began, self.rows + n_rows)

    def check_length(self, progress: Progress, n_steps: int | None) -> None:
        """Raise a StateError unless `n_steps` steps have been made in this epoch; None allows any number."""
        done = progress.step - self.began
        if n_steps is not None and done != n_steps:
            raise StateError(f"this epoch is not counted: it should have {n_steps} steps, but has {done}")

    def ended(self, progress: Progress, plateau: bool = False) -> Progress:
        """Return the progress after this epoch, which counts if a step was made in it."""
        if progress.step != self.began:
            progress = progress.epoch_ended(self.rows)
        return progress._replace(counts_epochs=True, reductions=progress.reductions + bool(plateau))
