"""Transforms of functions into their derivatives: gradients, products with Jacobians, and whole Jacobians."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from sknet import _tree
from sknet._constraints import is_integer, shown
from sknet._params import checked, named_errors
from sknet.core import Tensor, as_tensor, enable_grad, is_grad_enabled
from sknet.core._backward import newest_first, ones_like, pull_back, zeros_like
from sknet.device import is_array, to_device
from sknet.exceptions import DeviceError, GradientError, ShapeError
from sknet.ops import reshape, stack

# -- points and gradients ---------------------------------------------------------------------

Argnums = int | Sequence[int]


class Evaluation:
    """A function's value, connected on the tape to the arguments it is differentiated with respect to."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        positions: tuple[int, ...],
        has_aux: bool,
    ) -> None:
        for i in positions:
            if not 0 <= i < len(args):
                raise GradientError(
                    f"{name}: there is no positional argument {i}: the function was called with {len(args)}"
                )
        self._name = name
        self.is_recording = is_grad_enabled()
        with enable_grad():
            self._entries = {
                i: _tree.map_leaves(partial(_point, self.is_recording), args[i]) for i in positions
            }
            returned = function(*[self._entries.get(i, x) for i, x in enumerate(args)], **kwargs)
        self._value, self._rest, self._has_aux = *_split(name, returned, has_aux), has_aux
        self.points: list[Tensor] = [x for entry in self._entries.values() for x in _tree.leaves(entry)]
        self._value = _tree.map_leaves(partial(_output, name), self._value)
        self.outputs: list[Tensor] = _tree.leaves(self._value)
        self.is_connected = self._reaches_before(self.outputs)

    def _reaches_before(self, tensors: Sequence[Tensor]) -> bool:
        """Tell whether tensors were computed from anything that was on the tape before the points."""
        start = min((x.node.order for x in self.points if x.node is not None), default=0)
        nodes = [x.node for x in tensors if x.node is not None]
        return self.is_recording and bool(nodes) and newest_first(*nodes)[-1].order < start

    def scalar(self) -> Tensor:
        value = self._value
        if isinstance(value, Tensor) and value.size == 1:
            return value
        got = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise GradientError(
            f"{self._name}: the function must return a scalar tensor, got {got}: reduce it with .sum()"
        )

    def check_cotangents(self, given: Any) -> list[Tensor]:
        """Return the leaves of a tree that must be like the value."""
        return check_like(self._name, "the cotangents", given, self._value)

    def returned(self, *derivatives: Any) -> tuple[Any, ...]:
        value = self._value if self.is_connected else _tree.map_leaves(Tensor.detach, self._value)
        return (value, *derivatives, self.rest()) if self._has_aux else (value, *derivatives)

    def rest(self) -> Any:
        tensors = [x for x in _tree.leaves(self._rest) if isinstance(x, Tensor)]
        if self._reaches_before(tensors):
            return self._rest
        return _tree.map_leaves(lambda x: x.detach() if isinstance(x, Tensor) else x, self._rest)

    def like_arguments(self, shares: Sequence[Any]) -> tuple[Any, ...]:
        """Return one tree per argument, with `shares` in place of the points."""
        remaining = iter(shares)
        return tuple(_tree.rebuild(entry, remaining) for entry in self._entries.values())

    def like_value(self, parts: Sequence[Any]) -> Any:
        """Return a tree like the value, with `parts` instead of the outputs."""
        return _tree.rebuild(self._value, iter(parts))


def _split(name: str, returned: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise GradientError(
            f"{name}: under has_aux the function must return a pair (value, rest), "
            f"got {type(returned).__name__}"
        )
    return returned


def _output(name: str, x: Any) -> Tensor:
    if isinstance(x, Tensor) or is_array(x):  # an array was computed from constants alone
        return as_tensor(x)
    raise GradientError(f"{name}: the function must return tensors, got {type(x).__name__}")


def _point(connected: bool, x: Any) -> Tensor:
    """Return the tensor that is passed to the function: a new point of the tape."""
    given = as_tensor(x)
    if connected and given.requires_grad:
        return given.reshape(given.shape)
    return Tensor(given, requires_grad=True)


def argument_positions(argnums: Argnums) -> tuple[int, ...]:
    found = (argnums,) if is_integer(argnums) else tuple(argnums)
    if not found:
        raise ValueError("argnums must be the position of an argument, or several, got none")
    return found


def pulled_back(
    outputs: Sequence[Tensor], cotangents: Sequence[Tensor], points: Sequence[Tensor], create_graph: bool
) -> list[Tensor]:
    """Return the gradients at `points` of outputs weighted by cotangents; zeros where nothing arrives."""
    seeds = [(x.node, g) for x, g in zip(outputs, cotangents, strict=True) if x.node is not None]
    found = pull_back(seeds, {x.node for x in points}, create_graph) if seeds else {}
    return [found[x.node] if x.node in found else zeros_like(x) for x in points]


class Transposed:
    """The gradients at some points as a linear function of the outputs' cotangents, on the tape."""

    def __init__(self, outputs: Sequence[Tensor], points: Sequence[Tensor]) -> None:
        self._outputs = outputs
        self._cotangents = [Tensor(zeros_like(x), requires_grad=x.node is not None) for x in outputs]
        self._gradients = pulled_back(outputs, self._cotangents, points, create_graph=True)

    def pushed_forward(self, tangents: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
        """Return directional derivatives of the outputs, as the transpose of the vector-Jacobian product."""
        used = [x for x in self._cotangents if x.node is not None]
        found = iter(pulled_back(self._gradients, tangents, used, create_graph))
        return [zeros_like(x) if x.node is None else next(found) for x in self._cotangents]


def check_like(name: str, what: str, given: Any, expected: Any) -> list[Tensor]:
    """Return the leaves of a tree that must have the structure, shapes and devices of another."""
    paths, here = _tree.paths(expected), _tree.paths(given)
    if paths != here:
        raise GradientError(
            f"{name}: {what} must have the structure of what they belong to: expected leaves at "
            f"{shown(paths)}, got {shown(here)}"
        )
    found = []
    for path, leaf, other in zip(paths, _tree.leaves(given), _tree.leaves(expected), strict=True):
        x, like = as_tensor(leaf), as_tensor(other)
        place = f" at {path!r}" if path else ""
        if x.shape != like.shape:
            raise ShapeError(f"{name}: {what}{place} must have shape {like.shape}, got {x.shape}")
        if x.device != like.device:
            raise DeviceError(f"{name}: {what}{place} must be on '{like.device}', got '{x.device}'")
        found.append(x if x.dtype == like.dtype else x.astype(like.dtype))
    return found


# -- transforms -------------------------------------------------------------------------------


@checked
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
        Whether the function returns a pair of the scalar and any other object, which is returned, too.

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
        value, gradient, *rest = at.returned(found[0] if is_integer(argnums) else found)
        return (value, *rest) if has_aux else value, gradient

    return derivative


@checked
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
        ``(*args, **kwargs) -> gradient``, of the argument's structure; ``(gradient, rest)`` under `has_aux`.

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
    """Return the value of a function, and its vector-Jacobian product (VJP) as a function.

    Parameters
    ----------
    function : callable
        Takes trees of tensors, and returns a tree of tensors of any shapes.
    *primals : tree of Tensor
        Arguments of the function, which is differentiated with respect to all of them.
    has_aux : bool, default=False
        Whether the function returns a pair of the tree and anything else.

    Returns
    -------
    value : tree of Tensor
        Result of the function.
    pullback : callable
        ``pullback(cotangents) -> tuple``: from a tree like the value, the product of the transposed
        Jacobian with it; one tree for each of `primals`. It can be called several times.
    rest : object
        The other object; only with `has_aux`.

    Raises
    ------
    GradientError, ShapeError, DeviceError
        If the function returns anything other than tensors, or the cotangents do not fit.

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


@named_errors
def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return the value of a function, and its Jacobian-vector product (JVP): a directional derivative.

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
        Result of the function.
    derivative : tree of Tensor
        Like the value: the product of the Jacobian with the tangents.
    rest : object
        The other object; only with `has_aux`.

    Raises
    ------
    GradientError, ShapeError, DeviceError
        If the tangents do not fit the primals, or the function returns anything other than tensors.

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


@named_errors
def hvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """Return the Hessian-vector product (HVP) of a scalar function.

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
        return sum(parts[1:], start=parts[0])

    return grad(along, everywhere)(*primals)


# -- Jacobians and Hessians -------------------------------------------------------------------

Blocks = list[list[Tensor]]


@checked
def jacobian(
    function: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `function`, all its first derivatives.

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
        found = at.like_value([tree[0] for tree in trees] if is_integer(argnums) else trees)
        return (found, at.rest()) if has_aux else found

    return derivative


@checked
def hessian(function: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `function`, all its second derivatives.

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
    """Return one block per output and point, from one forward-mode pass per element of the points."""
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
