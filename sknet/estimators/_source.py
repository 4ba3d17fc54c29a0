"""What callbacks and checkpoints see of an estimator whose fit is under way."""

import copy
from typing import TYPE_CHECKING, Any

from sknet.callbacks.extend import Rows
from sknet.engine.extend import Source
from sknet.estimators._company import counts_of
from sknet.estimators._ignored import taken_rows

if TYPE_CHECKING:
    from sknet.estimators._fitting import Fit

__all__ = ["FitSource"]

MAY_CHANGE = ("max_iter", "verbose", "warm_start", "callbacks")  # of a fit that is resumed


class FitSource(Source):
    """What callbacks see of the estimator and its rows, or of `rows`, all of which are trained on."""

    def __init__(self, fit: "Fit", rows: Rows | None = None) -> None:
        self._fit, self._rows = fit, rows
        self.monitor = fit.monitor
        self.measured = fit.scoring.directions
        self._since = None if fit.compared is None else fit.compared.since

    @property
    def began(self) -> dict[str, Any]:
        fit = self._fit
        start = {} if fit.start is None else {"start": fit.start}
        return {"random_state": fit.began.state(), "since": self._since, **start}

    def parameters(self) -> dict[str, Any]:
        estimator = self._fit.estimator
        params = estimator.get_params(deep=False)
        told = {name: value for name, value in params.items() if name not in MAY_CHANGE}
        classes = getattr(estimator._targets, "classes", None)
        return {"estimator": type(estimator), **told, "classes_": classes}

    def estimator(self, epoch: int) -> Any:
        fit = copy.copy(self._fit)
        fit.n_iter = epoch
        snapshot = object.__new__(type(fit.estimator))
        snapshot.__dict__.update(fit.estimator.__dict__)
        snapshot._take(fit)
        return snapshot

    def training(self) -> Rows:
        if self._rows is not None:
            return self._rows
        given = self._fit.given.rows
        if counts_of(self._fit.estimator) is not None:
            given = given._replace(sample_weight=self._fit.sample_weight)
        return _rows_of(given, self._fit.training.rows)

    def validation(self) -> Rows | None:
        given, held_out = self._fit.given, self._fit.held_out
        if held_out is None or self._rows is not None:
            return None
        return _rows_of(given.rows if given.X_val is None else given.validation_rows, held_out.rows)


def _rows_of(given: Rows, rows: Any) -> Rows:
    if rows is None:
        return given
    return Rows(*(taken_rows(array, rows) for array in given))
