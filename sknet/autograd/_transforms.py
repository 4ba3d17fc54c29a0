"""Functions that turn a function into its derivative."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sknet import _tree
from sknet.core import Tensor, as_tensor, enable_grad, gradients, is_grad_enabled
from sknet.core._backward import newest_first
from sknet.exceptions import GradientError

__all__ = ["grad", "value_and_grad"]

Argnums = int | Sequence[int]


def value_and_grad(
    function: Callable[..., Tensor], argnums: Argnums = 0
) -> Callable[..., tuple[Tensor, Any]]:
    """Return a function that computes `function` and its gradient.

    Parameters
    ----------
    function : callable
        Takes tensors, or trees (dicts, lists, tuples) of tensors, and returns a scalar tensor.
    argnums : int or sequence of int, default=0
        Positions of the arguments to differentiate by.

    Returns
    -------
    callable
        ``(*args, **kwargs) -> (value, gradient)``; the gradient has the structure of the argument
        (a tuple of such for several). It can itself be differentiated.

    Raises
    ------
    GradientError
        If the function does not return a scalar tensor, or an argument is missing.
    DtypeError
        If an argument to differentiate by is not floating.

    Notes
    -----
    The arguments are not touched: neither their `grad` nor their `requires_grad` changes. An
    argument on which the value does not depend has a gradient of zeros.

    Examples
    --------
    >>> from sknet import Tensor, value_and_grad
    >>> value, gradient = value_and_grad(lambda x: (x ** 3).sum())(Tensor([1.0, 2.0]))
    >>> value.item(), gradient.numpy()
    (9.0, array([ 3., 12.]))
    """
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def derivative(*args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        connected = is_grad_enabled()
        with enable_grad():
            entries = {i: _tree.map_leaves(partial(_entry, connected), _argument(args, i)) for i in positions}
            flat = [x for i in positions for x in _tree.leaves(entries[i])]
            value = _scalar(function(*[entries.get(i, x) for i, x in enumerate(args)], **kwargs))
            # Computed from tensors of the caller's too? Then the gradients must stay connected to them.
            again = connected and _reaches_before(value, flat)
            shares = iter(_gradients_or_zeros(value, flat, again))
        found = tuple(_tree.rebuild(entries[i], shares) for i in positions)
        return value if again else value.detach(), found[0] if isinstance(argnums, int) else found

    return derivative


def grad(function: Callable[..., Tensor], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the gradient of `function`.

    Parameters
    ----------
    function : callable
        Takes tensors or trees of tensors, and returns a scalar tensor.
    argnums : int or sequence of int, default=0
        Positions of the arguments to differentiate by.

    Returns
    -------
    callable
        ``(*args, **kwargs) -> gradient``, of the argument's structure.

    See Also
    --------
    value_and_grad : Also returns the value.

    Examples
    --------
    >>> from sknet import Tensor, grad
    >>> grad(grad(lambda x: x ** 3))(Tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(function, argnums)
    return lambda *args, **kwargs: both(*args, **kwargs)[1]


def _argument(args: tuple[Any, ...], i: int) -> Any:
    if not 0 <= i < len(args):
        raise GradientError(
            f"grad: there is no positional argument {i}: the function was called with {len(args)}"
        )
    return args[i]


def _entry(connected: bool, x: Any) -> Tensor:
    """Return the tensor that the function sees: a fresh point of the tape."""
    point = as_tensor(x)
    if connected and point.requires_grad:
        return point.reshape(point.shape)
    return Tensor(point, requires_grad=True)


def _scalar(value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.size == 1:
        return value
    got = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
    raise GradientError(f"grad: the function must return a scalar tensor, got {got}: reduce it with .sum()")


def _reaches_before(value: Tensor, entries: list[Tensor]) -> bool:
    """Tell whether `value` was computed from anything that was on the tape before the entries."""
    start = min((x.node.order for x in entries if x.node is not None), default=0)
    return value.node is not None and newest_first(value.node)[-1].order < start


def _gradients_or_zeros(value: Tensor, inputs: list[Tensor], again: bool) -> list[Tensor]:
    if value.node is None:
        return [x.detach() * 0.0 for x in inputs]
    return gradients(value, inputs, create_graph=again)
