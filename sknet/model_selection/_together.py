"""Runs fits of networks in threads of one group, with joblib, for searches and cross-validation."""

import enum
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar

from joblib import effective_n_jobs, parallel_config
from joblib.parallel import ThreadingBackend, get_active_backend
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from sknet.device import device_of, is_array
from sknet.engine.extend import (
    are_sent,
    grouped,
    in_common,
    in_group_of,
    new_group,
    on_the_cluster,
    run_together,
)
from sknet.estimators.extend import BaseNet
from sknet.model_selection._stacked import is_stacked

__all__ = ["Fits", "Way", "fits_networks", "together", "way_of"]

Result = TypeVar("Result")
ON_THE_HOST = ("auto", "cpu")
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Way(enum.Enum):
    """How the evaluations of a candidate run."""

    STACKED = "all at once, their fits as one program on a device"
    TOGETHER = "in threads of one group"
    ALONE = "as joblib runs any"


def way_of(estimator: Any, X: Any, candidate: Mapping[str, Any]) -> Way:
    """Return how the evaluations of a candidate run."""
    on_device = is_array(X) and device_of(X).kind != "cpu"  # each would have its own copy of its rows there
    if not on_device and is_stacked(estimator, X, candidate):
        return Way.STACKED
    return Way.TOGETHER if fits_networks(estimator, candidate) else Way.ALONE


def fits_networks(estimator: Any, candidate: Mapping[str, Any] = NOTHING) -> bool:
    """Tell whether an estimator is or has a network of sknet that computes on the host."""
    parameters = estimator.get_params()
    if any(hasattr(x, "fit") for name, value in candidate.items() for x in (value, parameters.get(name))):
        parameters = clone(estimator).set_params(**clone(candidate, safe=False)).get_params()
    parameters = {"": estimator, **parameters, **candidate}
    places = [value for name, value in parameters.items() if name.split("__")[-1] == "device"]
    has_network = any(isinstance(value, BaseNet) for value in parameters.values())
    return has_network and all(place in ON_THE_HOST for place in places)


class GroupThreads(ThreadingBackend):
    """joblib's threads, whose fits belong to a group, and end with it."""

    def __init__(self, group: Any, nesting_level: int | None) -> None:
        super().__init__(nesting_level=nesting_level)
        self._group, self._context = group, copy_context()
        self._idle = threading.Condition()
        self._n_running = 0
        self._error: BaseException | None = None

    def submit(self, func: Callable[[], Any], callback: Any = None) -> Any:
        """Run a function in a thread."""
        return super().submit(self._in_group(func), callback)

    def apply_async(self, func: Callable[[], Any], callback: Any = None) -> Any:
        """Run a function in a thread: what `submit` is called in earlier versions of joblib."""
        return super().apply_async(self._in_group(func), callback)

    def _in_group(self, func: Callable[[], Any]) -> Callable[[], Any]:
        # Threads of joblib ask for more work, too, in contexts of their own.
        return partial(self._context.copy().run, self._run, func)

    def _run(self, func: Callable[[], Any]) -> Any:
        with self._idle:
            self._n_running += 1
        try:
            return self._result(func)
        finally:
            with self._idle:
                self._n_running -= 1
                self._idle.notify_all()

    def _result(self, func: Callable[[], Any]) -> Any:
        """Call a function; an error ends all others, which raise the same one."""
        if self._error is not None:
            raise self._error
        try:
            return func()
        except BaseException as error:
            self._error = self._error or error
            self._group.cancel()
            raise self._error from None

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End all fits."""
        self._group.cancel()
        super().abort_everything(ensure_ready)

    def wait(self) -> None:
        """Wait until no fit is running, as after an error."""
        with self._idle:
            self._idle.wait_for(lambda: not self._n_running)


@contextmanager
def together(n_jobs: int | None) -> Iterator[None]:
    """Return a context in which joblib runs fits in threads of one group."""
    chosen, _ = get_active_backend(prefer="threads")
    n_threads = int(effective_n_jobs(n_jobs))
    if not isinstance(chosen, ThreadingBackend):
        with grouped(1) if n_threads == 1 else nullcontext():
            yield
        return
    with grouped(n_threads) as group:
        backend = GroupThreads(group, chosen.nesting_level)
        with parallel_config(backend=backend):
            try:
                yield
            finally:
                backend.wait()


class Fits:
    """Runs tasks: those of networks together, all others with joblib's own backend."""

    def __init__(self, n_jobs: int | None, pre_dispatch: Any) -> None:
        self._options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
        self._n_jobs, self._name, self._open = n_jobs, new_group(), ExitStack()
        self._others: Any = None

    def __enter__(self) -> Self:
        self._open.enter_context(grouped(1))  # what later tasks share with earlier ones
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, value, trace)

    def run(self, tasks: "Sequence[partial[Result]]", way: Way) -> list[Result]:
        """Run tasks; return their results in the same order."""
        if not tasks:
            return []
        if way is Way.STACKED:
            return run_together(tasks, int(effective_n_jobs(self._n_jobs)), [True] * len(tasks))
        if way is Way.TOGETHER:
            with together(self._n_jobs), on_the_cluster(in_common(tasks)), Parallel(**self._options) as run:
                return list(run(map(self._of_the_group if are_sent() else _delayed, tasks)))
        if self._others is None:  # starting processes takes time
            self._others = self._open.enter_context(Parallel(**self._options))
        return list(self._others(map(_delayed, tasks)))

    def _of_the_group(self, task: "partial[Any]") -> Any:
        return delayed(in_group_of)(self._name, task.func, *task.args)


def _delayed(task: "partial[Any]") -> Any:
    return delayed(task.func)(*task.args)
