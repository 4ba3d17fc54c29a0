"""Gradients against central differences."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sknet.core import Tensor, as_tensor, enable_grad, gradients
from sknet.device import to_device
from sknet.exceptions import GradientError

__all__ = ["gradcheck"]


def gradcheck(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    order: int = 2,
    step: float = 1e-5,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    random_state: int = 0,
) -> bool:
    """Compare the gradients of `function` with central differences, along random directions.

    Parameters
    ----------
    function : callable
        Takes as many tensors as there are inputs, returns one tensor of any shape.
    inputs : sequence of Tensor or array
        The point; float64, for differences of float32 prove nothing. Away from kinks.
    order : {1, 2}, default=2
        Also check the gradient's own gradient.
    step : float, default=1e-5
        Half the distance of the two points whose values are compared.
    rtol, atol : float
        Allowed relative and absolute error of a directional derivative.
    random_state : int, default=0
        Seed of the directions.

    Returns
    -------
    bool
        True; anything else raises.

    Raises
    ------
    GradientError
        If an input is not float64, or a derivative is wrong: names the input, the order and both values.

    Notes
    -----
    One direction checks all elements at once: a wrong element has probability 0 of going unseen.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.autograd import gradcheck
    >>> gradcheck(ops.exp, [np.array([0.5, -1.0])])
    True
    """
    points = [as_tensor(x).detach() for x in inputs]
    if order not in (1, 2):
        raise GradientError(f"gradcheck: order must be 1 or 2, got {order!r}")
    if not points:
        raise GradientError("gradcheck: expected at least one input to differentiate by, got none")
    for i, x in enumerate(points):
        if x.dtype != np.float64:
            raise GradientError(
                f"gradcheck: input {i} must be float64, got {x.dtype}: use .astype('float64')"
            )
    rng = np.random.default_rng(random_state)

    def projected(*tensors: Tensor) -> Tensor:
        out = as_tensor(function(*tensors))
        weights = np.random.default_rng(random_state + 1).standard_normal(out.shape)
        return (out * Tensor(to_device(np.asarray(weights), out.device))).sum()

    _check(projected, points, rng, step, rtol, atol, "first")
    if order == 2:
        directions = [_direction(x, rng) for x in points]

        def slope(*tensors: Tensor) -> Tensor:
            shares = _gradients(projected, tensors, create_graph=True)
            total = (shares[0] * directions[0]).sum()
            for share, direction in zip(shares[1:], directions[1:], strict=True):
                total = total + (share * direction).sum()
            return total

        _check(slope, points, rng, step, rtol, atol, "second")
    return True


def _direction(x: Tensor, rng: np.random.Generator) -> Tensor:
    return Tensor(to_device(np.asarray(rng.standard_normal(x.shape)), x.device))


def _gradients(function: Callable[..., Tensor], points: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    with enable_grad():
        value = function(*points)
    if value.node is None:  # does not depend on the inputs differentiably: all zeros
        return [x.detach() * 0.0 for x in points]
    return gradients(value, points, create_graph=create_graph)


def _check(
    function: Callable[..., Tensor],
    points: list[Tensor],
    rng: np.random.Generator,
    step: float,
    rtol: float,
    atol: float,
    name: str,
) -> None:
    leaves = [Tensor(x.data, requires_grad=True) for x in points]
    found = _gradients(function, leaves, create_graph=False)
    for i, x in enumerate(points):
        if found[i].shape != x.shape:
            raise GradientError(f"gradcheck: gradient {i} has shape {found[i].shape}, its input {x.shape}")
        direction = _direction(x, rng)
        ahead, behind = (
            function(
                *[
                    Tensor((p + direction * h).data if j == i else p.data, requires_grad=True)
                    for j, p in enumerate(points)
                ]
            ).item()
            for h in (step, -step)
        )
        expected = (ahead - behind) / (2 * step)
        got = (found[i] * direction).sum().item()
        if not abs(got - expected) <= atol + rtol * abs(expected):
            raise GradientError(
                f"gradcheck: {name} derivative with respect to input {i} of shape {x.shape}: "
                f"expected {expected:.8g} by central differences, got {got:.8g}"
            )
