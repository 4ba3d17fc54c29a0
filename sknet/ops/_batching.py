"""Batching of primitives over a stack of operands: the rules behind `sknet.vmap`.

Axes are counted from the end, so most primitives do what is meant when some operands have one more axis in
front; a rule aligns it in front of the same axes for all operands. A primitive without a rule is applied to
one operand of the stack after the other.

A rule is ``rule(primitive, operands, mapped, size, params)``. `operands` are tensors, numbers, and whatever
else the primitive takes; `mapped` says which have the leading axis of length `size`, as the result has.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sknet.core import PRIMITIVES, Primitive, Tensor, bind
from sknet.device import is_array
from sknet.ops._elementwise import remainder, square
from sknet.ops._reduce import sum
from sknet.ops._shape import arange, broadcast_to, moveaxis, reshape, stack, zeros

Operands = Sequence[Any]
Mapped = Sequence[bool]
Params = dict[str, Any]
Rule = Callable[[Primitive, Operands, Mapped, int, Params], Tensor]


def batched(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """Apply a primitive to every operand of a stack."""
    name, default = primitive.name, aligned if primitive.expression is not None else one_by_one
    rule = RULES.get(name) or OF_OTHERS.get(name, default)
    return rule(primitive, operands, mapped, size, params)


def batching(name: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        OF_OTHERS[name] = rule
        return rule

    return register


def goes_at_once(primitive: Primitive) -> bool:
    """Tell if a primitive is applied to a stack as a whole, rather than to one operand after the other."""
    return primitive.name in RULES or primitive.expression is not None


# -- what rules are made of -------------------------------------------------------------------


def _rank(x: Any, is_mapped: bool) -> int:
    """Return how many axes an operand has without the leading one."""
    return x.ndim - is_mapped if isinstance(x, Tensor) else 0


def _lifted(x: Any, is_mapped: bool, rank: int) -> Any:
    """Give a stack of operands this many axes, inserting new ones after the leading one."""
    if not is_mapped or x.ndim == rank + 1:
        return x
    return reshape(x, (x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:]))


def _spread(x: Any, is_mapped: bool, size: int) -> Any:
    """Give an operand the leading axis."""
    return x if is_mapped or not isinstance(x, Tensor) else broadcast_to(x, (size, *x.shape))


def _shape_of(primitive: Primitive, operands: Operands, mapped: Mapped, params: Params) -> Any:
    """Return shape and dtype of the result for one operand of the stack."""
    ghosts = [
        x if not isinstance(x, Tensor) else _Ghost(x, is_mapped)
        for x, is_mapped in zip(operands, mapped, strict=True)
    ]
    return primitive.shape(*ghosts, **params)


class _Ghost:
    """Shape and dtype of one operand of a stack."""

    def __init__(self, x: Tensor, is_mapped: bool) -> None:
        self.shape = x.shape[is_mapped:]
        self.dtype = x.dtype
        self.ndim = len(self.shape)


def _joined(x: Tensor, axis: int) -> Tensor:
    """Join an axis and the one behind it."""
    return reshape(x, (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))


def _divided(x: Tensor, axis: int, size: int) -> Tensor:
    """Divide an axis into one of length `size` and the rest."""
    return reshape(x, (*x.shape[:axis], size, x.shape[axis] // size, *x.shape[axis + 1 :]))


# -- rules ------------------------------------------------------------------------------------


def one_by_one(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """Apply the primitive to one operand of the stack after the other."""
    if not size:
        shape, dtype = _shape_of(primitive, operands, mapped, params)
        device = next(x.device for x in operands if isinstance(x, Tensor))
        return zeros((0, *shape), dtype, device)
    pairs = list(zip(operands, mapped, strict=True))
    return stack([bind(primitive, tuple(x[i] if m else x for x, m in pairs), params) for i in range(size)])


def aligned(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """Put the leading axis in front of the longest operand's axes, where primitives broadcast."""
    pairs = list(zip(operands, mapped, strict=True))
    rank = max(_rank(*pair) for pair in pairs)
    return bind(primitive, tuple([_lifted(x, m, rank) for x, m in pairs]), params)


def everywhere(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """Give every operand the leading axis, where primitives treat all axes in front alike."""
    pairs = zip(operands, mapped, strict=True)
    return bind(primitive, tuple([_spread(x, m, size) for x, m in pairs]), params)


def _matmul(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    (x, y), (x_mapped, y_mapped) = operands, mapped
    is_row, is_column = _rank(x, x_mapped) == 1, _rank(y, y_mapped) == 1
    x = reshape(x, (*x.shape[:-1], 1, x.shape[-1])) if is_row else x
    y = reshape(y, (*y.shape, 1)) if is_column else y
    out = aligned(primitive, (x, y), mapped, size, params)
    gone = ([-2] if is_row else []) + ([-1] if is_column else [])
    return (
        reshape(out, tuple(n for i, n in enumerate(out.shape) if i - out.ndim not in gone)) if gone else out
    )


def _reshape(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    shape, _ = _shape_of(primitive, operands, mapped, params)
    return bind(primitive, tuple(operands), {"shape": (size, *shape)})


def _permuted(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    return bind(primitive, tuple(operands), {"axes": (-operands[0].ndim, *params["axes"])})


def _broadcast(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    shape = tuple(params["shape"])
    return bind(primitive, (_lifted(operands[0], True, len(shape)),), {"shape": (size, *shape)})


def _sum_squares(
    primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params
) -> Tensor:
    parts = [sum(square(x), tuple(range(m, x.ndim))) for x, m in zip(operands, mapped, strict=True)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _merged(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """Make the leading axis part of the sample axis, where primitives treat samples alike."""
    pairs = zip(operands, mapped, strict=True)
    stacked = [_spread(x, m, size) for x, m in pairs]
    if not size:
        return one_by_one(primitive, operands, mapped, size, params)
    return _divided(bind(primitive, tuple([_joined(x, 0) for x in stacked]), params), 0, size)


def _grouped(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """Make every operand of the stack a group of channels of a convolution."""
    if not size:
        return one_by_one(primitive, operands, mapped, size, params)
    if primitive.name != "conv_weight" and not mapped[1]:  # one weight for all: more samples
        return _divided(bind(primitive, (_joined(operands[0], 0), operands[1]), params), 0, size)
    stacked = [_spread(x, m, size) for x, m in zip(operands, mapped, strict=True)]
    images = [moveaxis(x, 0, 1) for x in (stacked if primitive.name == "conv_weight" else stacked[:1])]
    flat = [_joined(x, 1) for x in images] + [_joined(x, 0) for x in stacked[len(images) :]]
    out = bind(primitive, tuple(flat), {**params, "groups": size * params["groups"]})
    if primitive.name == "conv_weight":
        return _divided(out, 0, size)
    return moveaxis(_divided(out, 1, size), 1, 0)


# -- indices ----------------------------------------------------------------------------------


def _take(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """The leading axis of the indices replaces the axis; that of x stays in front."""
    if mapped[0] and mapped[1]:
        x, indices = operands
        if _wraps(indices) and size and x.shape[1] and params["axis"] == 1 - x.ndim:
            return bind(primitive, (_joined(x, 0), _in_all(indices, size, x.shape[1])), params)
        return one_by_one(primitive, operands, mapped, size, params)
    out = bind(primitive, tuple(operands), params)
    return moveaxis(out, operands[0].ndim + params["axis"], 0) if mapped[1] else out


def _wraps(indices: Tensor) -> bool:
    """Tell whether indices that are out of bounds wrap around, rather than raise an error."""
    return indices.device.kind not in ("cpu", "meta")


def _in_all(indices: Tensor, size: int, length: int) -> Tensor:
    """Return indices of rows of every operand as those of the joined rows of all."""
    starts = arange(0, size * length, length, dtype=indices.dtype, device=indices.device)
    return reshape(starts, (size, *(1,) * (indices.ndim - 1))) + remainder(indices, length)


def _put(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    if mapped[0] and mapped[1] and _wraps(operands[1]) and size:
        g, indices = operands
        length, axis = params["length"], params["axis"]
        if length and g.ndim + axis + 1 == indices.ndim:  # the axis is the first of each
            places = _in_all(indices, size, length)
            out = bind(primitive, (g, places), {**params, "length": size * length})
            return _divided(out, 0, size)
    if mapped[1]:
        return one_by_one(primitive, operands, mapped, size, params)
    return bind(primitive, tuple(operands), params)


def _draws(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    """The leading axis of step and key goes in front of the axes of the draws."""
    if params["key"] is not None or not mapped[1] or mapped[0]:
        return one_by_one(primitive, operands, mapped, size, params)
    rank = len(params["shape"])
    lifted = [_lifted(x, m, rank) for x, m in zip(operands, mapped, strict=True)]
    return bind(primitive, tuple(lifted), params)


def _is_apart(index: Any) -> bool:
    """Tell whether arrays of an index (integers count) have slices between them: their axes come first."""
    parts = index if isinstance(index, tuple) else (index,)
    at = [i for i, part in enumerate(parts) if is_array(part) or isinstance(part, (int, list))]
    arrays = any(is_array(part) or isinstance(part, list) for part in parts)
    return arrays and at[-1] - at[0] >= len(at)


def _leading(index: Any) -> tuple[Any, ...] | None:
    """Return an index of a stack that takes of each operand what `index` takes; None if none does."""
    parts = index if isinstance(index, tuple) else (index,)
    if _is_apart(index) or any(isinstance(part, bool) for part in parts):
        return None
    return (slice(None), *parts)


def _getitem(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    index = _leading(params["index"])
    if index is None:
        return one_by_one(primitive, operands, mapped, size, params)
    return bind(primitive, tuple(operands), {"index": index})


def _scatter_add(
    primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params
) -> Tensor:
    index = _leading(params["index"])
    if index is None:
        return one_by_one(primitive, operands, mapped, size, params)
    return bind(primitive, tuple(operands), {"index": index, "shape": (size, *params["shape"])})


def _setitem(primitive: Primitive, operands: Operands, mapped: Mapped, size: int, params: Params) -> Tensor:
    index = _leading(params["index"])
    (x, value), (x_mapped, value_mapped) = operands, mapped
    if index is None or (value_mapped and not x_mapped):
        return one_by_one(primitive, operands, mapped, size, params)
    if value_mapped:
        taken, _ = PRIMITIVES["getitem"].shape(_Ghost(x, True), params["index"])
        value = _lifted(value, True, max(len(taken), value.ndim - 1))
        extra = value.ndim - 1 - len(taken)
        value = reshape(value, (size, *value.shape[1 + extra :])) if extra else value
    return bind(primitive, (x, value), {"index": index})


OF_OTHERS: dict[str, Rule] = {}  # rules of primitives that upper packages have
ANY_AXES_IN_FRONT = (
    "all", "any", "argmax", "argmin", "argsort", "astype", "attach_aux", "cholesky", "concat",
    "cumulative_prod", "cumulative_sum", "det", "eigh", "inv", "log_softmax", "logsumexp", "max", "min",
    "ones_like", "pad", "pinv", "prod", "put_along_axis", "qr", "slogdet", "softmax", "sort", "sum",
    "svd", "take_along_axis", "topk", "zeros_like",
)  # fmt: skip
RULES: dict[str, Rule] = {
    **dict.fromkeys(ANY_AXES_IN_FRONT, everywhere),
    **dict.fromkeys(("max_pool", "max_pool_put", "max_pool_take", "sum_pool", "sum_pool_spread"), _merged),
    **dict.fromkeys(("conv", "conv_image", "conv_weight"), _grouped),
    "broadcast_to": _broadcast,
    "getitem": _getitem,
    "matmul": _matmul,
    "permute_dims": _permuted,
    "put": _put,
    "reshape": _reshape,
    "scatter_add": _scatter_add,
    "setitem": _setitem,
    **dict.fromkeys(("scaled_quotient", "solve"), aligned),
    "sum_squares": _sum_squares,
    "take": _take,
    "uniform_draws": _draws,
}
