"""One training step: eager or compiled, in place or in functional pieces."""

import warnings
from collections.abc import Callable, Hashable
from types import MappingProxyType
from typing import Any

import numpy as np

from sknet import ops
from sknet._parallel import Cache
from sknet.compile import Compiled
from sknet.core import Tensor, attach_aux, no_grad
from sknet.device import active, device_of, to_device, to_host
from sknet.engine._checks import (
    are_classes,
    check_classes,
    check_classes_for,
    check_output,
    n_outputs_of,
)
from sknet.engine._fingerprint import Fingerprint
from sknet.engine._inputs import arguments, computed_dtype, each_input, n_rows
from sknet.engine._model_type import ModelLike
from sknet.engine._objective import as_operands, batch_as_reported, batch_terms
from sknet.engine._optimizer import (
    advance,
    apply_update,
    averaging,
    check_finite_step,
    follow_schedules,
    gradient_into,
    stepping_optimizer,
)
from sknet.engine._programs import Programs
from sknet.engine._state import Gradient, StepResult
from sknet.exceptions import CaptureError, GraphError
from sknet.nn import Module, Scope, bindings, run
from sknet.nn._initializer import rows_to_see, see_data, takes_data
from sknet.nn._parameter import latest
from sknet.nn._shape_pass import copy_for_shapes, shadows, shape_pass

__all__ = [
    "UNKNOWN",
    "Stepper",
    "check_classes_of",
    "eager_step",
    "evaluate",
    "forward",
    "not_compiled",
    "on_one_row",
    "show_batch",
    "show_rows",
]


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
    if scope.updates and output.requires_grad:
        return attach_aux(output, _named_updates(module, scope))
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


def not_compiled(error: Exception, stacklevel: int) -> None:
    """Warn that steps are eager, and say why."""
    warnings.warn(
        f"the training step is not compiled, which is slower: {error}", UserWarning, stacklevel=stacklevel + 1
    )


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
            not_compiled(error, stacklevel=6)
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
        return fingerprint is not None and self._programs.are_of(model) and fingerprint.holds()


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
