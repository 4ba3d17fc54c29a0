"""Dropout."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError, StateError
from sknet.nn._module import Module, check_arguments
from sknet.nn._scope import next_draw
from sknet.ops import dropout, dropout_mask

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d"]

SELU_LIMIT = -1.7580993408473766  # what SELU approaches for low inputs


class _Scheduled(Module):
    """Base of the dropouts: a probability, or a function of a fit's progress that returns one."""

    rate: Any

    _parameter_constraints = {"p": [Interval(Real, 0, 1, closed="both"), callable]}

    def __init__(self, p: "float | Callable[[Any], float]" = 0.5) -> None:
        check_arguments(self, p=p)
        self.p = p
        if callable(p):
            self.register_buffer("rate", np.full((), np.nan, np.float32), persistent=False)

    @property
    def _is_idle(self) -> bool:
        return not self.training or (not callable(self.p) and self.p == 0)

    @property
    def _now(self) -> Any:
        """The probability of this pass."""
        if not callable(self.p):
            return self.p
        rate: Tensor = self.rate
        if isinstance(rate.data, np.ndarray) and np.isnan(rate.data):
            raise StateError(
                f"{self!r}: the probability follows the progress of a fit, which only a Model or an "
                "estimator knows. To call the module by itself in training, set its buffer: layer.rate = 0.5"
            )
        return rate

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"{self.p}"


class Dropout(_Scheduled):
    r"""Set elements to zero at random in training, and do nothing in prediction.

    Parameters
    ----------
    p : float, Schedule or callable, default=0.5
        Probability that an element is set to zero, in [0, 1]; or a schedule, such as
        `sknet.optim.schedules.FlatThenCosine`, whose value is the probability of each step.

    Notes
    -----
    The remaining elements are divided by :math:`1 - p`, so that the expectation is the input
    (N. Srivastava et al., JMLR 2014, section 10). Inside `functional_call` the mask is a function of
    key, step and the layer's place in the pass; outside, every call draws a new one.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.Dropout(0.5), {}, np.ones(1000), key=(0, 0))
    >>> sorted(set(output.numpy().tolist()))
    [0.0, 2.0]
    """

    def forward(self, x: Any) -> Any:
        if self._is_idle:
            return x
        key, step, site = next_draw()
        return dropout(x, self._now, key=key, step=step, site=site)


def _mask(x: Tensor, shape: tuple[int, ...], p: float | Tensor) -> Tensor:
    """Draw zeros and 1 / (1 - p), of x's dtype and on its device."""
    key, step, site = next_draw()
    return dropout_mask(shape, p, key=key, step=step, site=site, dtype=x.dtype, device=x.device)


class _ChannelDropout(_Scheduled):
    """Base of the channel dropouts: one draw for every channel of every sample."""

    rank: int

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim <= self.rank:
            axes = "length" if self.rank == 1 else "height, width"
            raise ShapeError(f"{self!r}: expected an input of shape (n, channels, {axes}), got {x.shape}")
        if self._is_idle:
            return x
        return x * _mask(x, (*x.shape[: -self.rank], *(1,) * self.rank), self._now)


class Dropout1d(_ChannelDropout):
    """Set whole channels of signals, (n, channels, length), to zero at random in training.

    Parameters
    ----------
    p : float, Schedule or callable, default=0.5
        Probability that an element is set to zero, in [0, 1], as of `Dropout`.

    Notes
    -----
    Neighbours within a channel are similar, so dropping single elements has little effect
    (J. Tompson et al., "Efficient object localization using convolutional networks", CVPR 2015).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.Dropout1d(0.5), {}, np.ones((1, 100, 3)), key=(0, 0))
    >>> bool((output.numpy() == output.numpy().max(axis=-1, keepdims=True)).all())
    True
    """

    rank = 1


class Dropout2d(_ChannelDropout):
    """Set whole channels of images, (n, channels, height, width), to zero at random in training.

    Parameters
    ----------
    p : float, Schedule or callable, default=0.5
        Probability that an element is set to zero, in [0, 1], as of `Dropout`.

    Notes
    -----
    Neighbours within a channel are similar, so dropping single elements has little effect
    (J. Tompson et al., "Efficient object localization using convolutional networks", CVPR 2015).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.Dropout2d(0.5), {}, np.ones((1, 100, 2, 2)), key=(0, 0))
    >>> bool((output.numpy() == output.numpy().max(axis=(-2, -1), keepdims=True)).all())
    True
    """

    rank = 2


class AlphaDropout(Module):
    r"""Dropout for networks of SELU: mean and variance stay what they were.

    Parameters
    ----------
    p : float, default=0.5
        Probability that an element is dropped, in [0, 1).

    Notes
    -----
    What is dropped becomes :math:`\alpha' = -\lambda\alpha`, SELU's limit for low inputs; an affine
    map then restores mean 0 and variance 1 (G. Klambauer et al., "Self-normalizing neural
    networks", NeurIPS 2017).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> x = np.random.default_rng(0).normal(size=100_000)
    >>> output, _ = nn.functional_call(nn.AlphaDropout(0.2), {}, x, key=(0, 0))
    >>> bool(abs(output.numpy().mean()) < 0.02 and abs(output.numpy().std() - 1) < 0.02)
    True
    """

    _parameter_constraints = {"p": [Interval(Real, 0, 1, closed="left")]}

    def __init__(self, p: float = 0.5) -> None:
        check_arguments(self, p=p)
        self.p = p

    def forward(self, x: Any) -> Any:
        if self.p == 0 or not self.training:
            return x
        x = as_tensor(x)
        low, kept = SELU_LIMIT, 1 - self.p
        keep = _mask(x, x.shape, self.p) * kept
        scale = (kept + low**2 * kept * self.p) ** -0.5
        return (x * keep + (1.0 - keep) * low) * scale - scale * self.p * low

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"{self.p}"
