"""Scorers of a part of the targets: one head of a network with several, or targets that are there."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from sknet._constraints import shown
from sknet._frames import as_array, gaps_in, is_frame, names_of, selected
from sknet._late import available_if
from sknet.callbacks._scoring import is_scikit_learns
from sknet.estimators._checks import read_missing, taken_rows, with_gaps
from sknet.estimators._fit import Scorer, check_scoring
from sknet.estimators._head_targets import head_of
from sknet.estimators._inputs import on_host


def head_scorer(head: str, scoring: Any) -> "HeadScorer":
    """Return a scorer of one head of a `MultiHeadNet`, for searches and cross-validation.

    Parameters
    ----------
    head : str
        The name of the head.
    scoring : str or callable
        A scorer of scikit-learn, or its name, such as "roc_auc"; or a function ``scoring(estimator, X, y)``
        of an estimator that predicts the head alone.

    Returns
    -------
    callable
        A function ``scorer(estimator, X, y, sample_weight=None)``; rows whose target is missing are not
        scored. The estimator may be a pipeline that ends in a `MultiHeadNet`.

    Raises
    ------
    InvalidParameterError
        If `scoring` is not a scorer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import KFold
    >>> from sknet import MultiHeadNet, nn
    >>> from sknet.model_selection import cross_validate, head_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> network = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(4))
    >>> net = MultiHeadNet(network, {"width": "squared_error", "kind": "log_loss"}, tol=0.1, random_state=0)
    >>> scoring = {"width": head_scorer("width", "r2"), "kind": head_scorer("kind", "accuracy")}
    >>> parts = KFold(3, shuffle=True, random_state=0)
    >>> found = cross_validate(net, X[:, :3], {"width": X[:, 3], "kind": y}, scoring=scoring, cv=parts)
    >>> found["test_kind"].shape
    (3,)
    """
    return HeadScorer(head, scoring)


class PartScorer:
    """Abstract base of scorers that give a part of the targets to another, and request what that does."""

    _scorer: Scorer

    def __getattr__(self, name: str) -> Any:
        if name not in ("_accept_sample_weight", "get_metadata_routing"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._scorer.call, name)

    def _of(self, view: Any, X: Any, y: Any, weight: Any) -> Any:
        y = np.array(y.tolist()) if y.dtype == object else y
        return self._scorer.score(view, X, y, weight)


class HeadScorer(PartScorer):
    """A scorer of one head, called as scikit-learn's are."""

    def __init__(self, head: str, scoring: Any) -> None:
        scorers = check_scoring({head: scoring}, f"head {head!r}").scorers
        self.head, self.scoring = head, scoring
        [self._scorer] = scorers or ()
        self.greater_is_better = self._scorer.higher_is_better

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Return the score of the head's predictions of the rows that have a target."""
        name = self.head
        columns = names_of(y) if is_frame(y) else ()
        target = as_array(on_host(columns_of(y, name)))
        there = ~gaps_in(target).reshape(len(target), -1).any(axis=1)
        if not there.all():
            rows = np.flatnonzero(there)
            X, target, sample_weight = taken_rows(X, rows), target[rows], taken_rows(sample_weight, rows)
        return self._of(HeadView(estimator, name, columns), X, target, sample_weight)

    def __repr__(self) -> str:
        return f"head_scorer({self.head!r}, {shown(self.scoring)})"


class HeadView(BaseEstimator):
    """A fitted estimator of several heads that predicts one of them."""

    def __init__(self, estimator: Any, head: str, columns: Any = ()) -> None:
        self.estimator = estimator
        self.head = head
        self.columns = columns

    def predict(self, X: Any) -> Any:
        """Return predictions of the head, in the order of its columns in y."""
        found = self.estimator.predict(X)
        if is_frame(found) and self.columns:
            own = [name for name in self.columns if name in names_of(found)]
            found = selected(found, own) if any(head_of(name, [self.head]) for name in own) else found
        return columns_of(found, self.head)

    def predict_proba(self, X: Any) -> Any:
        return self.estimator.predict_proba(X)[self.head]

    @property
    def classes_(self) -> Any:
        found = getattr(self.estimator, "classes_", {})
        if self.head not in found:
            raise AttributeError(f"the head {self.head!r} has no classes")
        return found[self.head]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if hasattr(self, "classes_") else "regressor"
        return tags


def columns_of(y: Any, head: str) -> Any:
    """Return what belongs to a head in a dict or a frame; an array is of the only head."""
    if isinstance(y, Mapping) and not hasattr(y, "tocsr"):
        names: list[Any] = list(y)
        if head in names:
            return y[head]
    elif is_frame(y):
        names = names_of(y)
        found = [as_array(y[name]) for name in names if head_of(name, [head]) == head]
        if found:
            return found[0] if len(found) == 1 else np.stack(found, axis=1)
    else:
        return y
    raise ValueError(f"there is no head {shown(head)}, only {names}")


def target_scorer(scoring: Any) -> "TargetScorer":
    """Return a scorer for partly missing targets: the mean of each target's score over its known rows.

    Searches and cross-validation of this package apply it to every scorer if values in y are missing.
    Functions of scikit-learn such as ``cross_val_score`` take the result as `scoring`.

    Parameters
    ----------
    scoring : str or callable
        A scorer of scikit-learn, or its name, such as "r2" or "roc_auc"; or a function
        ``scoring(estimator, X, y)`` of an estimator that predicts one target.

    Returns
    -------
    callable
        A function ``scorer(estimator, X, y, sample_weight=None)``. Targets without any known row are left
        out.

    Raises
    ------
    InvalidParameterError
        If `scoring` is not a scorer.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from sknet import MLPRegressor
    >>> from sknet.model_selection import target_scorer
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> y = np.where(np.arange(90)[:, np.newaxis] % 3 == [0, 1], np.nan, X)
    >>> net = MLPRegressor((), optimizer="lbfgs", random_state=0)
    >>> cross_val_score(net, X, y, scoring=target_scorer("r2"), cv=2).round(2).tolist()
    [1.0, 1.0]
    """
    return TargetScorer(scoring)


class TargetScorer(PartScorer):
    """A scorer of each target, called as scikit-learn's are, which returns their mean."""

    def __init__(self, scoring: Any) -> None:
        self.scoring = scoring
        [self._scorer] = check_scoring(scoring, "target_scorer").scorers or ()
        self.greater_is_better = self._scorer.higher_is_better

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean over targets of the score of the rows that have it."""
        y = with_gaps(on_host(y))
        if y.ndim != 2:
            raise ValueError(
                f"target_scorer({shown(self.scoring)}) scores the columns of y, which must have the shape "
                f"(n_samples, n_targets), got {y.shape}"
            )
        seen, known = ~gaps_in(y), dict[str, Any]()
        weight = None if sample_weight is None else np.asarray(on_host(sample_weight))
        found = []
        for k in np.flatnonzero(seen.any(axis=0)).tolist():
            rows = np.flatnonzero(seen[:, k])
            looks = self._scorer.looks_at_inputs
            view = TargetView(estimator, k, None) if looks else TargetView(estimator, k, rows, known)
            of_column = weight if weight is None or weight.ndim < 2 else weight[:, k]
            of_rows = taken_rows(of_column, rows)
            found.append(self._of(view, taken_rows(X, rows) if looks else X, y[rows, k], of_rows))
        if not found:
            raise ValueError("every target of y is missing: there is nothing to score")
        return float(np.mean(found))

    def __repr__(self) -> str:
        return f"target_scorer({shown(self.scoring)})"


def _has(name: str) -> Callable[[Any], bool]:
    return lambda view: hasattr(view.estimator, name)


class TargetView(BaseEstimator):
    """A fitted estimator of several targets that predicts one, of some rows of an X that stays the same."""

    def __init__(
        self, estimator: Any, column: int, rows: Any = None, known: dict[str, Any] | None = None
    ) -> None:
        self.estimator = estimator
        self.column = column
        self.rows = rows
        self.known = known  # predictions of that X, by the name of a method

    def predict(self, X: Any) -> Any:
        return self._of_column("predict", X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        return self._of_column("predict_proba", X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        return self._of_column("decision_function", X)

    def _of_column(self, name: str, X: Any) -> Any:
        """Return what a method predicts of the target."""
        known = {} if self.known is None else self.known
        if name not in known:
            known[name] = getattr(self.estimator, name)(X)
        found, k, rows = known[name], self.column, slice(None) if self.rows is None else self.rows
        if isinstance(found, list):
            return on_host(found[k])[rows]
        found = on_host(found)[rows, k]
        return np.stack([1.0 - found, found], axis=1) if name == "predict_proba" else found

    @property
    def classes_(self) -> Any:
        """The classes of the target; 0 and 1 of a label."""
        found = self.estimator.classes_
        return found[self.column] if isinstance(found, list) else np.arange(2)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = get_tags(self.estimator).estimator_type
        return tags


def scoring_by_target(scoring: Any, y: Any) -> Any:
    """Return scorers as searches take them, those of scikit-learn by targets if some of these are missing."""
    if isinstance(scoring, Mapping):
        return {name: scoring_by_target(one, y) for name, one in scoring.items()}
    if isinstance(scoring, (list, tuple, set)) and all(isinstance(one, str) for one in scoring):
        found = {name: scoring_by_target(name, y) for name in scoring}
        return found if read_missing(y) is not None and len(found) == len(scoring) else scoring
    is_known = isinstance(scoring, str) or is_scikit_learns(scoring)
    return TargetScorer(scoring) if is_known and read_missing(y) is not None else scoring


def evaluated(
    scorers: Sequence[Scorer], estimator: Any, X: Any, y: Any, weight: Any, rows: str
) -> dict[str, float]:
    return {scorer.name: _evaluated(scorer, estimator, X, y, weight, rows) for scorer in scorers}


def _evaluated(scorer: Scorer, estimator: Any, X: Any, y: Any, weight: Any, rows: str) -> float:
    try:
        value = scorer._replace(call=scoring_by_target(scorer.call, y)).score(estimator, X, y, weight)
    except Exception as error:
        raise ValueError(
            f"scoring {scorer.name!r} of {rows} failed: {type(error).__name__}: {error} "
            "(a scorer is called as scorer(estimator, X, y))"
        ) from error
    value = value.item() if isinstance(value, (np.ndarray, np.generic)) and np.ndim(value) == 0 else value
    if not isinstance(value, Real):
        raise ValueError(
            f"scoring {scorer.name!r} of {rows} returned {value!r}: a scorer returns one number; give "
            "several scorers as a list or dict"
        )
    return float(value)
