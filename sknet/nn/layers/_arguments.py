"""Checking the arguments of a layer, with the one message for parameters."""

from typing import Any

from sknet._params import check_values

__all__ = ["check_arguments"]


def check_arguments(layer: object, **arguments: Any) -> None:
    """Check arguments against the layer's `_parameter_constraints`, which have scikit-learn's format."""
    constraints = {name: layer._parameter_constraints[name] for name in arguments}  # type: ignore[attr-defined]
    check_values(layer, constraints, arguments)
