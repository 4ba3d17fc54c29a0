"""The step in pure pieces: the forward pass, loss, gradient, and the new state.

`loss`, `backward` and `update` are methods of `Model`.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core import Tensor, carry, is_capturing, note_write, release
from sknet.device import active, is_array, on_device, to_device
from sknet.engine.state import Gradient, ModelState, arguments, averaging, stepping_optimizer
from sknet.engine.step._batch_terms import as_operands, batch_terms, checked_targets
from sknet.engine.step._checks import (
    check_classes_for,
    check_output,
    check_reached,
    recorded,
    warn_of_probabilities,
)
from sknet.engine.step._first_data import show_batch
from sknet.engine.step._scheduled import follow_schedules
from sknet.engine.step._update import apply_update, gradient_into
from sknet.nn import Module, Scope, bindings, run

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["backward", "evaluate", "forward", "loss", "update"]


def forward(model: "Model", X: Any, training: bool) -> Tensor:
    """Return the raw output of a model's module, recorded on the tape, together with changed buffers."""
    memory = model.materialize(X).memory
    module, X = memory.module, as_operands(model, X)
    if training:
        show_batch(model, X)
        follow_schedules(model)
    scope = Scope({} if training else _averages(model), training, memory.key, model.progress.step)
    output: Tensor = check_output(module, run(module, scope, arguments(X)))
    if scope.updates and output.requires_grad:
        return carry(output, _named_updates(module, scope))
    return output


def evaluate(model: "Model", X: Any, by: Any) -> Any:
    """Return the result of a function of a model's module in evaluation mode, such as a layer's output."""
    module = model.materialize(X).memory.module
    if model.device.kind == "cpu":
        return by(module, Scope(_averages(model), False), arguments(as_operands(model, X)))
    with active(model.device, model.precision):
        return by(module, Scope(_averages(model), False), arguments(as_operands(model, X)))


def _averages(model: "Model") -> dict[Any, Tensor]:
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


@on_device
def loss(self: "Model", output: Tensor, y: Any, sample_weight: Any = None) -> Tensor:
    """Return the objective: the weighted mean loss plus the L2 penalty.

    Parameters
    ----------
    output : Tensor of shape (n_samples, n_outputs)
        The output of the model.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Targets: class numbers, 0/1 labels or real numbers, as the loss expects them.
    sample_weight : array of shape (n_samples,) or (n_samples, n_positions), default=None
        Weights of rows, or of the positions of sequences; None for equal weights.

    Returns
    -------
    Tensor of shape ()
        The objective, differentiable.

    Raises
    ------
    ShapeError
        If the targets or weights do not fit the output.
    ValueError
        For class numbers that the output has no column for, and for weights that are negative or all zero.
    GradientError
        If a parameter was unfrozen or added since the output was computed.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> X, y = np.eye(2), np.ones((2, 1))
    >>> model.loss(model(X), y).shape
    ()
    """
    y, sample_weight = checked_targets(self, y, sample_weight)
    check_classes_for(self.loss_function, self.module, output, y)
    _look_at(self, output)
    parameters = recorded(output, self.memory.leaves, self.memory.frozen)
    data, penalty = batch_terms(self, output, y, sample_weight, parameters)
    return data if penalty is None else data + penalty


def _look_at(self: "Model", output: Tensor) -> None:
    """Warn if the first output is probabilities, and the loss expects logits."""
    if not (self._has_seen_output or self.memory.looked or is_capturing()):
        self._has_seen_output = True
        warn_of_probabilities(self.loss_function, output, stacklevel=4)  # of the decorated `loss`


@on_device
def backward(self: "Model", loss: Tensor, donate: bool = False) -> Gradient:
    """Return the gradient of a loss with respect to every parameter; the model does not change.

    Parameters
    ----------
    loss : Tensor of shape ()
        Computed from this model's output.
    donate : bool, default=False
        Free the intermediate values that the gradient is computed from: their memory is available to
        the next step, and the loss keeps its value but cannot be differentiated again.

    Returns
    -------
    Gradient
        A mapping from parameter names to arrays.

    Raises
    ------
    GradientError
        If the loss does not depend on this model's parameters, or the output was computed before one of
        them was unfrozen or added, or the loss is not a scalar.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> X, y = np.eye(2), np.ones((2, 1))
    >>> gradient = model.backward(model.loss(model(X), y))
    >>> gradient["weight"].shape
    (2, 1)
    """
    memory = self.memory
    check_reached(loss, memory.leaves, memory.frozen)
    found = gradient_into(memory, memory.zeros(), loss)
    if donate:
        release(loss)
    return found


@on_device
def update(self: "Model", gradient: Gradient, donate: bool = False) -> ModelState:
    """Return the state after one optimizer update; the model does not change.

    Parameters
    ----------
    gradient : Gradient or mapping of str to array-like
        From `backward`, or any arrays by parameter name.
    donate : bool, default=False
        Write the new state into this model's memory. Arrays that were taken from this model or its
        state are then overwritten, and `replace` is the only method that may be called on the model;
        a functional loop then needs no more memory than an in-place one.

    Returns
    -------
    ModelState
        Immutable; pass it to `replace`.

    Raises
    ------
    StateError
        If names or shapes do not fit the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> X, y = np.eye(2), np.ones((2, 1))
    >>> state = model.update(model.backward(model.loss(model(X), y)))
    >>> state.progress.step, model.progress.step
    (1, 0)
    """
    optimizer, memory = stepping_optimizer(self), self.memory
    if not isinstance(gradient, Gradient) or gradient.layout.shapes != memory.layout.shapes:
        flat_gradient = memory.zeros()
        memory.layout.fill(flat_gradient, {name: _array(self, value) for name, value in gradient.items()})
        gradient = Gradient(memory.layout, flat_gradient, {})
    buffers = {**memory.buffers, **gradient.buffers}
    flat, slots = memory.given() if donate else (memory.packed(), memory.copied_slots())
    apply_update(optimizer, memory.layout, self.progress, gradient.flat, flat, slots)
    if donate:
        note_write(flat, "Model.update(donate=True)")
        memory.is_spent = True  # any use of the model except `replace` raises from now on
        self.recompile()
    return memory.state(flat, slots, buffers, self.progress.stepped())


def _array(model: "Model", value: Any) -> Any:
    value = value.data if isinstance(value, Tensor) else value
    return to_device(value if is_array(value) else np.asarray(value), model.device)
