"""A table of a fit, in a file."""

import csv
import os
from pathlib import Path
from typing import Any

from sknet.callbacks._callback import Callback
from sknet.callbacks._view import FitView

__all__ = ["CSVLog"]


class CSVLog(Callback):
    """Write the numbers of every epoch to a CSV file during the fit.

    The file is the history as a table: one line per epoch, with empty cells for missing numbers. A fit that
    continues another appends to its table. If writing fails during the fit, the fit ends with a warning,
    and its result is kept.

    Parameters
    ----------
    path : str or path-like
        The file; one that exists is overwritten.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import CSVLog
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fit.csv")
    ...     clf = MLPClassifier(tol=0.1, random_state=0, callbacks=[CSVLog(path)]).fit(X, y)
    ...     with open(path) as file:
    ...         print(next(file).strip())
    epoch,loss,score,lr,time
    """

    order = 1
    of_one_fit = "writes the table of one fit: read histories_ after the fit, or set n_members=1"
    keeps_result = True
    _parameter_constraints = {"path": [str, os.PathLike]}
    _stored_fields = {
        "_columns": list[str],
    }

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = path

    def on_fit_begin(self, fit: FitView) -> None:
        self._columns: list[str] = []
        self._write(fit, 0, "w")  # a file that cannot be written raises at once

    def on_epoch_end(self, fit: FitView) -> None:
        if list(fit.history) == self._columns:
            self._write(fit, fit.history.n_epochs - 1, "a")
        else:
            self._write(fit, 0, "w")

    def _write(self, fit: FitView, first: int, mode: str) -> None:
        """Write the epochs from `first` on, with a header if that is the very first."""
        history = fit.history
        self._columns = list(history)
        with Path(self.path).open(mode, newline="") as file:
            table = csv.writer(file)
            if mode == "w" and self._columns:
                table.writerow(["epoch", *self._columns])
            for number in range(first, history.n_epochs):
                table.writerow([number + 1, *(_shown(history[name][number]) for name in self._columns)])


def _shown(value: float) -> Any:
    return "" if value != value else value
