"""Dask collections as partitions of rows: their facts, the order of rows, and predictions."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from sklearn.utils.validation import check_is_fitted

from sknet._frames import is_collection, is_frame
from sknet.device import device_of, is_array
from sknet.ops import is_sparse

Rows = np.ndarray[Any, np.dtype[np.int64]]


class Partition(NamedTuple):
    X: Any
    y: Any
    weight: Any


class Facts(NamedTuple):
    """Facts on which the parts of a fit have to agree, and counts over all of them."""

    n_rows: int
    n_targets: int
    shape: tuple[int, ...]
    names: "tuple[Any, ...] | None"
    kind: str
    labels: Any
    counts: Any
    label_kind: str
    weight: float
    fault: str


class Moments(NamedTuple):
    """Weight, mean and sum of squared deviations of the columns of some targets."""

    weight: float
    mean: Any
    squares: Any

    def joined(self, other: "Moments") -> "Moments":
        """Return those of both (Chan, Golub & LeVeque, 1983)."""
        weight = self.weight + other.weight
        if not weight:
            return self
        apart = other.mean - self.mean
        share = other.weight / weight
        squares = self.squares + other.squares + apart**2 * self.weight * share
        return Moments(weight, self.mean + apart * share, squares)


def partitions_of(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    lengths = _lengths(X)
    number = sample_weight if sample_weight is not None and np.ndim(sample_weight) == 0 else None
    sample_weight = sample_weight if number is None else None
    parts = [
        _aligned(collection, lengths, name)
        for name, collection in (("X", X), ("y", y), ("sample_weight", sample_weight))
        if collection is not None
    ]
    counts = [len(blocks) for blocks in parts]
    if len(set(counts)) > 1:
        names = ("X", "y", "sample_weight")[: len(counts)]
        found = ", ".join(f"{name} has {count}" for name, count in zip(names, counts, strict=True))
        raise ValueError(
            f"X, y and sample_weight must be divided into the same partitions: {found}. Repartition them, or "
            "let Dask count rows that it does not know, with compute_chunk_sizes() of arrays"
        )
    made = dask.delayed(_part, pure=True)
    return [made(*blocks, *[number] * (3 - len(blocks))) for blocks in zip(*parts, strict=True)]


def _part(X: Any, y: Any, weight: Any) -> Partition:
    """Return a part: the targets may be a column, and the weight one number for all rows."""
    if _shape(y)[1:] == (1,) and (hasattr(y, "iloc") or isinstance(y, np.ndarray)):
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]
    is_number = weight is not None and not _shape(weight)
    return Partition(X, y, np.full(X.shape[0], weight) if is_number else weight)


def _shape(x: Any) -> tuple[int, ...]:
    """Return a shape, also of an array on a device, which NumPy cannot read."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _lengths(X: Any) -> "tuple[int, ...] | None":
    """Return the number of rows of each partition; None if unknown."""
    if not isinstance(X, da.Array) or np.isnan(X.chunks[0]).any():
        return None
    return tuple(map(int, X.chunks[0]))


def _aligned(collection: Any, lengths: "tuple[int, ...] | None", name: str) -> list[Any]:
    """Return the partitions of a collection, those of an array with these lengths if they are known."""
    if not is_collection(collection):
        if lengths is None:
            raise ValueError(
                f"{name} is in memory, and how many rows the partitions of X have is unknown: give {name} as "
                "a Dask collection that is divided as X is"
            )
        array = np.asarray(collection)
        if len(array) != sum(lengths):
            raise ValueError(f"X has {sum(lengths)} rows, and {name} has {len(array)}")
        collection = da.from_array(array, chunks=(lengths, *array.shape[1:]))
    if isinstance(collection, da.Array) and lengths is not None and _lengths(collection) is not None:
        if collection.shape[0] != sum(lengths):
            raise ValueError(f"X has {sum(lengths)} rows, and {name} has {collection.shape[0]}")
        collection = collection.rechunk({0: lengths})
    return blocks_of(collection, name)


def blocks_of(collection: Any, name: str = "X") -> list[Any]:
    """Return the partitions of a collection, each of which has all columns."""
    if isinstance(collection, da.Array) and collection.ndim:
        whole = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
        return list(whole.to_delayed().ravel())
    if hasattr(collection, "npartitions") and hasattr(collection, "dtypes"):
        return list(collection.to_delayed())
    raise TypeError(
        f"{name} must be a Dask array, data frame or series, got {type(collection).__name__}: make an array "
        "of it, by dask.array.from_delayed"
    )


# -- on the workers ------------------------------------------------------------------------------------


def facts_of(part: Partition, counts_labels: bool) -> Facts:
    X, y = part.X, part.y
    labels = counts = names = None
    label_kind = ""
    n_rows = int(X.shape[0])
    fault = (
        _fault_of_places(part)
        or _fault_of_weights(part.weight, n_rows)
        or _fault_of_targets(y, counts_labels)
    )
    weight = float(n_rows if part.weight is None or fault else np.sum(np.asarray(part.weight, np.float64)))
    if counts_labels and len(y) and not fault:
        targets = np.asarray(y)
        axis = None if targets.ndim == 1 else 0
        labels, counts = np.unique(targets, axis=axis, return_counts=True)
        label_kind = "strings" if isinstance(labels.ravel().tolist()[0], str) else "numbers"
    if is_frame(X):
        names, kind = tuple(X.columns), " ".join(map(str, X.dtypes))
    else:
        kind = "sparse" if is_sparse(X) else str(X.dtype)
    shape = tuple(X.shape[1:])
    return Facts(n_rows, len(y), shape, names, kind, labels, counts, label_kind, weight, fault)


def _fault_of_places(part: Partition) -> str:
    """Return which of X, targets and weights is not in the memory of the host, or nothing."""
    for name, array in zip(("X", "y", "sample_weight"), part, strict=True):
        if is_array(array) and device_of(array).kind != "cpu":
            return (
                f"{name} is on {device_of(array)}, and a fit of Dask collections computes on the CPU: copy "
                f"it to the host first, {name}.map_blocks(sknet.device.to_host)"
            )
    return ""


def _fault_of_weights(weight: Any, n_rows: int) -> str:
    """Return what is wrong with the weights of so many rows, or nothing."""
    if weight is None:
        return ""
    values = np.asarray(weight, np.float64)
    if values.shape != (n_rows,):
        return f"sample_weight has shape {values.shape}, and X has {n_rows} rows"
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    return f"sample_weight must be finite and not negative, got {wrong[0]}" if len(wrong) else ""


def _fault_of_targets(y: Any, are_labels: bool) -> str:
    """Return what is wrong with targets, or nothing."""
    targets = np.asarray(y)
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        return f"y contains {'NaN' if np.isnan(targets).any() else 'infinity'}"
    if targets.dtype.kind != "O":
        return ""
    if np.asarray(y.isna() if hasattr(y, "isna") else [x is None or x != x for x in targets.ravel()]).any():
        return "y contains missing values, NaN or None"
    kinds = {type(x).__name__ for x in targets.ravel()}
    if are_labels and "str" in kinds and len(kinds) > 1:
        return f"y has labels of types {' and '.join(sorted(kinds))}: convert them to one"
    return ""


@contextmanager
def naming_partition(number: int) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error


def first_rows(part: Partition, most: int) -> tuple[Any, Any]:
    rows = slice(0, most)
    return tuple(x.iloc[rows] if hasattr(x, "iloc") else x[rows] for x in (part.X, part.y))


def moments_of(part: Partition, number: int, seed: int, fraction: float) -> Sequence[Moments]:
    y = np.asarray(part.y, np.float64)
    y = y.reshape(len(y), -1)
    weight = np.ones(len(y)) if part.weight is None else np.asarray(part.weight, np.float64)
    held_out = held_out_rows(len(y), fraction, seed=seed, partition=number)
    training = np.setdiff1d(np.arange(len(y)), held_out)
    return [moments_of_columns(y[rows], weight[rows]) for rows in (training, held_out)]


def moments_of_columns(y: Any, weight: Any) -> Moments:
    total = float(weight.sum())
    if not total:
        return Moments(0.0, np.zeros(y.shape[1]), np.zeros(y.shape[1]))
    first = y[int(weight.argmax())]
    y = y - first  # constants have no deviation then, and a mean without rounding
    mean = weight @ y / total
    return Moments(total, first + mean, weight @ (y - mean) ** 2)


BEFORE = 0  # the place of epochs, which count from 1, in the seed of held-out rows


class Order:
    """The order of one partition's rows in an epoch, and where it is cut."""

    def __init__(self, rows: Rows, cuts: Rows) -> None:
        self.rows, self.cuts = rows, cuts

    def of_batch(self, number: int) -> Rows:
        """Return the rows that a batch takes from this partition."""
        return self.rows[self.cuts[number] : self.cuts[number + 1]]


def order_of(n_rows: int, n_batches: int, *, seed: int, epoch: int, partition: int, shuffle: bool) -> Order:
    draws = np.random.default_rng([seed, epoch, partition])
    # Without an offset of its own, many small partitions would all skip the same batches.
    offset = draws.random()
    cuts = np.floor(np.arange(n_batches + 1) * (n_rows / n_batches) + offset).astype(np.int64)
    cuts[-1] = n_rows
    return Order(draws.permutation(n_rows) if shuffle else np.arange(n_rows), np.minimum(cuts, n_rows))


def held_out_rows(n_rows: int, fraction: float, *, seed: int, partition: int) -> Rows:
    draws = np.random.default_rng([seed, BEFORE, partition])
    # Rounded up or down at random, so that small partitions give their share on average.
    count = math.floor(n_rows * fraction + draws.random())
    return np.sort(draws.permutation(n_rows)[:count])


def batch_rows(
    sizes: Sequence[int], batch_size: int, *, seed: int, epoch: int, shuffle: bool = True
) -> list[Rows]:
    """Return the rows of every batch of an epoch of a fit over workers, as indices in the joined partitions.

    Each batch has a proportional share of the rows of each partition, in an order that depends only on
    `seed`, `epoch` and the partition. So batches do not depend on the distribution of partitions to workers,
    and a local model that is trained on these batches gets the same parameters up to rounding.

    Parameters
    ----------
    sizes : sequence of int
        Number of rows of each non-empty partition.
    batch_size : int
        Approximate number of rows of a batch; an epoch has ``ceil(sum(sizes) / batch_size)`` batches of
        nearly one size.
    seed : int
        Seed of the fit: the result of ``model_.random_state.randint(2**31)`` after the weights are drawn.
    epoch : int
        Number of the epoch, from 1.
    shuffle : bool, default=True
        As for the estimators.

    Returns
    -------
    list of ndarray of int
        Row indices of each batch.

    Examples
    --------
    >>> from sknet.dask import batch_rows
    >>> batch_rows([4, 2], 3, seed=0, epoch=1, shuffle=False)
    [array([0, 1, 4]), array([2, 3, 5])]
    """
    n_batches = -(-sum(sizes) // batch_size)
    starts = np.cumsum([0, *sizes])
    orders = [
        order_of(size, n_batches, seed=seed, epoch=epoch, partition=number, shuffle=shuffle)
        for number, size in enumerate(sizes)
    ]
    return [
        np.concatenate([start + order.of_batch(k) for start, order in zip(starts[:-1], orders, strict=True)])
        for k in range(n_batches)
    ]


def map_blocks(method: Callable[..., Any], estimator: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the lazy results of a method of an estimator for the rows of a collection."""
    check_is_fitted(estimator)
    blocks = blocks_of(X)
    like = _blank(X)
    known = method(estimator, like, *args, **kwargs)
    lengths = X.chunks[0] if isinstance(X, da.Array) else (np.nan,) * len(blocks)
    # One node of the graph holds the estimator, and says by its name that it is not to be compared.
    held = dask.delayed(
        estimator.slim() if hasattr(estimator, "slim") else estimator, pure=False, traverse=False
    )
    call = dask.delayed(_called, pure=False, nout=len(known) if isinstance(known, (tuple, list)) else None)
    results = [call(method.__name__, held, block, like, args, kwargs) for block in blocks]
    if isinstance(known, (tuple, list)):
        return type(known)(
            _joined([result[i] for result in results], lengths, each) for i, each in enumerate(known)
        )
    return _joined(results, lengths, known)


def _blank(X: Any) -> Any:
    """Return some rows of the kind of X, from which follows what is predicted."""
    if isinstance(X, da.Array):
        return np.zeros((1, *map(int, X.shape[1:])), X.dtype)
    return X._meta_nonempty  # Dask's own example of its partitions


def _called(name: str, estimator: Any, X: Any, like: Any, args: Any, kwargs: Any) -> Any:
    method = getattr(estimator, name)
    if len(X):
        return method(X, *args, **kwargs)
    known = method(like, *args, **kwargs)
    return type(known)(x[:0] for x in known) if isinstance(known, (tuple, list)) else known[:0]


def _joined(results: list[Any], lengths: Any, known: Any) -> Any:
    """Return an array of lazy partitions."""
    found = [
        da.from_delayed(result, (length, *known.shape[1:]), dtype=known.dtype, meta=known[:0])
        for result, length in zip(results, lengths, strict=True)
    ]
    return da.concatenate(found, allow_unknown_chunksizes=True)
