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
from sknet.tabular._members import Fold, Setting, Task
from sknet.tabular._training import Rows, Training

MOST_MEAN = 3.0  # deviations; beyond that, a logarithm is nearly a line, and its steps are too small


def mean_of(targets: Any, y: np.ndarray, weight: Any, loss: Loss) -> float | None:
    """Return the mean of targets in standard deviations, if members can learn its logarithm."""
    if type(loss) is not SquaredError or targets.n_outputs > 1:
        return None
    if not (y if weight is None else y[weight.ravel() > 0]).min() >= 0:
        return None
    mean = float(targets.mean[0] / targets.scale[0])
    return mean if 0 < mean <= MOST_MEAN else None


def with_log_links(task: Task, folds: list[Fold]) -> Task:
    """Return a task whose settings say if members learn logarithms, decided by the rows of training."""
    kinds = [kind for kind, setting in task.settings.items() if setting.log_link not in (False, "auto")]
    if kinds and task.mean is None:
        raise ValueError(
            f"{kinds[0]}__log_link=True is for the squared error of one target that is never below 0 and has "
            f"a mean above 0 of at most {MOST_MEAN:g} standard deviations, without an offset and with "
            "extrapolate=False"
        )
    kinds = [kind for kind, setting in task.settings.items() if setting.log_link == "auto"]
    multiply = False
    if kinds and task.mean is not None:
        rows = np.unique(np.concatenate([training for training, _ in folds]))
        weight = np.ones(len(task.y)) if task.weight is None else task.weight.ravel()
        with blas_threads(1):
            y = task.y[:, 0] / task.mean + 1.0
            multiply = effects_multiply(task.table, rows[weight[rows] > 0], y, weight)
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
        *others: Any,
        **more: Any,
    ) -> None:
        own, unseen = (replace(rows, y=np.maximum(rows.y / mean + 1.0, 0.0)) for rows in (training, held_out))
        # A fold may have zeros alone.
        self._loss, self._link = loss, ExpLink(mean, math.log(max(float(own.y.max()), 1.0)))
        super().__init__(setting, own, unseen, Poisson(), *others, **more)

    def _predicting(self) -> Model:
        self._model.module.link = self._link
        return super()._predicting()
