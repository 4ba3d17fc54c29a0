"""The orders in which a fit trains on its rows, epoch by epoch."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from sknet._random import RandomSnapshot, twin_of

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Orders"]


class Orders:
    """New orders, drawn by a model, or always that of the data."""

    def __init__(self, model: "Model", n_samples: int, shuffle: bool, n_epochs: int) -> None:
        self._model, self._left = model, n_epochs
        self.now: Any = np.arange(n_samples) if shuffle else None
        self._ahead: _Ahead | None = None

    def begin(self) -> None:
        """Begin an epoch."""
        self._left -= 1
        if self.now is not None:
            ahead, self._ahead = self._ahead, None
            source = self._model.random_state
            if ahead is not None and ahead.order is self.now and ahead.before.holds(source):
                source.set_state(ahead.state)
                self.now = ahead.next
            else:
                self.now = _shuffled(self.now, source)

    def look_ahead(self) -> Any:
        """Return the next order, taken if nothing else is drawn before; None if it is not drawn."""
        if self.now is None or self._left < 1:
            return None
        if self._ahead is None:
            source = self._model.random_state
            before, twin = RandomSnapshot(source), twin_of(source)
            order = _shuffled(self.now, twin)
            self._ahead = _Ahead(self.now, before, order, RandomSnapshot(twin).state())
        return self._ahead.next


class _Ahead(NamedTuple):
    """An order that was drawn before its epoch began."""

    order: Any
    before: RandomSnapshot
    next: Any
    state: Any


def _shuffled(order: Any, source: RandomState) -> Any:
    """Return the rows of an order in a new one."""
    found = order.copy()
    source.shuffle(found)
    return found
