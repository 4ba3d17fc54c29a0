"""A network's inputs, one array or several by name, its output, and rows sent to a device in chunks."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from sknet import ops
from sknet._fields import COUNT, Dtypes, Each, Either, Items, Named
from sknet._parallel import CORES, in_pool
from sknet.core import Tensor
from sknet.device import Device, Feed, active, backend, device_of, is_array, to_device
from sknet.exceptions import ShapeError


def each_input(function: Callable[..., Any], X: Any, *others: Any) -> Any:
    """Apply a function to the one input, or to each of several, with the corresponding items of `others`."""
    if isinstance(X, dict):
        return {name: function(x, *(other[name] for other in others)) for name, x in X.items()}
    return function(X, *others)


def arguments(X: Any) -> Any:
    """Return inputs as `sknet.nn.run` takes them."""
    return X if isinstance(X, dict) else (X,)


def check_output(module: Any, output: Any) -> Any:
    if isinstance(output, Tensor):
        return output
    name = type(module).__name__
    if output is None:
        raise TypeError(f"{name}.forward returned None, expected a tensor: end it with `return`")
    if isinstance(output, (tuple, list, dict)):
        found = f"a {type(output).__name__} of {len(output)}"
        raise TypeError(
            f"{name}.forward returned {found}, expected one tensor, as a loss expects it: return only that, "
            "or several outputs joined by ops.concat; MultiHeadNet takes a loss for each"
        )
    raise TypeError(
        f"{name}.forward returned an object of type {type(output).__name__}, expected a tensor: compute with "
        "sknet.ops, not with NumPy"
    )


def first_input(X: Any) -> Any:
    if isinstance(X, dict) and not X:
        raise ValueError("X is an empty dict: expected inputs by the names of arguments")
    return next(iter(X.values())) if isinstance(X, dict) else X


def n_rows(X: Any) -> int:
    shape = first_input(X).shape
    if not shape:
        raise ShapeError("X must have an axis of rows, got a single number")
    return int(shape[0])


def row_shapes(X: Any) -> Any:
    return each_input(lambda x: tuple(x.shape[1:]), X)


def row_weights(weight: Any) -> Any:
    """Return weights of rows: of those of targets, labels or positions the mean of each row."""
    return weight if weight is None or np.ndim(weight) < 2 else weight.reshape(len(weight), -1).mean(axis=1)


def any_sparse(X: Any) -> bool:
    """Tell whether an input is a CSR matrix."""
    return any(map(ops.is_sparse, X.values())) if isinstance(X, dict) else ops.is_sparse(X)


def are_arrays(X: Any) -> bool:
    """Tell whether the one input, or each of several, is a dense array of the host."""
    return all(type(x) is np.ndarray for x in X.values()) if isinstance(X, dict) else type(X) is np.ndarray


def computed_dtype(x: Any, dtype: Any) -> Any:
    """Return the computing dtype of an input: `dtype` for real numbers, its own for integers."""
    return dtype if x.dtype.kind == "f" else x.dtype


AT_ONCE = 1 << 18  # bytes that are converted together: they stay in the cache
MOST_THREADS, BYTES_OF_A_THREAD = 4, 2 << 20  # one thread reads less in a second than a bus transfers


class FedInputs:
    """Inputs of which a device gets one chunk of rows after the other, beside what it computes."""

    def __init__(self, X: Any, feed: Feed) -> None:
        self._X, self._feed = X, feed

    def take(self, part: slice, other: Callable[[str], Any]) -> Any:
        """Return some rows of all inputs on the device, valid until others are taken."""
        place = self._feed.place_of(part.start)
        found = [array[place : place + part.stop - part.start] for array in self._feed.arrays]
        if not isinstance(self._X, dict):
            return found[0]
        left = iter(found)
        return {name: next(left) if is_fed(x) else other(name) for name, x in self._X.items()}

    def look_ahead(self) -> None:
        """Begin to send the next rows."""
        self._feed.look_ahead()


def fed_inputs(
    X: Any, dtypes: Any, n_samples: int, rows: int, device: Device, chosen: Any = None
) -> FedInputs | None:
    """Return inputs that are sent to a device chunk by chunk."""
    if device.kind == "cpu" or n_samples <= rows:
        return None
    pairs = [(X[name], dtypes[name]) for name in X] if isinstance(X, dict) else [(X, dtypes)]
    pairs = [(x, dtype) for x, dtype in pairs if is_fed(x)]
    if not pairs:
        return None

    def write(start: int, stop: int, arrays: Sequence[np.ndarray]) -> None:
        part: Any = slice(start, stop) if chosen is None else chosen[start:stop]
        for (x, _), array in zip(pairs, arrays, strict=True):
            gather_by_threads(x, part, array)

    forms = [(tuple(x.shape[1:]), np.dtype(dtype)) for x, dtype in pairs]
    try:
        with active(device):
            return FedInputs(X, Feed(device, forms, n_samples, rows, write))
    except backend(device.kind).memory_errors:
        return None


def is_fed(x: Any) -> bool:
    """Tell whether an input is dense and on the host, or computed there when it is read."""
    return not ops.is_sparse(x) and (not is_array(x) or device_of(x).kind == "cpu")


def resident(device: Device, share: int, x: Any, dtype: Any) -> Any:
    """Return an input on a device and in a dtype, if a share of the free memory, such as a half, holds it."""
    owner = backend(device.kind)
    if not is_array(x) or (x.dtype == dtype and device_of(x) == device):
        return x
    if math.prod(x.shape) * dtype.itemsize > owner.free_memory(device) // share:
        return x
    try:
        with active(device_of(x)):
            found = x.astype(dtype, copy=False)
        return to_device(found, device)
    except owner.memory_errors:  # free memory may be in pieces
        return x


def gather(array: Any, chosen: Any, out: Any) -> None:
    """Write the `chosen` rows of an array into a host array, in its dtype."""
    if isinstance(chosen, slice):
        out[...] = array[chosen]
    elif array.dtype == out.dtype:
        array.take(chosen, axis=0, out=out, mode="clip")  # "raise" would go through a buffer
    else:
        rows = max(1, AT_ONCE * len(out) // max(out.nbytes, 1))
        for start in range(0, len(out), rows):
            out[start : start + rows] = array.take(chosen[start : start + rows], axis=0)


def gather_by_threads(array: Any, chosen: Any, out: np.ndarray) -> None:
    """Write the `chosen` rows of an array into a host array, by several threads if they are many."""
    threads = min(MOST_THREADS, CORES, out.nbytes // BYTES_OF_A_THREAD, len(out))
    if threads < 2 or not isinstance(array, np.ndarray):
        gather(array, chosen, out)
        return

    def take(i: int, _: int) -> None:
        start, end = (len(out) * each // threads for each in (i, i + 1))
        gather(array, _part(chosen, start, end), out[start:end])

    in_pool(take, threads, range(threads))


def _part(chosen: Any, start: int, end: int) -> Any:
    return slice(chosen.start + start, chosen.start + end) if isinstance(chosen, slice) else chosen[start:end]


# An array, or the form of one that is not kept.
FORM = Either(np.ndarray, Named("MetaArray", "SparseForm"))


class Batch(NamedTuple):
    X: Annotated[Any, Either(FORM, Items(str, FORM))]
    y: Annotated[Any, FORM]
    weight: Annotated[Any, Either(FORM, None)]


class SparseForm(NamedTuple):
    """Form of a sparse input, as a step needs to know it."""

    shape: Annotated[tuple[int, ...], Each(tuple, COUNT)]
    dtype: Annotated[np.dtype[Any], Dtypes("biuf")]
