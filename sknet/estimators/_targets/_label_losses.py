"""Losses whose parameters name labels, as users of estimators do, made to count classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.losses import Loss

__all__ = ["IGNORED", "by_labels", "check_columns", "counted_labels", "label_weights", "refuse_ignored"]

IGNORED = -1  # the number of a label that is ignored, of which no class has it


def by_labels(loss: Loss, classes: Any, ignored: int | None = None) -> Loss:
    """Return a loss whose `class_weight` and `ignore_index` are by the numbers of classes."""
    changed: dict[str, Any] = {}
    if getattr(loss, "ignore_index", None) is not None:
        changed["ignore_index"] = ignored
    weights = getattr(loss, "class_weight", None)
    if isinstance(weights, Mapping):
        changed["class_weight"] = label_weights(weights, classes, f"{type(loss).__name__}: ")
    return type(loss)(**{**loss.get_params(deep=False), **changed}) if changed else loss


def label_weights(weights: Mapping[Any, Any], classes: Any, of: str = "") -> list[Any]:
    """Return the weight of each class."""
    labels, found = classes.tolist(), [1.0] * len(classes)
    # A date of NumPy has another hash than that of Python, which `tolist` returns.
    numbers = {label: k for same in (labels, classes) for k, label in enumerate(same)}
    for label, weight in weights.items():
        if label not in numbers:
            raise ValueError(
                f"{of}class_weight names {shown(label)}, which is not among the labels {shown(labels)}: its "
                "keys are labels"
            )
        found[numbers[label]] = weight
    return found


def check_columns(loss: Loss) -> None:
    """Raise a ValueError if a loss names labels, for several columns of labels, each with its own."""
    refuse_ignored(loss, "for several columns of labels")
    if isinstance(getattr(loss, "class_weight", None), Mapping):
        raise ValueError(
            f"{loss!r}: class_weight by labels is of one column of them, and y has several: give the "
            "estimator class_weight=[{label: weight}, ...], one dict for each column"
        )


def refuse_ignored(loss: Loss, what: str) -> None:
    """Raise a ValueError if a loss ignores targets."""
    ignored = getattr(loss, "ignore_index", None)
    if ignored is not None:
        raise ValueError(
            f"{loss!r}: ignore_index is not supported {what}. Leave rows with the label {ignored} out of the "
            "fit, and set ignore_index=None"
        )


def counted_labels(y: Any, ignored: Any) -> Any:
    """Return where labels are not the one that is ignored."""
    y = np.asarray(y)
    if ignored is None or y.dtype.kind not in "biufO":
        return np.ones(y.shape, bool)
    return np.asarray(y != ignored, bool)
