"""Batches: rows of a data set, gathered batch by batch in any order without copying it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from sknet import ops
from sknet._config import native_core
from sknet._random import RandomSnapshot, twin_of
from sknet._warnings import warn_caller
from sknet.device import Device, MetaArray, active, device_of, is_array, namespace, to_device, to_host
from sknet.engine._checks import check_range, check_ranges
from sknet.engine._inputs import (
    Batch,
    SparseForm,
    arguments,
    computed_dtype,
    each_input,
    fed_inputs,
    gather,
    n_rows,
)
from sknet.engine._model_like import ModelLike
from sknet.engine._scheduler import current_group
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn import BatchNorm, Module
from sknet.nn._lazy import copy_for_shapes, shadows, shape_pass
from sknet.nn._module import held_of, hold_statistics, is_held

MOST_KEPT = 1 << 18  # numbers of outputs that are buffered until they are added to a score
WINDOW_BYTES = 1 << 20  # of rows that are computed together: they stay in the cache until they are read


class ComputedRows(ABC):
    """Abstract base of rows that behave like an array, but are computed when they are read."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)

    @abstractmethod
    def write(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Write some rows into an array."""

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all rows as an array, which is computed anew each time."""
        if copy is False:
            raise ValueError("rows that are computed when they are read cannot be an array without copy")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return some rows, given by a slice, or by an array of int or bool; or one, by an int."""
        are_places = not isinstance(rows, slice) and np.ndim(rows) and np.asarray(rows).dtype.kind != "b"
        chosen = np.asarray(rows if are_places else np.arange(len(self))[rows])
        if not chosen.ndim:
            return self[chosen[np.newaxis]][0]
        out = np.empty((len(chosen), *self.shape[1:]), self.dtype)
        self.write(chosen, out)
        return out

    def take(self, rows: Any, axis: int = 0, out: Any = None, mode: str = "raise") -> np.ndarray:
        """Return some rows, or write them into an array, as the method of NumPy's arrays does."""
        if out is None:
            return self[rows]
        self.write(np.asarray(rows), out)
        return out


class Window:
    """Memory for the rows of a few batches, from which native code reads them."""

    def __init__(self, rows: ComputedRows, size: int, n_batches: int) -> None:
        self._rows, self._size, self._last = rows, size, n_batches - 1
        per_batch = max(1, size * rows.nbytes // max(1, len(rows)))
        self._batches = max(1, WINDOW_BYTES // per_batch)
        self.room = np.empty((self._batches * size + 1, *rows.shape[1:]), rows.dtype)

    def places(self, n_samples: int) -> np.ndarray:
        """Return where each row of an epoch is in `room` once its batch was computed, as int64."""
        rows = np.arange(n_samples, dtype=np.int64)
        batch = np.minimum(rows // self._size, self._last)
        return rows + (batch % self._batches - batch) * self._size

    def compute(self, order: np.ndarray, first: int, most: int) -> int:
        """Compute the rows of some batches, and return how many: at least one, and up to `most`."""
        at = first % self._batches
        done = max(1, min(most, self._batches - at))
        stop = len(order) if first + done > self._last else (first + done) * self._size
        rows = order[first * self._size : stop]
        start = at * self._size
        self._rows.write(rows, self.room[start : start + len(rows)])
        return done


# -- buckets of similar lengths ------------------------------------------------------------------------

MOST_WIDTHS, RATIO = 8, 1.5  # of the numbers of steps that batches may have, each with a program
POOL = 64  # batches whose rows are sorted by length
LEAST_BATCHES, LEAST_PADDING = 4, 2.0  # of an epoch; steps divided by those that are no padding


class Buckets:
    """The widths of batches, and orders of rows in which those of a batch have similar lengths."""

    def __init__(self, lengths: np.ndarray, n_steps: int) -> None:
        self._lengths = np.minimum(lengths, n_steps)
        self.n_steps = n_steps
        widths = np.ceil(n_steps / RATIO ** np.arange(MOST_WIDTHS)).astype(int)
        self._widths = np.unique(widths)

    @classmethod
    def of(cls, X: Any, chosen: Any = None) -> "Buckets | None":
        """Return the buckets of one padded input on the host; None where less than half of it is padding."""
        if not isinstance(X, dict) or len(X) != 2 or "lengths" not in X:
            return None
        (sequences,) = [x for name, x in X.items() if name != "lengths"]
        if not (type(sequences) is np.ndarray or isinstance(sequences, ComputedRows)) or sequences.ndim < 2:
            return None
        lengths, n_steps = np.asarray(X["lengths"]), sequences.shape[1]
        lengths = lengths if chosen is None else lengths[chosen]
        is_padded = lengths.sum() * LEAST_PADDING <= len(lengths) * n_steps
        return cls(lengths, n_steps) if is_padded else None

    def width_of(self, chosen: Any) -> int:
        """Return how many steps a batch of the chosen rows has."""
        return int(self._widths[self._widths.searchsorted(self._lengths[chosen].max())])

    def by_width(self) -> Iterator[tuple[np.ndarray, int]]:
        """Yield rows of similar lengths, and how many steps these have."""
        numbers = self._widths.searchsorted(self._lengths)
        for number in np.unique(numbers):
            yield np.flatnonzero(numbers == number), int(self._widths[number])

    def narrowed(self, X: Any, width: int) -> Any:
        """Return all inputs, of which sequences have their first steps."""
        return each_input(lambda x: x[:, :width] if x.shape[1:2] == (self.n_steps,) else x, X)

    def arranged(self, order: np.ndarray, size: int, n_batches: int, source: RandomState) -> np.ndarray:
        """Return a drawn order, sorted by length in pools of batches, whose batches are in a new order."""
        # The last batch, which may have another number of rows, stays the last one and has short rows.
        last = (n_batches - 1) * size
        found = np.empty_like(order)
        for start in range(0, n_batches, POOL):
            part = slice(start * size, len(order) if start + POOL >= n_batches else (start + POOL) * size)
            rows = order[part]
            found[part] = rows[np.argsort(-self._lengths[rows], kind="stable")]
        turns = source.permutation(n_batches - 1)
        found[:last] = found[:last].reshape(n_batches - 1, size)[turns].reshape(-1)
        return found


# -- batches ---------------------------------------------------------------------------------------


class Batches:
    """Rows of a data set, in batches and any order.

    X is never copied as a whole: each batch is gathered from X and then converted to the computing dtype.

    Parameters
    ----------
    X : array, CSR matrix or ComputedRows of shape (n_rows, ...), or dict of arrays and matrices
        Inputs; several by the names of the network's arguments.
    y : array of shape (n_rows, ...)
        Targets, encoded as the loss expects them.
    weight : array of shape (n_rows,) or None
        Sample weights.
    size : int
        Rows in a batch; the last one may be shorter, or one row longer after `join_leftover`.
    dtype : dtype
        The dtype of inputs, weights and real targets in batches.
    device : Device
        The device of batches.
    rows : ndarray of int, default=None
        The rows to use; None for all.
    dtypes : dtype, or dict of those, default=None
        The dtype of each input in batches; None for `dtype`, with integers, such as those for an embedding,
        left unchanged.

    Attributes
    ----------
    n_samples, n_batches : int
        Number of rows that are used, and of batches in an epoch.
    alike : list of tuple of int
        The first batch, the rows of each and the number of consecutive batches of equal length.
    y, weight : array
        Targets and weights of the used rows, on the device.
    shares : ndarray of shape (n_samples,) or None
        Probabilities with which an epoch draws rows; None if it has each of them once.
    buckets : Buckets or None
        Steps of sequences in each batch; None for all steps.

    Raises
    ------
    ValueError
        If inputs or targets are beyond the range of their dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import Device
    >>> batches = Batches(np.eye(5), np.arange(5), None, 2, np.dtype("float32"), Device("cpu"))
    >>> [n_rows for _, n_rows in batches.parts(None)]
    [2, 2, 1]
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        weight: Any,
        size: int,
        dtype: Any,
        device: Device,
        rows: Any = None,
        dtypes: Any = None,
    ) -> None:
        # A program of the host reads rows in its memory; a program of a device copies them there.
        self.X = each_input(_on_host, X) if device.kind == "cpu" else X
        self.size, self.dtype, self.device = size, dtype, device
        self._chosen = rows
        self.n_samples = n_rows(X) if rows is None else len(rows)
        self._divide(self.n_samples // size, self.n_samples % size)
        self._dtypes = each_input(lambda x: computed_dtype(x, dtype), X) if dtypes is None else dtypes
        if rows is None:
            check_range(y, dtype, "y")
            check_ranges(X, self._dtypes)
        self.y = self._placed(y, rows)
        self.weight = None if weight is None else self._placed(weight, rows)
        self.shares: Any = None
        self.buckets: Buckets | None = None
        self._host_weight = None if weight is None else to_host(self.weight)

    def draw_by(self, shares: np.ndarray) -> None:
        """Let each epoch draw its rows with replacement, in proportion to `shares`."""
        self.shares = shares / shares.sum()

    def _divide(self, whole: int, last: int) -> None:
        """Set how many batches are whole, and how many rows a last one has that is not, or 0."""
        self.n_batches = whole + bool(last)
        parts = ((0, self.size, whole), (whole, last, int(bool(last))))
        self.alike = [part for part in parts if part[2]]

    @property
    def leaves_one(self) -> bool:
        """True if the last of several batches has a single row."""
        return self.n_batches > 1 and self.alike[-1][1] == 1 < self.size

    def join_leftover(self) -> None:
        """Join the last batch to the one before it."""
        self._divide(self.n_batches - 2, self.size + self.alike[-1][1])

    @property
    def chosen(self) -> Any:
        """The rows of X that are used; None for all."""
        return self._chosen

    @property
    def input_dtype(self) -> Any:
        """The dtype of the input in batches, or a dict of the dtypes of several inputs."""
        return each_input(np.dtype, self._dtypes)

    def _placed(self, array: Any, rows: Any) -> Any:
        """Return targets or weights on the device; fibers there share those of all rows."""
        dtype = computed_dtype(array, self.dtype)
        group = None if rows is not None or self.device.kind == "cpu" else current_group()
        fiber = None if group is None else group.fiber
        if fiber is None or fiber.at_end:  # what callbacks make once the fit has begun is theirs alone
            return self._in_dtype(array if rows is None else array[rows], dtype)
        known = fiber.shared.setdefault("placed", {})
        key = id(array), dtype, self.device
        if key not in known:
            known[key] = array, self._in_dtype(array, dtype)  # kept, so that no other array has its id
        return known[key][1]

    def _in_dtype(self, array: Any, dtype: Any) -> Any:
        if array.dtype != dtype:
            with active(device_of(array)):
                array = array.astype(dtype)
        return to_device(array, self.device)

    def _inputs(self, chosen: Any) -> Any:
        places = self._place_of(chosen)
        return each_input(lambda x, dtype: self._in_dtype(take_rows(x, places), dtype), self.X, self._dtypes)

    def inputs(self, chosen: Any = None) -> Any:
        """Return the inputs of the chosen rows, or of all, ready to compute with."""
        return self._inputs(slice(None) if chosen is None else chosen)

    def parts(self, order: Any) -> Iterator[tuple[Any, int]]:
        """Yield the rows to `take` for every batch of an epoch in some `order`, and their number."""
        for number in range(self.n_batches):
            yield self.part(order, number)

    def part(self, order: Any, number: int) -> tuple[Any, int]:
        """Return the rows to `take` for the batch `number` of an epoch, from 0, and their number.

        `order` has the rows of the epoch; None is the order of the data, and gives a slice.
        """
        start = number * self.size
        stop = self.n_samples if number == self.n_batches - 1 else start + self.size
        return (slice(start, stop) if order is None else order[start:stop]), stop - start

    def width(self, chosen: Any) -> int | None:
        """Return the number of steps of sequences in a batch of the rows `chosen`; None for all steps."""
        return None if self.buckets is None else self.buckets.width_of(chosen)

    def arranged(self, order: Any, source: RandomState) -> Any:
        """Return a drawn `order`, in which batches have rows of similar lengths if there are buckets.

        Batches are then shuffled by `source`.
        """
        if self.buckets is None:
            return order
        return self.buckets.arranged(order, self.size, self.n_batches, source)

    def in_a_row(self, order: Any, first: int, most: int) -> int:
        """Return the number of consecutive batches with the shape of batch `first` and a non-zero weight.

        The number is `most` at most, for an `order` as in `part`; 0 if the first batch has no weight.
        """
        chosen, n_rows = self.part(order, first)
        whole = self.alike[0][2] if self.alike[0][1] == n_rows else first + 1
        steps = min(whole - first, most)
        if self.buckets is not None:
            width, others = self.width(chosen), range(first + 1, first + steps)
            steps = next((i - first for i in others if self.width(self.part(order, i)[0]) != width), steps)
        if self._host_weight is None:
            return steps
        rows = slice(first * self.size, first * self.size + steps * n_rows)
        weight = self._host_weight[rows if order is None else order[rows]]
        without = np.flatnonzero(~weight.reshape(steps, -1).any(axis=1))
        return int(without[0]) if len(without) else steps

    def take(self, chosen: Any) -> Batch:
        """Return inputs, targets and weights (or None) of the chosen rows, ready to compute with."""
        return self.take_steps(chosen, self.width(chosen))

    def take_steps(self, chosen: Any, width: int | None) -> Batch:
        """Return the result of `take` for rows `chosen`, with `width` steps of sequences; None for all."""
        return Batch(self.narrowed(self._inputs(chosen), width), *self.take_targets(chosen))

    def narrowed(self, X: Any, width: int | None) -> Any:
        """Return inputs `X` with the first `width` steps of sequences, as views; None for all."""
        return X if width is None or self.buckets is None else self.buckets.narrowed(X, width)

    def in_turn(self) -> "Iterator[tuple[slice, Batch, Callable[[], None]]]":
        """Yield all batches in the order of the data, each valid until the next one.

        Yields the slice of the rows, the batch (inputs, targets and weights), and a function that begins to
        send the next batch to the device, while it computes.
        """
        fed = fed_inputs(self.X, self.input_dtype, self.n_samples, self.size, self.device, self._chosen)
        for chosen, _ in self.parts(None):
            if fed is None:
                yield chosen, self.take(chosen), _do_nothing
                continue
            X = fed.take(chosen, partial(self._input, self._place_of(chosen)))
            yield chosen, Batch(X, *self.take_targets(chosen)), fed.look_ahead

    def _input(self, places: Any, name: str) -> Any:
        return self._in_dtype(take_rows(self.X[name], places), self._dtypes[name])

    def like(self) -> Batch:
        """Return inputs, targets and weights (or None) with the shapes of a full batch, without values."""
        rows = min(self.size, self.n_samples)

        def one(array: Any, dtype: Any) -> Any:
            is_dense = type(array) is np.ndarray or not ops.is_sparse(array)
            return (MetaArray if is_dense else SparseForm)((rows, *array.shape[1:]), np.dtype(dtype))

        weight = None if self.weight is None else one(self.weight, self.weight.dtype)
        return Batch(each_input(one, self.X, self._dtypes), one(self.y, self.y.dtype), weight)

    def take_targets(self, chosen: Any) -> tuple[Any, Any]:
        """Return targets and weights (or None) of the chosen rows."""
        return take_rows(self.y, chosen), None if self.weight is None else take_rows(self.weight, chosen)

    def take_into(self, chosen: Any, X: Any, y: Any, weight: Any) -> None:
        """Write the `chosen` rows into host arrays `X` (or slots for sparse matrices), `y` and `weight`."""
        places = self._place_of(chosen)
        if isinstance(X, dict):
            for name, slot in X.items():
                self._take_input(self.X[name], places, slot)
        else:
            self._take_input(self.X, places, X)
        gather(self.y, chosen, y)
        if weight is not None:
            gather(self.weight, chosen, weight)

    def _take_input(self, x: Any, places: Any, slot: Any) -> None:
        if isinstance(slot, ops.SparseSlot):
            slot.matrix = self._in_dtype(take_rows(x, places), slot.dtype)
        elif x.shape[1:2] != slot.shape[1:2]:
            slot[...] = x[places, : slot.shape[1]]
        else:
            gather(x, places, slot)

    def copy_rows(self, most_bytes: int) -> bool:
        """Replace plain rows of at most `most_bytes` by a copy of their own; return False for all others."""
        X, y, dtype = self.X, self.y, self.input_dtype
        if self.device.kind != "cpu" or not (_can_be_read(X, dtype) and _can_be_read(y, y.dtype)):
            return False
        if X.nbytes + y.nbytes > most_bytes:
            return False
        if any(each is not None for each in (self.weight, self._chosen, self.shares, self.buckets)):
            return False
        self.X, self.y = X.copy(), y.copy()
        return True

    def refill(self, X: Any, y: Any, weight: Any) -> None:
        """Replace all rows by as many others, `X`, `y` and `weight`, in the same memory."""
        self.X = each_input(self._refilled, self.X, X)
        self.y[...] = to_device(y, self.device)
        if self.weight is not None:
            self.weight[...] = to_device(weight, self.device)
            self._host_weight = to_host(self.weight)

    def _refilled(self, room: Any, x: Any) -> Any:
        if x is room or ops.is_sparse(x):
            return x
        room[...] = to_device(x, self.device)
        return room

    def in_place(self, chosen: Any) -> Batch | None:
        """Return views of the chosen rows of all arrays; None if rows have to be gathered."""
        if not isinstance(chosen, slice) or self._chosen is not None or self.buckets is not None:
            return None
        inputs = each_input(_can_be_read, self.X, self.input_dtype)
        is_readable = all(inputs.values()) if isinstance(inputs, dict) else inputs
        targets = [array for array in (self.y, self.weight) if array is not None]
        if not (is_readable and all(_can_be_read(array, array.dtype) for array in targets)):
            return None
        return Batch(each_input(lambda x: np.asarray(x)[chosen], self.X), *self.take_targets(chosen))

    def _place_of(self, chosen: Any) -> Any:
        return chosen if self._chosen is None else self._chosen[chosen]


def _do_nothing() -> None:
    """Do nothing: all that is sent to a device is there."""


def _on_host(x: Any) -> Any:
    return to_host(x) if is_array(x) else x


def _can_be_read(array: Any, dtype: Any) -> bool:
    """Tell whether a program can read rows of an array without a copy."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        return False
    return array.flags.c_contiguous and array.flags.aligned


def take_rows(array: Any, chosen: Any) -> Any:
    if isinstance(array, np.ndarray) and not isinstance(chosen, slice):
        return array.take(chosen, axis=0)
    if isinstance(chosen, slice) or ops.is_sparse(array) or isinstance(array, ComputedRows):
        return array[chosen]
    with active(device_of(array)):
        return array.take(namespace(array).asarray(chosen), axis=0)


class Orders:
    """New orders or draws of rows, drawn by a model, or always the order of the data."""

    def __init__(
        self,
        model: ModelLike,
        n_samples: int,
        shuffle: bool,
        n_epochs: int,
        shares: Any = None,
        arranged: "Callable[[Any, RandomState], Any] | None" = None,
    ) -> None:
        self._model, self._left, self._arranged = model, n_epochs, arranged
        self._bounds = None if shares is None else np.cumsum(shares)
        if self._bounds is not None:
            self._bounds[np.flatnonzero(shares)[-1] :] = 1.0  # whatever rounding has made of the sum
        self.now: Any = np.arange(n_samples) if shuffle else None
        self._ahead: _Ahead | None = None

    def begin_again(self) -> None:
        """Begin another fit, whose orders are drawn from the original order of the rows."""
        self.now = None if self.now is None else np.arange(len(self.now))

    def begin(self) -> None:
        self._left -= 1
        if self.now is not None:
            ahead, self._ahead = self._ahead, None
            source = self._model.random_state
            if ahead is not None and ahead.order is self.now and ahead.before.holds(source):
                source.set_state(ahead.state)
                self.now = ahead.next
            else:
                self.now = self._drawn(source)

    def look_ahead(self) -> Any:
        """Return the next order, taken if nothing else is drawn before; None if it is not drawn."""
        if self.now is None or self._left < 1:
            return None
        if self._ahead is None:
            source = self._model.random_state
            before, twin = RandomSnapshot(source), twin_of(source)
            order = self._drawn(twin)
            self._ahead = _Ahead(self.now, before, order, RandomSnapshot(twin).state())
        return self._ahead.next

    def _drawn(self, source: RandomState) -> Any:
        """Return the rows in a new order, or as many of them as there are."""
        if self._bounds is not None:
            found = self._bounds.searchsorted(source.random_sample(len(self.now)), side="right")
        else:
            found = self.now.copy()
            _shuffle(found, source)
        return found if self._arranged is None else self._arranged(found, source)


def _shuffle(rows: np.ndarray, source: RandomState) -> None:
    """Shuffle rows as NumPy does."""
    core = native_core()
    if core is None or type(source) is not RandomState or rows.dtype != np.int64:
        source.shuffle(rows)
        return
    generator = source._bit_generator
    with generator.lock:
        core.shuffle(generator.capsule, rows)


class _Ahead(NamedTuple):
    """An order that was drawn before its epoch began."""

    order: Any
    before: RandomSnapshot
    next: Any
    state: Any


def join_leftover(model: ModelLike, batches: Batches) -> None:
    """Let a last batch of one row belong to the batch before, if the network cannot train on one row."""
    if batches.leaves_one and _needs_two_rows(model, batches):  # each row of a small table counts
        batches.join_leftover()


AS_IN_EVERY_FIT = nullcontext()


def statistics_of_one(model: ModelLike, batches: Batches, is_part: bool) -> AbstractContextManager[None]:
    """Normalize a part of a stream that has a single row by running statistics, with a warning."""
    is_needed = is_part and batches.n_samples == 1 and _needs_two_rows(model, batches)
    return _running_statistics(model) if is_needed else AS_IN_EVERY_FIT


@contextmanager
def _running_statistics(model: ModelLike) -> Iterator[None]:
    warn_caller(
        "a part of one row has no statistics of its own: batch norms have normalized it by their running "
        "statistics, and have not updated them. Give larger parts",
        UserWarning,
    )
    restore = held_of(model.module)
    for norm in _norms(model.module):
        hold_statistics(norm, True)
    try:
        yield
    finally:
        restore()


def _norms(module: Module) -> list[Module]:
    return [each for each in module.modules() if isinstance(each, BatchNorm) and not is_held(each)]


def _needs_two_rows(model: ModelLike, batches: Batches) -> bool:
    """Tell whether a training step on a single row is an error of shapes."""
    if not _norms(model.module):
        return False
    shapes = each_input(lambda x, dtype: shadows((1, *x.shape[1:]), dtype), batches.X, batches.input_dtype)
    try:
        shape_pass(copy_for_shapes(model.module), arguments(shapes), training=True)
    except ShapeError:
        return True
    except DeviceError:  # its code depends on values
        return True
    return False


def buckets_of(model: ModelLike, batches: Batches) -> Buckets | None:
    """Return the buckets of batches of sequences; None if they would save little or change the results."""
    if batches.device.kind != "cpu" or batches.n_batches < LEAST_BATCHES:
        return None
    found = Buckets.of(batches.X, batches.chosen)
    if found is None or found.n_steps in batches.y.shape[1:]:
        return None
    if _norms(model.module):  # whose statistics see padding
        return None
    widths = found.n_steps, int(found._widths[0])
    shapes = [_output_shape(model, batches, found, width) for width in widths]
    return found if shapes[0] is not None and shapes[0] == shapes[1] else None


def _output_shape(model: ModelLike, batches: Batches, buckets: Buckets, width: int) -> Any:
    """Return the shape of the output for two rows of some steps; None if it is unknown."""
    inputs = buckets.narrowed(batches.X, width)
    shapes = each_input(lambda x, dtype: shadows((2, *x.shape[1:]), dtype), inputs, batches.input_dtype)
    try:
        return shape_pass(copy_for_shapes(model.module), arguments(shapes), training=True).shape
    except (ShapeError, DeviceError):
        return None
