"""Reverse mode: walk the tape from a result back to the leaves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sknet.core import _bind
from sknet.core import _primitive as p
from sknet.core._bind import Node, bind
from sknet.core._modes import modes
from sknet.device import backend, device_of
from sknet.exceptions import DeviceError, GradientError, ShapeError

if TYPE_CHECKING:
    from sknet.core._tensor import Tensor

__all__ = ["from_here", "gradients"]


def gradients(
    output: "Tensor",
    inputs: Sequence["Tensor"],
    gradient: "Tensor | None" = None,
    create_graph: bool = False,
) -> list["Tensor"]:
    """Return the gradient of `output` with respect to every one of `inputs`.

    Nothing is accumulated anywhere. The tape stays, so it can be walked again.

    Parameters
    ----------
    output : Tensor
        What to differentiate.
    inputs : sequence of Tensor
        With respect to what; leaves or intermediate results.
    gradient : Tensor of `output`'s shape, default=None
        Weights of `output`'s elements; may be left out for a scalar.
    create_graph : bool, default=False
        Record the computation of the gradients, so that they can be differentiated again.

    Returns
    -------
    list of Tensor
        One for every input, of its shape; zeros where `output` does not depend on it.

    Raises
    ------
    GradientError
        If `output` or an input is not on the tape, or `output` is no scalar and `gradient` is
        missing.

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
    wanted = {x.node for x in inputs}
    found = _walk(output, gradient, create_graph, wanted)
    return [found[x.node] if x.node in found else _zeros_like(x) for x in inputs]


def from_here(output: "Tensor", gradient: "Tensor | None", create_graph: bool) -> None:
    """Add to the `grad` of every leaf below `output`: what `Tensor.backward` does."""
    for leaf, g in _walk(output, gradient, create_graph, None).items():
        owner = leaf.output()  # a weak reference: the leaf may be gone
        if owner is not None:
            owner.grad = g if owner.grad is None else bind(p.add, (owner.grad, g), {})


def _walk(
    output: "Tensor", gradient: "Tensor | None", create_graph: bool, wanted: "set[Node | None] | None"
) -> dict[Node, "Tensor"]:
    """Return the gradients at the `wanted` nodes, or at all leaves for None."""
    if output.node is None:
        raise GradientError(
            "this tensor was not computed from anything that requires a gradient: set requires_grad=True on "
            "the leaves, and compute it outside no_grad()"
        )
    order = newest_first(output.node)
    needed = None if wanted is None else _leading_to(wanted, order)
    found: dict[Node, Any] = {}
    before, modes.grad = modes.grad, create_graph
    try:
        pending = {output.node: _seed(output, gradient)}
        for node in order:
            g = pending.pop(node, None)
            if g is None:
                continue
            if node in wanted if wanted is not None else node.primitive is None:
                found[node] = g
            if node.primitive is not None:
                _push(node, g, pending, needed)
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


def _push(node: Node, g: "Tensor", pending: dict[Node, "Tensor"], needed: set[Node] | None) -> None:
    """Hand a node's gradient on to its parents by the primitive's vjp rules."""
    primitive: Any = node.primitive
    out = None if node.output is None else _bind.make_tensor(node.output, node)
    for i, (parent, rule) in enumerate(zip(node.parents, primitive.vjp, strict=False)):
        if parent is None or (needed is not None and parent not in needed):
            continue
        if rule is None:
            raise GradientError(
                f"{primitive.name!r} has no gradient with respect to operand {i}: detach() it first"
            )
        share = rule(g, out, *node.inputs, **node.params)  # type: ignore[arg-type]
        before = pending.get(parent)
        pending[parent] = share if before is None else bind(p.add, (before, share), {})


def newest_first(root: Node) -> list[Node]:
    """Return all nodes below `root` such that every node comes before its parents."""
    seen = {root}
    stack = [root]
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=_order, reverse=True)


def _order(node: Node) -> int:
    return node.order


def _seed(output: "Tensor", gradient: "Tensor | None") -> "Tensor":
    if gradient is not None:
        if not isinstance(gradient, _bind.TensorType):
            gradient = _bind.TensorType(gradient)
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
            f"only a scalar has a gradient of its own, this tensor has shape {output.shape}: "
            "reduce it, or pass the gradient of what you want with respect to it"
        )
    return _ones_like(output)


def _zeros_like(x: "Tensor") -> "Tensor":
    place = device_of(x.data)
    return _bind.make_tensor(backend(place.kind).zeros(x.shape, x.dtype, place), None)


def _ones_like(x: "Tensor") -> "Tensor":
    place = device_of(x.data)
    return _bind.make_tensor(backend(place.kind).ones(x.shape, x.dtype, place), None)
