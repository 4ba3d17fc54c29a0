"""A check of targets that needs the shape of a network's output: classes that it has outputs for."""

from typing import TYPE_CHECKING, Any

from sknet.core import Tensor
from sknet.device import to_host
from sknet.engine.state import arguments, computed_dtype, each_input
from sknet.engine.step._checks import note_last_layer
from sknet.nn.extend import copy_for_shapes, shadows, shape_pass

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["check_classes_of"]


def check_classes_of(model: "Model", X: Any, y: Any, name: str = "y") -> None:
    """Raise a ValueError if a target is not among the classes that the network has outputs for.

    Parameters
    ----------
    model : Model
        With its shapes.
    X : array, sparse matrix or dict of those
        Inputs, of which only the shapes matter.
    y : array of shape (n_samples, ...)
        Targets.
    name : str, default="y"
        Their name in messages.
    """
    loss, memory = model.loss_function, model.memory
    if y.dtype.kind not in "biu" or loss.tasks == ("regression",):
        return
    if memory.n_outputs is None:
        memory.n_outputs = _n_outputs(model, X)
    y = to_host(y)
    try:
        loss.check_target(y, name=name, n_outputs=memory.n_outputs)
    except ValueError:
        memory.n_outputs = count = _n_outputs(model, X)  # the network may have changed since
        try:
            loss.check_target(y, name=name, n_outputs=count)
        except ValueError as error:
            outputs = "1 output" if count == 1 else f"{count} outputs"
            error.add_note(f"the network has {outputs} for a target: change its last layer, or the targets")
            note_last_layer(error, model.module)
            raise error from None


def _n_outputs(model: "Model", X: Any) -> int | None:
    """Return the number of outputs for a target, from a pass without data; None if there can be none."""
    row = each_input(lambda x: shadows((1, *x.shape[1:]), computed_dtype(x, model.dtype)), X)
    try:
        output = shape_pass(copy_for_shapes(model.module), arguments(row))
    except Exception:  # its code depends on values, or is wrong, which the first step says better
        return None
    if not isinstance(output, Tensor):
        return None
    return int(output.shape[-1]) if output.ndim > 1 else 1
