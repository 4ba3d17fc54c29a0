"""Checks of gradients: against central differences, and for the origin of NaN and infinity."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from sknet import _tree
from sknet._constraints import shown
from sknet._parallel import Lock
from sknet._params import named_errors
from sknet.autograd._function import Bundle
from sknet.core import Primitive, Tensor, as_tensor, enable_grad, gradients, user_line
from sknet.core._backward import exchange_push, notes_of, push
from sknet.core._tape import Context, Node, line_of, modes
from sknet.core._tape import shown as shown_line
from sknet.device import Backend, MetaArray, backend_of, is_array, to_device
from sknet.exceptions import GradientError, NonFiniteError

# -- gradients against differences ------------------------------------------------------------


@named_errors
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
        Function of as many arguments as there are inputs; it returns a tensor, or a tree of tensors, of any
        shapes.
    inputs : sequence of Tensor, array or tree of such
        Arguments of the function, in float64 (differences in float32 are too inaccurate) and away from kinks.
    order : {1, 2}, default=2
        Order of derivatives to check; 2 also checks the gradient of the gradient.
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
        If an input is not float64, or a derivative is wrong; the message names the input, the order and both
        values.

    Notes
    -----
    One random direction checks all elements at once: a wrong element goes unnoticed with probability 0.

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
    step, seed = float(step), index(random_state)
    if not step > 0 or seed < 0:
        raise ValueError(
            f"gradcheck: step must be above 0 and random_state at least 0, got step={step} and "
            f"random_state={seed}"
        )
    rng = np.random.default_rng(seed)

    def projected(*tensors: Tensor) -> Tensor:
        """Return the weighted sum of all that the function returns."""
        weights = np.random.default_rng(seed + 1)
        outs = [as_tensor(x) for x in _tree.leaves(function(*_tree.rebuild(given, iter(tensors))))]
        parts = [(out * _direction(out, weights)).sum() for out in outs]
        return sum(parts[1:], start=parts[0])

    _check(projected, points, names, rng, step, rtol, atol, "first")
    if order == 2:
        directions = [_direction(x, rng) for x in points]

        def slope(*tensors: Tensor) -> Tensor:
            shares = _gradients(projected, tensors, create_graph=True)
            parts = [(share * v).sum() for share, v in zip(shares, directions, strict=True)]
            return sum(parts[1:], start=parts[0])

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


# -- anomaly mode -----------------------------------------------------------------------------
#
# While it is on, three functions of `core` are replaced by ones that check what they compute; while it is
# off, it costs nothing.

_forward_on = Primitive.forward_on
_init = Node.__init__
_lock = Lock()
_entered = 0


class detect_anomaly(Context):
    """Stop at the operation that first produces a NaN or an infinity, and name its line of code.

    In the forward pass that is the operation itself; in the backward pass, the operation whose gradient is
    computed. NaN and infinities that come from the data are not reported. Every result is checked, which
    makes computing several times slower; compiled programs are not checked. Use it as a context manager or
    a decorator; it applies to the current thread only.

    Raises
    ------
    NonFiniteError
        At the operation.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.autograd import detect_anomaly
    >>> x = Tensor([1.0, 0.0], requires_grad=True)
    >>> with detect_anomaly():
    ...     x.sqrt().sum().backward()
    Traceback (most recent call last):
        ...
    sknet.exceptions.NonFiniteError: gradient of sqrt, recorded in <doctest ...>, line 2: ...
    """

    def __init__(self) -> None:
        self._before: list[bool] = []

    def _enter(self) -> None:
        global _entered
        with _lock:
            _entered += 1
            _exchange(_watched_forward_on, _placed_init, _watched_push)
        self._before.append(modes.anomaly)
        modes.anomaly = True

    def _leave(self) -> None:
        global _entered
        modes.anomaly = self._before.pop()
        with _lock:
            _entered -= 1
            if not _entered:
                _exchange(_forward_on, _init, push)


def _exchange(forward_on: Any, init: Any, hand_on: Any) -> None:
    Primitive.forward_on = forward_on  # type: ignore[method-assign]
    Node.__init__ = init  # type: ignore[method-assign]
    exchange_push(hand_on)


def _placed_init(node: Node, *args: Any, **kwargs: Any) -> None:
    """Note where in the user's code a node is recorded."""
    _init(node, *args, **kwargs)
    if modes.anomaly:
        notes_of(node).line = line_of()


def _watched_forward_on(primitive: Primitive, owner: Backend) -> Callable[..., Any]:
    forward = _forward_on(primitive, owner)
    return partial(_watched, primitive, owner, forward) if modes.anomaly else forward


def _watched(
    primitive: Primitive, owner: Backend, forward: Callable[..., Any], *operands: Any, **params: Any
) -> Any:
    """Compute, and check the result."""
    with np.errstate(all="ignore"):  # NumPy's warnings would come first, and say less
        out = forward(*operands, **params)
    if not modes.anomaly:  # the forward was looked up in anomaly mode, but is called after it
        return out
    found = _born([out], [x.data if owner.is_sparse(x) else x for x in operands])
    if found:
        shapes = ", ".join([f"{x.dtype}{tuple(x.shape)}" for x in operands if hasattr(x, "dtype")])
        raise NonFiniteError(f"{primitive.name}: {found} comes from finite operands {shapes}, {user_line()}")
    return out


def _watched_push(
    node: Node, g: Any, changed: bool, pending: dict[Node, Any], needed: set[Node] | None
) -> None:
    """Pass a gradient on; if that fails, name the operation that it belongs to."""
    if not modes.anomaly:
        push(node, g, changed, pending, needed)
        return
    line = notes_of(node).line
    where = f"gradient of {node.primitive.name}, recorded "  # type: ignore[union-attr]
    where += shown_line(line) if line else "before anomaly mode was on"
    try:
        push(node, g, changed, pending, needed)
    except NonFiniteError as error:
        raise NonFiniteError(f"{where}: {error}") from error
    given = [*_arrays(g), *_arrays(node.inputs)]
    for i, parent in enumerate(node.parents):  # of a custom Function, whose arithmetic is not checked
        found = parent is not None and _born(_arrays(pending.get(parent)), given)
        if found:
            raise NonFiniteError(f"{where}: {found} in the gradient of input {i}")


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, Bundle):
        value = tuple(value.parts.values())
    for part in value if isinstance(value, tuple) else (value,):
        array = part.data if isinstance(part, Tensor) else part
        if not isinstance(array, MetaArray) and is_array(array):
            yield array


def _born(results: Any, operands: Any) -> str:
    """Return "nan" or "inf" if the results have one and no operand does, or else an empty string."""
    made = [_content(x) for x in results]
    given = [_content(x) for x in operands]
    if any(nan for nan, _ in made) and not any(nan for nan, _ in given):
        return "nan"
    if any(inf for _, inf in made) and not any(nan or inf for nan, inf in given):
        return "inf"
    return ""


def _content(x: Any) -> tuple[bool, bool]:
    """Tell whether an operand holds NaN, and whether it holds an infinity."""
    if isinstance(x, float):
        return math.isnan(x), math.isinf(x)
    if getattr(getattr(x, "dtype", None), "kind", "") != "f" or isinstance(x, MetaArray):
        return False, False
    if isinstance(x, np.generic):
        return bool(np.isnan(x)), bool(np.isinf(x))
    owner = backend_of(x)
    with owner.activate(owner.device_of(x)):
        tests = [owner.xp.asarray(test(x).any()) for test in (owner.xp.isnan, owner.xp.isinf)]
    nan, inf = [bool(owner.to_host(test)) for test in tests]
    return nan, inf
