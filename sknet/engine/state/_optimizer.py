"""What a model asks its optimizer, whether that goes step by step or over the full batch."""

from typing import Any

from sknet.engine.state._layout import Layout
from sknet.optim import LBFGS, Optimizer

__all__ = ["averaging", "check_parameters", "kind_of", "slot_names"]


def averaging(optimizer: Optimizer | LBFGS) -> Optimizer | None:
    """Return the optimizer if it predicts with averages."""
    return optimizer if isinstance(optimizer, Optimizer) and optimizer.averaging else None


def check_parameters(optimizer: Optimizer | LBFGS, layout: Layout) -> None:
    """Raise an InvalidParameterError if what the optimizer says of certain parameters cannot be meant."""
    if isinstance(optimizer, Optimizer):
        optimizer.check_parameters(layout.shapes)


def kind_of(optimizer: Optimizer | LBFGS) -> Any:
    """Return what two optimizers must have in common for one to go on with the state of the other."""
    return optimizer.kind if isinstance(optimizer, Optimizer) else type(optimizer)


def slot_names(optimizer: Optimizer | LBFGS) -> tuple[str, ...]:
    """Return the names of the arrays to be kept for each parameter."""
    return optimizer.slots if isinstance(optimizer, Optimizer) else ()
