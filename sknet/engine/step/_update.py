"""One optimizer update over flat buffers, and the check before it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet.core import Tensor, cargo_of, gradients, no_grad
from sknet.device import Namespace, device_of, namespace
from sknet.engine.state import Gradient, Layout, Memory
from sknet.engine.step._parts import is_own, nested
from sknet.engine.step._signature import UpdateOutputs
from sknet.exceptions import NonFiniteError
from sknet.optim import Optimizer
from sknet.optim.schedules import Progress

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["advance", "apply_update", "check_finite_step", "gradient_into", "update_function"]

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
    """Make one update of an optimizer over flat buffers."""
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
    return Gradient(memory.layout, flat, cargo_of(loss) if memory.has_buffers else {})


def advance(model: "Model", buffers: Mapping[str, Any], n_steps: int = 1) -> None:
    """Count steps whose updates have been made, and set the buffers that they changed."""
    model.memory.set_buffers(buffers)
    model.progress = model.progress.stepped(n_steps)


def check_finite_step(loss: float, gradient: Gradient, squares: bool = False) -> None:
    """Raise for a loss or gradient that is not finite."""
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
