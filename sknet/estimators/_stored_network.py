"""A check that the network of an object from a file takes its inputs, and returns what its targets need."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from sknet.device import MetaArray
from sknet.engine.extend import arguments
from sknet.estimators._encoded import Encoded
from sknet.estimators._inputs import ROWS, Inputs
from sknet.exceptions import DeviceError
from sknet.nn import Module, is_lazy
from sknet.nn.extend import shadows, shape_pass

__all__ = ["check_labels_of", "check_network"]

MOST_ELEMENTS = 1 << 18  # of a value: layers compute constants, such as waves for positions, of its shape


def check_labels_of(estimator: Any) -> None:
    """Raise a ValueError if a classifier's `classes_` are not those of its targets."""
    if "classes_" not in vars(estimator):
        return
    mine, known = estimator.classes_, estimator._targets.classes
    is_same = type(mine) is type(known) and len(mine) == len(known)
    pairs: Iterable[Any] = zip(mine, known, strict=True) if isinstance(known, list) else [(mine, known)]
    if not is_same or not all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs):
        raise ValueError("classes_ are not those of its targets")


def check_network(
    network: Module, inputs: "int | Inputs | Encoded", dtype: Any, targets: Any, n_outputs: int
) -> None:
    """Raise a ValueError if a network does not return what its targets need, by a pass without data."""
    if is_lazy(network):
        raise ValueError(f"the layers of a fitted {type(network).__name__} must have shapes")
    if not all(type(part).__module__.startswith("sknet.") for part in network.modules()):
        return
    example = _example(inputs, np.dtype(dtype))
    try:
        for each in example.values() if isinstance(example, dict) else [example]:
            _check_size(None, [], each)
        given = shadows(arguments(example), dtype, _check_size)
        found = getattr(shape_pass(network, given, seen=_check_size), "shape", None)
    except (DeviceError, _LargeError):  # what it returns depends on values, or is not worth a file's memory
        return
    if found is None or found[:1] != (ROWS,) or hasattr(targets, "meet"):
        return
    width = found[-1] if len(found) > 1 else 1
    if width != n_outputs:
        raise ValueError(f"its network returns {width} outputs, and its targets and loss need {n_outputs}")


class _LargeError(Exception):
    """A value is so large that a pass without data ends."""


def _check_size(primitive: Any, operands: list[Any], result: Any) -> None:
    """Raise a _LargeError for a large result."""
    if math.prod(result.shape) > ROWS * MOST_ELEMENTS:
        raise _LargeError


def _example(inputs: Any, dtype: Any) -> Any:
    """Return inputs without data."""
    if isinstance(inputs, Inputs):
        if not isinstance(inputs.shapes, dict):
            return MetaArray((ROWS, *inputs.shapes), _kind("X", inputs.integers, inputs, dtype))
        kinds = {name: _kind(name, is_whole, inputs, dtype) for name, is_whole in inputs.integers.items()}
        return {name: MetaArray((ROWS, *shape), kinds[name]) for name, shape in inputs.shapes.items()}
    n_features = inputs.encoder.n_features_out_ if isinstance(inputs, Encoded) else inputs
    return MetaArray((ROWS, n_features), dtype)


def _kind(name: str, is_whole: bool, inputs: Inputs, dtype: Any) -> Any:
    return np.dtype(bool) if name in inputs.masks else np.dtype("i8") if is_whole else dtype
