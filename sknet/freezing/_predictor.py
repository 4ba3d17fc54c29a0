"""The predictor of a frozen pipeline."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._available import available_if
from sknet._frames import Frame, is_frame, read_frame
from sknet._scipy import issparse
from sknet.freezing._columns import Chain

__all__ = ["Features", "FrozenPipeline", "Retargeted"]


@dataclass(frozen=True)
class Features:
    """The columns of X.

    Attributes
    ----------
    count : int
        Their number.
    names : tuple of str or None
        Their names, if they have names.
    used : frozenset of int or None
        The columns that are read, if others may be missing; None for all.
    """

    count: int
    names: tuple[str, ...] | None = None
    used: frozenset[int] | None = None

    def read(self, X: Any) -> Any:
        """Return X as an array with two axes, a sparse matrix or a `Frame`, with the columns of the fit.

        Raises
        ------
        ValueError
            If the columns differ, or there are no rows.
        """
        if type(X) is not np.ndarray:
            if is_frame(X):
                X = read_frame(X, self.names, self.count, self.used)
            elif not issparse(X):
                X = _of_rows(X)
        if len(X.shape) != 2 or X.shape[1] != self.count:
            raise ValueError(
                f"expected a table with {self.count} columns, got an array of shape {tuple(X.shape)}"
            )
        if not X.shape[0]:
            raise ValueError("expected at least one row, got none")
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

    def _before(self, X: Any) -> Any:
        found = self._steps(self._features.read(X))
        if type(found) is not Frame:
            return found
        return found.array() if self._last is None else found.ordered()

    @available_if(_has("predict"))
    def predict(self, X: Any, **params: Any) -> Any:
        """Return the pipeline's predictions for X; `params` are passed to the last step."""
        return self._last.predict(self._before(X), **params)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the pipeline's probabilities for X."""
        return self._last.predict_proba(self._before(X))

    @available_if(_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Return the pipeline's log probabilities for X."""
        return self._last.predict_log_proba(self._before(X))

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the pipeline's decision function for X."""
        return self._last.decision_function(self._before(X))

    @available_if(_has("predict_std"))
    def predict_std(self, X: Any) -> Any:
        """Return the last step's standard deviations for X."""
        return self._last.predict_std(self._before(X))

    @available_if(_has("predict_quantiles"))
    def predict_quantiles(self, X: Any) -> Any:
        """Return the last step's quantiles for X."""
        return self._last.predict_quantiles(self._before(X))

    @available_if(_has("predict_interval"))
    def predict_interval(self, X: Any, coverage: float = 0.8) -> Any:
        """Return the bounds within which the share `coverage` of targets is expected for X."""
        return self._last.predict_interval(self._before(X), coverage)

    @available_if(_has("transform"))
    def transform(self, X: Any) -> Any:
        """Return the pipeline's output for X."""
        found = self._before(X)
        return found if self._last is None else self._last.transform(found)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' -> '.join(self._labels)})"


class Retargeted:
    """A regressor whose predictions are transformed back.

    Parameters
    ----------
    regressor : predictor
        A frozen regressor.
    inverse : callable
        From its predictions, with two axes, to the units of y.
    is_single : bool
        Whether y was one-dimensional.
    """

    def __init__(self, regressor: Any, inverse: Callable[[Any], Any], is_single: bool) -> None:
        self._regressor, self._inverse, self._is_single = regressor, inverse, is_single

    def predict(self, X: Any, **params: Any) -> Any:
        """Return predictions for X in the units of y; `params` are passed to the regressor."""
        found = self._regressor.predict(X, **params)
        found = self._inverse(found.reshape(-1, 1) if found.ndim == 1 else found)
        is_column = self._is_single and found.ndim == 2 and found.shape[1] == 1
        return found.squeeze(axis=1) if is_column else found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._regressor!r})"
