"""What scikit-learn finds out about labels; decoding does without it."""

from typing import Any

import numpy as np

from sknet._fields import LEVEL, Arrays

__all__ = ["LABELS", "check_classes", "check_labels", "kind_of_labels", "unique_labels"]


LABELS = Arrays("biufOUSMm", "n_classes")


def unique_labels(*y: Any) -> Any:
    """Return the labels of targets, sorted."""
    from sklearn.utils import multiclass

    return multiclass.unique_labels(*y)


def check_labels(y: Any) -> None:
    """Raise a ValueError if targets are no labels."""
    from sklearn.utils import multiclass

    multiclass.check_classification_targets(y)


def kind_of_labels(y: Any) -> str:
    """Return what scikit-learn calls a kind of targets, such as "multiclass"."""
    from sklearn.utils import multiclass

    return str(multiclass.type_of_target(y, input_name="y"))


def check_classes(classes: Any) -> None:
    """Raise a ValueError unless labels are sorted, and each is there once."""
    if not len(classes) or not all(LEVEL.is_satisfied_by(label) for label in classes):
        raise ValueError("there are no classes, or some are no labels")
    if not bool(np.all(classes[:-1] < classes[1:])):
        raise ValueError("the classes are not sorted, or one is there twice")
