"""scikit-learn's own callbacks, where the installed version has them: a fit is a task, and so is an epoch."""

from collections.abc import Callable
from typing import Any, Literal

from sknet.callbacks import Callback, FitView
from sknet.callbacks.extend import Rows
from sknet.estimators._undo import AllOrNothing

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """In the place of scikit-learn's: without callbacks."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Say that there are none."""
            raise TypeError(
                "scikit-learn has callbacks from version 1.9 on, and this one is older: use "
                "callbacks=[...] with those of sknet.callbacks"
            )

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


__all__ = ["SupportsCallbacks", "fit_as_task"]


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
