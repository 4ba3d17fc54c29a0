"""Many fits together: in threads, as stacks on a device, or in other processes."""

import io
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from sknet._config import config_context, get_config
from sknet._params import named_errors
from sknet._random import check_random_state
from sknet.callbacks._callback import check_callbacks, fresh_callbacks
from sknet.device import backend, is_array
from sknet.engine._batches import take_rows
from sknet.engine._fit import History
from sknet.engine._fit_rows import RowSubset
from sknet.engine._inputs import each_input, n_rows
from sknet.engine._model import Model
from sknet.engine._model_copies import take_over
from sknet.engine._scheduler import (
    Fiber,
    Group,
    current_group,
    inside,
    note_which,
    run_in_fibers,
    run_in_threads,
)
from sknet.engine._stack import MemberSteps, Stack, StackPlan, fit_in_memory
from sknet.exceptions import CaptureError, GraphError
from sknet.nn import Module
from sknet.ops._batching import goes_at_once

Result = TypeVar("Result")
SHARE_OF_STACK = 0.75  # of the memory that is free, for a stack


def run_stacked(
    fits: Sequence[Callable[[], Result]], may_stack: Sequence[bool], n_jobs: int | None = None
) -> list[Result]:
    """Run fits together: those on a device that share their structure as one program."""
    return run_in_fibers(fits, may_stack, n_jobs, Stacks().serve)


def may_be_stacked(model: Model) -> bool:
    """Tell whether a fit of a model may be one of those that `run_stacked` makes together."""
    return model.device.kind != "cpu" and bool(model.compile) and model.optimizer.goes_in_steps


class Stacks:
    """The stack that is trained now, and what comes after it."""

    def __init__(self) -> None:
        self._stack: Stack | None = None
        self._refused: set[object] = set()  # forms

    def serve(self, waiting: list[Fiber]) -> list[Fiber]:
        """Make a block of steps for some of the fits that wait, or tell some to train alone."""
        stack = self._stack_of(waiting)
        if stack is not None:
            return stack.run([fiber for fiber in waiting if fiber.asked.steps in stack])
        form = waiting[0].asked.steps.form
        alone = [fiber for fiber in waiting if fiber.asked.steps.form == form]
        for fiber in alone:
            fiber.answer(None)
        return alone

    def _stack_of(self, waiting: Sequence[Fiber]) -> Stack | None:
        """Return the stack that goes on; a new one if half of it has left, or none is there."""
        live = [] if self._stack is None else self._stack.live
        if self._stack is not None and 2 * len(live) > self._stack.size:
            return self._stack
        if not live:
            self._stack = None
        form = (live or [waiting[0].asked.steps])[0].form
        others = [fiber.asked.steps for fiber in waiting if fiber.asked.steps.form == form]
        members = live + [member for member in others if member not in live]
        found = None if form in self._refused else self._begun(members, len(live))
        if found is not None:
            self._stack = found
        elif not live:
            self._refused.add(form)
        return self._stack

    def _begun(self, members: list[MemberSteps], least: int) -> Stack | None:
        """Return a stack of as many members as memory has room for; None if these are too few."""
        device = members[0].model.device
        owner, least = backend(device.kind), max(least, 2)
        while len(members) >= least:
            try:
                if not _go_at_once(members):
                    return None
                if not fit_in_memory([x.batches for x in members]):
                    alike = _of_one_array(members)
                    if len(alike) == len(members):
                        return None
                    members = alike
                    continue
                plan, room = StackPlan(members), SHARE_OF_STACK * owner.free_memory(device)
                if plan.nbytes <= room:
                    return Stack(plan)
                members = members[: min(len(members) - 1, int(len(members) * room / plan.nbytes))]
            except owner.memory_errors:  # free memory may be in pieces
                members = members[: len(members) // 2]
            except (CaptureError, GraphError):
                return None
        return None


def _of_one_array(members: Sequence[MemberSteps]) -> list[MemberSteps]:
    """Return those that take their rows from the same arrays as the first one, such as those of its fold."""

    def source(member: MemberSteps) -> list[int]:
        X = member.batches.X
        return [id(x) for x in (X.values() if isinstance(X, dict) else [X])]

    return [member for member in members if source(member) == source(members[0])]


def _go_at_once(members: Sequence[MemberSteps]) -> bool:
    """Tell whether all operations of a step are made for all members at once, rather than one by one."""
    first = members[0]
    return all(
        goes_at_once(equation.primitive)
        for n_rows in first.sizes
        for equation in first.captured(n_rows).graph.equations
    )


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
    """Tell whether fits run in other processes, since joblib's backend has no shared memory."""
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
    with inside(_group_of(name)):
        return function(*args, **kwargs)


def _run(packet: bytes, which: tuple[int, int], config: Any, *shared: Any) -> bytes:
    number, count = which
    with note_which(number, count), config_context(**config):
        return _packet(_opened(packet, shared)(), shared, f"the result of fit {number} of {count}")


@named_errors
def fit_many(
    models: Sequence[Model],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    rows: Sequence[Any] | None = None,
    n_jobs: int | None = None,
    callbacks: Any = None,
    **options: Any,
) -> list[History]:
    """Train many models together, in place; each as `Model.fit` would, on the CPU to the bit.

    Models train in threads, in native code that runs on all cores at once. Models of the same structure share
    programs and working memory, so that a fit begins at once: learning rates, seeds and rows may differ.

    On a GPU, models of the same structure are one program: their parameters are stacked along a first axis,
    and a step of all of them has about as many kernel launches as a step of one. Hyperparameters that are
    numbers in a step (rates, decays, momentum, penalties, rates of dropout, parameters of losses), seeds and
    rows may differ; shapes, the number of rows and the batch size may not. Models that stop early leave the
    stack. Models that cannot be stacked are trained separately, in the same call.

    Inside ``joblib.parallel_config("dask")``, or another backend of processes, models train in these
    processes, with the same bits.

    Parameters
    ----------
    models : sequence of Model
        The models. Each ends by its own callbacks.
    X : array or sparse matrix of shape (n_samples, ...), or dict of those
        Inputs.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Targets.
    sample_weight : array of shape (n_samples,), default=None
        Weights of rows.
    rows : sequence of array of int, default=None
        The rows that each model trains on, such as those of a fold or a bootstrap sample; None for all.
    n_jobs : int or None, default=None
        The number of threads, as for joblib; None is one for each core. Models that are one program on a GPU
        train together, whatever its value.
    callbacks : list of Callback, default=None
        Called during every fit, each of which has its own copies.
    **options : dict
        All other options of `Model.fit`, such as ``epochs``.

    Returns
    -------
    list of History
        The numbers of each epoch, for each model. They do not depend on `n_jobs`; on a GPU, the last digits
        may depend on which models train together.

    Raises
    ------
    TypeError, ValueError
        If `models` holds other objects, one model twice, or two with the same `RandomState`; if there are not
        as many `rows` as models; or if a model cannot be sent to another process.
    Exception
        The first error of a fit, with a note that names the model. Other fits then end after their current
        steps; models keep their state, unless they train in other processes: then no model is changed.
    KeyboardInterrupt
        On Ctrl-C, with the same effect.

    Notes
    -----
    Models with ``random_state=None`` draw from NumPy's global state, in the order of threads; in other
    processes from states with seeds from it.

    On a GPU, callbacks and scores of models in a stack run one at a time, in the order of the models, while
    all others wait. A stack has as many models as fit into three quarters of the free memory, and at most
    1,024, each with a thread; stacks are trained one after the other. A model with hooks, with a schedule of
    dropout, with recurrent or other layers that cannot be stacked, or with sparse rows or rows that do not
    fit into memory is trained separately. One whose callback assigns another optimizer, loss or penalty, or
    freezes layers, leaves its stack.

    While several threads train, each uses one core for its matrix products. Products so large that BLAS would
    divide them among cores may be rounded differently.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import Model, nn
    >>> from sknet.engine import fit_many
    >>> X, y = load_iris(return_X_y=True)
    >>> networks = [nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)) for _ in range(5)]
    >>> models = [Model(network, "log_loss", random_state=i) for i, network in enumerate(networks)]
    >>> histories = fit_many(models, X, y, epochs=3)
    >>> [len(history["loss"]) for history in histories]
    [3, 3, 3, 3, 3]
    """
    models = list(models)
    _check(models, rows)
    given = check_callbacks(callbacks, "fit_many")
    parts = [None] * len(models) if rows is None else list(rows)
    trained = [_to_send(model) for model in models] if are_sent() else models
    may_stack = [not are_sent() and may_be_stacked(model) for model in trained]
    # What is saved of a fit says which rows it has, as if it had been alone.
    is_saved = "resume_from" in options or any(callback.needs is not None for callback in given)
    # Callbacks are cloned here, since the objects may be shared with other threads.
    fits = [
        partial(
            _fit_part if stacked and not is_saved else _fit,
            *(model, X, y, sample_weight, part),
            callbacks=fresh_callbacks(given),
            **options,
        )
        for model, part, stacked in zip(trained, parts, may_stack, strict=True)
    ]
    found = run_together(fits, n_jobs, may_stack)
    for model, (fitted, _) in zip(models, found, strict=True):
        take_over(model, fitted)
    return [history for _, history in found]


def _to_send(model: Model) -> Model:
    """Return a model to train in another process, where NumPy's global state is another."""
    drawn = check_random_state(None)
    if model.random_state is not drawn:
        return model
    twin = model.copy()
    twin.random_state = np.random.RandomState(drawn.randint(1 << 32, dtype=np.uint32))
    return twin


def _check(models: Sequence[Any], rows: "Sequence[Any] | None") -> None:
    for i, model in enumerate(models):
        if not isinstance(model, Model):
            raise TypeError(f"fit_many needs a sequence of Model, got {type(model).__name__} at position {i}")
    places: dict[int, int] = {}
    for i, model in enumerate(models):
        first = places.setdefault(id(model), i)
        if first != i:
            raise ValueError(
                f"fit_many got the same model at positions {first} and {i}: each needs a model of its own, "
                "such as model.copy()"
            )
    sources: dict[int, int] = {}
    for i, model in enumerate(models):
        if model.random_state is not check_random_state(None):
            first = sources.setdefault(id(model.random_state), i)
            if first != i:
                raise ValueError(
                    f"the models at positions {first} and {i} of fit_many draw from the same random_state, "
                    "and would get numbers in the order of threads: give each a seed, or a state of its own"
                )
    if rows is not None and len(rows) != len(models):
        raise ValueError(
            f"fit_many got {len(rows)} arrays of rows for {len(models)} models: pass one for each model"
        )


def _fit(
    model: Model, X: Any, y: Any, sample_weight: Any, rows: Any, **options: Any
) -> tuple[Model, History]:
    """Train one model, and return it as well."""
    if rows is not None:
        rows = np.asarray(rows)
        X = each_input(lambda x: take_rows(x, rows), X)
        y = take_rows(y, rows)
        sample_weight = None if sample_weight is None else take_rows(sample_weight, rows)
    return model, model.fit(X, y, sample_weight, **options)


def _fit_part(
    model: Model, X: Any, y: Any, sample_weight: Any, rows: Any, **options: Any
) -> tuple[Model, History]:
    """Train one model as `_fit` does, without a copy of its rows: many may be trained at once."""
    part = None if rows is None else _part_of(X, np.asarray(rows))
    if rows is not None and part is None:
        return _fit(model, X, y, sample_weight, rows, **options)
    return model, model.fit(X if part is None else part, y, sample_weight, **options)


def _part_of(X: Any, rows: np.ndarray) -> RowSubset | None:
    """Return some rows of dense inputs; None unless all of them are there."""
    if not all(map(is_array, X.values() if isinstance(X, dict) else [X])):
        return None
    n = n_rows(X)
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows) or rows.min() < -n or rows.max() >= n:
        return None
    return RowSubset(X, np.where(rows < 0, rows + n, rows))
