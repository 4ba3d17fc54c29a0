"""Hooks: what looks at a gradient, or replaces it, on its way through the tape."""

import itertools
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sknet.core import _bind
from sknet.core._bind import Node
from sknet.exceptions import GradientError, ShapeError

if TYPE_CHECKING:
    from sknet.core._tensor import Tensor

__all__ = ["HOOKED", "HookHandle", "Hookable", "call_hooks", "keeper_of", "move_keeping"]

# The living nodes that have hooks. While there are none, backward does not ask for any.
HOOKED: weakref.WeakSet[Node] = weakref.WeakSet()
_numbers = itertools.count()


class Hooks:
    """The hooks of one node: functions by their number, and the tensor that keeps the gradient."""

    __slots__ = ("functions", "keeper")

    def __init__(self) -> None:
        self.functions: dict[int, Callable[[Any], Any]] = {}
        self.keeper: weakref.ref[Tensor] | None = None


class HookHandle:
    """What `register_hook` returns: `remove` takes the hook away; so does the end of a ``with`` block.

    Parameters
    ----------
    node : Node
        Where the hook is; it is not kept alive.
    number : int
        Which of its hooks.

    Examples
    --------
    >>> from sknet import Tensor
    >>> x = Tensor(1.0, requires_grad=True)
    >>> with x.register_hook(lambda gradient: gradient * 10):
    ...     (x * 2).backward()
    >>> (x * 2).backward()
    >>> x.grad.item()
    22.0
    """

    __slots__ = ("_node", "_number")

    def __init__(self, node: Node, number: int) -> None:
        self._node = weakref.ref(node)
        self._number = number

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        node = self._node()
        if node is None:
            return
        node.hooks.functions.pop(self._number, None)
        if not node.hooks.functions and node.hooks.keeper is None:
            HOOKED.discard(node)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Hookable:
    """The part of a tensor that lets gradients be seen on their way."""

    __slots__ = ()
    grad: "Tensor | None"
    node: Node | None

    def register_hook(self, hook: Callable[["Tensor"], "Tensor | None"]) -> HookHandle:
        """Call `hook` with the gradient of this tensor whenever one is computed.

        The gradient is complete: summed over all that was computed from the tensor. What the hook
        returns takes its place, for the hooks after it, for `grad`, and on the way further down;
        None leaves it as it is. Hooks run in the order in which they were registered.

        Parameters
        ----------
        hook : callable
            ``hook(gradient) -> Tensor or None``. It must not change the gradient in place.

        Returns
        -------
        HookHandle
            Its `remove` takes the hook away.

        Raises
        ------
        GradientError
            If the tensor does not require a gradient.
        """
        node = _on_tape(self.node, "a hook")
        number = next(_numbers)
        _hooks_of(node).functions[number] = hook
        return HookHandle(node, number)

    def retain_grad(self: Any) -> None:
        """Let `backward` fill `grad` of this intermediate result as it does for leaves.

        Raises
        ------
        GradientError
            If the tensor does not require a gradient.
        """
        node = _on_tape(self.node, "its gradient kept")
        if node.primitive is not None:
            _hooks_of(node).keeper = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether this is an intermediate result whose gradient `backward` keeps."""
        return self.node is not None and keeper_of(self.node) is self


def keeper_of(node: Node) -> "Tensor | None":
    """Return the intermediate result whose `grad` a node's gradient goes to."""
    hooks = getattr(node, "hooks", None)
    return None if hooks is None or hooks.keeper is None else hooks.keeper()


def move_keeping(before: Node, x: "Tensor") -> None:
    """Let a tensor that was changed in place keep the gradient of what it is now."""
    if keeper_of(before) is x:
        before.hooks.keeper = None
        x.retain_grad()


def call_hooks(node: Node, gradient: "Tensor") -> "Tensor":
    """Return the gradient that a node's hooks make of the one that arrived."""
    for hook in list(node.hooks.functions.values()):
        found = hook(gradient)
        if found is None:
            continue
        if not isinstance(found, _bind.TensorType):
            raise GradientError(f"a hook must return a Tensor or None, got {type(found).__name__}")
        if found.shape != gradient.shape:
            raise ShapeError(
                f"a hook must return a gradient of the tensor's shape {gradient.shape}, got {found.shape}"
            )
        gradient = found
    return gradient


def _on_tape(node: Node | None, what: str) -> Node:
    if node is None:
        raise GradientError(
            f"a tensor that does not require a gradient cannot have {what}: set requires_grad=True first"
        )
    return node


def _hooks_of(node: Node) -> Hooks:
    if getattr(node, "hooks", None) is None:
        node.hooks = Hooks()
    HOOKED.add(node)
    return node.hooks  # type: ignore[no-any-return]
