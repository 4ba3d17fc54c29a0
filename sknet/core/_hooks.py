"""Hooks: functions that see a gradient, or replace it, on its way through the tape."""

import itertools
import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from sknet.core import _bind
from sknet.core._bind import Node
from sknet.core._user_line import Line
from sknet.exceptions import GradientError, ShapeError

if TYPE_CHECKING:
    from sknet.core._tensor import Tensor

__all__ = ["HOOKED", "HookHandle", "Hookable", "call_hooks", "keeper_of", "move_keeping", "notes_of"]

_numbers = itertools.count()


class Notes:
    """What only few nodes have: hooks by their number, a tensor that keeps the gradient, a line of code."""

    __slots__ = ("__weakref__", "absences", "hooks", "keeper", "line")

    def __init__(self) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.keeper: weakref.ref[Tensor] | None = None
        self.line: Line | None = None
        self.absences: tuple[tuple[int, int], ...] = ()


# The notes of living nodes with hooks or a keeper. While there are none, backward looks for none.
HOOKED: dict[int, weakref.ref[Notes]] = {}


def notes_of(node: Node) -> Notes:
    """Return the notes of a node, made if need be."""
    found: Notes | None = getattr(node, "notes", None)
    if found is None:
        found = node.notes = Notes()
    return found


def _watched(node: Node) -> Notes:
    """Return the notes of a node, after making them known to backward."""
    notes = notes_of(node)
    key = id(notes)
    if key not in HOOKED:
        HOOKED[key] = weakref.ref(notes, lambda _: HOOKED.pop(key, None))
    return notes


class HookHandle:
    """What registering a hook returns: ``remove`` removes the hook; so does the end of a ``with`` block.

    Parameters
    ----------
    remove : callable
        Removes the hook; a second call does nothing.

    Examples
    --------
    >>> from sknet import Tensor, nn
    >>> x = Tensor(1.0, requires_grad=True)
    >>> with x.register_hook(lambda gradient: gradient * 10):
    ...     (x * 2).backward()
    >>> (x * 2).backward()
    >>> x.grad.item()
    22.0
    >>> layer = nn.Identity()
    >>> handle = layer.register_forward_hook(lambda module, args, output: output * 2)
    >>> layer(3)
    6
    >>> handle.remove()
    >>> layer(3)
    3
    """

    __slots__ = ("remove",)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a handle is bound to a hook of this process and cannot be pickled or copied")

    def __init__(self, remove: Callable[[], None]) -> None:
        self.remove = remove

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _take_away(noted: "weakref.ref[Notes]", number: int) -> None:
    notes = noted()
    if notes is None:
        return
    notes.hooks.pop(number, None)
    if not notes.hooks and notes.keeper is None:
        HOOKED.pop(id(notes), None)


class Hookable:
    """The methods of a tensor for hooks and for keeping gradients."""

    __slots__ = ()
    node: Node | None

    def register_hook(self, hook: Callable[["Tensor"], "Tensor | None"]) -> HookHandle:
        """Call `hook` with the gradient of this tensor whenever one is computed.

        The gradient is complete: summed over all that was computed from the tensor. What the hook
        returns replaces the gradient, for later hooks, for `grad`, and for everything further down;
        None leaves it as it is. Hooks run in the order in which they were registered. Compiled
        programs call none.

        Parameters
        ----------
        hook : callable
            ``hook(gradient) -> Tensor or None``. It must not change the gradient in place.

        Returns
        -------
        HookHandle
            Its ``remove`` removes the hook.

        Raises
        ------
        GradientError
            If the tensor does not require a gradient.
        """
        notes = _watched(_on_tape(self.node, "a hook"))
        number = next(_numbers)
        notes.hooks[number] = hook
        return HookHandle(partial(_take_away, weakref.ref(notes), number))  # notes are not kept alive

    def retain_grad(self: Any) -> None:
        """Let `backward` fill `grad` of this intermediate result as it does for leaves.

        Raises
        ------
        GradientError
            If the tensor does not require a gradient.
        """
        node = _on_tape(self.node, "its gradient kept")
        if node.primitive is not None:
            _watched(node).keeper = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether this is an intermediate result whose gradient `backward` keeps."""
        return self.node is not None and keeper_of(self.node) is self


def keeper_of(node: Node) -> "Tensor | None":
    """Return the intermediate result whose `grad` a node's gradient goes to."""
    notes = getattr(node, "notes", None)
    return None if notes is None or notes.keeper is None else notes.keeper()


def move_keeping(before: Node, x: "Tensor") -> None:
    """Let a tensor that was changed in place keep the gradient of what it is now."""
    if keeper_of(before) is x:
        before.notes.keeper = None
        x.retain_grad()


def call_hooks(node: Node, gradient: "Tensor") -> "Tensor":
    """Return what a node's hooks, if it has any, make of the gradient that arrived."""
    notes = getattr(node, "notes", None)
    for hook in () if notes is None else list(notes.hooks.values()):
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
