"""Interpolation: images and signals in another size, one axis after the other."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.core import _primitive as kinds
from sknet.device import to_device
from sknet.exceptions import ShapeError
from sknet.ops._indexing import take
from sknet.ops._pool import enlarged
from sknet.ops._rules import check_floating
from sknet.ops._shape import broadcast_to, expand_dims, foresee, reshape
from sknet.ops._windows import as_image, from_image

__all__ = ["interpolate"]

Size = int | Sequence[int]
Factor = float | Sequence[float]
Step = tuple[int, float]  # the new length of an axis, and how far apart its elements are

AXES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}  # of an image, for each mode but nearest
CUBIC = -0.75  # slope of the kernel at 1, as in PyTorch


def interpolate(
    x: Any,
    size: Size | None = None,
    scale_factor: Factor | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    r"""Return x resized, with interpolated values.

    Parameters
    ----------
    x : Tensor or array of shape (n, channels, ...)
        Signals, images or volumes: one to three more axes.
    size : int or sequence of int, default=None
        The new lengths of these axes, or one for all.
    scale_factor : float or sequence of float, default=None
        Factors of the lengths, which are rounded down; give either this or `size`.
    mode : {"nearest", "linear", "bilinear", "trilinear", "bicubic"}, default="nearest"
        Take the nearest element, or a weighted mean of the nearest two along every axis ("linear" for
        signals, "bilinear" for images, "trilinear" for volumes) or of the nearest four ("bicubic").
    align_corners : bool, default=False
        Whether the centers of the first and last elements stay at the ends, rather than their outer
        edges; not for "nearest".

    Returns
    -------
    Tensor of shape (n, channels, ...)
        Same dtype as x.

    Raises
    ------
    ShapeError, DtypeError, ValueError
        If mode, size and x do not fit together, or x is not floating (except for "nearest").

    Notes
    -----
    Element i of an axis of new length m is at :math:`(i + \frac{1}{2}) s - \frac{1}{2}` of the old one, of
    length n, with :math:`s = n / m` or one over `scale_factor`; with `align_corners` it is at
    :math:`i (n - 1) / (m - 1)`, and for "nearest" at the floor of :math:`i s`. "bicubic" weights by the
    convolution kernel of R. Keys (1981) with a = -0.75. All of it as in PyTorch.

    Examples
    --------
    >>> interpolate([[[0.0, 1.0]]], scale_factor=2, mode="linear").numpy()
    array([[[0.  , 0.25, 0.75, 1.  ]]])
    >>> interpolate([[[0.0, 1.0]]], size=4).numpy()
    array([[[0., 0., 1., 1.]]])
    """
    x = out = as_tensor(x)
    _check(x, mode, align_corners)
    steps = _steps(x.shape, size, scale_factor)
    if mode == "nearest" and x.ndim < 5:
        out, steps = _repeated(x, steps)
    for axis, (length, step) in enumerate(steps, start=2):
        if mode == "nearest":
            out = _nearest(out, axis, length, step)
        elif length != out.shape[axis] or step != 1.0:
            out = _weighted(out, axis, length, step, align_corners, cubic=mode == "bicubic")
    return out


def _check(x: Tensor, mode: str, align_corners: bool) -> None:
    if mode != "nearest" and mode not in AXES:
        raise ValueError(f"interpolate: mode must be one of {['nearest', *AXES]}, got {shown(mode)}")
    if mode == "nearest":
        if align_corners:
            raise ValueError("interpolate: align_corners is not for mode 'nearest', which has no weights")
        if not 3 <= x.ndim <= 5:
            raise ShapeError(
                f"interpolate: expected an input of three to five axes, (n, channels, ...), got {x.shape}"
            )
    else:
        check_floating("interpolate", x)
        if x.ndim != AXES[mode] + 2:
            raise ShapeError(
                f"interpolate: mode {mode!r} is for inputs of {AXES[mode] + 2} axes, (n, channels, ...), got "
                f"{x.shape}"
            )
    if not all(x.shape[2:]):
        raise ShapeError(f"interpolate: an input of shape {x.shape} has no element to interpolate from")


def _steps(shape: tuple[int, ...], size: Any, factor: Any) -> list[Step]:
    """Return the new length of each axis behind the channels, and how far apart its elements are."""
    if (size is None) == (factor is None):
        raise ValueError("interpolate: exactly one of size and scale_factor must be given")
    given = factor if size is None else size
    each = [given] * (len(shape) - 2) if np.ndim(given) == 0 else list(given)
    if len(each) != len(shape) - 2 or not all(value > 0 for value in each):
        name = "scale_factor" if size is None else "size"
        raise ShapeError(
            f"interpolate: {name} must be a positive number, or one for each of the {len(shape) - 2} last "
            f"axes of shape {shape}, got {shown(given)}"
        )
    if size is not None:
        return [(int(m), n / int(m)) for m, n in zip(each, shape[2:], strict=True)]
    lengths = [math.floor(n * float(f)) for f, n in zip(each, shape[2:], strict=True)]
    if not all(lengths):
        raise ShapeError(f"interpolate: scale_factor={given!r} makes an axis of shape {shape} empty")
    return [(m, 1.0 / float(f)) for m, f in zip(lengths, each, strict=True)]


def _times(old: int, length: int, step: float) -> int:
    """Return how many times each element is repeated; 0 if not all equally often."""
    return length // old if length % old == 0 and step == old / length else 0


def _repeated(x: Tensor, steps: list[Step]) -> tuple[Tensor, list[Step]]:
    """Return x enlarged along axes whose elements are all repeated equally often, and the remaining steps."""
    rank = x.ndim - 2
    times = [_times(old, *step) for old, step in zip(x.shape[2:], steps, strict=True)]
    each = [n or 1 for n in times]
    image = enlarged(as_image("interpolate", x, rank), (each[0] if rank == 2 else 1, each[-1]))
    left = [(length, 1.0) if n else (length, step) for n, (length, step) in zip(times, steps, strict=True)]
    return from_image(image, x, rank), left


def _nearest(x: Tensor, axis: int, length: int, step: float) -> Tensor:
    old, shape = x.shape[axis], x.shape
    times = _times(old, length, step)
    if times == 1:
        return x
    if times:  # no index, and the gradient is a sum
        repeated = broadcast_to(expand_dims(x, axis + 1), (*shape[: axis + 1], times, *shape[axis + 1 :]))
        return reshape(repeated, (*shape[:axis], length, *shape[axis + 1 :]))
    foresee(x, (2, length))
    # In single precision, as PyTorch: which of two elements is the nearer one may depend on it.
    places = np.floor(np.arange(length, dtype=np.float32) * np.float32(step)).astype(np.int64)
    return _taken(x, axis, np.minimum(places, old - 1))


def _weighted(x: Tensor, axis: int, length: int, step: float, align_corners: bool, cubic: bool) -> Tensor:
    """Return weighted means of the two or four elements around each new position."""
    foresee(x, (40, length))
    tables = _tables(x.shape[axis], length, step, align_corners, cubic, x.dtype.name)
    operands = [Tensor(to_device(table, x.device)) for table in tables]
    return bind(_resample, (x, *operands), {"axis": axis - x.ndim})


@lru_cache(maxsize=64)
def _tables(
    old: int, length: int, step: float, align_corners: bool, cubic: bool, dtype: str
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return positions and weights of the elements of each mean, and those of the adjoint."""
    if align_corners:
        at = np.arange(length) * ((old - 1) / max(length - 1, 1))
    else:
        at = (np.arange(length) + 0.5) * step - 0.5
    if not cubic:
        at = np.clip(at, 0, old - 1)
    first = np.floor(at)
    rest = at - first
    each = _cubic_weights(rest) if cubic else {0: 1.0 - rest, 1: rest}
    places = np.stack([np.clip(first + k, 0, old - 1) for k in each]).astype(np.int64)
    weights = np.stack(list(each.values()))
    back = _transposed(places, weights, old)
    found = (places, weights.astype(dtype), back[0], back[1].astype(dtype))
    for table in found:
        table.flags.writeable = False
    return found


def _transposed(
    places: np.ndarray[Any, Any], weights: np.ndarray[Any, Any], old: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return, for each element, the means it is part of and its weights there; padded with weights of 0."""
    means = np.broadcast_to(np.arange(places.shape[1]), places.shape)
    order = np.argsort(places, axis=None, kind="stable")
    element, mean, weight = (table.reshape(-1)[order] for table in (places, means, weights))
    counts = np.bincount(element, minlength=old)
    starts = np.cumsum(counts) - counts
    row = np.arange(len(element)) - starts[element]
    most = max(int(counts.max()), 1)
    back_places, back_weights = np.zeros((most, old), np.int64), np.zeros((most, old))
    # Padding repeats an element's first mean, so that NaN and infinities stay in their neighbourhood.
    back_places[:, counts > 0] = mean[starts[counts > 0]]
    back_places[row, element] = mean
    back_weights[row, element] = weight
    return back_places, back_weights


def _resample_shape(
    x: Any, places: Any, weights: Any, back_places: Any, back_weights: Any, axis: int
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    at = len(x.shape) + axis
    return (*x.shape[:at], places.shape[1], *x.shape[at + 1 :]), x.dtype


def _resample_forward(
    xp: Any,
    x: Any,
    places: Any,
    weights: Any,
    back_places: Any,
    back_weights: Any,
    *,
    axis: int,
    out: Any = None,
    scratch: Any = None,
) -> Any:
    shape, dtype = _resample_shape(x, places, weights, back_places, back_weights, axis)
    out = xp.empty(shape, dtype) if out is None else out
    factors = weights.reshape(*weights.shape, *(1,) * (-axis - 1))
    xp.take(x, places[0], axis, out)
    xp.multiply(out, factors[0], out=out)
    if places.shape[0] > 1:
        [part] = [xp.empty(shape, dtype)] if scratch is None else scratch
        for j in range(1, places.shape[0]):
            xp.take(x, places[j], axis, part)
            xp.multiply(part, factors[j], out=part)
            xp.add(out, part, out=out)
    return out


def _resample_vjp(
    g: Tensor, _: Any, x: Any, places: Any, weights: Any, back_places: Any, back_weights: Any, axis: int
) -> Tensor:
    return bind(_resample, (g, back_places, back_weights, places, weights), {"axis": axis})


def _resample_scratch(
    x: Any, places: Any, weights: Any, back_places: Any, back_weights: Any, axis: int
) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    found = _resample_shape(x, places, weights, back_places, back_weights, axis)
    return [found] if places.shape[0] > 1 else []


_resample = Primitive("resample").define(
    forward=_resample_forward,
    shape=_resample_shape,
    params={"axis": kinds.AXIS},
    vjp=(_resample_vjp, None, None, None, None),
    saves="inputs",
    scratch=_resample_scratch,
)


def _cubic_weights(rest: np.ndarray[Any, Any]) -> dict[int, np.ndarray[Any, Any]]:
    """Return the kernel's value at the distance of each of the four elements."""
    near = {k: np.abs(rest - k) for k in (-1, 0, 1, 2)}
    return {
        k: ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1
        if k in (0, 1)
        else ((d - 5) * d + 8) * d * CUBIC - 4 * CUBIC
        for k, d in near.items()
    }


def _taken(x: Tensor, axis: int, places: np.ndarray[Any, Any]) -> Tensor:
    return take(x, Tensor(to_device(places, x.device)), axis)
