"""Displays of predictions: intervals, and attributions to inputs."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from sknet._constraints import shown
from sknet._late import issparse
from sknet._params import named_errors
from sknet.display._base import (
    Display,
    as_label,
    check_image_shape,
    described,
    names_of_inputs,
    network_of,
    of_table_columns,
    signed_image,
    tiled,
    transformed,
)
from sknet.exceptions import ShapeError


@described
@dataclass(eq=False, repr=False)
class IntervalDisplay(Display):
    """Predictions with prediction intervals, and the targets.

    Parameters
    ----------
    x : ndarray of shape (n_samples,)
        Positions, sorted.
    prediction : ndarray of shape (n_samples,)
        Predictions.
    low, high : ndarray of shape (n_samples,)
        Bounds of the intervals.
    y : ndarray of shape (n_samples,), default=None
        Targets.
    coverage : float, default=None
        Nominal coverage of the intervals.
    xlabel : str, default="x"
        Name of the horizontal axis.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The predictions.
    band_ : matplotlib PolyCollection
        The intervals.
    points_ : matplotlib PathCollection or None
        The targets.
    coverage_ : float or None
        Observed coverage: the share of the targets inside the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from sknet import MLPRegressor
    >>> from sknet.display import IntervalDisplay
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> y = X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=300)
    >>> reg = MLPRegressor((8,), loss="gaussian_nll", max_iter=300, tol=1e-2, random_state=0).fit(X, y)
    >>> display = IntervalDisplay.from_estimator(reg, X, y, coverage=0.9, ax=Figure().subplots())
    >>> 0.7 < display.coverage_ <= 1
    True
    """

    x: Any
    prediction: Any
    low: Any
    high: Any
    y: Any = None
    _: KW_ONLY
    coverage: float | None = None
    xlabel: str = "x"

    @classmethod
    @named_errors
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        coverage: float = 0.8,
        feature: int | str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Predict intervals, and draw them.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor that has `predict_interval`; or a Pipeline that ends with one.
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,), default=None
            Targets.
        coverage : float, default=0.8
            As for `predict_interval`.
        feature : int or str, default=None
            The column of X for the horizontal axis. None is the only column, or the rank of the prediction if
            there are several.

        Raises
        ------
        TypeError
            If the estimator predicts no intervals.
        ValueError
            If it predicts several targets.
        """
        network = network_of(estimator)
        if not hasattr(network, "predict_interval"):
            raise TypeError(
                f"this {type(network).__name__} predicts no intervals: fit a regressor with "
                "loss='gaussian_nll', or Quantile of several levels"
            )
        inputs = transformed(estimator, X)
        prediction, bounds = network.predict(inputs), network.predict_interval(inputs, coverage)
        if prediction.ndim != 1:
            raise ValueError(f"intervals of one target can be drawn, got {prediction.shape[1]} targets")
        x, xlabel = _positions(X, feature, prediction)
        order = np.argsort(x, kind="stable")
        low, high = bounds[order, 0], bounds[order, 1]
        target = None if y is None else np.asarray(y)
        if target is not None and target.shape != x.shape:
            raise ShapeError(f"y must hold one target for each of {len(x)} rows, got shape {target.shape}")
        target = None if target is None else target[order]
        display = cls(x[order], prediction[order], low, high, target, coverage=coverage, xlabel=xlabel)
        return display.plot(ax, **kwargs)

    @named_errors
    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw predictions, intervals and targets.

        Parameters
        ----------
        **kwargs : dict
            Passed to matplotlib's ``fill_between`` for the band.
        """
        ax = self._axes(ax)
        label = "interval" if self.coverage is None else f"{self.coverage:.0%} interval"
        self.band_ = ax.fill_between(self.x, self.low, self.high, **{"alpha": 0.3, "label": label, **kwargs})
        (self.line_,) = ax.plot(self.x, self.prediction, label="prediction")
        self.points_ = self.coverage_ = None
        if self.y is not None:
            inside = (np.asarray(self.low) <= self.y) & (self.y <= np.asarray(self.high))
            self.coverage_ = float(np.mean(inside))
            label = f"targets, {self.coverage_:.0%} inside"
            self.points_ = ax.scatter(self.x, self.y, s=6, color="0.4", label=label)
        ax.set(xlabel=as_label(self.xlabel), ylabel="target")
        ax.legend()
        return self


def _positions(X: Any, feature: Any, prediction: Any) -> tuple[Any, str]:
    """Return the horizontal positions of the rows, and what they are."""
    if feature is None and np.ndim(X) == 2 and np.shape(X)[1] == 1:
        feature = 0
    if feature is None:
        ranks = np.empty(len(prediction))
        ranks[np.argsort(prediction, kind="stable")] = np.arange(len(prediction))
        return ranks, "rank of the prediction"
    is_name, names = isinstance(feature, str), list(getattr(X, "columns", ()))
    if is_name and not names:
        raise ValueError(f"feature {feature!r} is a name, and this X has none: give the number of a column")
    if np.ndim(X) != 2:
        raise ShapeError(f"feature is a column of X, which must then have two axes, got {type(X).__name__}")
    count = np.shape(X)[1]
    if feature not in names if is_name else not -count <= feature < count:
        known = f"names are {shown(names)}, and numbers " if names else "numbers are "
        raise ValueError(f"feature {shown(feature)} is no column of X, whose {known}{-count} to {count - 1}")
    if names:
        name = feature if is_name else names[feature]
        return np.asarray(X[name]), str(name)
    column = X[:, [feature]].toarray()[:, 0] if issparse(X) else np.asarray(X)[:, feature]
    return column, f"feature {feature}"


METHODS = ("integrated_gradients", "input_gradient")


@described
@dataclass(eq=False, repr=False)
class AttributionDisplay(Display):
    """Attributions of rows: as images, as bars of one row, or as mean absolute values over several rows.

    Parameters
    ----------
    attributions : ndarray of shape (n_samples, n_features)
        Contribution of each input.
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

    attributions: Any
    _: KW_ONLY
    feature_names: Sequence[str] | None = None
    image_shape: tuple[int, int] | None = None

    @classmethod
    @named_errors
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        target: Any = None,
        baseline: Any = None,
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
            A fitted network or tabular ensemble, or a Pipeline that ends with one, in which case the
            attributions are those of the network's inputs. Contributions of the features that a
            `TableEncoder` or ``encoder="table"`` makes of a column are summed; gradients are those of the
            encoded inputs.
        X : array-like of shape (n_samples, n_features)
            Inputs.
        target : label, int or array-like of shape (n_samples,), default=None
            As for `integrated_gradients`.
        baseline : number or array-like, default=None
            As for `integrated_gradients`; `input_gradient` has no baseline.
        method : {"integrated_gradients", "input_gradient"}, default="integrated_gradients"
            The estimator's method.
        feature_names : list of str, default=None
            Names of the inputs; None takes those of the fit.
        image_shape : tuple of int, default=None
            Height and width, if the inputs are the pixels of an image.

        Raises
        ------
        ValueError
            If there is no such method, or `input_gradient` gets a baseline.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}. Got {shown(method)} instead.")
        network = network_of(estimator, or_ensemble=True)
        if not hasattr(network, method):
            raise ValueError(f"{type(network).__name__} has no {method}: use method={METHODS[0]!r}")
        if baseline is not None and method != METHODS[0]:
            raise ValueError(f"{method} has no baseline: leave it out, or use method={METHODS[0]!r}")
        options = {} if baseline is None else {"baseline": baseline}
        found = getattr(network, method)(transformed(estimator, X), target=target, **options)
        if method == METHODS[0]:
            found, names = of_table_columns(estimator, found)
        elif getattr(network, "encoder_", None) is not None:
            names = network.encoder_.get_feature_names_out()
        else:
            names = names_of_inputs(estimator)
        names = names if feature_names is None else feature_names
        return cls(found, feature_names=names, image_shape=image_shape).plot(ax, **kwargs)

    @named_errors
    def plot(self, ax: Any = None, *, n_columns: int | None = None, most: int = 15, **kwargs: Any) -> Self:
        """Draw the attributions.

        Parameters
        ----------
        n_columns : int, default=None
            Number of images in a row.
        most : int, default=15
            Maximum number of bars.
        **kwargs : dict
            Passed to matplotlib's ``imshow`` or ``barh``.

        Raises
        ------
        ValueError
            If the numbers of names and inputs differ, or the inputs are not images of `image_shape`.
        """
        ax = self._axes(ax)
        self.image_ = self.bars_ = None
        flat = np.asarray(self.attributions, dtype=float)
        flat = flat.reshape(len(flat), -1)
        if self.image_shape is not None:
            check_image_shape(self.image_shape, flat.shape[1])
            page = tiled(flat.reshape(-1, *self.image_shape), n_columns)
            self.image_ = signed_image(ax, page, kwargs, label="attribution")
            ax.set(xticks=[], yticks=[])
            return self
        values = flat[0] if len(flat) == 1 else np.abs(flat).mean(axis=0)
        order = np.argsort(np.abs(values), kind="stable")[-most:]
        names = [f"feature {place}" for place in range(len(values))]
        names = names if self.feature_names is None else list(map(as_label, self.feature_names))
        if len(names) != len(values):
            raise ValueError(f"feature_names must be those of {len(values)} inputs, got {len(names)}")
        self.bars_ = ax.barh([names[place] for place in order], values[order], **kwargs)
        ax.set_xlabel("attribution" if len(flat) == 1 else "mean size of the attribution")
        return self
