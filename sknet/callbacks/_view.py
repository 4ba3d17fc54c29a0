"""A callback's view of a fit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FitState", "FitView", "Rows"]


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
    FitView(epoch=3 of 3, step=3) ['loss', 'lr', 'score', 'time'] 0.001
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
        """Updates of this fit so far."""
        return self._fit.step

    @property
    def max_epochs(self) -> int:
        """The most epochs of this fit."""
        return self._fit.max_epochs

    @property
    def losses(self) -> "np.ndarray[Any, Any]":
        """Training losses of the steps of the last block, of shape (n_steps,)."""
        return self._fit.losses

    @property
    def record(self) -> Any:
        """The numbers of the last finished epoch by name: loss, score, lr, time, validation_loss, ...

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
        """Name of the monitored number: of the validation, if there is one."""
        return self._fit.monitor

    @property
    def directions(self) -> Mapping[str, bool | None]:
        """Whether higher is better, by name, for numbers with a known direction."""
        return self._fit.directions

    def announce(self, name: str, *, higher_is_better: bool) -> None:
        """Announce in `on_fit_begin` the direction of a number that will be added to `record`.

        Parameters
        ----------
        name : str
            Name of the number.
        higher_is_better : bool
            Its direction, for `EarlyStopping` and other callbacks that monitor it.
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
        """Return all that the rest of the fit depends on: model, random state, history, callbacks, position.

        Returns
        -------
        dict
            Nested dicts of numbers, texts and immutable arrays, which `Checkpoint` writes.

        Raises
        ------
        ValueError
            For L-BFGS, whose state is inside SciPy.
        """
        return self._fit.state()

    @property
    def failed(self) -> bool:
        """Whether the fit ends with an error and its result is discarded; for `on_fit_end`."""
        return self._fit.failed

    def __reduce__(self) -> Any:
        raise TypeError("a view of a fit cannot be pickled or copied: keep the numbers that you need")

    def __repr__(self) -> str:
        fit = self._fit
        return f"FitView(epoch={fit.epoch} of {fit.max_epochs}, step={fit.step})"
