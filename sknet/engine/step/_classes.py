"""A check of targets that needs the shape of a network's output: classes that it has outputs for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core import Tensor, no_grad
from sknet.device import active, device_of, to_device, to_host
from sknet.engine.state import arguments, computed_dtype, each_input
from sknet.engine.step._checks import are_classes, check_classes, n_outputs_of
from sknet.engine.step._functional import evaluate
from sknet.nn import run
from sknet.nn.extend import copy_for_shapes, shadows, shape_pass

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["UNKNOWN", "check_classes_of", "on_one_row"]

UNKNOWN = 0  # outputs, of networks of which not even one row can be computed


def check_classes_of(model: "Model", X: Any, y: Any, name: str = "y") -> None:
    """Raise a ValueError if a target is not among the classes that the network has outputs for."""
    memory = model.memory
    if not are_classes(model.loss_function, y):
        return
    if memory.n_outputs is None:
        memory.n_outputs = _n_outputs(model, X)
    y = to_host(y)
    try:
        model.loss_function.check_target(y, name=name, n_outputs=memory.n_outputs or None)
    except ValueError:
        memory.n_outputs = _n_outputs(model, X)  # the network may have changed since
        check_classes(model.loss_function, model.module, y, memory.n_outputs, name)


def _n_outputs(model: "Model", X: Any) -> int:
    """Return the number of outputs for a target, from a pass without data if possible."""
    row = each_input(lambda x: shadows((1, *x.shape[1:]), computed_dtype(x, model.dtype)), X)
    passes: list[Callable[[], Any]] = [
        lambda: shape_pass(copy_for_shapes(model.module), arguments(row)),
        lambda: on_one_row(model, X)(run),  # its code depends on values
    ]
    for compute in passes:
        try:
            output = compute()
        except Exception:  # what is wrong the first step says better
            continue
        return n_outputs_of(output) if isinstance(output, Tensor) else UNKNOWN
    return UNKNOWN


def on_one_row(model: "Model", X: Any) -> Callable[[Any], Any]:
    """Return a function that runs a pass of a model on the first row, in evaluation mode."""

    def compute(by: Any) -> Any:
        row = each_input(one_row, X)
        with active(model.device, model.precision), no_grad(), np.errstate(all="ignore"):
            return evaluate(model, row, by)

    def one_row(x: Any) -> Any:
        with active(device_of(x)):
            return to_device(x[:1].astype(computed_dtype(x, model.dtype)), model.device)

    return compute
