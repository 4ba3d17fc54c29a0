"""Functions that turn a function into its derivative."""

from collections.abc import Callable, Sequence
from typing import Any

from sknet import _tree
from sknet.core import Tensor, as_tensor, enable_grad, gradients, leaf_node
from sknet.core import is_grad_enabled
from sknet.exceptions import GradientError

__all__ = ["grad", "value_and_grad"]

Argnums = int | Sequence[int]


def value_and_grad(function: Callable[..., Tensor], argnums: Argnums = 0) -> Callable[..., tuple[Tensor, Any]]:
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
        If the function does not return a scalar tensor.

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
        # Differentiated once more, the gradients must stay connected to the caller's tensors.
        again = is_grad_enabled() and any(
            x.requires_grad for i in positions for x in _tree.leaves(args[i]) if isinstance(x, Tensor)
        )
        with enable_grad():
            inner = list(args)
            for i in positions:
                inner[i] = _tree.map_leaves(lambda x: _entry(x, again), args[i])
            value = function(*inner, **kwargs)
            if not isinstance(value, Tensor) or value.size != 1:
                got = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
                raise GradientError(f"grad: the function must return a scalar tensor, got {got}: reduce it with .sum()")
            flat = [x for i in positions for x in _tree.leaves(inner[i])]
            shares = iter(_gradients_or_zeros(value, flat, again))
            found = tuple(_tree.rebuild(inner[i], shares) for i in positions)
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


def _entry(x: Any, connected: bool) -> Tensor:
    """Return the tensor that the function sees: a fresh point of the tape."""
    x = as_tensor(x)
    if connected and x.requires_grad:
        return x.reshape(x.shape)
    entry = x.detach()
    entry.node = leaf_node(entry)
    return entry


def _gradients_or_zeros(value: Tensor, inputs: list[Tensor], again: bool) -> list[Tensor]:
    if value.node is None:
        return [x.detach() * 0.0 for x in inputs]
    return gradients(value, inputs, create_graph=again)
