"""A compiled training step for inspection: its graph, memory plan and source."""

from typing import TYPE_CHECKING, Any, NoReturn

from sknet._attributes import cached_property
from sknet.compile import Compiled
from sknet.engine.step._programs import Programs
from sknet.exceptions import CaptureError, GraphError

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["CompiledStep", "compiled_step"]


class CompiledStep:
    """The programs of a training step, which are captured on first access.

    Parameters
    ----------
    model : Model
        A model on the host, with a stochastic optimizer.
    X, y, weight : array, array, array or None
        Arrays with the shapes and dtypes of a batch.

    Notes
    -----
    If the step cannot be captured, its attributes raise an AttributeError that says why.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.engine import compiled_step
    >>> step = compiled_step(Model(nn.Linear(3, 1)), np.ones((5, 3), "f4"), np.ones((5, 1), "f4"))
    >>> step
    CompiledStep(X: float32[5,3], y: float32[5,1]; print its source)
    >>> print(step.source.splitlines()[1])
    # slots: v0: float32[32], v1: float32[32], v2: float32[5,3], v3: float32[5,1], v4: int64[]
    """

    def __init__(self, model: "Model", X: Any, y: Any, weight: Any = None) -> None:
        self._model, self._batch = model, (X, y, weight)

    def captured(self) -> tuple[Compiled, Compiled]:
        """Return the programs of gradient and update.

        Raises
        ------
        CaptureError
            If the step cannot be captured.
        """
        return self._captured

    @cached_property
    def _captured(self) -> tuple[Compiled, Compiled]:
        programs = Programs(self._model)
        return programs.gradient_of(*self._batch), programs.update

    def _shown(self) -> tuple[Compiled, Compiled]:
        try:
            return self._captured
        except (CaptureError, GraphError) as error:
            raise AttributeError(f"this step is not compiled: {error}") from error

    @property
    def gradient(self) -> Compiled:
        """Computes the gradient from parameters and a batch; see its ``graph``, ``plan`` and ``source``."""
        return self._shown()[0]

    @property
    def update(self) -> Compiled:
        """Computes new parameters and state from gradient and optimizer state."""
        return self._shown()[1]

    @property
    def source(self) -> str:
        """The Python source of both programs."""
        return f"# -- gradient of a batch\n{self.gradient.source}\n# -- update\n{self.update.source}"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a compiled step is bound to memory of this process and cannot be pickled or copied: pickle the "
            "model, and get its step again"
        )

    def __repr__(self) -> str:
        X, y, weight = self._batch
        named = {**({f"X[{name!r}]": x for name, x in X.items()} if isinstance(X, dict) else {"X": X})}
        batch = [
            f"{name}: {x.dtype}[{','.join(map(str, x.shape))}]"
            for name, x in {**named, "y": y, "weight": weight}.items()
            if x is not None
        ]
        return f"CompiledStep({', '.join(batch)}; print its source)"


def compiled_step(model: "Model", X: Any, y: Any, weight: Any = None) -> CompiledStep:
    """Return the training step of a model for batches like this one; nothing is run.

    Parameters
    ----------
    model : Model
        A model on the host, with a stochastic optimizer.
    X, y, weight : array, array, array or None
        Arrays with the shapes and dtypes of a batch.

    Returns
    -------
    CompiledStep
        The step.

    Raises
    ------
    CaptureError
        If the step cannot be captured.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.engine import compiled_step
    >>> model = Model(nn.Linear(2, 1), loss="squared_error", random_state=0)
    >>> compiled_step(model, np.ones((4, 2)), np.zeros((4, 1)))
    CompiledStep(X: float64[4,2], y: float64[4,1]; print its source)
    """
    step = CompiledStep(model, X, y, weight)
    step.captured()
    return step
