"""Displays of weights, and of gradients during a training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from sknet._constraints import shown
from sknet._params import named_errors
from sknet.callbacks import GradientMonitor
from sknet.device import to_host
from sknet.display._base import Display, as_label, described, found_callback, network_of, signed_image, tiled

KINDS = ("auto", "filters", "matrix", "histogram")


@described
@dataclass(eq=False, repr=False)
class WeightsDisplay(Display):
    """A parameter of a network: its filters as images, the matrix, or a histogram of its values.

    Parameters
    ----------
    weights : ndarray
        The parameter. Of a convolution it has the shape (filters, channels, height, width), of a linear layer
        (inputs, units).
    name : str, default=None
        Title of the plot.

    Attributes
    ----------
    image_ : matplotlib AxesImage or None
        Filters or matrix, with colours symmetric around 0.
    bars_ : matplotlib BarContainer or None
        The histogram.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_digits
    >>> from sknet import MLPClassifier
    >>> from sknet.display import WeightsDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = MLPClassifier((9,), tol=0.1, random_state=0).fit(X / 16, y)
    >>> display = WeightsDisplay.from_estimator(clf, image_shape=(8, 8), ax=Figure().subplots())
    >>> display.image_.get_array().shape    # 3 x 3 images of 8 x 8 pixels, with lines between them
    (26, 26)
    """

    weights: Any
    _: KW_ONLY
    name: str | None = None

    @classmethod
    @named_errors
    def from_estimator(
        cls,
        estimator: Any,
        parameter: str | None = None,
        *,
        kind: str = "auto",
        image_shape: tuple[int, int] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a parameter of a fitted estimator's network.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator, or a Pipeline that ends with one.
        parameter : str, default=None
            Path of the parameter, such as ``"0.weight"``; None is the first with two axes or more.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        parameters = network_of(estimator).model_.evaluation_parameters
        if parameter is None:
            parameter = next((name for name, array in parameters.items() if array.ndim > 1), None)
        if parameter not in parameters:
            raise ValueError(f"there is no parameter {parameter!r}; the network has {sorted(parameters)}")
        display = cls(to_host(parameters[parameter]), name=parameter)
        return display.plot(ax, kind=kind, image_shape=image_shape, **kwargs)

    @named_errors
    def plot(
        self,
        ax: Any = None,
        *,
        kind: str = "auto",
        image_shape: tuple[int, int] | None = None,
        n_columns: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the weights.

        Parameters
        ----------
        kind : {"auto", "filters", "matrix", "histogram"}, default="auto"
            "filters" shows an image for each filter and channel of a convolution, or for each unit of a
            linear layer if `image_shape` is given; "auto" chooses them where possible, then the matrix, then
            the histogram.
        image_shape : tuple of int, default=None
            Height and width, if the inputs of a linear layer are the pixels of images.
        n_columns : int, default=None
            Number of images in a row.
        **kwargs : dict
            Passed to matplotlib's ``imshow`` or ``bar``.

        Raises
        ------
        ValueError
            If the weights cannot be shown in this way.
        """
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}. Got {shown(kind)} instead.")
        weights = np.asarray(self.weights)
        kind = _best_kind(weights, image_shape) if kind == "auto" else kind
        ax = self._axes(ax)
        self.image_ = self.bars_ = None
        if kind == "histogram":
            counts, edges = np.histogram(weights.ravel(), bins="auto" if weights.size < 10**6 else 100)
            self.bars_ = ax.bar(edges[:-1], counts, np.diff(edges), align="edge", **kwargs)
            ax.set(xlabel="weight", ylabel="number")
        else:
            page = tiled(_filters(weights, image_shape), n_columns) if kind == "filters" else _matrix(weights)
            self.image_ = signed_image(ax, page, kwargs)
            _label(ax, kind)
        ax.set_title(as_label(self.name or ""))
        return self


def _label(ax: Any, kind: str) -> None:
    if kind == "filters":
        ax.set(xticks=[], yticks=[])
    else:
        ax.set(xlabel="unit", ylabel="input", aspect="auto")


def _best_kind(weights: Any, image_shape: tuple[int, int] | None) -> str:
    if weights.ndim == 4 or (weights.ndim == 2 and image_shape is not None):
        return "filters"
    return "matrix" if weights.ndim == 2 else "histogram"


def _filters(weights: Any, image_shape: tuple[int, int] | None) -> Any:
    """Return weights as images of shape (n, height, width)."""
    if weights.ndim == 4:
        return weights.reshape(-1, *weights.shape[2:])
    shape = image_shape if image_shape and min(image_shape) > 0 else ()
    if weights.ndim == len(shape) == 2 and len(weights) == math.prod(shape):
        return weights.T.reshape(-1, *shape)
    raise ValueError(
        f"weights of shape {weights.shape} are no filters"
        + ("" if image_shape is None else f" of shape {tuple(image_shape)}")
        + ": expected (filters, channels, height, width), or (inputs, units) and image_shape=(height, width) "
        "whose product is the number of inputs"
    )


def _matrix(weights: Any) -> Any:
    if weights.ndim != 2:
        raise ValueError(f"only weights with two axes are a matrix, got shape {weights.shape}")
    return weights


@described
@dataclass(eq=False, repr=False)
class GradientDisplay(Display):
    """Norm of each parameter's gradient in the course of a fit, as measured by `GradientMonitor`.

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

    epochs: Sequence[int]
    norms: Mapping[str, Sequence[float]]
    weight_norms: Mapping[str, Sequence[float]] | None = None

    @classmethod
    @named_errors
    def from_estimator(cls, estimator: Any, *, relative: bool = False, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the norms that the `GradientMonitor` of a fitted estimator has measured.

        Parameters
        ----------
        estimator : estimator
            An estimator that was fitted with a `GradientMonitor`, or a Pipeline that ends with one.

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

    @named_errors
    def plot(self, ax: Any = None, *, relative: bool = False, **kwargs: Any) -> Self:
        """Draw a curve for each parameter.

        Parameters
        ----------
        relative : bool, default=False
            Whether to divide each norm by that of the parameter.

        Raises
        ------
        ValueError
            If `relative` is true and the norms of the parameters are not known.
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
            (self.lines_[name],) = ax.plot(self.epochs, values, **{"label": as_label(name), **kwargs})
        what = "gradient norm / weight norm" if relative else "gradient norm"
        ax.set(xlabel="epoch", ylabel=what, yscale="log")
        ax.legend(fontsize="small")
        return self
