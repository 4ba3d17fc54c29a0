"""Evaluations of networks on a device, all of which run at once: their fits are one program there."""

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import ParallelBackendBase, get_active_backend
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sknet.device import device_of, is_array
from sknet.engine.extend import are_sent, run_together
from sknet.estimators.extend import BaseNet, may_stack

__all__ = ["FoldRows", "is_stacked", "rows_of_folds", "stacked"]


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


class Task:
    """A task of joblib, whose result is there when all have been run."""

    found: Any

    def __init__(self, run: Callable[[], None], func: Callable[[], Any], callback: Any) -> None:
        self._run, self.func, self.callback = run, func, callback

    def get(self) -> Any:
        """Return the result, as joblib asks for it."""
        if not hasattr(self, "found"):
            self._run()
        return self.found


class AllAtOnce(ParallelBackendBase):
    """joblib's tasks as fits that run together, when all of them are there."""

    uses_threads = True
    supports_sharedmem = True

    def __init__(self, n_threads: int, nesting_level: int | None = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level, **options)
        self._n_threads = n_threads
        self._tasks: list[Task] = []

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return at least 2: with one job, joblib would not come here."""
        return max(2, self._n_threads)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Begin with no tasks."""
        self.parallel, self._tasks = parallel, []
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Callable[[], Any], callback: Any = None) -> Task:
        """Take a task."""
        self._tasks.append(Task(self._run, func, callback))
        return self._tasks[-1]

    def apply_async(self, func: Callable[[], Any], callback: Any = None) -> Task:
        """Take a task: what `submit` is called in earlier versions of joblib."""
        return self.submit(func, callback)

    def _run(self) -> None:
        tasks, self._tasks = self._tasks, []
        results = run_together([task.func for task in tasks], self._n_threads, [True] * len(tasks))
        for task, found in zip(tasks, results, strict=True):
            task.found = found
            if task.callback is not None:
                task.callback(found)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Forget all tasks, none of which is running."""
        self._tasks = []


@contextmanager
def stacked(n_jobs: int | None) -> Iterator[None]:
    """Return a context in which all tasks of joblib run at once, if they are dispatched at once."""
    n_threads, (chosen, _) = int(effective_n_jobs(n_jobs)), get_active_backend(prefer="threads")
    with parallel_config(backend=AllAtOnce(n_threads, chosen.nesting_level)):
        yield
