"""Fits as tasks of scikit-learn's callbacks, which leave the estimator unchanged if they fail."""

from collections.abc import Callable
from typing import Any, Literal

from numpy.random import RandomState
from sklearn.base import BaseEstimator

from sknet._random import RandomSnapshot
from sknet.callbacks import Callback, FitView
from sknet.callbacks._callback import Rows
from sknet.engine import History
from sknet.engine._model_copies import rollback_of

__all__ = ["SupportsCallbacks", "fit_as_task"]


class AllOrNothing:
    """A context manager that restores an estimator if its block raises."""

    def __init__(self, estimator: BaseEstimator, *, in_place: bool) -> None:
        self._estimator, self._attributes = estimator, estimator.__dict__.copy()
        model = self._attributes.get("model_") if in_place else None
        self._restore: list[Callable[[], None]] = []
        if model is not None:
            self._restore += [rollback_of(model), _history_rollback(self._attributes["history_"])]
        for source in (estimator.random_state, None if model is None else model.random_state):
            if isinstance(source, RandomState):
                self._restore.append(RandomSnapshot(source).restore)

    def __enter__(self) -> None:
        """Everything has been noted already."""

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is None:
            return
        self._estimator.__dict__.clear()
        self._estimator.__dict__.update(self._attributes)
        for each in self._restore:
            each()


def _history_rollback(history: History) -> Callable[[], None]:
    """Return a function that removes later epochs from a history."""
    before = {name: (len(column), column[-1:]) for name, column in history.items()}

    def restore() -> None:
        for name in list(history):
            if name not in before:
                del history[name]
                continue
            length, last = before[name]
            del history[name][length:]
            history[name][-1:] = last  # a callback may have amended it

    return restore


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for scikit-learn's class, without callbacks."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Say that there are none."""
            raise TypeError(
                "scikit-learn has callbacks from version 1.9 on, and this one is older: use "
                "callbacks=[...] with those of sknet.callbacks"
            )

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


class SupportsCallbacks(CallbackSupportMixin):
    """scikit-learn's support of its callbacks, which says where sknet's own belong."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks of scikit-learn, `sklearn.callback`; those of sknet are the parameter `callbacks`.

        A fit is a task of theirs and every epoch in it another; a `partial_fit` is a fit of one epoch, as in
        scikit-learn.

        Parameters
        ----------
        *callbacks : object
            Objects of scikit-learn's protocol; none removes those that were set.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        TypeError
            If one is a callback of sknet, or none at all.
        """
        for callback in callbacks:
            kind = callback if isinstance(callback, type) else type(callback)
            if issubclass(kind, Callback):
                shown = f"{kind.__name__}(...)" if isinstance(callback, type) else repr(callback)
                name, given = type(self).__name__, f"callbacks=[{shown}]"
                way = f"fit(X, y, {given})"
                if "callbacks" in self._get_param_names():
                    way = f"{name}({given}), or to one fit, {way}"
                raise TypeError(
                    f"set_callbacks of {name} is for callbacks of scikit-learn, and {kind.__name__} is one "
                    f"of sknet's: give it as {way}"
                )
        return super().set_callbacks(*callbacks)


def fit_as_task(
    estimator: Any, rows: Rows, fit: Callable[[list[Callback]], None], *, is_part: bool = False
) -> None:
    """Run a fit; if it fails, the estimator is as it was before."""
    if "_skl_callbacks" not in estimator.__dict__:  # nobody would be told, also inside of another estimator
        with AllOrNothing(estimator, in_place=is_part):
            fit([])
    else:
        _fit_as_task(estimator, rows, fit, is_part)


@with_callbacks  # type: ignore[untyped-decorator, unused-ignore]
def _fit_as_task(estimator: Any, rows: Rows, fit: Callable[[list[Callback]], None], is_part: bool) -> None:
    context = estimator._init_callback_context(max_subtasks=1 if is_part else estimator.max_iter)
    data = {"estimator": estimator, "X": rows.X, "y": rows.y, "metadata": _metadata(rows)}
    with AllOrNothing(estimator, in_place=is_part):
        context.call_on_fit_task_begin(**data)
        fit([_EpochTasks(context, estimator)])
        context.call_on_fit_task_end(**data, reconstruction_attributes={})


class _EpochTasks(Callback):
    """Makes every epoch a task of scikit-learn's."""

    order = 1

    def __init__(self, context: Any, estimator: Any) -> None:
        self.context = context
        self.estimator = estimator

    def on_epoch_begin(self, fit: FitView) -> None:
        self._task = self.context.subcontext(task_name="epoch")
        self._task.call_on_fit_task_begin(**self._data(fit))

    def on_epoch_end(self, fit: FitView) -> Literal["stop"] | None:
        return "stop" if self._task.call_on_fit_task_end(**self._data(fit)) else None

    def _data(self, fit: FitView) -> dict[str, Any]:
        """Return what a callback may ask for; functions are called if it does."""

        def learned() -> dict[str, Any]:
            before = self.estimator.__dict__
            return {name: x for name, x in vars(fit.estimator).items() if before.get(name, self) is not x}

        return {
            "estimator": self.estimator,
            "X": lambda: _training(fit).X,
            "y": lambda: _training(fit).y,
            "metadata": lambda: _metadata(_training(fit)),
            "reconstruction_attributes": learned,
        }


def _training(fit: FitView) -> Rows:
    rows = fit.training
    return Rows(None, None) if rows is None else rows


def _metadata(rows: Rows) -> dict[str, Any] | None:
    return None if rows.sample_weight is None else {"sample_weight": rows.sample_weight}
