"""Log links: members that learn the logarithm of the mean of targets whose noise grows with their mean."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sknet import ops
from sknet._fields import ABOVE_ZERO, FINITE
from sknet._parallel import blas_threads
from sknet.core import Tensor
from sknet.engine import Model
from sknet.losses import Loss, Poisson, SquaredError
from sknet.preprocessing._effects import effects_multiply
from sknet.tabular._members import Setting, Task
from sknet.tabular._training import Rows, Training


def mean_of(targets: Any, y: np.ndarray, loss: Loss) -> float | None:
    """Return the mean of standardized targets in deviations, if members can learn its logarithm."""
    if type(loss) is not SquaredError or targets.n_outputs > 1 or not y.min() >= 0:
        return None
    mean = float(targets.mean[0] / targets.scale[0])
    return mean if mean > 0 else None


def with_log_links(task: Task, rows: np.ndarray) -> Task:
    """Return a task in which it is settled whether members learn logarithms, by rows of all folds."""
    kinds = [kind for kind, setting in task.settings.items() if setting.log_link not in (False, "auto")]
    if kinds and task.mean is None:
        raise ValueError(
            f"{kinds[0]}__log_link=True is for the squared error of one target that is never below 0, "
            "without an offset and with extrapolate=False"
        )
    kinds = [kind for kind, setting in task.settings.items() if setting.log_link == "auto"]
    multiply = False
    if kinds and task.mean is not None:
        rows = rows if task.weight is None else rows[task.weight[rows].ravel() > 0]
        with blas_threads(1):
            multiply = effects_multiply(task.table, rows, task.y[:, 0] / task.mean + 1.0)
    settled = {kind: replace(task.settings[kind], log_link=multiply) for kind in kinds}
    return replace(task, settings={**task.settings, **settled})


@dataclass(frozen=True)
class ExpLink:
    """Standardized means, given the logarithms of their ratios to the mean of all targets."""

    mean: float  # of all targets, in standard deviations
    most: float  # the largest logarithm
    _stored_fields = {"mean": ABOVE_ZERO, "most": FINITE}

    def __call__(self, x: Any) -> Tensor:
        return self.mean * ops.exp(ops.minimum(x, self.most)) - self.mean


class LogLinkTraining(Training):
    """The training of logarithms of means, by the Poisson deviance."""

    def __init__(
        self,
        mean: float,
        setting: Setting,
        training: Rows,
        held_out: Rows,
        loss: Loss,
        n_outputs: int,
        seed: int,
        **others: Any,
    ) -> None:
        own, unseen = (replace(rows, y=np.maximum(rows.y / mean + 1.0, 0.0)) for rows in (training, held_out))
        self._loss, self._link = loss, ExpLink(mean, math.log(float(own.y.max())))
        super().__init__(setting, own, unseen, Poisson(), n_outputs, seed, **others)

    def _predicting(self) -> Model:
        self._model.module.link = self._link
        return super()._predicting()
