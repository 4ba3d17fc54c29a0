"""Shapes: other ones for the same elements; joining, dividing, repeating, padding; new arrays of a shape."""

import itertools
import math
from collections.abc import Iterator, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sknet._constraints import is_integer, shown
from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core import _primitive as kinds
from sknet.core import _primitive as p
from sknet.device import Device, Namespace, available, backend, result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import where
from sknet.ops._rules import EveryOperand, astype_like, broadcast, unbroadcast

__all__ = [
    "arange", "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "eye", "flatten", "flip", "full",
    "full_like", "linspace", "matrix_transpose", "meshgrid", "moveaxis", "ones", "ones_like", "pad",
    "permute_dims", "repeat", "reshape", "roll", "split", "squeeze", "stack", "tile", "tril", "triu",
    "unstack", "zeros", "zeros_like",
]  # fmt: skip


Shape = tuple[int, ...]
Size = int | Sequence[int]
Place = str | Device


# -- reshape, permute, broadcast: views -------------------------------------------------------


def _reshape_shape(x: Any, shape: Shape) -> tuple[Shape, np.dtype[Any]]:
    size, known = math.prod(x.shape), math.prod(n for n in shape if n != -1)
    open_axes = sum(n == -1 for n in shape)
    fits = known == size if open_axes == 0 else open_axes == 1 and known > 0 and size % known == 0
    if not fits or any(n < -1 for n in shape):
        raise ShapeError(f"reshape: {size} elements of shape {tuple(x.shape)} do not fit into shape {shape}")
    return tuple(size // known if n == -1 else n for n in shape), x.dtype


def _reshape_forward(xp: Namespace, x: Any, *, shape: Shape) -> Any:
    return x.reshape(shape)


def _reshape_view(xp: Namespace, x: Any, *, shape: Shape) -> Any:
    """Return a view wherever NumPy returns one, such as for a new axis of a transposed array."""
    found = x.reshape(shape)
    if type(x) is not np.ndarray or x.flags.c_contiguous or np.may_share_memory(found, x):
        return found
    return None


p.reshape.define(
    forward=_reshape_forward,
    shape=_reshape_shape,
    params={"shape": kinds.tuple_of(kinds.INTEGER)},
    vjp=(lambda g, _, x, shape: reshape(g, x.shape),),
    saves="nothing",
    view=_reshape_view,
    writes_out=False,
)


def _permute_shape(x: Any, axes: Shape) -> tuple[Shape, np.dtype[Any]]:
    if sorted(axes) != list(range(-len(x.shape), 0)):
        raise ShapeError(f"permute_dims: expected every axis of shape {tuple(x.shape)} once, got {axes}")
    return tuple(x.shape[a] for a in axes), x.dtype


def _inverse(axes: Shape) -> Shape:
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    return tuple(i - len(axes) for i in order)


p.permute_dims.define(
    forward=lambda xp, x, *, axes: x.transpose(axes),
    shape=_permute_shape,
    params={"axes": kinds.AXES},
    vjp=(lambda g, _, x, axes: permute_dims(g, _inverse(axes)),),
    saves="nothing",
    view=lambda xp, x, *, axes: x.transpose(axes),
    writes_out=False,
)


def _broadcast_shape(x: Any, shape: Shape) -> tuple[Shape, np.dtype[Any]]:
    pairs = zip(x.shape[::-1], shape[::-1], strict=False)
    if len(shape) < len(x.shape) or any(n < 0 for n in shape) or any(n not in (1, m) for n, m in pairs):
        raise ShapeError(f"broadcast_to: shape {tuple(x.shape)} does not broadcast to {shape}")
    return shape, x.dtype


_broadcast_to = Primitive("broadcast_to").define(
    forward=lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    shape=_broadcast_shape,
    params={"shape": kinds.LENGTHS},
    vjp=(lambda g, _, x, shape: unbroadcast(g, x),),
    saves="nothing",
    view=lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    writes_out=False,
)


def lengths_of(shape: int | Sequence[int]) -> Shape:
    """Return a shape that may be one length as a tuple."""
    lengths = (shape,) if is_integer(shape) else shape
    return tuple([int(n) if isinstance(n, (bool, np.integer)) else n for n in lengths])


def reshape(x: Any, shape: int | Sequence[int]) -> Tensor:
    """Return the same elements in another shape; one length may be -1."""
    return bind(p.reshape, (as_tensor(x),), {"shape": lengths_of(shape)})


def permute_dims(x: Any, axes: Sequence[int]) -> Tensor:
    """Return x with its axes in another order."""
    x = as_tensor(x)
    return bind(p.permute_dims, (x,), {"axes": normalize_axes(tuple(axes), x.ndim, "permute_dims")})


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return x with the axes `source` at the positions `destination`, and the others in their order."""
    x = as_tensor(x)
    moved = normalize_axes(_several(source), x.ndim, "moveaxis")
    places = normalize_axes(_several(destination), x.ndim, "moveaxis")
    if len(moved) != len(places):
        raise ShapeError(f"moveaxis: {source} are {len(moved)} axes, {destination} are {len(places)} places")
    taken = dict(zip(places, moved, strict=True))
    others = iter([a for a in range(-x.ndim, 0) if a not in moved])
    axes = tuple([taken[a] if a in taken else next(others) for a in range(-x.ndim, 0)])
    return bind(p.permute_dims, (x,), {"axes": axes})


def _several(axis: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)  # type: ignore[return-value]


def matrix_transpose(x: Any) -> Tensor:
    """Return x with its last two axes exchanged."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: expected at least 2 axes, got shape {x.shape}")
    return bind(p.permute_dims, (x,), {"axes": (*range(-x.ndim, -2), -1, -2)})


def broadcast_to(x: Any, shape: int | Sequence[int]) -> Tensor:
    """Return x repeated along new axes and axes of length 1 to have `shape`, as a view."""
    x, lengths = as_tensor(x), lengths_of(shape)
    return x if x.shape == lengths else bind(_broadcast_to, (x,), {"shape": lengths})


def broadcast_arrays(*xs: Any) -> tuple[Tensor, ...]:
    """Return all `xs` broadcast to their common shape, as views."""
    tensors = [as_tensor(x) for x in xs]
    shape = broadcast("broadcast_arrays", *tensors)
    return tuple([broadcast_to(x, shape) for x in tensors])


def expand_dims(x: Any, axis: int | tuple[int, ...]) -> Tensor:
    """Return x with a new axis of length 1 at position `axis` of the result, or at several."""
    x = as_tensor(x)
    ndim = x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    new = {a % ndim for a in normalize_axes(axis, ndim, "expand_dims")}
    lengths = iter(x.shape)
    return reshape(x, tuple(1 if a in new else next(lengths) for a in range(ndim)))


def squeeze(x: Any, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return x without the axes of length 1 in `axis`; None removes all of them."""
    x = as_tensor(x)
    if axis is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    gone = {a % x.ndim for a in normalize_axes(axis, x.ndim, "squeeze")}
    long = [a for a in gone if x.shape[a] != 1]
    if long:
        raise ShapeError(f"squeeze: axis {long[0]} of shape {x.shape} has length {x.shape[long[0]]}, not 1")
    return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in gone))


def flatten(x: Any, start: int = 0) -> Tensor:
    """Return x with its axes from `start` on flattened into one."""
    x = as_tensor(x)
    if not x.ndim:
        return reshape(x, (1,))
    at = normalize_axis(start, x.ndim, "flatten") % x.ndim
    return reshape(x, (*x.shape[:at], math.prod(x.shape[at:])))


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
        Number of equal parts, or the positions at which to cut: (2, 5) gives x[:2], x[2:5] and x[5:].
    axis : int, default=0
        Axis along which to cut.

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
    if is_integer(parts):
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
    shifts = (shift,) * len(axes) if is_integer(shift) else tuple(shift)
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
    counts = (repetitions,) if is_integer(repetitions) else tuple(repetitions)
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
        Number of repetitions, one for all or one for each element along the axis. They determine the shape of
        the result, so in a captured function they must be known.
    axis : int, default=None
        Axis along which to repeat; for None, x is flattened.

    Returns
    -------
    Tensor
        Longer along `axis`.

    Raises
    ------
    ShapeError
        If `repeats` has neither one number nor one for each element, or a negative one.
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
        indices = Tensor(np.repeat(np.arange(counts.size), counts), device=x.device)
        return bind(p.take, (x, indices), {"axis": at})
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
    pairs = [(widths, widths)] * x.ndim if is_integer(widths) else [tuple(pair) for pair in widths]
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
        Numbers of elements before and after, one pair for each of the last axes: ((1, 1), (2, 2)) pads
        the height of images by 1 and their width by 2, on both sides. A number pads all axes.
    mode : {"constant", "reflect", "replicate", "circular"}, default="constant"
        Elements to add: `value`; the elements mirrored at the outermost one; the outermost element; or the
        elements from the other end.
    value : float, default=0.0
        Value that "constant" adds.

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
            foresee(out, (64, out.shape[axis] + sum(pair)))
            places = np.pad(np.arange(out.shape[axis]), pair, NUMPYS[mode]).tolist()
            out = concat([take_slice(out, axis, *run) for run in _runs(places)], axis)
    return out


def foresee(x: Tensor, shape: tuple[int, ...]) -> None:
    """Show a pass without data the shape of tables that an operation is about to make on the host."""
    if x.device.kind == "meta" and x.size:
        broadcast_to(reshape(x, -1)[:1], shape)


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


# -- new arrays, of the shape of another --------------------------------------------------------------------


def _filled(name: str, value: int) -> Primitive:
    def forward(xp: Namespace, x: Any, out: Any = None) -> Any:
        if out is None:
            return getattr(xp, name)(x)
        out.fill(value)
        return out

    return Primitive(name).define(
        forward=forward, shape=lambda x: (x.shape, x.dtype), vjp=None, expression=str(value)
    )


_zeros_like, _ones_like = _filled("zeros_like", 0), _filled("ones_like", 1)


def zeros_like(x: Any) -> Tensor:
    """Return zeros of x's shape, dtype and device."""
    return bind(_zeros_like, (as_tensor(x),), {})


def ones_like(x: Any) -> Tensor:
    """Return ones of x's shape, dtype and device."""
    return bind(_ones_like, (as_tensor(x),), {})


def full_like(x: Any, value: float, dtype: DTypeLike | None = None) -> Tensor:
    """Return an array of x's shape and device full of `value`, of x's dtype or of `dtype`."""
    x = as_tensor(x)
    return full(x.shape, value, x.dtype if dtype is None else dtype, x.device)


def _lengths(shape: Size) -> tuple[int, ...]:
    lengths = tuple(map(index, lengths_of(shape)))
    if any(length < 0 for length in lengths):
        raise ShapeError(f"a shape must have lengths of 0 or more, got {shown(shape)}")
    return lengths


# -- of a shape -------------------------------------------------------------------------------


def full(shape: Size, value: float, dtype: DTypeLike | None = None, device: Place = "cpu") -> Tensor:
    """Return an array of `shape` full of `value`, of its own or another `dtype`, on a `device`."""
    where_to = available(device)
    kind = np.asarray(value).dtype if dtype is None else np.dtype(dtype)
    return Tensor(backend(where_to.kind).full(_lengths(shape), value, kind, where_to))


def zeros(shape: Size, dtype: DTypeLike = "float64", device: Place = "cpu") -> Tensor:
    """Return zeros of a `shape` and a `dtype`, on a `device`."""
    where_to = available(device)
    return Tensor(backend(where_to.kind).zeros(_lengths(shape), dtype, where_to))


def ones(shape: Size, dtype: DTypeLike = "float64", device: Place = "cpu") -> Tensor:
    """Return ones of a `shape` and a `dtype`, on a `device`."""
    where_to = available(device)
    return Tensor(backend(where_to.kind).ones(_lengths(shape), dtype, where_to))


def eye(
    n_rows: int, n_columns: int | None = None, k: int = 0, dtype: DTypeLike = "float64", device: Place = "cpu"
) -> Tensor:
    """Return zeros with ones on a diagonal: the main one, or the `k`-th above it.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_columns : int, default=None
        Number of columns; None for as many as rows.
    k : int, default=0
        The diagonal; negative ones lie below the main one.
    dtype : dtype, default="float64"
        Dtype of the result.
    device : str or Device, default="cpu"
        Device of the result.

    Returns
    -------
    Tensor of shape (n_rows, n_columns)
        The matrix.

    Raises
    ------
    ShapeError
        If a number is negative.

    Examples
    --------
    >>> eye(2, 3, 1).numpy()
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    rows, columns = _lengths((n_rows, n_rows if n_columns is None else n_columns))
    return Tensor(np.eye(rows, columns, k, dtype=dtype), device=device)


# -- counted ----------------------------------------------------------------------------------


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: Place = "cpu",
) -> Tensor:
    """Return start, start + step, ... up to but not including stop.

    Parameters
    ----------
    start, stop : int or float
        First number, and the end. If only one number is given, it is the end, and the start is 0.
    step : int or float, default=1
        Distance between neighbours.
    dtype : dtype, default=None
        Dtype of the result; None is int64 if all numbers are integers, otherwise float64.
    device : str or Device, default="cpu"
        Device of the result.

    Returns
    -------
    Tensor of shape (n,)
        The numbers.

    Raises
    ------
    ValueError
        If the number of elements is not finite.

    Examples
    --------
    >>> arange(1, 7, 2).numpy()
    array([1, 3, 5])
    """
    first, end = (0, start) if stop is None else (start, stop)
    if not np.isfinite((end - first) / step):
        raise ValueError(f"arange: from {first} to {end} in steps of {step}, there is no end")
    return Tensor(np.arange(first, end, step, dtype=dtype), device=device)


def linspace(
    start: float,
    stop: float,
    num: int,
    dtype: DTypeLike = "float64",
    device: Place = "cpu",
    endpoint: bool = True,
) -> Tensor:
    """Return numbers at equal distances from start to stop.

    Parameters
    ----------
    start, stop : float
        The first number, and the last.
    num : int
        Number of values.
    dtype : dtype, default="float64"
        Dtype of the result.
    device : str or Device, default="cpu"
        Device of the result.
    endpoint : bool, default=True
        Whether `stop` is the last number; else it is left out, and the distances are smaller.

    Returns
    -------
    Tensor of shape (num,)
        The numbers.

    Examples
    --------
    >>> linspace(0, 1, 5).numpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    return Tensor(np.linspace(start, stop, num, endpoint, dtype=dtype), device=device)


def meshgrid(*xs: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid from those along each of its axes.

    Parameters
    ----------
    *xs : Tensor or array
        Coordinates along one axis each.
    indexing : {"xy", "ij"}, default="xy"
        Whether the first two axes of the results are those of the second and the first of `xs` (rows
        are y), or all come in order.

    Returns
    -------
    tuple of Tensor
        One for each of `xs`, all of the grid's shape.

    Raises
    ------
    ShapeError, ValueError
        If one of `xs` does not have exactly one axis, or `indexing` is neither.

    Examples
    --------
    >>> x, y = meshgrid([1, 2, 3], [10, 20])
    >>> (x + y).numpy()
    array([[11, 12, 13],
           [21, 22, 23]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {shown(indexing)}")
    tensors = [as_tensor(x) for x in xs]
    places = list(range(len(tensors)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    for x in tensors:
        if x.ndim != 1:
            raise ShapeError(f"meshgrid: expected coordinates of one axis, got shape {x.shape}")
    spread = [
        reshape(x, [x.size if i == at else 1 for i in range(len(tensors))])
        for x, at in zip(tensors, places, strict=True)
    ]
    return broadcast_arrays(*spread)


# -- triangles --------------------------------------------------------------------------------


def _masked(name: str, x: Any, keep: Any) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected at least 2 axes, got shape {x.shape}")
    mask = Tensor(keep(*x.shape[-2:]), device=x.device)
    return where(mask, x, x.dtype.type(0))


def tril(x: Any, k: int = 0) -> Tensor:
    """Return x with zeros above the `k`-th diagonal of its last two axes."""
    return _masked("tril", x, lambda n, m: np.tri(n, m, k, dtype=bool))


def triu(x: Any, k: int = 0) -> Tensor:
    """Return x with zeros below the `k`-th diagonal of its last two axes."""
    return _masked("triu", x, lambda n, m: ~np.tri(n, m, k - 1, dtype=bool))
