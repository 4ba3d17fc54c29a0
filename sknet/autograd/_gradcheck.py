"""Gradients against central differences."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sknet import _tree
from sknet._constraints import shown
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
        Takes as many arguments as there are inputs, returns a tensor, or a tree of tensors, of any shapes.
    inputs : sequence of Tensor, array or tree of such
        The point, in float64 (differences in float32 prove nothing) and away from kinks.
    order : {1, 2}, default=2
        Also check the gradient's own gradient.
    step : float, default=1e-5
        Half the distance between the two points whose values are compared.
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
    if order not in (1, 2):
        raise GradientError(f"gradcheck: order must be 1 or 2, got {shown(order)}")
    given = tuple(inputs)
    points = [as_tensor(x).detach() for x in _tree.leaves(given)]
    names = _tree.paths(given)
    if not points:
        raise GradientError(
            "gradcheck: expected at least one input to differentiate with respect to, got none"
        )
    for name, x in zip(names, points, strict=True):
        if x.dtype != np.float64:
            raise GradientError(
                f"gradcheck: input {name} must be float64, got {x.dtype}: use .astype('float64')"
            )
    rng = np.random.default_rng(random_state)

    def projected(*tensors: Tensor) -> Tensor:
        """Return the weighted sum of all that the function returns."""
        weights = np.random.default_rng(random_state + 1)
        outs = [as_tensor(x) for x in _tree.leaves(function(*_tree.rebuild(given, iter(tensors))))]
        parts = [(out * _direction(out, weights)).sum() for out in outs]
        total: Tensor = sum(parts[1:], start=parts[0])
        return total

    _check(projected, points, names, rng, step, rtol, atol, "first")
    if order == 2:
        directions = [_direction(x, rng) for x in points]

        def slope(*tensors: Tensor) -> Tensor:
            shares = _gradients(projected, tensors, create_graph=True)
            parts = [(share * v).sum() for share, v in zip(shares, directions, strict=True)]
            total: Tensor = sum(parts[1:], start=parts[0])
            return total

        _check(slope, points, names, rng, step, rtol, atol, "second")
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
    names: list[str],
    rng: np.random.Generator,
    step: float,
    rtol: float,
    atol: float,
    which: str,
) -> None:
    leaves = [Tensor(x.data, requires_grad=True) for x in points]
    found = _gradients(function, leaves, create_graph=False)
    for i, (name, x) in enumerate(zip(names, points, strict=True)):
        if found[i].shape != x.shape:
            raise GradientError(
                f"gradcheck: the gradient of input {name} has shape {found[i].shape}, the input {x.shape}"
            )
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
                f"gradcheck: {which} derivative with respect to input {name} of shape {x.shape}: "
                f"expected {expected:.8g} by central differences, got {got:.8g}"
            )
