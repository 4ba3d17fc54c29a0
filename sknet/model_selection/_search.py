"""Searches whose evaluations reuse results of earlier ones, over grids and samples of candidates."""

import inspect
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn
from sklearn import utils
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.model_selection import GridSearchCV as Grid
from sklearn.model_selection import RandomizedSearchCV as Randomized
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import (
    _fit_and_score,
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import _check_method_params

from sknet._constraints import shown
from sknet._fields import ABSENT, COUNT, NOT_NEGATIVE, POSITIVE, Arrays, Each, Fields, Items, Texts
from sknet._fields import shown as shown_field
from sknet._params import PlainNumbers, described_by, may_be_same, same, validate_parameters
from sknet._warnings import warn_caller
from sknet.estimators._fit import SharedInputs
from sknet.estimators._head_scoring import scoring_by_target
from sknet.estimators._targets import kind_of_labels
from sknet.exceptions import ContinuationWarning, InvalidParameterError
from sknet.model_selection._evaluation import Evaluated, FoldTask, evaluate, steps_key
from sknet.model_selection._indexable import indexable
from sknet.model_selection._parallel_fits import (
    Dispatch,
    TaskRunner,
    dispatch_of,
    labels_to_split,
    rows_of_folds,
)

ANY_KIND = "biufOUMmcS"
MOST_CANDIDATES = 1_000_000
NUMBERS = re.compile(r"(mean|std)_(fit|score)_time|(mean|std|rank|split\d+)_(test|train)_.+", re.DOTALL)
RESULTS = Fields.of(
    "cv_results_",
    {
        "params": Each(list, dict[str, Any]),
        **{name: [Arrays("iu", "n_candidates"), ABSENT] for name in ("iter", "n_resources", "bracket")},
        "*": Arrays(ANY_KIND, "n_candidates"),
    },
)
BRACKET = Fields.of(
    "bracket", {"bracket": COUNT, "n_candidates": Each(list, POSITIVE), "n_resources": Each(list, POSITIVE)}
)
SEARCH: Mapping[str, Any] = {
    "n_features_in_": [COUNT, ABSENT],
    "_n_samples_orig": [COUNT, ABSENT],
    "min_resources_": [COUNT, ABSENT],
    "max_resources_": [COUNT, ABSENT],
    "n_remaining_candidates_": [COUNT, ABSENT],
    "n_required_iterations_": [COUNT, ABSENT],
    "n_possible_iterations_": [COUNT, ABSENT],
    "n_iterations_": [COUNT, ABSENT],
    "n_splits_": POSITIVE,
    "best_index_": [COUNT, ABSENT],
    "n_resources_": [Each(list, POSITIVE), ABSENT],
    "n_candidates_": [Each(list, POSITIVE), ABSENT],
    "brackets_": [Each(list, BRACKET), ABSENT],
    "feature_names_in_": [Texts("n_features_in_"), ABSENT],
    "multimetric_": bool,
    "best_score_": [float, ABSENT],
    "best_params_": [dict[str, Any], ABSENT],
    "best_estimator_": [HasMethods(["fit", "get_params"]), ABSENT],
    "refit_time_": [NOT_NEGATIVE, ABSENT],
    "scorer_": [callable, Items(str, callable)],
    "cv_results_": RESULTS,
    "_checked_cv_orig": [HasMethods(["split", "get_n_splits"]), ABSENT],
    "pre_dispatch": [str, POSITIVE, None, ABSENT],
}


def check_search(search: Any) -> None:
    """Raise a ValueError if fitted attributes contradict each other."""
    known = vars(search)
    if "pre_dispatch" not in known:
        raise ValueError("it lacks its field 'pre_dispatch'")
    if "cv_results_" not in known:
        return
    candidates = search.cv_results_["params"]
    _check_columns(search.cv_results_, candidates, search.n_splits_)
    _check_candidates(search.cv_results_, candidates, search.estimator)
    if "best_index_" in known:
        _check_best(search, candidates)
    lists = [(known.get("n_resources_", []), known.get("n_candidates_", []))]
    lists += [(each["n_resources"], each["n_candidates"]) for each in known.get("brackets_", [])]
    if not all(len(resources) == len(counts) for resources, counts in lists):
        raise ValueError("n_resources_ and n_candidates_ have other numbers of iterations")


def _metrics(results: Mapping[str, Any]) -> set[str]:
    return {name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")}


def check_draws(search: Any, count: int, mend: str) -> None:
    """Raise an InvalidParameterError if candidates from distributions would not fit into memory."""
    given = search.param_distributions
    spaces = [given] if isinstance(given, Mapping) else given
    are_lists = all(not hasattr(values, "rvs") for space in spaces for values in space.values())
    if count > MOST_CANDIDATES and not are_lists:
        raise InvalidParameterError(
            f"{type(search).__name__} would draw {count} candidates, at most {MOST_CANDIDATES} make "
            f"sense: set {mend}"
        )


def _check_columns(results: Mapping[str, Any], candidates: Any, n_splits: int) -> None:
    """Raise a ValueError if a column of results is unknown, no column of numbers, or too long."""
    for name, column in results.items():
        is_number = NUMBERS.fullmatch(name) is not None
        if not is_number and name not in RESULTS.checks and not name.startswith("param_"):
            raise ValueError(f"cv_results_ has no column {shown_field(name)}")
        if (is_number and column.dtype.kind not in "fiu") or not 0 < len(column) == len(candidates):
            raise ValueError(
                f"column {shown_field(name)} of cv_results_ must have numbers of {len(candidates)} candidates"
            )
    for metric in _metrics(results):
        splits = {name for name in results if re.fullmatch(rf"split\d+_test_{re.escape(metric)}", name)}
        if splits != {f"split{i}_test_{metric}" for i in range(min(n_splits, len(results)))}:
            raise ValueError(f"cv_results_ must have a score of each of {n_splits} splits, has {len(splits)}")


def _check_candidates(results: Mapping[str, Any], candidates: Any, estimator: Any) -> None:
    """Raise a ValueError if candidates have parameters that the estimator, or the results, do not have."""
    names = {name for params in candidates for name in params}
    known = estimator.get_params()
    unknown = [name for name in names if name not in known and name.partition("__")[0] not in known]
    if unknown:
        raise ValueError(f"{type(estimator).__name__} has no parameter {shown_field(unknown[0])}")
    columns = {name.removeprefix("param_"): x for name, x in results.items() if name.startswith("param_")}
    if columns.keys() != names:
        raise ValueError(f"cv_results_ has parameters {sorted(columns)}, and candidates have {sorted(names)}")
    for name, column in columns.items():
        given = [name not in params for params in candidates]
        if np.ma.getmaskarray(column).tolist() != given:
            raise ValueError(f"column 'param_{name}' of cv_results_ is not that of its candidates")


def _check_best(search: Any, candidates: Any) -> None:
    """Raise a ValueError if the best candidate is another one than its number says."""
    index, best = search.best_index_, vars(search).get("best_params_", {})
    if index >= len(candidates):
        raise ValueError(f"best_index_ is {index}, and there are {len(candidates)} candidates")
    params = candidates[index]
    if params.keys() != best.keys() or not all(may_be_same(params[name], best[name]) for name in params):
        raise ValueError(f"best_params_ are not those of candidate {index}")
    score, results = vars(search).get("best_score_"), search.cv_results_
    means = [results[f"mean_test_{metric}"][index] for metric in _metrics(results)]
    if score is not None and not any(score == mean or (score != score and mean != mean) for mean in means):
        raise ValueError(f"best_score_ is {score}, and candidate {index} has {means}")
    several = search.scorer_ if isinstance(search.scorer_, dict) else None
    if several is not None and not (search.multimetric_ and several.keys() == _metrics(results)):
        raise ValueError(f"results are of {sorted(_metrics(results))}, and scorer_ has {sorted(several)}")
    if "best_estimator_" in vars(search) and type(search.best_estimator_) is not type(search.estimator):
        raise ValueError(f"best_estimator_ must be a {type(search.estimator).__name__}")


SKLEARN = str(Path(sklearn.__file__).parent)
HAS_CALLBACKS = "callback_ctx" in inspect.signature(_fit_and_score).parameters


class NoContext:
    """Replaces scikit-learn's callback context if the installed version has none."""

    def subcontext(self, **kwargs: Any) -> Self:
        return self

    def call_on_fit_task_begin(self, **kwargs: Any) -> Self:
        return self

    def call_on_fit_task_end(self, **kwargs: Any) -> None:
        """Do nothing."""

    def propagate_callback_context(self, estimator: Any) -> Any:
        return nullcontext()


class Evaluations:
    """The evaluations of one search, with the results that later ones reuse."""

    def __init__(
        self,
        search: "Search",
        estimator: Any,
        X: Any,
        y: Any,
        routed: Any,
        arguments: dict[str, Any],
        fits: TaskRunner,
    ) -> None:
        self._search, self._estimator, self._X, self._y = search, estimator, X, y
        self._split_params, self._arguments, self._fits = routed.splitter.split, arguments, fits
        self._candidates: list[dict[str, Any]] = []
        self._more: dict[str, list[Any]] = defaultdict(list)
        self._saved: list[tuple[dict[str, Any], list[Any]]] = []  # of the last rung, by candidate
        self._steps: list[tuple[dict[str, Any], list[Any]]] = []  # fitted steps, by their parameters
        self.out: list[dict[str, Any]] = []
        self.results: dict[str, Any] = {}
        self.reasons: dict[str, None] = {}

    def __call__(
        self,
        candidates: Iterable[dict[str, Any]],
        cv: Any = None,
        more_results: dict[str, list[Any]] | None = None,
        callback_ctx: Any = None,
    ) -> dict[str, Any]:
        search, candidates = self._search, list(candidates)
        same_rows = cv is None or cv is search._checked_cv_orig
        splits = list((cv or search._checked_cv_orig).split(self._X, self._y, **self._split_params))
        if len(splits) != search.n_splits_:
            raise ValueError(
                f"the splitter {search.cv!r} announces {search.n_splits_} splits and yields {len(splits)}: "
                "its split and get_n_splits must agree"
            )
        if search.verbose > 0:
            n = len(candidates)
            print(f"Fitting {len(splits)} folds for each of {n} candidates, totalling {n * len(splits)} fits")
        if not same_rows:
            self._steps = []
        if not more_results or not any(more_results.get("iter", ())):
            self._saved = []  # the first rung of a bracket
        found = self._evaluated(candidates, splits, callback_ctx, same_rows)
        if not found:
            raise ValueError("nothing was fitted: the search has no candidates, or cv yields no split")
        out = [each.result for each in found]
        _warn_or_raise_about_fit_failures(out, search.error_score)
        if callable(search.scoring):
            _insert_error_scores(out, search.error_score)
        self.reasons |= {each.why_not: None for each in found if each.why_not}
        self._candidates += candidates
        self.out += out
        for name, column in (more_results or {}).items():
            self._more[name] += column
        self.results = search._format_results(self._candidates, search.n_splits_, self.out, self._more)
        return self.results

    def _evaluated(
        self, candidates: Sequence[dict[str, Any]], splits: Sequence[Any], context: Any, same_rows: bool
    ) -> list[Evaluated]:
        """Run all tasks, candidate by candidate; of those that share steps, one before the others."""
        n_splits, resource = len(splits), self._search._epochs()
        pairs = [(c, s) for c in range(len(candidates)) for s in range(n_splits)]
        keys = [steps_key(self._estimator, each) if same_rows else None for each in candidates]
        saved = [_looked_up(self._saved, _without(each, resource)) for each in candidates]
        dispatches = [dispatch_of(self._estimator, self._X, each) for each in candidates]
        shared = rows_of_folds(self._estimator, self._X) if Dispatch.STACKED in dispatches else self._X
        inputs = [None if shared is self._X else SharedInputs(of_members=False) for _ in splits]
        contexts = {pair: self._context(context, number) for number, pair in enumerate(pairs)}
        found: dict[tuple[int, int], Evaluated] = {}

        def run(pairs: Sequence[tuple[int, int]], leads: bool) -> None:
            for dispatch in Dispatch:
                chosen = [pair for pair in pairs if dispatches[pair[0]] is dispatch]
                tasks = [task_of(c, s, leads) for c, s in chosen]
                found.update(zip(chosen, self._fits.run(tasks, dispatch), strict=True))

        def task_of(c: int, s: int, leads: bool) -> partial[Evaluated]:
            steps = None if keys[c] is None else _looked_up(self._steps, keys[c])
            is_stacked = dispatches[c] is Dispatch.STACKED
            task = FoldTask(
                candidates[c],
                resource,
                None if saved[c] is None else saved[c][s],
                None if steps is None else steps[s],
                shares=leads,
                inputs=inputs[s] if is_stacked else None,
            )
            X = shared if is_stacked else self._X
            return self._evaluation(X, task, splits[s], (c, s), (len(candidates), n_splits), contexts)

        leaders = self._leaders(keys)
        if leaders:
            run([pair for pair in pairs if pair[0] in leaders], leads=True)
            for c in leaders:
                key, steps = keys[c], [found[c, s].steps for s in range(n_splits)]
                if key is not None and all(each is not None for each in steps):
                    self._steps.append((key, steps))
        run([pair for pair in pairs if pair not in found], leads=False)
        if resource is not None:
            self._saved = [
                (_without(each, resource), [found[c, s].saved for s in range(n_splits)])
                for c, each in enumerate(candidates)
            ]
        return [found[pair] for pair in pairs]

    def _leaders(self, keys: Sequence[dict[str, Any] | None]) -> set[int]:
        """Return the first candidate of those that share steps, if others or later rungs do."""
        first: list[tuple[dict[str, Any], list[int]]] = []
        for number, key in enumerate(keys):
            if key is not None and _looked_up(self._steps, key) is None:
                alike = _looked_up(first, key)
                if alike is None:
                    first.append((key, [number]))
                else:
                    alike.append(number)
        has_rungs = self._search._epochs() is not None
        return {numbers[0] for _, numbers in first if has_rungs or len(numbers) > 1}

    def _context(self, context: Any, number: int) -> Any:
        return context and context.subcontext(task_name="candidate-split-evaluation", task_id=number)

    def _evaluation(
        self,
        X: Any,
        task: FoldTask,
        split: Any,
        at: tuple[int, int],
        of: tuple[int, int],
        contexts: dict[Any, Any],
    ) -> partial[Evaluated]:
        arguments = {
            **self._arguments,
            "train": split[0],
            "test": split[1],
            "candidate_progress": (at[0], of[0]),
            "split_progress": (at[1], of[1]),
        }
        if HAS_CALLBACKS:
            arguments |= {"caller": self._search, "callback_ctx": contexts[at]}
        return partial(evaluate, clone(self._estimator), X, self._y, task, arguments)


def _without(candidate: dict[str, Any], name: str | None) -> dict[str, Any]:
    return {each: value for each, value in candidate.items() if each != name}


def _looked_up(known: Sequence[tuple[dict[str, Any], Any]], key: Any) -> Any:
    """Return the value of a dict of parameters, which cannot be hashed; None if there is none."""
    for other, value in known:
        if other.keys() == key.keys() and all(
            type(other[name]) is type(key[name]) and same(other[name], key[name]) for name in key
        ):
            return value
    return None


def check_splits(cv: Any, y: Any, search: Any) -> Any:
    """Return a splitter, after a check that what a user gives as `cv` can be split by."""
    are_labels = is_classifier(search.estimator)
    if are_labels and y is not None:
        y = labels_to_split(search.estimator, y)
        kind_of_labels(y)
    try:
        with np.errstate(invalid="ignore"):  # scikit-learn casts labels to integers
            found = check_cv(cv, y, classifier=are_labels)
        found.get_n_splits  # noqa: B018  a text has a method `split`, too
        given = [] if cv is None or isinstance(cv, int) or hasattr(cv, "split") else found.split()
        is_right = all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in given)
    except Exception as error:
        raise _no_splits(cv, search, f" ({error})") from None
    if not is_right:
        raise _no_splits(cv, search)
    return found


def _no_splits(cv: Any, search: Any, why: str = "") -> Exception:
    return InvalidParameterError(
        f"The 'cv' parameter of {type(search).__name__} must be a number of folds, a splitter of "
        f"scikit-learn, or an iterable of pairs (training, held-out rows), or None. Got {shown(cv)} "
        f"instead{why}."
    )


def _undone(fit: Any) -> Any:
    """Return a fit that takes a dict of inputs, and leaves the search as it was if it fails."""

    @wraps(fit)
    def fitted(self: Any, X: Any, y: Any = None, **params: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, indexable(X), indexable(y), **params)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return fitted


class Search(PlainNumbers, BaseSearchCV):
    """Base of searches like scikit-learn's, whose evaluations reuse results of earlier ones.

    Parameters
    ----------
    estimator : estimator
        A sknet estimator, or a Pipeline that ends with one.
    param_grid : dict or list of dict
        The candidates, as in `sklearn.model_selection.ParameterGrid`.
    scoring : str, callable or None, default=None
        One scikit-learn scorer; None uses the estimator's `score`.
    n_jobs : int or None, default=None
        Number of parallel fits, by joblib; states are sent to and from processes.
    refit : bool or callable, default=True
        Whether to fit the best candidate on all rows.
    cv : int, splitter or iterable, default=5
        Splitter or number of folds; it must yield the same folds each time.
    verbose : int, default=0
        As in scikit-learn.
    pre_dispatch : int or str, default="2*n_jobs"
        As in scikit-learn, for fits in processes.
    error_score : "raise" or float, default=nan
        Score of a candidate whose fit fails; "raise" raises the error.
    return_train_score : bool, default=True
        Whether to score the training rows, too.
    param_distributions : dict or list of dict
        Lists or SciPy distributions of parameters, as in `sklearn.model_selection.ParameterSampler`.
    random_state : int, RandomState instance or None, default=None
        Determines the candidates.
    resource : str, default="max_iter"
        The parameter that counts epochs; of a Pipeline for example ``"net__max_iter"``. Any other resource
        of scikit-learn, such as ``"n_samples"``, restarts candidates.
    max_resources : int or "auto", default="auto"
        Maximum number of epochs of a candidate. "auto" is the estimator's own `max_iter`; for ``"n_samples"``
        all rows.
    aggressive_elimination : bool, default=False
        Whether to repeat rungs with the first number of epochs until few enough candidates are left;
        repetitions cost nothing here.
    factor : int or float, default=3
        One in `factor` candidates continues to the next rung, for `factor` times the epochs.
    """

    _stored_fields = SEARCH

    def _check_stored(self) -> None:
        check_search(self)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.fit = _undone(cls.fit)  # type: ignore[method-assign]

    def _epochs(self) -> str | None:
        """Return the parameter that changes from rung to rung while fits continue; None if none do."""
        return None

    def _validate_params(self) -> None:
        validate_parameters(self)
        for name in ("param_grid", "param_distributions"):
            given = getattr(self, name, {})
            if not isinstance(given, dict) and not (len(given) and all(isinstance(g, dict) for g in given)):
                raise InvalidParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be a dict, or a list of at "
                    f"least one. Got {shown(given)} instead."
                )
        several = self.scoring if isinstance(self.scoring, (list, tuple, set)) else ()
        if not all(isinstance(each, str) or callable(each) for each in several):
            raise InvalidParameterError(
                f"The 'scoring' parameter of {type(self).__name__} must be a name or scorer of scikit-learn, "
                f"a list of names, or a dict of names to scorers. Got {shown(self.scoring)} instead."
            )

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        """Check what depends on the data; halving does."""

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Run the search.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), or dict of those
            Inputs; several by the names of a network's arguments.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets.
        **params : dict
            Parameters for the estimator's `fit`, the scorers and the splitter, as in scikit-learn: an array
            with an entry for each row is split like X, and `groups` is for the splitter.

        Returns
        -------
        self
            The fitted search, with the attributes of scikit-learn's.
        """
        scorers, refit_metric = self._get_scorers()
        X, y = utils.indexable(X, y)
        if hasattr(scorers, "_scorers"):  # by name
            scorers._scorers = scoring_by_target(scorers._scorers, y)
        scorers = scoring_by_target(scorers, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        weight = params.get("sample_weight")
        told = {"estimator": self, "X": X, "y": y}
        told["metadata"] = None if weight is None else {"sample_weight": weight}
        context = self._context(max_subtasks=1 + (self.refit is not False)).call_on_fit_task_begin(**told)
        self._checked_cv_orig = check_splits(self.cv, y, self)
        self._check_input_parameters(X=X, y=y, split_params=routed.splitter.split)
        self.n_splits_ = self._checked_cv_orig.get_n_splits(X, y, **routed.splitter.split)
        base = clone(self.estimator)
        arguments = {
            "scorer": scorers,
            "fit_params": routed.estimator.fit,
            "score_params": routed.scorer.score,
            "return_train_score": self.return_train_score,
            "return_n_test_samples": True,
            "return_times": True,
            "error_score": self.error_score,
            "verbose": self.verbose,
        }
        with TaskRunner(self.n_jobs, self.pre_dispatch) as fits:
            evaluations = Evaluations(self, base, X, y, routed, arguments, fits)
            accepted = inspect.signature(self._run_search).parameters
            self._run_search(evaluations, **{"callback_ctx": context} if "callback_ctx" in accepted else {})
        if evaluations.reasons:
            self._warn_of_restarts(list(evaluations.reasons))
        self._choose(evaluations, refit_metric)
        if self.refit:
            self._refit(base, context, told, routed.estimator.fit)
        self.scorer_ = getattr(scorers, "_scorers", scorers)  # several are in a dict
        self.cv_results_ = evaluations.results
        context.call_on_fit_task_end(**told)
        return self

    def _context(self, **kwargs: Any) -> Any:
        return self._init_callback_context(**kwargs) if HAS_CALLBACKS else NoContext()

    def _warn_of_restarts(self, reasons: list[str]) -> None:
        warn_caller(
            f"{type(self).__name__} restarts candidates in each rung, as scikit-learn does, if they cannot "
            f"continue training: {'; '.join(reasons)}.",
            ContinuationWarning,
            beyond=(SKLEARN,),
        )

    def _choose(self, evaluations: Evaluations, metric: str) -> None:
        """Set which candidate is best."""
        first, results = evaluations.out[0]["test_scores"], evaluations.results
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first)
            metric = self.refit
        if not (self.refit or not self.multimetric_):
            return
        try:
            self.best_index_ = self._select_best_index(self.refit, metric, results)
        except Exception as error:
            if not callable(self.refit):
                raise
            name = type(self).__name__
            raise TypeError(
                f"The 'refit' parameter of {name} is a function that must return the number of a candidate "
                f"of cv_results_. {shown(self.refit)} fails: {error}"
            ) from error
        if not callable(self.refit):
            self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
        self.best_params_ = results["params"][self.best_index_]

    def _refit(self, base: Any, context: Any, told: dict[str, Any], fit_params: dict[str, Any]) -> None:
        """Fit the best candidate on all rows."""
        best = clone(base).set_params(**clone(self.best_params_, safe=False))
        self.best_estimator_ = best
        task = context.subcontext(task_name="refit-with-best-params")
        with task.propagate_callback_context(best):
            task.call_on_fit_task_begin(**told)
            start = time.time()
            best.fit(told["X"], *([] if told["y"] is None else [told["y"]]), **fit_params)
            self.refit_time_ = time.time() - start
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_
        task.call_on_fit_task_end(**told)


@described_by(Search)
class GridSearchCV(Grid, Search):
    """Grid search whose candidates are fitted together, and share the first steps of their Pipeline.

    Replaces scikit-learn's class of the same name, with the same results. The steps of a Pipeline before the
    last one are fitted once per fold for all candidates that have the same parameters of these steps. Fits of
    networks of sknet run in threads instead of processes, and share programs and memory if they have the same
    structure; on a device, those are one program. All other candidates are fitted as scikit-learn does.

    Parameters
    ----------
    estimator : estimator
        Any estimator; the fitted first steps of a Pipeline are shared.
    scoring : str, callable, list, tuple, dict or None, default=None
        scikit-learn scorers; None uses the estimator's `score`.
    n_jobs : int or None, default=None
        Number of parallel fits, by joblib: in threads for networks, unless `joblib.parallel_config` chooses a
        backend.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate on all rows; with several scorers, the one that decides.
    cv : int, splitter, iterable or None, default=None
        Splitter or number of folds; None is 5 folds.
    return_train_score : bool, default=False
        Whether to score the training rows, too.

    Attributes
    ----------
    cv_results_ : dict
        As in scikit-learn; a "mean_fit_time" contains the time of shared steps only for the candidate that
        fitted them.
    best_estimator_, best_params_, best_score_, best_index_
        The best candidate.
    scorer_, n_splits_, refit_time_, multimetric_
        As in scikit-learn.

    Notes
    -----
    A shared step without a `random_state` draws its random numbers once for all candidates. A Pipeline with
    its own ``memory`` uses it instead.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import GridSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), MLPClassifier((8,), tol=0.1, random_state=0))
    >>> search = GridSearchCV(pipe, {"mlpclassifier__optimizer__lr": [1e-3, 1e-1]}, cv=2)
    >>> search.fit(X, y).best_params_
    {'mlpclassifier__optimizer__lr': 0.1}
    """


@described_by(Search)
class RandomizedSearchCV(Randomized, Search):
    """Randomized search whose candidates are fitted together, and share the first steps of their Pipeline.

    Replaces scikit-learn's class of the same name, with the same results; see `GridSearchCV`.

    Parameters
    ----------
    estimator : estimator
        Any estimator; the fitted first steps of a Pipeline are shared.
    n_iter : int, default=10
        Number of candidates.
    scoring : str, callable, list, tuple, dict or None, default=None
        scikit-learn scorers; None uses the estimator's `score`.
    n_jobs : int or None, default=None
        Number of parallel fits, by joblib: in threads for networks, unless `joblib.parallel_config` chooses a
        backend.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate on all rows; with several scorers, the one that decides.
    cv : int, splitter, iterable or None, default=None
        Splitter or number of folds; None is 5 folds.
    return_train_score : bool, default=False
        Whether to score the training rows, too.

    Attributes
    ----------
    cv_results_ : dict
        As in `GridSearchCV`, like all other attributes.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import RandomizedSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), MLPClassifier((8,), tol=0.1, random_state=0))
    >>> rates = {"mlpclassifier__optimizer__lr": loguniform(1e-3, 1e-1)}
    >>> search = RandomizedSearchCV(pipe, rates, n_iter=3, cv=2, random_state=0)
    >>> len(search.fit(X, y).cv_results_["params"])
    3
    """

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        check_draws(self, self.n_iter, "a lower n_iter")
