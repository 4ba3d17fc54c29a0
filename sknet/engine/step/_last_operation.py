"""A look at the operation that a network ends in, before a fit: probabilities where a loss expects logits."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._warnings import warn_caller
from sknet.core import Primitive, Tensor
from sknet.engine.state import arguments
from sknet.engine.step._checks import last_layer
from sknet.losses import Loss
from sknet.nn import Module, Sigmoid, Softmax
from sknet.nn.extend import copy_for_shapes, shadows, shape_pass

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["look_at_output"]

ENDS = ("sigmoid", "softmax")
OWN = "sknet."
# These leave the values that they are given.
SAME_VALUES = ("reshape", "transpose", "squeeze", "expand_dims", "astype")


def look_at_output(model: "Model", take: Callable[[Any], Any]) -> None:
    """Warn once if a network ends in a sigmoid or a softmax, and its loss expects logits.

    The numbers alone do not tell: outputs of a linear layer may lie between 0 and 1 by chance. So the
    operation that the output comes from is looked at, in a pass without data.

    Parameters
    ----------
    model : Model
        With its shapes; not changed.
    take : callable
        Returns the inputs of the rows with given indices.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Sequential(nn.Linear(2, 1), nn.Sigmoid()), "log_loss", random_state=0)
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = model.fit(np.eye(2), [0, 1], epochs=1)
    >>> str(found[0].message).startswith("LogLoss() expects raw outputs (logits)")
    True
    """
    memory, loss, module = model.memory, model.loss_function, model.module
    if memory.looked or not _expects_logits(loss) or not _may_end_so(module):
        return
    memory.looked = True
    end = _last_operation(module, arguments(take(np.arange(1))), model.dtype)
    if end in ENDS:
        warn_caller(
            f"{loss!r} expects raw outputs (logits), but these look like probabilities: remove the softmax "
            f"or sigmoid at the end of the network (its last operation is {end}), since the loss applies its "
            "own; or train a Model with NLL() or BinaryCrossEntropy(), which expect probabilities",
            UserWarning,
        )


def _expects_logits(loss: Loss) -> bool:
    classifies = "binary" in loss.tasks or "ordinal" in loss.tasks
    return classifies and loss.has_probabilities and not loss.of_probabilities


def _may_end_so(module: Module) -> bool:
    """Tell whether a pass is worthwhile: layers of sknet end in what is registered last."""
    if all(type(each).__module__.startswith(OWN) for each in module.modules()):
        return isinstance(last_layer(module)[1], (Sigmoid, Softmax))
    return True


def _last_operation(module: Module, inputs: Any, dtype: Any) -> str | None:
    """Return the name of the operation that made the output; None if it is not known."""
    made_by: dict[int, tuple[str, list[Any], Any]] = {}

    def seen(primitive: Primitive, operands: list[Any], result: Any) -> None:
        made_by[id(result)] = primitive.name, operands, result  # kept, so that no other has its id

    try:
        output = shape_pass(copy_for_shapes(module), shadows(inputs, dtype, seen), seen=seen)
    except Exception:  # its code depends on values, or is wrong, which the first step says better
        return None
    found = made_by.get(id(output.data)) if isinstance(output, Tensor) else None
    while found is not None and found[0] in SAME_VALUES:
        found = made_by.get(id(found[1][0]))
    return None if found is None else found[0]
