"""Displays of a training: curves of losses and scores, and learning rates."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np

from sknet._constraints import Interval, satisfies, shown
from sknet._params import named_errors
from sknet.callbacks import LearningRateFinder
from sknet.display._base import Display, as_label, described, found_callback, network_of
from sknet.optim.schedules import Progress

COUNT = Interval(Integral, 1, 1_000_000, closed="both")  # of what is drawn in a moment


@described
@dataclass(eq=False, repr=False)
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
        Title of the plot.

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

    history: Mapping[str, Sequence[float]]
    _: KW_ONLY
    best_epoch: int | None = None
    metric: str = "loss"
    estimator_name: str | None = None

    @classmethod
    @named_errors
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
            A fitted estimator, or a Pipeline that ends with one. A tabular ensemble has a mean curve for each
            kind of members.
        metric : str, default="loss"
            A column of its history, such as ``"score"``.
        """
        network = network_of(estimator, or_ensemble=True)
        name, best = type(network).__name__, getattr(network, "best_epoch_", None)
        display = cls(network.history_, best_epoch=best, metric=metric, estimator_name=name)
        return display.plot(ax, learning_rate=learning_rate, **kwargs)

    @named_errors
    def plot(self, ax: Any = None, *, learning_rate: bool = False, **kwargs: Any) -> Self:
        """Draw the curves.

        Parameters
        ----------
        learning_rate : bool, default=False
            Whether to draw the learning rate, too.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curves.

        Raises
        ------
        ValueError
            If the history has no such column.
        """
        validation = f"validation_{self.metric}"
        kinds = [
            name for name in self.history if name.endswith(f" {self.metric}")
        ]  # of an ensemble's members
        if not any(len(self.history.get(name, ())) for name in (self.metric, validation, *kinds)):
            names = ", ".join(repr(name) for name, column in self.history.items() if len(column))
            raise ValueError(f"the history has no column {self.metric!r}; it has {names or 'no epoch'}")
        ax = self._axes(ax)
        drawn = [self._curve(ax, name, name.rpartition(" ")[0], kwargs) for name in kinds]
        self.line_ = drawn[0] if drawn else self._curve(ax, self.metric, "training", kwargs)
        self.validation_line_ = self._curve(ax, validation, "validation", kwargs)
        self.best_line_ = None
        if self.best_epoch is not None:
            label = f"best epoch {self.best_epoch}"
            self.best_line_ = ax.axvline(self.best_epoch, linestyle="--", color="0.5", label=label)
        ax.set(
            xlabel="epoch", ylabel=as_label(self.metric).replace("_", " "), title=self.estimator_name or ""
        )
        self.lr_line_ = self._rates(ax) if learning_rate else None
        lines = (self.line_, *drawn[1:], self.validation_line_, self.best_line_, self.lr_line_)
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


@described
@dataclass(eq=False, repr=False)
class LearningRateDisplay(Display):
    """Learning rates: losses by rate of the range test, or rates by step of schedules.

    Parameters
    ----------
    curves : mapping of str to tuple of two arrays
        The points of each curve by its label, x and y.
    suggestion : float, default=None
        A rate to mark.
    xlabel, ylabel : str, default=""
        Names of the axes.
    log_x : bool, default=False
        Whether x is drawn on a logarithmic scale.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
        The curves by label.
    suggestion_line_ : matplotlib Line2D or None
        The mark.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sknet.display import LearningRateDisplay
    >>> from sknet.optim.schedules import Cosine, WarmUp
    >>> schedule = WarmUp(Cosine(0.1), n_steps=20)
    >>> display = LearningRateDisplay.from_schedules(schedule, n_steps=100, ax=Figure().subplots())
    >>> x, y = display.lines_["WarmUp"].get_data()
    >>> len(x), float(y.max())
    (100, 0.1)
    """

    curves: Mapping[str, tuple[Any, Any]]
    _: KW_ONLY
    suggestion: float | None = None
    xlabel: str = ""
    ylabel: str = ""
    log_x: bool = False

    @classmethod
    @named_errors
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the range test of a fitted estimator, or the rates of its fit if there was no test.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator, with or without a `LearningRateFinder`, or a Pipeline that ends with one.
        """
        finder = found_callback(estimator, LearningRateFinder)
        if finder is not None:
            return cls.from_finder(finder, ax=ax, **kwargs)
        rates = np.asarray(network_of(estimator).history_.get("lr", ()), dtype=float)
        curves = {"learning rate": (np.arange(1, len(rates) + 1), rates)}
        return cls(curves, xlabel="epoch", ylabel="learning rate").plot(ax, **kwargs)

    @classmethod
    @named_errors
    def from_finder(cls, finder: LearningRateFinder, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the losses of a range test by rate, with the suggestion.

        Parameters
        ----------
        finder : LearningRateFinder
            One of a fitted estimator's ``callbacks_``.

        Raises
        ------
        ValueError
            If the finder has not run.
        """
        if not hasattr(finder, "rates_"):
            raise ValueError(
                "this LearningRateFinder has not run: pass the one in a fitted estimator's callbacks_"
            )
        suggestion = None if math.isnan(finder.suggestion_) else finder.suggestion_
        labels = {"xlabel": "learning rate", "ylabel": "loss"}
        display = cls({"loss": (finder.rates_, finder.losses_)}, suggestion=suggestion, log_x=True, **labels)
        return display.plot(ax, **kwargs)

    @classmethod
    @named_errors
    def from_schedules(
        cls,
        schedules: Any,
        n_steps: int = 1000,
        *,
        steps_per_epoch: int = 100,
        batch_size: int = 32,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the rates of schedules, step by step.

        Parameters
        ----------
        schedules : schedule, list of schedule, or mapping of str to schedule
            Schedules, or any functions of a `Progress`; a mapping names them.
        n_steps : int, default=1000
            Number of steps of the whole fit.
        steps_per_epoch : int, default=100
            Number of steps of an epoch, for schedules that depend on epochs.
        batch_size : int, default=32
            Number of samples in a step, for schedules that depend on samples.

        Raises
        ------
        ValueError
            If a number is not an int from 1 to a million.
        """
        given = {"n_steps": n_steps, "steps_per_epoch": steps_per_epoch, "batch_size": batch_size}
        for name, value in given.items():
            if not satisfies(value, COUNT):
                raise ValueError(f"{name} must be {COUNT}, got {shown(value)}")
        n_steps, steps_per_epoch, batch_size = map(int, given.values())
        steps = np.arange(n_steps)
        at = [
            Progress(
                step,
                step // steps_per_epoch,
                step // steps_per_epoch * steps_per_epoch * batch_size,
                0,
                n_steps,
            )
            for step in range(n_steps)
        ]
        curves = {
            name: (steps, np.array([schedule(progress) for progress in at], dtype=float))
            for name, schedule in _named(schedules).items()
        }
        return cls(curves, xlabel="step", ylabel="learning rate").plot(ax, **kwargs)

    @named_errors
    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curves."""
        ax = self._axes(ax)
        self.lines_ = {}
        for name, (x, y) in self.curves.items():
            (self.lines_[name],) = ax.plot(x, y, **{"label": name, **kwargs})
        self.suggestion_line_ = None
        if self.suggestion is not None:
            label = f"suggestion {self.suggestion:.2g}"
            self.suggestion_line_ = ax.axvline(self.suggestion, linestyle="--", color="0.5", label=label)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel, xscale="log" if self.log_x else "linear")
        if len(self.lines_) > 1 or self.suggestion is not None:
            ax.legend()
        return self


def _named(schedules: Any) -> Mapping[str, Callable[[Progress], float]]:
    """Return schedules by name; those of the same class are numbered."""
    named: Mapping[str, Any] | None = schedules if isinstance(schedules, Mapping) else None
    given = schedules if isinstance(schedules, (list, tuple)) else [schedules]
    if not all(map(callable, given if named is None else named.values())):
        raise TypeError(f"schedules must be callables of a Progress, as Cosine(0.1), got {shown(schedules)}")
    if named is not None:
        return named
    names = [getattr(each, "__name__", type(each).__name__) for each in given]
    repeated = {name for name in names if names.count(name) > 1}
    labels = [f"{name} {place}" if name in repeated else name for place, name in enumerate(names, 1)]
    return dict(zip(labels, given, strict=True))
