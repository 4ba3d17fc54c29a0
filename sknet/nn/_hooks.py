"""Hooks: user functions that run during a module's forward and backward passes.

A module without hooks has no `_hooks` of its own, and its call costs one more check.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from sknet._constraints import shown
from sknet.core import HookHandle, is_capturing, is_grad_enabled
from sknet.exceptions import CaptureError
from sknet.nn._parameter import note_hooks

Hook = Callable[..., Any]
KINDS = ("forward_pre", "forward", "backward_pre", "backward")

_numbers = itertools.count(1)


class Forward(Protocol):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output."""


class Hooks:
    """The hooks of one module, by kind, in the order in which they were registered."""

    def __init__(self, known: "Hooks | None" = None) -> None:
        self.by_kind: dict[str, dict[int, tuple[Hook, bool]]] = {
            kind: {} if known is None else dict(known.by_kind[kind]) for kind in KINDS
        }

    def add(self, kind: str, hook: Hook, with_kwargs: bool = False) -> int:
        number = next(_numbers)
        self.by_kind[kind][number] = hook, with_kwargs
        return number

    def of(self, kind: str) -> list[tuple[Hook, bool]]:
        """Return the hooks of a kind: a hook may remove itself while they run."""
        return list(self.by_kind[kind].values())

    @property
    def backward(self) -> bool:
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
        if not (is_grad_enabled() and self.backward):
            return self._after(module, args, kwargs)
        from sknet.nn._backward_hooks import (  # few networks have hooks of the backward pass
            BackwardHooks,
            watched,
        )

        backward = BackwardHooks(module, self.of, args)
        args = watched(args, backward.at_inputs)
        return watched(self._after(module, args, kwargs), backward.at_outputs)

    def _after(self, module: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the forward pass, and the hooks after it."""
        output = module.forward(*args, **kwargs)
        for hook, with_kwargs in self.of("forward"):
            found = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            output = output if found is None else found
        return output


def _take_away(module: Forward, kind: str, number: int) -> None:
    hooks: Hooks | None = vars(module).get("_hooks")
    if hooks is not None and hooks.by_kind[kind].pop(number, None) is not None:
        if not any(hooks.by_kind.values()):
            del vars(module)["_hooks"]
        note_hooks()


def register(module: Forward, kind: str, hook: Any, with_kwargs: bool = False) -> HookHandle:
    if not callable(hook):
        raise TypeError(f"a hook of {type(module).__name__} must be callable, got {type(hook).__name__}")
    hooks: Hooks = vars(module).setdefault("_hooks", Hooks())
    number = hooks.add(kind, hook, with_kwargs)
    note_hooks()
    return HookHandle(partial(_take_away, module, kind, number))


def _input_after(
    module: Forward, hook: Hook, with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the forward pass after a forward pre-hook."""
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
        f"(args, kwargs), a tuple and a dict, got {shown(found)}"
    )
