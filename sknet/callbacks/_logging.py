"""Callbacks that report a fit: lines, CSV files, TensorBoard, and a progress bar."""

import csv
import os
import time
from collections.abc import Callable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Self

from sknet._constraints import Taking
from sknet._late import optional
from sknet._params import Interval
from sknet.callbacks._callback import MANY, Callback, FitView

FORMATS = {"loss": "loss = {:.8f}", "score": "score = {:.4f}", "validation_loss": "validation loss = {:.8f}"}
LAST = {"lr": "learning rate = {:g}", "time": "time = {:.3f} s"}


class PrintLog(Callback):
    """Print a line for every epoch, or every `every` epochs: what ``verbose=True`` does.

    Parameters
    ----------
    every : int, default=1
        Number of epochs between lines.
    report : callable or None, default=None
        ``report(epoch, record)`` returns the line; None prints all metrics of the epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import PrintLog
    >>> X, y = load_iris(return_X_y=True)
    >>> log = PrintLog(every=5, report=lambda epoch, record: f"{epoch}: {record['score']:.1f}")
    >>> clf = MLPClassifier(tol=0.05, random_state=0, callbacks=[log])
    >>> _ = clf.fit(X, y)
    5: 0.8
    10: 0.9
    15: 0.9
    """

    _parameter_constraints = {
        "every": [Interval(Integral, 1, None, closed="left")],
        "report": [Taking(2, "an epoch and its record"), None],
    }

    def __init__(
        self, every: int = 1, *, report: Callable[[int, Mapping[str, float]], str] | None = None
    ) -> None:
        self.every = every
        self.report = report

    def epochs_ahead(self) -> int:
        return MANY

    def on_epoch_end(self, fit: FitView) -> None:
        if fit.epoch % self.every == 0:
            try:
                line = (self.report or _line)(fit.epoch, fit.record)
            except Exception as error:
                error.add_note(f"in the report of {type(self).__name__}, called as report(epoch, record)")
                raise
            print(line)


def _line(epoch: int, record: Mapping[str, Any]) -> str:
    said = [f"Iteration {epoch}"]
    for name, value in record.items():
        if name not in LAST:
            said.append(FORMATS.get(name, f"{name.replace('_', ' ')} = {{:.4f}}").format(value))
    return ", ".join([*said, *(form.format(record[name]) for name, form in LAST.items() if name in record)])


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
    _parameter_constraints = {"path": ["path"]}
    _stored_fields = {"_columns": list[str]}

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = path

    def on_fit_begin(self, fit: FitView) -> None:
        self._columns: list[str] = []
        self._write(fit, 0, "w")  # a file that cannot be written raises at once

    def epochs_ahead(self) -> int:
        return MANY

    def on_epoch_end(self, fit: FitView) -> None:
        if list(fit.history) == self._columns:
            self._write(fit, fit.history.n_epochs - 1, "a")
        else:
            self._write(fit, 0, "w")

    def _write(self, fit: FitView, first: int, mode: str) -> None:
        """Write the epochs from `first` on, with a header above the first of all."""
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


class TensorBoardLog(Callback):
    """Write the metrics of every epoch for TensorBoard.

    It needs tensorboardX (``pip install "scikit-neural[tensorboard]"``), or a writer. If writing fails during
    the fit, the fit ends with a warning, and its result is kept.

    Parameters
    ----------
    log_dir : str, path-like or None, default=None
        The folder; None lets tensorboardX create a folder in ``runs`` named by the time.
    writer : object or None, default=None
        An object with ``add_scalar(name, value, step)`` and ``flush()`` to write to instead, such as the
        ``SummaryWriter`` of tensorboardX or PyTorch. It is shared by all fits, and not closed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import TensorBoardLog
    >>> class Writer:
    ...     def add_scalar(self, name, value, step):
    ...         if name == "score" and step == 1:
    ...             print(name, f"{value:.1f}")
    ...
    ...     def flush(self):
    ...         pass
    >>> X, y = load_iris(return_X_y=True)
    >>> log = TensorBoardLog(writer=Writer())
    >>> _ = MLPClassifier(tol=0.1, random_state=0, callbacks=[log]).fit(X, y)
    score 0.5
    """

    order = 1
    of_one_fit = "writes the curves of one fit: read histories_ after the fit, or set n_members=1"
    keeps_result = True
    _parameter_constraints: dict[str, Any] = {"log_dir": ["path", None], "writer": "no_validation"}

    def __init__(self, log_dir: "str | os.PathLike[str] | None" = None, *, writer: Any = None) -> None:
        self.log_dir = log_dir
        self.writer = writer

    def __sklearn_clone__(self) -> Self:
        return type(self)(self.log_dir, writer=self.writer)  # an open file cannot be copied

    def on_fit_begin(self, fit: FitView) -> None:
        if self.writer is not None:
            self._writer = self.writer
            return
        tensorboard = optional("tensorboardX", "TensorBoardLog without a writer", "tensorboard")
        self._writer = tensorboard.SummaryWriter(None if self.log_dir is None else str(self.log_dir))

    def epochs_ahead(self) -> int:
        return MANY

    def on_epoch_end(self, fit: FitView) -> None:
        for name, value in fit.record.items():
            self._writer.add_scalar(name, value, fit.history.n_epochs)
        self._writer.flush()

    def on_fit_end(self, fit: FitView) -> None:
        if "_writer" in self.__dict__ and self.writer is None:
            self._writer.close()
        self.__dict__.pop("_writer", None)


FORMAT = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
PAUSE = 0.1  # seconds between updates of the bar's text
NOT_SHOWN = ("lr", "time")


class ProgressBar(Callback):
    """Show epochs, loss, scores and the remaining time: a line in a terminal, a widget in a notebook.

    ``verbose="bar"`` is this bar. It needs tqdm: ``pip install "scikit-neural[progress]"``. In joblib
    workers, for example in a search with ``n_jobs=2``, it is silent.

    Parameters
    ----------
    description : str or None, default=None
        Text before the number of the epoch.
    leave : bool, default=True
        Whether the bar stays when the fit has ended.

    Examples
    --------
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import ProgressBar
    >>> clf = MLPClassifier(callbacks=[ProgressBar("digits")])
    """

    order = 1
    may_warn = False
    _parameter_constraints = {"description": [str, None], "leave": ["boolean"]}
    _bar: Any = None
    _stored_fields = {"_shown": float, "_bar": None}

    def __init__(self, description: str | None = None, *, leave: bool = True) -> None:
        self.description = description
        self.leave = leave

    def on_fit_begin(self, fit: FitView) -> None:
        total = fit.max_epochs * fit.batches.n_batches
        self._shown = 0.0
        self._bar = shared_bar(total, self._described(0, fit), leave=self.leave)

    def on_block_end(self, fit: FitView) -> None:
        if self._bar is not None:
            self._bar.update(fit.step - self._bar.n)

    def on_epoch_end(self, fit: FitView) -> None:
        if self._bar is None:
            return
        now = time.monotonic()
        if now - self._shown > PAUSE:
            self._shown = now
            self._say(fit)
        # Batches of zero weight are not steps.
        self._bar.update(fit.epoch * fit.batches.n_batches - self._bar.n)

    def on_fit_end(self, fit: FitView) -> None:
        if self._bar is not None:
            bar, self._bar = self._bar, None
            try:
                if fit.epoch:
                    bar.set_description_str(self._described(fit.epoch, fit), refresh=False)
                    bar.set_postfix(_numbers(fit.record), refresh=True)
            finally:
                bar.close()

    def _say(self, fit: FitView) -> None:
        self._bar.set_description_str(self._described(fit.epoch, fit), refresh=False)
        self._bar.set_postfix(_numbers(fit.record), refresh=False)

    def _described(self, epoch: int, fit: FitView) -> str:
        before = "" if self.description is None else f"{self.description}: "
        return f"{before}epoch {epoch}/{fit.max_epochs}"


def shared_bar(total: float, description: str, *, leave: bool = True) -> Any:
    """Return a bar, such as one that several fits move together."""
    if _is_in_worker():
        return None
    tqdm = optional("tqdm.auto", "ProgressBar", "progress").tqdm
    return tqdm(total=total, desc=description, leave=leave, bar_format=FORMAT, mininterval=PAUSE)


def _numbers(record: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{value:.4f}" for name, value in record.items() if name not in NOT_SHOWN}


def _is_in_worker() -> bool:
    """Tell whether this runs in a parallel joblib worker."""
    from joblib.parallel import get_active_backend

    return bool((get_active_backend()[0].nesting_level or 0) > 0)
