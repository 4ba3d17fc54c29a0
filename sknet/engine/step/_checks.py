"""What arithmetic would take in without a word, found before anything is computed with it."""

from collections.abc import Iterable

from sknet.core import Tensor
from sknet.core._backward import newest_first
from sknet.device import namespace
from sknet.exceptions import GradientError
from sknet.losses import Loss

__all__ = ["check_reached", "check_targets", "check_weights"]


def check_targets(loss: Loss, y: Tensor) -> None:
    """Let the loss look at negative integers: as class numbers they would count from the end.

    Parameters
    ----------
    loss : Loss
        Raises a ValueError if it cannot be asked for such targets.
    y : Tensor of shape (n_samples, ...)
        Targets.
    """
    if y.dtype.kind == "i" and y.size and _least(y) < 0:
        loss.check_target(y.numpy())


def check_weights(weight: Tensor) -> None:
    """Raise a ValueError for weights of which one is negative, or none is positive.

    Parameters
    ----------
    weight : Tensor of shape (n_samples,)
        Sample weights; a NaN passes, the loss will show it.
    """
    if weight.size and _least(weight) < 0:
        raise ValueError(f"sample_weight must not be negative, got {_least(weight):g}")
    if not namespace(weight.data).any(weight.data).item():
        raise ValueError("sample_weight: at least one weight must be positive, got zeros only")


def _least(x: Tensor) -> float:
    return namespace(x.data).min(x.data, axis=None).item()  # type: ignore[no-any-return]


def check_reached(loss: Tensor, leaves: Iterable[Tensor]) -> None:
    """Raise a GradientError unless a loss was computed from at least one of the leaves.

    Parameters
    ----------
    loss : Tensor
        On the tape.
    leaves : iterable of Tensor
        A model's parameters.
    """
    tape = set() if loss.node is None else set(newest_first(loss.node))
    if not any(leaf.node in tape for leaf in leaves):
        raise GradientError(
            "the loss does not depend on this model's parameters: compute it from this model's output, "
            "model.loss(model(X), y), and not inside no_grad"
        )
