"""The compiled passes of a frozen network, and which numbers of rows they compute."""

from typing import Any

import numpy as np

from sknet import ops
from sknet.core import Tensor, no_grad
from sknet.device import Device
from sknet.engine.extend import (
    MOST_ROWS,
    Head,
    Layout,
    Pass,
    Predictor,
    apply_head,
    are_arrays,
    arguments,
    computed_dtype,
    each_input,
    in_chunks,
    n_rows,
    row_shapes,
    rows_at_once,
    rows_of_a_part,
)
from sknet.exceptions import CaptureError, GraphError
from sknet.nn import Module, Scope, run

__all__ = ["Passes"]

HOST = Device("cpu")
MOST_REPEATED = 4  # numbers of rows that have a program because they come again and again


class Passes:
    """A network in evaluation mode, and a compiled pass for each kind of prediction."""

    def __init__(self, module: Module, layout: Layout, flat: np.ndarray) -> None:
        self._module, self._layout, self._flat = module, layout, flat
        self._predictors: dict[str, Predictor | None] = {}
        self._rows: dict[Any, int] = {}
        self._latest = 0
        self._repeated: tuple[int, ...] = ()

    def of_row(self, X: np.ndarray, name: str) -> Any:
        """Return the result for the only row of a table of numbers; None where more has to be done for it."""
        known = self._predictors.get(name)
        return None if known is None else known.of_row(X)

    def compute(self, X: Any, name: str, head: Head | None, by: Pass = run, part: str = "") -> Any:
        """Return the result for inputs of any number of rows."""
        known = self._predictors.get(name)
        if known is not None and type(X) is np.ndarray and X.shape[0] == 1 and known.is_for(self._flat, head):
            return known.at_once(X)
        rows = self.rows_at_once(X, part)
        of_layer = by is not run and type(X) is np.ndarray  # an estimator computes these in parts, too
        if of_layer or (are_arrays(X) and self._has_program(X, min(rows, MOST_ROWS))):
            try:
                predictor = self._predictor(name, head, by, rows)
                if predictor is not None:
                    return predictor(X) if of_layer else predictor.at_once(X)
            except (CaptureError, GraphError):
                self._predictors[name] = None  # computed one operation after the other
        return in_chunks(
            lambda chunk: apply_head(head, self._raw(chunk, by)), X, rows, self._flat.dtype, HOST
        )

    def _has_program(self, X: Any, most: int) -> bool:
        """Tell whether a program computes all rows, to the same bits as the estimator does."""
        n = X.shape[0] if type(X) is np.ndarray else n_rows(X)
        if n == 1:
            return True
        arrays = X.values() if isinstance(X, dict) else (X,)
        if n > most or not all(x.flags.c_contiguous for x in arrays):
            return False
        before, self._latest = self._latest, n
        if n == rows_of_a_part(n) or n in self._repeated:
            return True
        if n != before or len(self._repeated) == MOST_REPEATED:
            return False
        self._repeated = (*self._repeated, n)  # batches of one size are worth a program
        return True

    def rows_at_once(self, X: Any, part: str = "") -> int:
        """Return how many rows are computed at once, in bounded memory."""
        shapes = tuple([(name, x.shape[1:]) for name, x in X.items()]) if isinstance(X, dict) else X.shape[1:]
        key = (part, shapes)
        rows = self._rows.get(key)
        if rows is None:
            dtype = self._flat.dtype
            kinds = each_input(lambda x: computed_dtype(x, dtype), X)
            module = self._module.get_submodule(part) if part else self._module
            rows = self._rows[key] = rows_at_once(module, row_shapes(X), kinds)
        return rows

    def _predictor(self, name: str, head: Head | None, by: Pass, rows: int) -> Predictor | None:
        if name in self._predictors:
            known = self._predictors[name]
            if known is None or known.is_for(self._flat, head):
                return known
        most = min(MOST_ROWS, rows)
        found = Predictor(self._module, self._layout, self._flat, head, most, by, is_fixed=True)
        self._predictors[name] = found
        return found

    def _raw(self, X: Any, by: Pass) -> Any:
        with no_grad():
            given = each_input(lambda x: x if ops.is_sparse(x) else Tensor(x), X)
            return by(self._module, Scope({}), arguments(given)).data
