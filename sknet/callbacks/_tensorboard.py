"""Training curves in TensorBoard."""

import os
from typing import Any, Self

from sknet.callbacks._callback import Callback
from sknet.callbacks._optional import optional
from sknet.callbacks._view import FitView

__all__ = ["TensorBoardLog"]


class TensorBoardLog(Callback):
    """Write the numbers of every epoch for TensorBoard.

    It needs tensorboardX (``pip install 'sknet[tensorboard]'``), or a writer. If writing fails during the
    fit, the fit ends with a warning, and its result is kept.

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
    score 0.3
    """

    order = 1
    of_one_fit = "writes the curves of one fit: read histories_ after the fit, or set n_members=1"
    keeps_result = True
    _parameter_constraints: dict[str, Any] = {"log_dir": [str, os.PathLike, None], "writer": "no_validation"}

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

    def on_epoch_end(self, fit: FitView) -> None:
        for name, value in fit.record.items():
            self._writer.add_scalar(name, value, fit.history.n_epochs)
        self._writer.flush()

    def on_fit_end(self, fit: FitView) -> None:
        if "_writer" in self.__dict__ and self.writer is None:
            self._writer.close()
        self.__dict__.pop("_writer", None)
