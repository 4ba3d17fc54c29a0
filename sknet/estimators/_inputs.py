"""The inputs of a fitted network: their shapes, and which of them are integers.

Real numbers share one dtype. Integers are converted to real numbers if the network takes those, and stay
integers if it does not, as for an embedding.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sknet import nn
from sknet._fields import ABSENT, COUNT, Each, Items
from sknet.device import MetaArray
from sknet.engine.extend import arguments, each_input
from sknet.estimators._reading import read_inputs, required_names
from sknet.exceptions import DeviceError, DtypeError
from sknet.nn.extend import materialize_for, shadows, shape_pass

__all__ = ["Inputs"]

ROWS = 2  # of a shape pass; not 1, so that the axis of the rows can be told from others


@dataclass(frozen=True)
class Inputs:
    """The inputs of a fitted network that are not a table of real numbers."""

    shapes: Any
    integers: Any
    forward: Any = None
    masks: tuple[str, ...] = ()
    _stored_fields = {
        "shapes": [Each(tuple, COUNT), Items(str, Each(tuple, COUNT))],
        "integers": [bool, Items(str, bool)],
        "forward": [Items(str, bool), None],
        "masks": [Each(tuple, str), ABSENT],
    }

    def _check_stored(self) -> None:
        is_named = isinstance(self.shapes, dict)
        if is_named != isinstance(self.integers, dict) or (
            is_named and self.shapes.keys() != self.integers.keys()
        ):
            raise ValueError(f"inputs {self.shapes} and {self.integers} differ")

    @property
    def is_table(self) -> bool:
        """Whether they are a table of real numbers."""
        return isinstance(self.shapes, tuple) and len(self.shapes) == 1 and not self.integers

    @property
    def example(self) -> Any:
        """A row of zeros."""

        def one(shape: Any, integer: Any) -> Any:
            return np.zeros((1, *shape), np.int64 if integer else np.float64)

        found = each_input(one, self.shapes, self.integers)
        if self.masks:
            as_mask = {name: x.astype(bool) if name in self.masks else x for name, x in _each(found)}
            found = as_mask if isinstance(found, dict) else as_mask["X"]
        if isinstance(found, dict) and "lengths" in found:
            found["lengths"] += 1  # a mean over no steps is not defined
        return found

    def read(self, estimator: Any, X: Any, dtypes: list[type]) -> Any:
        """Return checked inputs like those of the fit; integers become real numbers where expected."""
        if type(X) is dict and isinstance(self.shapes, dict) and self._needs_no_conversion(X, dtypes):
            return X
        X = read_inputs(estimator, X, self.forward, dtypes, reset=False)
        shapes, integers = self.shapes, self.integers
        if isinstance(shapes, dict):
            X = X if isinstance(X, dict) or len(required_names(self.forward)) > 1 else {next(iter(shapes)): X}
            if isinstance(X, dict):
                self._check_given(X)
        if isinstance(X, dict) != isinstance(shapes, dict) or (
            isinstance(X, dict) and X.keys() != shapes.keys()
        ):
            got, was = (list(x) if isinstance(x, dict) else "one array" for x in (X, self.shapes))
            raise ValueError(f"expected inputs like those of the fit, {was}, got {got}")
        for name, x, shape, integer in _each(X, shapes, integers):
            rank = len(shape) + 1
            if x.ndim != rank:
                raise ValueError(f"input {name!r} must have {rank} axes, as in the fit, got shape {x.shape}")
            if integer and x.dtype.kind == "f":
                raise ValueError(f"input {name!r} must hold integers, got {x.dtype}: use .astype('int64')")
        return self.converted(X, dtypes[0])

    def _check_given(self, X: Any) -> None:
        """Raise a ValueError if an input of the fit is missing, which the network could do without."""
        missing = [name for name in self.shapes if name not in X and not (self.forward or {}).get(name, True)]
        if not missing:
            return
        name, padded = missing[0], next(iter(self.shapes))
        if name == "lengths":
            raise ValueError(
                "the network was fitted with lengths, and without them padding would be read as data: give "
                "lengths=, one for each row (lengths_val= with X_val), or by name, "
                f"X={{{padded!r}: ..., 'lengths': ...}}. Rows without padding have the length X.shape[1]"
            )
        raise ValueError(
            f"the network was fitted with the input {name!r}, and X has only {list(X)}: give it, too, as "
            "predictions and scores would be those of another network"
        )

    def _needs_no_conversion(self, X: dict[str, Any], dtypes: list[type]) -> bool:
        """Tell whether inputs are valid as they are: all checks take longer than predicting one row."""
        if X.keys() != self.shapes.keys():
            return False
        n_rows = {len(x) if type(x) is np.ndarray and x.ndim else 0 for x in X.values()}
        return (
            len(n_rows) == 1
            and 0 not in n_rows
            and all(
                x.ndim == len(self.shapes[name]) + 1
                and (x.dtype.kind in "iu" if self.integers[name] else x.dtype.type in dtypes)
                # A sum is finite unless an element is not, or it overflows; the full checks decide then.
                and math.isfinite(np.add.reduce(x, axis=None))
                for name, x in X.items()
            )
        )

    def converted(self, X: Any, dtype: Any) -> Any:
        """Return inputs with integers that stand for real numbers as those."""
        kinds = self.dtypes(X, dtype)
        if not isinstance(X, dict):
            return X if X.dtype == kinds or X.dtype.kind == "f" else X.astype(kinds)
        return {name: x if x.dtype.kind == "f" else x.astype(kinds[name]) for name, x in X.items()}

    def dtypes(self, X: Any, dtype: Any) -> Any:
        """Return in which dtype each input is computed with."""
        if not isinstance(X, dict):
            return X.dtype if self.integers else np.dtype(dtype)
        return {name: x.dtype if self.integers[name] else np.dtype(dtype) for name, x in X.items()}

    @classmethod
    def of(cls, network: nn.Module, X: Any, dtype: Any, forward: Any) -> "tuple[Inputs, Any]":
        """Find out which integers stay integers, by passes without data."""
        named = X if isinstance(X, dict) else {"X": X}
        shapes = {name: tuple(x.shape[1:]) for name, x in named.items()}
        wrong: DtypeError | None = None
        integers = [name for name, x in named.items() if x.dtype.kind in "biu"]

        def found(kept: Any) -> Inputs:
            of_booleans = tuple(name for name in kept if named[name].dtype.kind == "b")
            if not isinstance(X, dict):
                return cls(shapes["X"], "X" in kept, forward, of_booleans)
            return cls(shapes, {name: name in kept for name in named}, forward, of_booleans)

        masks = [name for name in integers if isinstance(X, dict) and named[name].dtype.kind == "b"]
        for kept in _choices(integers, [*masks, *({"lengths"} & set(integers))]):
            kinds = {name: x.dtype if name in kept else np.dtype(dtype) for name, x in named.items()}
            example = {name: MetaArray((ROWS, *x.shape[1:]), kinds[name]) for name, x in named.items()}
            try:
                shape = _output_shape(network, example if isinstance(X, dict) else example["X"], dtype)
            except DtypeError as error:
                wrong = error
                continue
            except DeviceError:  # its code depends on values
                return found(integers), None
            return found(kept), shape
        assert wrong is not None
        raise wrong


def _each(X: Any, *others: Any) -> Iterable[tuple[Any, ...]]:
    if isinstance(X, dict):
        return [(name, x, *(other[name] for other in others)) for name, x in X.items()]
    return [("X", X, *others)]


def _choices(names: list[str], always: list[str]) -> Iterable[tuple[str, ...]]:
    """Yield which inputs stay integers: beside those that always do first none, then each, then all."""
    others = [name for name in names if name not in always]
    for count in range(len(others) + 1):
        for chosen in combinations(others, count):
            yield (*always, *chosen)


def _output_shape(network: nn.Module, example: Any, dtype: Any) -> tuple[int, ...] | None:
    inputs = arguments(example)
    materialize_for(network, inputs, dtype)
    found = shape_pass(network.copy(), shadows(inputs, dtype))
    shape = getattr(found, "shape", None)
    return None if shape is None or not shape or shape[0] != ROWS else tuple(shape[1:])
