"""Weights of classes, multiplied into those of the rows."""

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from sknet._constraints import NUMBERS, shown
from sknet.estimators._targets import ClassEncoder, ColumnTargets, label_weights

__all__ = ["class_weighted"]

MOST = float(np.finfo(np.float64).max)  # an int may be larger than any float of NumPy


def class_weighted(class_weight: Any, targets: ClassEncoder, y: Any, weight: Any, like: Any = None) -> Any:
    """Return the weights of rows multiplied by those of their classes."""
    of_class = _of_classes(class_weight, targets, y, y if like is None else like)
    found = of_class if weight is None else (weight * of_class).astype(weight.dtype)
    if not found.any():
        raise ValueError("class_weight: at least one sample must have a positive weight, got zeros only")
    return found


def _of_classes(class_weight: Any, targets: ClassEncoder, y: Any, like: Any) -> Any:
    """Return the weight of each row's class; "balanced" counts the classes of `like`."""
    _check_class_weight(class_weight)
    if isinstance(class_weight, str) and getattr(targets, "ignored", None) is not None:
        raise ValueError(
            "class_weight='balanced' counts labels of rows, and the loss ignores some positions: pass the "
            "weights of the classes as a dict"
        )
    if isinstance(class_weight, str) and like is not y:
        both = np.concatenate([like, y])
        return compute_sample_weight(class_weight, both, indices=np.arange(len(like)))[len(like) :]
    one_label = targets.task != "multilabel" and not isinstance(targets, ColumnTargets)
    if not (isinstance(class_weight, dict) and one_label):
        return compute_sample_weight(class_weight, y)
    weights = np.array(label_weights(class_weight, targets.classes), dtype=np.float64)
    # A label that is ignored is no class, and its weight counts nothing.
    return weights.take(np.searchsorted(targets.classes, y), mode="clip")


def _check_class_weight(class_weight: Any) -> None:
    """Check the weights in a dict, or in a list of dicts."""
    for part in class_weight if isinstance(class_weight, list) else [class_weight]:
        if isinstance(class_weight, list) and not isinstance(part, dict):
            raise ValueError(
                f"class_weight as a list must hold one dict for each label of y, got {shown(part)} in it"
            )
        for label, value in part.items() if isinstance(part, dict) else ():
            if not (isinstance(value, NUMBERS) and 0 <= value <= MOST):
                raise ValueError(
                    f"class_weight[{shown(label)}] must be a finite number >= 0, got {shown(value)}"
                )
