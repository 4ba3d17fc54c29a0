"""A batch of a single row, whose statistics a batch norm cannot compute."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sknet._warnings import warn_caller
from sknet.engine.loop._batches import Batches
from sknet.engine.state import arguments, each_input
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn import BatchNorm, Module
from sknet.nn.extend import copy_for_shapes, held_of, hold_statistics, is_held, shadows, shape_pass

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["join_leftover", "statistics_of_one"]


def join_leftover(model: "Model", batches: Batches) -> None:
    """Let a last batch of one row belong to the batch before, if the network cannot train on one row."""
    if batches.leaves_one and _needs_two_rows(model, batches):
        batches.join_leftover()


@contextmanager
def statistics_of_one(model: "Model", batches: Batches, is_part: bool) -> Iterator[None]:
    """Let a part of a stream that has a single row be normalized by running statistics, with a warning."""
    if not (is_part and batches.n_samples == 1 and _needs_two_rows(model, batches)):
        yield
        return
    warn_caller(
        "a part of one row has no statistics of its own: batch norms have normalized it by their running "
        "statistics, and have not updated them. Give larger parts",
        UserWarning,
    )
    restore = held_of(model.module)
    for norm in _norms(model.module):
        hold_statistics(norm, True)
    try:
        yield
    finally:
        restore()


def _norms(module: Module) -> list[Module]:
    return [each for each in module.modules() if isinstance(each, BatchNorm) and not is_held(each)]


def _needs_two_rows(model: "Model", batches: Batches) -> bool:
    """Tell whether a training step on a single row is an error of shapes."""
    if not _norms(model.module):
        return False
    shapes = each_input(lambda x, dtype: shadows((1, *x.shape[1:]), dtype), batches.X, batches.input_dtype)
    try:
        shape_pass(copy_for_shapes(model.module), arguments(shapes), training=True)
    except ShapeError:
        return True
    except DeviceError:  # its code depends on values
        return True
    return False
