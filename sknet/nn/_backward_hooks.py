"""Hooks of the backward pass, which see the gradients of a module's outputs, then of its inputs."""

from collections.abc import Callable
from typing import Any

from sknet._tree import leaves, rebuild
from sknet.autograd import Function
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._parameter import zeros

Gradients = tuple[Tensor | None, ...]


class BackwardHooks:
    """The backward pass of one call: it passes the module's outputs first, then its inputs."""

    def __init__(self, module: object, hooks: Callable[[str], list[Any]], args: tuple[Any, ...]) -> None:
        inputs = leaves(args)
        self._module, self._hooks = module, hooks
        self._ends_here = not any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
        self._inputs = len(inputs)
        self._of_outputs: Gradients | None = None

    def at_outputs(self, found: Gradients) -> Gradients:
        for hook, _ in self._hooks("backward_pre"):
            found = self._after("backward pre-hook", hook(self._module, found), found)
        self._of_outputs = found
        if self._ends_here:  # the inputs need no gradient, and the hooks are to see the outputs'
            self.at_inputs((None,) * self._inputs)
        return found

    def at_inputs(self, found: Gradients) -> Gradients:
        given, self._of_outputs = self._of_outputs, None
        if given is None:  # a gradient of a gradient, from within the module: it has not passed the outputs
            return found
        for hook, _ in self._hooks("backward"):
            found = self._after("backward hook", hook(self._module, found, given), found)
        return found

    def _after(self, what: str, new: Any, old: Gradients) -> Gradients:
        """Return a hook's gradients, after checking that they can take the place of the old ones."""
        if new is None:
            return old
        new = new if isinstance(new, tuple) else (new,)
        found = tuple(None if x is None else as_tensor(x) for x in new)
        shapes, got = ([None if x is None else x.shape for x in each] for each in (old, found))
        if len(got) == len(shapes) and all(a == b or a is None for a, b in zip(shapes, got, strict=True)):
            return found
        raise ShapeError(
            f"a {what} of {type(self._module).__name__} must return None or gradients of shapes {shapes}, "
            f"got {got}"
        )


# -- watching gradients -----------------------------------------------------------------------


class _Watch:
    """Meeting point of the gradients of several tensors, once for each backward walk."""

    def __init__(self, tensors: list[Any], places: list[int], at: Callable[[Gradients], Gradients]) -> None:
        self._places = {i: (tensors[i].shape, tensors[i].device, tensors[i].dtype) for i in places}
        self._number, self._at = len(tensors), at
        self.found: dict[int, Tensor] = {}

    def leave(self) -> tuple[Tensor, ...]:
        """Pass the gradients to the hooks, and return what the walk continues with."""
        found, self.found = tuple([self.found.get(i) for i in range(self._number)]), {}
        after = self._at(found)
        pairs = [(after[i], like) for i, like in self._places.items()]
        return tuple([Tensor(zeros(*like)) if gradient is None else gradient for gradient, like in pairs])


class _Gate(Function):
    """The gate of all watched tensors: older on the tape than they are, so a walk reaches it last."""

    @staticmethod
    def forward(ctx: Any, watch: Any, *tensors: Any) -> Tensor:
        ctx.watch = watch
        return Tensor(0.0, device=tensors[0].device)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, *ctx.watch.leave()


class _Watched(Function):
    """A tensor behind a gate: its gradient waits in the watch, and the walk is sent on to the gate."""

    @staticmethod
    def forward(ctx: Any, watch: Any, place: Any, tensor: Any, gate: Any) -> Tensor:
        ctx.watch, ctx.place, ctx.gate = watch, place, gate.detach()
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.watch.found[ctx.place] = gradient
        return None, None, None, ctx.gate


def watched(tree: Any, at: Callable[[Gradients], Gradients]) -> Any:
    """Return a tree whose tensors' gradients go through `at`, all together."""
    tensors = leaves(tree)
    places = [i for i, x in enumerate(tensors) if isinstance(x, Tensor) and x.requires_grad]
    if not places:
        return tree
    watch = _Watch(tensors, places, at)
    gate = _Gate.apply(watch, *[tensors[i] for i in places])
    for i in places:
        tensors[i] = _Watched.apply(watch, i, tensors[i].detach(), gate)
    return rebuild(tree, iter(tensors))
