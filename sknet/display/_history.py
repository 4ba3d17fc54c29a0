"""The course of a fit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from sknet.display._base import Display, network_of

__all__ = ["LossCurveDisplay"]


class LossCurveDisplay(Display):
    """Losses or scores by epoch: of training and of held-out rows, with the best epoch and the learning rate.

    Parameters
    ----------
    history : mapping of str to list of float
        Columns with a number per epoch, as in ``history_`` or the result of ``Model.fit``.
    best_epoch : int, default=None
        The epoch to mark, counted from 1.
    metric : str, default="loss"
        The column; that of the held-out rows has the prefix ``"validation_"``.
    estimator_name : str, default=None
        Title of the picture.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The training curve.
    validation_line_ : matplotlib Line2D or None
        The curve of the held-out rows.
    best_line_ : matplotlib Line2D or None
        The mark of the best epoch.
    lr_line_ : matplotlib Line2D or None
        The learning rates, on axes of their own.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    See Also
    --------
    sknet.engine.History : The numbers.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.display import LossCurveDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), max_iter=30, early_stopping=True, tol=0.1, random_state=0).fit(X, y)
    >>> display = LossCurveDisplay.from_estimator(clf, ax=Figure().subplots())
    >>> bool((display.line_.get_ydata() == clf.loss_curve_).all())
    True
    """

    def __init__(
        self,
        history: Mapping[str, Sequence[float]],
        *,
        best_epoch: int | None = None,
        metric: str = "loss",
        estimator_name: str | None = None,
    ) -> None:
        self.history = history
        self.best_epoch = best_epoch
        self.metric = metric
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        metric: str = "loss",
        learning_rate: bool = False,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted; or a Pipeline that ends with one.
        metric : str, default="loss"
            A column of its history, such as ``"score"``.
        learning_rate : bool, default=False
            Whether to draw the learning rate, too.
        ax : matplotlib Axes, default=None
            What to draw into; None makes a figure.
        **kwargs : dict
            Of the curves: passed to matplotlib's ``plot``.

        Returns
        -------
        display
            Drawn.
        """
        network = network_of(estimator)
        name = type(network).__name__
        display = cls(network.history_, best_epoch=network.best_epoch_, metric=metric, estimator_name=name)
        return display.plot(ax, learning_rate=learning_rate, **kwargs)

    def plot(self, ax: Any = None, *, learning_rate: bool = False, **kwargs: Any) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            What to draw into; None makes a figure.
        learning_rate : bool, default=False
            Whether to draw the learning rate, too.
        **kwargs : dict
            Of the curves: passed to matplotlib's ``plot``.

        Returns
        -------
        display
            This one.

        Raises
        ------
        ValueError
            If the history has no such column.
        """
        validation = f"validation_{self.metric}"
        if not any(len(self.history.get(name, ())) for name in (self.metric, validation)):
            names = ", ".join(repr(name) for name, column in self.history.items() if len(column))
            raise ValueError(f"the history has no column {self.metric!r}; it has {names or 'no epoch'}")
        ax = self._axes(ax)
        self.line_ = self._curve(ax, self.metric, "training", kwargs)
        self.validation_line_ = self._curve(ax, validation, "validation", kwargs)
        self.best_line_ = None
        if self.best_epoch is not None:
            label = f"best epoch {self.best_epoch}"
            self.best_line_ = ax.axvline(self.best_epoch, linestyle="--", color="0.5", label=label)
        ax.set(xlabel="epoch", ylabel=self.metric.replace("_", " "), title=self.estimator_name or "")
        self.lr_line_ = self._rates(ax) if learning_rate else None
        lines = (self.line_, self.validation_line_, self.best_line_, self.lr_line_)
        ax.legend(handles=[line for line in lines if line is not None])
        return self

    def _curve(self, ax: Any, name: str, label: str, kwargs: dict[str, Any]) -> Any:
        values = np.asarray(self.history.get(name, ()), dtype=float)
        if not np.isfinite(values).any():
            return None
        return ax.plot(np.arange(1, len(values) + 1), values, **{"label": label, **kwargs})[0]

    def _rates(self, ax: Any) -> Any:
        rates = [rate if rate else math.nan for rate in self.history.get("lr", ())]
        other = ax.twinx()
        other.set(ylabel="learning rate", yscale="log")
        epochs = np.arange(1, len(rates) + 1)
        return other.plot(epochs, rates, color="0.6", linestyle=":", label="learning rate")[0]
