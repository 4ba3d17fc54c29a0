"""Sequences of different lengths as one array."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sknet._constraints import shown
from sknet.exceptions import ShapeError


def pad_sequences(
    sequences: Sequence[Any], *, maxlen: int | None = None, dtype: "DTypeLike | None" = None, value: float = 0
) -> tuple[Any, Any]:
    """Return sequences of different lengths as one array, padded at the end, and their lengths.

    Parameters
    ----------
    sequences : sequence of array-like of shape (n_steps,) or (n_steps, n_features)
        One for each row; the shape after the first axis is the same for all.
    maxlen : int or None, default=None
        Steps of the result; of longer sequences the first `maxlen` are taken. None is the longest sequence.
    dtype : dtype or None, default=None
        Dtype of the result; None is one that holds all sequences.
    value : float, default=0
        Padding.

    Returns
    -------
    padded : ndarray of shape (n_sequences, maxlen) or (n_sequences, maxlen, n_features)
        The sequences, each followed by padding.
    lengths : ndarray of shape (n_sequences,), dtype=int64
        Steps of each sequence in `padded`.

    Raises
    ------
    ShapeError
        If a sequence has no axis of steps, or its other axes differ from those of the first one.
    ValueError
        If there are no sequences, `maxlen` is not positive, or the dtype does not hold `value` or a sequence.

    See Also
    --------
    sknet.NetClassifier.fit : Takes sequences as they are, or both, as ``fit(padded, y, lengths=lengths)``.

    Examples
    --------
    >>> from sknet.nn import pad_sequences
    >>> padded, lengths = pad_sequences([[5, 3, 8], [2], [7, 1]])
    >>> padded
    array([[5, 3, 8],
           [2, 0, 0],
           [7, 1, 0]])
    >>> lengths
    array([3, 1, 2])
    """
    arrays = [_as_array(each) for each in sequences]
    if not arrays:
        raise ValueError("pad_sequences needs at least one sequence, got none")
    if maxlen is not None and maxlen < 1:
        raise ValueError(f"maxlen must be at least 1, got {shown(maxlen)}")
    filled = [array for array in arrays if array.size] or arrays  # an empty list is a float64 array
    shape = filled[0].shape[1:]
    for i, array in enumerate(arrays):
        if array.dtype.kind not in "biuf" or not array.ndim or (array.size and array.shape[1:] != shape):
            raise ShapeError(
                f"sequences[{i}] must be numbers of shape {('n_steps', *shape)}, got {array.dtype} of shape "
                f"{array.shape}"
            )
    found = np.dtype(np.result_type(*filled) if dtype is None else dtype)
    steps = max(map(len, arrays)) if maxlen is None else maxlen
    padded = np.full((len(arrays), steps, *shape), _held(value, found, f"value={shown(value)}"))
    lengths = np.array([min(len(array), steps) for array in arrays], np.int64)
    for i, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
        if length:
            padded[i, :length] = _held(array[:length], found, f"sequences[{i}]")
    return padded, lengths


def _as_array(sequence: Any) -> Any:
    """Return a sequence as an array; steps that are arrays themselves, as Arrow has them, as its rows."""
    array = np.asarray(sequence)
    return np.asarray(array.tolist()) if array.dtype == object and array.ndim == 1 else array


def _held(values: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Return numbers in another dtype, if an integer one holds them."""
    with np.errstate(invalid="ignore"):
        found = np.asarray(values).astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(found, values):
        raise ValueError(f"{dtype} does not hold {name}: pass dtype=float")
    return found
