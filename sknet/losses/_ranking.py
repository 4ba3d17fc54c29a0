"""Losses of pairs and triplets of inputs: ranking and similarity.

Outputs are stacked along the second axis, as a network returns them for inputs that are stacked likewise:
of shape (n_samples, 2, ...) or (n_samples, 3, ...).
"""

from numbers import Real
from typing import Any

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.losses._base import Loss, finite_numbers, reject, shape_error

TINY = 1e-12  # added to squared lengths


class _Signed(Loss):
    """Abstract base of the losses of pairs, whose targets are 1 and -1."""

    tasks = ()
    has_probabilities = False

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        reject((y != 1) & (y != -1), y, name, f"1 or -1 for {type(self).__name__}")


class MarginRanking(_Signed):
    r"""Ranking loss: one of two outputs should exceed the other by a margin.

    Parameters
    ----------
    margin : float, default=0.0
        Least difference between the two outputs.

    Notes
    -----
    For outputs of shape (n_samples, 2), or (n_samples, 2, 1) as a network with one output returns them for
    pairs of inputs, and targets of shape (n_samples,) that are 1 where the first should be higher, and
    -1 where the second should,

    .. math:: \ell(z, y) = \max(0, m - y (z_1 - z_2)).

    For `Model`, not for estimators. The same as PyTorch's ``margin_ranking_loss``.

    Examples
    --------
    >>> from sknet.losses import MarginRanking
    >>> MarginRanking(margin=1.0).values([[2.0, 1.5], [2.0, 1.5]], [1, -1]).numpy()
    array([0.5, 1.5])
    """

    _parameter_constraints = {"margin": [Interval(Real, None, None, closed="neither")]}

    def __init__(self, margin: float = 0.0) -> None:
        self.margin = margin

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        if z.ndim not in (2, 3) or z.shape[1:] not in ((2,), (2, 1)) or y.shape != z.shape[:1]:
            raise shape_error(
                self, z.shape, y.shape, expected=f"{z.shape[:1]}, and the output {(*z.shape[:1], 2)}"
            )
        z = ops.reshape(z, z.shape[:2])
        return ops.relu(self.margin - ops.astype(y, z.dtype) * (z[:, 0] - z[:, 1]))


class CosineEmbedding(_Signed):
    r"""Cosine similarity of two outputs, high where they belong together and low where they do not.

    Parameters
    ----------
    margin : float in [-1, 1], default=0.0
        Cosine up to which pairs that do not belong together have the loss 0.

    Notes
    -----
    For outputs of shape (n_samples, 2, length), such as a network returns for pairs of inputs, and targets of
    shape (n_samples,) that are 1 where both belong together, and -1 where not,

    .. math:: \ell(a, b, y) = \begin{cases} 1 - \cos(a, b) & y = 1 \\
              \max(0, \cos(a, b) - m) & y = -1. \end{cases}

    For `Model`, not for estimators. The same as PyTorch's ``cosine_embedding_loss``.

    Examples
    --------
    >>> from sknet.losses import CosineEmbedding
    >>> CosineEmbedding().values([[[1.0, 0.0], [1.0, 1.0]]] * 2, [1, -1]).numpy()
    array([0.2929, 0.7071])
    """

    _parameter_constraints = {"margin": [Interval(Real, -1, 1, closed="both")]}

    def __init__(self, margin: float = 0.0) -> None:
        self.margin = margin

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        a, b = _embeddings(self, output, target, 2)
        squares = [ops.sum(ops.square(x), axis=-1) + TINY for x in (a, b)]
        cosine = ops.sum(a * b, axis=-1) / ops.sqrt(squares[0] * squares[1])
        together = ops.greater(as_tensor(target), 0)
        return ops.where(together, 1.0 - cosine, ops.relu(cosine - self.margin))


class TripletMargin(Loss):
    r"""Distances of three outputs: an anchor should be closer to its positive than to its negative.

    Parameters
    ----------
    margin : float, default=1.0
        Least difference between the two distances.
    p : float, default=2.0
        Order of the norm that measures distances.
    eps : float, default=1e-6
        Added to differences, so that the gradient exists where two outputs are equal.
    swap : bool, default=False
        Whether to use the distance of negative and positive instead, where that is smaller [2]_.

    Notes
    -----
    For outputs of shape (n_samples, 3, length), such as a network returns for inputs stacked as anchor,
    positive and negative [1]_,

    .. math:: \ell(a, p, n) = \max(0, \|a - p\| - \|a - n\| + m).

    Targets have shape (n_samples,), and their values are ignored: zeros will do. The loss is
    for `Model`, not for estimators. The same as PyTorch's ``triplet_margin_loss``.

    References
    ----------
    .. [1] F. Schroff et al., "FaceNet: A Unified Embedding for Face Recognition and Clustering", CVPR
       2015.
    .. [2] V. Balntas et al., "Learning shallow convolutional feature descriptors with triplet losses",
       BMVC 2016.

    Examples
    --------
    >>> from sknet.losses import TripletMargin
    >>> TripletMargin().values([[[0.0, 0.0], [3.0, 4.0], [0.0, 5.5]]], [0]).numpy()
    array([0.5])
    """

    tasks = ()
    has_probabilities = False

    _parameter_constraints = {
        "margin": [Interval(Real, 0, None, closed="neither")],
        "p": [Interval(Real, 1, None, closed="left")],
        "eps": [Interval(Real, 0, None, closed="left")],
        "swap": ["boolean"],
    }

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False) -> None:
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        anchor, positive, negative = _embeddings(self, output, target, 3)
        near, far = self._distance(anchor, positive), self._distance(anchor, negative)
        if self.swap:
            far = ops.minimum(far, self._distance(positive, negative))
        return ops.relu(near - far + self.margin)

    def _distance(self, a: Tensor, b: Tensor) -> Tensor:
        difference = abs(a - b + self.eps)
        if self.p == 1:
            return ops.sum(difference, axis=-1)
        power = float(self.p)
        return ops.sum(difference**power, axis=-1) ** (1.0 / power)


def _embeddings(loss: Loss, output: Tensor, target: Tensor, count: int) -> list[Tensor]:
    """Return the vectors of each sample, of shape (n_samples, count, length), one after the other."""
    z, y = as_tensor(output), as_tensor(target)
    if z.ndim != 3 or z.shape[1] != count or y.shape != z.shape[:1]:
        raise shape_error(
            loss, z.shape, y.shape, expected=f"{z.shape[:1]}, and the output (n_samples, {count}, length)"
        )
    return [z[:, i] for i in range(count)]
