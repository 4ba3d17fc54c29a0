"""scikit-learn's checks of estimators, each with as many epochs as it needs."""

from collections.abc import Callable
from typing import Any

from sklearn.base import clone

__all__ = ["run_check"]

# They expect a score, or predictions that only a converged fit makes.
LEARNING = {
    "check_class_weight_classifiers",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_regressors_train",
}


def run_check(estimator: Any, check: Callable[[Any], object], **few: Any) -> None:
    """Run a check, and if nothing in it depends on what the estimator learns, with the parameters `few`.

    Most checks fit several times, and compare fits or predictions with each other.
    """
    name = getattr(check, "func", check).__name__
    check(estimator if name in LEARNING else clone(estimator).set_params(**few or {"max_iter": 5}))
