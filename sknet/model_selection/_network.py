"""The network whose epochs are a search's resource, and whether its fits can continue."""

from typing import Any

from sklearn.pipeline import Pipeline

from sknet.callbacks import FitView
from sknet.callbacks.extend import KeepState, SavedFit
from sknet.estimators.extend import BaseNet
from sknet.optim.schedules import Progress

__all__ = ["EPOCHS", "Continuation", "epochs_of", "network_of"]

EPOCHS = "max_iter"
PROBES = 32  # points of a fit at which an optimizer is compared with that of a longer fit


def network_of(estimator: Any, resource: str) -> BaseNet | None:
    """Return the network whose epochs a resource counts, if it is the estimator or its last step."""
    *names, parameter = resource.split("__")
    for name in names:
        if not isinstance(estimator, Pipeline) or estimator.steps[-1][0] != name:
            return None
        estimator = estimator.steps[-1][1]
    return estimator if parameter == EPOCHS and isinstance(estimator, BaseNet) else None


def epochs_of(estimator: Any) -> str | None:
    """Return the name of the parameter that limits the epochs of a network or of a Pipeline's last step."""
    names = []
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        names.append(name)
    return "__".join([*names, EPOCHS]) if isinstance(estimator, BaseNet) else None


class Continuation(KeepState):
    """Keeps the state of a candidate for its next rung, if a longer fit would start in the same way."""

    why_not_ = ""

    def on_fit_begin(self, fit: FitView) -> None:
        super().on_fit_begin(fit)
        optimizer = fit.model.optimizer
        if not optimizer.goes_in_steps:
            self.why_not_ = f"the state of {type(optimizer).__name__} is inside SciPy"
        elif depends_on_length(optimizer, fit.model.progress):
            self.why_not_ = f"{optimizer!r} depends on the total number of epochs from the first one on"

    def on_block_end(self, fit: FitView) -> None:
        if not self.why_not_:
            super().on_block_end(fit)

    def on_fit_end(self, fit: FitView) -> None:
        if not self.why_not_:
            super().on_fit_end(fit)

    def kept(self) -> SavedFit | None:
        """Return the state; None if the candidate has to start again, or its fit failed."""
        return None if self.why_not_ else self.saved_


def depends_on_length(optimizer: Any, progress: Progress) -> bool:
    """Tell whether updates depend on the number of updates of the whole fit."""
    total = progress.total_steps
    if total is None:
        return False
    for number in range(PROBES):
        step = number * total // PROBES
        at = progress._replace(step=step, epoch=number)
        numbers = optimizer.hyper(step + 1, at)
        for other in (None, 2 * total + 1):
            try:
                if optimizer.hyper(step + 1, at._replace(total_steps=other)) != numbers:
                    return True
            except Exception:  # a custom schedule may raise anything if the length is unknown
                return True
    return False
