"""The state of a fit in progress, as its callbacks see it."""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._constraints import shown
from sknet.callbacks import Callback
from sknet.callbacks.extend import Rows
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._history import History
from sknet.exceptions import StateError

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Fit", "Record", "Source"]

MEASURED = {"loss": False, "score": True}  # whether higher is better
NONE_YET: np.ndarray[Any, Any] = np.zeros(0)  # of an array of losses


class Source:
    """Estimator and data of a fit, as callbacks see them; in this base class, nothing."""

    monitor: str | None = None
    measured: Mapping[str, bool | None] = MEASURED

    @property
    def began(self) -> dict[str, Any] | None:
        """State of the random numbers before held-out rows were drawn; None if none are."""
        return None

    def estimator(self, epoch: int) -> Any:
        """Return the estimator as if the fit had ended after that epoch; None if there is none."""
        return None

    def parameters(self) -> dict[str, Any] | None:
        """Return the parameters that must agree to resume a saved fit; None for what the loop knows."""
        return None

    def training(self) -> Rows | None:
        """Return the training rows as the user gave them, or None."""
        return None

    def validation(self) -> Rows | None:
        """Return the validation rows as the user gave them, or None."""
        return None


class Record(dict[str, float]):
    """The numbers of an epoch: the last row of a history, to which a callback may add."""

    def __init__(self, values: Mapping[str, float], history: History) -> None:
        super().__init__(values)
        self._history = history

    def __setitem__(self, name: str, value: float) -> None:
        if name in self:
            raise ValueError(f"this epoch already has a number {name!r}, {self[name]}: choose another name")
        if not isinstance(value, Real | np.generic | np.ndarray) or np.ndim(value):
            raise TypeError(f"record[{name!r}] must be a number, got {shown(value)}")
        self._history.amend(name, float(value))
        super().__setitem__(name, float(value))


class Fit:
    """The state of a loop, as its callbacks see it; see `sknet.callbacks.FitView`."""

    def __init__(
        self,
        model: "Model",
        batches: Batches | None,
        history: History,
        max_epochs: int,
        is_validated: bool = False,
        source: Source | None = None,
        measured: Mapping[str, bool | None] | None = None,
    ) -> None:
        source = source or Source()
        self.model, self.history, self.max_epochs = model, history, max_epochs
        self.batches: Any = batches
        self.epoch = self.step = 0
        self.losses = NONE_YET
        measured = source.measured if measured is None else measured
        self.directions = dict(measured)
        if is_validated:
            self.directions |= {f"validation_{name}": higher for name, higher in measured.items()}
        self.record = Record({}, history)
        self.monitor = source.monitor or ("validation_score" if is_validated else "loss")
        self.exception: BaseException | None = None
        self.failed = False
        self.stopped_by: Callback | None = None
        self.state: Callable[[], dict[str, Any]] = _no_state
        self.source = source

    def estimator(self) -> Any:
        """Return the estimator as if the fit had ended here."""
        return self.source.estimator(self.epoch)

    def rows(self, which: str) -> Rows | None:
        """Return the training or validation rows, as given."""
        found: Rows | None = getattr(self.source, which)()
        return found

    def end(self) -> None:
        """Let go of what saves the state: in a cycle with it, the rows would stay in memory for long."""
        self.state = _has_ended

    def close_epoch(self, values: Mapping[str, float]) -> None:
        """Record the numbers of a finished epoch."""
        self.history.append(**values)
        self.record = Record(values, self.history)


def _has_ended() -> dict[str, Any]:
    raise StateError("the fit has ended: its state can be saved up to on_fit_end")


def _no_state() -> dict[str, Any]:
    raise ValueError("a fit by L-BFGS has no state to save: use a stochastic optimizer, such as Adam")
