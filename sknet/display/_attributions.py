"""What an output owes to each input."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from sknet._constraints import shown
from sknet.display._base import Display, largest, network_of, tiled, transformed

__all__ = ["AttributionDisplay"]

METHODS = ("integrated_gradients", "input_gradient")


class AttributionDisplay(Display):
    """Attributions of rows: as images, as bars of one row, or as mean sizes over several rows.

    Parameters
    ----------
    attributions : ndarray of shape (n_samples, n_features)
        How much each input contributes.
    feature_names : list of str, default=None
        Names of the inputs.
    image_shape : tuple of int, default=None
        Height and width, if the inputs are the pixels of an image.

    Attributes
    ----------
    image_ : matplotlib AxesImage or None
        The rows as images, with colours symmetric around 0.
    bars_ : matplotlib BarContainer or None
        The inputs with the largest attributions, the largest on top.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.display import AttributionDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), max_iter=50, tol=0.1, random_state=0).fit(X, y)
    >>> display = AttributionDisplay.from_estimator(clf, X[:1], ax=Figure().subplots())
    >>> len(display.bars_)
    4
    """

    def __init__(
        self,
        attributions: Any,
        *,
        feature_names: Sequence[str] | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        self.attributions = attributions
        self.feature_names = feature_names
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        target: Any = None,
        method: str = "integrated_gradients",
        feature_names: Sequence[str] | None = None,
        image_shape: tuple[int, int] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Compute attributions, and draw them.

        Parameters
        ----------
        estimator : estimator
            Fitted; or a Pipeline that ends with one, in which case the attributions are those of the
            network's inputs.
        X : array-like of shape (n_samples, n_features)
            Inputs.
        target : label, int or array-like of shape (n_samples,), default=None
            As for `integrated_gradients`.
        method : {"integrated_gradients", "input_gradient"}, default="integrated_gradients"
            The estimator's method.
        feature_names : list of str, default=None
            Names of the inputs; None takes those of the fit.
        image_shape : tuple of int, default=None
            Height and width, if the inputs are the pixels of an image.
        ax : matplotlib Axes, default=None
            What to draw into; None makes a figure.
        **kwargs : dict
            Passed to matplotlib's ``imshow`` or ``barh``.

        Returns
        -------
        display
            Drawn.

        Raises
        ------
        ValueError
            If there is no such method.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}. Got {shown(method)} instead.")
        network = network_of(estimator)
        found = getattr(network, method)(transformed(estimator, X), target=target)
        names = getattr(network, "feature_names_in_", None) if feature_names is None else feature_names
        return cls(found, feature_names=names, image_shape=image_shape).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, n_columns: int | None = None, most: int = 15, **kwargs: Any) -> Self:
        """Draw the attributions.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            What to draw into; None makes a figure.
        n_columns : int, default=None
            Images in a row.
        most : int, default=15
            Bars at most.
        **kwargs : dict
            Passed to matplotlib's ``imshow`` or ``barh``.

        Returns
        -------
        display
            This one.
        """
        ax = self._axes(ax)
        self.image_ = self.bars_ = None
        flat = np.asarray(self.attributions, dtype=float)
        flat = flat.reshape(len(flat), -1)
        if self.image_shape is not None:
            page = tiled(flat.reshape(-1, *self.image_shape), n_columns)
            bound = largest([page])
            options = {"cmap": "RdBu_r", "vmin": -bound, "vmax": bound, "interpolation": "nearest", **kwargs}
            self.image_ = ax.imshow(page, **options)
            ax.set(xticks=[], yticks=[])
            ax.figure.colorbar(self.image_, ax=ax, label="attribution")
            return self
        values = flat[0] if len(flat) == 1 else np.abs(flat).mean(axis=0)
        order = np.argsort(np.abs(values), kind="stable")[-most:]
        names = [f"feature {place}" for place in range(len(values))]
        names = names if self.feature_names is None else list(map(str, self.feature_names))
        self.bars_ = ax.barh([names[place] for place in order], values[order], **kwargs)
        ax.set_xlabel("attribution" if len(flat) == 1 else "mean size of the attribution")
        return self
