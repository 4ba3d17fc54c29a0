"""Fits of networks for searches: in threads of one group, or as one program on a device."""

import enum
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from joblib import parallel_config
from joblib.parallel import ParallelBackendBase, get_active_backend
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from sknet._parallel import jobs_of
from sknet.device import device_of, is_array
from sknet.engine._many import are_sent, in_common, in_group_of, new_group, on_the_cluster, run_together
from sknet.engine._scheduler import grouped
from sknet.estimators._base import BaseNet
from sknet.estimators._checks import split_missing
from sknet.estimators._members import may_stack


def is_stacked(estimator: Any, X: Any, candidate: Mapping[str, Any] | None = None) -> bool:
    """Tell whether fits of an estimator may be one program with others: one network on a device."""
    if not hasattr(estimator, "get_params") or not _names_a_device(estimator, X, candidate or {}):
        return False
    if candidate:
        estimator = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    network = last_step(estimator)
    return isinstance(network, BaseNet) and not are_sent() and may_stack(network, X)


def _names_a_device(estimator: Any, X: Any, candidate: Mapping[str, Any]) -> bool:
    """Tell, without a copy of the estimator, whether something may be computed on a device."""
    parameters = {**estimator.get_params(), **candidate}
    nested = [getattr(value, "device", None) for value in candidate.values()]
    places = [*nested, *(value for name, value in parameters.items() if name.split("__")[-1] == "device")]
    on_device = is_array(X) and device_of(X).kind != "cpu"
    on_the_host = (None, "cpu") if on_device else (None, "cpu", "auto")
    return any(place not in on_the_host for place in places)


def last_step(estimator: Any) -> Any:
    """Return the last step of a Pipeline; an estimator that is none is its own."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def labels_to_split(estimator: Any, y: Any) -> Any:
    """Return labels with others for missing ones, which say nothing of how rows are to be split."""
    last = last_step(estimator)
    return split_missing(last, y)[0] if getattr(last, "_targets_may_be_missing", False) else y


class FoldRows(np.ndarray):
    """Inputs whose rows of a fold are taken once, for all candidates."""

    taken: list[tuple[Any, Any]] | None = None  # of arrays that are computed from it, none are kept

    def __getitem__(self, key: Any) -> Any:
        rows, *rest = key if isinstance(key, tuple) else (key,)
        whole = np.asarray(self)
        if (
            self.taken is None
            or not isinstance(rows, np.ndarray)
            or rows.ndim != 1
            or rest not in ([], [...])
        ):
            return whole[key]
        for is_of in (operator.is_, np.array_equal):  # scikit-learn may copy them
            for of, taken in self.taken:
                if is_of(of, rows):
                    return taken
        taken = whole[rows]
        taken.flags.writeable = False  # what is written there would reach other candidates
        self.taken.append((rows, taken))
        return taken

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """Return rows, as under scikit-learn's `array_api_dispatch`."""
        if axis == 0 and out is None and mode == "raise":
            return self[indices]
        return np.asarray(self).take(indices, axis, out, mode)


def rows_of_folds(estimator: Any, X: Any) -> Any:
    """Return inputs with rows that candidates share, where only networks read them; otherwise X itself."""
    is_plain = type(X) is np.ndarray and X.dtype.kind in "biuf"
    if not is_plain or not isinstance(estimator, BaseNet):
        return X
    found = X.view(FoldRows)
    found.taken = []
    return found


class PendingTask:
    """A task of joblib, whose result is there when all have been run."""

    found: Any

    def __init__(self, run: Callable[[], None], func: Callable[[], Any], callback: Any) -> None:
        self._run, self.func, self.callback = run, func, callback

    def get(self) -> Any:
        if not hasattr(self, "found"):
            self._run()
        return self.found


class GatheringBackend(ParallelBackendBase):
    """joblib's tasks as fits that run together, when all of them are there."""

    uses_threads = True
    supports_sharedmem = True

    def __init__(
        self, n_threads: int, may_stack: bool, nesting_level: int | None = None, **options: Any
    ) -> None:
        super().__init__(nesting_level=nesting_level, **options)
        self._n_threads, self._may_stack = n_threads, may_stack
        self._tasks: list[PendingTask] = []

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return at least 2: with one job, joblib would not come here."""
        return max(2, self._n_threads)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Begin with no tasks."""
        self.parallel, self._tasks = parallel, []
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Callable[[], Any], callback: Any = None) -> PendingTask:
        self._tasks.append(PendingTask(self._run, func, callback))
        return self._tasks[-1]

    def apply_async(self, func: Callable[[], Any], callback: Any = None) -> PendingTask:
        """Take a task; earlier versions of joblib call this instead of `submit`."""
        return self.submit(func, callback)

    def _run(self) -> None:
        tasks, self._tasks = self._tasks, []
        may_stack = [self._may_stack] * len(tasks)
        with warnings.catch_warnings():  # scikit-learn's tasks change the filters, in several threads at once
            results = run_together([task.func for task in tasks], self._n_threads, may_stack)
        for task, found in zip(tasks, results, strict=True):
            task.found = found
            if task.callback is not None:
                task.callback(found)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Forget all tasks, none of which is running."""
        self._tasks = []


@contextmanager
def gathered(n_jobs: int | None, may_stack: bool) -> Iterator[None]:
    """Return a context in which all tasks of joblib run together, if they are dispatched at once."""
    n_threads, (chosen, _) = jobs_of(n_jobs), get_active_backend(prefer="threads")
    with parallel_config(backend=GatheringBackend(n_threads, may_stack, chosen.nesting_level)):
        yield


Result = TypeVar("Result")
ON_THE_HOST = ("auto", "cpu")
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Dispatch(enum.Enum):
    """Ways to run the evaluations of a candidate."""

    STACKED = "all at once, their fits as one program on a device"
    THREADS = "in threads of one group"
    ALONE = "as joblib runs any"


def dispatch_of(estimator: Any, X: Any, candidate: Mapping[str, Any]) -> Dispatch:
    """Return how the evaluations of a candidate run."""
    on_device = is_array(X) and device_of(X).kind != "cpu"  # each would have its own copy of its rows there
    if not on_device and is_stacked(estimator, X, candidate):
        return Dispatch.STACKED
    return Dispatch.THREADS if fits_networks(estimator, candidate) else Dispatch.ALONE


def fits_networks(estimator: Any, candidate: Mapping[str, Any] = NOTHING) -> bool:
    """Tell whether an estimator is or has a network of sknet that computes on the host."""
    parameters = estimator.get_params()
    if any(hasattr(x, "fit") for name, value in candidate.items() for x in (value, parameters.get(name))):
        parameters = clone(estimator).set_params(**clone(candidate, safe=False)).get_params()
    parameters = {"": estimator, **parameters, **candidate}
    places = [value for name, value in parameters.items() if name.split("__")[-1] == "device"]
    has_network = any(isinstance(value, BaseNet) for value in parameters.values())
    return has_network and all(place in ON_THE_HOST for place in places)


class TaskRunner:
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

    def run(self, tasks: "Sequence[partial[Result]]", dispatch: Dispatch) -> list[Result]:
        if not tasks:
            return []
        if dispatch is Dispatch.STACKED or (dispatch is Dispatch.THREADS and not are_sent()):
            may_stack = [dispatch is Dispatch.STACKED] * len(tasks)
            return run_together(tasks, jobs_of(self._n_jobs), may_stack)
        if dispatch is Dispatch.THREADS:
            with on_the_cluster(in_common(tasks)), Parallel(**self._options) as run:
                return list(run(map(self._of_the_group, tasks)))
        if self._others is None:  # starting processes takes time
            self._others = self._open.enter_context(Parallel(**self._options))
        return list(self._others(map(_delayed, tasks)))

    def _of_the_group(self, task: "partial[Any]") -> Any:
        return delayed(in_group_of)(self._name, task.func, *task.args)


def _delayed(task: "partial[Any]") -> Any:
    return delayed(task.func)(*task.args)
