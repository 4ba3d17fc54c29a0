"""Training steps on single batches of any shape."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from sknet import ops
from sknet.device import backend
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._choice import steps_for
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._steps import Block, EagerSteps, Steps
from sknet.engine.loop._train import Settings
from sknet.engine.state import computed_dtype, each_input, n_rows

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["BatchSteps"]

KEPT = 8  # shapes of batches, each with its own programs


class BatchSteps:
    """Training steps on single batches, with programs and memory for each shape."""

    def __init__(self, model: "Model", settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._by_shape: OrderedDict[Any, Steps | None] = OrderedDict()
        self._first: Any = None
        self._never = False  # whether this model's step cannot be compiled

    def run(self, X: Any, y: Any, weight: Any, outputs: Outputs | None) -> Block:
        """Train on one batch of checked arrays."""
        key = _key_of(X, y, weight)
        steps = self._by_shape.get(key)
        if steps is None:
            steps = self._new(key, X, y, weight)
        self._by_shape[key] = steps if self._is_kept(steps) else None
        self._by_shape.move_to_end(key)
        if len(self._by_shape) > KEPT:
            self._by_shape.popitem(last=False)
        steps.batches.refill(X, y, weight)
        return steps.run(None, 0, 1, outputs)

    def pass_by(self, X: Any, y: Any, weight: Any) -> None:
        """Register the shape of a batch that was trained on before, so that later ones take the same path."""
        key = _key_of(X, y, weight)
        self._first = self._first or _form_of(key)
        self._by_shape.setdefault(key, None)
        self._by_shape.move_to_end(key)
        if len(self._by_shape) > KEPT:
            self._by_shape.popitem(last=False)

    def follow(self) -> None:
        """Discard steps that are no longer valid."""
        held = {key: None if s is None or not s.hold() else s for key, s in self._by_shape.items()}
        if held != dict(self._by_shape):
            self._first, self._never = None, False
            self._by_shape.clear()

    def _is_kept(self, steps: Steps) -> bool:
        return self._never or not isinstance(steps, EagerSteps)

    def _new(self, key: Any, X: Any, y: Any, weight: Any) -> Steps:
        model, settings = self._model, self._settings
        batches = self._room_for(X, y, weight)
        form = _form_of(key)
        waits = self._first not in (None, form) and key not in self._by_shape and model.compile == "auto"
        if self._never or waits:
            return EagerSteps(model, batches, settings.check_finite)
        found = steps_for(model, batches, settings.check_finite)
        self._first = self._first or form
        self._never = isinstance(found, EagerSteps)
        return found

    def _room_for(self, X: Any, y: Any, weight: Any) -> Batches:
        """Return memory on the device for batches of this shape."""
        model = self._model

        def room(array: Any) -> Any:
            if array is None or ops.is_sparse(array):
                return array
            dtype = computed_dtype(array, model.dtype)
            return backend(model.device.kind).zeros(array.shape, dtype, model.device)

        return Batches(each_input(room, X), room(y), room(weight), n_rows(X), model.dtype, model.device)


def _key_of(X: Any, y: Any, weight: Any) -> Any:
    """Return everything about a batch that its program depends on."""
    inputs = X if isinstance(X, dict) else {"": X}
    arrays = {**inputs, "y ": y, "weight ": weight}  # with a space, which no argument's name contains
    return tuple((name, *_form(array)) for name, array in arrays.items())


def _form_of(key: Any) -> Any:
    """Return a key without the number of rows."""
    return tuple((name, shape[1:], *kind) for name, shape, *kind in key)


def _form(array: Any) -> tuple[tuple[int, ...], str, bool]:
    """Return everything about an array that a program depends on."""
    return ((), "", False) if array is None else (tuple(array.shape), str(array.dtype), ops.is_sparse(array))
