"""Hooks: user functions that run during a module's forward and backward passes.

A module without hooks has no `_hooks` of its own, and its call costs one more check.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from sknet._tree import leaves, rebuild
from sknet.autograd import Function
from sknet.core import HookHandle, Tensor, as_tensor, is_capturing, is_grad_enabled
from sknet.exceptions import CaptureError, ShapeError
from sknet.nn._changes import note_hooks
from sknet.nn._parameter import zeros
from sknet.nn._protocols import Forward

__all__ = ["Hooks", "register"]

Gradients = tuple[Tensor | None, ...]

Hook = Callable[..., Any]
KINDS = ("forward_pre", "forward", "backward_pre", "backward")

_numbers = itertools.count(1)


class Hooks:
    """The hooks of one module, by kind, in the order in which they were registered."""

    def __init__(self, known: "Hooks | None" = None) -> None:
        self.by_kind: dict[str, dict[int, tuple[Hook, bool]]] = {
            kind: {} if known is None else dict(known.by_kind[kind]) for kind in KINDS
        }

    def add(self, kind: str, hook: Hook, with_kwargs: bool = False) -> int:
        """Add a hook and return its number."""
        number = next(_numbers)
        self.by_kind[kind][number] = hook, with_kwargs
        return number

    def of(self, kind: str) -> list[tuple[Hook, bool]]:
        """Return the hooks of a kind: a hook may remove itself while they run."""
        return list(self.by_kind[kind].values())

    @property
    def backward(self) -> bool:
        """Whether there are any for the backward pass."""
        return bool(self.by_kind["backward"] or self.by_kind["backward_pre"])

    def call(self, module: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a module's forward pass with its hooks."""
        if is_capturing():
            raise CaptureError(
                f"{type(module).__name__} has hooks, which Python runs in every pass; in a captured function "
                "they would run once and never again: remove them, or do not compile the function"
            )
        for hook, with_kwargs in self.of("forward_pre"):
            args, kwargs = _input_after(module, hook, with_kwargs, args, kwargs)
        way_back = _WayBack(module, self, args) if is_grad_enabled() and self.backward else None
        if way_back is not None:
            args = _watched(args, way_back.at_inputs)
        output = module.forward(*args, **kwargs)
        for hook, with_kwargs in self.of("forward"):
            found = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            output = output if found is None else found
        return output if way_back is None else _watched(output, way_back.at_outputs)


def _take_away(module: Forward, kind: str, number: int) -> None:
    hooks: Hooks | None = vars(module).get("_hooks")
    if hooks is not None and hooks.by_kind[kind].pop(number, None) is not None:
        if not any(hooks.by_kind.values()):
            del vars(module)["_hooks"]
        note_hooks()


def register(module: Forward, kind: str, hook: Any, with_kwargs: bool = False) -> HookHandle:
    """Add a hook and return its handle."""
    if not callable(hook):
        raise TypeError(f"a hook of {type(module).__name__} must be callable, got {type(hook).__name__}")
    hooks: Hooks = vars(module).setdefault("_hooks", Hooks())
    number = hooks.add(kind, hook, with_kwargs)
    note_hooks()
    return HookHandle(partial(_take_away, module, kind, number))


def _input_after(
    module: Forward, hook: Hook, with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a forward pre-hook leaves for the forward pass."""
    if not with_kwargs:
        found = hook(module, args)
        return args if found is None else found if isinstance(found, tuple) else (found,), kwargs
    found = hook(module, args, kwargs)
    if found is None:
        return args, kwargs
    if isinstance(found, tuple) and [type(part) for part in found] == [tuple, dict]:
        return found[0], found[1]
    raise TypeError(
        f"a forward pre-hook of {type(module).__name__} with with_kwargs=True must return None or "
        f"(args, kwargs), a tuple and a dict, got {found!r}"
    )


class _WayBack:
    """The backward pass of one call: it passes the module's outputs first, then its inputs."""

    def __init__(self, module: Forward, hooks: Hooks, args: tuple[Any, ...]) -> None:
        inputs = leaves(args)
        self._module, self._hooks = module, hooks
        self._ends_here = not any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
        self._inputs = len(inputs)
        self._of_outputs: Gradients | None = None

    def at_outputs(self, found: Gradients) -> Gradients:
        for hook, _ in self._hooks.of("backward_pre"):
            found = self._after("backward pre-hook", hook(self._module, found), found)
        self._of_outputs = found
        if self._ends_here:  # the inputs need no gradient, and the hooks are to see the outputs'
            self.at_inputs((None,) * self._inputs)
        return found

    def at_inputs(self, found: Gradients) -> Gradients:
        given, self._of_outputs = self._of_outputs, None
        if given is None:  # a gradient of a gradient, from within the module: it has not passed the outputs
            return found
        for hook, _ in self._hooks.of("backward"):
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
    """Where the gradients of several tensors meet, once for each backward walk."""

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
        return tensor  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.watch.found[ctx.place] = gradient
        return None, None, None, ctx.gate


def _watched(tree: Any, at: Callable[[Gradients], Gradients]) -> Any:
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
