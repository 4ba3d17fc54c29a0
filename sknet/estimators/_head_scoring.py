"""Scorers of one head of a network with several."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sknet._constraints import shown
from sknet._frames import as_array, is_frame, names_of
from sknet.estimators._checks import taken_rows
from sknet.estimators._head_targets import head_of, missing_in_head
from sknet.estimators._inputs import on_host
from sknet.estimators._scoring import check_scoring


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
        If `scoring` is no scorer.

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


class HeadScorer:
    """A scorer of one head, called as scikit-learn's are."""

    def __init__(self, head: str, scoring: Any) -> None:
        scorers = check_scoring({head: scoring}, f"head {head!r}").scorers
        self.head, self.scoring = head, scoring
        [self._scorer] = scorers or ()
        self.greater_is_better = self._scorer.higher_is_better

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Return the score of the head's predictions of the rows that have a target."""
        name = self.head
        target = as_array(on_host(columns_of(y, name)))
        there = ~missing_in_head(target).reshape(len(target), -1).any(axis=1)
        if not there.all():
            rows = np.flatnonzero(there)
            X, target = taken_rows(X, rows), target[rows]
            sample_weight = None if sample_weight is None else taken_rows(sample_weight, rows)
        target = np.array(target.tolist()) if target.dtype == object else target
        weighted = sample_weight is not None and self._scorer.takes_weight
        more = {"sample_weight": sample_weight} if weighted else {}
        return self._scorer.call(HeadView(estimator, name), X, target, **more)

    def __repr__(self) -> str:
        return f"head_scorer({self.head!r}, {shown(self.scoring)})"


class HeadView(BaseEstimator):
    """A fitted estimator of several heads that predicts one of them."""

    def __init__(self, estimator: Any, head: str) -> None:
        self.estimator = estimator
        self.head = head

    def predict(self, X: Any) -> Any:
        """Return predictions of the head."""
        return columns_of(self.estimator.predict(X), self.head)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of the head's classes."""
        return self.estimator.predict_proba(X)[self.head]

    @property
    def classes_(self) -> Any:
        """The head's classes."""
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
