"""Joining, dividing, repeating and padding."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core.extend import param_kinds as kinds
from sknet.core.extend import primitives as p
from sknet.device import Namespace, result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._indexing import take
from sknet.ops._rules import EveryOperand, astype_like
from sknet.ops._shape import broadcast_to, expand_dims, reshape

__all__ = ["concat", "flip", "pad", "repeat", "roll", "split", "stack", "tile", "unstack"]


Shape = tuple[int, ...]

# -- joining ----------------------------------------------------------------------------------


def _concat_shape(*xs: Any, axis: int) -> tuple[Shape, np.dtype[Any]]:
    at = len(xs[0].shape) + axis
    if len({(len(x.shape), x.shape[:at], x.shape[at + 1 :]) for x in xs}) > 1:
        raise ShapeError(f"concat: shapes {[tuple(x.shape) for x in xs]} differ outside axis {axis}")
    lengths = list(xs[0].shape)
    lengths[axis] = sum(x.shape[axis] for x in xs)
    return tuple(lengths), result_dtype(*xs)


def _part(g: Tensor, xs: Sequence[Any], i: int, axis: int) -> Tensor:
    start = sum(x.shape[axis] for x in xs[:i])
    return astype_like(take_slice(g, axis, start, start + xs[i].shape[axis]), xs[i])


_concat = Primitive("concat").define(
    forward=lambda xp, *xs, axis, out=None: xp.concatenate(xs, axis=axis, out=out),
    shape=_concat_shape,
    params={"axis": kinds.AXIS},
    vjp=EveryOperand(_part),
    saves="nothing",
)


def concat(xs: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Return the tensors joined along an `axis` that they have; for None, of all of them flattened."""
    tensors = [as_tensor(x) for x in xs]
    if not tensors:
        raise ShapeError("concat: expected at least one tensor, got an empty sequence")
    if axis is None:
        tensors, axis = [reshape(x, (-1,)) for x in tensors], 0
    return bind(_concat, tuple(tensors), {"axis": normalize_axis(axis, tensors[0].ndim, "concat")})


def stack(xs: Sequence[Any], axis: int = 0) -> Tensor:
    """Return the tensors joined along a new `axis`."""
    tensors = [as_tensor(x) for x in xs]
    shapes = {x.shape for x in tensors}
    if len(shapes) != 1:
        raise ShapeError(f"stack: expected tensors of one shape, got {sorted(shapes) or 'no tensor'}")
    return concat([expand_dims(x, axis) for x in tensors], axis)


# -- dividing ---------------------------------------------------------------------------------


def take_slice(
    x: Tensor, axis: int, start: int | None = None, stop: int | None = None, step: int | None = None
) -> Tensor:
    """Return x[..., start:stop:step, ...] along a (negative) axis, as a view."""
    index = (Ellipsis, slice(start, stop, step), *(slice(None),) * (-axis - 1))
    return bind(p.getitem, (x,), {"index": index})


def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts of x along `axis`, each without that axis."""
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "unstack")
    rest = (slice(None),) * (-at - 1)
    return tuple([bind(p.getitem, (x,), {"index": (Ellipsis, i, *rest)}) for i in range(x.shape[at])])


def split(x: Any, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return x divided along an axis, as views.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    parts : int or sequence of int
        How many parts of equal length, or the positions at which to cut: (2, 5) gives x[:2], x[2:5]
        and x[5:].
    axis : int, default=0
        Along which axis to cut.

    Returns
    -------
    tuple of Tensor
        The parts in order.

    Raises
    ------
    ShapeError
        If the axis cannot be divided into this many equal parts.

    Examples
    --------
    >>> [part.numpy().tolist() for part in split([1, 2, 3, 4, 5, 6], (1, 3))]
    [[1], [2, 3], [4, 5, 6]]
    """
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "split")
    length = x.shape[at]
    if isinstance(parts, (int, np.integer)):
        if parts < 1 or length % parts:
            raise ShapeError(
                f"split: axis {axis} of shape {x.shape} has length {length}, which cannot be divided into "
                f"{parts} equal parts: give the positions at which to cut"
            )
        parts = range(length // parts, length, length // parts) if length else (0,) * (parts - 1)
    return tuple([take_slice(x, at, *cut) for cut in itertools.pairwise((0, *parts, length))])


# -- other orders -----------------------------------------------------------------------------


def flip(x: Any, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return x with its elements in reverse order along `axis` (all axes for None), as a view."""
    x = as_tensor(x)
    axes = normalize_axes(axis, x.ndim, "flip")
    index = (Ellipsis, *[slice(None, None, -1 if a in axes else None) for a in range(-x.ndim, 0)])
    return bind(p.getitem, (x,), {"index": index})


def roll(x: Any, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Return x shifted by `shift` positions along `axis`; what leaves at the end reappears at the start.

    Several shifts need as many axes; for None, x is flattened, shifted, and given its shape again.
    """
    out = as_tensor(x)
    if axis is None:
        return reshape(roll(reshape(out, (-1,)), shift, 0), out.shape)
    axes = normalize_axes(axis, out.ndim, "roll")
    shifts = tuple(shift) if isinstance(shift, Sequence) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts {shift} do not fit {len(axes)} axes {axis}")
    for a, n in zip(axes, map(int, shifts), strict=True):
        start = -n % out.shape[a] if out.shape[a] else 0
        if start:
            out = concat([take_slice(out, a, start), take_slice(out, a, 0, start)], a)
    return out


# -- repeating --------------------------------------------------------------------------------


def tile(x: Any, repetitions: int | Sequence[int]) -> Tensor:
    """Return copies of x side by side, `repetitions` of them along each axis.

    If x has fewer axes than there are `repetitions`, or the reverse, ones are prepended to the shorter.
    """
    x = as_tensor(x)
    counts = (repetitions,) if isinstance(repetitions, (int, np.integer)) else tuple(repetitions)
    ndim = max(x.ndim, len(counts))
    counts, lengths = (1,) * (ndim - len(counts)) + counts, (1,) * (ndim - x.ndim) + x.shape
    if any(n < 0 for n in counts):
        raise ShapeError(f"tile: the numbers of repetitions must not be negative, got {repetitions}")
    pairs = list(zip(counts, lengths, strict=True))
    spread = broadcast_to(
        reshape(x, [n for _, length in pairs for n in (1, length)]), [n for pair in pairs for n in pair]
    )
    return reshape(spread, [count * length for count, length in pairs])


def repeat(x: Any, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Return x with every element along `axis` repeated `repeats` times in succession.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    repeats : int or sequence of int
        How often, one number for all or one for each element along the axis. They decide the shape
        of the result: in a captured function they must be known.
    axis : int, default=None
        Along which axis; for None, x is flattened.

    Returns
    -------
    Tensor
        Longer along `axis`.

    Raises
    ------
    ShapeError
        If there are neither one nor as many numbers as elements, or negative ones.
    CaptureError
        If the numbers are computed in a captured function.

    Examples
    --------
    >>> repeat([1.0, 2.0], (3, 1)).numpy()
    array([1., 1., 1., 2.])
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    at = normalize_axis(axis, x.ndim, "repeat")
    counts = as_tensor(repeats).numpy()
    if counts.ndim > 1 or counts.size not in (1, x.shape[at]) or (counts < 0).any():
        raise ShapeError(
            f"repeat: expected one number, or {x.shape[at]} for axis {axis} of shape {x.shape}, none of them "
            f"negative, got {counts.tolist()}"
        )
    if counts.size > 1:
        return take(x, Tensor(np.repeat(np.arange(counts.size), counts), device=x.device), at)
    n, behind = int(counts.reshape(-1)[0]), x.shape[x.ndim + at + 1 :]
    spread = broadcast_to(expand_dims(x, x.ndim + at + 1), (*x.shape[: x.ndim + at + 1], n, *behind))
    return reshape(spread, (*x.shape[: x.ndim + at], x.shape[at] * n, *behind))


# -- padding ----------------------------------------------------------------------------------

Widths = tuple[tuple[int, int], ...]
NUMPYS: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_shape(x: Any, widths: Widths, value: float) -> tuple[tuple[int, ...], np.dtype[Any]]:
    first = len(x.shape) - len(widths)
    padded = [before + n + after for (before, after), n in zip(widths, x.shape[first:], strict=True)]
    return (*x.shape[:first], *padded), x.dtype


def _inside(x: Any, widths: Widths) -> tuple[Any, ...]:
    lengths = x.shape[len(x.shape) - len(widths) :]
    return (Ellipsis, *[slice(a, a + n) for (a, _), n in zip(widths, lengths, strict=True)])


def _pad_forward(xp: Namespace, x: Any, *, widths: Widths, value: float, out: Any = None) -> Any:
    if out is None:
        out = xp.empty(*_pad_shape(x, widths, value))
    out.fill(value)
    out[_inside(x, widths)] = x
    return out


_pad = Primitive("pad").define(
    forward=_pad_forward,
    shape=_pad_shape,
    params={"widths": kinds.PAIRS, "value": kinds.NUMBER},
    vjp=(lambda g, _, x, widths, value: bind(p.getitem, (g,), {"index": _inside(x, widths)}),),
    saves="nothing",
)


def _checked(x: Tensor, widths: int | Sequence[Sequence[int]]) -> Widths:
    pairs = (
        [(widths, widths)] * x.ndim
        if isinstance(widths, (int, np.integer))
        else [tuple(pair) for pair in widths]
    )
    fit = len(pairs) <= x.ndim and all(len(pair) == 2 and min(pair) >= 0 for pair in pairs)
    if not fit:
        raise ShapeError(
            f"pad: expected a number or at most {x.ndim} pairs (before, after) of numbers that are not "
            f"negative, one pair for each of the last axes of shape {x.shape}, got {widths}"
        )
    return tuple([(int(before), int(after)) for before, after in pairs])


def pad(x: Any, widths: int | Sequence[Sequence[int]], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Return x with elements added at both ends of its last axes.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    widths : int or sequence of pairs of int
        How many elements before and after, one pair for each of the last axes: ((1, 1), (2, 2)) pads
        the height of images by 1 and their width by 2, on both sides. A number pads all axes.
    mode : {"constant", "reflect", "replicate", "circular"}, default="constant"
        What is added: `value`; the elements mirrored at the outermost one; the outermost element; or
        the elements from the other end.
    value : float, default=0.0
        What "constant" adds.

    Returns
    -------
    Tensor
        Longer along the last axes.

    Raises
    ------
    ShapeError, ValueError
        If the widths do not fit, an axis has no element to repeat, or there is no such mode.

    Examples
    --------
    >>> pad([1, 2, 3], 2, "reflect").numpy()
    array([3, 2, 1, 2, 3, 2, 1])
    """
    out = as_tensor(x)
    pairs = _checked(out, widths)
    if mode == "constant":
        return bind(_pad, (out,), {"widths": pairs, "value": value}) if pairs else out
    if mode not in NUMPYS:
        raise ValueError(f"pad: mode must be one of {['constant', *NUMPYS]}, got {shown(mode)}")
    for axis, pair in zip(range(-len(pairs), 0), pairs, strict=True):
        if any(pair):
            if not out.shape[axis]:
                raise ShapeError(f"pad: axis {axis} of shape {out.shape} has no element to repeat")
            places = np.pad(np.arange(out.shape[axis]), pair, NUMPYS[mode]).tolist()
            out = concat([take_slice(out, axis, *run) for run in _runs(places)], axis)
    return out


def _runs(places: list[int]) -> Iterator[tuple[int, int | None, int]]:
    """Divide positions into slices, forwards or backwards: views, which are joined in one pass."""
    while places:
        step = places[1] - places[0] if len(places) > 1 else 1
        n = 1
        while step in (1, -1) and n < len(places) and places[n] - places[n - 1] == step:
            n += 1
        end = places[n - 1] + (step if n > 1 else 1)
        yield places[0], end if end >= 0 else None, step if n > 1 else 1
        places = places[n:]
