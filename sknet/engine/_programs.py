"""Steps of a model, eager and captured: programs of gradients and updates, and when they are valid."""

from collections.abc import Callable, Hashable, Mapping
from operator import is_
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sknet import ops
from sknet._config import native_core
from sknet._late import cached_property
from sknet._parallel import Cache
from sknet._params import named_errors
from sknet._warnings import warn_caller
from sknet.compile import Compiled, capture, native
from sknet.compile._compile import compile_cached
from sknet.core import Tensor, attach_aux, gradients, no_grad
from sknet.device import active, backend, device_of, to_device, to_host
from sknet.engine._checks import are_classes, check_classes, check_classes_for, n_outputs_of
from sknet.engine._fingerprint import Fingerprint, structure_of
from sknet.engine._inputs import (
    Batch,
    SparseForm,
    arguments,
    check_output,
    computed_dtype,
    each_input,
    n_rows,
)
from sknet.engine._memory import Gradient, StepResult
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import (
    MIXING,
    Strength,
    advance,
    apply_update,
    as_operands,
    averaging,
    batch_as_reported,
    batch_terms,
    check_finite_step,
    follow_schedules,
    gradient_into,
    is_own,
    joined,
    nested,
    stepping_optimizer,
    update_function,
)
from sknet.exceptions import CaptureError, GraphError
from sknet.nn import Module, Scope, bindings, run
from sknet.nn._initializer import rows_to_see, see_data
from sknet.nn._lazy import copy_for_shapes, shadows, shape_pass
from sknet.nn._module import takes_data
from sknet.nn._parameter import latest
from sknet.optim import Optimizer
from sknet.optim.schedules import Progress


class GradientInputs(NamedTuple):
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
        return Batch(self.X, self.y, self.weight)


class GradientOutputs(NamedTuple):
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
        self.made_of = made_of(model)
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

    def bind(self, model: ModelLike) -> None:
        """Train another model of the same structure with these programs, which have buffers of their own."""
        self._model, self.optimizer = model, model.optimizer.in_steps()
        self.made_of = made_of(model)

    def set_strength(self, program: Compiled) -> None:
        """Let a program for batches use the strength of the model's penalty."""
        strength = program.slots.strength
        if strength is not None:
            with np.errstate(all="ignore"):  # single precision may not hold it
                strength[...] = 0.5 * self._model.alpha / program.returns.divisor

    def unbind(self) -> None:
        """Forget the model, until another one is bound."""
        del self._model, self.optimizer, self.made_of

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
        self._run_update()

    @cached_property
    def _run_update(self) -> Callable[[], object]:
        """The calls of the update, in native code if it knows all of them."""
        update = self.update
        is_native = update.device.kind == "cpu" and native_core() is not None
        step = native.NativeStep.of(update.calls(), None, None, update.nbytes) if is_native else None
        return update.run if step is None else step.run


def made_of(model: ModelLike) -> tuple[Any, ...]:
    """Return the objects besides the network from which a step is made."""
    memory = model.memory
    return memory.flat_to_write(), *memory.slots.values(), *model._hyper, model.precision, memory.stream


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
        mixing = scope.mixing
        data, penalty = batch_terms(model, output, y, weight, values.values(), of_penalty, mixing)
        found = gradients(data if penalty is None else data + penalty, list(values.values()))
        data, penalty = batch_as_reported(model, output, y, weight, data, penalty, mixing)
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


@named_errors
def compiled_step(model: ModelLike, X: Any, y: Any, weight: Any = None) -> CompiledStep:
    """Return the training step of a model for batches like this one, without running it.

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


def show_batch(model: ModelLike, X: Any) -> None:
    """Show a batch to the layers of a model that wait for data, if there are any."""
    # Layers are searched only once, and again after the structure has changed.
    if model.memory.shown is not latest.structure:
        show_rows(model, n_rows(X), lambda chosen: X if chosen is None else _taken(X, chosen))


def show_rows(model: ModelLike, n_rows: int, take: Callable[[Any], Any]) -> None:
    """Show some rows of a data set to the layers of a model that wait for data, if there are any."""
    memory = model.memory
    mark, layers = memory.take_data
    if mark is not latest.structure:
        mark, layers = latest.structure, [each for each in memory.module.modules() if takes_data(each)]
        memory.take_data = mark, layers
    if any(layer.awaits_data for layer in layers):
        with active(memory.device):
            source = model.random_state
            before = source.get_state(legacy=False)
            try:
                chosen = rows_to_see(memory.module, n_rows, source)
                see_data(memory.module, arguments(take(chosen)), source)
            except Exception:
                source.set_state(before)
                raise
        memory.note_written("data that layers begin with")
    memory.shown = latest.structure


def _taken(X: Any, chosen: Any) -> Any:
    return each_input(lambda x: x[chosen], X)


def forward(model: ModelLike, X: Any, training: bool) -> Tensor:
    """Return the raw output of a model's module, recorded on the tape, together with changed buffers."""
    memory = model.materialize(X).memory
    module, X = memory.module, as_operands(model, X, training)
    if training:
        show_batch(model, X)
        follow_schedules(model)
    scope = Scope({} if training else _averages(model), training, memory.key, model.progress.step)
    output: Tensor = check_output(module, run(module, scope, arguments(X)))
    mixed = {} if scope.mixing is None else {MIXING: scope.mixing}
    if (scope.updates or mixed) and output.requires_grad:
        return attach_aux(output, _named_updates(module, scope) | mixed)
    return output


def evaluate(model: ModelLike, X: Any, by: Any) -> Any:
    """Return the result of a function of a model's module in evaluation mode, such as a layer's output."""
    module = model.materialize(X).memory.module
    if model.device.kind == "cpu":
        return by(module, Scope(_averages(model), False), arguments(as_operands(model, X)))
    with active(model.device, model.precision):
        return by(module, Scope(_averages(model), False), arguments(as_operands(model, X)))


def _averages(model: ModelLike) -> dict[Any, Tensor]:
    """Return the averages that replace the module's parameters in predictions, if there are any."""
    if averaging(model) is None:
        return {}
    places = bindings(model.module)
    return {places[name]: Tensor(view) for name, view in model.evaluation_parameters.items()}


def _named_updates(module: Module, scope: Scope) -> dict[str, Any]:
    slots: dict[Hashable, str] = {
        (id(part), name): f"{path}.{name}" if path else name
        for path, part in module.named_modules()
        for name in part._buffers
    }
    return {slots[binding]: value.data for binding, value in scope.updates.items()}


UNKNOWN = 0  # outputs, of networks of which not even one row can be computed


def check_classes_of(model: ModelLike, X: Any, y: Any, name: str = "y") -> None:
    """Raise a ValueError if a target is not among the classes that the network has outputs for."""
    memory = model.memory
    if not are_classes(model.loss_function, y):
        return
    if memory.n_outputs is None:
        memory.n_outputs = _n_outputs(model, X)
    y = to_host(y)
    try:
        model.loss_function.check_target(y, name=name, n_outputs=memory.n_outputs or None)
    except ValueError:
        memory.n_outputs = _n_outputs(model, X)  # the network may have changed since
        check_classes(model.loss_function, model.module, y, memory.n_outputs, name)


def _n_outputs(model: ModelLike, X: Any) -> int:
    """Return the number of outputs for a target, from a pass without data if possible."""
    row = each_input(lambda x: shadows((1, *x.shape[1:]), computed_dtype(x, model.dtype)), X)
    passes: list[Callable[[], Any]] = [
        lambda: shape_pass(copy_for_shapes(model.module), arguments(row)),
        lambda: on_one_row(model, X)(run),  # its code depends on values
    ]
    for compute in passes:
        try:
            output = compute()
        except Exception:  # what is wrong the first step says better
            continue
        return n_outputs_of(output) if isinstance(output, Tensor) else UNKNOWN
    return UNKNOWN


def on_one_row(model: ModelLike, X: Any) -> Callable[[Any], Any]:
    """Return a function that runs a pass of a model on the first row, in evaluation mode."""

    def compute(by: Any) -> Any:
        row = each_input(one_row, X)
        with active(model.device, model.precision), no_grad(), np.errstate(all="ignore"):
            return evaluate(model, row, by)

    def one_row(x: Any) -> Any:
        with active(device_of(x)):
            return to_device(x[:1].astype(computed_dtype(x, model.dtype)), model.device)

    return compute


MOST_SHAPES = 8  # of batches, each with a program with its own memory


def not_compiled(error: Exception) -> None:
    warn_caller(f"the training step is not compiled, which is slower: {error}", UserWarning)


def eager_step(
    model: ModelLike, gradient: Any, delta: Any, X: Any, y: Any, weight: Any, check_finite: bool = True
) -> StepResult:
    """Train a model on one batch in place, with eager operations."""
    optimizer = stepping_optimizer(model)
    flat, slots = model.memory.flat_buffers()
    output = model(X)
    if model.memory.n_outputs == UNKNOWN:
        check_classes_for(model.loss_function, model.module, output, y)
    data, penalty = batch_terms(model, output, y, weight)
    found = gradient_into(model.memory, gradient, data if penalty is None else data + penalty)
    with no_grad():
        data, penalty = batch_as_reported(model, output, y, weight, data, penalty)
    data_loss, penalty_value = data.item(), 0.0 if penalty is None else penalty.item()
    if check_finite:
        check_finite_step(data_loss + penalty_value, found, optimizer.squares)
    apply_update(optimizer, model.memory.layout, model.progress, gradient, flat, slots, delta)
    flat += delta
    advance(model, found.buffers)
    update = MappingProxyType(model.memory.layout.views(delta))
    return StepResult(data_loss + penalty_value, found, update, output.detach(), data_loss, penalty_value)


class Stepper:
    """Steps of one model: eager for a new shape of batch, compiled when the shape comes again."""

    def __init__(self) -> None:
        self._given_up: object = None  # the mark of the hooks when a capture failed
        self.forget()

    def forget(self) -> None:
        """Discard all programs, after a change that they could not notice."""
        self._programs: Programs | None = None
        self._by_shape = Cache(MOST_SHAPES)
        self._fingerprint: Fingerprint | None = None

    def step(self, model: ModelLike, X: Any, y: Any, weight: Any) -> StepResult:
        """Train on one checked batch of tensors."""
        stepping_optimizer(model)
        program = self._program_for(model, X, y, weight)
        with np.errstate(all="ignore"):  # non-finite numbers raise an error; warnings before it are noise
            if program is None:
                return eager_step(model, *model.memory.workspace(), X, y, weight)
            assert self._programs is not None
            try:
                return _replayed(model, self._programs, program, (X, y, weight))
            except IndexError:  # the eager step raises it too, and says where
                return eager_step(model, *model.memory.workspace(), X, y, weight)

    def _program_for(self, model: ModelLike, X: Any, y: Any, weight: Any) -> Compiled | None:
        inputs = list(X.values()) if isinstance(X, dict) else [X]
        if not model.compile or model.device.kind != "cpu" or any(map(_is_traced, inputs)):
            return None
        if self._given_up is latest.hooks:
            return None
        if self._programs is not None and not self._is_current(model):
            self.forget()
        names = tuple(X) if isinstance(X, dict) else ()
        arrays = (*inputs, y, weight)
        key = names, *[None if x is None else (ops.is_sparse(x), x.shape, x.dtype) for x in arrays]
        found: Compiled | bool | None = self._by_shape.get(key, False)
        if found is False and model.compile == "auto":
            self._by_shape.put(key, None)  # compiled only if the shape comes again
            return None
        if not isinstance(found, Compiled):
            found = self._captured(model, X, y, weight)
            self._by_shape.put(key, found)
        return found

    def _captured(self, model: ModelLike, X: Any, y: Any, weight: Any) -> Compiled | None:
        try:
            if self._programs is None:
                self._programs = Programs(model, exact=True, keep_delta=True)
            data = each_input(lambda x: x if ops.is_sparse(x) else x.data, X)
            program = self._programs.gradient_of(data, y.data, None if weight is None else weight.data)
        except (CaptureError, GraphError) as error:
            if model.compile is True:
                raise
            not_compiled(error)
            self._given_up = latest.hooks
            return None
        self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)
        return program

    def __reduce__(self) -> Any:
        return Stepper, ()  # programs are bound to the memory of one model

    def _is_current(self, model: ModelLike) -> bool:
        """Tell whether the programs still compute the model's step."""
        assert self._programs is not None
        fingerprint = self._fingerprint
        return fingerprint is not None and is_made_of(model, self._programs.made_of) and fingerprint.holds()


def _is_traced(x: Any) -> bool:
    return not ops.is_sparse(x) and x.requires_grad


def _fill(slot: Any, x: Any) -> None:
    if isinstance(slot, ops.SparseSlot):
        slot.matrix = x
    elif slot is not None:
        slot[...] = x.data


def _replayed(model: ModelLike, programs: Programs, program: Compiled, batch: tuple[Any, ...]) -> StepResult:
    for slot, x in zip(program.slots.batch, batch, strict=True):
        each_input(_fill, slot, x)
    changed, output, loss, penalty = programs.compute(program)
    buffers = {name: array.copy() for name, array in changed.items()}
    gradient = Gradient(model.memory.layout, programs.gradient.copy(), buffers)
    check_finite_step(loss + penalty, gradient, programs.optimizer.squares)
    programs.apply(tuple(programs.optimizer.hyper(model.progress.step + 1, model.progress).values()))
    assert programs.delta is not None
    update = MappingProxyType(model.memory.layout.views(programs.delta.copy()))
    advance(model, buffers)
    return StepResult(loss + penalty, gradient, update, Tensor(output.copy()), loss, penalty)
