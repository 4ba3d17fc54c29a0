"""A scorer of scikit-learn after every epoch."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

from sknet._params import Interval, StrOptions
from sknet.callbacks._callback import Callback
from sknet.callbacks._view import FitView, Rows

__all__ = ["EpochScoring"]


class EpochScoring(Callback):
    """Score the estimator after an epoch; the score is in the history, and can be monitored.

    Parameters
    ----------
    scoring : str, callable or None, default=None
        A scorer of scikit-learn by its name, such as "roc_auc", or a function
        ``scoring(estimator, X, y)``, of which higher values are better. None is the estimator's `score`.
    on : {"validation", "training"}, default="validation"
        Which rows to score.
    name : str or None, default=None
        Of the score in the history; None is that of the scorer, after "validation_" for such rows.
    every : int, default=1
        Epochs from one score to the next.

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
    }
    _rows: Rows | None = None

    def __init__(
        self,
        scoring: "str | Callable[..., float] | None" = None,
        *,
        on: str = "validation",
        name: str | None = None,
        every: int = 1,
    ) -> None:
        self.scoring = scoring
        self.on = on
        self.name = name
        self.every = every

    def on_fit_begin(self, fit: FitView) -> None:
        rows = fit.validation if self.on == "validation" else fit.training
        if rows is None:
            raise ValueError(
                f"EpochScoring(on={self.on!r}) found no {self.on} rows: "
                + (
                    "give the fit some (early_stopping=True holds some out), or score on='training'"
                    if self.on == "validation" and fit.training is not None
                    else "it needs the fit of an estimator"
                )
            )
        self._rows, self._scorer = rows, _scorer(self.scoring)
        prefix = "validation_" if self.on == "validation" else ""
        self.name_ = self.name or f"{prefix}{_name_of(self.scoring)}"
        if self.name_ in fit.directions:
            raise ValueError(f"this fit has a number {self.name_!r} already: give EpochScoring another name=")
        fit.announce(self.name_, higher_is_better=True)

    def on_epoch_end(self, fit: FitView) -> None:
        if fit.epoch % self.every == 0 and self._rows is not None:
            X, y, weight = self._rows
            more = {} if weight is None or not _takes_weights(self._scorer) else {"sample_weight": weight}
            fit.record[self.name_] = self._scorer(fit.estimator, X, y, **more)

    def on_fit_end(self, fit: FitView) -> None:
        self._rows = None
        self.__dict__.pop("_scorer", None)


def _scorer(scoring: Any) -> Callable[..., float]:
    """Return a function of an estimator, X and y."""
    if scoring is None:
        return _own_score
    from sklearn.metrics import get_scorer  # it loads half of scikit-learn

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
