"""Many models trained together on the same rows, or parts of them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sknet._random import check_random_state
from sknet.callbacks.extend import check_callbacks, fresh_callbacks
from sknet.device import is_array
from sknet.engine._model import Model
from sknet.engine.loop import (
    History,
    Part,
    are_sent,
    may_be_stacked,
    run_together,
    take_rows,
)
from sknet.engine.state import each_input, n_rows, take_over

__all__ = ["fit_many"]


def fit_many(
    models: Sequence[Model],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    rows: "Sequence[Any] | None" = None,
    n_jobs: int | None = None,
    callbacks: Any = None,
    **options: Any,
) -> list[History]:
    """Train many models together, in place; each as `Model.fit` would, on the CPU to the bit.

    Models train in threads, in native code that runs on all cores at once. Models of the same structure share
    programs and working memory, so that a fit begins at once: learning rates, seeds and rows may differ.

    On a GPU, models of the same structure are one program: their parameters lie in one array, with an axis of
    models in front, and a step of all of them has about as many launches as a step of one. Hyperparameters
    that are numbers in a step (rates, decays, momentum, penalties, rates of dropout, parameters of losses),
    seeds and rows may differ; shapes, the number of rows and the batch size may not. Those that stop early
    leave. Models that cannot be part of such a stack are trained by themselves, in the same call.

    Inside of ``joblib.parallel_config("dask")``, or of another backend of processes, models train there and
    come back with the same bits.

    Parameters
    ----------
    models : sequence of Model
        The models. Each ends when its own callbacks say so.
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
        train at once, whatever it is.
    callbacks : list of Callback, default=None
        Called during every fit, which works with copies of its own.
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
        If these are not models, one is there twice, two have the same `RandomState`, or there are not as many
        `rows` as models; and if one cannot be sent to another process.
    Exception
        The first error of a fit, with a note that says which. The others then end after their current steps;
        models keep what they have learned, unless they train in other processes: then none has changed.
    KeyboardInterrupt
        On Ctrl-C; likewise.

    Notes
    -----
    Models with ``random_state=None`` draw from NumPy's global state, in the order of threads; in other
    processes from states with seeds from it.

    On a GPU, models that are trained together take turns: one callback or score runs at a time, in the
    order of the models, and all wait for it. A stack has as many models as three quarters of the free
    memory have room for, and at most 1,024, each with a thread; the next stack follows it. A model with
    hooks, with a schedule of dropout, with recurrent layers or others whose operations are made one by
    one, or with sparse rows or rows that do not fit into memory is trained by itself. One whose callback
    assigns another optimizer, loss or penalty, or freezes layers, leaves its stack.

    While several threads train, each has one core for its products of matrices. Products so large that BLAS
    would divide them among cores may be rounded differently there.

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
    """Return a model to train elsewhere, where NumPy's global state is another."""
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


def _part_of(X: Any, rows: np.ndarray) -> Part | None:
    """Return some rows of dense inputs; None unless all of them are there."""
    if not all(map(is_array, X.values() if isinstance(X, dict) else [X])):
        return None
    n = n_rows(X)
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows) or rows.min() < -n or rows.max() >= n:
        return None
    return Part(X, np.where(rows < 0, rows + n, rows))
