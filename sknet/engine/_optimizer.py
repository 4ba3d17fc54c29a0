"""The terms of a step: mean losses of a batch, hyperparameters, and the update over flat buffers."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache
from operator import is_
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from sknet import ops
from sknet._constraints import PLAIN, shown
from sknet._frames import as_array
from sknet._params import ParameterObject
from sknet.core import Tensor, attached_to, aux_of, gradients, no_grad
from sknet.device import Device, Namespace, device_of, is_array, namespace, to_device
from sknet.engine._checks import check_range, check_targets, check_weights, note_last_layer
from sknet.engine._fingerprint import has_slots, structure_of
from sknet.engine._memory import Gradient, Layout, Memory, StepResult
from sknet.engine._model_like import ModelLike
from sknet.exceptions import GradientError, InvalidParameterError, NonFiniteError, ShapeError
from sknet.losses import Loss, check_loss
from sknet.nn._parameter import latest
from sknet.optim import BaseOptimizer, Optimizer, check_optimizer
from sknet.optim.schedules import Progress


class Mean(NamedTuple):
    value: Tensor
    weight: Any
    divisor: Any


def mean_term(
    loss: Loss, output: Tensor, y: Tensor, weight: Tensor | None, mixing: Tensor | None = None
) -> Mean:
    """Return the weighted mean loss, of rows that are mixed with those in reverse order if they are."""
    if mixing is not None:
        own, other = (mean_term(loss, each, y, weight) for each in (output, ops.flip(output, 0)))
        share = ops.astype(mixing, own.value.dtype)
        return own._replace(value=share * own.value + (1.0 - share) * other.value)
    if weight is not None and weight.ndim > 1:
        of_targets = weight.ndim == y.ndim == output.ndim
        return (_by_target if of_targets else _by_position)(loss, output, y, weight)
    values, counts = loss.values(output, y), loss.counts(output, y)
    if not values.shape[0]:
        raise ShapeError("a batch must have at least one row, got none")
    if weight is not None and weight.shape != values.shape:
        raise ShapeError(f"sample_weight must have shape {values.shape}, got {weight.shape}")
    if counts is None:
        if weight is None:
            n = values.shape[0]
            return Mean(values.sum() / n, n, n)
        total = abs(weight).sum()  # a batch of negative weights must not turn the direction of its step
        return Mean((values * weight).sum() / total, total, total)
    if weight is not None:
        values, counts = values * weight, counts * abs(weight)
    total = counts.sum()
    divisor = ops.where(ops.equal(total, 0), float(values.shape[0]), total)  # all targets may be ignored
    return Mean(values.sum() / divisor, total, divisor)


def _by_target(loss: Loss, output: Tensor, y: Tensor, weight: Tensor) -> Mean:
    """Return the mean loss for weights of targets: a row counts as the mean of its targets."""
    if weight.ndim > 2 and weight.shape == y.shape == output.shape:
        output, y, weight = (ops.reshape(x, (x.shape[0], -1)) for x in (output, y, weight))
    values = loss.of_targets(output, y)
    if weight.shape != values.shape:
        raise ShapeError(
            f"sample_weight must have shape {values.shape[:1]}, or {values.shape} for weights of targets, "
            f"got {weight.shape}"
        )
    total = abs(weight).sum() / values.shape[1]
    return Mean((values * weight).sum() / total, total, total)


def _by_position(loss: Loss, output: Tensor, y: Tensor, weight: Tensor) -> Mean:
    """Return the mean loss for weights of positions: each position counts as a row."""
    axes, places = weight.ndim, weight.shape
    if axes >= output.ndim or places != output.shape[:axes] or places != y.shape[:axes]:
        raise ShapeError(
            f"sample_weight must have shape {output.shape[:1]}, or one number per position of an output "
            f"of shape {output.shape} and a target of shape {y.shape}; got {places}"
        )
    n = math.prod(places)
    rows = [ops.reshape(x, (n, *x.shape[axes:])) for x in (output, y)]
    mean, total, divisor = mean_term(loss, rows[0], rows[1], ops.reshape(weight, (n,)))
    positions = n // max(places[0], 1)
    # Classification losses average over positions, all others sum.
    mean = mean if y.ndim == output.ndim - 1 else mean * positions
    return Mean(mean, total / positions, divisor / positions)


class Strength:
    """The strength of the penalty: half of `alpha`, divided by the total weight of a batch."""

    def __init__(self, alpha: float, slot: Tensor | None = None) -> None:
        self._alpha, self._slot, self.divisor = alpha, slot, 1

    def __bool__(self) -> bool:
        return bool(self._alpha)

    def over(self, total: Any) -> Any:
        if self._slot is None:
            return 0.5 * self._alpha / total
        if isinstance(total, Tensor):
            return self._slot / total
        self.divisor = total
        return self._slot


def mean_per_output(loss: Loss, value: float, n_outputs: int) -> float:
    """Return the reported value of a mean loss: as in scikit-learn, a mean over outputs, not their sum."""
    return value / n_outputs if loss.mean_over_outputs else value


MIXING = "mixing"  # what an output of mixed rows has attached


def mixing_of(output: Tensor) -> Tensor | None:
    """Return the share of each row in an output of the eager pass of a model; None if rows are not mixed."""
    return attached_to(output).get(MIXING)


Checked = tuple[Tensor, Tensor | None]
Terms = tuple[Tensor, Tensor | None]


class Placed(Protocol):
    """A model or a network, whose arrays have a dtype and a device."""

    dtype: Any

    @property
    def device(self) -> Device: ...


def as_operand(model: Placed, x: Any, name: str | None = None) -> Any:
    """Return an array as a tensor of the model's dtype and device, its range checked if it has a name."""
    if isinstance(x, Tensor):
        return x
    if ops.is_sparse(x):
        # A sparse matrix keeps its dtype.
        return x if isinstance(x, ops.SparseSlot) else to_device(x, model.device)
    array = x if is_array(x) and type(x) is not np.ndarray else as_array(x)
    if array.dtype.kind == "f" and array.dtype != model.dtype:
        if name is not None:
            check_range(array, model.dtype, name)
        array = array.astype(model.dtype)
    return Tensor(to_device(array, model.device))


def as_operands(model: Placed, X: Any, are_checked: bool = False) -> Any:
    if isinstance(X, dict):
        return {name: as_operand(model, x, str(name) if are_checked else None) for name, x in X.items()}
    return as_operand(model, X, "X" if are_checked else None)


def checked_targets(model: ModelLike, y: Any, sample_weight: Any) -> Checked:
    """Return checked targets and weights as tensors; loops, which check all rows up front, skip this."""
    y = as_operand(model, y, "y")
    check_targets(model.loss_function, y)
    if sample_weight is not None:
        sample_weight = as_operand(model, sample_weight, "sample_weight")
        check_weights(sample_weight)
    return y, sample_weight


def batch_terms(
    model: ModelLike,
    output: Tensor,
    y: Any,
    sample_weight: Any,
    parameters: Iterable[Tensor] | None = None,
    strength: "Strength | None" = None,
    mixing: Tensor | None = None,
) -> Terms:
    """Return the two terms of the objective: mean loss, and L2 penalty or None."""
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    y = as_operand(model, y)
    if parameters is None:
        parameters = [p for _, p in model.module.own_parameters() if p.requires_grad] if model.alpha else ()
    strength = Strength(model.alpha) if strength is None else strength
    mixing = mixing_of(output) if mixing is None else mixing
    try:
        data, _, total = mean_term(model.loss_function, output, y, weight, mixing)
    except ValueError as error:
        note_last_layer(error, model.module)
        raise
    penalized = [p for p in parameters if p.ndim >= 2] if strength else []
    return data, ops.sum_squares(*penalized) * strength.over(total) if penalized else None


def batch_as_reported(
    model: ModelLike,
    output: Tensor,
    y: Any,
    sample_weight: Any,
    data: Tensor,
    penalty: Tensor | None,
    mixing: Tensor | None = None,
) -> Terms:
    """Return the reported values of what `batch_terms` returned: in the units of the targets."""
    loss = model.loss_function
    if loss.reporting is loss:
        return data, penalty
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    mixing = mixing_of(output) if mixing is None else mixing
    value = mean_term(loss.reporting, output, as_operand(model, y), weight, mixing).value
    # In the dtype of the mean loss, which is float64 where float32 cannot hold the values.
    return value, None if penalty is None else ops.astype(penalty, value.dtype) * loss.unit


def reported(model: ModelLike, result: StepResult) -> float:
    """Return the reported loss of a step's `result`: for regression losses, the mean over outputs."""
    return per_output(model, result.data_loss, result.output) + result.penalty


def mean_of(model: ModelLike, output: Any, y: Any, sample_weight: Any = None) -> Mean:
    """Return the mean loss of raw outputs, before `per_output`, without waiting for it."""
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    with no_grad():
        return mean_term(model.loss_function.reporting, Tensor(output), as_operand(model, y), weight)


def mean_loss(model: ModelLike, output: Any, y: Any, sample_weight: Any = None) -> tuple[float, float]:
    """Return the reported mean loss of raw outputs, without penalty."""
    mean = mean_of(model, output, y, sample_weight)
    return per_output(model, mean.value.item(), output), float(mean.weight)


def per_output(model: ModelLike, loss: float, outputs: Any) -> float:
    """Return the reported value of a mean loss: for some losses, divided by the number of outputs per row."""
    return mean_per_output(model.loss_function, loss, math.prod(outputs.shape[1:]))


OWN = "sknet."


def nested(part: Any) -> Iterator[Any]:
    """Yield a parameter object and those nested in its attributes, such as a wrapped optimizer."""
    yield part
    for value in vars(part).values():
        for inner in value.values() if isinstance(value, dict) else (value,):
            if isinstance(inner, ParameterObject):
                yield from nested(inner)


def is_own(part: Any) -> bool:
    """Tell whether an object's class is this package's, so that it has no hidden state."""
    return type(part).__module__.startswith(OWN)


CHUNK = 1 << 15  # elements updated at a time on the host, so that a rule's temporaries stay in the cache

Change = tuple[slice, Tensor, list[Tensor]]  # the range, the change of the parameters, the new slots
ALL = ""  # the name of the flat array of all parameters, or a slice of it, among named ones


def apply_update(
    optimizer: Optimizer,
    layout: Layout,
    progress: Progress,
    gradient: Any,
    flat: Any,
    slots: Mapping[str, Any],
    delta: Any = None,
) -> None:
    hyper = optimizer.hyper(progress.step + 1, progress)
    kept = [slots[name] for name in optimizer.slots]
    changes = _of_chunks if optimizer.elementwise else _of_parameters
    with no_grad():
        found: Iterable[Change] = changes(optimizer, layout, hyper, gradient, flat, kept)
        if not all(map(is_own, nested(optimizer))):
            found = list(found)  # before the first write: a rule that raises must change nothing
        for part, change, after in found:
            if delta is None:
                flat[part] += change.data.reshape(-1)
            else:
                delta[part] = change.data.reshape(-1)
            for array, value in zip(kept, after, strict=True):
                array[part] = value.data.reshape(-1)


def _of_chunks(
    optimizer: Optimizer, layout: Layout, hyper: dict[str, Any], gradient: Any, flat: Any, slots: list[Any]
) -> Iterator[Change]:
    named = dict(zip(optimizer.slots, slots, strict=True))
    whole = {name: {ALL: Tensor(array)} for name, array in named.items()}
    numbers = optimizer.measured({ALL: Tensor(gradient)}, whole, hyper)
    # On a GPU, chunks only add calls.
    chunk = CHUNK if device_of(flat).kind == "cpu" else max(layout.size, 1)
    for segment, marks in _segments(optimizer, layout):
        hypers = {ALL: {**numbers, **marks}}
        for start in range(segment.start, segment.stop, chunk):
            part = slice(start, min(start + chunk, segment.stop))
            own = {
                name: {ALL: Tensor(array[part])} for name, array in zip(optimizer.slots, slots, strict=True)
            }
            deltas, after = optimizer.rules(
                {ALL: Tensor(gradient[part])}, {ALL: Tensor(flat[part])}, own, hypers
            )
            yield part, deltas[ALL], [after[name][ALL] for name in optimizer.slots]


def _of_parameters(
    optimizer: Optimizer, layout: Layout, hyper: dict[str, Any], gradient: Any, flat: Any, slots: list[Any]
) -> Iterator[Change]:
    gradients, params, *kept = (
        {name: Tensor(view) for name, view in layout.views(x).items()} for x in (gradient, flat, *slots)
    )
    deltas, after = optimizer.updated(gradients, params, dict(zip(optimizer.slots, kept, strict=True)), hyper)
    for name, part in layout.slices.items():
        yield part, deltas[name], [after[slot][name] for slot in optimizer.slots]


def _segments(optimizer: Optimizer, layout: Layout) -> list[tuple[slice, dict[str, float]]]:
    """Return ranges of the flat buffer, and the marks shared by all parameters of a range."""
    found: list[tuple[slice, dict[str, float]]] = []
    for name, part in layout.slices.items():
        marks = optimizer.marks(name, layout.shapes[name])
        if found and found[-1][1] == marks:
            part = slice(found.pop()[0].start, part.stop)
        found.append((part, marks))
    return found


class UpdateOutputs(NamedTuple):
    flat: Any
    slots: Mapping[str, Any]
    delta: Any = None


def update_function(
    optimizer: Optimizer, layout: Layout, keep_delta: bool = False
) -> Callable[..., UpdateOutputs]:
    """Return the pure function from parameters, slots, gradient and numbers to new parameters and slots."""
    divided = _whole if optimizer.elementwise else layout.views

    def update(
        flat: Tensor, slots: Mapping[str, Tensor], gradient: Tensor, hyper: dict[str, Any]
    ) -> UpdateOutputs:
        params, gradients = divided(flat), divided(gradient)
        own = {slot: divided(slots[slot]) for slot in optimizer.slots}
        numbers = optimizer.measured(gradients, own, hyper)
        hypers = {name: {**numbers, **marks} for name, marks in _marks(optimizer, layout, flat.dtype).items()}
        deltas, after = optimizer.rules(gradients, params, own, hypers)
        values = {name: param + deltas[name] for name, param in params.items()}
        kept = {slot: joined(layout, after[slot], flat) for slot in optimizer.slots}
        delta = joined(layout, deltas, flat) if keep_delta else None
        return UpdateOutputs(joined(layout, values, flat), kept, delta)

    return update


def _whole(flat: Any) -> dict[str, Any]:
    return {ALL: flat}


def _marks(optimizer: Optimizer, layout: Layout, dtype: Any) -> dict[str, dict[str, Any]]:
    """Return the marks for each array of an update: of all parameters, or of each."""
    if optimizer.elementwise:
        return {ALL: _flat_marks(optimizer, layout, dtype)}
    return {name: optimizer.marks(name, shape) for name, shape in layout.shapes.items()}


def _flat_marks(optimizer: Optimizer, layout: Layout, dtype: Any) -> dict[str, Any]:
    """Return marks as numbers, or as flat arrays if they differ between parameters."""
    segments = _segments(optimizer, layout)
    if len(segments) < 2:
        return segments[0][1] if segments else {}
    found = {name: np.zeros(layout.size, dtype) for name in segments[0][1]}
    for part, marks in segments:
        for name, value in marks.items():
            found[name][part] = value
    return {name: Tensor(array) for name, array in found.items()}


def joined(layout: Layout, values: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Join named arrays to a flat one of the dtype and device of `like`, with zeros in the gaps."""
    if ALL in values:
        return values[ALL]
    parts, end = [], 0
    for name, part in layout.slices.items():
        if part.start > end:
            parts.append(_zeros(part.start - end, like))
        value = values[name]
        parts.append(value if value.ndim == 1 else ops.reshape(value, (-1,)))
        end = part.stop
    if layout.size > end:
        parts.append(_zeros(layout.size - end, like))
    return ops.concat(parts) if len(parts) > 1 else parts[0]


def _zeros(length: int, like: Tensor) -> Tensor:
    return ops.zeros(length, like.dtype, like.device)


def gradient_into(memory: Memory, flat: Any, loss: Tensor) -> Gradient:
    """Return the gradient of `loss` with respect to a memory's parameters, written into the buffer `flat`."""
    shares = gradients(loss, list(memory.leaves.values()))
    for part, share in zip(memory.layout.slices.values(), shares, strict=True):
        flat[part] = share.data.reshape(-1)
    buffers = aux_of(loss) if memory.has_buffers else {}
    return Gradient(memory.layout, flat, {name: x for name, x in buffers.items() if name != MIXING})


def advance(model: ModelLike, buffers: Mapping[str, Any], n_steps: int = 1) -> None:
    """Count steps whose updates have been made, and set the buffers that they changed."""
    model.memory.set_buffers(buffers)
    model.progress = model.progress.stepped(n_steps)


def check_finite_step(loss: float, gradient: Gradient, squares: bool = False) -> None:
    # The fast check can overflow for a finite gradient, so a failure is checked again.
    flat = gradient.flat
    if math.isfinite(loss) and math.isfinite(flat.dot(flat).item()):
        return
    xp = namespace(flat)
    bad = [name for name, array in gradient.items() if not xp.all(xp.isfinite(array)).item()]
    if math.isfinite(loss) and not bad:
        if squares:
            _check_squares(gradient, xp)
        return
    where = f"the gradient of parameter {bad[0]!r} is not finite" if bad else "all gradients are finite"
    raise NonFiniteError(
        f"the loss is {loss:g} and {where}; nothing was updated. Scale the inputs, lower the "
        "learning rate, or look for invalid targets",
        parameter=bad[0] if bad else None,
    )


def _check_squares(gradient: Gradient, xp: Namespace) -> None:
    for name, array in gradient.items():
        if not xp.all(xp.isfinite(array * array)).item():
            raise NonFiniteError(
                f"the gradient of parameter {name!r} is finite, but the optimizer squares it, and "
                f"the square is too large for {array.dtype}; nothing was updated. Scale inputs and "
                "targets, or compute in float64",
                parameter=name,
            )


def follow_schedules(model: ModelLike) -> bool:
    """Set the probability of layers that follow a schedule to that of the next step."""
    memory = model.memory
    mark, scheduled = memory.scheduled
    if mark is not latest.settings:
        scheduled = [
            (f"{path}.rate" if path else "rate", module.p)
            for path, module in memory.module.named_modules()
            if "rate" in module._buffers and callable(getattr(module, "p", None))
        ]
        memory.scheduled = latest.settings, scheduled
    for path, schedule in scheduled:
        value = float(schedule(model.progress))
        if not 0.0 <= value <= 1.0:
            layer = path.removesuffix("rate").rstrip(".") or "the module"
            raise InvalidParameterError(
                f"the schedule {schedule!r} of {layer!r} must "
                f"return a probability, a number from 0 to 1. "
                f"Got {shown(value)} at step {model.progress.step}."
            )
        memory.set_buffers({path: to_device(np.asarray(value, memory.dtype), memory.device)})
    return bool(scheduled)


class Hyper(NamedTuple):
    optimizer: BaseOptimizer
    loss: Loss
    alpha: float


MOST_VALID = 256  # hyperparameters that are remembered as valid
_valid: set[tuple[Hashable, ...]] = set()


def checked_hyper(optimizer: "str | BaseOptimizer", loss: "str | Loss", alpha: float) -> Hyper:
    key: tuple[Hashable, ...] = (_plain_state(optimizer), _plain_state(loss))
    found: tuple[Any, Any] = optimizer, loss
    if None in key or key not in _valid:
        found = check_optimizer(optimizer, "Model"), check_loss(loss, "Model")
        if None not in key and len(_valid) < MOST_VALID:
            _valid.add(key)
    if not (isinstance(alpha, (int, float, np.number)) and 0 <= alpha < math.inf):
        raise ValueError(
            f"The 'alpha' parameter of Model must be a float in the range [0, inf). "
            f"Got {shown(alpha)} instead."
        )
    return Hyper(*found, float(alpha))


def minimises_alike(model: ModelLike, optimizer: BaseOptimizer, loss: Loss, alpha: float) -> bool:
    """Tell whether a model has these hyperparameters: then it has nothing to adopt."""
    mine = model._hyper
    if (
        alpha == mine.alpha
        and _are_plainly_alike(optimizer, mine.optimizer)
        and _are_plainly_alike(loss, mine.loss)
    ):
        return True
    known = structure_of(None, optimizer, loss, float(alpha))
    return known is not None and known == structure_of(None, *mine) and bool(optimizer == mine.optimizer)


def _are_plainly_alike(one: object, other: object) -> bool:
    """Tell whether two objects of sknet have the same plain attributes, and thus the same behavior."""
    kind = cast(Hashable, type(one))
    if type(one) is not type(other) or not _is_ours(kind):
        return False
    mine, theirs = vars(one), vars(other)
    return (
        mine.keys() == theirs.keys()
        and PLAIN.issuperset(map(type, mine.values()))
        and all(map(is_, mine.values(), map(theirs.__getitem__, mine)))
    )


def _plain_state(part: object) -> Hashable:
    """Return class and attributes of an object of sknet that has plain ones, or None."""
    if not _is_ours(cast(Hashable, type(part))):
        return None
    values = tuple(vars(part).values())
    kinds = tuple(map(type, values))
    return (type(part), *vars(part), *kinds, *values) if PLAIN.issuperset(kinds) else None


@cache
def _is_ours(kind: Any) -> bool:
    """Tell whether a class is sknet's own, and its objects have no attributes outside of their `__dict__`."""
    return kind.__module__.startswith("sknet.") and not has_slots(kind)


def averaging(model: ModelLike) -> BaseOptimizer | None:
    """Return the optimizer of a model, with its slots allocated, if it predicts with averages, like `EMA`."""
    optimizer = model.optimizer
    if not optimizer.averaging:
        return None
    _follow(model, optimizer)
    return optimizer


def stepping_optimizer(model: ModelLike) -> Optimizer:
    """Return the optimizer of a model that has trainable parameters, with its slots allocated."""
    optimizer = model.optimizer.in_steps()
    _follow(model, optimizer)
    if not model.memory.leaves:
        raise GradientError(
            "this model has no trainable parameters: all are frozen, or there are none; "
            "model.module.requires_grad_(True) unfreezes all"
        )
    return optimizer


def _follow(model: ModelLike, optimizer: BaseOptimizer) -> None:
    """Reset the optimizer's state if attributes have changed so that it needs other slots."""
    if optimizer.slots != model.memory.slot_names:
        model.adopt(optimizer, model.loss_function, model.alpha, anew=True)
