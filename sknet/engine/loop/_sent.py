"""Fits that run elsewhere: in the processes, or on the cluster, that `joblib.parallel_config` names."""

import io
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar
from uuid import uuid4

from sknet._config import config_context, get_config
from sknet.engine.loop._group import Group, current_group, inside, note_which, run_in_threads
from sknet.engine.loop._stacks import run_stacked
from sknet.nn import Module

__all__ = ["are_sent", "in_common", "in_group_of", "new_group", "on_the_cluster", "run_together"]

Result = TypeVar("Result")
LARGE = 1 << 20  # bytes of a fit that are a task of their own on a cluster
PARALLEL = 2  # threads of a group in which nothing else starts threads


def run_together(
    fits: Sequence[Callable[[], Result]], n_jobs: int | None = None, may_stack: Sequence[bool] | None = None
) -> list[Result]:
    """Run fits together: in threads, or where `joblib.parallel_config` says; on a device as one program."""
    if fits and are_sent():
        return _sent(fits, n_jobs)
    if may_stack is not None and sum(may_stack) > 1:
        return run_stacked(fits, may_stack, n_jobs)
    return run_in_threads(fits, n_jobs)


def are_sent() -> bool:
    """Tell whether fits run elsewhere: `joblib.parallel_config` names a backend without shared memory."""
    from joblib.parallel import get_active_backend  # predictors do without

    group = current_group()
    if group is not None and group.is_parallel:
        return False
    backend, _ = get_active_backend(prefer="threads")
    return not backend.nesting_level and not getattr(backend, "supports_sharedmem", False)


def _sent(fits: Sequence[Callable[[], Result]], n_jobs: int | None) -> list[Result]:
    from joblib.parallel import get_active_backend
    from sklearn.utils.parallel import Parallel, delayed

    if n_jobs is None:
        configured = get_active_backend()[1]
        n_jobs = -1 if configured is None else configured
    shared, name = in_common(fits), new_group()
    packets = [_packet(fit, shared, f"fit {i} of {len(fits)}") for i, fit in enumerate(fits)]
    with on_the_cluster([*shared, *(each for each in packets if len(each) > LARGE)]):
        found = Parallel(n_jobs=n_jobs)(
            delayed(in_group_of)(name, _run, packet, (i, len(fits)), get_config(), *shared)
            for i, packet in enumerate(packets)
        )
    return [_opened(packet, shared) for packet in found]


@contextmanager
def on_the_cluster(shared: Sequence[Any]) -> Iterator[None]:
    """Return a context in which a Dask cluster has what tasks of joblib share, until it ends."""
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    futures = getattr(backend, "data_futures", None)  # what `parallel_config("dask", scatter=...)` has sent
    if futures is None:
        yield
        return
    left = [each for each in shared if id(each) not in futures]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        futures.update({id(each): backend.client.submit(_same, each, pure=False) for each in left})
    try:
        yield
    finally:
        for each in left:
            del futures[id(each)]


def _same(value: Any) -> Any:
    return value


# -- what is sent --------------------------------------------------------------------------------------


def in_common(fits: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return arrays and frames that several fits take as arguments."""
    partials = [fit for fit in fits if isinstance(fit, partial)]
    taken = [each for fit in partials for each in _arrays((*fit.args, *fit.keywords.values()))]
    counts, known = Counter(map(id, taken)), {id(each): each for each in taken}
    return [each for key, each in known.items() if counts[key] > 1 or len(fits) == 1]


def _arrays(arguments: Sequence[Any]) -> Iterator[Any]:
    for each in arguments:
        if isinstance(each, Mapping):
            yield from _arrays(tuple(each.values()))
        elif hasattr(each, "shape"):
            yield each


def _packet(value: Any, shared: Sequence[Any], what: str) -> bytes:
    """Return a pickle of a value, in which shared objects are numbers."""
    try:
        from cloudpickle import Pickler
    except ImportError:  # joblib before 1.6 has a copy of its own
        from joblib.externals.cloudpickle import Pickler

    numbers = {id(each): number for number, each in enumerate(shared)}

    class Packer(Pickler):
        def persistent_id(self, value: Any) -> int | None:
            if isinstance(value, Module) and value._hooks is not None and any(value._hooks.by_kind.values()):
                raise ValueError(
                    f"{what} cannot run in another process: {type(value).__name__} has hooks, which are not "
                    "pickled. Remove them, or let it run here, without joblib.parallel_config"
                )
            return numbers.get(id(value))

    file = io.BytesIO()
    try:
        Packer(file).dump(value)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise TypeError(
            f"{what} cannot run in another process, since part of it cannot be pickled ({error}): change "
            "that, or let it run here, without joblib.parallel_config"
        ) from error
    return file.getvalue()


def _opened(packet: bytes, shared: Sequence[Any]) -> Any:
    class Unpacker(pickle.Unpickler):
        def persistent_load(self, number: int) -> Any:
            return shared[number]

    return Unpacker(io.BytesIO(packet)).load()


# -- where it runs -------------------------------------------------------------------------------------


def new_group() -> str:
    """Return a name for a group that has fits in several processes."""
    return uuid4().hex


@lru_cache(maxsize=1)  # so that what the last group shares is all that is kept
def _group_of(name: str) -> Group:
    return Group(PARALLEL)


def in_group_of(name: str, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Call a function in this process's part of a group."""
    with inside(_group_of(name)):
        return function(*args, **kwargs)


def _run(packet: bytes, which: tuple[int, int], config: Any, *shared: Any) -> bytes:
    """Run a fit; return a packet with what it returns."""
    number, count = which
    with note_which(number, count), config_context(**config):
        return _packet(_opened(packet, shared)(), shared, f"the result of fit {number} of {count}")
