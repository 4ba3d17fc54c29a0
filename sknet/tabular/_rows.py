"""Rows of a table that are encoded when they are read, so that only the table itself is in memory."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._config import native_core
from sknet.engine.extend import ComputedRows
from sknet.preprocessing.extend import Crossed, NativeRows, Table

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder
    from sknet.preprocessing.extend import FittedEncoder

__all__ = ["EncodedRows", "encoded_rows"]

# Encoded rows of up to so many bytes are kept: they stay in the cache, and a batch of them is only copied.
KEPT_BYTES = 2**24
# Without native code, encoding anew in every epoch takes longer, so more is kept.
MOST_BYTES = 2**28


class EncodedRows(ComputedRows):
    """Rows of a table, which behave like an array of their encodings, but hold only which rows they are."""

    def __init__(
        self,
        encoder: "TableEncoder | FittedEncoder",
        table: Table,
        rows: "np.ndarray | None" = None,
        fitted: "Mapping[int, Crossed] | None" = None,
    ) -> None:
        n_rows = table.n_rows if rows is None else len(rows)
        super().__init__((n_rows, encoder.n_features_out_), np.dtype(encoder.dtype))
        self._encoder, self._table, self._fitted = encoder, table, dict(fitted or {})
        self._rows = None if rows is None else np.ascontiguousarray(rows, np.int64)
        if self._rows is not None and not _are_in(self._rows, table.n_rows):
            raise IndexError(f"rows of a table of {table.n_rows} rows must be from 0 to {table.n_rows - 1}")
        self._native: NativeRows | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_native": None}  # it holds addresses of this process

    @property
    def is_native(self) -> bool:
        """Whether native code encodes rows."""
        return self._table.sparse is None and self.dtype == np.float32 and native_core() is not None

    def write(self, rows: np.ndarray, out: np.ndarray) -> None:
        rows = np.asarray(rows)
        is_plain = out.flags.c_contiguous and out.dtype == np.float32 and rows.dtype.kind in "iu"
        fits = out.shape == (*rows.shape, self.shape[1])
        if not (is_plain and fits and self.is_native and _are_in(rows, len(self))):
            out[...] = self._by_numpy(rows)
            return
        chosen = np.ascontiguousarray(rows, np.int64)
        if self._native is None:
            self._native = NativeRows(self._encoder.plan, self._table, self._fitted)
        places = chosen if self._rows is None else self._rows[chosen]
        self._native.encode(chosen, places, out)

    def _by_numpy(self, rows: np.ndarray) -> np.ndarray:
        places = rows if self._rows is None else self._rows[rows]
        table = self._table.take(places)
        fitted = {i: Crossed(each.values, each.codes[rows]) for i, each in self._fitted.items()}
        return np.asarray(self._encoder.encode(table, *([fitted] if fitted else [])))


def _are_in(rows: np.ndarray, n_rows: int) -> bool:
    """Tell whether all indices are those of rows, which native code does not check."""
    return not len(rows) or bool(rows.min() >= 0 and rows.max() < n_rows)


def encoded_rows(
    encoder: "TableEncoder | FittedEncoder",
    table: Table,
    rows: "np.ndarray | None" = None,
    fitted: "Mapping[int, Crossed] | None" = None,
) -> Any:
    """Return encoded rows of a table: an array, a CSR array, or `EncodedRows` if an array is too large."""
    if table.sparse is not None:
        table = table if rows is None else table.take(rows)
        return encoder.encode(table, *([dict(fitted)] if fitted else []))
    found = EncodedRows(encoder, table, rows, fitted)
    is_large = found.nbytes > (KEPT_BYTES if found.is_native else MOST_BYTES)
    return found if is_large else found[:]
