"""The rows of a data set on a device, gathered there in the order of an epoch."""

import math
from typing import Any

import numpy as np

from sknet.device import backend, backend_of, device_of, to_device
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._device_ring import Taken
from sknet.engine.state import each_input
from sknet.engine.step import Batch, DeviceInputs

__all__ = ["DeviceRows"]


class DeviceRows:
    """The rows of a data set, gathered on the device in the order of an epoch.

    Parameters
    ----------
    batches : Batches
        The rows.

    Attributes
    ----------
    order_of_X, order_of_targets : array of shape (n_samples,), dtype=int64
        The order of this epoch, on the device: which rows of the inputs, and of targets and weights.
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._dtypes = batches.input_dtype
        self._X = each_input(self._resident, batches.X, self._dtypes)
        self._is_there = each_input(self._is_resident, self._X, self._dtypes)
        shape, zeros = (batches.n_samples,), backend(batches.device.kind).zeros
        self.order_of_targets = zeros(shape, np.int64, batches.device)
        has_own = batches.chosen is not None
        self.order_of_X = zeros(shape, np.int64, batches.device) if has_own else self.order_of_targets
        self._order: Any = ()  # of no epoch

    def _is_resident(self, X: Any, dtype: Any) -> bool:
        return bool(X.dtype == dtype) and device_of(X) == self._batches.device

    def _resident(self, X: Any, dtype: Any) -> Any:
        """Return an input on the device and in its dtype, if it fits into half of the free memory."""
        device, owner = self._batches.device, backend(self._batches.device.kind)
        if self._is_resident(X, dtype):
            return X
        if math.prod(X.shape) * dtype.itemsize > owner.free_memory(device) // 2:
            return X
        try:
            is_there = device_of(X) == device
            return X.astype(dtype) if is_there else to_device(X.astype(dtype, copy=False), device)
        except owner.memory_errors:  # free memory may be in pieces
            return X

    def example(self, n_rows: int) -> Batch:
        """Return inputs, targets and weights (or None) of the first rows."""
        batches = self._batches
        zeros = backend(batches.device.kind).zeros

        def one(x: Any, dtype: Any) -> Any:
            return zeros((n_rows, *x.shape[1:]), dtype, batches.device)

        X = each_input(one, self._X, self._dtypes)
        return Batch(X, *batches.take_targets(slice(0, n_rows)))

    def start(self, order: Any) -> None:
        """Put the order of an epoch on the device, unless it is there; None for that of the data."""
        if self._order is order:
            return
        batches = self._batches
        rows = np.arange(batches.n_samples) if order is None else np.asarray(order)
        self._order = ()
        self.order_of_targets[...] = to_device(rows.astype(np.int64, copy=False), batches.device)
        if batches.chosen is not None:
            chosen = np.asarray(batches.chosen)[rows].astype(np.int64, copy=False)
            self.order_of_X[...] = to_device(chosen, batches.device)
        self._order = order

    def send_into(self, order: Any, start: int, n_rows: int, slots: DeviceInputs) -> None:
        """Write rows of inputs that are not on the device, from `start` of the order on."""
        part = slice(start, start + n_rows)
        gathered = None
        for _, slot, is_there, name in self._inputs(slots):
            if not is_there:
                if gathered is None:
                    gathered = self._batches.take(part if order is None else order[part]).X
                slot[...] = gathered if name is None else gathered[name]

    def taken(self, slots: DeviceInputs) -> list[Taken]:
        """Return all other rows that a step takes; which ones is read on the device."""
        batches = self._batches
        found = [Taken(self.order_of_X, x, slot) for x, slot, is_there, _ in self._inputs(slots) if is_there]
        found.append(Taken(self.order_of_targets, batches.y, slots.y))
        if batches.weight is not None:
            found.append(Taken(self.order_of_targets, batches.weight, slots.weight))
        return [each._replace(source=_in_rows(each.source)) for each in found]

    def _inputs(self, slots: DeviceInputs) -> list[tuple[Any, Any, bool, Any]]:
        """Return inputs, with slot, whether the rows are on the device, and the name if there are several."""
        if not isinstance(slots.X, dict):
            return [(self._X, slots.X, self._is_there, None)]
        return [(self._X[name], slot, self._is_there[name], name) for name, slot in slots.X.items()]


def _in_rows(x: Any) -> Any:
    """Return an array whose rows are contiguous: itself, if there is one stride between their elements."""
    return x if x.ndim < 3 or backend_of(x).is_plain(x) else x.copy()
