"""Scores that need all rows at once, such as rankings: outputs are kept until the last batch."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sknet.device import device_of, namespace, to_device, to_host
from sknet.engine.loop._scores import Score

__all__ = ["Gathered"]


class Gathered(Score):
    """Scores computed from the raw outputs of all rows, in whatever batches and order they are added."""

    may_wait = False  # but for those that compute nothing: others may look at the model

    def __init__(
        self, n_samples: int, compute: Callable[[Any, Any], Mapping[str, float]], names: Sequence[str]
    ) -> None:
        self._compute, self._names = compute, list(names)
        self.reads_outputs = bool(self._names)
        self.may_wait = not self._names
        self._came = np.zeros(n_samples, dtype=bool)
        self._outputs: Any = None

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        if rows is None:
            raise ValueError("Gathered needs the indices of the rows: add(output, target, weight, rows)")
        xp = namespace(output)
        if self._outputs is None:
            self._outputs = xp.empty((len(self._came), *output.shape[1:]), dtype=output.dtype)
        elif device_of(self._outputs) != device_of(output):  # restored on the host
            self._outputs = to_device(self._outputs, device_of(output))
        self._outputs[rows if isinstance(rows, slice) else xp.asarray(rows)] = output
        self._came[rows] = True

    def result(self) -> float:
        return self.results()[self._names[0]]

    def results(self) -> dict[str, float]:
        rows, outputs = None, self._outputs
        if outputs is not None and not self._came.all():
            rows = np.flatnonzero(self._came)
            outputs = outputs[namespace(outputs).asarray(rows)]
        if outputs is None or not namespace(outputs).isfinite(outputs).all().item():
            return dict.fromkeys(self._names, math.nan)
        return {name: float(value) for name, value in self._compute(outputs, rows).items()}

    def state(self) -> dict[str, Any]:
        outputs = self._outputs
        kept = None if outputs is None else np.array(to_host(outputs)[self._came])
        return {"came": self._came.copy(), "outputs": kept}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._came = np.array(state["came"], dtype=bool)
        outputs, self._outputs = state["outputs"], None
        if outputs is not None:
            whole = np.empty((len(self._came), *outputs.shape[1:]), dtype=outputs.dtype)
            whole[self._came] = outputs
            self._outputs = whole
