"""Schedules outside of optimizers: dropout probabilities."""

from typing import TYPE_CHECKING

import numpy as np

from sknet._constraints import shown
from sknet._params import InvalidParameterError
from sknet.device import to_device
from sknet.nn.extend import latest

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["follow_schedules"]


def follow_schedules(model: "Model") -> bool:
    """Set the probability of layers that follow a schedule to that of the next step."""
    memory = model.memory
    mark, scheduled = memory.scheduled
    if mark is not latest.settings:
        scheduled = [
            (f"{path}.rate" if path else "rate", module.p)
            for path, module in memory.module.named_modules()
            if "rate" in module._buffers and callable(getattr(module, "p", None))
        ]
        memory.scheduled = latest.settings, scheduled
    for path, schedule in scheduled:
        value = float(schedule(model.progress))
        if not 0.0 <= value <= 1.0:
            layer = path.removesuffix("rate").rstrip(".") or "the module"
            raise InvalidParameterError(
                f"the schedule {schedule!r} of {layer!r} must "
                f"return a probability, a number from 0 to 1. "
                f"Got {shown(value)} at step {model.progress.step}."
            )
        memory.set_buffers({path: to_device(np.asarray(value, memory.dtype), memory.device)})
    return bool(scheduled)
