"""scikit-learn's searches, with evaluations that reuse results of earlier ones."""

import inspect
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import Any, Self

import sklearn
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import (
    _fit_and_score,
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils import indexable
from sklearn.utils.validation import _check_method_params

from sknet._constraints import shown
from sknet._params import InvalidParameterError, PlainNumbers, same, validate_parameters
from sknet._warnings import warn_caller
from sknet.exceptions import ContinuationWarning
from sknet.model_selection._evaluation import Evaluated, Task, evaluate
from sknet.model_selection._first_steps import steps_key
from sknet.model_selection._stacked import rows_of_folds
from sknet.model_selection._stored import SEARCH, check_search
from sknet.model_selection._together import Fits, Way, way_of

__all__ = ["Search"]

SKLEARN = str(Path(sklearn.__file__).parent)
HAS_CALLBACKS = "callback_ctx" in inspect.signature(_fit_and_score).parameters


class NoContext:
    """Replaces scikit-learn's callback context if the installed version has none."""

    def subcontext(self, **kwargs: Any) -> Self:
        """Return itself."""
        return self

    def call_on_fit_task_begin(self, **kwargs: Any) -> Self:
        """Return itself."""
        return self

    def call_on_fit_task_end(self, **kwargs: Any) -> None:
        """Do nothing."""

    def propagate_callback_context(self, estimator: Any) -> Any:
        """Return a context that does nothing."""
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
        fits: Fits,
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
        """Evaluate candidates on all folds."""
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
        ways = [way_of(self._estimator, self._X, each) for each in candidates]
        shared = rows_of_folds(self._estimator, self._X) if Way.STACKED in ways else self._X
        contexts = {pair: self._context(context, number) for number, pair in enumerate(pairs)}
        found: dict[tuple[int, int], Evaluated] = {}

        def run(pairs: Sequence[tuple[int, int]], leads: bool) -> None:
            for way in Way:
                chosen = [pair for pair in pairs if ways[pair[0]] is way]
                tasks = [task_of(c, s, leads) for c, s in chosen]
                found.update(zip(chosen, self._fits.run(tasks, way), strict=True))

        def task_of(c: int, s: int, leads: bool) -> partial[Evaluated]:
            steps = None if keys[c] is None else _looked_up(self._steps, keys[c])
            task = Task(
                candidates[c],
                resource,
                None if saved[c] is None else saved[c][s],
                None if steps is None else steps[s],
                shares=leads,
            )
            X = shared if ways[c] is Way.STACKED else self._X
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
        task: Task,
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
    try:
        found = check_cv(cv, y, classifier=is_classifier(search.estimator))
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
    """Return a fit that leaves the search as it was if it fails."""

    @wraps(fit)
    def fitted(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return fitted


class Search(PlainNumbers, BaseSearchCV):
    """The `fit` of scikit-learn's searches, with evaluations that reuse results of earlier ones."""

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
        X : array-like of shape (n_samples, ...)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets.
        **params : dict
            For the estimator's `fit`, the scorers and the splitter, as in scikit-learn: an array with an
            entry for each row is split like X, and `groups` is for the splitter.

        Returns
        -------
        self
            With the attributes of scikit-learn's search.
        """
        scorers, refit_metric = self._get_scorers()
        X, y = indexable(X, y)
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
        with Fits(self.n_jobs, self.pre_dispatch) as fits:
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
