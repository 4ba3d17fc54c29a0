"""One optimizer update over flat buffers, and the check before it."""

import math
from collections.abc import Mapping
from typing import Any

from sknet.core import Tensor, no_grad
from sknet.device import namespace
from sknet.engine._layout import Gradient
from sknet.exceptions import NonFiniteError, StateError
from sknet.optim import Optimizer
from sknet.optim.schedules import Progress

__all__ = ["apply_rule", "check_finite_step"]

CHUNK = 1 << 15  # elements updated at once, so that a rule's temporaries stay in the cache


def apply_rule(
    optimizer: Optimizer, progress: Progress, gradient: Any, flat: Any, slots: Mapping[str, Any], delta: Any
) -> None:
    """Run an optimizer's rule over flat buffers.

    Parameters
    ----------
    optimizer : Optimizer
        Whose rule.
    progress : Progress
        Where the fit stands, before this update.
    gradient, flat : array of shape (size,)
        Gradient and parameters; read.
    slots : mapping of str to array of shape (size,)
        The optimizer's state; overwritten.
    delta : array of shape (size,)
        Overwritten with what is to be added to the parameters.
    """
    hyper = optimizer.hyper(progress.step + 1, progress)
    kept = [slots[name] for name in optimizer.slots]
    with no_grad():
        for start in range(0, flat.shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            before = tuple([Tensor(array[part]) for array in kept])
            change, after = optimizer.rule(Tensor(gradient[part]), Tensor(flat[part]), before, hyper)
            if len(after) != len(kept):  # found before the first is written
                raise StateError(
                    f"{type(optimizer).__name__}.rule returned {len(after)} slots, it names {len(kept)}: "
                    f"{optimizer.slots}"
                )
            delta[part] = change.data
            for array, value in zip(kept, after):  # noqa: B905  the lengths were compared
                array[part] = value.data


def check_finite_step(loss: float, gradient: Gradient) -> None:
    """Raise for a loss or gradient that is not finite.

    Parameters
    ----------
    loss : float
        The objective.
    gradient : Gradient
        Its gradient.

    Raises
    ------
    NonFiniteError
        Names the first parameter whose gradient is not finite.
    """
    # One pass decides nearly always; it can overflow for a finite gradient, so a failure is looked at twice.
    xp = namespace(gradient.flat)
    if math.isfinite(loss) and math.isfinite(xp.vdot(gradient.flat, gradient.flat).item()):
        return
    bad = [name for name, array in gradient.items() if not xp.all(xp.isfinite(array)).item()]
    if math.isfinite(loss) and not bad:
        return
    where = f"the gradient of parameter {bad[0]!r} is not finite" if bad else "all gradients are finite"
    raise NonFiniteError(
        f"the loss is {loss:g} and {where}; nothing was updated. Scale the inputs, lower the "
        "learning rate, or look for invalid targets",
        parameter=bad[0] if bad else None,
    )
