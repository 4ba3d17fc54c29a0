"""The errors and warnings that sknet raises, beyond Python's and scikit-learn's own."""

__all__ = [
    "CallbackWarning",
    "CaptureError",
    "ContinuationWarning",
    "DeviceError",
    "DeviceWarning",
    "DtypeError",
    "FitInterruptedWarning",
    "GradientError",
    "GraphError",
    "LoadError",
    "NonFiniteError",
    "ShapeError",
    "StateError",
]


class CaptureError(TypeError):
    """A function that cannot be captured: what it does would be frozen at the values of the first call.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile import capture
    >>> capture(lambda x: x if x.sum() > 0 else -x, np.ones(2))
    Traceback (most recent call last):
        ...
    sknet.exceptions.CaptureError: the value of a tensor is read ...
    """


class ShapeError(ValueError):
    """Shapes that do not fit together; the message names the operation and the shapes.

    Examples
    --------
    >>> from sknet import ops
    >>> ops.add([1.0, 2.0], [1.0, 2.0, 3.0])
    Traceback (most recent call last):
        ...
    sknet.exceptions.ShapeError: add: shapes (2,) and (3,) do not broadcast together
    """


class DtypeError(TypeError):
    """A dtype that an operation or a device cannot compute with.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Embedding(3, 2)([0.5])
    Traceback (most recent call last):
        ...
    sknet.exceptions.DtypeError: Embedding(num_embeddings=3, embedding_dim=2): expected integers...
    """


class DeviceError(RuntimeError):
    """A device that does not exist here, or arrays of several devices in one operation.

    Examples
    --------
    >>> from sknet import Tensor
    >>> Tensor([1.0], device="cuda:99")
    Traceback (most recent call last):
        ...
    sknet.exceptions.DeviceError: device 'cuda...
    """


class GradientError(RuntimeError):
    """A gradient that was asked for and is not defined.

    Examples
    --------
    >>> from sknet import Tensor
    >>> Tensor([1.0]).backward()
    Traceback (most recent call last):
        ...
    sknet.exceptions.GradientError: this tensor was not computed from anything that requires a gradient: ...
    """


class GraphError(RuntimeError):
    """A captured graph that breaks its own rules: a defect of sknet, found before anything is computed."""


class LoadError(ValueError):
    """A file that cannot be used: damaged, not one of sknet's, or of another kind; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import sknet
    >>> path = Path(tempfile.mkdtemp()) / "notes.safetensors"
    >>> _ = path.write_text("notes")
    >>> sknet.load(path)
    Traceback (most recent call last):
        ...
    sknet.exceptions.LoadError: ...notes.safetensors was not written by sknet, or its first bytes are damaged
    """


class StateError(ValueError):
    """A saved state that does not fit its module; the message names paths and shapes.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Linear(2, 1).load_state_dict({"weight": [[1.0], [2.0]]})
    Traceback (most recent call last):
        ...
    sknet.exceptions.StateError: this state does not fit Linear; nothing was loaded: ...
    """


class NonFiniteError(ValueError):
    """A loss or gradient that is NaN or infinite; nothing was updated.

    Parameters
    ----------
    message : str
        What happened, where, and what to try.
    parameter : str or None
        Path of the first parameter whose gradient is not finite.

    Examples
    --------
    >>> NonFiniteError("the loss is nan", parameter="0.weight").parameter
    '0.weight'
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class CallbackWarning(UserWarning):
    """A callback failed, and the fit ended with what it had learned until then."""


class ContinuationWarning(UserWarning):
    """Candidates of a search start again in each rung, because they cannot continue training."""


class DeviceWarning(UserWarning):
    """A fitted model asks for a device that is not here; it computes on the CPU instead."""


class FitInterruptedWarning(UserWarning):
    """A fit was interrupted from the keyboard; what it had learned was kept."""
