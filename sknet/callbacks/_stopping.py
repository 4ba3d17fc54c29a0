"""Callbacks that end a fit: early stopping, pruning of trials, and a time limit."""

import math
import time
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from sknet._constraints import shown
from sknet._fields import ABSENT, COUNT, FINITE, Arrays, Each, Fields, Items, Number
from sknet._hints import suggestion
from sknet._late import optional
from sknet._params import Interval, Options
from sknet.callbacks._callback import MANY, Answer, Callback, FitView
from sknet.device import to_device, to_host
from sknet.exceptions import StateError
from sknet.optim.schedules import Schedule


class Plateau:
    """Counts the epochs without an improvement, as scikit-learn's networks do."""

    _stored_fields = {
        "patience": Number(Real, 0, math.inf),
        "tol": FINITE,
        "higher_is_better": bool,
        "best": float,
        "count": COUNT,
        "waited": COUNT,
        "cooling": COUNT,
        "is_best": bool,
        "_cools_count": bool,
    }

    def __init__(self, patience: float, tol: float, higher_is_better: bool) -> None:
        self.patience, self.tol, self.higher_is_better = patience, tol, higher_is_better
        self.best = -math.inf if higher_is_better else math.inf
        self.count = self.waited = self.cooling = 0
        self.is_best = self._cools_count = False

    def observe(self, value: float) -> bool:
        """Record the value of an epoch, and return whether patience is exhausted."""
        if self.higher_is_better:
            missed = value < self.best + self.tol
            self.is_best = value > self.best
        else:
            missed = value > self.best - self.tol
            self.is_best = value < self.best
        self.count, self.waited = (self.count + 1, self.waited + 1) if missed else (0, 0)
        if self.cooling:
            self.cooling -= 1
            self.waited = 0
            self.count = 0 if self._cools_count else self.count
        if self.is_best:
            self.best = value
        return self.count > self.patience

    def state(self) -> dict[str, float]:
        return {
            "higher_is_better": self.higher_is_better,
            "best": self.best,
            "count": self.count,
            "waited": self.waited,
            "cooling": self.cooling,
            "cools_count": self._cools_count,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, if it is of the same kind of value."""
        if state["higher_is_better"] == self.higher_is_better:
            self.best, self.count = float(state["best"]), int(state["count"])
            self.waited, self.cooling = int(state["waited"]), int(state["cooling"])
            self._cools_count = bool(state["cools_count"])

    def restart(self, also_count: bool = True, cooldown: int = 0) -> None:
        """Restart the patience, as after a reduction of the rate; the best value is kept."""
        self.waited = 0
        self.cooling = cooldown
        self._cools_count = also_count
        if also_count:
            self.count = 0


def check_monitored(who: str, name: str, fit: FitView) -> None:
    """Check the name of a number that is missing in this epoch; other epochs may have it."""
    if name not in fit.history and name not in fit.directions:
        known = sorted(fit.record)
        raise ValueError(
            f"{who}(monitor={name!r}): this fit has no such number, but {', '.join(known)}"
            f"{suggestion(name, known)}"
        )


SPOKEN = {
    "loss": "Training loss",
    "score": "Training score",
    "validation_loss": "Validation loss",
    "validation_score": "Validation score",
}


ARRAYS = Items(str, np.ndarray)
WEIGHTS = Fields.of(
    "weights",
    {
        "trained": Each(list, str),
        "thawed": ARRAYS,
        "flat": Arrays("f", "size"),
        "buffers": ARRAYS,
        "slots": ARRAYS,
    },
)


class EarlyStopping(Callback):
    """End the fit when a metric has not improved for some epochs, and restore the best weights.

    A schedule that responds to plateaus, such as `sknet.optim.schedules.Adaptive`, lowers the learning rate
    first; the fit ends when it cannot be lowered any further.

    Parameters
    ----------
    monitor : str or None, default=None
        Name of the metric: "loss", "score", "validation_loss", "validation_score" or one that another
        callback adds. None is that of the fit (`FitView.monitor`), on the validation rows if there are any.
    patience : int or inf, default=10
        Epochs without improvement that are tolerated.
    tol : float, default=1e-4
        Least difference from the best value that counts as an improvement.
    higher_is_better : bool or None, default=None
        Needed for a metric of unknown direction; that of losses and scores is known.
    restore_best : bool, default=True
        Whether the fit ends with the weights of the best epoch.
    verbose : bool or int, default=False
        Print why the fit ends, and every lowered rate.

    Attributes
    ----------
    best_ : float
        The best value of the metric; NaN before the first.
    best_epoch_, best_step_ : int
        The epoch of the best value, and the number of updates made by then; 0 if there is none.

    Notes
    -----
    The metric improves if it is at least ``best + tol`` (or, where lower is better, at most
    ``best - tol``), while any better value becomes the best one. After more than `patience` epochs in a
    row without an improvement the fit ends.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import EarlyStopping
    >>> X, y = load_iris(return_X_y=True)
    >>> stopping = EarlyStopping("score", patience=3)
    >>> clf = MLPClassifier((32,), optimizer="adam", random_state=0, callbacks=[stopping]).fit(X, y)
    >>> clf.callbacks_[0].best_ == max(clf.history_["score"])
    True
    """

    may_warn = False
    _parameter_constraints = {
        "monitor": [str, None],
        "patience": [Interval(Integral, 0, None, closed="left"), Options(Real, {np.inf})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "higher_is_better": ["boolean", None],
        "restore_best": ["boolean"],
        "verbose": ["verbose"],
    }
    _weights: Any = None
    _model: Any = None  # set during a fit
    _loaded: Mapping[str, Any] = {}
    _plateau: Plateau | None = None
    _name: str
    _reductions: int
    best_epoch_ = best_step_ = 0
    _stored_fields = {
        "_name": str,
        "_model": None,
        "_reductions": COUNT,
        "_plateau": Plateau,
        "best_epoch_": COUNT,
        "best_step_": COUNT,
        "_weights": None,
    }

    def _check_stored(self) -> None:
        if self._plateau is not None and not vars(self).keys() >= {"_name", "_reductions"}:
            raise ValueError("it has observed a number without a name")

    _state_fields = {
        "monitor": str,
        "higher_is_better": bool,
        "best": float,
        "count": COUNT,
        "waited": COUNT,
        "cooling": COUNT,
        "cools_count": bool,
        "best_epoch": COUNT,
        "best_step": COUNT,
        "reductions": [COUNT, ABSENT],
        "weights": [WEIGHTS, ABSENT],
    }

    def __init__(
        self,
        monitor: str | None = None,
        *,
        patience: float = 10,
        tol: float = 1e-4,
        higher_is_better: bool | None = None,
        restore_best: bool = True,
        verbose: bool | int = False,
    ) -> None:
        self.monitor = monitor
        self.patience = patience
        self.tol = tol
        self.higher_is_better = higher_is_better
        self.restore_best = restore_best
        self.verbose = verbose

    @property
    def reads_model(self) -> bool:  # type: ignore[override]
        """True if it copies the weights of the best epochs."""
        return self.restore_best

    @property
    def best_(self) -> float:
        """The best value so far."""
        return math.nan if self._plateau is None else self._plateau.best

    def epochs_ahead(self) -> int:
        """Return the number of epochs before this callback can end or change the fit."""
        if self._plateau is None:
            return 1
        optimizer, plateau = self._model.optimizer, self._plateau
        left = self.patience - plateau.count
        for schedule in optimizer.schedules if optimizer.goes_in_steps else ():
            if schedule.patience is not None:
                left = min(left, schedule.patience - plateau.waited)
        return int(max(0, min(left, MANY))) + 1

    def on_fit_begin(self, fit: FitView) -> None:
        model, loaded, name = fit.model, self._loaded, self.monitor or fit.monitor
        # In one call: of those that set single attributes there are a dozen in a short fit.
        vars(self).update(_name=name, _model=model, _reductions=model.progress.reductions)
        if fit.epoch:  # resumed: continue counting its epochs
            self.best_epoch_, self.best_step_ = loaded.get("best_epoch", 0), loaded.get("best_step", 0)
            # Another callback may have lowered the rate after this one looked, before the checkpoint.
            self._reductions = loaded.get("reductions", self._reductions)
        if self.higher_is_better is not None or name in fit.directions:
            self._plateau = self._new_plateau(fit)
        if self.restore_best and loaded.get("monitor") == name and math.isfinite(loaded["best"]):
            # The fit that is continued has had a best epoch: its weights are the model's, or in the state.
            self._weights = _weights_of(model, loaded.get("weights"))

    def on_epoch_end(self, fit: FitView) -> Answer:
        record, plateau = fit.record, self._plateau
        if self._name not in record:
            check_monitored("EarlyStopping", self._name, fit)
            return None
        if plateau is None:
            plateau = self._plateau = self._new_plateau(fit)
        exhausted = plateau.observe(record[self._name])
        if plateau.is_best or not self.best_epoch_:
            vars(self).update(best_epoch_=fit.epoch, best_step_=fit.step)
        if self.restore_best and (plateau.is_best or self._weights is None):
            self._weights = fit.model.weights()
        return self._decided(fit.model, plateau, exhausted)

    def _observe_ahead(
        self, records: Sequence[Mapping[str, float]], epoch: int, step: int, n_steps: int
    ) -> None:
        """Observe epochs of `n_steps` after an epoch and a step, none of which can end or change the fit."""
        plateau: Any = self._plateau
        for i, record in enumerate(records, 1):
            if self._name in record:
                plateau.observe(record[self._name])
                if plateau.is_best or not self.best_epoch_:
                    vars(self).update(best_epoch_=epoch + i, best_step_=step + i * n_steps)

    def on_fit_end(self, fit: FitView) -> None:
        if self._weights is not None and not fit.failed:
            fit.model.restore_weights(self._weights)
        vars(self).update(_weights=None, _model=None)

    def state(self) -> dict[str, Any]:
        """Return the best value so far, the epochs since then, and its weights (only during a fit)."""
        if self._plateau is None:
            return dict(self._loaded)
        state = {"monitor": self._name, **self._plateau.state()}
        state |= {
            "best_epoch": self.best_epoch_,
            "best_step": self.best_step_,
            "reductions": self._reductions,
        }
        return state | ({} if self._weights is None else {"weights": _as_arrays(self._weights, self._model)})

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`, if the same metric is monitored."""
        self._loaded = state

    def _new_plateau(self, fit: FitView) -> Plateau:
        higher = fit.directions.get(self._name) if self.higher_is_better is None else self.higher_is_better
        if higher is None:
            raise ValueError(
                f"EarlyStopping(monitor={self._name!r}) does not know whether higher is better: give "
                "higher_is_better=True or False"
            )
        plateau = Plateau(self.patience, self.tol, bool(higher))
        if self._loaded.get("monitor") == self._name:
            plateau.load_state(self._loaded)
        return plateau

    def _decided(self, model: Any, plateau: Plateau, exhausted: bool) -> Answer:
        """Lower the learning rate if its schedule asks for it; return whether the fit ends."""
        progress = model.progress
        if not (exhausted or plateau.waited):  # nothing is due, whatever the schedules are
            if progress.reductions != self._reductions:
                self._reductions = progress.reductions
            return None
        optimizer = model.optimizer
        schedules = optimizer.schedules if optimizer.goes_in_steps else []
        own = min([s.patience for s in schedules if s.patience is not None], default=None)
        due = exhausted if own is None else plateau.waited > own
        # Another callback may have lowered it since the last epoch: once is enough.
        was_reduced = progress.reductions > self._reductions
        can_reduce = due and (was_reduced or any(s.can_reduce(progress) for s in schedules))
        if can_reduce:
            if not was_reduced:
                model.progress = progress = progress._replace(reductions=progress.reductions + 1)
                rate = optimizer.learning_rate(progress)
                self._say(self.patience if own is None else own, f"Setting learning rate to {rate:f}")
            plateau.restart(also_count=own is None, cooldown=max(s.cooldown for s in schedules))
        self._reductions = progress.reductions
        if not exhausted or (can_reduce and own is None):
            return None
        lowers = any(type(schedule).can_reduce is not Schedule.can_reduce for schedule in schedules)
        self._say(
            self.patience, "Learning rate too small. Stopping." if lowers and not can_reduce else "Stopping."
        )
        return "stop"

    def _say(self, epochs: float, consequence: str) -> None:
        if self.verbose:
            name = SPOKEN.get(self._name, self._name)
            missed = f"{name} did not improve more than tol={self.tol:f} for {epochs} consecutive epochs."
            print(f"{missed} {consequence}")


def _as_arrays(weights: Any, model: Any) -> dict[str, Any]:
    """Return weights as host arrays, without those of parameters that are still frozen."""
    thawed = [] if model is None else [name for name in weights.frozen if name in model.parameters]
    return {
        "trained": list(weights.layout.shapes),
        "thawed": {name: to_host(weights.frozen[name]) for name in thawed},
        "flat": to_host(weights.flat),
        "buffers": {name: to_host(array) for name, array in weights.buffers.items()},
        "slots": {name: to_host(array) for name, array in weights.slots.items()},
    }


def _weights_of(model: Any, saved: Mapping[str, Any] | None) -> Any:
    """Return weights from a state's arrays, or the model's if there are none."""
    weights = model.weights()
    if saved is None:
        return weights

    def placed(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: to_device(array, model.device) for name, array in arrays.items()}

    known = {*(weights.layout.shapes if weights.layout else ()), *weights.frozen}
    if not known >= {*saved["trained"], *saved["thawed"]}:
        raise StateError("the best weights that were saved are of another network")
    like = weights.trained_by(saved["trained"], placed(saved["thawed"]))
    flats = [saved["flat"], *saved["slots"].values()]
    pairs = [(weights.buffers.get(name), x) for name, x in saved["buffers"].items()]
    if (
        any((x.shape, x.dtype) != ((like.layout.size,), weights.flat.dtype) for x in flats)
        or saved["slots"].keys() != weights.slots.keys()
        or any(now is None or (now.shape, now.dtype) != (x.shape, x.dtype) for now, x in pairs)
    ):
        raise StateError("the best weights that were saved are of another network, or of another optimizer")
    return like._replace(
        flat=to_device(saved["flat"], model.device),
        buffers=placed(saved["buffers"]),
        slots=placed(saved["slots"]),
    )


class Pruning(Callback):
    """Report every epoch to an Optuna trial, and end the fit if the trial is pruned.

    A pruned fit raises ``optuna.TrialPruned``, which the study handles, and leaves the estimator unchanged.
    It needs Optuna: ``pip install "scikit-neural[optuna]"``.

    Parameters
    ----------
    trial : optuna.Trial
        The argument of the objective function that fits the estimator.
    monitor : str or None, default=None
        Name of the metric to report; None is `FitView.monitor`, on the validation rows if there are any. The
        study must have the direction of the metric.
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


class TimeLimit(Callback):
    """End a fit normally after some seconds, even in the middle of an epoch.

    Parameters
    ----------
    seconds : float
        The time limit of one call of `fit` or `partial_fit`. The current block of steps, which takes about a
        twentieth of a second, is finished, and the callbacks of the epoch are called. A fit that is resumed
        from a `Checkpoint` has the same time again.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPRegressor
    >>> from sknet.callbacks import TimeLimit
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> net = MLPRegressor(max_iter=10**6, n_iter_no_change=np.inf, callbacks=[TimeLimit(0.2)])
    >>> 0 < net.fit(X, X[:, 0]).n_iter_ < 10**6
    True
    """

    may_warn = False
    pauses = True
    _parameter_constraints = {"seconds": [Interval(Real, 0, None, closed="left")]}
    _stored_fields = {
        "_end": float,
    }

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_fit_begin(self, fit: FitView) -> None:
        self._end = time.monotonic() + self.seconds

    def on_block_end(self, fit: FitView) -> Answer:
        return "stop" if time.monotonic() >= self._end else None

    def on_epoch_end(self, fit: FitView) -> Answer:
        return self.on_block_end(fit)  # validation and other callbacks take time too
