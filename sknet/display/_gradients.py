"""Norms of gradients by parameter and epoch."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from sknet.callbacks import GradientMonitor
from sknet.display._base import Display, found_callback

__all__ = ["GradientDisplay"]


class GradientDisplay(Display):
    """How large the gradient of each parameter was in the course of a fit, as `GradientMonitor` measured it.

    Parameters
    ----------
    epochs : list of int
        The epochs of the measurements.
    norms : mapping of str to list of float
        Norms of the gradients by parameter.
    weight_norms : mapping of str to list of float, default=None
        Norms of the parameters themselves.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
        The curves by parameter.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import GradientMonitor
    >>> from sknet.display import GradientDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0.1, random_state=0, callbacks=[GradientMonitor()]).fit(X, y)
    >>> display = GradientDisplay.from_estimator(clf, ax=Figure().subplots())
    >>> sorted(display.lines_)
    ['0.bias', '0.weight', '2.bias', '2.weight']
    """

    def __init__(
        self,
        epochs: Sequence[int],
        norms: Mapping[str, Sequence[float]],
        weight_norms: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.epochs = epochs
        self.norms = norms
        self.weight_norms = weight_norms

    @classmethod
    def from_estimator(cls, estimator: Any, *, relative: bool = False, ax: Any = None, **kwargs: Any) -> Self:
        """Draw what the `GradientMonitor` of a fitted estimator has measured.

        Parameters
        ----------
        estimator : estimator
            Fitted with a `GradientMonitor` among its callbacks; or a Pipeline that ends with one.
        relative : bool, default=False
            As for `plot`.
        ax : matplotlib Axes, default=None
            What to draw into; None makes a figure.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

        Returns
        -------
        display
            Drawn.

        Raises
        ------
        ValueError
            If there is no monitor.
        """
        monitor = found_callback(estimator, GradientMonitor)
        if monitor is None:
            raise ValueError("nothing has measured gradients: fit with callbacks=[GradientMonitor()]")
        display = cls(monitor.epochs_, monitor.norms_, monitor.weight_norms_)
        return display.plot(ax, relative=relative, **kwargs)

    def plot(self, ax: Any = None, *, relative: bool = False, **kwargs: Any) -> Self:
        """Draw a curve for each parameter.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            What to draw into; None makes a figure.
        relative : bool, default=False
            Divide each norm by that of the parameter.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

        Returns
        -------
        display
            This one.

        Raises
        ------
        ValueError
            If norms are to be divided by those of the parameters, which are not known.
        """
        if relative and self.weight_norms is None:
            raise ValueError("relative=True needs weight_norms, the norms of the parameters")
        ax = self._axes(ax)
        self.lines_ = {}
        for name, column in self.norms.items():
            values = np.asarray(column, dtype=float)
            if relative and self.weight_norms is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    values = values / np.asarray(self.weight_norms[name], dtype=float)
            values = np.where(np.isfinite(values) & (values > 0), values, np.nan)
            (self.lines_[name],) = ax.plot(self.epochs, values, **{"label": name, **kwargs})
        what = "gradient norm / weight norm" if relative else "gradient norm"
        ax.set(xlabel="epoch", ylabel=what, yscale="log")
        ax.legend(fontsize="small")
        return self
