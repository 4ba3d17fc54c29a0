"""Choice of a fit's steps, and pools of steps for later fits."""

import os
from collections.abc import Hashable

import numpy as np

from sknet._config import native_core
from sknet._parallel import Pool
from sknet.engine._batches import Batches, ComputedRows
from sknet.engine._fingerprint import structure_of
from sknet.engine._inputs import any_sparse
from sknet.engine._model_like import ModelLike
from sknet.engine._programs import not_compiled
from sknet.engine._runners import CompiledSteps, EagerSteps, NativeSteps, Steps
from sknet.engine._scheduler import current_group
from sknet.exceptions import CaptureError, GraphError


def steps_for(model: ModelLike, batches: Batches, check_finite: bool, copies: bool = False) -> Steps:
    """Return the fastest steps that are possible; on copies of the parameters if that is asked for."""
    if not model.compile or (model.device.kind != "cpu" and any_sparse(batches.X)):
        return EagerSteps(model, batches, check_finite)
    try:
        if model.device.kind != "cpu":
            from sknet.engine._device_runner import DeviceSteps  # the host does without it

            return DeviceSteps(model, batches, check_finite)
        inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
        is_dense = all(isinstance(x, (np.ndarray, ComputedRows)) for x in inputs)
        kind = NativeSteps if is_dense and native_core() is not None else CompiledSteps
        return kind(model, batches, check_finite, copies)
    except (CaptureError, GraphError) as error:
        if model.compile is True:
            raise
        not_compiled(error)
        return EagerSteps(model, batches, check_finite)


MOST_PARAMETERS = 1 << 16  # above it, a fit is long and copies are not free
# A fit of no group leaves its steps to the next one, if that saves more time than copies take, and needs
# little memory.
MOST_PARAMETERS_ALONE = 1 << 14
MOST_EPOCHS_ALONE = 100
ALONE = Pool(4, most_bytes=1 << 22)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ALONE.clear)


def steps_of_fit(
    model: ModelLike, batches: Batches, check_finite: bool, planned: int, how: Hashable, is_part: bool
) -> Steps:
    """Return steps that an earlier fit has left, or new ones; those of a part train the model in place."""
    pool, form = _own_steps(model, batches) if is_part else _shared_steps(model, batches, planned)
    key = form, how
    found: Steps | None = None if form is None else pool.take(key)
    if isinstance(found, CompiledSteps):
        found.bind(model, batches)
        return found
    if is_part:
        pool.clear()  # of steps for other rows, before these take memory
    found = steps_for(model, batches, check_finite, copies=form is not None and not is_part)
    if isinstance(found, CompiledSteps) and form is not None:
        known = not is_part or structure_of(model.module, model.loss_function, model.optimizer) is not None
        found.pool, found.key = pool if known else None, key
    return found


def _own_steps(model: ModelLike, batches: Batches) -> tuple[Pool, Hashable]:
    """Return a model's own pool, which copies and pickles lack, and the form of steps on its memory."""
    if model._idle_steps is None:
        model._idle_steps = Pool(1)
    return model._idle_steps, _form_of_part(batches)


def _shared_steps(model: ModelLike, batches: Batches, planned: int) -> tuple[Pool, Hashable]:
    """Return the pool of the fit's group, or of all fits of no group, and the form of steps on copies."""
    size, group = model.memory.layout.size, current_group()
    is_small = size <= MOST_PARAMETERS_ALONE and planned <= MOST_EPOCHS_ALONE * batches.n_batches
    is_shared = is_small if group is None else size <= MOST_PARAMETERS
    return (ALONE if group is None else group.idle), _form_of(model, batches) if is_shared else None


def _form_of_part(batches: Batches) -> Hashable:
    """Return all that steps depend on besides the model; None unless the rows are all of a dense array."""
    X, weight = batches.X, batches.weight
    arrays = (X, batches.y) if weight is None else (X, batches.y, weight)
    if batches.chosen is not None or any(type(x) is not np.ndarray for x in arrays):
        return None
    forms = [(x.shape, x.strides, x.dtype, x.flags.aligned) for x in arrays]
    return batches.size, batches.input_dtype, *forms


def _form_of(model: ModelLike, batches: Batches) -> Hashable | None:
    """Return everything that steps depend on, except values; None if they cannot be shared."""
    if not model.compile or model.device.kind != "cpu" or batches.buckets is not None:
        return None
    memory = model.memory
    if memory.frozen:
        return None
    inputs = batches.X if isinstance(batches.X, dict) else {None: batches.X}
    arrays = [*inputs.values(), batches.y, *([] if batches.weight is None else [batches.weight])]
    if any(type(array) is not np.ndarray for array in arrays):
        return None
    optimizer, dtypes = model.optimizer.in_steps(), batches.input_dtype
    known = structure_of(model.module, model.loss_function, bool(model.alpha), optimizer)
    if known is None:
        return None
    return (
        known,
        tuple(memory.layout.shapes.items()),
        tuple(optimizer.hyper(1, model.progress)),
        memory.slot_names,
        model.dtype,
        tuple(dtypes.values()) if isinstance(dtypes, dict) else dtypes,
        (batches.size, batches.n_batches, tuple(inputs)),
        tuple([(x.shape[1:], x.strides, x.dtype, x.flags.aligned, x.flags.writeable) for x in arrays]),
    )
