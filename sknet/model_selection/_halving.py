"""Successive halving and Hyperband, whose candidates continue training from rung to rung."""

import copy
from math import ceil, floor, log
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV as GridHalving
from sklearn.model_selection import HalvingRandomSearchCV as RandomHalving
from sklearn.model_selection import ParameterSampler
from sklearn.model_selection._search_successive_halving import BaseSuccessiveHalving
from sklearn.utils import check_random_state

from sknet._constraints import is_number, shown
from sknet._params import arguments_of, described_by
from sknet._validation import Interval
from sknet.estimators._fit import MOST_EPOCHS
from sknet.exceptions import InvalidParameterError
from sknet.model_selection._evaluation import EPOCHS, epochs_of
from sknet.model_selection._search import NoContext, Search, check_draws

ROWS = "n_samples"
MOST_RUNGS = 1_000


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
    limit = params[search.resource]
    limit = MOST_EPOCHS if limit == "auto" else limit
    return limit if search.max_resources == "auto" else search.max_resources


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
        if is_number(self.factor) and self.factor <= 1:
            raise InvalidParameterError(
                f"The 'factor' parameter of {type(self).__name__} must be a float in the range (1.0, inf). "
                f"Got {shown(self.factor)} instead."
            )
        checked = copy.copy(self)
        checked.max_resources = checked_limit(self)
        super(kind, checked)._check_input_parameters(X=X, y=y, split_params=split_params)
        self.min_resources_, self.max_resources_ = checked.min_resources_, checked.max_resources_
        rungs = log(max(1.0, self.max_resources_ / self.min_resources_)) / log(self.factor)
        if rungs > MOST_RUNGS:
            raise InvalidParameterError(
                f"factor={shown(self.factor)} of {type(self).__name__} makes {rungs:.3g} rungs from "
                f"{self.min_resources_} to {self.max_resources_} {self.resource}, at most {MOST_RUNGS} make "
                "sense: 2 to 4 are usual factors"
            )

    def _check_draws(self, count: int) -> None:
        most, fewest = self.max_resources_, self.min_resources_
        mend = f"a lower max_resources than {most}, or a higher min_resources than {fewest}"
        check_draws(self, count, mend)


@described_by(Search)
class HalvingGridSearchCV(GridHalving, ContinuedHalving):
    """Successive halving over a grid, whose candidates continue training from rung to rung.

    Replaces scikit-learn's class of the same name, with the same results: a candidate that is trained for 3
    epochs and continued to 9 has bitwise the same weights and scores as one fitted for 9 at once, if it has a
    `random_state`. Only the repeated epochs are saved.

    Parameters
    ----------
    factor : int or float, default=3
        One in `factor` candidates continues to the next rung, for `factor` times the epochs. Small factors
        have many rungs, where continuing saves most.
    min_resources : {"exhaust", "smallest"} or int, default="exhaust"
        Epochs of the first rung. "exhaust" is the largest number for which the last rung has at most
        `max_resources`; "smallest" is 1.
    random_state : int, RandomState instance or None, default=None
        Determines the rows of a rung, for ``resource="n_samples"``.

    Attributes
    ----------
    cv_results_ : dict
        Scores, times and parameters of each candidate in each rung, with "iter" and "n_resources". A
        "mean_fit_time" contains only the additional epochs.
    best_estimator_, best_params_, best_score_, best_index_
        The best candidate of the last rung.
    n_candidates_, n_resources_ : list of int
        Candidates and epochs of each rung.
    n_iterations_, n_required_iterations_, n_possible_iterations_, n_remaining_candidates_ : int
        As in scikit-learn.
    max_resources_, min_resources_ : int
        Largest and smallest number of epochs.
    scorer_, n_splits_, refit_time_, multimetric_
        As in scikit-learn.

    Warns
    -----
    ContinuationWarning
        If candidates start again in each rung, because they cannot continue: other libraries' estimators,
        L-BFGS, and optimizers that depend on the total number of epochs, such as those with ``Cosine()``
        over the whole fit.

    Notes
    -----
    Fits that end with a rung do not warn: only the last fit, on all rows, may warn that it has not converged.
    The steps of a Pipeline before the network are fitted once per fold for all candidates with the same
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
        super().__init__(**arguments_of(locals()))

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        self._check_rungs(HalvingGridSearchCV, X, y, split_params)


@described_by(Search)
class HalvingRandomSearchCV(RandomHalving, ContinuedHalving):
    """Successive halving over random candidates, which continue training from rung to rung.

    Replaces scikit-learn's class of the same name, with the same results; see `HalvingGridSearchCV`.

    Parameters
    ----------
    n_candidates : int or "exhaust", default="exhaust"
        Number of candidates; "exhaust" draws as many as the last rung needs to reach `max_resources`.
    min_resources : {"exhaust", "smallest"} or int, default="smallest"
        Epochs of the first rung. "smallest" is 1; "exhaust" is the largest number for which the last rung has
        at most `max_resources`.
    random_state : int, RandomState instance or None, default=None
        Determines the candidates, and with ``resource="n_samples"`` the rows.

    Attributes
    ----------
    cv_results_ : dict
        As in `HalvingGridSearchCV`, like all other attributes.

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
        super().__init__(**arguments_of(locals()))

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        self._check_rungs(HalvingRandomSearchCV, X, y, split_params)
        if is_number(self.n_candidates):
            check_draws(self, int(self.n_candidates), "fewer n_candidates")
        else:
            self._check_draws(self.max_resources_ // self.min_resources_)


@described_by(Search)
class HyperbandSearchCV(BaseSuccessiveHalving, ContinuedHalving):
    """Hyperband over random candidates, which continue training from rung to rung.

    Halving has to choose between many candidates and long first rungs. Hyperband runs several halvings, its
    brackets, of about the same cost: the first starts with the most candidates and the fewest epochs, the
    last trains a few for all epochs at once.

    Parameters
    ----------
    resource : str, default="max_iter"
        The parameter that counts epochs; of a Pipeline for example ``"net__max_iter"``.
    max_resources : int or "auto", default="auto"
        Maximum number of epochs of a candidate. "auto" is the estimator's own `max_iter`.
    min_resources : int, default=1
        Minimum number of epochs of a first rung.

    Attributes
    ----------
    cv_results_ : dict
        As in `HalvingGridSearchCV`, with "bracket", which counts down to 0 as in the paper; "iter" counts the
        rungs of a bracket.
    brackets_ : list of dict
        For each bracket its number, "n_candidates" and "n_resources" of its rungs.
    best_estimator_, best_params_, best_score_, best_index_
        The best of the candidates that were trained for the largest number of epochs.
    n_candidates_, n_resources_ : list of int
        Candidates and epochs of each rung, bracket after bracket.
    max_resources_, min_resources_ : int
        Largest and smallest number of epochs.
    scorer_, n_splits_, refit_time_, multimetric_
        As in scikit-learn's searches.

    Warns
    -----
    ContinuationWarning
        If candidates start again in each rung, because they cannot continue; see `HalvingGridSearchCV`.

    Notes
    -----
    Algorithm 1 of Li, Jamieson, DeSalvo, Rostamizadeh and Talwalkar, "Hyperband: a novel bandit-based
    approach to hyperparameter optimization", JMLR 18(185), 2018: with R = `max_resources` / `min_resources`,
    bracket s from floor(log(R) / log(factor)) to 0 draws ``ceil((s_max + 1) / (s + 1) * factor**s)``
    candidates, begins with ``max_resources / factor**s`` epochs, and has s + 1 rungs. Epochs are rounded
    down; at least one candidate is kept.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import HyperbandSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0, n_iter_no_change=100, max_iter=9, random_state=0)
    >>> rates = {"optimizer__lr": loguniform(1e-3, 1)}
    >>> search = HyperbandSearchCV(clf, rates, cv=2, refit=False, random_state=0)
    >>> for bracket in search.fit(X, y).brackets_:
    ...     print(bracket)
    {'bracket': 2, 'n_candidates': [9, 3, 1], 'n_resources': [1, 3, 9]}
    {'bracket': 1, 'n_candidates': [5, 1], 'n_resources': [3, 9]}
    {'bracket': 0, 'n_candidates': [3], 'n_resources': [9]}
    """

    _parameter_constraints = {
        **{
            name: allowed
            for name, allowed in BaseSuccessiveHalving._parameter_constraints.items()
            if name not in ("aggressive_elimination", "min_resources")
        },
        "param_distributions": [dict, list],
        "factor": [Interval(Real, 1, None, closed="neither")],
        "min_resources": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        factor: float = 3,
        resource: str = EPOCHS,
        max_resources: int | str = "auto",
        min_resources: int = 1,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        error_score: Any = float("nan"),
        return_train_score: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        given = arguments_of(locals())
        self.param_distributions = given.pop("param_distributions")
        super().__init__(**given)
        del self.aggressive_elimination  # of scikit-learn's base class; each bracket eliminates as it must

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        if self.resource == "n_samples":
            raise ValueError(
                "HyperbandSearchCV trains candidates for more and more epochs: resource='n_samples' is for "
                "HalvingRandomSearchCV"
            )
        self._check_rungs(HyperbandSearchCV, X, y, split_params)
        sizes = bracket_sizes(self.max_resources_, self.min_resources_, self.factor)
        self._check_draws(sum(sizes.values()))

    def _generate_candidate_params(self) -> Any:
        raise NotImplementedError("each bracket draws its own")

    def _run_search(self, evaluate_candidates: Any, *, callback_ctx: Any = None) -> None:
        context = NoContext() if callback_ctx is None else callback_ctx
        sizes = bracket_sizes(self.max_resources_, self.min_resources_, self.factor)
        random_state = check_random_state(self.random_state)
        self.n_resources_: list[int] = []
        self.n_candidates_: list[int] = []
        self.brackets_: list[dict[str, Any]] = []
        search = context.subcontext(task_name="search", max_subtasks=sum(s + 1 for s in sizes))
        search.call_on_fit_task_begin(estimator=self)
        for bracket, n_candidates in sizes.items():
            drawn = ParameterSampler(self.param_distributions, n_candidates, random_state=random_state)
            self._run_bracket(bracket, list(drawn), evaluate_candidates, search)
        search.call_on_fit_task_end(estimator=self)

    def _run_bracket(self, bracket: int, candidates: list[Any], evaluate: Any, search: Any) -> None:
        """Halve candidates, and continue the survivors."""
        n_candidates, rungs = len(candidates), []
        for rung in range(bracket + 1):
            n_resources = max(1, int(self.max_resources_ * self.factor ** (rung - bracket) + 1e-9))
            if self.verbose:
                print(f"bracket: {bracket}, iter: {rung}", end=", ")
                print(f"n_candidates: {len(candidates)}, n_resources: {n_resources}")
            context = search.subcontext(
                task_name="halving-iteration",
                max_subtasks=len(candidates) * self.n_splits_,
                sequential_subtasks=False,
            )
            context.call_on_fit_task_begin(estimator=self)
            more = {"bracket": bracket, "iter": rung, "n_resources": n_resources}
            results = evaluate(
                [{**candidate, self.resource: n_resources} for candidate in candidates],
                more_results={name: [value] * len(candidates) for name, value in more.items()},
                callback_ctx=context,
            )
            context.call_on_fit_task_end(estimator=self)
            rungs.append((len(candidates), n_resources))
            left = max(1, floor(n_candidates * self.factor ** -(rung + 1) + 1e-9))
            candidates = _best(results["mean_test_score"][-len(candidates) :], candidates, left)
        counts, resources = (list(column) for column in zip(*rungs, strict=True))
        self.n_candidates_ += counts
        self.n_resources_ += resources
        self.brackets_.append({"bracket": bracket, "n_candidates": counts, "n_resources": resources})

    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: Any) -> int:
        """Return the index of the best of the candidates that were trained longest."""
        if callable(refit):
            return int(BaseSuccessiveHalving._select_best_index(refit, refit_metric, results))
        longest = np.flatnonzero(results["n_resources"] == results["n_resources"].max())
        scores = results["mean_test_score"][longest]
        return int(longest[0 if np.isnan(scores).all() else np.nanargmax(scores)])


def bracket_sizes(most: int, fewest: int, factor: float) -> dict[int, int]:
    """Return the number of candidates of each bracket."""
    last = 0
    while fewest * factor ** (last + 1) <= most + 1e-9:
        last += 1
    return {s: ceil((last + 1) / (s + 1) * factor**s - 1e-9) for s in range(last, -1, -1)}


def _best(scores: Any, candidates: list[Any], n: int) -> list[Any]:
    """Return the candidates with the highest scores; failed ones count as lowest."""
    order = np.argsort(-np.where(np.isnan(scores), -np.inf, scores), kind="stable")
    return [candidates[index] for index in order[:n]]
