"""Frozen pipelines: the predictor, and the checks of what a file says about its steps."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sknet._fields import COUNT, Each, Named
from sknet._frames import Frame, RowReader, is_frame, read_frame, rows_of_records
from sknet._late import available_if, cached_property, issparse
from sknet.freezing._encoders import STEP, Chain, Columns, OneHot, Ordinal
from sknet.freezing._transformers import Elementwise, Step
from sknet.persistence import write_atomically

PREDICTOR = Named("Frozen", "FrozenTabular", "FrozenPipeline", "Retargeted")


FLOAT, NUMBERS = frozenset({float}), frozenset({float, int})
READ_OBJECTS = (Columns, OneHot, Ordinal)


@dataclass(frozen=True)
class Features:
    count: int
    names: tuple[str, ...] | None = None
    used: frozenset[int] | None = None
    _stored_fields = {"count": COUNT, "used": [Each(frozenset, COUNT), None]}

    def _check_stored(self) -> None:
        if self.names is not None and len(self.names) != self.count:
            raise ValueError(f"{self.count} columns have {len(self.names)} names")
        if self.used and max(self.used) >= self.count:
            raise ValueError(f"of {self.count} columns, {max(self.used)} is used")

    def read(self, X: Any) -> Any:
        """Return X as an array with two axes, a sparse matrix or a `Frame`, with the columns of the fit."""
        if type(X) is not np.ndarray:
            if is_frame(X):
                X = read_frame(X, self.names, self.count, self.used)
            elif not issparse(X):
                X = _of_rows(rows_of_records(X, self.names))
        if len(X.shape) != 2 or X.shape[1] != self.count:
            raise ValueError(
                f"expected a table with {self.count} columns, got an array of shape {tuple(X.shape)}"
            )
        if not X.shape[0]:
            raise ValueError("expected at least one row, got none")
        if type(X) is not Frame and X.dtype.kind == "c":
            raise ValueError("Complex data not supported: X holds complex numbers")
        return X


def _of_rows(X: Any) -> Any:
    """Return a list of rows as an array, of objects unless all values are numbers."""
    array = np.asarray(X)
    return array if array.dtype.kind in "biuf" or hasattr(X, "dtype") else np.array(X, dtype=object)


def _has(method: str) -> Callable[[Any], bool]:
    def check(frozen: "FrozenPipeline") -> bool:
        if frozen._last is None:
            return method == "transform"
        getattr(frozen._last, method)  # raises the error that gives the reason
        return True

    return check


class FrozenPipeline:
    """A pipeline for prediction only: transformers and network in one function.

    Created by `sknet.freeze`. It has the methods of the pipeline's last step.

    Parameters
    ----------
    features : Features
        The columns of X.
    steps : Chain
        The transformers.
    last : predictor or None
        The predictor after them; None if `transform` returns the output of the steps.
    labels : tuple of str
        Names of the parts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import sknet
    >>> frozen = sknet.freeze(MinMaxScaler().fit([[0.0], [4.0]]))
    >>> frozen, frozen.transform(np.array([[3.0]]))
    (FrozenPipeline(MinMaxScaler), array([[0.75]]))
    """

    _stored_fields = {
        "_features": Features,
        "_steps": Chain,
        "_last": [PREDICTOR, None],
        "_labels": tuple[str, ...],
    }

    def _check_stored(self) -> None:
        width = self._steps.n_outputs(self._features.count, {})
        last = self._last
        while hasattr(last, "_inverse"):  # of targets: what is inside reads the columns
            last = last._regressor
        takes = getattr(last, "n_features_in_", width)
        if takes != width:
            raise ValueError(f"its steps return {width} columns, but its last step takes {takes}")

    def __init__(self, features: Features, steps: Chain, last: Any, labels: tuple[str, ...]) -> None:
        self._features, self._steps, self._last, self._labels = features, steps, last, labels

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return self._features.count

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, if X had names in the fit."""
        if self._features.names is None:
            raise AttributeError("X had no column names in the fit")
        return np.array(self._features.names, dtype=object)

    @property
    def classes_(self) -> Any:
        """The sorted labels of a classifier."""
        return self._last.classes_

    @cached_property
    def _width(self) -> int | None:
        """Number of outputs that the steps write for one row in float64; None if they cannot."""
        steps = self._steps.steps
        # Outputs in sparse matrices stay there, and a function may return other objects than numbers.
        if (
            not steps
            or isinstance(steps[0], Elementwise)
            or any(isinstance(step, OneHot) and step.container != "array" for step in steps)
        ):
            return None
        return self._steps.n_outputs(self._features.count, {}) if self._steps.can_write else None

    @cached_property
    def _read_row(self) -> RowReader | None:
        """Function that reads rows of frames; None if columns have no names."""
        return None if self._features.names is None else RowReader(self._features.names)

    @cached_property
    def _write(self) -> Callable[[Any, Any], None]:
        """Function that writes the outputs for one row."""
        steps: tuple[Any, ...] = self._steps.steps
        return (steps[0] if len(steps) == 1 else self._steps).write

    def __getstate__(self) -> dict[str, Any]:
        cached = ("_width", "_read_row", "_write")
        return {name: value for name, value in vars(self).items() if name not in cached}

    def _only_row(self, X: Any) -> Any:
        """Return a single row in double precision, or of objects, or a list; None if X is anything else."""
        kind, count = type(X), self._features.count
        if kind is np.ndarray:
            row = X[0] if X.shape == (1, count) and X.dtype.char in "dO" else None
        elif kind is list:
            kinds = set(map(type, X[0])) if len(X) == 1 and type(X[0]) is list and len(X[0]) == count else ()
            # What NumPy makes of other rows, is not known beforehand.
            is_plain = float in kinds and NUMBERS.issuperset(kinds)
            row = np.array(X[0], dtype=None if is_plain else object) if is_plain or str in kinds else None
        else:
            values = None if self._read_row is None else self._read_row(X)
            if values is None or isinstance(self._steps.steps[0], READ_OBJECTS):
                return values
            row = np.array(values, dtype=None if set(map(type, values)) == FLOAT else object)
        if row is None or row.dtype.char == "d" or isinstance(self._steps.steps[0], READ_OBJECTS):
            return row
        return None if str in map(type, row) else row.astype(np.float64)

    def _before(self, X: Any) -> Any:
        if self._width is not None:
            row = self._only_row(X)
            if row is not None:
                out = np.zeros((1, self._width))
                try:
                    self._write(row, out[0])
                    return out
                except (ValueError, TypeError):
                    pass  # the other way raises an error that names the column
        found = self._steps(self._features.read(X))
        if type(found) is not Frame:
            return found
        return found.array() if self._last is None else found.ordered()

    @available_if(_has("predict"))
    def predict(self, X: Any, **params: Any) -> Any:
        """Return the pipeline's predictions for X; `params` are passed to the last step."""
        return self._last.predict(self._before(X), **params)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Return the pipeline's probabilities for X; `params` are passed to the last step."""
        return self._last.predict_proba(self._before(X), **params)

    @available_if(_has("predict_log_proba"))
    def predict_log_proba(self, X: Any, **params: Any) -> Any:
        """Return the pipeline's log probabilities for X; `params` are passed to the last step."""
        return self._last.predict_log_proba(self._before(X), **params)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any, **params: Any) -> Any:
        """Return the pipeline's decision function for X; `params` are passed to the last step."""
        return self._last.decision_function(self._before(X), **params)

    @available_if(_has("predict_set"))
    def predict_set(self, X: Any, coverage: float = 0.9, **params: Any) -> Any:
        """Return sets of classes with this `coverage` for X; `params` are passed to the last step."""
        return self._last.predict_set(self._before(X), coverage, **params)

    @available_if(_has("predict_std"))
    def predict_std(self, X: Any, **params: Any) -> Any:
        """Return the last step's standard deviations for X; `params` are passed to it."""
        return self._last.predict_std(self._before(X), **params)

    @available_if(_has("predict_quantiles"))
    def predict_quantiles(self, X: Any, **params: Any) -> Any:
        """Return the last step's quantiles for X; `params` are passed to it."""
        return self._last.predict_quantiles(self._before(X), **params)

    @available_if(_has("predict_interval"))
    def predict_interval(self, X: Any, coverage: float = 0.8, **params: Any) -> Any:
        """Return bounds of targets with this `coverage` for X; `params` are passed to the last step."""
        return self._last.predict_interval(self._before(X), coverage, **params)

    @available_if(_has("transform"))
    def transform(self, X: Any) -> Any:
        """Return the pipeline's output for X."""
        found = self._before(X)
        return found if self._last is None else self._last.transform(found)

    def to_python(
        self, path: str | os.PathLike[str], *, layer: int | str | None = None, coverage: float | None = None
    ) -> None:
        """Write one Python file with functions like the methods, which needs only NumPy.

        Parameters
        ----------
        path : path-like
            The file to write: a module with `predict`, `predict_proba`, ..., which contains all parameters.
        layer : int or str, default=None
            As for the last step's `to_python`: the layer whose output the file's `transform` returns.
        coverage : float, default=None
            As for the last step's `to_python`, of the file's `predict_interval` or `predict_set`.

        Raises
        ------
        CaptureError
            If a step or the network cannot be written.
        TypeError
            If the last step has no `to_python`.

        Notes
        -----
        Tables are arrays, lists of rows, data frames, or dicts of columns by name. Where a step returns a
        sparse matrix, the file has an array, and the network may round differently in the last digits.
        """
        write_atomically(Path(path), [self._as_python(layer, coverage).encode()])

    def _as_python(self, layer: int | str | None, coverage: float | None) -> str:
        from sknet.freezing._python import Table, steps_file  # predictions do without

        steps, last, inverse = list(self._steps.steps), self._last, None
        if isinstance(last, Retargeted):
            last, inverse = last._regressor, last._inverse
            if isinstance(last, FrozenPipeline):
                steps, last = [*steps, *last._steps.steps], last._last
        gives_numbers = not getattr(last, "reads_tables", False)
        table = Table(self._features, Chain(tuple(steps)), repr(self), inverse, gives_numbers=gives_numbers)
        if last is None:
            return steps_file(table)
        if not hasattr(last, "to_python"):
            raise TypeError(f"{type(last).__name__} cannot be written as Python that needs NumPy alone")
        return last.as_python(layer, coverage, table)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' -> '.join(self._labels)})"


class Retargeted:
    """A regressor whose predictions are transformed back."""

    _stored_fields = {"_regressor": PREDICTOR, "_inverse": STEP, "_is_single": bool}

    def _check_stored(self) -> None:
        self._inverse.n_outputs(_n_targets(self), {})

    def __init__(self, regressor: Any, inverse: Step, is_single: bool) -> None:
        self._regressor, self._inverse, self._is_single = regressor, inverse, is_single

    def predict(self, X: Any, **params: Any) -> Any:
        """Return predictions for X in the units of y; `params` are passed to the regressor."""
        found = self._regressor.predict(X, **params)
        found = self._inverse(found.reshape(-1, 1) if found.ndim == 1 else found)
        is_column = self._is_single and found.ndim == 2 and found.shape[1] == 1
        return found.squeeze(axis=1) if is_column else found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._regressor!r})"


def _n_targets(predictor: Any) -> int:
    """Return how many columns a regressor predicts, before its own steps back."""
    while hasattr(predictor, "_regressor") or hasattr(predictor, "_last"):
        inner = vars(predictor).get("_regressor", vars(predictor).get("_last"))
        if not hasattr(inner, "predict"):
            raise ValueError(f"{type(predictor).__name__} predicts nothing to be transformed back")
        predictor = inner
    return int(predictor._targets.n_outputs)
