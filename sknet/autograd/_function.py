"""Functions with a gradient of their own."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sknet.core import Shaped, Tensor, as_tensor, is_grad_enabled, no_grad
from sknet.core._bind import Node, make_tensor
from sknet.exceptions import GradientError, ShapeError

__all__ = ["Context", "Function"]


class Context:
    """What a `Function` carries from its forward to its backward.

    Attributes
    ----------
    saved : tuple of Tensor
        What `save_for_backward` was given. Any other attribute can be set freely.

    Examples
    --------
    >>> from sknet import Tensor
    >>> ctx = Context()
    >>> ctx.save_for_backward(Tensor([1.0]))
    >>> len(ctx.saved)
    1
    """

    def __init__(self) -> None:
        self.saved: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep `tensors` for the backward; inputs and the result stay differentiable there."""
        self.saved = tensors


class Function:
    """Base of functions that bring their own gradient.

    A subclass defines two static methods, ``forward(ctx, *inputs) -> Tensor`` and
    ``backward(ctx, gradient) -> Tensor`` (a tuple with one entry an input where there are several,
    None for an input without a gradient), and is called with ``apply``.

    Notes
    -----
    `forward` runs unrecorded. `backward` is recorded when a gradient of the gradient is asked for,
    so written in differentiable operations of what was saved (inputs, or the very tensor that
    `forward` returns), it has gradients of any order.

    Examples
    --------
    >>> from sknet import Function, Tensor
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         [x] = ctx.saved
    ...         return gradient * 3 * x * x
    >>> x = Tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad.item()
    12.0
    """

    @staticmethod
    def forward(ctx: Context, *inputs: Any) -> Tensor:
        """Compute the value at `inputs`; a subclass defines it, and saves in `ctx` what `backward` needs."""
        raise TypeError("a Function must define a static method forward(ctx, *inputs)")

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> Any:
        """Compute the inputs' gradients from the result's `gradient` and `ctx`; a subclass defines it."""
        raise TypeError("a Function must define a static method backward(ctx, gradient)")

    @classmethod
    def apply(cls, *inputs: Any) -> Tensor:
        """Call the function on tensors (and anything else, passed through).

        Parameters
        ----------
        *inputs : Tensor or object
            Arguments of `forward`.

        Returns
        -------
        Tensor
            What `forward` returned, with this function's gradient.

        Raises
        ------
        GradientError
            If `forward` or, later, `backward` returns something that does not fit.
        """
        ctx = Context()
        with no_grad():
            value = cls.forward(ctx, *inputs)
        if not isinstance(value, Tensor):
            raise GradientError(f"{cls.__name__}.forward must return one tensor, got {type(value).__name__}")
        parents = tuple(x.node if isinstance(x, Tensor) else None for x in inputs)
        if not is_grad_enabled() or not any(parents):
            return value.detach()
        call: Any = _OneCall(cls, ctx, inputs, value)
        return make_tensor(value.data, Node(call, parents, (), value.data, {}))


class _OneCall:
    """Stands where a primitive stands on the tape: one rule an input, all from one `backward`."""

    def __init__(
        self, function: type[Function], ctx: Context, inputs: tuple[Any, ...], value: Tensor
    ) -> None:
        self.name = function.__name__
        self._function, self._ctx = function, ctx
        self._inputs = [Shaped(x.shape, x.dtype) if isinstance(x, Tensor) else None for x in inputs]
        self._saved = ctx.saved
        self._is_value = [x is value for x in ctx.saved]

    @property
    def vjp(self) -> tuple[Callable[..., Tensor], ...]:
        """The rules of one backward walk; they share one call of `backward`."""
        shares: list[Any] = []

        def rule(i: int, g: Tensor, out: Tensor) -> Tensor:
            if not shares:
                shares.extend(self._backward(g, out))
            return self._checked(shares[i], i)

        return tuple([partial(rule, i) for i in range(len(self._inputs))])

    def _backward(self, g: Tensor, out: Tensor) -> tuple[Any, ...]:
        # The value that forward saved was not on the tape; the result is, so that it can be differentiated.
        pairs = zip(self._saved, self._is_value, strict=True)
        self._ctx.saved = tuple([out if is_value else x for x, is_value in pairs])
        try:
            shares = self._function.backward(self._ctx, g)
        finally:
            self._ctx.saved = self._saved
        shares = shares if isinstance(shares, tuple) else (shares,)
        if len(shares) != len(self._inputs):
            raise GradientError(
                f"{self.name}.backward must return one gradient for each of {len(self._inputs)} inputs, "
                f"got {len(shares)}"
            )
        return shares

    def _checked(self, share: Any, i: int) -> Tensor:
        operand: Any = self._inputs[i]
        if share is None:
            raise GradientError(
                f"{self.name}.backward returned None for input {i}, which requires a gradient"
            )
        found = as_tensor(share)
        if found.shape != operand.shape:
            raise ShapeError(
                f"{self.name}.backward: input {i} has shape {operand.shape}, its gradient {found.shape}"
            )
        return found if found.dtype == operand.dtype else found.astype(operand.dtype)
