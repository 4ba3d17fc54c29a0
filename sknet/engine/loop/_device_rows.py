"""The rows of a data set on a device, gathered there in the order of an epoch."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.device import Feed, active, backend, backend_of, device_of, is_array, to_device
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._device_ring import Taken
from sknet.engine.state import each_input, gather_by_threads, is_fed
from sknet.engine.step import Batch, DeviceInputs

__all__ = ["DeviceRows"]

SHARE = 16  # rows that are copied ahead take at most two of so many parts of the memory that is free


class DeviceRows:
    """The rows of a data set, gathered on the device in the order of an epoch."""

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
        self._ahead: tuple[Any, Any] = ((), None)  # the next one, and what `_sent` returns of it
        self._fed = {name: x for name, x in self._named(self._X) if is_fed(x)}
        self._feed = self._new_feed() if self._fed else None

    def _named(self, inputs: Any) -> list[tuple[Any, Any]]:
        """Return what there is of each input, by its name; by None if there is only one."""
        return list(inputs.items()) if isinstance(inputs, dict) else [(None, inputs)]

    def _is_resident(self, X: Any, dtype: Any) -> bool:
        return bool(is_array(X) and X.dtype == dtype and device_of(X) == self._batches.device)

    def _resident(self, X: Any, dtype: Any) -> Any:
        """Return an input on the device and in its dtype, if it fits into half of the free memory."""
        device, owner = self._batches.device, backend(self._batches.device.kind)
        if not is_array(X) or self._is_resident(X, dtype):
            return X
        if math.prod(X.shape) * dtype.itemsize > owner.free_memory(device) // 2:
            return X
        try:
            with active(device_of(X)):
                found = X.astype(dtype, copy=False)
            return to_device(found, device)
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

    def start(self, order: Any, first_row: int = 0) -> None:
        """Put the order of an epoch on the device, unless it is there; None for that of the data."""
        if self._feed is not None and (first_row == 0 or self._order is not order):
            self._feed.restart()  # rows that are computed may be others in each epoch
        if self._order is order:
            return
        (known, sent), self._ahead, self._order = self._ahead, ((), None), ()
        of_targets, of_X = sent if known is order else self._sent(order)
        self.order_of_targets[...] = of_targets
        if of_X is not None:
            self.order_of_X[...] = of_X
        self._order = order

    def _sent(self, order: Any) -> tuple[Any, Any]:
        """Return an order on the device, and that of the inputs if they have their own."""
        batches = self._batches
        rows = np.arange(batches.n_samples) if order is None else np.asarray(order)
        chosen = None if batches.chosen is None else np.asarray(batches.chosen)[rows]
        of_targets, of_X = (
            None if each is None else to_device(each.astype(np.int64, copy=False), batches.device)
            for each in (rows, chosen)
        )
        return of_targets, of_X

    @property
    def order(self) -> Any:
        """The order of the epoch that is on the device, as it was given; an empty one before."""
        return self._order

    # -- rows of the host ---------------------------------------------------------------------

    def _new_feed(self) -> Feed:
        batches, dtypes = self._batches, dict(self._named(self._dtypes))
        forms = [(x.shape[1:], dtypes[name]) for name, x in self._fed.items()]
        width = sum(math.prod(shape) * dtype.itemsize for shape, dtype in forms)
        free = backend(batches.device.kind).free_memory(batches.device)
        most = min(Feed.most_bytes, free // SHARE) // max(width * batches.size, 1)  # batches
        rows = min(self._batches_of_a_chunk(max(most, 1)) * batches.size, batches.n_samples)
        feed = Feed(batches.device, forms, batches.n_samples, rows, self._write)
        places = np.arange(batches.n_samples, dtype=np.int64) % (2 * rows)
        self._places = to_device(places, batches.device)  # where the rows of an epoch come to lie
        return feed

    def _batches_of_a_chunk(self, most: int) -> int:
        """Return how many batches a chunk has: as many as possible, and all rows of a longer last batch."""
        n, is_longer = self._batches.n_batches, self._batches.alike[-1][1] > self._batches.size
        counts = [*range(most, 1, -1), *range(most + 1, n + 2)]
        return next(count for count in counts if n % count) if is_longer else most

    def _write(self, start: int, stop: int, arrays: Sequence[np.ndarray]) -> None:
        """Gather rows of the epoch in the host's memory."""
        part: Any = slice(start, stop) if self._order is None else self._order[start:stop]
        if self._batches.chosen is not None:
            part = np.asarray(self._batches.chosen)[part]
        for x, array in zip(self._fed.values(), arrays, strict=True):
            gather_by_threads(x, part, array)

    @property
    def nbytes_of_chunks(self) -> int:
        """Bytes that rows take on the device while they are copied there chunk by chunk; 0 if none are."""
        return 0 if self._feed is None else self._feed.nbytes

    def send(self, order: Any, start: int, n_rows: int, slots: DeviceInputs) -> None:
        """Let a step, which is issued next, read rows that do not stay on the device, from `start` on."""
        if self._feed is not None:
            self._feed.place_of(start)
        part = slice(start, start + n_rows)
        gathered = None
        for _, slot, is_there, name in self._inputs(slots):
            if not is_there and name not in self._fed:  # on a device, but not as a step needs it
                if gathered is None:
                    gathered = self._batches.take(part if order is None else order[part]).X
                slot[...] = gathered if name is None else gathered[name]

    def look_ahead(self, next_order: Any) -> None:
        """Send rows for later steps, and the next order, while the device computes what was issued."""
        if self._feed is not None:
            self._feed.look_ahead()
        if next_order is not None and self._ahead[0] is not next_order:
            self._ahead = next_order, self._sent(next_order)

    def taken(self, slots: DeviceInputs) -> list[Taken]:
        """Return the rows that a step takes; which ones is read on the device."""
        batches = self._batches
        found = [Taken(self.order_of_X, x, slot) for x, slot, is_there, _ in self._inputs(slots) if is_there]
        found.append(Taken(self.order_of_targets, batches.y, slots.y))
        if batches.weight is not None:
            found.append(Taken(self.order_of_targets, batches.weight, slots.weight))
        found = [each._replace(source=_in_rows(each.source)) for each in found]
        if self._feed is not None:
            chunks = dict(zip(self._fed, self._feed.arrays, strict=True))
            fed = [(name, slot) for _, slot, _, name in self._inputs(slots) if name in chunks]
            found += [Taken(self._places, chunks[name], slot) for name, slot in fed]
        return found

    def _inputs(self, slots: DeviceInputs) -> list[tuple[Any, Any, bool, Any]]:
        """Return inputs, with slot, whether the rows are on the device, and the name if there are several."""
        if not isinstance(slots.X, dict):
            return [(self._X, slots.X, self._is_there, None)]
        return [(self._X[name], slot, self._is_there[name], name) for name, slot in slots.X.items()]


def _in_rows(x: Any) -> Any:
    """Return an array whose rows are contiguous: itself, if there is one stride between their elements."""
    return x if x.ndim < 3 or backend_of(x).is_plain(x) else x.copy()
