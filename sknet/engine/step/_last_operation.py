"""A look at what a network returns, before a fit: probabilities where a loss expects logits."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._warnings import warn_caller
from sknet.core import Tensor
from sknet.engine.state import arguments
from sknet.engine.step._bounds import Bounds
from sknet.engine.step._checks import last_layer
from sknet.losses import Loss
from sknet.nn import Linear, Module
from sknet.nn.extend import copy_for_shapes, shadows, shape_pass

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["look_at_output"]

OWN = "sknet."
ROUNDED = 1e-5  # beyond 0 and 1, as the bounds are computed


def look_at_output(model: "Model", take: Callable[[Any], Any]) -> None:
    """Warn once if a network returns numbers between 0 and 1 only, and its loss expects logits."""
    memory, loss, module = model.memory, model.loss_function, model.module
    if memory.looked or model._has_seen_output or not _expects_logits(loss):
        return
    memory.looked = True
    if _may_end_so(module) and _are_probabilities(module, arguments(take(np.arange(1))), model.dtype):
        warn_caller(
            f"{loss!r} expects raw outputs (logits), but these look like probabilities: remove the softmax "
            "or sigmoid at the end of the network (whatever the inputs, its outputs lie between 0 and 1), "
            "since the loss applies its own; or train a Model with NLL() or BinaryCrossEntropy(), which "
            "expect probabilities",
            UserWarning,
        )


def _expects_logits(loss: Loss) -> bool:
    classifies = "binary" in loss.tasks or "ordinal" in loss.tasks
    return classifies and loss.has_probabilities and not loss.of_probabilities


def _may_end_so(module: Module) -> bool:
    """Tell whether a pass is worthwhile: layers of sknet end in what is registered last."""
    own = all(type(each).__module__.startswith(OWN) for each in module.modules())
    return not (own and isinstance(last_layer(module)[1], Linear))


def _are_probabilities(module: Module, inputs: Any, dtype: Any) -> bool:
    """Tell whether all outputs lie between 0 and 1; False if that is not known."""
    bounds = Bounds()
    try:
        output = shape_pass(copy_for_shapes(module), shadows(inputs, dtype, bounds), seen=bounds)
    except Exception:  # its code depends on values, or is wrong, which the first step says better
        return False
    if not isinstance(output, Tensor):
        return False
    low, high = bounds.of(output.data)
    return low >= -ROUNDED and high <= 1 + ROUNDED
