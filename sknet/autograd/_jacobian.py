"""Whole Jacobians and Hessians."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sknet.autograd._points import Argnums, Evaluation, Transposed, argument_positions, pulled_back
from sknet.core import Tensor
from sknet.core.extend import zeros_like
from sknet.device import to_device
from sknet.ops import reshape, stack

__all__ = ["hessian", "jacobian"]

Blocks = list[list[Tensor]]


def jacobian(
    function: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes all derivatives of `function`.

    Parameters
    ----------
    function : callable
        Takes tensors or trees of tensors, and returns a tensor, or a tree of tensors, of any shapes.
    argnums : int or sequence of int, default=0
        Positions of the arguments to differentiate with respect to.
    has_aux : bool, default=False
        Whether the function returns a pair of the tree and anything else.

    Returns
    -------
    callable
        ``(*args, **kwargs) -> jacobian``: for every tensor that the function returns, a tree
        like the argument (a tuple of such for several) of tensors whose shape is the result's followed by
        the argument's; ``(jacobian, rest)`` under `has_aux`. It can itself be differentiated.

    Raises
    ------
    GradientError
        If the function returns anything other than tensors, or an argument is missing.

    Notes
    -----
    If the outputs have no more elements than the arguments, one backward pass per element of the outputs;
    otherwise one per element of the arguments, through the transposed computation (as for `jvp`).

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.autograd import jacobian
    >>> jacobian(lambda x: x ** 2)(Tensor([1.0, 2.0])).numpy()
    array([[2., 0.],
           [0., 4.]])
    """
    positions = argument_positions(argnums)

    def derivative(*args: Any, **kwargs: Any) -> Any:
        at = Evaluation("jacobian", function, args, kwargs, positions, has_aux)
        is_wide = _total(at.outputs) <= _total(at.points)
        blocks = _by_rows(at) if is_wide else _by_columns(at)
        trees = [at.like_arguments(row) for row in blocks]
        found = at.like_value(
            [tree[0] for tree in trees] if isinstance(argnums, (int, np.integer)) else trees
        )
        return (found, at.rest()) if has_aux else found

    return derivative


def hessian(function: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes all second derivatives of `function`.

    Parameters
    ----------
    function : callable
        Takes tensors or trees of tensors, and returns a tensor, most often a scalar.
    argnums : int or sequence of int, default=0
        Positions of the arguments to differentiate with respect to.

    Returns
    -------
    callable
        ``(*args, **kwargs) -> hessian``: the `jacobian` of the `jacobian`. For a scalar function of one
        tensor, a tensor of twice its shape; for trees, a tree of trees.

    See Also
    --------
    hvp : The product with a vector, at the cost of a gradient.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.autograd import hessian
    >>> hessian(lambda x: x[0] ** 2 * x[1])(Tensor([3.0, 5.0])).numpy()
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    return jacobian(jacobian(function, argnums), argnums)


def _total(tensors: list[Tensor]) -> int:
    return sum(x.size for x in tensors)


def _units(x: Tensor) -> Iterator[Tensor]:
    """Yield tensors like `x` with a one in one place, and zeros elsewhere."""
    for k in range(x.size):
        host = np.zeros(x.size, x.dtype)
        host[k] = 1
        yield Tensor(to_device(host.reshape(x.shape), x.device))


def _by_rows(at: Evaluation) -> Blocks:
    """Return one block per output and point, from one backward pass per element of the outputs."""

    def row(out: Tensor) -> list[Tensor]:
        passes = [pulled_back([out], [unit], at.points, at.is_connected) for unit in _units(out)]
        return [_stacked([found[j] for found in passes], 0, out, x) for j, x in enumerate(at.points)]

    return [row(out) for out in at.outputs]


def _by_columns(at: Evaluation) -> Blocks:
    """Return the same, from one pass through the transposed computation per element of the points."""
    transposed = Transposed(at.outputs, at.points)
    zeros = [zeros_like(x) for x in at.points]

    def column(j: int, x: Tensor) -> list[Tensor]:
        directions = [[*zeros[:j], unit, *zeros[j + 1 :]] for unit in _units(x)]
        passes = [transposed.pushed_forward(direction, at.is_connected) for direction in directions]
        return [_stacked([found[i] for found in passes], -1, out, x) for i, out in enumerate(at.outputs)]

    columns = [column(j, x) for j, x in enumerate(at.points)]
    return [list(row) for row in zip(*columns, strict=True)]


def _stacked(parts: list[Tensor], axis: int, out: Tensor, x: Tensor) -> Tensor:
    """Return the derivatives of `out` with respect to `x` in one tensor, from the results of the passes."""
    shape = out.shape + x.shape
    if not parts:
        return Tensor(to_device(np.zeros(shape, out.dtype), x.device))
    return reshape(stack(parts, axis), shape)
