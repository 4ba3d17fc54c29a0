"""Methods of `Model` for many steps: fits, streams of batches, and the epochs of a user's own loop."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sknet.callbacks import Callback
from sknet.callbacks.extend import Rows
from sknet.device import is_array
from sknet.engine.loop._history import History
from sknet.engine.loop._model_fit import Options, fit_rows
from sknet.engine.loop._stream import fit_batches
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
    """Train on rows, in place, by the loop of the estimators; another call goes on.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, ...), or dict of those
        Inputs. They are gathered and converted batch by batch, and never copied as a whole.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets: class numbers, 0/1 labels or real numbers, as the loss reads them.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of rows.
    epochs : int, default=10
        How often to go through the rows. With `LBFGS`, iterations at most.
    batch_size : int or "auto", default="auto"
        Rows in a batch; "auto" is 200, or all if there are fewer.
    shuffle : bool, default=True
        Whether to draw the order of the rows anew in each epoch.
    X_val, y_val, sample_weight_val : array-like, default=None
        Held-out rows: their loss and scores are in the history, and `EarlyStopping` goes by their loss.
    scores : str, callable, list or dict, default=None
        What to measure besides the loss: "accuracy", "r2", or functions of ``(y_true, y_pred)``, with
        predictions as `predict` returns them; several in a list, or in a dict by their names.
    callbacks : list of Callback, default=None
        Called during this fit. They work on copies; what these learn is in the given objects afterwards.
    verbose : bool or "bar", default=False
        Print a line for every epoch, or show a progress bar.
    check_finite : bool, default=True
        Raise for a loss or gradient that is not finite, instead of going on with it.
    resume_from : str or PathLike, default=None
        File of a `Checkpoint` of the same fit, to go on from.

    Returns
    -------
    History
        The numbers of each epoch.

    Raises
    ------
    ShapeError, DtypeError, ValueError
        If the arrays do not belong together or are not what the loss is defined for; nothing is changed.
    NonFiniteError
        If a loss or gradient is not finite: names epoch, batch and parameter. Former steps are kept.

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
    options = Options("Model.fit", held_out, scores, callbacks, verbose, check_finite, self._is_seeded)
    return fit_rows(self, Rows(X, y, sample_weight), epochs, batch_size, shuffle, options, resume_from)


def _explained(method: Method) -> Method:
    """Return a method that says where arrays belong if it is given some in place of batches."""

    @wraps(method)
    def told(self: "Model", *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or "y" in kwargs or "X" in kwargs or is_array(next(iter(args), None)):
            raise TypeError(
                "Model.train expects batches, an iterable of (X, y) or (X, y, sample_weight), got arrays: "
                "Model.fit(X, y) trains on arrays, or make the one batch a list, Model.train([(X, y)])"
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
    """Train on batches as they come, in place; another call goes on.

    Parameters
    ----------
    batches : iterable or callable
        Yields ``(X, y)`` or ``(X, y, sample_weight)``: a list, a loader, a generator, or a generator
        function, which is called for every pass. A batch is asked for after the step on the one before.
    epochs : int, default=None
        How many; None is one, or as many as `n_steps` need. A generator can be gone over once.
    n_steps : int, default=None
        After how many steps to end, for what has no end.
    steps_per_epoch : int, default=None
        Batches of an epoch, which then begins no new pass. None makes every pass an epoch.
    X_val, y_val, sample_weight_val : array-like, default=None
        As for `fit`; so are the rest.
    scores, callbacks, verbose, check_finite : see `fit`
    resume_from : str or PathLike, default=None
        Batches that were trained on before are passed by: the same ones must come again.

    Returns
    -------
    History
        The numbers of each epoch.

    Raises
    ------
    TypeError, ShapeError, DtypeError, ValueError
        If a batch is not what it should be: says which. Arrays in place of batches are what `fit` takes.
    NonFiniteError
        If a loss or gradient is not finite. Former steps are kept.

    Notes
    -----
    Steps are compiled once for each of the last few shapes of batches. How many steps there will be,
    which some schedules must know, is known from `n_steps`, or from `epochs` and the length of `batches`.

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
    options = Options("Model.train", held_out, scores, callbacks, verbose, check_finite, self._is_seeded)
    return fit_batches(self, batches, epochs, n_steps, steps_per_epoch, options, resume_from)


def epoch_ended(self: "Model", *, plateau: bool = False) -> None:
    """Count an epoch, for schedules that depend on epochs.

    An epoch in which no step was made is not counted: a call before the first step only says that
    epochs are counted from now on.

    Parameters
    ----------
    plateau : bool, default=False
        Whether the fit has met a plateau, so that a schedule such as `Adaptive` lowers the rate.

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
    """Count the steps that are made inside as one epoch, for schedules that depend on epochs.

    Parameters
    ----------
    n_steps : int, default=None
        How many steps the epoch has; another number is an error. None takes any.

    Yields
    ------
    Model
        Itself.

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
