"""Checks of outputs, targets and weights that arithmetic would silently accept."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from sknet.core import Tensor
from sknet.core.extend import missed
from sknet.device import namespace
from sknet.exceptions import GradientError
from sknet.losses import Loss
from sknet.nn import Module

__all__ = [
    "are_classes",
    "check_classes",
    "check_classes_for",
    "check_output",
    "check_reached",
    "check_targets",
    "check_weights",
    "last_layer",
    "n_outputs_of",
    "note_last_layer",
    "recorded",
    "warn_of_probabilities",
]


def check_output(module: Module, output: Any) -> Any:
    """Return the output of a module after checking that it is a tensor."""
    if isinstance(output, Tensor):
        return output
    name = type(module).__name__
    if output is None:
        raise TypeError(f"{name}.forward returned None, expected a tensor: end it with `return`")
    if isinstance(output, (tuple, list, dict)):
        found = f"a {type(output).__name__} of {len(output)}"
        raise TypeError(
            f"{name}.forward returned {found}, expected one tensor, as a loss expects it: return only that, "
            "or several outputs joined by ops.concat"
        )
    raise TypeError(
        f"{name}.forward returned an object of type {type(output).__name__}, expected a tensor: compute with "
        "sknet.ops, not with NumPy"
    )


def note_last_layer(error: Exception, module: Module) -> None:
    """Add a note to an error about outputs and targets that names the network's last layer."""
    path, last = last_layer(module)
    if path:
        error.add_note(f"the last layer of the network is {path!r}: {last!r}")


def last_layer(module: Module) -> tuple[str, Module]:
    """Return path and module of the last registered layer; the path is empty if there are none."""
    path, last = "", module
    while children := list(last.named_children()):
        name, last = children[-1]
        path = f"{path}.{name}" if path else name
    return path, last


def are_classes(loss: Loss, y: Any) -> bool:
    """Tell whether targets may be numbers of classes."""
    return y.dtype.kind in "biu" and loss.tasks != ("regression",)


def n_outputs_of(output: Tensor) -> int:
    """Return the number of a network's outputs for a target."""
    return int(output.shape[-1]) if output.ndim > 1 else 1


def check_classes_for(loss: Loss, module: Module, output: Tensor, y: Any) -> None:
    """Raise a ValueError if a target is not among the classes that an output has columns for."""
    data = y.data if isinstance(y, Tensor) else y
    if isinstance(data, np.ndarray) and are_classes(loss, data):
        check_classes(loss, module, data, n_outputs_of(output), "y")


def check_classes(loss: Loss, module: Module, y: Any, count: int, name: str) -> None:
    """Raise a ValueError if a target is not among the classes of so many outputs."""
    try:
        loss.check_target(y, name=name, n_outputs=count or None)
    except ValueError as error:
        if count:
            outputs = "1 output" if count == 1 else f"{count} outputs"
            error.add_note(f"the network has {outputs} for a target: change its last layer, or the targets")
        note_last_layer(error, module)
        raise error from None


def check_targets(loss: Loss, y: Tensor) -> None:
    """Let the loss check targets for negative integers, which would index classes from the end."""
    if y.dtype.kind == "i" and y.size and _least(y) < 0:
        loss.check_target(y.numpy())


def warn_of_probabilities(loss: Loss, output: Tensor, stacklevel: int) -> None:
    """Warn if a loss that expects logits is given the output of a softmax or a sigmoid."""
    if _are_probabilities(loss, output):
        warnings.warn(
            f"{loss!r} expects raw outputs (logits), but these look like probabilities: remove the "
            "softmax or sigmoid at the end of the network, or use NLL() or BinaryCrossEntropy()",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _are_probabilities(loss: Loss, output: Tensor) -> bool:
    expects_logits = "binary" in loss.tasks and loss.has_probabilities and not loss.of_probabilities
    if not expects_logits or not output.size:
        return False
    if output.ndim < 2 or output.shape[-1] == 1 or getattr(loss, "multilabel", False):
        made_by = getattr(output.node, "primitive", None)
        return made_by is not None and made_by.name == "sigmoid"
    xp, rows = namespace(output.data), output.data
    if not xp.min(rows, axis=None).item() >= 0:
        return False
    return bool(xp.max(xp.absolute(xp.sum(rows, axis=-1) - 1), axis=None).item() < 1e-4)


def check_weights(weight: Tensor) -> None:
    """Raise a ValueError if a weight is negative, or none is positive."""
    if weight.size and _least(weight) < 0:
        raise ValueError(f"sample_weight must not be negative, got {_least(weight):g}")
    if not namespace(weight.data).any(weight.data).item():
        raise ValueError("sample_weight: at least one weight must be positive, got zeros only")


def _least(x: Tensor) -> float:
    least: float = namespace(x.data).min(x.data, axis=None).item()
    return least


def check_reached(loss: Tensor, leaves: Mapping[str, Tensor], frozen: Mapping[str, Tensor]) -> None:
    """Raise a GradientError unless a loss can have a gradient for a model's parameters."""
    if not any(parameter.requires_grad for parameter in recorded(loss, leaves, frozen)):
        raise GradientError(
            "the loss does not depend on this model's parameters: compute it from this model's output, "
            "model.loss(model(X), y), outside of no_grad"
        )


def recorded(output: Tensor, leaves: Mapping[str, Tensor], frozen: Mapping[str, Tensor]) -> list[Tensor]:
    """Return a network's parameters for the penalty of an output: detached if the output was not recorded."""
    parameters = list(leaves.values())
    late = missed(output, parameters, list(frozen.values()))
    if late:
        name = next(name for name, leaf in leaves.items() if leaf is late[0])
        raise GradientError(
            f"{name!r} was frozen, or not part of the network, when the output or a term of the loss was "
            "computed, so its whole gradient is unknown: compute output and loss again"
        )
    return parameters if late is not None else [p.detach() for p in parameters]
