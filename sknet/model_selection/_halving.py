"""Successive halving whose candidates continue training from rung to rung."""

import copy
from typing import Any

from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV as GridHalving
from sklearn.model_selection import HalvingRandomSearchCV as RandomHalving

from sknet._constraints import NUMBERS, shown
from sknet._params import InvalidParameterError
from sknet.model_selection._network import EPOCHS, epochs_of
from sknet.model_selection._search import Search

__all__ = ["HalvingGridSearchCV", "HalvingRandomSearchCV", "checked_limit"]

ROWS = "n_samples"


def checked_limit(search: Any) -> Any:
    """Return the most epochs of a candidate: `max_resources`, or the estimator's own limit for "auto"."""
    params = search.estimator.get_params()
    if search.resource == ROWS:
        return search.max_resources
    if search.resource not in params:
        epochs = epochs_of(search.estimator)
        hint = f"the epochs of its network are resource={epochs!r}" if epochs else "see get_params()"
        raise ValueError(
            f"resource={shown(search.resource)} of {type(search).__name__} is not a parameter of this "
            f"{type(search.estimator).__name__}: {hint}"
        )
    return params[search.resource] if search.max_resources == "auto" else search.max_resources


class ContinuedHalving(Search):
    """Additions to scikit-learn's searches: candidates continue, and epochs have a default limit."""

    resource: str
    factor: float
    min_resources_: int
    max_resources_: int

    def _epochs(self) -> str | None:
        return None if self.resource == ROWS else self.resource

    def _check_rungs(self, kind: Any, X: Any, y: Any, split_params: Any) -> None:
        """Check the parameters by scikit-learn's class, where "auto" is a number of epochs."""
        if isinstance(self.factor, NUMBERS) and self.factor <= 1:
            raise InvalidParameterError(
                f"The 'factor' parameter of {type(self).__name__} must be a float in the range (1.0, inf). "
                f"Got {shown(self.factor)} instead."
            )
        checked = copy.copy(self)
        checked.max_resources = checked_limit(self)
        super(kind, checked)._check_input_parameters(X=X, y=y, split_params=split_params)
        self.min_resources_, self.max_resources_ = checked.min_resources_, checked.max_resources_


class HalvingGridSearchCV(GridHalving, ContinuedHalving):
    """Successive halving over a grid, whose candidates continue training from rung to rung.

    Replaces scikit-learn's class of the same name, with the same results: a candidate that is trained for 3
    epochs and continued to 9 has bitwise the same weights and scores as one fitted for 9 at once, if it has a
    `random_state`. Only the repeated epochs are saved.

    Parameters
    ----------
    estimator : estimator
        A sknet estimator, or a Pipeline that ends with one.
    param_grid : dict or list of dict
        The candidates, as in `sklearn.model_selection.ParameterGrid`.
    factor : int or float, default=3
        One in `factor` candidates continues to the next rung, for `factor` times the epochs. Small factors
        have many rungs, where continuing saves most.
    resource : str, default="max_iter"
        The parameter that counts epochs; of a Pipeline for example ``"net__max_iter"``. Any other resource
        of scikit-learn, such as ``"n_samples"``, restarts candidates.
    max_resources : int or "auto", default="auto"
        The most epochs of a candidate. "auto" is the estimator's own `max_iter`; for ``"n_samples"`` all
        rows.
    min_resources : {"exhaust", "smallest"} or int, default="exhaust"
        Epochs of the first rung. "exhaust" is the most for which the last rung has at most `max_resources`;
        "smallest" is 1.
    aggressive_elimination : bool, default=False
        Repeat the first rung's epochs until few enough candidates are left; these cost nothing here.
    cv : int, splitter or iterable, default=5
        Must yield the same folds each time.
    scoring : str, callable or None, default=None
        One scikit-learn scorer; None uses the estimator's `score`.
    refit : bool or callable, default=True
        Fit the best candidate on all rows.
    error_score : "raise" or float, default=nan
        Score of a candidate whose fit fails.
    return_train_score : bool, default=True
        Whether to score the training rows, too.
    random_state : int, RandomState instance or None, default=None
        Determines the rows of a rung, for ``resource="n_samples"``.
    n_jobs : int or None, default=None
        Number of parallel fits, by joblib; states are sent to and from processes.
    verbose : int, default=0
        As scikit-learn's.

    Attributes
    ----------
    cv_results_ : dict
        Scores, times and parameters of each candidate in each rung, with "iter" and "n_resources". A
        "mean_fit_time" is that of the additional epochs.
    best_estimator_, best_params_, best_score_, best_index_
        The best candidate of the last rung.
    n_candidates_, n_resources_ : list of int
        Candidates and epochs of each rung.
    n_iterations_, n_required_iterations_, n_possible_iterations_, n_remaining_candidates_ : int
        As scikit-learn's.
    max_resources_, min_resources_ : int
        Epochs.
    scorer_, n_splits_, refit_time_, multimetric_
        As scikit-learn's.

    Warns
    -----
    ContinuationWarning
        If candidates start again in each rung, because they cannot continue: other libraries' estimators,
        L-BFGS, and optimizers that depend on the total number of epochs, such as those with ``Cosine()``
        over the whole fit.

    Notes
    -----
    The end of a rung does not warn: only the last fit, on all rows, may warn that it has not converged. The
    steps of a Pipeline before the network are fitted once per fold for all candidates with the same
    parameters of these steps, unless the Pipeline has its own ``memory``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import HalvingGridSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0, n_iter_no_change=100, max_iter=9, random_state=0)
    >>> search = HalvingGridSearchCV(clf, {"optimizer__lr": [1e-3, 1e-2, 1e-1]}, cv=2, refit=False)
    >>> search.fit(X, y).n_resources_
    [3, 9]
    >>> search.best_params_
    {'optimizer__lr': 0.1, 'max_iter': 9}
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        factor: float = 3,
        resource: str = EPOCHS,
        max_resources: int | str = "auto",
        min_resources: int | str = "exhaust",
        aggressive_elimination: bool = False,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        error_score: Any = float("nan"),
        return_train_score: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            factor=factor,
            resource=resource,
            max_resources=max_resources,
            min_resources=min_resources,
            aggressive_elimination=aggressive_elimination,
            cv=cv,
            scoring=scoring,
            refit=refit,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        self._check_rungs(HalvingGridSearchCV, X, y, split_params)


class HalvingRandomSearchCV(RandomHalving, ContinuedHalving):
    """Successive halving over random candidates, which continue training from rung to rung.

    Replaces scikit-learn's class of the same name, with the same results; see `HalvingGridSearchCV`.

    Parameters
    ----------
    estimator : estimator
        A sknet estimator, or a Pipeline that ends with one.
    param_distributions : dict or list of dict
        Lists or SciPy distributions, as in `sklearn.model_selection.ParameterSampler`.
    n_candidates : int or "exhaust", default="exhaust"
        Number of candidates; "exhaust" draws as many as the last rung needs to reach `max_resources`.
    factor : int or float, default=3
        One in `factor` candidates continues to the next rung, for `factor` times the epochs.
    resource : str, default="max_iter"
        The parameter that counts epochs; of a Pipeline for example ``"net__max_iter"``. Any other resource
        of scikit-learn, such as ``"n_samples"``, restarts candidates.
    max_resources : int or "auto", default="auto"
        The most epochs of a candidate. "auto" is the estimator's own `max_iter`; for ``"n_samples"`` all
        rows.
    min_resources : {"exhaust", "smallest"} or int, default="smallest"
        Epochs of the first rung. "smallest" is 1; "exhaust" is the most for which the last rung has at most
        `max_resources`.
    aggressive_elimination : bool, default=False
        Repeat the first rung's epochs until few enough candidates are left; these cost nothing here.
    cv : int, splitter or iterable, default=5
        Must yield the same folds each time.
    scoring : str, callable or None, default=None
        One scikit-learn scorer; None uses the estimator's `score`.
    refit : bool or callable, default=True
        Fit the best candidate on all rows.
    error_score : "raise" or float, default=nan
        Score of a candidate whose fit fails.
    return_train_score : bool, default=True
        Whether to score the training rows, too.
    random_state : int, RandomState instance or None, default=None
        Determines the candidates, and with ``resource="n_samples"`` the rows.
    n_jobs : int or None, default=None
        Number of parallel fits, by joblib; states are sent to and from processes.
    verbose : int, default=0
        As scikit-learn's.

    Attributes
    ----------
    cv_results_ : dict
        As in `HalvingGridSearchCV`, and so are all others.

    Warns
    -----
    ContinuationWarning
        If candidates start again in each rung, because they cannot continue; see `HalvingGridSearchCV`.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import HalvingRandomSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0, n_iter_no_change=100, max_iter=9, random_state=0)
    >>> rates = {"optimizer__lr": loguniform(1e-3, 1)}
    >>> search = HalvingRandomSearchCV(clf, rates, n_candidates=9, cv=2, refit=False, random_state=0)
    >>> search.fit(X, y).n_candidates_
    [9, 3, 1]
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_candidates: int | str = "exhaust",
        factor: float = 3,
        resource: str = EPOCHS,
        max_resources: int | str = "auto",
        min_resources: int | str = "smallest",
        aggressive_elimination: bool = False,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        error_score: Any = float("nan"),
        return_train_score: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator,
            param_distributions,
            n_candidates=n_candidates,
            factor=factor,
            resource=resource,
            max_resources=max_resources,
            min_resources=min_resources,
            aggressive_elimination=aggressive_elimination,
            cv=cv,
            scoring=scoring,
            refit=refit,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        self._check_rungs(HalvingRandomSearchCV, X, y, split_params)
