"""The choice of a fit's steps: native code, a compiled plan, or eager operations."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._config import native_setting
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._computed import ComputedRows
from sknet.engine.loop._steps import CompiledSteps, EagerSteps, Steps
from sknet.engine.state import any_sparse
from sknet.engine.step import not_compiled
from sknet.exceptions import CaptureError, GraphError

if TYPE_CHECKING:
    from sknet.compile.executors.native import Runner
    from sknet.engine._model import Model

__all__ = ["steps_for"]


def steps_for(
    model: "Model",
    batches: Batches,
    check_finite: bool,
    planned: int,
    buffers: tuple[Any, dict[str, Any]] | None = None,
) -> Steps:
    """Return the fastest steps that are possible.

    Parameters
    ----------
    model, batches, check_finite
        As for `Steps`.
    planned : int
        The most steps planned from now on, which decides whether native code is worthwhile.
    buffers : tuple of an array and a dict of arrays, default=None
        Memory that compiled steps on the host work in, instead of the model's: parameters and slots.

    Returns
    -------
    Steps
        Compiled if the module can be captured, and on the host in native code as soon as that is loaded, if
        Numba is installed and the setting `native` is not "never"; it waits for native code where that is
        "always". Otherwise eager.

    Raises
    ------
    CaptureError
        With ``compile=True``, if the step cannot be captured.

    Warns
    -----
    UserWarning
        If native code should be possible but fails, or if the module or the loss cannot be captured;
        names the reason and the line.
    """
    if not model.compile or (model.device.kind != "cpu" and any_sparse(batches.X)):
        return EagerSteps(model, batches, check_finite)
    try:
        if model.device.kind != "cpu":
            from sknet.engine.loop._device_steps import DeviceSteps  # the host does without it

            return DeviceSteps(model, batches, check_finite)
        return _compiled_steps(model, batches, check_finite, planned, buffers)
    except (CaptureError, GraphError) as error:
        if model.compile is True:
            raise
        not_compiled(error, stacklevel=4)
        return EagerSteps(model, batches, check_finite)


def _compiled_steps(
    model: "Model", batches: Batches, check_finite: bool, planned: int, buffers: Any
) -> CompiledSteps:
    inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
    if native_setting() != "never" and all(isinstance(x, (np.ndarray, ComputedRows)) for x in inputs):
        runner = _native_runner()
        if runner is not None:
            from sknet.engine.loop._native_steps import NativeSteps

            return NativeSteps(model, batches, check_finite, planned, runner, buffers)
    return CompiledSteps(model, batches, check_finite, buffers)


def _native_runner() -> "Runner | None":
    """Return what runs native code; None if there is none."""
    # Importing sknet should not take the time to load a compiler that may not be needed.
    from sknet.compile.executors.native import UnsupportedError, runner

    try:
        found = runner()
        if native_setting() == "always":
            found.wait()
    except UnsupportedError:
        return None
    except Exception as error:
        # Whatever is wrong with Numba or its cache must not stop a fit that NumPy can do.
        warnings.warn(f"no native code, so the fit uses NumPy: {error!r}", UserWarning, stacklevel=6)
        return None
    return found
