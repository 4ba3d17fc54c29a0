"""The choice of a fit's steps: native code, a compiled plan, or eager operations."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._config import native_core
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._computed import ComputedRows
from sknet.engine.loop._steps import CompiledSteps, EagerSteps, Steps
from sknet.engine.state import any_sparse
from sknet.engine.step import not_compiled
from sknet.exceptions import CaptureError, GraphError

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["steps_for"]


def steps_for(
    model: "Model",
    batches: Batches,
    check_finite: bool,
    buffers: tuple[Any, dict[str, Any]] | None = None,
) -> Steps:
    """Return the fastest steps that are possible."""
    if not model.compile or (model.device.kind != "cpu" and any_sparse(batches.X)):
        return EagerSteps(model, batches, check_finite)
    try:
        if model.device.kind != "cpu":
            from sknet.engine.loop._device_steps import DeviceSteps  # the host does without it

            return DeviceSteps(model, batches, check_finite)
        return _compiled_steps(model, batches, check_finite, buffers)
    except (CaptureError, GraphError) as error:
        if model.compile is True:
            raise
        not_compiled(error, stacklevel=4)
        return EagerSteps(model, batches, check_finite)


def _compiled_steps(model: "Model", batches: Batches, check_finite: bool, buffers: Any) -> CompiledSteps:
    inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
    if native_core() is not None and all(isinstance(x, (np.ndarray, ComputedRows)) for x in inputs):
        from sknet.engine.loop._native_steps import NativeSteps  # which NumPy's plan does without

        return NativeSteps(model, batches, check_finite, buffers)
    return CompiledSteps(model, batches, check_finite, buffers)
