"""Reverse mode: walk the tape from a result back to the leaves, and call hooks on the way."""

import itertools
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from sknet._parallel import Lock
from sknet._params import described_by
from sknet.core import _primitive as p
from sknet.core import _tape
from sknet.core._primitive import Primitive
from sknet.core._tape import (
    Line,
    Node,
    Taped,
    any_older,
    bind,
    modes,
    operands_of,
    owner_of,
    unchanged_operands_of,
)
from sknet.device import MetaArray, backend, backend_of, device_of
from sknet.exceptions import DeviceError, GradientError, ShapeError

T = TypeVar("T", bound=Taped)

# -- hooks ------------------------------------------------------------------------------------

_numbers = itertools.count()


class Notes:
    """Rare facts about a node: hooks by number, a tensor that keeps the gradient, a line of code."""

    __slots__ = ("__weakref__", "absences", "hooks", "keeper", "line")

    def __init__(self) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.keeper: weakref.ref[Any] | None = None
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
    """Handle of a registered hook: ``remove`` removes the hook; so does the end of a ``with`` block.

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

    def register_hook(self: T, hook: Callable[[T], T | None]) -> HookHandle:
        """Call ``hook(gradient)`` with the gradient of this tensor whenever one is computed.

        The gradient is complete, summed over all uses of the tensor, and must not be changed in place. The
        result of the `hook` replaces the gradient, for later hooks, for `grad`, and for the rest of the
        backward pass; None leaves it unchanged. Hooks run in the order in which they were registered;
        compiled programs do not call them. ``remove`` of the returned handle removes the hook.

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
        """Let `backward` compute the `grad` of this intermediate result, as for leaves.

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
        """True if this is an intermediate result whose gradient `backward` keeps."""
        return self.node is not None and keeper_of(self.node) is self


def keeper_of(node: Node) -> Any:
    """Return the intermediate result whose `grad` a node's gradient goes to."""
    notes = getattr(node, "notes", None)
    return None if notes is None or notes.keeper is None else notes.keeper()


def move_keeping(before: Node, x: Any) -> None:
    """Retain the gradient of the new value of a tensor that was changed in place."""
    if keeper_of(before) is x:
        before.notes.keeper = None
        x.retain_grad()


def call_hooks(node: Node, gradient: T) -> T:
    """Return what a node's hooks, if it has any, make of the gradient that arrived."""
    notes = getattr(node, "notes", None)
    for hook in () if notes is None else list(notes.hooks.values()):
        found = hook(gradient)
        if found is None:
            continue
        if not isinstance(found, _tape.TensorType):
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


# -- the backward pass ------------------------------------------------------------------------

_accumulating = Lock()  # several threads may add to the gradient of one leaf


def gradients(
    output: Taped,
    inputs: Sequence[T],
    gradient: Taped | None = None,
    create_graph: bool = False,
) -> list[T]:
    """Return the gradient of `output` with respect to every one of `inputs`.

    No `grad` is changed. The tape is kept, so it can be used again.

    Parameters
    ----------
    output : Tensor
        The tensor to differentiate.
    inputs : sequence of Tensor
        Tensors to differentiate with respect to: leaves or intermediate results.
    gradient : Tensor of `output`'s shape, default=None
        Weights of the elements of `output`; may be omitted for a scalar.
    create_graph : bool, default=False
        Whether to record the computation of the gradients, so that they can be differentiated again.

    Returns
    -------
    list of Tensor
        A gradient of the shape of each input; zeros if `output` does not depend on it.

    Raises
    ------
    GradientError
        If `output` or an input is not on the tape, or `output` is not a scalar and `gradient` is missing.

    Examples
    --------
    >>> from sknet import Tensor
    >>> x = Tensor(3.0, requires_grad=True)
    >>> [g] = gradients(x ** 2, [x])
    >>> g.item()
    6.0
    """
    for i, x in enumerate(inputs):
        if x.node is None:
            raise GradientError(
                f"input {i} of shape {x.shape} does not require a gradient: set requires_grad=True on it"
            )
    found = pull_back([(_node_of(output), _seed(output, gradient))], {x.node for x in inputs}, create_graph)
    return [found[x.node] if x.node in found else zeros_like(x) for x in inputs]


def from_here(
    output: Taped,
    gradient: Taped | None,
    create_graph: bool,
    retain_graph: bool,
    inputs: Taped | Sequence[Taped] | None,
) -> None:
    """Add to the `grad` of every leaf below `output`, or of the `inputs`: what `Tensor.backward` does."""
    if create_graph and not retain_graph:
        raise GradientError(
            "create_graph=True needs the tape that retain_graph=False would free: leave one out"
        )
    owners = None if inputs is None else _owners(inputs)
    seed = _seed(output, gradient)
    taken = {id(owner_of(seed.data))}
    wanted: set[Node | None] | None = None if owners is None else {*owners}
    for node, g in pull_back([(_node_of(output), seed)], wanted, create_graph).items():
        owner = _keeper_of(node) if owners is None else owners[node]
        if owner is not None:
            with _accumulating:
                before = owner.grad
                owner.grad = _own(g, taken) if before is None else bind(p.add, (before, g), {})
    if not retain_graph:
        release(output)


def _keeper_of(node: Node) -> Any:
    """Return the tensor whose `grad` a backward pass fills; None if it is gone, or frozen by now."""
    if node.primitive is not None:
        return keeper_of(node)
    leaf = node.output()
    return leaf if leaf is not None and leaf.node is node else None


def _owners(inputs: Any) -> dict[Node, Taped]:
    """Return the tensors whose `grad` a backward pass is to fill, by their nodes."""
    tensors = [inputs] if isinstance(inputs, _tape.TensorType) else list(inputs)
    if not tensors:
        raise GradientError("backward(inputs=[]) has nothing to fill: pass tensors, or None for all leaves")
    found: dict[Node, Taped] = {}
    for i, x in enumerate(tensors):
        if not isinstance(x, _tape.TensorType) or x.node is None:
            raise GradientError(
                f"backward: input {i} is not a tensor that requires a gradient: set requires_grad=True on it "
                "before the output is computed"
            )
        found[x.node] = x
    return found


def _node_of(output: Taped) -> Node:
    if output.node is None:
        raise GradientError(
            "this tensor was not computed from anything that requires a gradient: set requires_grad=True on "
            "the leaves, and compute it outside no_grad()"
        )
    return output.node


def _own(g: Taped, taken: set[int]) -> Any:
    """Return a gradient that no other leaf shares, so that it can be changed in place."""
    data = g.data
    if g.node is not None or isinstance(data, MetaArray):
        return _tape.make_tensor(data, g.node)
    root = owner_of(data)
    if id(root) in taken or (root is not data and 0 in getattr(data, "strides", ())):
        owner = backend_of(data)
        with owner.activate(owner.device_of(data)):
            return _tape.make_tensor(data.copy(), None)
    taken.add(id(root))
    return g


def pull_back(
    seeds: Sequence[tuple[Node, Any]],
    wanted: "set[Node | None] | None",
    create_graph: bool,
    *,
    stop: bool = False,
) -> dict[Node, Any]:
    """Return the gradients at the `wanted` nodes; for None, at all leaves and where they are retained."""
    order = newest_first(*[node for node, _ in seeds], stop=wanted if stop else None)
    needed = None if wanted is None else _leading_to(wanted, order)
    found: dict[Node, Any] = {}
    before, modes.grad = modes.grad, create_graph
    try:
        pending: dict[Node, Any] = {}
        for node, seed in seeds:
            pending[node] = pending[node] + seed if node in pending else seed
        changed = bool(HOOKED) or any_older(order)  # a hook may write, too
        watched = stop or HOOKED
        for node in order:
            g = pending.pop(node, None)
            if g is None:
                continue
            if watched:
                if stop and node in wanted:  # type: ignore[operator]
                    found[node] = g
                    continue
                g = call_hooks(node, g)
                if wanted is None and keeper_of(node) is not None:
                    found[node] = g
            if node in wanted if wanted is not None else node.primitive is None:
                found[node] = g
            if node.primitive is not None:
                _hand_on(node, g, changed, pending, needed)
    finally:
        modes.grad = before
    return found


def _leading_to(wanted: "set[Node | None]", order: list[Node]) -> set[Node]:
    """Return the nodes of `order` through which gradients must pass on their way to the wanted ones."""
    needed: set[Node] = set()
    for node in reversed(order):
        if node in wanted or not needed.isdisjoint(node.parents):
            needed.add(node)
    return needed


def push(node: Node, g: Any, changed: bool, pending: dict[Node, Any], needed: set[Node] | None) -> None:
    """Hand the gradient `g` of a `node` on to its parents, by the vjp rules of its primitive."""
    primitive: Any = node.primitive
    if node.inputs is None:
        raise GradientError(
            f"{primitive.name}: what its gradient needs was freed (by release, "
            "backward(retain_graph=False) or donate=True): compute the result again"
        )
    out, inputs = unchanged_operands_of(node) if changed else operands_of(node)
    for i, (parent, rule) in enumerate(zip(node.parents, primitive.vjp, strict=False)):
        if parent is None or (needed is not None and parent not in needed):
            continue
        if rule is None:
            raise GradientError(
                f"{primitive.name!r} has no gradient with respect to operand {i}: detach() it first"
            )
        share = rule(g, out, *inputs, **node.params)  # type: ignore[arg-type]
        before = pending.get(parent)
        if before is None:
            pending[parent] = share
        elif share is not None:  # a custom Function may have none
            pending[parent] = before + share


_hand_on = push


def exchange_push(function: Callable[..., None]) -> None:
    """Use `function` in place of `push` in all backward walks, to observe them; `push` itself ends that."""
    global _hand_on
    _hand_on = function


def release(output: Taped) -> None:
    """Free the part of the tape that a tensor was computed by; it cannot be differentiated afterwards.

    Parameters
    ----------
    output : Tensor
        The tensor. Its value is kept, like those of all tensors that are still referenced.

    Examples
    --------
    >>> from sknet import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> release(y)
    >>> y.item()
    5.0
    """
    for node in newest_first(output.node) if output.node is not None else ():
        if node.primitive is not None:
            node.inputs = None  # type: ignore[assignment]
            node.output = None


def depends_on(output: Taped, inputs: Iterable[Taped]) -> bool:
    """Tell whether a tensor was computed, on the tape, from at least one of several others.

    Parameters
    ----------
    output : Tensor
        The result.
    inputs : iterable of Tensor
        Tensors that it may depend on.

    Returns
    -------
    bool
        True if it depends on one of them; False for tensors that are not on the tape.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.core import depends_on
    >>> x, y = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    >>> depends_on(x.sum(), [x, y]), depends_on(x.sum(), [y])
    (True, False)
    """
    nodes = set() if output.node is None else set(newest_first(output.node))
    return any(x.node in nodes for x in inputs)


def newest_first(*roots: Node, stop: "Container[Node | None] | None" = None) -> list[Node]:
    """Return all nodes below `roots`, not going beyond `stop`; every node comes before its parents."""
    seen = set(roots)
    stack = list(roots) if stop is None else [node for node in roots if node not in stop]
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                if stop is None or parent not in stop:
                    stack.append(parent)
    return sorted(seen, key=_order, reverse=True)


def _order(node: Node) -> int:
    return node.order


def _seed(output: Any, gradient: Any) -> Any:
    if gradient is not None:
        if not isinstance(gradient, _tape.TensorType):
            gradient = _tape.TensorType(gradient)
        if gradient.shape != output.shape:
            raise ShapeError(
                f"the gradient's shape must be the output's {output.shape}, got {gradient.shape}"
            )
        if gradient.device != output.device:
            raise DeviceError(
                f"the gradient must be on the output's device '{output.device}', "
                f"got one on '{gradient.device}'"
            )
        same = gradient.dtype == output.dtype
        return gradient if same else bind(p.astype, (gradient,), {"dtype": output.dtype})
    if output.size != 1:
        raise GradientError(
            f"without `gradient` only a scalar can be differentiated, got a tensor of shape {output.shape}: "
            "reduce it, or pass `gradient`, the weights of its elements"
        )
    return ones_like(output)


def zeros_like(x: T) -> T:
    """Return zeros of a tensor's shape, dtype and device."""
    place = device_of(x.data)
    return _tape.make_tensor(backend(place.kind).zeros(x.shape, x.dtype, place), None)


def ones_like(x: T) -> T:
    """Return ones of a tensor's shape, dtype and device."""
    place = device_of(x.data)
    return _tape.make_tensor(backend(place.kind).ones(x.shape, x.dtype, place), None)


# -- values carried along the tape ------------------------------------------------------------

_attach_aux = Primitive("attach_aux").define(
    forward=lambda xp, x, aux: x,
    shape=lambda x, aux: (x.shape, x.dtype),
    vjp=(lambda g, _, x, aux: g,),
    saves="nothing",
    tape_only=True,
    writes_out=False,
)


def attach_aux(x: T, aux: dict[str, Any]) -> T:
    """Attach a dict to a tensor, which `aux_of` finds in all tensors computed from the result.

    Parameters
    ----------
    x : Tensor
        A tensor on the tape.
    aux : dict
        The dict to attach.

    Returns
    -------
    Tensor
        The same values.

    Examples
    --------
    >>> from sknet import Tensor
    >>> x = attach_aux(Tensor(1.0, requires_grad=True), {"mean": 0.5})
    >>> aux_of(x * 2 + 1)
    {'mean': 0.5}
    """
    return bind(_attach_aux, (x,), {"aux": aux})


def attached_to(x: Taped) -> dict[str, Any]:
    """Return the dict that was attached to `x` itself.

    Parameters
    ----------
    x : Tensor
        Any tensor.

    Returns
    -------
    dict
        The entries; empty if there are none.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.core import attach_aux, attached_to
    >>> x = attach_aux(Tensor([1.0], requires_grad=True), {"mean": 0.5})
    >>> attached_to(x), attached_to(x * 2)
    ({'mean': 0.5}, {})
    """
    is_attached = x.node is not None and x.node.primitive is _attach_aux
    return x.node.params["aux"] if is_attached else {}  # type: ignore[union-attr, index]


@described_by(attached_to)
def aux_of(x: Taped) -> dict[str, Any]:
    """Return the entries attached to all tensors that `x` depends on; later entries replace earlier ones.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.core import attach_aux, aux_of
    >>> x = attach_aux(Tensor([1.0], requires_grad=True), {"penalty": 0.5})
    >>> aux_of(x * 2)
    {'penalty': 0.5}
    """
    found: dict[str, Any] = {}
    for node in reversed(newest_first(x.node)) if x.node is not None else ():
        if node.primitive is _attach_aux:
            found.update(node.params["aux"])  # type: ignore[index]
    return found
