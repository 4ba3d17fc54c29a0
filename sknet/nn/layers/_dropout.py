"""Layers that are random in training: dropout, noise, and augmentation of images."""

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet._params import Interval, StrOptions
from sknet.core import Tensor, as_tensor
from sknet.device import to_device
from sknet.exceptions import ShapeError, StateError
from sknet.nn._module import Module, check_arguments
from sknet.nn._parameter import current_scope, next_draw
from sknet.ops import dropout, dropout_mask, equal, flip, pad, where
from sknet.ops import sum as sum_of

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Mixup", "RandomErasing", "RandomFlip",
    "RandomShift",
]  # fmt: skip


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
        Probability that an element is set to zero, in [0, 1], as for `Dropout`.

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
        Probability that an element is set to zero, in [0, 1], as for `Dropout`.

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
    r"""Dropout for networks of SELU, which keeps mean and variance.

    Parameters
    ----------
    p : float, default=0.5
        Probability that an element is dropped, in [0, 1).

    Notes
    -----
    Dropped elements become :math:`\alpha' = -\lambda\alpha`, SELU's limit for low inputs; an affine map then
    restores mean 0 and variance 1 (G. Klambauer et al., "Self-normalizing neural networks", NeurIPS 2017).

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
        return f"{self.p}"


def _coins(x: Tensor, p: float = 0.5) -> Tensor:
    """Draw for every image whether it is changed, with probability p, in a shape that broadcasts."""
    key, step, site = next_draw()
    shape = (x.shape[0], *(1,) * (x.ndim - 1))
    drawn = dropout_mask(shape, 1 - p, key=key, step=step, site=site, dtype=x.dtype, device=x.device)
    return drawn > 0


def _strides(total: int) -> Iterator[int]:
    """Yield the fewest positive numbers whose partial sums are 0 to `total`."""
    stride = 1
    while total > 0:
        yield min(stride, total)
        total -= stride
        stride *= 2


def _cut(x: Tensor, like: Tensor, axis: int, length: int) -> Tensor:
    """Return `length` elements along an axis, which begin for each image at a random one."""
    # All begins are possible, each as likely as its mirror image, and equally likely if there are a power of
    # two. Each coin decides a part of the way, so that only slices are chosen between.
    for stride in _strides(x.shape[axis] - length):
        rest = (slice(None),) * (-1 - axis)
        x = where(_coins(like), x[(..., slice(stride, None), *rest)], x[(..., slice(None, -stride), *rest)])
    return x


class _Augmentation(Module):
    """Base of random changes of images, (n, channels, height, width), in training."""

    augments = True  # and is not part of drawn predictions

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim != 4:
            raise ShapeError(
                f"{self!r}: expected images of shape (n, channels, height, width), got {x.shape}"
            )
        return self._changed(x) if self.training else x

    def _changed(self, x: Tensor) -> Tensor:
        raise NotImplementedError


PIXELS = 28  # of the shorter side of an image, for each pixel of a shift


class RandomShift(_Augmentation):
    """Shift each image by up to some pixels along both axes in training.

    Parameters
    ----------
    limit : int or None, default=None
        Maximum shift along each axis, in pixels; None for a 28th of the shorter side, at least one.
    mode : {"replicate", "constant", "reflect", "circular"}, default="replicate"
        Pixels that move in at the edge, as for `sknet.ops.pad`: the outermost pixel, zeros, the mirrored
        image, or the pixels of the other side.

    Notes
    -----
    This is the crop of padded images of K. He et al., "Deep residual learning for image recognition", CVPR
    2016, section 4.2. A shift is as likely as the opposite one. Draws are those of `Dropout`: a function of
    key, step and the layer's position in the pass.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> images = np.zeros((100, 1, 5, 5))
    >>> images[:, :, 2, 2] = 1
    >>> shifted, _ = nn.functional_call(nn.RandomShift(1), {}, images, key=(0, 0))
    >>> shifted.numpy().sum(axis=(1, 2, 3)).min()
    np.float64(1.0)
    >>> np.flatnonzero(shifted.numpy().any(axis=(0, 1, 3))).tolist()
    [1, 2, 3]
    """

    _parameter_constraints = {
        "limit": [Interval(Integral, 1, None, closed="left"), None],
        "mode": [StrOptions({"replicate", "constant", "reflect", "circular"})],
    }

    def __init__(self, limit: int | None = None, mode: str = "replicate") -> None:
        check_arguments(self, limit=limit, mode=mode)
        self.limit, self.mode = None if limit is None else int(limit), mode

    def _changed(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        limit = max(1, min(height, width) // PIXELS) if self.limit is None else self.limit
        wide = pad(x, ((limit, limit),) * 2, self.mode)
        return _cut(_cut(wide, x, -1, width), x, -2, height)

    def extra_repr(self) -> str:
        return f"limit={self.limit}, mode={self.mode!r}"


class RandomFlip(_Augmentation):
    """Mirror each image, left to right, with probability p in training.

    Parameters
    ----------
    p : float, default=0.5
        Probability, in [0, 1].
    axis : int, default=-1
        Axis to mirror: -1 for the columns of pixels, left to right; -2 for the rows, top to bottom.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.RandomFlip(1.0), {}, np.arange(3.0).reshape(1, 1, 1, 3), key=(0, 0))
    >>> output.numpy().ravel()
    array([2., 1., 0.])
    """

    _parameter_constraints = {
        "p": [Interval(Real, 0, 1, closed="both")],
        "axis": [Interval(Integral, -2, -1, closed="both")],
    }

    def __init__(self, p: float = 0.5, axis: int = -1) -> None:
        check_arguments(self, p=p, axis=axis)
        self.p, self.axis = float(p), int(axis)

    def _changed(self, x: Tensor) -> Tensor:
        return where(_coins(x, self.p), flip(x, self.axis), x)

    def extra_repr(self) -> str:
        return f"{self.p}, axis={self.axis}"


class RandomErasing(_Augmentation):
    """Set a square of each image, at a random position, to zero in training.

    Parameters
    ----------
    size : int, default=8
        Length of its sides, in pixels; at the edges of an image less of it may be inside.

    Notes
    -----
    Also called cutout (T. DeVries and G. W. Taylor, arXiv:1708.04552). Zero is the mean of
    standardized images.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.RandomErasing(2), {}, np.ones((1, 3, 8, 8)), key=(0, 0))
    >>> int((output.numpy() == 0).sum()) in (3, 6, 12)  # at a corner, at an edge, or inside
    True
    """

    _parameter_constraints = {"size": [Interval(Integral, 1, None, closed="left")]}

    def __init__(self, size: int = 8) -> None:
        check_arguments(self, size=size)
        self.size = int(size)

    def _changed(self, x: Tensor) -> Tensor:
        covered = [self._covered(x, axis) for axis in (-2, -1)]
        return where(covered[0] & covered[1], 0.0, x)

    def _covered(self, x: Tensor, axis: int) -> Tensor:
        """Draw for every image which positions along an axis are covered."""
        length = x.shape[axis]
        around = length - (self.size + 1) // 2  # at least half of the sides are inside
        marks = np.zeros(2 * max(around, 0) + self.size, np.float32)
        marks[max(around, 0) : max(around, 0) + self.size] = 1
        shape = [1] * x.ndim
        shape[axis] = len(marks)
        return _cut(Tensor(to_device(marks.reshape(shape), x.device)), x, axis, length) > 0

    def extra_repr(self) -> str:
        return f"{self.size}"


BITS = 12  # of the number that says which share is drawn


class Mixup(Module):
    r"""Mix rows, and with them their losses, with those of the batch in reverse order, in training.

    Parameters
    ----------
    alpha : float, default=0.2
        Parameter of the beta distribution of the share: near 0 a row is mostly itself or another one, 1
        draws all shares equally often, and larger ones are near one half.

    Raises
    ------
    StateError
        If rows have been mixed by another `Mixup` in the same pass.

    Notes
    -----
    A step draws one share :math:`\lambda` from Beta(alpha, alpha), and the row i of n becomes
    :math:`\lambda x_i + (1 - \lambda) x_{n - 1 - i}` (H. Zhang et al., "mixup: Beyond empirical risk
    minimization", ICLR 2018). A `Model` or an estimator minimizes :math:`\lambda L(y) + (1 - \lambda)
    L(y')`, with the targets, and their weights, in their order and in reverse; scores of training rows
    compare outputs for mixed rows with the targets in their order. Draws are those of `Dropout`: a function
    of key, step and the layer's position in the pass.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.Mixup(), {}, np.array([[0.0], [1.0]]), key=(0, 0))
    >>> output.numpy().sum()
    np.float64(1.0)
    """

    augments = True
    _parameter_constraints = {"alpha": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, alpha: float = 0.2) -> None:
        check_arguments(self, alpha=alpha)
        self.alpha = float(alpha)

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if not self.training:
            return x
        share, scope = self._drawn(x), current_scope()
        if scope is not None:
            if scope.mixing is not None:
                raise StateError(
                    f"{self!r}: the rows of this pass have been mixed by another Mixup, and their losses can "
                    "be mixed once: leave one of them out"
                )
            scope.mixing = share
        return share * x + (1.0 - share) * flip(x, 0)

    def _drawn(self, x: Tensor) -> Tensor:
        """Draw one of as many shares, equally likely, as there are numbers of `BITS` bits."""
        from scipy.special import betaincinv  # what only predicts does without

        n = 1 << BITS
        shares = betaincinv(self.alpha, self.alpha, (np.arange(n) + 0.5) / n)
        key, step, site = next_draw()
        bits = dropout_mask((BITS,), 0.5, key=key, step=step, site=site, dtype=x.dtype, device=x.device) > 0
        powers, numbers, shares = (
            Tensor(to_device(np.asarray(each, x.dtype), x.device))
            for each in (1 << np.arange(BITS), np.arange(n), shares)
        )
        number = sum_of(where(bits, powers, 0.0), axis=-1, keepdims=True)
        return sum_of(where(equal(numbers, number), shares, 0.0), axis=-1)

    def extra_repr(self) -> str:
        return f"{self.alpha}"
