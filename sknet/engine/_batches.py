"""Batches: rows of arrays that stay where they are, taken by one gather a batch."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sknet import ops
from sknet.device import Device, namespace, to_device

__all__ = ["Batch", "Batches", "take_rows"]


class Batch(NamedTuple):
    """One batch: inputs, targets, weights (or None), number of rows, and where it began."""

    X: Any
    y: Any
    weight: Any
    size: int
    number: int


class Batches:
    """Rows of a data set, in batches of any order.

    X is never copied as a whole: a batch is gathered from X as it was given, and converted to the
    computing dtype then.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
        Inputs.
    y : array of shape (n_rows, ...)
        Targets as the loss reads them.
    weight : array of shape (n_rows,) or None
        Sample weights.
    size : int
        Rows in a batch; the last one may be shorter.
    dtype : dtype
        In which to hand out inputs, weights and real targets.
    device : Device
        Where.
    rows : ndarray of int, default=None
        Which rows to use; None for all.

    Attributes
    ----------
    n_samples : int
        How many rows are used.
    y, weight : array
        Targets and weights of the used rows, on the device.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import Device
    >>> batches = Batches(np.eye(5), np.arange(5), None, 2, np.dtype("float32"), Device("cpu"))
    >>> [batch.size for batch in batches.epoch(None)]
    [2, 2, 1]
    """

    def __init__(
        self, X: Any, y: Any, weight: Any, size: int, dtype: Any, device: Device, rows: Any = None
    ) -> None:
        self.X = X
        self.size, self.dtype, self.device = size, dtype, device
        self._chosen = rows
        self.n_samples = int(X.shape[0]) if rows is None else len(rows)
        self.y = self._placed(y if rows is None else y[rows])
        self.weight = None if weight is None else self._placed(weight if rows is None else weight[rows])

    def _placed(self, array: Any) -> Any:
        if array.dtype.kind == "f" and array.dtype != self.dtype:
            array = array.astype(self.dtype)
        return to_device(array, self.device)

    @property
    def n_batches(self) -> int:
        """Batches in an epoch."""
        return -(-self.n_samples // self.size)

    def epoch(self, order: Any) -> Iterator[Batch]:
        """Yield all rows once.

        Parameters
        ----------
        order : ndarray of shape (n_samples,), dtype=int, or None
            In which order; None for the order of the data.

        Yields
        ------
        Batch
            Up to `size` rows.
        """
        for number, start in enumerate(range(0, self.n_samples, self.size)):
            part = slice(start, min(start + self.size, self.n_samples))
            chosen = part if order is None else order[part]
            weight = None if self.weight is None else take_rows(self.weight, chosen)
            inputs = take_rows(self.X, chosen if self._chosen is None else self._chosen[chosen])
            yield Batch(self._placed(inputs), take_rows(self.y, chosen), weight, part.stop - part.start, number)


def take_rows(array: Any, chosen: Any) -> Any:
    """Return some rows.

    Parameters
    ----------
    array : array or CSR matrix of shape (n_rows, ...)
        On any device.
    chosen : slice or ndarray of int
        Which; an array of the host also for a device.

    Returns
    -------
    array or CSR matrix
        A view for a slice of a dense array.
    """
    if isinstance(chosen, slice) or ops.is_sparse(array):
        return array[chosen]
    return array.take(namespace(array).asarray(chosen), axis=0)
