"""A line for every epoch."""

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

from sknet._params import Interval
from sknet.callbacks._callback import Callback
from sknet.callbacks._view import FitView

__all__ = ["PrintLog"]

FORMATS = {"loss": "loss = {:.8f}", "score": "score = {:.4f}", "validation_loss": "validation loss = {:.8f}"}
LAST = {"lr": "learning rate = {:g}", "time": "time = {:.3f} s"}


class PrintLog(Callback):
    """Print a line for every epoch, or every `every` epochs: what ``verbose=True`` does.

    Parameters
    ----------
    every : int, default=1
        Number of epochs between lines.
    report : callable or None, default=None
        ``report(epoch, record)`` returns the line; None prints all numbers of the epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import PrintLog
    >>> X, y = load_iris(return_X_y=True)
    >>> log = PrintLog(every=5, report=lambda epoch, record: f"{epoch}: {record['score']:.1f}")
    >>> clf = MLPClassifier(tol=0.05, random_state=0, callbacks=[log])
    >>> _ = clf.fit(X, y)
    5: 0.3
    10: 0.7
    15: 0.7
    """

    _parameter_constraints = {
        "every": [Interval(Integral, 1, None, closed="left")],
        "report": [callable, None],
    }

    def __init__(
        self, every: int = 1, *, report: Callable[[int, Mapping[str, float]], str] | None = None
    ) -> None:
        self.every = every
        self.report = report

    def on_epoch_end(self, fit: FitView) -> None:
        if fit.epoch % self.every == 0:
            print((self.report or _line)(fit.epoch, fit.record))


def _line(epoch: int, record: Mapping[str, Any]) -> str:
    """Return the numbers of an epoch as one line."""
    said = [f"Iteration {epoch}"]
    for name, value in record.items():
        if name not in LAST:
            said.append(FORMATS.get(name, f"{name.replace('_', ' ')} = {{:.4f}}").format(value))
    return ", ".join([*said, *(form.format(record[name]) for name, form in LAST.items() if name in record)])
