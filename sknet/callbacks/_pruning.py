"""Ending unpromising fits of a search."""

from numbers import Integral
from typing import Any, Self

from sknet._constraints import shown
from sknet._params import Interval
from sknet.callbacks._callback import Callback
from sknet.callbacks._monitored import check_monitored
from sknet.callbacks._optional import optional
from sknet.callbacks._view import FitView

__all__ = ["Pruning"]


class Pruning(Callback):
    """Report every epoch to an Optuna trial, and end the fit if the trial is pruned.

    A pruned fit raises ``optuna.TrialPruned``, which the study handles, and leaves the estimator unchanged.
    It needs Optuna: ``pip install 'sknet[optuna]'``.

    Parameters
    ----------
    trial : optuna.Trial
        The argument of the objective function that fits the estimator.
    monitor : str or None, default=None
        Name of the number to report; None is that of `FitView.monitor`: of the validation, if there is
        one. Whether higher is better must be the same for the number and for the study.
    every : int, default=1
        Number of epochs between reports.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import Pruning
    >>> X, y = load_iris(return_X_y=True)
    >>> def objective(trial):
    ...     width = trial.suggest_int("width", 8, 64)
    ...     clf = MLPClassifier(width, early_stopping=True, callbacks=[Pruning(trial)])
    ...     return clf.fit(X, y).best_validation_score_
    """

    order = 1
    of_one_fit = (
        "reports one fit to its trial: report a score of the ensemble after the fit, or set n_members=1"
    )
    _parameter_constraints: dict[str, Any] = {
        "trial": "no_validation",
        "monitor": [str, None],
        "every": [Interval(Integral, 1, None, closed="left")],
    }
    _stored_fields = {
        "_name": str,
    }

    def __init__(self, trial: Any, monitor: str | None = None, *, every: int = 1) -> None:
        self.trial = trial
        self.monitor = monitor
        self.every = every

    def __sklearn_clone__(self) -> Self:
        return type(self)(self.trial, self.monitor, every=self.every)  # trials cannot be copied

    def on_fit_begin(self, fit: FitView) -> None:
        for method in ("report", "should_prune"):
            if not callable(getattr(self.trial, method, None)):
                raise TypeError(
                    "Pruning(trial) needs a trial of Optuna, with report and should_prune, "
                    f"got {shown(self.trial)}"
                )
        self._pruned = optional("optuna", "Pruning", "optuna").TrialPruned
        self._name = self.monitor or fit.monitor
        self._check_direction(fit)

    def on_epoch_end(self, fit: FitView) -> None:
        if self._name not in fit.record:
            check_monitored("Pruning", self._name, fit)
        elif fit.epoch % self.every == 0:
            value = fit.record[self._name]
            self.trial.report(value, fit.epoch)
            if self.trial.should_prune():
                raise self._pruned(f"pruned after epoch {fit.epoch}, with {self._name} = {value:g}")

    def on_fit_end(self, fit: FitView) -> None:
        self.__dict__.pop("_pruned", None)

    def _check_direction(self, fit: FitView) -> None:
        """Raise a ValueError if the study optimizes in the other direction."""
        directions: Any = getattr(getattr(self.trial, "study", None), "directions", ())
        higher = fit.directions.get(self._name)
        if len(directions) != 1 or higher is None:
            return
        study, mine = directions[0].name.lower(), "maximize" if higher else "minimize"
        if study != mine:
            raise ValueError(
                f"Pruning reports {self._name!r}, which is to {mine}, to a study that is to {study}: create "
                f"the study with direction={mine!r}, or give another monitor"
            )
