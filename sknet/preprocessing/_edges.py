"""Edges of the bins of a number: thresholds of a tree, or quantiles."""

from typing import Any

import numpy as np

from sknet.preprocessing._targets import Target

__all__ = ["edges_of", "has_several"]


def edges_of(values: np.ndarray, target: Target | None, piecewise: str | None, n_bins: int) -> Any:
    """Return the edges of the bins of a number."""
    low, high = values.min(), values.max()
    if piecewise is None or not has_several(values, 3):
        return {}
    found = {}
    if piecewise in ("tree", "both") and target is not None:
        found["tree"] = _thresholds(values, target, n_bins)
    if piecewise in ("quantile", "both") or target is None:
        found["quantile"] = np.quantile(values, np.linspace(0, 1, n_bins + 1)[1:-1])
    edges = {name: np.unique(np.concatenate([[low], inner, [high]])) for name, inner in found.items()}
    return {name: each for name, each in edges.items() if len(each) > 1}


def has_several(values: np.ndarray, count: int) -> bool:
    """Tell whether there are at least `count` distinct values; most columns need no sorting for that."""
    return len(np.unique(values[:1000])) >= count or len(np.unique(values)) >= count


def _thresholds(values: np.ndarray, target: Target, n_leaves: int) -> np.ndarray:
    """Return the thresholds of a tree that sees only this number."""
    from sklearn import config_context
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind = DecisionTreeClassifier if target.is_classification else DecisionTreeRegressor
    least = max(8, len(values) // 200)
    tree = kind(max_leaf_nodes=n_leaves, min_samples_leaf=least, random_state=0)
    # Trees compute in float32, in which large numbers overflow and close ones are equal.
    low, high = values.min(), values.max()
    share = ((values - low) / (high - low)).astype(np.float32)[:, np.newaxis]
    # The checks of scikit-learn take longer than most trees.
    with config_context(skip_parameter_validation=True):
        fitted = tree.fit(share, np.ascontiguousarray(target.y), check_input=False).tree_
    inner = fitted.threshold[fitted.feature >= 0]
    found: np.ndarray = low + inner * (high - low)
    inside: np.ndarray = found[(found > low) & (found < high)]
    return inside
