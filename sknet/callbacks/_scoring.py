"""Callbacks that add numbers to the record of each epoch: scores, and norms of gradients."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np

from sknet._fields import ABSENT, COUNT, Arrays, Each, Items
from sknet._late import above
from sknet._params import Interval, StrOptions
from sknet.callbacks._callback import Callback, FitView, Rows
from sknet.device import to_host


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
    _stored_fields = {"_rows": None, "name_": str, "_scorer": [callable, ABSENT]}

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
        if fit.estimator is None:
            raise ValueError("EpochScoring scores an estimator, and Model.fit has none: use its scores=")
        self._rows, self._scorer = rows, _scorer(self.scoring)
        prefix = "validation_" if self.on == "validation" else ""
        self.name_ = self.name or f"{prefix}{_name_of(self.scoring)}"
        if self.name_ in fit.directions:
            raise ValueError(f"this fit already has a number {self.name_!r}: give EpochScoring another name=")
        fit.announce(self.name_, higher_is_better=self._direction())

    def _instead(self, fit: FitView) -> str:
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
            estimator = fit.estimator
            with naming_classes(getattr(estimator, "classes_", None), y, f"the {self.on} rows"):
                fit.record[self.name_] = above("scoring_by_target")(self._scorer, y)(estimator, X, y, **more)

    def on_fit_end(self, fit: FitView) -> None:
        self._rows = None
        self.__dict__.pop("_scorer", None)


def is_scikit_learns(scorer: Any) -> bool:
    """Tell whether a scorer is one of scikit-learn, which negates losses, so that higher is better."""
    return getattr(scorer, "_sign", None) in (1, -1)


def direction_of(scorer: Callable[..., Any]) -> bool | None:
    """Return whether a higher value of a scorer is better."""
    if scorer is _own_score or is_scikit_learns(scorer):
        return True
    said = getattr(scorer, "greater_is_better", None)
    return said if isinstance(said, bool) else None


OF_EVERY_CLASS = "validation_split=StratifiedShuffleSplit(1) or X_val and y_val"


@contextmanager
def naming_classes(classes: Any, scored: Any, rows: str, by: str = OF_EVERY_CLASS) -> Iterator[None]:
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
            f"{error}. {rows.capitalize()} have no row of {several} {named}: score rows of every class, "
            f"by {by}; leave the class out; or choose a scorer that does without"
        ) from error


def _scorer(scoring: Any) -> Callable[..., float]:
    if scoring is None:
        return _own_score
    from sklearn.metrics import get_scorer  # slow to import

    return get_scorer(scoring)


def _own_score(estimator: Any, X: Any, y: Any, **more: Any) -> float:
    return float(estimator.score(X, y, **more))


def _takes_weights(scorer: Callable[..., float]) -> bool:
    return scorer is _own_score or hasattr(scorer, "_score_func")


def _name_of(scoring: Any) -> str:
    if scoring is None or isinstance(scoring, str):
        return scoring or "epoch_score"
    function = getattr(scoring, "_score_func", scoring)
    return getattr(function, "__name__", type(function).__name__)


class GradientMonitor(Callback):
    """Measure the gradient after an epoch: its norm for each parameter, and its total norm.

    The gradient is that of one batch, a different one each time, at the weights after the epoch. Computing
    it takes one more forward and backward pass, and does not affect training. The total norm is in the
    history as ``gradient_norm``.

    Parameters
    ----------
    every : int, default=1
        Number of epochs between measurements.

    Attributes
    ----------
    norms_ : dict of str to list of float
        Euclidean norms of the gradient, by parameter.
    weight_norms_ : dict of str to list of float
        Euclidean norms of the parameters themselves.
    epochs_ : list of int
        The epochs of the measurements.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import GradientMonitor
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0.1, random_state=0, callbacks=[GradientMonitor(every=5)]).fit(X, y)
    >>> monitor = clf.callbacks_[0]
    >>> monitor.epochs_[:2], sorted(monitor.norms_)
    ([5, 10], ['0.bias', '0.weight', '2.bias', '2.weight'])
    """

    order = -1
    needs = "batches"
    _parameter_constraints = {"every": [Interval(Integral, 1, None, closed="left")]}
    _stored_fields = {
        "epochs_": Each(list, COUNT),
        "norms_": dict[str, list[float]],
        "weight_norms_": dict[str, list[float]],
    }

    def __init__(self, every: int = 1) -> None:
        self.every = every

    _loaded: Mapping[str, Any] = {}
    _state_fields = {
        "epochs": Each(list, COUNT),
        **dict.fromkeys(("norms", "weight_norms"), Items(str, [Arrays("f", "n"), list[float]])),
    }

    def on_fit_begin(self, fit: FitView) -> None:
        known = self._loaded if fit.epoch else {}  # of a fit that is resumed
        self.epochs_: list[int] = list(known.get("epochs", []))
        self.norms_: dict[str, list[float]] = _columns(known.get("norms", {}))
        self.weight_norms_: dict[str, list[float]] = _columns(known.get("weight_norms", {}))

    def on_epoch_end(self, fit: FitView) -> None:
        if fit.epoch % self.every:
            return
        model = fit.model
        X, y, weight = _batch(fit.batches, len(self.epochs_))
        gradient = model.backward(model.loss(model(X), y, weight))
        norms = {name: _norm(array) for name, array in gradient.items()}
        for name, norm in norms.items():
            self.norms_.setdefault(name, []).append(norm)
            self.weight_norms_.setdefault(name, []).append(_norm(model.parameters[name]))
        self.epochs_.append(fit.epoch)
        fit.record["gradient_norm"] = math.hypot(*norms.values())

    def state(self) -> dict[str, Any]:
        """Return the norms so far."""
        return {
            "epochs": list(self.epochs_),
            "norms": {name: np.array(column) for name, column in self.norms_.items()},
            "weight_norms": {name: np.array(column) for name, column in self.weight_norms_.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the norms if the fit is resumed; a fit that continues another starts without any."""
        self._loaded = state


def _batch(batches: Any, number: int) -> Any:
    """Return a batch of positive weight."""
    for k in range(batches.n_batches):
        chosen = (number + k) % batches.n_batches
        if batches.in_a_row(None, chosen, 1):
            break
    return batches.take(batches.part(None, chosen)[0])


def _columns(arrays: Mapping[str, Any]) -> dict[str, list[float]]:
    return {name: np.asarray(array).tolist() for name, array in arrays.items()}


def _norm(array: Any) -> float:
    return float(np.linalg.norm(to_host(array).astype(np.float64)))
