"""The errors and warnings that sknet raises, beyond Python's and scikit-learn's own."""

__all__ = [
    "CallbackWarning", "CaptureError", "ContinuationWarning", "DeviceError", "DeviceMemoryError",
    "DeviceWarning", "DtypeError", "FitInterruptedWarning", "GradientError", "GraphError",
    "InvalidParameterError", "LoadError", "NonFiniteError", "ShapeError", "StateError",
]  # fmt: skip

__dir__ = __all__.copy


class CaptureError(TypeError):
    """A function that cannot be captured, since its computation depends on the values of its inputs.

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
    """Shapes that do not match; the message names the operation and the shapes.

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
    """A device that is not available, or arrays of several devices in one operation.

    Examples
    --------
    >>> from sknet import Tensor
    >>> Tensor([1.0], device="cuda:99")
    Traceback (most recent call last):
        ...
    sknet.exceptions.DeviceError: device 'cuda...
    """


class DeviceMemoryError(DeviceError, MemoryError):
    """A device without enough memory; the message says what needed how much, and what to reduce.

    Examples
    --------
    >>> issubclass(DeviceMemoryError, MemoryError)
    True
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.asked: list[str] = []


class GradientError(RuntimeError):
    """A gradient that is not defined.

    Examples
    --------
    >>> from sknet import Tensor
    >>> Tensor([1.0]).backward()
    Traceback (most recent call last):
        ...
    sknet.exceptions.GradientError: this tensor was not computed from anything that requires a gradient: ...
    """


class GraphError(RuntimeError):
    """An invalid captured graph: a defect of sknet, found before anything is computed.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> graph = capture(ops.exp, np.zeros(2))
    >>> graph.equations.clear()
    >>> graph.verify()
    Traceback (most recent call last):
        ...
    sknet.exceptions.GraphError: an output is never assigned, in
    graph(v0: float64[2]):
      return undefined
    """


class LoadError(ValueError):
    """A file that cannot be loaded: damaged, not written by sknet, or of another kind.

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


class InvalidParameterError(ValueError, TypeError):
    """A parameter of an invalid type or value; that of estimators is also scikit-learn's error.

    Examples
    --------
    >>> from sknet import nn
    >>> from sknet.exceptions import InvalidParameterError
    >>> try:
    ...     nn.Dropout(2.0)
    ... except InvalidParameterError as error:
    ...     print(str(error)[:36])
    The 'p' parameter of Dropout must be
    """


class StateError(ValueError):
    """A saved state that does not match its module; the message names paths and shapes.

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
        Description of the error, with its location and a remedy.
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
    """A callback failed, and the fit ended with its current result.

    Examples
    --------
    >>> import warnings
    >>> from sknet import MLPRegressor
    >>> from sknet.callbacks import Callback
    >>> class Notes(Callback):
    ...     keeps_result = True
    ...     def on_epoch_end(self, fit):
    ...         raise OSError("the disk is full")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = MLPRegressor((2,), callbacks=[Notes()]).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> caught[0].category.__name__
    'CallbackWarning'
    """


class ContinuationWarning(UserWarning):
    """Candidates of a search start again in each rung, because they cannot continue training.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sknet import MLPRegressor
    >>> from sknet.exceptions import ContinuationWarning
    >>> from sknet.model_selection import HalvingGridSearchCV
    >>> reg = MLPRegressor((2,), optimizer="lbfgs")
    >>> search = HalvingGridSearchCV(reg, {"alpha": [0.1, 1.0]}, resource="max_iter", max_resources=4, cv=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = search.fit(np.arange(8.0).reshape(-1, 1), np.arange(8.0))
    >>> ContinuationWarning in {warning.category for warning in caught}
    True
    """


class DeviceWarning(UserWarning):
    """The device of a fitted model is not available; the model computes on the CPU instead.

    Examples
    --------
    >>> import warnings
    >>> from sknet.exceptions import DeviceWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DeviceWarning)  # sknet.load raises instead of moving the model
    """


class FitInterruptedWarning(UserWarning):
    """A fit was interrupted from the keyboard; its current result was kept.

    Examples
    --------
    >>> import warnings
    >>> from sknet import MLPRegressor
    >>> from sknet.callbacks import Callback
    >>> class CtrlC(Callback):
    ...     def on_epoch_end(self, fit):
    ...         raise KeyboardInterrupt
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     reg = MLPRegressor((2,), callbacks=[CtrlC()]).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> caught[0].category.__name__, reg.n_iter_
    ('FitInterruptedWarning', 1)
    """
