"""Cross-validation: scikit-learn's functions, with the fits of networks in threads of one group."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np
from sklearn import get_config, model_selection
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import _check_method_params, _num_samples

from sknet._constraints import shown
from sknet._frames import is_arrow, is_frame
from sknet._parallel import jobs_of
from sknet._params import described_by, named_errors
from sknet.engine._many import are_sent
from sknet.engine._scheduler import grouped
from sknet.estimators._head_scoring import scoring_by_target
from sknet.estimators._inputs import on_host
from sknet.estimators._multihead import MultiHeadNet
from sknet.estimators._targets import naming_labels
from sknet.model_selection._indexable import indexable
from sknet.model_selection._parallel_fits import (
    fits_networks,
    gathered,
    is_stacked,
    labels_to_split,
    last_step,
)


@named_errors
def cross_validate(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: Mapping[str, Any] | None = None,
    pre_dispatch: Any = "2*n_jobs",
    return_train_score: bool = False,
    return_estimator: bool = False,
    return_indices: bool = False,
    error_score: Any = float("nan"),
) -> dict[str, Any]:
    """Evaluate by cross-validation, with the fits of networks in threads instead of processes.

    Replaces scikit-learn's function of the same name, with the same results.

    Parameters
    ----------
    estimator : estimator
        Any estimator; fits of those that contain a network of sknet run in threads, and share programs and
        memory.
    X : array-like of shape (n_samples, ...), or dict of those
        Inputs; several by the names of a network's arguments.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
        Targets.
    groups : array-like of shape (n_samples,), default=None
        Groups for the splitter.
    scoring : str, callable, list, tuple, dict or None, default=None
        scikit-learn scorers; None uses the estimator's `score`. If values in y are missing, scorers are
        wrapped by `target_scorer`.
    cv : int, splitter, iterable or None, default=None
        Splitter or number of folds; None is 5 folds.
    n_jobs : int or None, default=None
        Number of parallel fits.
    verbose : int, default=0
        As in scikit-learn.
    params : dict, default=None
        Parameters for the estimator's `fit`, the scorers and the splitter.
    pre_dispatch : int or str, default="2*n_jobs"
        As in scikit-learn, for fits in processes.
    return_train_score, return_estimator, return_indices : bool, default=False
        Whether to return training scores, fitted estimators or indices of rows as well.
    error_score : "raise" or float, default=nan
        Score if a fit fails; "raise" raises the error.

    Returns
    -------
    dict
        As in scikit-learn: "test_score", "fit_time", ...

    Raises
    ------
    TypeError
        If the estimator has no `fit`.
    ValueError
        If `cv` yields no folds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> found = cross_validate(MLPClassifier((8,), tol=0.1, random_state=0), X, y, cv=3, n_jobs=2)
    >>> found["test_score"].shape
    (3,)
    """
    return _in_group(
        model_selection.cross_validate,
        (estimator, indexable(X), indexable(y)),
        groups=groups,
        scoring=scoring_by_target(scoring, y),
        cv=cv,
        n_jobs=n_jobs,
        verbose=verbose,
        params=params,
        pre_dispatch=pre_dispatch,
        return_train_score=return_train_score,
        return_estimator=return_estimator,
        return_indices=return_indices,
        error_score=error_score,
    )


@described_by(cross_validate)
@named_errors
def cross_val_score(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: Mapping[str, Any] | None = None,
    pre_dispatch: Any = "2*n_jobs",
    error_score: Any = float("nan"),
) -> Any:
    """Score by cross-validation, with the fits of networks in threads instead of processes.

    Replaces scikit-learn's function of the same name, with the same results.

    Parameters
    ----------
    scoring : str, callable or None, default=None
        A scorer of scikit-learn, as for `cross_validate`; None uses the estimator's `score`.

    Returns
    -------
    ndarray of shape (n_folds,)
        The scores of held-out rows.

    Raises
    ------
    ValueError
        If `scoring` has several scorers, or `cv` yields no folds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import cross_val_score
    >>> X, y = load_iris(return_X_y=True)
    >>> cross_val_score(MLPClassifier((8,), tol=0.1, random_state=0), X, y, cv=3, n_jobs=2).shape
    (3,)
    """
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise ValueError(
            f"cross_val_score takes one scorer, its name or None as scoring, got {shown(scoring)}: "
            "cross_validate takes several"
        )
    options = {"groups": groups, "cv": cv, "n_jobs": n_jobs, "verbose": verbose, "params": params}
    more = {"pre_dispatch": pre_dispatch, "error_score": error_score}
    return cross_validate(estimator, X, y, scoring=scoring, **options, **more)["test_score"]


@named_errors
@described_by(cross_validate)
def cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: Mapping[str, Any] | None = None,
    pre_dispatch: Any = "2*n_jobs",
    method: str = "predict",
) -> Any:
    """Predict each row by an estimator that has not seen it, with the fits of networks in threads.

    Replaces scikit-learn's function of the same name, with the same results.

    Parameters
    ----------
    estimator : estimator
        As for `cross_validate`.
    params : dict, default=None
        Parameters for the estimator's `fit` and the splitter.
    method : str, default="predict"
        The method that predicts, such as "predict_proba".

    Returns
    -------
    ndarray of shape (n_samples, ...)
        The predictions; a list of arrays if the method returns a list, and for targets of several heads a
        dict, or a frame if y is one.

    Raises
    ------
    ValueError
        If `cv` does not test each row once.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.model_selection import cross_val_predict
    >>> X, y = load_iris(return_X_y=True)
    >>> net = MLPClassifier((8,), tol=0.1, random_state=0)
    >>> cross_val_predict(net, X, y, n_jobs=2, method="predict_proba").shape
    (150, 3)
    """
    X = indexable(X)
    options = {"groups": groups, "cv": cv, "n_jobs": n_jobs, "verbose": verbose, "params": params}
    options["pre_dispatch"] = pre_dispatch
    requested = _requested(estimator, cv, params, method)
    has_heads = isinstance(y, Mapping) or (is_frame(y) and isinstance(last_step(estimator), MultiHeadNet))
    # scikit-learn numbers the labels of each column for itself, missing ones, too.
    has_columns = method in OF_CLASSES and (len(getattr(y, "shape", ())) > 1 or _holds_rows(y))
    if requested or has_heads or has_columns:
        return _by_fold(estimator, X, y, method, requested, options)
    return _in_group(
        model_selection.cross_val_predict, (estimator, X, indexable(y)), method=method, **options
    )


def _in_group(function: Callable[..., Any], data: tuple[Any, ...], **options: Any) -> Any:
    estimator, n_jobs, cv = data[0], options["n_jobs"], options["cv"]
    if not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must have a fit method, got {shown(estimator)}")
    if isinstance(cv, Iterable) and not hasattr(cv, "split") and not isinstance(cv, str):
        options["cv"] = list(cv)
        if not options["cv"]:
            raise ValueError("cv yields no folds: it must yield pairs of rows, for training and test")
    if is_classifier(estimator) and (labels := labels_to_split(estimator, data[2])) is not data[2]:
        options["cv"] = check_cv(options["cv"], labels, classifier=True)
    may_stack = is_stacked(estimator, data[1])
    has_network = hasattr(estimator, "get_params") and fits_networks(estimator)
    with grouped(1) if has_network else nullcontext(), naming_labels(data[2]):
        if not may_stack and (are_sent() or not has_network or jobs_of(n_jobs) == 1):
            return function(*data, **options)
        with gathered(n_jobs, may_stack):
            # joblib asks a backend only if there are several jobs.
            return function(*data, **options | {"n_jobs": 2, "pre_dispatch": "all"})


OF_CLASSES = "decision_function", "predict_log_proba", "predict_proba"


def _holds_rows(y: Any) -> bool:
    return isinstance(y, (list, tuple)) and len(y) > 0 and isinstance(y[0], (list, tuple, np.ndarray))


def _requested(estimator: Any, cv: Any, params: Any, method: str) -> Any:
    """Return metadata that an estimator requests for a method, which scikit-learn gives to `fit` alone."""
    if not params or not get_config()["enable_metadata_routing"]:
        return {}
    of_both = MethodMapping().add(caller="fit", callee="fit").add(caller="fit", callee=method)
    router = MetadataRouter(owner="cross_val_predict").add(estimator=estimator, method_mapping=of_both)
    router.add(splitter=cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
    return process_routing(router, "fit", **params)["estimator"][method]


def _by_fold(estimator: Any, X: Any, y: Any, method: str, requested: Any, options: dict[str, Any]) -> Any:
    """Return predictions of any container, of rows that an estimator has not seen."""
    told: dict[str, Any] = {"return_estimator": True, "return_indices": True, "error_score": "raise"}
    found = cross_validate(estimator, X, y, scoring=_no_score, **told, **options)
    folds, fitted = found["indices"]["test"], found["estimator"]
    rows = np.concatenate(folds)
    if not np.array_equal(np.sort(rows), np.arange(_num_samples(X))):
        raise ValueError("cross_val_predict needs a cv that tests each row once, such as KFold")
    parts = [
        getattr(each, method)(_safe_indexing(X, fold), **_check_method_params(X, requested, fold))
        for each, fold in zip(fitted, folds, strict=True)
    ]
    classes = [getattr(each, "classes_", None) for each in fitted]
    if method in OF_CLASSES and classes[0] is not None:
        if len({(type(part), type(of)) for part, of in zip(parts, classes, strict=True)}) > 1:
            raise ValueError(  # 0 and 1 alone are an indicator of labels
                f"{method} differs in kind between folds, whose rows to train on have the classes "
                f"{' and '.join(map(shown, classes))}: let cv give all classes to each fold"
            )
        whole = _union(classes)
        parts = [_of_all(part, of, whole, method) for part, of in zip(parts, classes, strict=True)]
    return _joined(parts, np.argsort(rows))


def _union(classes: list[Any]) -> Any:
    """Return the classes that any of several fits has seen, by heads or for each column of y."""
    first = classes[0]
    if isinstance(first, Mapping):
        return {name: _union([each[name] for each in classes]) for name in first}
    if isinstance(first, list):
        return [_union(list(each)) for each in zip(*classes, strict=True)]
    return np.unique(np.concatenate(classes))


def _of_all(part: Any, classes: Any, whole: Any, method: str) -> Any:
    """Return predictions with a column for each class, also those that a fit has not seen."""
    if isinstance(part, Mapping):
        return {name: _of_all(part[name], classes[name], whole[name], method) for name in part}
    if isinstance(part, list):
        return [_of_all(*each, method) for each in zip(part, classes, whole, strict=True)]
    if isinstance(classes, list) or len(classes) == len(whole):
        return part
    part = on_host(part)
    least = 0 if method == "predict_proba" else np.finfo(part.dtype).min
    found = np.full((*part.shape[:-1], len(whole)), least, part.dtype)
    found[..., np.searchsorted(whole, classes)] = part
    return found


def _no_score(estimator: Any, X: Any, y: Any) -> float:
    return 0.0


def _joined(parts: list[Any], order: Any) -> Any:
    """Return predictions of parts of the rows as those of all, in another order."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: _joined([part[name] for part in parts], order) for name in first}
    if isinstance(first, list):
        return [_joined(list(each), order) for each in zip(*parts, strict=True)]
    if is_frame(first):
        library = import_module(type(first).__module__.partition(".")[0])
        whole = library.concat_tables(parts) if is_arrow(first) else library.concat(parts)
        return _safe_indexing(whole, order)
    return np.concatenate([on_host(part) for part in parts])[order]
