"""Ending a fit that does not improve."""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet._fields import ABSENT, COUNT, Arrays, Each, Fields, Items
from sknet._params import Interval, Options
from sknet.callbacks._callback import Answer, Callback
from sknet.callbacks._monitored import check_monitored
from sknet.callbacks._plateau import Plateau
from sknet.callbacks._view import FitView
from sknet.device import to_device, to_host
from sknet.exceptions import StateError
from sknet.optim.schedules import Schedule

__all__ = ["EarlyStopping"]

MANY = 1 << 20  # epochs
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
    """End the fit when a number has not improved for some epochs, and restore the best weights.

    A schedule that responds to plateaus, such as `sknet.optim.schedules.Adaptive`, lowers the learning rate
    first; the fit ends when it cannot be lowered any further.

    Parameters
    ----------
    monitor : str or None, default=None
        Name of the number: "loss", "score", "validation_loss", "validation_score" or one that another
        callback adds. None is the fit's own (`FitView.monitor`): of the validation, if there is one.
    patience : int or inf, default=10
        Epochs without improvement that are tolerated.
    tol : float, default=1e-4
        By how much the number must be better than the best to count as an improvement.
    higher_is_better : bool or None, default=None
        Needed for a number whose direction is not known, as it is for losses and scores.
    restore_best : bool, default=True
        Whether the fit ends with the weights of the best epoch.
    verbose : bool or int, default=False
        Print why the fit ends, and every lowered rate.

    Attributes
    ----------
    best_ : float
        The best number; NaN before the first.
    best_epoch_, best_step_ : int
        The epoch of the best number, and the updates made by then; 0 if there is none.

    Notes
    -----
    A number improves if it is at least ``best + tol`` (or, where lower is better, at most
    ``best - tol``), while the best moves with any better number. After more than `patience` epochs in a
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
    def best_(self) -> float:
        """The best number so far."""
        return math.nan if self._plateau is None else self._plateau.best

    def epochs_ahead(self) -> int:
        """Return after how many epochs it can first have something to do."""
        if self.restore_best or self._plateau is None:
            return 1
        optimizer, plateau = self._model.optimizer, self._plateau
        left = self.patience - plateau.count
        for schedule in optimizer.schedules if optimizer.goes_in_steps else ():
            if schedule.patience is not None:
                left = min(left, schedule.patience - plateau.waited)
        return int(max(0, min(left, MANY))) + 1

    def on_fit_begin(self, fit: FitView) -> None:
        self._name, self._model = self.monitor or fit.monitor, fit.model
        self._reductions = fit.model.progress.reductions
        loaded = self._loaded
        if fit.epoch:  # resumed: continue counting its epochs
            self.best_epoch_, self.best_step_ = loaded.get("best_epoch", 0), loaded.get("best_step", 0)
        if self.higher_is_better is not None or self._name in fit.directions:
            self._plateau = self._new_plateau(fit)
        if self.restore_best and loaded.get("monitor") == self._name and math.isfinite(loaded["best"]):
            # The fit that is continued has had a best epoch: its weights are the model's, or in the state.
            self._weights = _weights_of(fit.model, loaded.get("weights"))

    def on_epoch_end(self, fit: FitView) -> Answer:
        if self._name not in fit.record:
            check_monitored("EarlyStopping", self._name, fit)
            return None
        if self._plateau is None:
            self._plateau = self._new_plateau(fit)
        exhausted = self._plateau.observe(fit.record[self._name])
        if self._plateau.is_best or not self.best_epoch_:
            self.best_epoch_, self.best_step_ = fit.epoch, fit.step
        if self.restore_best and (self._plateau.is_best or self._weights is None):
            self._weights = fit.model.weights()
        return self._decided(fit.model, self._plateau, exhausted)

    def on_fit_end(self, fit: FitView) -> None:
        if self._weights is not None and not fit.failed:
            fit.model.restore_weights(self._weights)
        self._weights = self._model = None

    def state(self) -> dict[str, Any]:
        """Return the best number so far, how long ago it was, and its weights (only during a fit)."""
        if self._plateau is None:
            return dict(self._loaded)
        state = {"monitor": self._name, **self._plateau.state()}
        state |= {"best_epoch": self.best_epoch_, "best_step": self.best_step_}
        return state | ({} if self._weights is None else {"weights": _as_arrays(self._weights, self._model)})

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, if the same number is monitored."""
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
        optimizer, progress = model.optimizer, model.progress
        if not (exhausted or plateau.waited):  # nothing is due, whatever the schedules are
            self._reductions = progress.reductions
            return None
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
