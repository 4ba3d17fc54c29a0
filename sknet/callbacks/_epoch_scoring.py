"""scikit-learn scorers after every epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np

from sknet._fields import ABSENT
from sknet._params import Interval, StrOptions
from sknet.callbacks._callback import Callback
from sknet.callbacks._view import FitView, Rows

__all__ = ["EpochScoring", "direction_of", "naming_classes"]


class EpochScoring(Callback):
    """Score the estimator after an epoch; the score is added to the history, and can be monitored.

    Parameters
    ----------
    scoring : str, callable or None, default=None
        A scorer of scikit-learn, or its name, such as "roc_auc"; or a function ``scoring(estimator, X, y)``.
        None is the estimator's `score`.
    on : {"validation", "training"}, default="validation"
        The rows to score.
    name : str or None, default=None
        Name of the score in the history; None is that of the scorer, with prefix "validation_" for such rows.
    every : int, default=1
        Number of epochs between scores.
    higher_is_better : bool or None, default=None
        Needed for a function without an attribute ``greater_is_better``; for scikit-learn's scorers and
        `score`, it is known.

    Attributes
    ----------
    name_ : str
        The name in the history.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import EarlyStopping, EpochScoring
    >>> X, y = load_iris(return_X_y=True)
    >>> callbacks = [EpochScoring("f1_macro"), EarlyStopping("validation_f1_macro", patience=5)]
    >>> clf = MLPClassifier(early_stopping=True, random_state=0, callbacks=callbacks).fit(X, y)
    >>> clf.callbacks_[1].best_ == max(clf.history_["validation_f1_macro"])
    True
    """

    order = -1
    _parameter_constraints = {
        "scoring": [str, callable, None],
        "on": [StrOptions({"validation", "training"})],
        "name": [str, None],
        "every": [Interval(Integral, 1, None, closed="left")],
        "higher_is_better": ["boolean", None],
    }
    _rows: Rows | None = None
    _stored_fields = {
        "_rows": None,
        "name_": str,
        "_scorer": [callable, ABSENT],
    }

    def __init__(
        self,
        scoring: "str | Callable[..., float] | None" = None,
        *,
        on: str = "validation",
        name: str | None = None,
        every: int = 1,
        higher_is_better: bool | None = None,
    ) -> None:
        self.scoring = scoring
        self.on = on
        self.name = name
        self.every = every
        self.higher_is_better = higher_is_better

    def on_fit_begin(self, fit: FitView) -> None:
        rows = fit.validation if self.on == "validation" else fit.training
        if rows is None:
            raise ValueError(f"EpochScoring(on={self.on!r}) found no {self.on} rows: {self._instead(fit)}")
        self._rows, self._scorer = rows, _scorer(self.scoring)
        prefix = "validation_" if self.on == "validation" else ""
        self.name_ = self.name or f"{prefix}{_name_of(self.scoring)}"
        if self.name_ in fit.directions:
            raise ValueError(f"this fit already has a number {self.name_!r}: give EpochScoring another name=")
        fit.announce(self.name_, higher_is_better=self._direction())

    def _instead(self, fit: FitView) -> str:
        """Return what to do where there are no rows to score."""
        if self.on == "training" or fit.training is None:
            return "it needs the fit of an estimator"
        if "validation_loss" in fit.directions:
            return (
                "in a fit over workers these hold them out. Monitor 'validation_loss' or 'validation_score', "
                "or score on='training'"
            )
        return "give the fit some (early_stopping=True holds some out), or score on='training'"

    def _direction(self) -> bool:
        """Tell whether a higher score is better; raise a ValueError if that is unknown."""
        known = direction_of(self._scorer) if self.higher_is_better is None else self.higher_is_better
        if known is None:
            name = _name_of(self.scoring)
            raise ValueError(
                f"it is unknown whether a higher or a lower {name!r} is better: pass "
                f"EpochScoring({name}, higher_is_better=True) or False, set the attribute greater_is_better "
                "of the function, or make a scorer of a metric of (y_true, y_pred) by make_scorer(metric, "
                "greater_is_better=...)"
            )
        return bool(known)

    def on_epoch_end(self, fit: FitView) -> None:
        if fit.epoch % self.every == 0 and self._rows is not None:
            X, y, weight = self._rows
            more = {} if weight is None or not _takes_weights(self._scorer) else {"sample_weight": weight}
            with naming_classes(getattr(fit.estimator, "classes_", None), y, f"the {self.on} rows"):
                fit.record[self.name_] = self._scorer(fit.estimator, X, y, **more)

    def on_fit_end(self, fit: FitView) -> None:
        self._rows = None
        self.__dict__.pop("_scorer", None)


def direction_of(scorer: Callable[..., Any]) -> bool | None:
    """Return whether a higher value of a scorer is better."""
    # scikit-learn's scorers negate losses, so that higher is always better
    if scorer is _own_score or getattr(scorer, "_sign", None) in (1, -1):
        return True
    said = getattr(scorer, "greater_is_better", None)
    return said if isinstance(said, bool) else None


@contextmanager
def naming_classes(classes: Any, scored: Any, rows: str) -> Iterator[None]:
    """Add to a scorer's ValueError which classes the scored rows lack."""
    try:
        yield
    except ValueError as error:
        is_one_column = isinstance(classes, np.ndarray) and np.ndim(scored) == 1
        missing = np.setdiff1d(classes, scored).tolist() if is_one_column else []
        if not missing:
            raise
        named = ", ".join(map(repr, missing))
        several = "class" if len(missing) == 1 else "classes"
        raise ValueError(
            f"{error}. {rows.capitalize()} have no row of {several} {named}: score rows of every class, by "
            "validation_split=StratifiedShuffleSplit(1) or X_val and y_val; leave the class out; or choose a "
            "scorer that does without"
        ) from error


def _scorer(scoring: Any) -> Callable[..., float]:
    """Return a function of an estimator, X and y."""
    if scoring is None:
        return _own_score
    from sklearn.metrics import get_scorer  # slow to import

    found: Callable[..., float] = get_scorer(scoring)
    return found


def _own_score(estimator: Any, X: Any, y: Any, **more: Any) -> float:
    return float(estimator.score(X, y, **more))


def _takes_weights(scorer: Callable[..., float]) -> bool:
    return scorer is _own_score or hasattr(scorer, "_score_func")


def _name_of(scoring: Any) -> str:
    if scoring is None or isinstance(scoring, str):
        return scoring or "epoch_score"
    function = getattr(scoring, "_score_func", scoring)
    return getattr(function, "__name__", type(function).__name__)
