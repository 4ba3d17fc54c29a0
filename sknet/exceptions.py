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
    """A function that cannot be captured: what it does would be frozen at the values of the first call."""


class ShapeError(ValueError):
    """Shapes that do not fit together; the message names the operation and the shapes."""


class DtypeError(TypeError):
    """A dtype that an operation or a device cannot compute with."""


class DeviceError(RuntimeError):
    """A device that does not exist here, or arrays of several devices in one operation."""


class GradientError(RuntimeError):
    """A gradient that was asked for and is not defined."""


class GraphError(RuntimeError):
    """A captured graph that breaks its own rules: a defect of sknet, found before anything is computed."""


class LoadError(ValueError):
    """A file that cannot be used: damaged, not one of sknet's, or of another kind; the message names it."""


class StateError(ValueError):
    """A saved state that does not fit its module; the message names paths and shapes."""


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
