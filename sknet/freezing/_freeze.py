"""Freezing of a fitted pipeline: one table row for each transformer."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sknet._late import issparse
from sknet._params import named_errors
from sknet.freezing._encoders import (
    Branch,
    Chain,
    Columns,
    Positions,
    k_bins,
    one_hot_encoder,
    ordinal_encoder,
    table_encoder,
)
from sknet.freezing._predictor import Features, FrozenPipeline, Retargeted
from sknet.freezing._transformers import (
    FUNCTIONS,
    BoxCox,
    Elementwise,
    Scaling,
    binarizer,
    max_abs_scaler,
    min_max_scaler,
    normalizer,
    polynomial_features,
    power_transformer,
    principal_components,
    quantile_transformer,
    robust_scaler,
    selector,
    simple_imputer,
    standard_scaler,
    truncated_svd,
)


class _RefusedError(Exception):
    """An estimator cannot be frozen: which one, and why."""


@named_errors
def freeze(estimator: Any) -> Any:
    """Freeze a fitted pipeline into a predictor on arrays.

    The transformers of a pipeline and the network after them become one function on arrays, with bitwise
    identical results and without calls of scikit-learn.

    Parameters
    ----------
    estimator : estimator
        A fitted `Pipeline` of transformers and a sknet estimator, a single transformer or estimator, or a
        `TransformedTargetRegressor` or search around them.

    Returns
    -------
    FrozenPipeline
        A predictor with the estimator's methods that predict or transform. It takes arrays, lists of rows and
        frames of pandas, polars and Arrow, whose columns are matched by name. It is thread-safe, and can be
        pickled and saved by `sknet.save`. For a single estimator of other inputs than tables, such as images
        or sequences, the result of its method `freeze`.

    Raises
    ------
    TypeError
        If a step cannot be frozen; the message names it, and the supported classes.
    NotFittedError
        If the estimator is not fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import sknet
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = sknet.MLPClassifier((8,), tol=0.1, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), clf).fit(X, y)
    >>> frozen = sknet.freeze(pipeline)
    >>> frozen
    FrozenPipeline(StandardScaler -> MLPClassifier)
    >>> bool((frozen.predict_proba(X) == pipeline.predict_proba(X)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, type):
        raise TypeError(
            f"freeze: estimator must be a fitted object, got the class {estimator.__qualname__}: "
            "call it, and fit what it returns"
        )
    check_is_fitted(estimator)
    try:
        parts = _parts(estimator, "")
    except _RefusedError as refused:
        raise TypeError(
            f"{refused.args[0]}. Supported are sknet's estimators, Pipeline, "
            f"{', '.join(sorted({*STEPS, *LASTS} - {'Pipeline'}))}"
        ) from None
    *before, (_, last) = parts
    steps = [step for _, step in before]
    if not hasattr(last, "predict") and not hasattr(last, "transform"):
        steps, last = [*steps, last], None
    if not steps and not hasattr(estimator, "n_features_in_"):
        return last
    chain = Chain(tuple(steps))
    return FrozenPipeline(_features(estimator, chain), chain, last, tuple(label for label, _ in parts))


def _parts(estimator: Any, path: str) -> list[tuple[str, Any]]:
    """Return the parts of an estimator by name: functions, and optionally a predictor at the end."""
    name = _kind(estimator)
    if name == "Pipeline":
        found = []
        for key, step in estimator.steps:
            if step is not None and not (isinstance(step, str) and step == "passthrough"):
                found += _parts(step, f"{path}{key}.")
        return found or [("passthrough", Elementwise(None))]
    made = (STEPS.get(name) or LASTS.get(name)) if name else None
    if made is not None:
        _check_fitted(estimator, path)
        _check_output(estimator, path)
        try:
            return [(type(estimator).__name__, made(estimator, path))]
        except ValueError as error:
            raise _RefusedError(f"{_where(estimator, path)} cannot be frozen: {error}") from None
    if hasattr(estimator, "freeze"):
        return [(type(estimator).__name__, estimator.freeze())]
    raise _RefusedError(f"{_where(estimator, path)} cannot be frozen")


def _kind(estimator: Any) -> str:
    """Return the name of a class of scikit-learn or sknet; None for any other class."""
    cls = type(estimator)
    return cls.__name__ if cls.__module__.partition(".")[0] in ("sklearn", "sknet") else ""


def _where(estimator: Any, path: str) -> str:
    what = f"{type(estimator).__module__.partition('.')[0]}'s {type(estimator).__name__}"
    return f"step {path[:-1]!r}, {what}," if path else what


def _check_fitted(estimator: Any, path: str) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise NotFittedError(
            f"{_where(estimator, path)} is not fitted: fit the whole pipeline before it is frozen"
        ) from None


def _check_output(estimator: Any, path: str) -> None:
    config = getattr(estimator, "_sklearn_output_config", {}).get("transform", "default")
    if config != "default":
        raise _RefusedError(
            f"{_where(estimator, path)} cannot be frozen: it returns frames of {config}; "
            "use set_output(transform='default')"
        )


# -- kinds --------------------------------------------------------------------------------------------


def _chain(estimator: Any, path: str) -> Chain:
    """Freeze a transformer inside another estimator."""
    steps = [step for _, step in _parts(estimator, path)]
    return Chain(tuple([getattr(step, "transform", step) for step in steps]))


def _column_transformer(transformer: Any, path: str) -> Columns:
    branches = []
    weights = transformer.transformer_weights or {}
    for name, step, columns in transformer.transformers_:
        indices = transformer._transformer_to_input_indices[name]
        if (isinstance(step, str) and step == "drop") or not len(indices):
            continue
        if np.isscalar(columns):
            raise ValueError(
                f"{name!r} gets the column {columns!r} as an array with one axis: use [{columns!r}]"
            )
        is_passed = isinstance(step, str)
        inner = Chain(()) if is_passed else _chain(step, f"{path}{name}.")
        branches.append(Branch(inner, _positions(columns, indices), weights.get(name)))
    return Columns(tuple(branches), bool(transformer.sparse_output_))


def _feature_union(union: Any, path: str) -> Columns:
    weights = union.transformer_weights or {}
    branches = []
    for name, step in union.transformer_list:
        if isinstance(step, str) and step == "drop":
            continue
        inner = Chain(()) if isinstance(step, str) else _chain(step, f"{path}{name}.")
        branches.append(Branch(inner, slice(None), weights.get(name)))
    if not branches:
        raise ValueError("it has no transformers")
    return Columns(tuple(branches), None)


def _positions(columns: Any, indices: Any) -> Positions:
    """Return positions of columns; a slice of numbers is kept, since it needs no copy."""
    whole = isinstance(columns, slice) and all(
        each is None or isinstance(each, int) for each in (columns.start, columns.stop, columns.step)
    )
    return columns if whole else tuple(map(int, indices))


def _function_transformer(transformer: Any, path: str) -> Elementwise:
    return _elementwise(transformer.func, transformer.kw_args, transformer.validate)


def _elementwise(function: Any, arguments: Any, checks: bool) -> Elementwise:
    name = None if function is None else str(getattr(function, "__name__", ""))
    if name is not None and (FUNCTIONS.get(name) is not function or arguments):
        raise ValueError(
            f"its function is {function!r}; supported are None and, without arguments, NumPy's: "
            f"{', '.join(FUNCTIONS)}"
        )
    return Elementwise(name, bool(checks))


def _transformed_target(estimator: Any, path: str) -> Retargeted:
    inner = _parts(estimator.regressor_, f"{path}regressor.")
    regressor = inner[-1][1]
    if len(inner) > 1:
        chain = Chain(tuple(step for _, step in inner[:-1]))
        labels = tuple(label for label, _ in inner)
        regressor = FrozenPipeline(_features(estimator.regressor_, chain), chain, regressor, labels)
    inverse = _inverse(estimator.transformer_)
    return Retargeted(regressor, inverse, estimator._training_dim == 1)


def _inverse(transformer: Any) -> Any:
    if _kind(transformer) == "FunctionTransformer":
        return _elementwise(transformer.inverse_func, transformer.inv_kw_args, transformer.validate)
    found = STEPS[_kind(transformer)](transformer, "") if _kind(transformer) in STEPS else None
    if not isinstance(found, Scaling):
        raise ValueError(
            f"the transformer of its targets is {transformer!r}; supported are scalers and functions"
        )
    return found.inverse


def _search(search: Any, path: str) -> Any:
    if not hasattr(search, "best_estimator_"):
        raise ValueError("it has no best_estimator_: use refit=True")
    return freeze(search.best_estimator_)


def _alone(function: Callable[[Any], Any]) -> Callable[[Any, str], Any]:
    """Return a function that freezes a transformer without nested ones."""
    return lambda transformer, path: function(transformer)


def _exactly(function: Callable[[Any], Any]) -> Callable[[Any, str], Any]:
    """Return a function that freezes a transformer, and compares what both return."""

    def made(transformer: Any, path: str) -> Any:
        step = function(transformer)
        X = np.random.default_rng(0).normal(size=(N_COMPARED, transformer.n_features_in_))
        X = np.exp(X) if isinstance(step, BoxCox) else X  # which takes positive numbers alone
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that an array does not have
            found, expected = step(X), transformer.transform(X)
        difference = found != expected
        if found.shape != expected.shape or (difference.nnz if issparse(difference) else difference.any()):
            raise ValueError("this version of scikit-learn computes it in another way")
        return step

    return made


N_COMPARED = 20  # rows
SELECTORS = (
    *("SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe", "GenericUnivariateSelect"),
    *("SelectFromModel", "SequentialFeatureSelector", "VarianceThreshold", "RFE", "RFECV"),
)
STEPS: Mapping[str, Callable[[Any, str], Any]] = {
    "Binarizer": _exactly(binarizer),
    "ColumnTransformer": _column_transformer,
    "FeatureUnion": _feature_union,
    "FunctionTransformer": _function_transformer,
    **dict.fromkeys(SELECTORS, _alone(selector)),
    "KBinsDiscretizer": _exactly(k_bins),
    "MaxAbsScaler": _alone(max_abs_scaler),
    "MinMaxScaler": _alone(min_max_scaler),
    "Normalizer": _exactly(normalizer),
    "OneHotEncoder": _alone(one_hot_encoder),
    "OrdinalEncoder": _alone(ordinal_encoder),
    "PCA": _exactly(principal_components),
    "PolynomialFeatures": _exactly(polynomial_features),
    "PowerTransformer": _exactly(power_transformer),
    "QuantileTransformer": _exactly(quantile_transformer),
    "RobustScaler": _alone(robust_scaler),
    "SimpleImputer": _alone(simple_imputer),
    "StandardScaler": _alone(standard_scaler),
    "TableEncoder": _alone(table_encoder),
    "TruncatedSVD": _exactly(truncated_svd),
}
"""Transformers by name, each with a function that freezes it into a function on arrays."""

LASTS: Mapping[str, Callable[[Any, str], Any]] = {
    "GridSearchCV": _search,
    "RandomizedSearchCV": _search,
    "TransformedTargetRegressor": _transformed_target,
}
"""Meta-estimators."""


# -- columns of X -------------------------------------------------------------------------------------


def _features(estimator: Any, chain: Chain) -> Features:
    names = getattr(estimator, "feature_names_in_", None)
    count = int(estimator.n_features_in_)
    first = chain.steps[0] if chain.steps else None
    used = None
    if isinstance(first, Columns) and first.is_sparse is not None:
        every = np.arange(count)
        used = frozenset(
            int(i)
            for positions in first.used
            for i in every[positions if isinstance(positions, slice) else list(positions)]
        )
    return Features(count, None if names is None else tuple(map(str, names)), used)
