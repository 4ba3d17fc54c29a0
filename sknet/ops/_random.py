"""Random draws inside a step: functions of a counter, so that a step can be repeated bit for bit."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, TracedArray, as_operand, as_tensor, bind, is_capturing
from sknet.core import _primitive as kinds
from sknet.device import Device, Namespace, backend, is_array, philox_uniform, to_host
from sknet.exceptions import CaptureError
from sknet.ops._elementwise import greater_equal, maximum, where
from sknet.ops._rules import check_floating
from sknet.ops._shape import zeros_like

__all__ = ["dropout", "dropout_mask"]

KEY = kinds.ParamKind(
    "a tuple of integers or None", lambda x, ndim: x is None or kinds.tuple_of(kinds.INTEGER).fits(x, ndim)
)
DRAWS = {"shape": kinds.LENGTHS, "key": KEY, "site": kinds.INTEGER, "dtype": kinds.DTYPE}


def _mask_forward(
    xp: Namespace,
    like: Any,
    step: Any,
    *,
    shape: tuple[int, ...],
    p: float,
    key: tuple[int, int],
    site: int,
    dtype: Any,
    out: Any = None,
) -> Any:
    # Drawn on the host: the same bits on every device.
    step = int(to_host(step)) if is_array(step) else step
    keep = philox_uniform(key, step, site, shape, np.float32) >= p
    scale = 1.0 / (1.0 - p) if p < 1 else 0.0
    mask = xp.asarray(keep.astype(dtype) * np.dtype(dtype).type(scale))
    if out is None:
        return mask
    out[...] = mask
    return out


_mask = Primitive("dropout_mask").define(
    forward=_mask_forward,
    shape=lambda like, step, shape, p, key, site, dtype: (shape, np.dtype(dtype)),
    params={"p": kinds.NUMBER, **DRAWS},
    vjp=None,
)


def _draws_forward(
    xp: Namespace,
    like: Any,
    step: Any,
    low: Any = None,
    high: Any = None,
    *,
    shape: tuple[int, ...],
    key: tuple[int, int] | None,
    site: int,
    dtype: Any,
    out: Any = None,
) -> Any:
    streams = _each_stream(step, *((low, high) if key is None else key))
    draws = np.stack([philox_uniform((a, b), n, site, shape, np.float32) for n, a, b in streams])
    whole, _ = _draws_shape(like, step, low, high, shape=shape, key=key, site=site, dtype=dtype)
    draws = xp.asarray(draws.reshape(whole).astype(dtype))
    if out is None:
        return draws
    out[...] = draws
    return out


def _each_stream(*numbers: Any) -> Iterator[tuple[int, ...]]:
    """Yield step and key of each stream, of arrays or numbers."""
    found = [to_host(x) if is_array(x) else np.array(x, object) for x in numbers]
    for each in np.broadcast(*found):
        yield tuple(map(int, each))


def _draws_shape(
    like: Any, step: Any, low: Any = None, high: Any = None, *, shape: Any, key: Any, site: int, dtype: Any
) -> tuple[Any, Any]:
    """Return the shape: steps and keys of several streams have axes in front of those of `shape`."""
    given = [x.shape for x in (step, low, high) if hasattr(x, "shape")]
    return (np.broadcast_shapes(shape, *given) if any(given) else shape), np.dtype(dtype)


# Besides the step, operands are the two numbers of the key where that is not a parameter.
_draws = Primitive("uniform_draws").define(forward=_draws_forward, shape=_draws_shape, params=DRAWS, vjp=None)


def dropout_mask(
    shape: tuple[int, ...],
    p: float | Tensor,
    *,
    key: tuple[int | Tensor, int | Tensor],
    step: int | Tensor,
    site: int,
    dtype: Any,
    device: Device,
) -> Tensor:
    """Draw a mask of zeros (with probability p) and 1 / (1 - p): multiplying by it keeps expectations.

    Parameters
    ----------
    shape : tuple of int
        Shape of the mask.
    p : float in [0, 1], or Tensor of shape (), dtype=floating
        Probability of a zero. A tensor stays an input of a captured function.
    key : tuple of two int, or of two Tensor of shape (), dtype=int64
        Random stream. Tensors stay inputs of a captured function.
    step : int or Tensor of shape (), dtype=integer
        Counter: the step of the fit.
    site : int
        Counter: the draw within the step.
    dtype : dtype
        Floating-point dtype of the mask.
    device : Device
        Device of the mask.

    Returns
    -------
    Tensor of shape `shape`
        The same bits on every device, and for the same arguments.

    Raises
    ------
    CaptureError
        If the step is a plain number while a function is captured.

    Examples
    --------
    >>> from sknet.device import Device
    >>> dropout_mask((2, 3), 1.0, key=(0, 0), step=0, site=0, dtype="float32", device=Device("cpu")).numpy()
    array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    step = as_operand(step)
    if is_capturing() and not (isinstance(step, Tensor) and isinstance(step.data, TracedArray)):
        raise CaptureError(
            f"dropout_mask: the step of the random stream is {step!r}, a constant, so that a captured "
            "function would draw the same numbers at every call: pass the step to the function, as an "
            "integer array of shape ()"
        )
    like = Tensor(backend(device.kind).zeros((), dtype, device))
    params = {"shape": shape, "key": key, "site": site, "dtype": np.dtype(dtype)}
    if isinstance(key[0], Tensor):
        return _mask_of_stream(like, step, key, p, params)
    if not isinstance(p, Tensor):
        return bind(_mask, (like, step), {**params, "p": p})
    p = p.astype(dtype)
    return where(greater_equal(bind(_draws, (like, step), params), p), _kept_scale(p), zeros_like(p))


def _kept_scale(p: Tensor) -> Tensor:
    return 1.0 / maximum(1.0 - p, 1e-30)  # of a probability of 1 nothing is kept


def _mask_of_stream(
    like: Tensor, step: Any, key: tuple[Any, Any], p: float | Tensor, params: dict[str, Any]
) -> Tensor:
    """Return a mask by a key of tensors, with the bits of one by numbers."""
    if isinstance(p, Tensor):
        p = p.astype(like.dtype)
        draws = bind(_draws, (like, step, *key), {**params, "key": None})
        return where(greater_equal(draws, p), _kept_scale(p), zeros_like(p))
    # The comparison is one of float32, as in `dropout_mask`'s own primitive.
    draws = bind(_draws, (like, step, *key), {**params, "key": None, "dtype": np.dtype(np.float32)})
    scale = 1.0 / (1.0 - p) if p < 1 else 0.0
    return where(greater_equal(draws, p), scale, zeros_like(like))


def dropout(
    x: Any, p: float | Tensor = 0.5, *, key: tuple[int | Tensor, int | Tensor], step: Any = 0, site: int = 0
) -> Tensor:
    """Return x with elements set to zero at random, the others divided by 1 - p (Srivastava et al., 2014).

    Parameters
    ----------
    x : Tensor or array, dtype=floating
        Any shape.
    p : float or Tensor of shape (), default=0.5
        Probability of a zero, from 0 to 1. A tensor stays an input of a captured function.
    key : tuple of two int, or of two Tensor of shape ()
        Random stream.
    step : int or Tensor of shape (), default=0
        Counter: the step of the fit. The same key, step and site give the same zeros on every device.
    site : int, default=0
        Counter: the draw within the step.

    Returns
    -------
    Tensor
        Same shape as x; its expectation is x.

    Examples
    --------
    >>> dropout([1.0, 1.0, 1.0, 1.0], key=(0, 0)).numpy()
    array([2., 0., 2., 0.])
    """
    values = as_tensor(x)
    check_floating("dropout", values)
    shape, dtype, device = values.shape, values.dtype, values.device
    return values * dropout_mask(shape, p, key=key, step=step, site=site, dtype=dtype, device=device)
