"""Captured training steps: the pure functions behind them, their arguments and results."""

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sknet import ops
from sknet._attributes import cached_property
from sknet.compile import Compiled, capture
from sknet.compile._compile import compile_cached
from sknet.core import Tensor, gradients
from sknet.device import backend, device_of
from sknet.engine._checks import check_output
from sknet.engine._fingerprint import structure_of
from sknet.engine._inputs import Batch, SparseForm, arguments, each_input
from sknet.engine._model_type import ModelLike
from sknet.engine._objective import Strength, batch_as_reported, batch_terms
from sknet.engine._optimizer import follow_schedules, is_own, joined, nested, update_function
from sknet.exceptions import CaptureError, GraphError
from sknet.nn import Scope, bindings, run
from sknet.optim import Optimizer
from sknet.optim.schedules import Progress

__all__ = [
    "CompiledStep",
    "DeviceInputs",
    "DeviceOutputs",
    "GradientInputs",
    "GradientOutputs",
    "Programs",
    "check_repeatable",
    "compiled_step",
    "gradient_function",
    "hyper_slots",
    "is_made_of",
    "made_of",
]


class GradientInputs(NamedTuple):
    """The inputs of a gradient: arrays, or the slots for them."""

    flat: Any
    gradient: Any
    untrained: Mapping[str, Any]
    X: Any
    y: Any
    weight: Any
    counter: Any
    strength: Any = None

    @property
    def batch(self) -> Batch:
        """The batch."""
        return Batch(self.X, self.y, self.weight)


class GradientOutputs(NamedTuple):
    """The outputs of a gradient."""

    gradient: Any
    changed: Mapping[str, Any]
    output: Any
    data: Any
    penalty: Any
    divisor: int = 1


class DeviceInputs(NamedTuple):
    """The inputs of a whole step on a device: all state, and a batch."""

    flat: Any
    slots: Mapping[str, Any]
    untrained: Mapping[str, Any]
    counter: Any
    is_fine: Any
    hyper: Mapping[str, Any]
    X: Any = None
    y: Any = None
    weight: Any = None


class DeviceOutputs(NamedTuple):
    """The outputs of a whole step on a device: the new state, raw outputs and a report."""

    flat: Any
    slots: Mapping[str, Any]
    untrained: Mapping[str, Any]
    counter: Any
    is_fine: Any
    output: Any
    report: Any


class Programs:
    """The step of a model as programs on the model's own memory, so that it is trained in place."""

    def __init__(
        self, model: ModelLike, exact: bool = False, keep_delta: bool = False, buffers: Any = None
    ) -> None:
        optimizer = model.optimizer.in_steps()
        self._model, self.optimizer, self._exact = model, optimizer, exact
        self.flat, slots = model.memory.flat_buffers() if buffers is None else buffers
        self._made_of = made_of(model)
        self.gradient = np.zeros_like(self.flat)
        self._numbers, hyper = hyper_slots(optimizer, model.progress, self.flat)
        args = (self.flat, slots, self.gradient, hyper)
        function = update_function(optimizer, model.memory.layout, keep_delta)
        shapes = tuple(model.memory.layout.shapes.items())
        known = structure_of(None, optimizer)
        structure = None if known is None else ("update", known, shapes, keep_delta)
        self.update = compile_cached(structure, function, args, donate=(0, 1), exact=exact, slots=args)

    @property
    def numbers(self) -> Any:
        """Array from which the update reads the numbers of the step: ndarray of shape (n_numbers,)."""
        return self._numbers

    @property
    def delta(self) -> Any:
        """The last change of the parameters: ndarray of shape (layout.size,), or None."""
        return self.update.result.delta

    def are_of(self, model: ModelLike) -> bool:
        """Tell whether the programs train the model's current memory, with its current hyperparameters."""
        return is_made_of(model, self._made_of)

    def bind(self, model: ModelLike) -> None:
        """Train another model of the same structure with these programs, which have buffers of their own."""
        self._model, self.optimizer = model, model.optimizer.in_steps()
        self._made_of = made_of(model)

    def set_strength(self, program: Compiled) -> None:
        """Let a program for batches use the strength of the model's penalty."""
        strength = program.slots.strength
        if strength is not None:
            with np.errstate(all="ignore"):  # single precision may not hold it
                strength[...] = 0.5 * self._model.alpha / program.returns.divisor

    def unbind(self) -> None:
        """Forget the model, until another one is bound."""
        del self._model, self.optimizer, self._made_of

    def gradient_of(self, X: Any, y: Any, weight: Any) -> Compiled:
        """Return a program for batches like this one."""
        model = self._model
        function = gradient_function(model, weighted=weight is not None)
        X = each_input(_slot_if_sparse, X)
        untrained = model.memory.untrained
        strength = np.zeros((), self.flat.dtype) if model.alpha else None
        counter = np.zeros((), np.int64)
        args = GradientInputs(self.flat, self.gradient, untrained, X, y, weight, counter, strength)
        known = structure_of(model.module, model.loss_function)
        structure = None if known is None else ("gradient", known, tuple(model.memory.layout.shapes))
        if structure is None:
            check_repeatable(model, function, args)
        # Frozen parameters are read in place; buffers are replaced in each step, and copied.
        frozen = {name: array for name, array in untrained.items() if name not in model.buffers}
        slots = GradientInputs(self.flat, self.gradient, frozen, None, None, None, None)
        stream = model.memory.key
        found = compile_cached(
            structure, function, args, stream=stream, donate=(1,), exact=self._exact, slots=slots
        )
        self.set_strength(found)
        return found

    def compute(self, program: Compiled) -> tuple[Mapping[str, Any], Any, float, float]:
        """Run a program on the batch in its slots."""
        model = self._model
        inputs: GradientInputs = program.slots
        inputs.counter[...] = model.progress.step
        if inputs.untrained:
            follow_schedules(model)
            for name, array in model.buffers.items():
                inputs.untrained[name][...] = array
        program.run()
        found: GradientOutputs = program.result
        return found.changed, found.output, found.data.item(), found.penalty.item()

    def apply(self, numbers: Any) -> None:
        """Run the optimizer's update with `gradient`, and `numbers` in the order of its `hyper`."""
        self._numbers[...] = numbers
        self.update.run()


def made_of(model: ModelLike) -> tuple[Any, ...]:
    """Return the objects that a step is made of, besides the network."""
    flat, slots = model.memory.flat_buffers()
    return flat, *slots.values(), *model._hyper, model.precision, model.memory.key


def is_made_of(model: ModelLike, parts: tuple[Any, ...]) -> bool:
    """Tell whether these are still the objects that a model's step is made of."""
    now = made_of(model)
    return len(now) == len(parts) and all(map(is_, now, parts))


def hyper_slots(optimizer: Optimizer, progress: Progress, like: Any) -> tuple[Any, dict[str, Any]]:
    """Return an array for the scalars of an update, on the device of `like`, and views of each by name."""
    names, device = list(optimizer.hyper(1, progress)), device_of(like)
    numbers = backend(device.kind).zeros((len(names),), like.dtype, device)
    return numbers, {name: numbers[i : i + 1].reshape(()) for i, name in enumerate(names)}


def check_repeatable(model: ModelLike, function: Any, args: tuple[Any, ...]) -> None:
    """Raise a CaptureError for a user's code that does different operations when run twice."""
    parts = (*model.module.modules(), *nested(model.loss_function), *nested(model.optimizer))
    if not all(map(is_own, parts)) and capture(function, *args).key() != capture(function, *args).key():
        raise CaptureError(
            "the step did different operations when run twice, so it cannot be compiled: its code counts, "
            "or draws random numbers, in Python. Keep counts in buffers, draw with sknet.nn.Dropout or from "
            "the inputs, or set compile=False"
        )


def gradient_function(model: ModelLike, weighted: bool) -> Callable[..., GradientOutputs]:
    """Return the pure function from parameters and a batch to gradient, buffers, output and loss."""
    layout, places = model.memory.layout, bindings(model.module)

    def evaluate(
        flat: Tensor,
        gradient: Tensor,
        untrained: Mapping[str, Tensor],
        X: Tensor,
        y: Tensor,
        weight: Tensor | None,
        counter: Tensor,
        strength: Tensor | None = None,
        key: Any = None,
    ) -> GradientOutputs:
        values = layout.views(flat.detach())
        for value in values.values():
            value.requires_grad = True
        bound = {places[name]: value for name, value in (*values.items(), *untrained.items())}
        scope = Scope(bound, True, model.memory.key if key is None else key, counter)
        output = check_output(model.module, run(model.module, scope, arguments(X)))
        of_penalty = Strength(model.alpha, strength)
        data, penalty = batch_terms(model, output, y, weight, values.values(), of_penalty)
        found = gradients(data if penalty is None else data + penalty, list(values.values()))
        data, penalty = batch_as_reported(model, output, y, weight, data, penalty)
        changed = {name: scope.updates[places[name]] for name in untrained if places[name] in scope.updates}
        penalty = ops.zeros_like(data) if penalty is None else penalty
        flat_gradient = joined(layout, dict(zip(values, found, strict=True)), flat)
        return GradientOutputs(flat_gradient, changed, output, data, penalty, of_penalty.divisor)

    return evaluate


def _slot_if_sparse(x: Any) -> Any:
    return ops.SparseSlot(x.shape, x.dtype) if ops.is_sparse(x) or isinstance(x, SparseForm) else x


class CompiledStep:
    """The programs of a training step, which are captured on first access.

    Parameters
    ----------
    model : Model
        A model on the host, with a stochastic optimizer.
    X, y, weight : array, array, array or None
        Arrays with the shapes and dtypes of a batch.

    Notes
    -----
    If the step cannot be captured, its attributes raise an AttributeError that says why.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.engine import compiled_step
    >>> step = compiled_step(Model(nn.Linear(3, 1)), np.ones((5, 3), "f4"), np.ones((5, 1), "f4"))
    >>> step
    CompiledStep(X: float32[5,3], y: float32[5,1]; print its source)
    >>> print(step.source.splitlines()[1])
    # slots: v0: float32[32], v1: float32[32], v2: float32[5,3], v3: float32[5,1], v4: int64[]
    """

    def __init__(self, model: ModelLike, X: Any, y: Any, weight: Any = None) -> None:
        self._model, self._batch = model, (X, y, weight)

    def captured(self) -> tuple[Compiled, Compiled]:
        """Return the programs of gradient and update.

        Raises
        ------
        CaptureError
            If the step cannot be captured.
        """
        return self._captured

    @cached_property
    def _captured(self) -> tuple[Compiled, Compiled]:
        programs = Programs(self._model)
        return programs.gradient_of(*self._batch), programs.update

    def _shown(self) -> tuple[Compiled, Compiled]:
        try:
            return self._captured
        except (CaptureError, GraphError) as error:
            raise AttributeError(f"this step is not compiled: {error}") from error

    @property
    def gradient(self) -> Compiled:
        """Computes the gradient from parameters and a batch; see its ``graph``, ``plan`` and ``source``."""
        return self._shown()[0]

    @property
    def update(self) -> Compiled:
        """Computes new parameters and state from gradient and optimizer state."""
        return self._shown()[1]

    @property
    def source(self) -> str:
        """The Python source of both programs."""
        return f"# -- gradient of a batch\n{self.gradient.source}\n# -- update\n{self.update.source}"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a compiled step is bound to memory of this process and cannot be pickled or copied: pickle the "
            "model, and get its step again"
        )

    def __repr__(self) -> str:
        X, y, weight = self._batch
        named = {**({f"X[{name!r}]": x for name, x in X.items()} if isinstance(X, dict) else {"X": X})}
        batch = [
            f"{name}: {x.dtype}[{','.join(map(str, x.shape))}]"
            for name, x in {**named, "y": y, "weight": weight}.items()
            if x is not None
        ]
        return f"CompiledStep({', '.join(batch)}; print its source)"


def compiled_step(model: ModelLike, X: Any, y: Any, weight: Any = None) -> CompiledStep:
    """Return the training step of a model for batches like this one; nothing is run.

    Parameters
    ----------
    model : Model
        A model on the host, with a stochastic optimizer.
    X, y, weight : array, array, array or None
        Arrays with the shapes and dtypes of a batch.

    Returns
    -------
    CompiledStep
        The step.

    Raises
    ------
    CaptureError
        If the step cannot be captured.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.engine import compiled_step
    >>> model = Model(nn.Linear(2, 1), loss="squared_error", random_state=0)
    >>> compiled_step(model, np.ones((4, 2)), np.zeros((4, 1)))
    CompiledStep(X: float64[4,2], y: float64[4,1]; print its source)
    """
    step = CompiledStep(model, X, y, weight)
    step.captured()
    return step
