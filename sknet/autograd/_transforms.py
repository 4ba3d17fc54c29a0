"""Functions that turn a function into its derivative."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet import _tree
from sknet.autograd._points import (
    Argnums,
    Evaluation,
    Transposed,
    argument_positions,
    check_like,
    pulled_back,
)
from sknet.core import Tensor, is_grad_enabled
from sknet.core.extend import ones_like

__all__ = ["grad", "hvp", "jvp", "value_and_grad", "vjp"]


def value_and_grad(
    function: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that computes `function` and its gradient.

    Parameters
    ----------
    function : callable
        Takes tensors, or trees (dicts, lists, tuples) of tensors, and returns a scalar tensor.
    argnums : int or sequence of int, default=0
        Positions of the arguments to differentiate with respect to.
    has_aux : bool, default=False
        Whether the function returns a pair of the scalar and anything else, which is handed on.

    Returns
    -------
    callable
        ``(*args, **kwargs) -> (value, gradient)``; the gradient has the structure of the argument
        (a tuple of such for several), and ``(value, rest)`` stands for the value under `has_aux`. It
        can itself be differentiated.

    Raises
    ------
    GradientError
        If the function does not return a scalar tensor, or an argument is missing.
    DtypeError
        If an argument to differentiate with respect to is not floating.

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
    positions = argument_positions(argnums)

    def derivative(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        at = Evaluation("grad", function, args, kwargs, positions, has_aux)
        scalar = at.scalar()
        found = at.like_arguments(pulled_back([scalar], [ones_like(scalar)], at.points, at.is_connected))
        value, gradient, *rest = at.returned(found[0] if isinstance(argnums, (int, np.integer)) else found)
        return (value, *rest) if has_aux else value, gradient

    return derivative


def grad(function: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of `function`.

    Parameters
    ----------
    function : callable
        Takes tensors or trees of tensors, and returns a scalar tensor.
    argnums : int or sequence of int, default=0
        Positions of the arguments to differentiate with respect to.
    has_aux : bool, default=False
        Whether the function returns a pair of the scalar and anything else.

    Returns
    -------
    callable
        ``(*args, **kwargs) -> gradient``, of the argument's structure; ``(gradient, rest)`` under
        `has_aux`.

    See Also
    --------
    value_and_grad : Also returns the value.

    Examples
    --------
    >>> from sknet import Tensor, grad
    >>> grad(grad(lambda x: x ** 3))(Tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    def derivative(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return derivative


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the value of a function, and the function that pulls gradients back through it.

    Parameters
    ----------
    function : callable
        Takes trees of tensors, and returns a tree of tensors of any shapes.
    *primals : tree of Tensor
        Its arguments; it is differentiated by all of them.
    has_aux : bool, default=False
        Whether the function returns a pair of the tree and anything else.

    Returns
    -------
    value : tree of Tensor
        What the function returned.
    pullback : callable
        ``pullback(cotangents) -> tuple``: from a tree like the value, the product of the transposed
        Jacobian with it; one tree for each of `primals`. It can be called several times.
    rest : object
        Only under `has_aux`.

    Raises
    ------
    GradientError, ShapeError, DeviceError
        If the function returns something else than tensors, or the cotangents do not fit.

    Examples
    --------
    >>> from sknet import Tensor, ops
    >>> from sknet.autograd import vjp
    >>> value, pullback = vjp(lambda x, y: {"product": x * y, "sum": x + y}, Tensor(2.0), Tensor(3.0))
    >>> [g.item() for g in pullback({"product": 10.0, "sum": 1.0})]
    [31.0, 21.0]
    """
    at = Evaluation("vjp", function, primals, {}, tuple(range(len(primals))), has_aux)

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        given = at.check_cotangents(cotangents)
        again = is_grad_enabled() and (at.is_connected or any(x.requires_grad for x in given))
        return at.like_arguments(pulled_back(at.outputs, given, at.points, again))

    return at.returned(pullback)


def jvp(
    function: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return the value of a function, and its derivative in a direction.

    Parameters
    ----------
    function : callable
        Takes trees of tensors, and returns a tree of tensors of any shapes.
    primals : sequence of trees of Tensor
        Its arguments.
    tangents : sequence of trees of Tensor
        The direction, with the structure and shapes of `primals`.
    has_aux : bool, default=False
        Whether the function returns a pair of the tree and anything else.

    Returns
    -------
    value : tree of Tensor
        What the function returned.
    derivative : tree of Tensor
        Like the value: the product of the Jacobian with the tangents.
    rest : object
        Only under `has_aux`.

    Raises
    ------
    GradientError, ShapeError, DeviceError
        If the tangents do not fit the primals, or the function returns something else than tensors.

    Notes
    -----
    The transposed Jacobian's product with u is linear in u; its transpose, the Jacobian itself, comes
    from reverse mode once more, and u drops out. So it costs two backward passes instead of a forward
    pass, and works for every operation that has a second derivative.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.autograd import jvp
    >>> value, derivative = jvp(lambda x: x ** 3, (Tensor([1.0, 2.0]),), (Tensor([1.0, 10.0]),))
    >>> derivative.numpy()
    array([  3., 120.])
    """
    primals, tangents = tuple(primals), tuple(tangents)
    given = check_like("jvp", "the tangents", tangents, primals)
    at = Evaluation("jvp", function, primals, {}, tuple(range(len(primals))), has_aux)
    again = at.is_connected or (at.is_recording and any(x.requires_grad for x in given))
    found = Transposed(at.outputs, at.points).pushed_forward(given, again)
    return at.returned(at.like_value(found))


def hvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, ...]:
    """Return the product of a scalar function's Hessian with a vector.

    Parameters
    ----------
    function : callable
        Takes trees of tensors, and returns a scalar tensor.
    primals : sequence of trees of Tensor
        Its arguments.
    tangents : sequence of trees of Tensor
        The vector, with the structure and shapes of `primals`.

    Returns
    -------
    tuple of trees of Tensor
        Like `primals`.

    Raises
    ------
    GradientError, ShapeError, DeviceError
        If the tangents do not fit the primals, or the function does not return a scalar tensor.

    Notes
    -----
    The gradient of the gradient's product with the vector (B. Pearlmutter, Neural Computation 1994):
    two backward passes, and no Hessian.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.autograd import hvp
    >>> [product] = hvp(lambda x: (x ** 3).sum(), (Tensor([1.0, 2.0]),), (Tensor([1.0, 1.0]),))
    >>> product.numpy()
    array([ 6., 12.])
    """
    primals = tuple(primals)
    given = check_like("hvp", "the tangents", tuple(tangents), primals)
    everywhere = tuple(range(len(primals)))
    slope = grad(function, everywhere)

    def along(*points: Any) -> Tensor:
        parts = [(g * v).sum() for g, v in zip(_tree.leaves(slope(*points)), given, strict=True)]
        total: Tensor = sum(parts[1:], start=parts[0])
        return total

    return grad(along, everywhere)(*primals)  # type: ignore[no-any-return]
