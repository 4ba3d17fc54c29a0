"""Base of all displays: axes, the network inside a pipeline, and images side by side."""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sknet._constraints import shown
from sknet._late import optional
from sknet._params import described_by
from sknet.callbacks import Callback
from sknet.estimators._base import BaseNet
from sknet.preprocessing import TableEncoder
from sknet.tabular._base import is_ensemble

C = TypeVar("C", bound=Callback)
D = TypeVar("D", bound="Display")


class Display:
    """Base of the displays, whose docstrings `described` completes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.
    """

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw into; None makes a figure.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

        Returns
        -------
        display
            The drawn display.
        """
        raise NotImplementedError

    def _axes(self, ax: Any) -> Any:
        """Return axes to draw into, those of a new figure if there are none, and keep them."""
        if ax is None:
            ax = optional("matplotlib.pyplot", f"{type(self).__name__}.plot", "plot").subplots()[1]
        if not hasattr(ax, "figure"):
            raise TypeError(f"{type(self).__name__}: ax must be axes of Matplotlib or None, got {shown(ax)}")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def described(cls: type[D]) -> type[D]:
    """Complete the docstrings of a display by `Display`, and those of constructors by that of `plot`."""
    described_by(Display)(cls)
    described_by(Display.plot)(cls.plot)
    for name, method in vars(cls).items():
        if name.startswith("from_"):
            described_by(cls.plot)(method.__func__)
    return cls


def as_label(name: Any) -> str:
    """Return a name from data as a label: two dollars in it are no formula."""
    return str(name).replace("$", r"\$")


def network_of(estimator: Any, *, or_ensemble: bool = False) -> Any:
    """Return the fitted network (or ensemble for tables) at the end of a pipeline, or the estimator."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(last, BaseNet) and not (or_ensemble and is_ensemble(last)):
        raise TypeError(
            f"displays show networks of sknet, got {type(last).__name__}: pass an estimator such as "
            "MLPClassifier, or a Pipeline that ends with one"
        )
    check_is_fitted(last)
    return last


def transformed(estimator: Any, X: Any) -> Any:
    """Return X as the network at the end of a pipeline gets it."""
    has_steps = isinstance(estimator, Pipeline) and len(estimator) > 1
    return estimator[:-1].transform(X) if has_steps else X


def names_of_inputs(estimator: Any) -> Any:
    """Return the names of what the network at the end of a pipeline gets, None if they are not known."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(estimator, Pipeline) and hasattr(estimator, "feature_names_in_") and len(estimator) > 1:
        try:
            return estimator[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # of a step that has no names
            return None
    return getattr(last, "feature_names_in_", None)


def of_table_columns(estimator: Any, attributions: Any) -> tuple[Any, Any]:
    """Return attributions summed for the columns that a TableEncoder before the network reads, and names."""
    encoder = estimator[-2] if isinstance(estimator, Pipeline) and len(estimator) > 1 else None
    if not isinstance(encoder, TableEncoder):
        return attributions, names_of_inputs(estimator)
    found = np.zeros((len(attributions), encoder.n_features_in_))
    np.add.at(found.T, encoder.owners, np.asarray(attributions).T)
    return found, getattr(encoder, "feature_names_in_", None)


def found_callback(estimator: Any, kind: type[C]) -> C | None:
    network = network_of(estimator)
    return next((each for each in network.callbacks_ if isinstance(each, kind)), None)


def check_image_shape(shape: Any, n_pixels: int) -> None:
    if len(shape) != 2 or min(shape) < 1 or n_pixels % math.prod(shape):
        raise ValueError(
            f"image_shape must be the height and the width of images of {n_pixels} pixels, got {shown(shape)}"
        )


def tiled(images: Any, n_columns: int | None = None) -> Any:
    """Return images side by side as one, with a pixel between them that is NaN."""
    n, height, width = images.shape
    columns = math.ceil(math.sqrt(n)) if n_columns is None else min(n_columns, n)
    rows = math.ceil(n / columns)
    page = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), np.nan)
    for place, image in enumerate(images):
        top, left = place // columns * (height + 1), place % columns * (width + 1)
        page[top : top + height, left : left + width] = image
    return page


def signed_image(ax: Any, page: Any, options: Mapping[str, Any], **colorbar: Any) -> Any:
    bound = float(np.abs(page[np.isfinite(page)]).max(initial=0.0)) or 1.0
    given = {"cmap": "RdBu_r", "vmin": -bound, "vmax": bound, "interpolation": "nearest", **options}
    image = ax.imshow(page, **given)
    ax.figure.colorbar(image, ax=ax, **colorbar)
    return image
