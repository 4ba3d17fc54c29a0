"""The steps of random programs, each for sknet and for PyTorch.

A program computes with a list of values. A step appends a value computed from some of the others: `ours` in
`sknet.ops`, `theirs` in PyTorch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sknet import ops

__all__ = ["KINDS", "KINDS_OF_INTEGERS", "Drawer", "Step"]


class Step(NamedTuple):
    """One step: its name, and functions that append its result to sknet's or PyTorch's values."""

    name: str
    ours: Callable[[list[Any]], Any]
    theirs: Callable[[list[Any]], Any]


class Drawer:
    """Draws steps, given the shapes of the existing values."""

    def __init__(
        self, rng: np.random.Generator, torch: Any, dtype: str, shapes: list[tuple[int, ...]]
    ) -> None:
        self.rng, self.torch, self.dtype, self.shapes = rng, torch, dtype, shapes

    def choice(self, things: Any) -> Any:
        things = list(things)
        return things[int(self.rng.integers(len(things)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def value(self, *, rank: int = 0, full: bool = False) -> int | None:
        """Return a value of at least some rank, late ones more often; with `full`, one that is not empty."""
        found = [i for i, shape in enumerate(self.shapes) if len(shape) >= rank and not (full and 0 in shape)]
        return found[-1 - min(int(self.rng.geometric(0.5)) - 1, len(found) - 1)] if found else None

    def partner(self, i: int) -> int:
        """Return a value that broadcasts with another."""
        shapes = enumerate(self.shapes)
        fitting = [j for j, shape in shapes if j == i or broadcasts(shape, self.shapes[i])]
        return int(self.choice(fitting))

    def axis(self, i: int, *, full: bool = False) -> int | None:
        """Return an axis of a value, counted from the start or from the end."""
        shape = self.shapes[i]
        found = [a for a in range(-len(shape), len(shape)) if not (full and shape[a] == 0)]
        return int(self.choice(found)) if found else None

    def axes(self, i: int) -> tuple[int, ...] | int | None:
        """Return some axes, as reductions take them."""
        rank = len(self.shapes[i])
        some = (
            tuple(int(a) for a in self.rng.permutation(rank)[: int(self.rng.integers(1, rank + 1))])
            if rank
            else ()
        )
        return self.choice([None, some or None, some[0] if some else None])


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return int(np.prod(shape)) <= 400 and len(shape) <= 4


Kind = Callable[[Drawer], Step | None]

UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "tanh": (ops.tanh, lambda t, x: t.tanh(x)),
    "sin": (ops.sin, lambda t, x: t.sin(x)),
    "cos": (ops.cos, lambda t, x: t.cos(x)),
    "exp": (lambda x: ops.exp(ops.sin(x)), lambda t, x: t.exp(t.sin(x))),
    "exp and divide": (lambda x: ops.exp(-x * x) / 2, lambda t, x: t.exp(-x * x) / 2),
    "log": (lambda x: ops.log(1.5 + ops.sin(x)), lambda t, x: t.log(1.5 + t.sin(x))),
    "exp of a difference of logs": (
        lambda x: ops.exp(ops.log(x * x + 1) - ops.log(ops.abs(x) + 2)),
        lambda t, x: t.exp(t.log(x * x + 1) - t.log(t.abs(x) + 2)),
    ),
    "log of exp": (lambda x: ops.log(ops.exp(ops.sin(x))), lambda t, x: t.log(t.exp(t.sin(x)))),
    "log1p": (lambda x: ops.log1p(x * x), lambda t, x: t.log1p(x * x)),
    "expm1": (lambda x: ops.expm1(ops.tanh(x)), lambda t, x: t.expm1(t.tanh(x))),
    "sqrt": (lambda x: ops.sqrt(x * x + 0.25), lambda t, x: t.sqrt(x * x + 0.25)),
    "square of sqrt": (lambda x: ops.sqrt(ops.abs(x) + 1) ** 2, lambda t, x: t.sqrt(t.abs(x) + 1) ** 2),
    "rsqrt": (lambda x: ops.rsqrt(x * x + 0.5), lambda t, x: t.rsqrt(x * x + 0.5)),
    "reciprocal": (lambda x: ops.reciprocal(x * x + 0.7), lambda t, x: t.reciprocal(x * x + 0.7)),
    "square": (ops.square, lambda t, x: t.square(x)),
    "negative": (ops.negative, lambda t, x: -x),
    "twice negative": (lambda x: -ops.negative(x), lambda t, x: -t.neg(x)),
    "abs": (ops.abs, lambda t, x: t.abs(x)),
    "sign": (lambda x: x * ops.sign(x - 0.3), lambda t, x: x * t.sign(x - 0.3)),
    "floor": (lambda x: x - ops.floor(x * 2 + 0.123), lambda t, x: x - t.floor(x * 2 + 0.123)),
    "erf": (ops.erf, lambda t, x: t.erf(x)),
    "atan": (ops.atan, lambda t, x: t.atan(x)),
    "asinh": (ops.asinh, lambda t, x: t.asinh(x)),
    "relu": (ops.relu, lambda t, x: t.relu(x)),
    "relu of relu": (lambda x: ops.relu(ops.relu(x)), lambda t, x: t.relu(t.relu(x))),
    "sigmoid": (ops.sigmoid, lambda t, x: t.sigmoid(x)),
    "silu": (ops.silu, lambda t, x: t.nn.functional.silu(x)),
    "gelu": (ops.gelu, lambda t, x: t.nn.functional.gelu(x)),
    "softplus": (ops.softplus, lambda t, x: t.logaddexp(x, t.zeros_like(x))),  # exact above 20
    "elu": (ops.elu, lambda t, x: t.nn.functional.elu(x)),
    "leaky relu": (lambda x: ops.leaky_relu(x, 0.2), lambda t, x: t.nn.functional.leaky_relu(x, 0.2)),
    "mish": (ops.mish, lambda t, x: t.nn.functional.mish(x)),
    "hardswish": (ops.hardswish, lambda t, x: t.nn.functional.hardswish(x)),
    "log sigmoid": (ops.log_sigmoid, lambda t, x: t.nn.functional.logsigmoid(x)),
    "clip": (lambda x: ops.clip(x, -0.6, 1.1), lambda t, x: t.clip(x, -0.6, 1.1)),
    "clip below": (lambda x: ops.clip(x, min=0.2), lambda t, x: t.clip(x, min=0.2)),
    "power": (lambda x: (ops.abs(x) + 0.3) ** 1.7, lambda t, x: (t.abs(x) + 0.3) ** 1.7),
    "cube": (lambda x: ops.tanh(x) ** 3, lambda t, x: t.tanh(x) ** 3),
    "power of a number": (lambda x: 1.7 ** ops.sin(x), lambda t, x: 1.7 ** t.sin(x)),
    "times one": (lambda x: x * 1.0 + 0.0, lambda t, x: x * 1.0 + 0.0),
    "times a number twice": (
        lambda x: 0.5 * (x * 3.0) - 1.0 + 0.25, lambda t, x: 0.5 * (x * 3.0) - 1.0 + 0.25
    ),
    "divided by a number": (lambda x: x / 3.0, lambda t, x: x / 3.0),
    "minus itself": (lambda x: x - x + 0.5 * x, lambda t, x: x - x + 0.5 * x),
    "divided by itself": (
        lambda x: (x * x + 1) / (x * x + 1) * x, lambda t, x: (x * x + 1) / (x * x + 1) * x
    ),
    "a number minus it": (lambda x: 2.0 - x, lambda t, x: 2.0 - x),
    "a number by it": (lambda x: 0.3 / (x * x + 1), lambda t, x: 0.3 / (x * x + 1)),
    "detached": (lambda x: x * ops.sin(x.detach()), lambda t, x: x * t.sin(x.detach())),
    "where": (
        lambda x: ops.where(ops.greater(x, 0.11), x, 0.5 * x * x),
        lambda t, x: t.where(x > 0.11, x, 0.5 * x * x),
    ),
    "where of numbers": (
        lambda x: ops.where(ops.less(x, 0.11), 1.5, x),
        lambda t, x: t.where(x < 0.11, 1.5, x),
    ),
    "mask as numbers": (
        lambda x: x * ops.astype(ops.logical_or(ops.less(x, -0.2), ops.greater(x, 0.4)), x.dtype),
        lambda t, x: x * ((x < -0.2) | (x > 0.4)).to(x.dtype),
    ),
    "positive": (ops.positive, lambda t, x: t.positive(x)),
}  # fmt: skip

BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "add": (ops.add, lambda t, a, b: a + b),
    "subtract": (ops.subtract, lambda t, a, b: a - b),
    "multiply": (ops.multiply, lambda t, a, b: a * b),
    "divide": (lambda a, b: a / (b * b + 0.6), lambda t, a, b: a / (b * b + 0.6)),
    "maximum": (ops.maximum, lambda t, a, b: t.maximum(a, b)),
    "minimum": (ops.minimum, lambda t, a, b: t.minimum(a, b)),
    "hypot": (lambda a, b: ops.hypot(a, b + 3.0), lambda t, a, b: t.hypot(a, b + 3.0)),
    "atan2": (lambda a, b: ops.atan2(a, b * b + 0.4), lambda t, a, b: t.atan2(a, b * b + 0.4)),
    "power": (lambda a, b: (a * a + 0.4) ** ops.tanh(b), lambda t, a, b: (a * a + 0.4) ** t.tanh(b)),
    "logaddexp": (ops.logaddexp, lambda t, a, b: t.logaddexp(a, b)),
    "axpy": (lambda a, b: a + 0.7 * b, lambda t, a, b: a + 0.7 * b),
    "minus a multiple": (lambda a, b: a - b * 0.3, lambda t, a, b: a - b * 0.3),
    "common factor": (lambda a, b: a * b + a, lambda t, a, b: a * b + a),
    "squared difference": (lambda a, b: (a - b) ** 2, lambda t, a, b: (a - b) ** 2),
    "where": (
        lambda a, b: ops.where(ops.greater_equal(a, b + 0.01), a, b),
        lambda t, a, b: t.where(a >= b + 0.01, a, b),
    ),
    "mask of one": (
        lambda a, b: ops.where(ops.less(b, 0.07), a, 0.0),
        lambda t, a, b: t.where(b < 0.07, a, 0.0),
    ),
    "remainder": (lambda a, b: ops.remainder(a, b * b + 1.3), lambda t, a, b: t.remainder(a, b * b + 1.3)),
    "lerp": (lambda a, b: ops.lerp(a, b, 0.3), lambda t, a, b: a + 0.3 * (b - a)),
}  # fmt: skip


def unary(draw: Drawer) -> Step | None:
    i, name = draw.value(), draw.choice(UNARY)
    ours, theirs = UNARY[name]
    return Step(name, lambda v: ours(v[i]), lambda v: theirs(draw.torch, v[i]))


def binary(draw: Drawer) -> Step | None:
    i, name = draw.value(), draw.choice(BINARY)
    assert i is not None
    j = draw.partner(i)
    if draw.chance(0.5):
        i, j = j, i
    ours, theirs = BINARY[name]
    return Step(name, lambda v: ours(v[i], v[j]), lambda v: theirs(draw.torch, v[i], v[j]))


def same_twice(draw: Drawer) -> Step | None:
    """Steps with common subexpressions."""
    i, name = draw.value(), draw.choice(UNARY)
    ours, theirs = UNARY[name]
    return Step(
        f"{name}, twice",
        lambda v: ours(v[i]) * 0.5 + ours(v[i]),
        lambda v: theirs(draw.torch, v[i]) * 0.5 + theirs(draw.torch, v[i]),
    )


# -- reductions and scans -----------------------------------------------------------------------


def reduction(draw: Drawer) -> Step | None:
    name = draw.choice(["sum", "sum", "mean", "var", "max", "min", "logsumexp", "std", "norm"])
    i = draw.value(full=name != "sum")
    if i is None:
        return None
    axis, keep = draw.axes(i), draw.chance(0.5)
    every = tuple(range(len(draw.shapes[i]))) if axis is None else axis
    torch = draw.torch
    ours: dict[str, Callable[[Any], Any]] = {
        "sum": lambda x: ops.sum(x, axis=axis, keepdims=keep),
        "mean": lambda x: ops.mean(x, axis=axis, keepdims=keep),
        "var": lambda x: ops.var(x, axis=axis, keepdims=keep),
        "max": lambda x: ops.max(x, axis=axis, keepdims=keep),
        "min": lambda x: ops.min(x, axis=axis, keepdims=keep),
        "logsumexp": lambda x: ops.logsumexp(x, axis=axis, keepdims=keep),
        "std": lambda x: ops.sqrt(ops.var(x, axis=axis, keepdims=keep) + 0.1),
        "norm": lambda x: ops.sqrt(ops.sum(x * x, axis=axis, keepdims=keep) + 0.1),
    }
    theirs: dict[str, Callable[[Any], Any]] = {
        "sum": lambda x: torch.sum(x, dim=every, keepdim=keep),
        "mean": lambda x: torch.mean(x, dim=every, keepdim=keep),
        "var": lambda x: torch.var(x, dim=every, correction=0, keepdim=keep),
        "max": lambda x: torch.amax(x, dim=every, keepdim=keep),
        "min": lambda x: torch.amin(x, dim=every, keepdim=keep),
        "logsumexp": lambda x: torch.logsumexp(x, dim=every, keepdim=keep),
        "std": lambda x: torch.sqrt(torch.var(x, dim=every, correction=0, keepdim=keep) + 0.1),
        "norm": lambda x: torch.sqrt(torch.sum(x * x, dim=every, keepdim=keep) + 0.1),
    }
    if not draw.shapes[i]:  # PyTorch takes no axis of a scalar
        return None
    return Step(f"{name} {axis} {keep}", lambda v: ours[name](v[i]), lambda v: theirs[name](v[i]))


def along_an_axis(draw: Drawer) -> Step | None:
    i = draw.value(rank=1)
    if i is None or (axis := draw.axis(i)) is None:
        return None
    torch = draw.torch
    k, n = int(draw.rng.integers(-3, 4)), draw.shapes[i][axis]
    many = max(1, n - 1)
    table: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "cumulative sum": (lambda x: ops.cumulative_sum(x, axis=axis), lambda x: torch.cumsum(x, axis)),
        "flip": (lambda x: ops.flip(x, axis=axis), lambda x: torch.flip(x, (axis,))),
        "roll": (lambda x: ops.roll(x, k, axis=axis), lambda x: torch.roll(x, k, axis)),
        "repeat": (lambda x: ops.repeat(x, 2, axis=axis), lambda x: torch.repeat_interleave(x, 2, dim=axis)),
    }
    if n:
        table |= {
            "softmax": (lambda x: ops.softmax(x, axis=axis), lambda x: torch.softmax(x, axis)),
            "log_softmax": (lambda x: ops.log_softmax(x, axis=axis), lambda x: torch.log_softmax(x, axis)),
            "sort": (lambda x: ops.sort(x, axis=axis), lambda x: torch.sort(x, dim=axis, stable=True)[0]),
            "topk": (lambda x: ops.topk(x, many, axis=axis)[0], lambda x: torch.topk(x, many, dim=axis)[0]),
            "diff": (lambda x: ops.diff(x, axis=axis), lambda x: torch.diff(x, dim=axis)),
            "prod": (lambda x: ops.prod(x, axis=axis), lambda x: torch.prod(x, axis)),
            "cumulative product": (
                lambda x: ops.cumulative_prod(x, axis=axis),
                lambda x: torch.cumprod(x, axis),
            ),
        }
    if n % 2 == 0 and n:
        table["glu"] = lambda x: ops.glu(x, axis=axis), lambda x: torch.nn.functional.glu(x, axis)
    name = draw.choice(table)
    ours, theirs = table[name]
    return Step(f"{name} {axis}", lambda v: ours(v[i]), lambda v: theirs(v[i]))


# -- views, joins and indices -------------------------------------------------------------------


def view(draw: Drawer) -> Step | None:
    i = draw.value(rank=1)
    if i is None:
        return None
    shape, rng = draw.shapes[i], draw.rng
    order = tuple(int(a) for a in rng.permutation(len(shape)))
    factors = [k for k in range(1, 6) if 0 not in shape and int(np.prod(shape)) % k == 0]
    wanted = (int(draw.choice(factors)), -1) if factors and draw.chance(0.5) else (*shape, 1)
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    table: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        f"permute {order}": (lambda x: ops.permute_dims(x, order), lambda x: x.permute(order)),
        f"reshape {wanted}": (lambda x: ops.reshape(x, wanted), lambda x: x.reshape(wanted)),
        f"expand {axis}": (lambda x: ops.expand_dims(x, axis), lambda x: x.unsqueeze(axis)),
        "squeeze": (lambda x: ops.squeeze(x), lambda x: x.squeeze()),
        "flat": (
            lambda x: ops.reshape(x, (-1,)) if 0 not in x.shape else x,
            lambda x: x.reshape(-1) if x.numel() else x,
        ),
        "broadcast": (lambda x: ops.broadcast_to(x, (2, *shape)), lambda x: x.expand(2, *shape)),
        "move": (lambda x: ops.moveaxis(x, 0, -1), lambda x: x.movedim(0, -1)),
    }
    name = draw.choice(table)
    ours, theirs = table[name]
    return Step(name, lambda v: ours(v[i]), lambda v: theirs(v[i]))


def index(draw: Drawer) -> Step | None:
    """Basic indices; PyTorch has no negative steps, so these become flips."""
    i = draw.value(rank=1)
    if i is None:
        return None
    parts: list[Any] = []
    for n in draw.shapes[i][: int(draw.rng.integers(1, len(draw.shapes[i]) + 1))]:
        start, stop = sorted(int(k) for k in draw.rng.integers(0, n + 1, 2))
        choices = [slice(start, stop), slice(None, None, 2), slice(None), slice(start, None), slice(0, 0)]
        choices += [int(draw.rng.integers(-n, n))] * 2 if n else []
        parts.append(draw.choice(choices))
    if draw.chance(0.3):
        parts.insert(int(draw.rng.integers(len(parts) + 1)), None)
    if draw.chance(0.3):
        parts = [Ellipsis, parts[0]] if parts[0] is not None else [Ellipsis, None]
        if isinstance(parts[1], int) and not -draw.shapes[i][-1] <= parts[1] < draw.shapes[i][-1]:
            return None
    where = tuple(parts)
    return Step(f"index {where}", lambda v: v[i][where], lambda v: v[i][where])


def index_by_arrays(draw: Drawer) -> Step | None:
    i = draw.value(rank=1)
    if i is None or not draw.shapes[i][0]:
        return None
    n, torch = draw.shapes[i][0], draw.torch
    rows = draw.rng.integers(0, n, int(draw.rng.integers(1, 4)))
    there = torch.as_tensor(rows)
    mask = draw.rng.random(n) < 0.6
    table: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "rows": (lambda x: x[rows], lambda x: x[there]),
        "take": (lambda x: ops.take(x, rows, axis=0), lambda x: x[there]),
        "mask": (lambda x: x[mask], lambda x: x[torch.as_tensor(mask)]),
    }
    name = draw.choice(table)
    ours, theirs = table[name]
    return Step(f"{name} {rows}", lambda v: ours(v[i]), lambda v: theirs(v[i]))


def join(draw: Drawer) -> Step | None:
    i = draw.value(rank=1)
    if i is None:
        return None
    same = [j for j, shape in enumerate(draw.shapes) if shape == draw.shapes[i]]
    j, axis, torch = int(draw.choice(same)), draw.axis(i), draw.torch
    if draw.chance(0.5):
        return Step(
            "concat", lambda v: ops.concat([v[i], v[j]], axis=axis), lambda v: torch.cat([v[i], v[j]], axis)
        )
    return Step(
        "stack", lambda v: ops.stack([v[i], v[j]], axis=axis), lambda v: torch.stack([v[i], v[j]], axis)
    )


def pad(draw: Drawer) -> Step | None:
    i = draw.value(rank=1)
    if i is None:
        return None
    a, b = (int(k) for k in draw.rng.integers(0, 3, 2))
    widths = [(0, 0)] * (len(draw.shapes[i]) - 1) + [(a, b)]
    functional = draw.torch.nn.functional
    return Step(
        "pad", lambda v: ops.pad(v[i], widths, value=0.5), lambda v: functional.pad(v[i], (a, b), value=0.5)
    )


# -- products -----------------------------------------------------------------------------------


def product(draw: Drawer) -> Step | None:
    i = draw.value(rank=1)
    if i is None:
        return None
    shape, torch = draw.shapes[i], draw.torch
    fitting = [
        j
        for j, other in enumerate(draw.shapes)
        if other and (other[0] if len(other) == 1 else other[-2]) == shape[-1]
    ]
    fitting = [j for j in fitting if len(draw.shapes[j]) <= 2 or len(shape) <= 2]
    if not fitting:
        return Step(
            "with its transpose",
            lambda v: ops.matmul(v[i], _turned(v[i])) * 0.3,
            lambda v: torch.matmul(v[i], _turned(v[i])) * 0.3,
        )
    j = int(draw.choice(fitting))
    return Step("matmul", lambda v: ops.matmul(v[i], v[j]) * 0.5, lambda v: torch.matmul(v[i], v[j]) * 0.5)


def _turned(x: Any) -> Any:
    return (
        x
        if x.ndim == 1
        else x.swapaxes(-1, -2)
        if not hasattr(x, "numpy") or hasattr(x, "movedim")
        else ops.matrix_transpose(x)
    )


def einsum(draw: Drawer) -> Step | None:
    i = draw.value(rank=2)
    if i is None or len(draw.shapes[i]) != 2:
        return None
    same = [j for j, shape in enumerate(draw.shapes) if shape == draw.shapes[i]]
    j, torch = int(draw.choice(same)), draw.torch
    text = draw.choice(["ab,ab->a", "ab,ab->b", "ab,ab->", "ab,cb->ac", "ab,ac->bc", "ab,ab->ba"])
    return Step(
        f"einsum {text}",
        lambda v: ops.einsum(text, v[i], v[j]) * 0.4,
        lambda v: torch.einsum(text, v[i], v[j]) * 0.4,
    )


def layer_norm(draw: Drawer) -> Step | None:
    i = draw.value(rank=1, full=True)
    if i is None or draw.shapes[i][-1] < 3:
        return None
    n, functional = draw.shapes[i][-1], draw.torch.nn.functional
    return Step(
        "layer norm",
        lambda v: ops.layer_norm(v[i], n, eps=0.1),
        lambda v: functional.layer_norm(v[i], (n,), eps=0.1),
    )


# -- changes in place ---------------------------------------------------------------------------


def in_place(draw: Drawer) -> Step | None:
    """A copy that is changed several times; the copy is the new value."""
    i = draw.value(rank=1, full=True)
    if i is None:
        return None
    n = draw.shapes[i][0]
    changes = [
        draw.choice(["add", "multiply", "scale", "row", "part", "part by itself"])
        for _ in range(draw.choice([1, 2, 3]))
    ]
    k = int(draw.rng.integers(n))
    step = 1 + int(draw.rng.integers(2))

    def changed(copy: Any, sin: Callable[[Any], Any], value: Any, *, is_ours: bool) -> Any:
        for change in changes:
            if change == "add":
                copy += 0.3 * value
            elif change == "multiply" and is_ours:
                copy *= sin(copy)
            elif change == "multiply":  # which PyTorch refuses to do in place
                copy = copy * sin(copy)
            elif change == "scale":
                copy /= 2.0
            elif change == "row":
                copy[k] = sin(value[n - 1 - k])
            elif change == "part":
                copy[::step] = 0.25
            else:
                copy[k:] *= 0.5
        return copy

    torch = draw.torch
    return Step(
        f"in place {changes}",
        lambda v: changed(v[i] * 1.0, ops.sin, v[i], is_ours=True),
        lambda v: changed(v[i] * 1.0, torch.sin, v[i], is_ours=False),
    )


KINDS: tuple[Kind, ...] = (
    unary, unary, unary, unary, unary, unary, binary, binary, binary, binary, binary, binary, same_twice,
    reduction, reduction, reduction, along_an_axis, along_an_axis, view, view, view, index, index,
    index_by_arrays, join, pad, product, product, einsum, layer_norm, in_place,
)  # fmt: skip

# -- integers -----------------------------------------------------------------------------------

OF_INTEGERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "add": (lambda a, b: a + b, lambda t, a, b: a + b),
    "subtract": (lambda a, b: a - b, lambda t, a, b: a - b),
    "multiply": (lambda a, b: a * b, lambda t, a, b: a * b),
    "add a number": (lambda a, b: a + 3, lambda t, a, b: a + 3),
    "from a number": (lambda a, b: 3 - a, lambda t, a, b: 3 - a),
    "twice": (lambda a, b: 2 * a, lambda t, a, b: 2 * a),
    "negative of twice": (lambda a, b: -(2 * a), lambda t, a, b: -(2 * a)),
    "negative": (lambda a, b: -a, lambda t, a, b: -a),
    "square": (lambda a, b: a * a, lambda t, a, b: a * a),
    "minus itself": (lambda a, b: a - a + b, lambda t, a, b: a - a + b),
    "minus a multiple": (lambda a, b: a - b * 2, lambda t, a, b: a - b * 2),
    "maximum": (ops.maximum, lambda t, a, b: t.maximum(a, b)),
    "minimum": (ops.minimum, lambda t, a, b: t.minimum(a, b)),
    "where": (
        lambda a, b: ops.where(ops.greater(a, b), a, b - 1), lambda t, a, b: t.where(a > b, a, b - 1)
    ),
    "abs": (lambda a, b: ops.abs(a), lambda t, a, b: t.abs(a)),
    "clip": (lambda a, b: ops.clip(a, 1, 5), lambda t, a, b: t.clip(a, 1, 5)),
    "floor divide": (lambda a, b: a // 3, lambda t, a, b: a // 3),
    "remainder": (lambda a, b: a % 3, lambda t, a, b: a % 3),
    "and": (lambda a, b: a & b, lambda t, a, b: a & b),
    "or": (lambda a, b: a | 5, lambda t, a, b: a | 5),
    "xor": (lambda a, b: a ^ b, lambda t, a, b: a ^ b),
    "invert": (lambda a, b: ~a, lambda t, a, b: ~a),
    "flip": (lambda a, b: ops.flip(a), lambda t, a, b: t.flip(a, tuple(range(a.ndim)))),
    "mask": (
        lambda a, b: a * ops.astype(ops.equal(a, b), a.dtype), lambda t, a, b: a * (a == b).to(a.dtype)
    ),
}  # fmt: skip


def of_integers(draw: Drawer) -> Step | None:
    i, name = draw.value(), draw.choice(OF_INTEGERS)
    assert i is not None
    j = draw.partner(i)
    ours, theirs = OF_INTEGERS[name]
    return Step(name, lambda v: ours(v[i], v[j]), lambda v: theirs(draw.torch, v[i], v[j]))


KINDS_OF_INTEGERS: tuple[Kind, ...] = (of_integers, of_integers, of_integers, view, index)
