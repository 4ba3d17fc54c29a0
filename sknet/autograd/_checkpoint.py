"""Gradient checkpointing: recompute intermediate values in the backward pass instead of keeping them."""

from collections.abc import Callable
from typing import Any

from sknet import _tree
from sknet.autograd._joint import Bundle, Call, result
from sknet.core import Tensor, enable_grad, is_grad_enabled
from sknet.core.extend import Node, first_run, make_tensor, newest_first, next_time, pull_back
from sknet.exceptions import GradientError

__all__ = ["checkpoint"]


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
        What the function returns.

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
