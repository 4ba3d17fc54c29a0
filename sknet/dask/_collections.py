"""Dask collections as partitions of rows, and what has to be known of them before a fit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

from sknet._frames import is_collection, is_frame
from sknet.dask._order import held_out_rows
from sknet.device import device_of, is_array
from sknet.ops import is_sparse

__all__ = ["Facts", "Moments", "Part", "blocks_of", "facts_of", "first_rows", "moments_of", "partitions_of"]


class Part(NamedTuple):
    """Rows of one partition."""

    X: Any
    y: Any
    weight: Any


class Facts(NamedTuple):
    """What the parts of a fit have to agree in, and what is counted over all."""

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
    """Return the rows of collections, partition by partition."""
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


def _part(X: Any, y: Any, weight: Any) -> Part:
    """Return a part: the targets may be a column, and the weight one number for all rows."""
    if _shape(y)[1:] == (1,) and (hasattr(y, "iloc") or isinstance(y, np.ndarray)):
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]
    is_number = weight is not None and not _shape(weight)
    return Part(X, y, np.full(X.shape[0], weight) if is_number else weight)


def _shape(x: Any) -> tuple[int, ...]:
    """Return a shape, also of an array on a device, which NumPy cannot read."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _lengths(X: Any) -> "tuple[int, ...] | None":
    """Return how many rows each partition has; None if that is unknown."""
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


def facts_of(part: Part, counts_labels: bool) -> Facts:
    """Return what is known of a part."""
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


def _fault_of_places(part: Part) -> str:
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


def first_rows(part: Part, most: int) -> tuple[Any, Any]:
    """Return the first rows of inputs and targets."""
    rows = slice(0, most)
    return tuple(x.iloc[rows] if hasattr(x, "iloc") else x[rows] for x in (part.X, part.y))


def moments_of(part: Part, number: int, seed: int, fraction: float) -> Sequence[Moments]:
    """Return the moments of the targets of a part."""
    y = np.asarray(part.y, np.float64)
    y = y.reshape(len(y), -1)
    weight = np.ones(len(y)) if part.weight is None else np.asarray(part.weight, np.float64)
    held_out = held_out_rows(len(y), fraction, seed=seed, partition=number)
    training = np.setdiff1d(np.arange(len(y)), held_out)
    return [_moments(y[rows], weight[rows]) for rows in (training, held_out)]


def _moments(y: Any, weight: Any) -> Moments:
    total = float(weight.sum())
    if not total:
        return Moments(0.0, np.zeros(y.shape[1]), np.zeros(y.shape[1]))
    mean = weight @ y / total
    return Moments(total, mean, weight @ (y - mean) ** 2)
