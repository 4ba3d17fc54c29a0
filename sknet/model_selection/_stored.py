"""Fields of searches in files, and what results, candidates and the best of them must have in common."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods

from sknet._fields import ABSENT, COUNT, NOT_NEGATIVE, POSITIVE, Arrays, Each, Fields, Items, shown
from sknet._params import may_be_same

__all__ = ["SEARCH", "check_search"]

ANY_KIND = "biufOUMmcS"
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
    "feature_names_in_": [Arrays("OU", "n_features_in_"), ABSENT],
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


def _check_columns(results: Mapping[str, Any], candidates: Any, n_splits: int) -> None:
    """Raise a ValueError if a column of results is unknown, no column of numbers, or too long."""
    for name, column in results.items():
        is_number = NUMBERS.fullmatch(name) is not None
        if not is_number and name not in RESULTS.checks and not name.startswith("param_"):
            raise ValueError(f"cv_results_ has no column {shown(name)}")
        if (is_number and column.dtype.kind not in "fiu") or not 0 < len(column) == len(candidates):
            raise ValueError(
                f"column {shown(name)} of cv_results_ must have numbers of {len(candidates)} candidates"
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
        raise ValueError(f"{type(estimator).__name__} has no parameter {shown(unknown[0])}")
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
