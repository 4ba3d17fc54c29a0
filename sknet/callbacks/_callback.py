"""The base class of callbacks, and their view of a fit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from sknet._constraints import shown
from sknet._hints import suggestion, value_hint
from sknet._params import ParameterObject
from sknet.exceptions import InvalidParameterError

if TYPE_CHECKING:
    import numpy as np


class Rows(NamedTuple):
    """Rows of a data set as the user gave them, so targets are labels, not encoded."""

    X: Any
    y: Any
    sample_weight: Any = None


class FitState(Protocol):
    """A loop's record of a fit, which callbacks see through a `FitView`."""

    epoch: int
    step: int
    max_epochs: int
    losses: "np.ndarray[Any, Any]"
    record: Any
    history: Any
    model: Any
    batches: Any
    monitor: str
    directions: dict[str, bool | None]
    exception: BaseException | None
    failed: bool
    stopped_by: Any

    def estimator(self) -> Any:
        """Return the estimator as if the fit had ended here; None if there is none."""

    def state(self) -> dict[str, Any]:
        """Return everything that the rest of the fit depends on."""

    def rows(self, which: str) -> Rows | None:
        """Return the rows, as given, of `which`: "training" or "validation"; None if there are none."""


class FitView:
    """A read-only view of a fit, which every hook of a callback receives.

    It costs nothing until it is read: each attribute is looked up in the loop.

    Parameters
    ----------
    fit : object
        The loop's own record of the fit.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import Callback
    >>> class Looking(Callback):
    ...     def on_epoch_end(self, fit):
    ...         if fit.epoch == fit.max_epochs:
    ...             print(fit, sorted(fit.record), f"{fit.lr}")
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier(max_iter=3, n_iter_no_change=3, random_state=0, callbacks=[Looking()])
    >>> with warnings.catch_warnings(action="ignore"):
    ...     _ = clf.fit(X, y)
    FitView(epoch=3 of 3, step=3) ['loss', 'lr', 'score', 'time'] 0.02
    """

    __slots__ = ("_fit",)
    _fit: FitState

    def __init__(self, fit: FitState) -> None:
        object.__setattr__(self, "_fit", fit)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"a callback cannot set {name!r} of a fit, which is read-only: return 'stop' to end the "
            "fit, and add scores by fit.record[name] = score"
        )

    @property
    def epoch(self) -> int:
        """Number of the current epoch, from 1; 0 before the first. For L-BFGS, the iteration."""
        return self._fit.epoch

    @property
    def step(self) -> int:
        """Number of updates of this fit so far."""
        return self._fit.step

    @property
    def max_epochs(self) -> int:
        """Maximum number of epochs of this fit."""
        return self._fit.max_epochs

    @property
    def losses(self) -> "np.ndarray[Any, Any]":
        """Training losses of the steps of the last block, of shape (n_steps,)."""
        return self._fit.losses

    @property
    def record(self) -> Any:
        """The metrics of the last finished epoch by name: loss, score, lr, time, validation_loss, ...

        In `on_epoch_end`, ``fit.record["name"] = number`` adds a number, which is then in the history too.
        """
        return self._fit.record

    @property
    def history(self) -> Any:
        """The `History` so far, with the epochs of the fits that this one continues; do not change it."""
        return self._fit.history

    @property
    def lr(self) -> float:
        """Learning rate of the next step."""
        model = self._fit.model
        if not model.optimizer.goes_in_steps:
            return float("nan")
        return float(model.optimizer.in_steps().learning_rate(model.progress))

    @property
    def model(self) -> Any:
        """The `Model` that is being trained. Its arrays change in place: copy those that you keep."""
        return self._fit.model

    @property
    def batches(self) -> Any:
        """The training rows as the loop sees them: encoded, and in batches."""
        return self._fit.batches

    @property
    def estimator(self) -> Any:
        """The estimator as if the fit had ended now, able to predict; None in a loop without one.

        A new one is made on every access; it shares the model that is being trained.
        """
        return self._fit.estimator()

    @property
    def training(self) -> Rows | None:
        """X, y and sample_weight of the training rows, as they were given; None in a loop without them."""
        return self._fit.rows("training")

    @property
    def validation(self) -> Rows | None:
        """X, y and sample_weight of the validation rows, as they were given; None if there are none."""
        return self._fit.rows("validation")

    @property
    def monitor(self) -> str:
        """Name of the monitored metric: that of the validation rows, if there are any."""
        return self._fit.monitor

    @property
    def directions(self) -> Mapping[str, bool | None]:
        """Direction of each number that has a known one, by name: True if higher is better."""
        return self._fit.directions

    def announce(self, name: str, *, higher_is_better: bool) -> None:
        """Announce in `on_fit_begin` that a number `name` will be added to `record`, and its direction.

        `EarlyStopping` and other callbacks that monitor it need to know whether `higher_is_better`.
        """
        self._fit.directions[name] = higher_is_better

    @property
    def exception(self) -> BaseException | None:
        """The error or interrupt that ended the fit early, or None; for `on_fit_end`."""
        return self._fit.exception

    @property
    def stopped_by(self) -> Any:
        """The callback that has ended the fit; None while it continues."""
        return self._fit.stopped_by

    def state(self) -> dict[str, Any]:
        """Return the state that the rest of the fit depends on: model, random state, history, callbacks.

        These are nested dicts of numbers, texts and immutable arrays, which `Checkpoint` writes.

        Raises
        ------
        ValueError
            For L-BFGS, whose state is inside SciPy.
        """
        return self._fit.state()

    @property
    def failed(self) -> bool:
        """True if the fit ends with an error and its result is discarded; for `on_fit_end`."""
        return self._fit.failed

    def __reduce__(self) -> Any:
        raise TypeError("a view of a fit cannot be pickled or copied: keep the numbers that you need")

    def __repr__(self) -> str:
        fit = self._fit
        return f"FitView(epoch={fit.epoch} of {fit.max_epochs}, step={fit.step})"


HOOKS = ("on_fit_begin", "on_epoch_begin", "on_block_end", "on_epoch_end", "on_fit_end")

_BATCHES = "use on_block_end, with steps_per_block = 1 for every batch"

# Names of hooks in other libraries.
OTHERS = {
    **dict.fromkeys(("on_batch_end", "on_train_batch_end", "on_step_end", "on_iteration_end"), _BATCHES),
    **dict.fromkeys(("on_train_begin", "on_train_start", "on_fit_start"), "use on_fit_begin"),
    "on_train_end": "use on_fit_end",
    **dict.fromkeys(("on_epoch_start", "on_train_epoch_start"), "use on_epoch_begin"),
    **dict.fromkeys(
        ("on_train_epoch_end", "on_validation_end", "on_validation_epoch_end", "on_test_end"),
        "use on_epoch_end",
    ),
}

MANY = 1 << 20  # epochs ahead, where a callback needs no epoch before the next one

Answer: TypeAlias = Literal["stop"] | None


class Callback(ParameterObject):
    """Base class of callbacks: objects whose hooks a fit calls.

    A custom callback defines the hooks it needs. `__init__` only stores parameters, as in an estimator: a fit
    works with clones, so that one object can serve many fits, even concurrently. The estimator's `callbacks_`
    are the clones of its last fit, with their results; names of result attributes end with an underscore.

    A hook returns None, or ``"stop"`` to end the fit normally, keeping its result. A hook that raises ends
    the fit with that error, and leaves the estimator unchanged.

    Attributes
    ----------
    steps_per_block : int or None
        Maximum number of steps between two calls of `on_block_end`. None leaves it to the loop, which groups
        as many steps as take a twentieth of a second. 1 calls it after every batch, which slows down compiled
        fits with small batches.
    keeps_result : bool
        Whether the fit ends normally, with a warning, if this callback raises after `on_fit_begin`.
    reads_model : bool
        Whether `on_epoch_end` looks at the model although `epochs_ahead` allows more than one epoch: its
        parameters are then those of the epoch it is called for, where steps can keep them, as on a GPU.
        Elsewhere one epoch is trained at a time.
    pauses : bool
        Whether its ``"stop"`` is only a break: a fit that is resumed from a `Checkpoint` continues after it.
    order : int
        Callbacks with a lower order are called first, those with the same order as given; `on_fit_end` is
        called in reverse. Callbacks that add scores have -1, those that save the state of a fit have 1.
    of_one_fit : str or None
        Error message of ensembles (`n_members`), which refuse callbacks whose clones would write to one
        place: what the callback does, and what to use instead. None for callbacks that can serve several fits
        at the same time.
    needs : {"batches", "state"} or None
        The part of `FitView` that the callback reads and that a fit over workers does not have in this
        process; such a fit refuses the callback.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import Callback
    >>> class UntilLossIsBelow(Callback):
    ...     def __init__(self, limit):
    ...         self.limit = limit
    ...
    ...     def on_epoch_end(self, fit):
    ...         return "stop" if fit.record["loss"] < self.limit else None
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier(optimizer="sgd", random_state=0, callbacks=[UntilLossIsBelow(0.6)]).fit(X, y)
    >>> clf.loss_curve_[-1] < 0.6 <= min(clf.loss_curve_[:-1])
    True
    """

    steps_per_block: int | None = None
    keeps_result: bool = False
    reads_model: bool = False
    pauses: ClassVar[bool] = False
    order: ClassVar[int] = 0
    of_one_fit: ClassVar[str | None] = None
    needs: ClassVar[Literal["batches", "state"] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, method in vars(cls).items():
            if name.startswith("on_") and name not in HOOKS and callable(method):
                hint = suggestion(name, HOOKS, OTHERS)
                raise TypeError(
                    f"{cls.__name__} has a method {name!r}, which no fit calls{hint} The hooks are "
                    f"{', '.join(HOOKS)}."
                )

    may_warn: ClassVar[bool] = True
    """True if it may trigger NumPy warnings; if not, calling it is cheaper."""

    def epochs_ahead(self) -> int:
        """Return the number of epochs to train before `on_epoch_end` is called for the first; by default 1.

        More than one makes fits with short epochs faster. `on_epoch_end` is then called for each epoch in
        turn, when the last of them has been trained: all but the last call must return None, and must neither
        change the fit nor, unless `reads_model` is True, look at its model. A subclass that overrides
        `on_epoch_end` must override this method, too; a callback with `on_epoch_begin` or `on_block_end` is
        always called in time.
        """
        return 1

    def on_fit_begin(self, fit: FitView) -> Answer:
        """Called once, before the first epoch, with the `fit`, read-only; "stop" ends it."""
        return None

    def on_epoch_begin(self, fit: FitView) -> Answer:
        """Called before each epoch with the `fit`, read-only; "stop" ends it."""
        return None

    def on_block_end(self, fit: FitView) -> Answer:
        """Called after each block of steps with the `fit`, read-only; its ``losses`` are the block's.

        "stop" ends the fit, and the epoch: its numbers are those of the rows so far.
        """
        return None

    def on_epoch_end(self, fit: FitView) -> Answer:
        """Called after each epoch with the `fit`, read-only, except that scores can be added to `record`.

        "stop" ends the fit.
        """
        return None

    def on_fit_end(self, fit: FitView) -> None:
        """Called last with the `fit`, also after an error, if `on_fit_begin` was called.

        Its ``exception`` is the error or interrupt that ended the fit early, if any.
        """

    def state(self) -> dict[str, Any]:
        """Return the state to keep when a fit is continued or resumed.

        It may hold numbers, strings, arrays, and lists and dicts of these; here, it is empty.
        """
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state` of a callback of the same class; called before `on_fit_begin`."""


def check_callbacks(callbacks: Any, caller: str) -> list[Callback]:
    if callbacks is None:
        return []
    if isinstance(callbacks, Callback):
        raise InvalidParameterError(
            f"The 'callbacks' parameter of {caller} must be a list. Got {shown(callbacks)} instead: pass "
            f"[{shown(callbacks)}]."
        )
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise InvalidParameterError(
            f"The 'callbacks' parameter of {caller} must be a list of callbacks or None. Got "
            f"{shown(callbacks)} instead.{value_hint('callbacks', callbacks)}"
        )
    for number, callback in enumerate(callbacks):
        _check_one(callback, f"callbacks[{number}]", caller)
    return list(callbacks)


def _check_one(callback: Any, name: str, caller: str) -> None:
    if isinstance(callback, Callback):
        callback.validate()
        return
    if isinstance(callback, type) and issubclass(callback, Callback):
        why = f"is a class. Pass an object: {callback.__name__}(...)."
    elif any(hasattr(callback, hook) for hook in HOOKS):
        why = f"is {shown(callback)}, which has hooks but is not a Callback: derive its class from Callback."
    elif hasattr(callback, "on_fit_task_begin"):
        why = f"is {shown(callback)}, a callback of scikit-learn: pass it to set_callbacks."
    elif isinstance(callback, tuple) and callback and isinstance(callback[-1], Callback):
        why = f"is {shown(callback)}, and callbacks have no names: pass {callback[-1]!r}."
    else:
        why = (
            f"is {shown(callback)}, which is not a callback: see sknet.callbacks for built-in ones. A custom "
            "callback is an instance of a class that derives from Callback."
        )
    raise InvalidParameterError(f"{name} of {caller} {why}")


def fresh_callbacks(callbacks: Sequence[Callback], before: Sequence[Callback] = ()) -> list[Callback]:
    if not callbacks:
        return []
    from sklearn.base import clone  # of a fit, which has loaded it

    clones = [clone(callback) for callback in callbacks]
    for new, old in zip(clones, before, strict=False):
        if type(new) is type(old):
            new.load_state(old.state())
    return clones
