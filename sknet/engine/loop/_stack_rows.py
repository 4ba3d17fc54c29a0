"""The rows of several fits on a device, each array once, and the order of each fit's rows."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.device import Device, backend, device_of, to_device
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._device_ring import Taken
from sknet.engine.state import each_input

__all__ = ["StackRows", "fit_in_memory"]

SHARE = 2  # inputs take at most this part of the free memory


class StackRows:
    """The rows of several fits."""

    def __init__(self, each: Sequence[Batches]) -> None:
        first = each[0]
        self._each, self._device = list(each), first.device
        self._X, first_of_X = _tables([batches.X for batches in each], first.input_dtype, first.device)
        self._y, first_of_y = _table([batches.y for batches in each], first.y.dtype, first.device)
        self._weight: Any = None
        if first.weight is not None:
            weights = [batches.weight for batches in each]
            self._weight, of_weight = _table(weights, first.weight.dtype, first.device)
            if of_weight != first_of_y:  # one order for both
                self._y, first_of_y = _joined([batches.y for batches in each], first.y.dtype, first.device)
                self._weight, _ = _joined(weights, first.weight.dtype, first.device)
        self._first_of_X, self._first_of_y = first_of_X, first_of_y
        shape = len(each), first.n_samples
        is_one = first_of_X == first_of_y and all(batches.chosen is None for batches in each)
        zeros = backend(first.device.kind).zeros
        self.order_of_targets = zeros(shape, np.int64, first.device)
        self.order_of_X = self.order_of_targets if is_one else zeros(shape, np.int64, first.device)
        self._on_host = [np.zeros(shape, np.int64) for _ in range(1 if is_one else 2)]
        self._orders: list[Any] = [()] * len(each)  # of no epoch

    def start(self, orders: "dict[int, Any]") -> None:
        """Put the orders of some fits' epochs on the device, if they are new; None is that of the data."""
        new = [i for i, order in orders.items() if self._orders[i] is not order]
        for i in new:
            batches, order = self._each[i], orders[i]
            rows = np.arange(batches.n_samples) if order is None else np.asarray(order)
            self._on_host[0][i] = self._first_of_y[i] + rows
            if len(self._on_host) > 1:
                chosen = rows if batches.chosen is None else np.asarray(batches.chosen)[rows]
                self._on_host[1][i] = self._first_of_X[i] + chosen
            self._orders[i] = order
        parts = [slice(i, i + 1) for i in new] if 2 * len(new) < len(self._orders) else [slice(None)]
        places = self.order_of_targets, self.order_of_X
        for place, values in zip(places, self._on_host, strict=False):
            for part in parts if new else ():
                place[part] = to_device(values[part], self._device)

    def taken(self, X: Any, y: Any, weight: Any) -> list[Taken]:
        """Return the rows that a step takes into slots of shape (n_fits, n_rows, ...)."""
        inputs, slots = (x if isinstance(x, dict) else {None: x} for x in (self._X, X))
        found = [Taken(self.order_of_X, inputs[name], slot) for name, slot in slots.items()]
        found.append(Taken(self.order_of_targets, self._y, y))
        if weight is not None:
            found.append(Taken(self.order_of_targets, self._weight, weight))
        return found


def fit_in_memory(each: Sequence[Batches]) -> bool:
    """Tell whether the inputs of several fits take at most half of the memory that is free."""
    first = each[0]

    def nbytes(*arrays: Any) -> int:
        missing = {id(x): x for x in arrays[1:] if x.dtype != arrays[0] or device_of(x) != first.device}
        return sum(math.prod(x.shape) * arrays[0].itemsize for x in missing.values())

    found = each_input(nbytes, first.input_dtype, *[batches.X for batches in each])
    total = sum(found.values()) if isinstance(found, dict) else found
    return bool(total <= backend(first.device.kind).free_memory(first.device) // SHARE)


def _tables(given: Sequence[Any], dtypes: Any, device: Device) -> tuple[Any, list[int]]:
    """Return the rows of several fits, of one input or of each, and where those of each fit begin."""
    if not isinstance(given[0], dict):
        return _table(given, dtypes, device)
    columns = {name: [x[name] for x in given] for name in given[0]}
    found = {name: _table(column, dtypes[name], device) for name, column in columns.items()}
    starts = [first for _, first in found.values()]
    if any(first != starts[0] for first in starts):
        found = {name: _joined(column, dtypes[name], device) for name, column in columns.items()}
    return {name: table for name, (table, _) in found.items()}, next(iter(found.values()))[1]


def _table(given: Sequence[Any], dtype: Any, device: Device) -> tuple[Any, list[int]]:
    """Return the rows of all arrays, each array once, and where those of each begin."""
    starts: dict[int, int] = {}
    distinct: list[Any] = []
    end = 0
    for x in given:
        if id(x) not in starts:
            starts[id(x)] = end
            distinct.append(x)
            end += x.shape[0]
    return _laid(distinct, dtype, device), [starts[id(x)] for x in given]


def _joined(given: Sequence[Any], dtype: Any, device: Device) -> tuple[Any, list[int]]:
    """Return the rows of all arrays, one after another, and where those of each begin."""
    ends = np.cumsum([x.shape[0] for x in given]).tolist()
    return _laid(given, dtype, device), [0, *ends[:-1]]


def _laid(arrays: Sequence[Any], dtype: Any, device: Device) -> Any:
    if len(arrays) == 1:
        return _on_device(arrays[0], dtype, device)
    shape = sum(x.shape[0] for x in arrays), *arrays[0].shape[1:]
    table, end = backend(device.kind).zeros(shape, dtype, device), 0
    for x in arrays:
        table[end : end + x.shape[0]] = _on_device(x, dtype, device)
        end += x.shape[0]
    return table


def _on_device(x: Any, dtype: Any, device: Device) -> Any:
    """Return an array on the device, in a dtype and in C order."""
    x = x if x.dtype == dtype else x.astype(dtype)
    x = x if device_of(x) == device else to_device(x, device)
    return x if backend(device.kind).is_plain(x) else x.copy()
