"""Calls recorded as one node of the tape: functions with a custom gradient, and checkpoints."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from sknet import _tree
from sknet.core import Shaped, Tensor, as_tensor, enable_grad, is_grad_enabled, no_grad
from sknet.core._backward import newest_first, pull_back, zeros_like
from sknet.core._tape import Node, first_run, next_time
from sknet.core._tensor import make_tensor
from sknet.exceptions import GradientError, ShapeError

# -- calls with several results ---------------------------------------------------------------
#
# A node has one result. A call with several results is a node without a tensor, and each result is a node
# above it that selects one: it passes its gradient down in a `Bundle`, the bundles of all results are
# added, and the call's rules see them together.

Rule = Callable[..., Tensor | None]


class Bundle:
    """The gradients of some results of a call, by their number."""

    def __init__(self, parts: dict[int, Tensor]) -> None:
        self.parts = parts

    def __add__(self, other: "Bundle") -> "Bundle":
        both = dict(self.parts)
        for i, g in other.parts.items():
            both[i] = both[i] + g if i in both else g
        return Bundle(both)


class Call(ABC):
    """Takes the place of a primitive on the tape: one rule per input, all from one call of `shares`."""

    def __init__(self, name: str, n_inputs: int) -> None:
        self.name = name
        self._n_inputs = n_inputs

    @abstractmethod
    def shares(self, bundle: Bundle, out: Any, *inputs: Any) -> Sequence[Tensor | None]:
        """Return one gradient per input."""

    @property
    def vjp(self) -> tuple[Rule, ...]:
        """The rules of one backward walk."""
        found: list[Sequence[Tensor | None]] = []

        def rule(i: int, bundle: Bundle, out: Any, *inputs: Any) -> Tensor | None:
            if not found:
                found.append(self.shares(bundle, out, *inputs))
            return found[0][i]

        return tuple([partial(rule, i) for i in range(self._n_inputs)])


class _Pick:
    """One result of a call."""

    def __init__(self, name: str, i: int) -> None:
        self.name = name
        self.vjp = (lambda g, out: Bundle({i: g}),)


def result(call: Node, i: int, value: Any) -> Tensor:
    """Return the result number `i` of a call, whose array is `value`, as a tensor on the tape."""
    primitive: Any = _Pick(call.primitive.name, i)  # type: ignore[union-attr]
    return make_tensor(value, Node(primitive, (call,), (), None, {}))


# -- functions with a custom gradient ---------------------------------------------------------


class Context:
    """Data that is passed from a `Function`'s forward to its backward.

    Attributes
    ----------
    saved_tensors : tuple of Tensor
        The tensors given to `save_for_backward`. Any other attribute can be set freely.
    needs_input_grad : tuple of bool
        For every argument of ``forward``, whether its gradient is requested.

    Examples
    --------
    >>> from sknet import Tensor
    >>> ctx = Context()
    >>> ctx.save_for_backward(Tensor([1.0]))
    >>> len(ctx.saved_tensors)
    1
    """

    def __init__(self) -> None:
        self.saved_tensors: tuple[Tensor, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep `tensors` for the backward; inputs and results stay differentiable there.

        A tensor that is changed in place between forward and backward makes backward raise.
        """
        self.saved_tensors = tensors


class Function:
    """Base class of functions with a custom gradient.

    A subclass defines two static methods, ``forward(ctx, *inputs)``, which returns a tensor or a tuple
    of tensors, and ``backward(ctx, *gradients)``, which takes one gradient per result and returns one
    per input (not in a tuple if there is only one); it is called with ``apply``.

    Notes
    -----
    ``forward`` is not recorded. `backward` is recorded when a gradient of the gradient is requested: if it
    consists of differentiable operations on saved tensors (inputs, or the tensors that ``forward`` returns),
    it has gradients of any order; otherwise mark it with `once_differentiable`. A result that nothing was
    computed from has a gradient of zeros. `backward` returns None for an input that gets no gradient: a
    number, a flag, or a tensor to be treated as a constant.

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
    ...         [x] = ctx.saved_tensors
    ...         return gradient * 3 * x * x
    >>> x = Tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad.item()
    12.0
    """

    @staticmethod
    def forward(ctx: Context, *inputs: Any) -> Any:
        """Compute the value at `inputs`; a subclass defines it, and saves in `ctx` what `backward` needs.

        Raises
        ------
        TypeError
            If a class does not define it.
        """
        raise TypeError("a Function must define a static method forward(ctx, *inputs)")

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        """Compute the inputs' gradients from the results' `gradients` and `ctx`; a subclass defines it.

        Raises
        ------
        TypeError
            If a class does not define it.
        """
        raise TypeError("a Function must define a static method backward(ctx, *gradients)")

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """Call the function on `inputs`: tensors, and anything else, which is passed through.

        Results of ``forward`` have this function's gradient; those that are not floating have none.

        Raises
        ------
        GradientError, ShapeError
            If results of ``forward`` or, later, `backward` do not fit.
        """
        ctx = Context()
        parents = tuple([x.node if isinstance(x, Tensor) and is_grad_enabled() else None for x in inputs])
        ctx.needs_input_grad = tuple([node is not None for node in parents])
        with no_grad():
            returned = cls.forward(ctx, *inputs)
        values = _checked_values(cls.__name__, returned)
        if any(parents):
            call: Any = _FunctionCall(cls, ctx, inputs, values)
            arrays = tuple([x.data for x in values])
            # Saved tensors may change by recorded in-place operations.
            ctx.saved_tensors = tuple([make_tensor(x.data, x.node) for x in ctx.saved_tensors])
            node = Node(call, parents, ctx.saved_tensors, arrays, {})
            found = [
                result(node, i, x.data) if x.dtype.kind == "f" else x.detach() for i, x in enumerate(values)
            ]
        else:
            found = [x.detach() for x in values]
        return tuple(found) if isinstance(returned, tuple) else found[0]


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the `backward` of a `Function` as not differentiable, so that requesting its gradient raises.

    Parameters
    ----------
    backward : callable
        The method, in any code, such as NumPy on ``tensor.data``; it is not recorded.

    Returns
    -------
    callable
        The same function; apply `staticmethod` before or after.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Function, Tensor
    >>> class Sine(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return Tensor(np.sin(x.data))
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, gradient):
    ...         [x] = ctx.saved_tensors
    ...         return gradient.data * np.cos(x.data)
    >>> x = Tensor(0.0, requires_grad=True)
    >>> Sine.apply(x).backward()
    >>> x.grad.item()
    1.0
    """
    function: Any = backward.__func__ if isinstance(backward, staticmethod) else backward
    function.is_once_differentiable = True
    return backward


def _checked_values(name: str, returned: Any) -> tuple[Tensor, ...]:
    values = returned if isinstance(returned, tuple) else (returned,)
    if not values or not all(isinstance(x, Tensor) for x in values):
        got = ", ".join([type(x).__name__ for x in values])
        raise GradientError(
            f"{name}.forward must return a tensor or a tuple of tensors, got {got or 'an empty tuple'}"
        )
    return values


class _FunctionCall(Call):
    """One call of a `Function`: the rules that its `backward` makes."""

    def __init__(
        self, function: type[Function], ctx: Context, inputs: tuple[Any, ...], values: tuple[Tensor, ...]
    ) -> None:
        super().__init__(function.__name__, len(inputs))
        self._function, self._ctx = function, ctx
        self._inputs = [Shaped(x.shape, x.dtype) if isinstance(x, Tensor) else None for x in inputs]
        # Which of the results each saved tensor is, if any.
        numbers = {id(x): i for i, x in enumerate(values)}
        self._numbers = [numbers.get(id(x)) for x in ctx.saved_tensors]

    def shares(self, bundle: Bundle, out: Any, *inputs: Any) -> list[Tensor | None]:
        node: Any = out.node
        # A result that forward saved was not on the tape; here it is, so that it can be differentiated.
        self._ctx.saved_tensors = tuple(
            [
                x if i is None else result(node, i, out.data[i])
                for x, i in zip(inputs, self._numbers, strict=True)
            ]
        )
        gradients = [
            bundle.parts[i] if i in bundle.parts else zeros_like(make_tensor(value, None))
            for i, value in enumerate(out.data)
        ]
        once = getattr(self._function.backward, "is_once_differentiable", False)
        try:
            if once:
                with no_grad():
                    shares = self._function.backward(self._ctx, *[g.detach() for g in gradients])
            else:
                shares = self._function.backward(self._ctx, *gradients)
        finally:
            self._ctx.saved_tensors = inputs
        found = self._checked(shares)
        if once and is_grad_enabled():
            origins = (*node.parents, *[g.node for g in gradients])
            return [x if x is None else _undifferentiable(self.name, x, origins) for x in found]
        return found

    def _checked(self, returned: Any) -> list[Tensor | None]:
        shares = returned if isinstance(returned, (tuple, list)) else (returned,)
        if len(shares) != len(self._inputs):
            raise GradientError(
                f"{self.name}.backward must return one gradient for each of {len(self._inputs)} inputs, "
                f"got {len(shares)}"
            )
        return [_fitted(self.name, i, x, self._inputs[i]) for i, x in enumerate(shares)]


def _fitted(name: str, i: int, share: Any, operand: Shaped | None) -> Tensor | None:
    """Return a gradient in its input's dtype, after checking its shape."""
    if share is None or operand is None:
        return None
    found = as_tensor(share)
    if found.shape != operand.shape:
        raise ShapeError(f"{name}.backward: input {i} has shape {operand.shape}, its gradient {found.shape}")
    return found if found.dtype == operand.dtype else found.astype(operand.dtype)


class _Refused(Call):
    """A gradient whose own gradient is refused."""

    def shares(self, bundle: Bundle, out: Any, *inputs: Any) -> NoReturn:
        raise GradientError(
            f"{self.name} is marked with once_differentiable, and a gradient of its gradient is requested: "
            "write it in sknet.ops, without the mark"
        )


def _undifferentiable(name: str, share: Tensor, origins: Sequence[Node | None]) -> Tensor:
    call: Any = _Refused(f"{name}.backward", len(origins))
    return make_tensor(share.data, Node(call, tuple(origins), (), None, {}))


# -- checkpoints ------------------------------------------------------------------------------


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without keeping intermediate values: the backward pass calls it again.

    Parameters
    ----------
    function : callable
        Takes and returns trees of tensors and anything else, such as a `Module`. The second call must
        do the same as the first; layers automatically draw the same random numbers again.
    *args : object
        Its arguments.
    **kwargs : object
        Its arguments by name.

    Returns
    -------
    object
        Result of the function.

    Raises
    ------
    GradientError
        In the backward pass, if the second call returns other shapes than the first.

    Notes
    -----
    This trades time for memory: one more forward pass, and intermediate values of only one checkpointed
    call exist at a time (T. Chen et al., arXiv:1604.06174, section 4). Gradients reach the arguments and
    all tensors that the function closes over, and can be differentiated again. Buffers are updated only
    in the first call. Random numbers that the function itself draws from NumPy are not reproduced.

    Examples
    --------
    >>> from sknet import Tensor, ops
    >>> from sknet.autograd import checkpoint
    >>> x = Tensor([0.0, 1.0], requires_grad=True)
    >>> checkpoint(lambda x: ops.exp(ops.exp(x)), x).sum().backward()
    >>> x.grad.numpy()
    array([ 2.71828183, 41.19355567])
    """
    if not is_grad_enabled():
        return function(*args, **kwargs)
    given, named = _tree.map_leaves(_as_it_is, (args, kwargs))
    start = next_time()
    with first_run() as again:
        returned = function(*args, **kwargs)
    values = _on_tape(returned)
    below = newest_first(*[x.node for x in values if x.node is not None], stop=_Before(start))
    parents = tuple([node for node in below if node in _Before(start)])
    if not parents:
        return returned

    call: Any = _Repeated(lambda: again(lambda: function(*given, **named)), parents, values)
    read = [*_tree.leaves((given, named)), *[node.output() for node in parents if node.primitive is None]]
    kept = tuple([x for x in read if isinstance(x, Tensor)])
    node = Node(call, parents, kept, None, {})
    found = {id(x): result(node, i, x.data) for i, x in enumerate(values)}
    return _tree.map_leaves(lambda x: found.get(id(x), x), returned)


def _as_it_is(x: Any) -> Any:
    """Return a tensor that keeps the present value of `x`, which may change by ``x += y``."""
    return make_tensor(x.data, x.node) if isinstance(x, Tensor) and x.node is not None else x


class _Before:
    """The nodes that were recorded before some time."""

    def __init__(self, time: int) -> None:
        self._time = time

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and node.order < self._time


class _Repeated(Call):
    """A call that was not recorded, and is repeated for its gradient."""

    def __init__(self, repeat: Callable[[], Any], parents: tuple[Node, ...], values: list[Tensor]) -> None:
        super().__init__("checkpoint", len(parents))
        self._repeat = repeat
        self._parents = parents
        self._shapes = [x.shape for x in values]

    def shares(self, bundle: Bundle, out: Any, *inputs: Any) -> list[Tensor | None]:
        start = next_time()
        with enable_grad():
            values = _on_tape(self._repeat())
        self._check_origins(values, start)
        shapes = [x.shape for x in values]
        if shapes != self._shapes:
            raise GradientError(
                f"checkpoint: the function returned tensors of shapes {self._shapes} with a gradient, but "
                f"when it was called again for the backward pass {shapes}: it must do the same every time"
            )
        seeds = [(values[i].node, g) for i, g in bundle.parts.items()]
        found = pull_back(seeds, set(self._parents), is_grad_enabled(), stop=True)  # type: ignore[arg-type]
        return [found.get(node) for node in self._parents]

    def _check_origins(self, values: list[Tensor], start: int) -> None:
        """Raise if the second call, which began at `start`, has read values that the first did not."""
        below = newest_first(*[x.node for x in values if x.node is not None], stop=_Before(start))
        if not set(self._parents).issuperset(node for node in below if node in _Before(start)):
            raise GradientError(
                "checkpoint: the function reads a tensor from outside whose value has changed since "
                "its first call (by x += y or x[index] = y): pass it as an argument, or create a new tensor"
            )


def _on_tape(returned: Any) -> list[Tensor]:
    """Return the tensors that have a gradient among the results of a function, each once."""
    found = {id(x): x for x in _tree.leaves(returned) if isinstance(x, Tensor) and x.node is not None}
    return list(found.values())
