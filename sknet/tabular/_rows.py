"""Rows that are encoded when they are read, for tables whose encoded rows would need much memory."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.preprocessing.extend import Table

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder

__all__ = ["MOST_ROWS", "EncodedRows", "blocks_of", "encoded_rows"]

# Rows whose outputs are computed at a time.
MOST_ROWS = 8192

# Encoded rows that take more bytes are encoded batch by batch, in every epoch anew: a tenth more time.
MOST_BYTES = 2**28


def blocks_of(n_rows: int) -> list[slice]:
    """Return slices of at most `MOST_ROWS` rows, which make up all of them."""
    return [slice(start, start + MOST_ROWS) for start in range(0, n_rows, MOST_ROWS)]


class EncodedRows:
    """Rows of a table, which behaves like an array of their encodings, but holds only the table.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted, with dense outputs.
    table : Table
        The rows.
    fitted : dict of int to ndarray, default=None
        Outputs of these rows that are known, as `fit_encoder` returns them.

    Attributes
    ----------
    shape : tuple of int
        Rows and outputs.
    dtype : dtype
        That of the outputs.
    """

    def __init__(
        self, encoder: "TableEncoder", table: Table, fitted: dict[int, np.ndarray] | None = None
    ) -> None:
        self._encoder, self._table, self._fitted = encoder, table, fitted
        self.shape = table.n_rows, encoder.n_features_out_
        self.dtype = np.dtype(encoder.dtype)
        self.ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return the outputs of some rows, given by a slice or an array of int."""
        fitted = {i: outputs[rows] for i, outputs in (self._fitted or {}).items()}
        found: np.ndarray = self._encoder.encode(self._table.take(rows), fitted)
        return found

    def take(self, rows: np.ndarray, axis: int = 0, out: Any = None, mode: str = "raise") -> np.ndarray:
        """Return the outputs of some rows, or write them into `out`, as NumPy's arrays do."""
        found = self[rows]
        if out is None:
            return found
        out[...] = found
        return found


def encoded_rows(encoder: "TableEncoder", table: Table, fitted: dict[int, np.ndarray] | None = None) -> Any:
    """Return the encoded rows of a table: an array, a CSR array, or `EncodedRows` if an array is too large.

    Parameters
    ----------
    encoder, table, fitted
        As for `EncodedRows`.

    Returns
    -------
    ndarray, CSR array or EncodedRows
        Of shape (n_samples, n_outputs).
    """
    n_bytes = table.n_rows * encoder.n_features_out_ * np.dtype(encoder.dtype).itemsize
    if encoder.sparse_output is False and n_bytes > MOST_BYTES:
        return EncodedRows(encoder, table, fitted)
    return encoder.encode(table, fitted)
