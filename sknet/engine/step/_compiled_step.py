"""A training step to look at: what is computed, where it is kept, and the source of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sknet.compile import Compiled
from sknet.engine.step._programs import Programs

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["CompiledStep", "compiled_step"]


@dataclass(frozen=True)
class CompiledStep:
    """The programs of a training step.

    Attributes
    ----------
    gradient : Compiled
        From parameters and a batch to the gradient; its `graph`, `plan` and `source` can be read.
    update : Compiled
        From gradient and optimizer state to new parameters and state.
    native_source : str or None
        Of the function that goes through many steps by one call; None where Numba is missing or
        an operation has no native code.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.engine import compiled_step
    >>> step = compiled_step(Model(nn.Linear(3, 1)), np.ones((5, 3), "f4"), np.ones((5, 1), "f4"))
    >>> print(step.source.splitlines()[1])
    # slots: v0: float32[32], v1: float32[32], v2: float32[5,3], v3: float32[5,1], v4: int64[]
    """

    gradient: Compiled
    update: Compiled
    native_source: str | None

    @property
    def source(self) -> str:
        """The Python source of both programs."""
        return f"# -- gradient of a batch\n{self.gradient.source}\n# -- update\n{self.update.source}"


def compiled_step(model: "Model", X: Any, y: Any, weight: Any = None) -> CompiledStep:
    """Return the training step of a model for batches like this one; nothing is run.

    Parameters
    ----------
    model : Model
        On the host, with an optimizer that goes step by step.
    X, y, weight : array, array, array or None
        Of the shapes and dtypes of a batch.

    Returns
    -------
    CompiledStep
        To look at.

    Raises
    ------
    CaptureError
        If the step cannot be captured.
    """
    from sknet.compile.executors.native import native_source  # loads what imports should not wait for

    programs = Programs(model)
    gradient = programs.gradient_of(X, y, weight)
    source = native_source(gradient, programs.update, list(model.untrained), weight is not None)
    return CompiledStep(gradient, programs.update, source)
