"""Single training steps: the implementation of `Model.step`."""

import warnings
from collections import OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet.compile import Compiled
from sknet.core import Tensor, no_grad
from sknet.engine.state import Fingerprint, Gradient, StepResult, each_input, stepping_optimizer
from sknet.engine.step._batch_terms import batch_as_reported, batch_terms
from sknet.engine.step._checks import check_classes_for
from sknet.engine.step._classes import UNKNOWN
from sknet.engine.step._programs import Programs
from sknet.engine.step._update import advance, apply_update, check_finite_step, gradient_into
from sknet.exceptions import CaptureError, GraphError
from sknet.nn.extend import latest

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Stepper", "eager_step", "not_compiled"]

KEPT = 8  # programs, one per shape of batch, each with its own memory


def not_compiled(error: Exception, stacklevel: int) -> None:
    """Warn that steps are eager, and say why."""
    warnings.warn(
        f"the training step is not compiled, which is slower: {error}", UserWarning, stacklevel=stacklevel + 1
    )


def eager_step(
    model: "Model", gradient: Any, delta: Any, X: Any, y: Any, weight: Any, check_finite: bool = True
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
        self._by_shape: OrderedDict[Any, Compiled | None] = OrderedDict()
        self._fingerprint: Fingerprint | None = None

    def step(self, model: "Model", X: Any, y: Any, weight: Any) -> StepResult:
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

    def _program_for(self, model: "Model", X: Any, y: Any, weight: Any) -> Compiled | None:
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
        found = self._by_shape.get(key)
        if found is None:
            if key not in self._by_shape and model.compile == "auto":
                self._keep(key, None)  # compiled only if the shape comes again
                return None
            found = self._captured(model, X, y, weight)
        self._keep(key, found)
        return found

    def _keep(self, key: Any, program: Compiled | None) -> None:
        self._by_shape[key] = program
        self._by_shape.move_to_end(key)
        if len(self._by_shape) > KEPT:
            self._by_shape.popitem(last=False)

    def _captured(self, model: "Model", X: Any, y: Any, weight: Any) -> Compiled | None:
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

    def _is_current(self, model: "Model") -> bool:
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


def _replayed(model: "Model", programs: Programs, program: Compiled, batch: tuple[Any, ...]) -> StepResult:
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
