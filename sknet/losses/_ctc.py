"""Connectionist temporal classification: sequences whose alignment with their labels is unknown."""

from numbers import Integral
from typing import Any

import numpy as np

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses._base import Loss, finite_numbers, reject, shape_error

NEVER = -1e30  # logarithm of a probability of 0, with which sums can be computed


class CTC(Loss):
    r"""Negative log likelihood of labels in their order, summed over all alignments with the steps.

    Parameters
    ----------
    blank : int, default=0
        The class that stands for no label.
    zero_infinity : bool, default=False
        Whether the loss is 0 instead of infinite where there are too few steps for the labels.

    Notes
    -----
    Outputs are logits of shape (n_samples, n_steps, n_classes), targets classes of shape (n_samples,
    n_labels), in which rows with fewer labels end with -1. A path gives each step a label or the blank;
    it stands for the labels that remain when repetitions are merged and blanks dropped [1]_:

    .. math:: \ell(z, y) = -\log \sum_{\pi \to y} \prod_t \mathrm{softmax}(z_t)_{\pi_t}.

    The forward recursion computes the sum, in logarithms. The loss is for `Model`, not for estimators,
    and equals PyTorch's ``ctc_loss`` with ``reduction="none"``. `blank_after` marks the end of rows with
    fewer steps.

    References
    ----------
    .. [1] A. Graves et al., "Connectionist Temporal Classification: Labelling Unsegmented Sequence
       Data with Recurrent Neural Networks", ICML 2006, equations 5 to 8.

    Examples
    --------
    Two steps, each with even chances of a blank and a label: three of four paths give that label.

    >>> import numpy as np
    >>> from sknet.losses import CTC
    >>> np.exp(-CTC().values(np.zeros((1, 2, 2)), [[1]]).numpy())
    array([0.75])
    """

    tasks = ()

    _parameter_constraints = {
        "blank": [Interval(Integral, 0, None, closed="left")],
        "zero_infinity": ["boolean"],
    }

    def __init__(self, blank: int = 0, zero_infinity: bool = False) -> None:
        self.blank = blank
        self.zero_infinity = zero_infinity

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = self._steps_and_labels(output, target)
        labels = ops.where(ops.less(y, 0), self.blank, y)
        emitted = self._emitted(ops.log_softmax(z, axis=-1), labels)
        likelihood = self._at_the_end(self._forward(emitted, labels), y)
        impossible = ops.less(likelihood, 0.1 * NEVER)
        instead = 0.0 if self.zero_infinity else float("inf")
        return ops.where(impossible, instead, -likelihood)

    def _steps_and_labels(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        z, y = as_tensor(output), as_tensor(target)
        if z.ndim != 3 or y.ndim != 2 or y.shape[0] != z.shape[0] or not z.shape[1]:
            raise shape_error(
                self,
                z.shape,
                y.shape,
                expected="(n_samples, n_labels), and the output (n_samples, n_steps, n_classes)",
            )
        if y.dtype.kind not in "iu":
            raise DtypeError(f"CTC got targets of dtype {y.dtype}; labels must be integers: cast with astype")
        if self.blank >= z.shape[2] or z.shape[2] < 2:
            raise ShapeError(
                f"{self!r} got outputs of {z.shape[2]} classes: blank must be one of them, not all"
            )
        if isinstance(y.data, np.ndarray):  # a captured pass has no values to look at
            self.check_target(y.data, n_outputs=z.shape[2])
        return z, y

    def _emitted(self, log_probability: Tensor, labels: Tensor) -> Tensor:
        """Return the log probability of each position of the labels, with blanks between, at each step."""
        n, steps, _ = log_probability.shape
        count = labels.shape[1]
        blanks = log_probability[:, :, self.blank : self.blank + 1]
        if not count:
            return blanks
        places = ops.broadcast_to(ops.expand_dims(labels, 1), (n, steps, count))
        of_labels = ops.take_along_axis(log_probability, places, axis=-1)
        pairs = ops.stack([ops.broadcast_to(blanks, of_labels.shape), of_labels], axis=-1)
        return ops.concat([ops.reshape(pairs, (n, steps, 2 * count)), blanks], axis=-1)

    def _forward(self, emitted: Tensor, labels: Tensor) -> Tensor:
        """Return the log probability of all paths that end in each position after the last step."""
        n, steps, places = emitted.shape
        never = ops.full((n, 2), NEVER, emitted.dtype, emitted.device)
        start = emitted[:, 0, : min(2, places)]
        alpha = start if places < 3 else ops.concat([start, ops.full(
            (n, places - 2), NEVER, emitted.dtype, emitted.device)], axis=-1)  # fmt: skip
        jump = self._jumps(labels, emitted)
        for t in range(1, steps):
            padded = ops.concat([never, alpha], axis=-1)
            reached = ops.logaddexp(alpha, padded[:, 1 : 1 + places])
            if jump is not None:
                reached = ops.logaddexp(reached, padded[:, :places] + jump)
            alpha = ops.maximum(reached + emitted[:, t], NEVER)
        return alpha

    def _jumps(self, labels: Tensor, emitted: Tensor) -> Tensor | None:
        """Return 0 where a path may skip a position: to a label that differs from the one before it."""
        n, count = labels.shape
        if count < 2:
            return None
        other = ops.not_equal(labels[:, 1:], labels[:, :-1])
        rises = ops.where(other, 0.0, NEVER).astype(emitted.dtype)
        never = ops.full((n, count - 1), NEVER, emitted.dtype, emitted.device)
        inner = ops.reshape(ops.stack([rises, never], axis=-1), (n, 2 * count - 2))
        return ops.concat([never[:, :1], never[:, :1], never[:, :1], inner], axis=-1)

    def _at_the_end(self, alpha: Tensor, y: Tensor) -> Tensor:
        """Return the log probability of the last label and of the blank after it, together."""
        last = 2 * ops.sum(ops.greater_equal(y, 0).astype("int64"), axis=-1, keepdims=True)
        after = ops.take_along_axis(alpha, last, axis=-1)
        before = ops.take_along_axis(alpha, ops.maximum(last - 1, 0), axis=-1)
        before = ops.where(ops.equal(last, 0), NEVER, before)
        return ops.squeeze(ops.logaddexp(after, before), -1)

    def predict(self, output: Tensor) -> Tensor:
        return ops.softmax(as_tensor(output), axis=-1)

    def blank_after(self, output: Any, lengths: Any) -> Tensor:
        """Return logits that predict the blank with certainty after each row's real steps.

        The `output` has logits of shape (n_samples, n_steps, n_classes), and `lengths` how many steps of each
        row are real.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet.losses import CTC
        >>> loss, z = CTC(), np.zeros((1, 5, 2))
        >>> np.exp(-loss.values(loss.blank_after(z, [2]), [[1]]).numpy())
        array([0.75])
        """
        z, lengths = as_tensor(output), as_tensor(lengths)
        _, steps, classes = z.shape
        certain = np.full(classes, 0.1 * NEVER)
        certain[self.blank] = 0.0
        real = ops.less(ops.arange(steps, device=z.device), ops.expand_dims(lengths, -1))
        return ops.where(ops.expand_dims(real, -1), z, Tensor(certain, device=z.device).astype(z.dtype))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        bad = (y < -1) | (y != np.floor(y)) | (y == self.blank)
        bad = bad if n_outputs is None else bad | (y >= n_outputs)
        reject(bad, y, name, f"a class other than the blank {self.blank}, or -1 after the last label")
        if y.ndim == 2:
            reject((y[:, 1:] >= 0) & (y[:, :-1] < 0), y[:, 1:], f"{name}[:, 1:]", "-1 after the first -1")
