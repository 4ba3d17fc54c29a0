"""What scikit-learn finds out about labels; decoding does without it."""

from typing import Any

__all__ = ["check_labels", "kind_of_labels", "unique_labels"]


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
