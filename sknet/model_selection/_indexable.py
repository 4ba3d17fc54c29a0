"""Inputs by name whose rows can be taken, as scikit-learn's splitters and searches do."""

from typing import Any

from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples


class IndexableDict(dict[str, Any]):
    """Arrays by name that are also indexed by rows, and have a length and a shape of rows.

    Parameters
    ----------
    *args, **kwargs
        As of a dict: arrays, frames or sparse matrices with one row a sample.

    Raises
    ------
    ValueError
        If there are no inputs, or their numbers of rows differ.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        counts = {name: _num_samples(x) for name, x in self.items()}
        if len(set(counts.values())) != 1:
            raise ValueError(
                f"X must have one input or several, each with one row a sample; numbers of rows: {counts}"
            )

    @property
    def shape(self) -> tuple[int]:
        return (_num_samples(next(iter(self.values()))),)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Return an input by its name, or some rows of all inputs, by a slice, a mask or row numbers."""
        if isinstance(key, str):
            return super().__getitem__(key)
        rows = key[0] if isinstance(key, tuple) else key  # scikit-learn adds an Ellipsis
        return IndexableDict({name: _safe_indexing(x, rows) for name, x in self.items()})

    def copy(self) -> "IndexableDict":
        return IndexableDict(self.items())

    def __reduce__(self) -> Any:
        return IndexableDict, (dict(self.items()),)


def indexable(X: Any) -> Any:
    """Return inputs or targets, such as a dict of arrays, as an object that scikit-learn can index by rows.

    Searches and cross-validation of this package need no such call. For functions of scikit-learn, such as
    ``cross_val_score`` or ``learning_curve``, pass the result.

    Parameters
    ----------
    X : dict of arrays, or array-like
        Inputs of a network, by the names of its arguments, or targets of its heads.

    Returns
    -------
    IndexableDict, or X
        A dict with rows; anything but a dict is returned as it is.

    Raises
    ------
    ValueError
        If the inputs have different numbers of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.model_selection import indexable
    >>> X = indexable({"image": np.zeros((60, 8, 8)), "table": np.zeros((60, 3))})
    >>> len(X), X[:10]["image"].shape
    (60, (10, 8, 8))
    """
    is_plain = isinstance(X, dict) and not hasattr(X, "tocsr") and not isinstance(X, IndexableDict)
    return IndexableDict(X) if is_plain else X
