"""Which kind of steps a fit takes: in native code, as a NumPy plan, or one operation after the other."""

import warnings

from sknet import ops
from sknet.compile.executors._native import UnsupportedError
from sknet.engine._batches import Batches
from sknet.engine._model import Model
from sknet.engine._native_steps import NativeSteps
from sknet.engine._steps import CompiledSteps, EagerSteps, Steps
from sknet.exceptions import CaptureError

__all__ = ["steps_for"]


def steps_for(model: Model, batches: Batches, check_finite: bool, planned: int) -> Steps:
    """Return the fastest steps that there can be.

    Parameters
    ----------
    model, batches, check_finite
        As for `Steps`.
    planned : int
        How many steps are planned at most.

    Returns
    -------
    Steps
        Native where Numba is installed and knows all operations; compiled for NumPy where the
        module can be captured; eager elsewhere.

    Warns
    -----
    UserWarning
        If the module or the loss cannot be captured; names the reason and the line.
    """
    if model.device.kind != "cpu" or ops.is_sparse(batches.X):
        return EagerSteps(model, batches, check_finite)
    try:
        return NativeSteps(model, batches, check_finite, planned)
    except UnsupportedError:
        return CompiledSteps(model, batches, check_finite)
    except CaptureError as error:
        warnings.warn(f"the training step is not compiled, and slower: {error}", UserWarning, stacklevel=4)
        return EagerSteps(model, batches, check_finite)
