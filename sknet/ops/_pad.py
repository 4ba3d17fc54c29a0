"""Padding: additional elements at the ends of axes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.core.extend import param_kinds as kinds
from sknet.core.extend import primitives as p
from sknet.device import Namespace
from sknet.exceptions import ShapeError
from sknet.ops._join import concat, take_slice

__all__ = ["pad"]

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
