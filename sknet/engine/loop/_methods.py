"""Methods of `Model` for many steps: fits, streams of batches, and epochs of custom loops."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sknet.callbacks import Callback
from sknet.callbacks.extend import Rows
from sknet.device import is_array
from sknet.engine.loop._history import History
from sknet.engine.state import Epoch

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["epoch", "epoch_ended", "fit", "train"]

Method = TypeVar("Method", bound=Callable[..., Any])


def fit(
    self: "Model",
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    epochs: int = 10,
    batch_size: "int | str" = "auto",
    shuffle: bool = True,
    X_val: Any = None,
    y_val: Any = None,
    sample_weight_val: Any = None,
    scores: Any = None,
    callbacks: "Sequence[Callback] | None" = None,
    verbose: bool | str = False,
    check_finite: bool = True,
    resume_from: "str | PathLike[str] | None" = None,
) -> "History":
    """Train on rows, in place, with the estimators' training loop; another call continues.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, ...), or dict of those
        Inputs. They are gathered and converted batch by batch, never copied as a whole.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets: class numbers, 0/1 labels or real numbers, as the loss expects them.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of rows.
    epochs : int, default=10
        Number of passes over the rows. With `LBFGS`, the most iterations.
    batch_size : int or "auto", default="auto"
        Rows in a batch; "auto" is 200, or all if there are fewer.
    shuffle : bool, default=True
        Whether to draw a new order of the rows in each epoch.
    X_val, y_val, sample_weight_val : array-like, default=None
        Held-out rows: their loss and scores are in the history, and `EarlyStopping` monitors their loss.
    scores : str, callable, list or dict, default=None
        Scores to measure besides the loss: "accuracy", "r2", or functions of ``(y_true, y_pred)``, with
        predictions as `predict` returns them; several in a list, or in a dict by name.
    callbacks : list of Callback, default=None
        Called during this fit. The fit works with copies, and hands their results back at its end.
    verbose : bool or "bar", default=False
        Print a line for every epoch, or show a progress bar.
    check_finite : bool, default=True
        Raise for a loss or gradient that is not finite, instead of continuing.
    resume_from : str or PathLike, default=None
        File of a `Checkpoint` of the same fit, to resume from.

    Returns
    -------
    History
        The numbers of each epoch.

    Raises
    ------
    ShapeError, DtypeError, ValueError
        If the arrays do not fit together or are outside the loss's domain; nothing is then changed.
    NonFiniteError
        If a loss or gradient is not finite; names epoch, batch and parameter. Earlier steps are kept.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import Model, nn
    >>> X, y = load_iris(return_X_y=True)
    >>> model = Model(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)), loss="log_loss")
    >>> history = model.fit(X, y, epochs=3, scores="accuracy")
    >>> list(history)
    ['loss', 'accuracy', 'lr', 'time']
    """
    held_out = Rows(X_val, y_val, sample_weight_val)
    from sknet.engine.loop._model_fit import Options, fit_rows  # estimators do without it

    options = Options("Model.fit", held_out, scores, callbacks, verbose, check_finite)
    return fit_rows(self, Rows(X, y, sample_weight), epochs, batch_size, shuffle, options, resume_from)


def _explained(method: Method) -> Method:
    """Return a method that, when given arrays instead of batches, says which method expects arrays."""

    @wraps(method)
    def told(self: "Model", *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or "y" in kwargs or "X" in kwargs or is_array(next(iter(args), None)):
            raise TypeError(
                "Model.train expects batches, an iterable of (X, y) or (X, y, sample_weight), got arrays: "
                "Model.fit(X, y) trains on arrays; to train on one batch, pass a list, Model.train([(X, y)])"
            )
        return method(self, *args, **kwargs)

    return cast(Method, told)


@_explained
def train(
    self: "Model",
    batches: "Iterable[Any] | Callable[[], Iterable[Any]]",
    *,
    epochs: int | None = None,
    n_steps: int | None = None,
    steps_per_epoch: int | None = None,
    X_val: Any = None,
    y_val: Any = None,
    sample_weight_val: Any = None,
    scores: Any = None,
    callbacks: "Sequence[Callback] | None" = None,
    verbose: bool | str = False,
    check_finite: bool = True,
    resume_from: "str | PathLike[str] | None" = None,
) -> "History":
    """Train on a stream of batches, in place; another call continues.

    Parameters
    ----------
    batches : iterable or callable
        Yields ``(X, y)`` or ``(X, y, sample_weight)``: a list, a loader, a generator, or a generator
        function, which is called for every pass. A batch is requested after the step on the previous one.
    epochs : int, default=None
        Number of epochs; None is one, or as many as `n_steps` needs. A generator can be iterated only once.
    n_steps : int, default=None
        Number of steps after which to end, for streams without an end.
    steps_per_epoch : int, default=None
        Batches per epoch, independent of passes. None makes every pass an epoch.
    X_val, y_val, sample_weight_val : array-like, default=None
        As for `fit`, like the remaining parameters.
    scores, callbacks, verbose, check_finite : see `fit`
    resume_from : str or PathLike, default=None
        Batches that were trained on before are skipped: the stream must yield the same ones again.

    Returns
    -------
    History
        The numbers of each epoch.

    Raises
    ------
    TypeError, ShapeError, DtypeError, ValueError
        If a batch is invalid; says which. For arrays instead of batches, use `fit`.
    NonFiniteError
        If a loss or gradient is not finite. Earlier steps are kept.

    Notes
    -----
    Steps are compiled once for each of the most recent shapes of batches. The total number of steps, which
    some schedules need, is taken from `n_steps`, or from `epochs` and the length of `batches`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> def batches():
    ...     rng = np.random.default_rng(0)
    ...     while True:
    ...         X = rng.normal(size=(32, 2))
    ...         yield X, X.sum(axis=1, keepdims=True)
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> history = model.train(batches, n_steps=100, steps_per_epoch=50)
    >>> history["loss"][1] < history["loss"][0]
    True
    """
    held_out = Rows(X_val, y_val, sample_weight_val)
    from sknet.engine.loop._model_fit import Options  # estimators do without it
    from sknet.engine.loop._stream import fit_batches

    options = Options("Model.train", held_out, scores, callbacks, verbose, check_finite)
    return fit_batches(self, batches, epochs, n_steps, steps_per_epoch, options, resume_from)


def epoch_ended(self: "Model", *, plateau: bool = False) -> None:
    """Count an epoch, for schedules that depend on epochs.

    An epoch without steps is not counted: a call before the first step only says that
    epochs are counted from now on.

    Parameters
    ----------
    plateau : bool, default=False
        Whether the fit has reached a plateau, so that a schedule such as `Adaptive` lowers the rate.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.optim import SGD
    >>> from sknet.optim.schedules import Exponential
    >>> model = Model(nn.Linear(2, 1), optimizer=SGD(Exponential(0.1, factor=0.5)), random_state=0)
    >>> model.epoch_ended()
    >>> for epoch in range(3):
    ...     _ = model.step(np.eye(2), np.ones((2, 1)))
    ...     model.epoch_ended()
    >>> model.progress.epoch, model.optimizer.learning_rate(model.progress)
    (3, 0.0125)
    """
    self.progress = self._epoch.ended(self.progress, plateau)
    self._epoch = Epoch(self.progress.step)


@contextmanager
def epoch(self: "Model", n_steps: int | None = None) -> Iterator["Model"]:
    """Count the steps inside this context as one epoch, for schedules that depend on epochs.

    Parameters
    ----------
    n_steps : int, default=None
        The number of steps of the epoch, which is checked; None for any.

    Yields
    ------
    Model
        This model.

    Raises
    ------
    StateError
        If another number of steps was made.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> with model.epoch(n_steps=2):
    ...     for _ in range(2):
    ...         _ = model.step(np.eye(2), np.ones((2, 1)))
    >>> model.progress.epoch, model.progress.samples
    (1, 4)
    """
    self._epoch = Epoch(self.progress.step)
    self.progress = self.progress._replace(counts_epochs=True)
    yield self
    self._epoch.check_length(self.progress, n_steps)
    self.epoch_ended()
