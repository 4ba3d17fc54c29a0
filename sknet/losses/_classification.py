"""Losses for classification, from logits."""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.losses._base import Loss, finite_numbers, numbers, reject
from sknet.losses._classes import (
    check_classes,
    class_counts,
    class_values,
    class_weights,
    not_ignored,
    numbers_for,
    of_class,
)


class LogitLoss(Loss):
    """Abstract base of the losses that compare logits with classes, or with several 0/1 labels."""

    tasks = ("binary", "multiclass", "multilabel")

    multilabel: bool
    ignore_index: int | None = None

    @abstractmethod
    def _label_terms(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the terms of logits for labels that are 0 or 1, elementwise."""

    @abstractmethod
    def _class_values(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the value of each row of logits, for class numbers of shape (n_samples, 1)."""

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z = as_tensor(output)
        if not self._is_bernoulli(z):
            return class_values(self, self._class_values, z, as_tensor(target))
        z, y = self.pair(z, target)
        if self.ignore_index is None:
            return self.total(self._label_terms(z, y))
        counted = ops.not_equal(y, self.ignore_index)
        terms = self._label_terms(z, ops.where(counted, y, 0.0))
        return self.total(ops.where(counted, terms, 0.0))

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        z, y = as_tensor(output), as_tensor(target)
        if not self._is_bernoulli(z):
            return class_counts(self, z, y)
        if self.ignore_index is None:
            return None
        z, y = self.pair(z, y)
        counted = ops.astype(ops.not_equal(y, self.ignore_index), z.dtype)
        return counted if y.ndim == 1 else ops.max(counted, axis=tuple(range(1 - y.ndim, 0)))

    def predict(self, output: Tensor) -> Tensor:
        z = as_tensor(output)
        return ops.sigmoid(z) if self._is_bernoulli(z) else ops.softmax(z, axis=-1)

    def log_predict(self, output: Tensor) -> Tensor:
        """Return the logarithm of what `predict` returns, accurate also where that is nearly 0.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_outputs), dtype=floating
            Logits.

        Returns
        -------
        Tensor of shape (n_samples, n_outputs)
            Log probabilities.

        Examples
        --------
        >>> from sknet.losses import LogLoss
        >>> LogLoss().log_predict([[-1000.0]]).numpy()
        array([[-1000.]])
        """
        z = as_tensor(output)
        return ops.log_sigmoid(z) if self._is_bernoulli(z) else ops.log_softmax(z, axis=-1)

    @property
    def likelihood(self) -> Loss:
        """The negative log likelihood of what `predict` returns, which this loss need not be."""
        return LogLoss(self.multilabel, ignore_index=self.ignore_index)

    def tempered(self, output: Tensor, temperature: float) -> Tensor:
        """Return outputs divided by a temperature: above 1 it makes probabilities less confident.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_outputs), dtype=floating
            Logits.
        temperature : float
            Positive.

        Returns
        -------
        Tensor of shape (n_samples, n_outputs)
            What `predict` turns into probabilities.
        """
        return as_tensor(output) / temperature

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        if self.multilabel or n_outputs == 1:
            y = numbers(y, name)
            bad = not_ignored((y != 0) & (y != 1), y, self.ignore_index)
            if bad.any():  # the rest takes longer than the check
                finite_numbers(y, name)
                reject(bad, y, name, f"0 or 1 for {self!r}")
        else:
            check_classes(y, name, n_outputs, self.ignore_index)

    def for_task(self, task: str) -> Loss:
        if task == "multilabel":
            return self if self.multilabel else self._with(multilabel=True)
        if self.multilabel and task in self.tasks:
            raise ValueError(
                f"{self!r} is for targets of several 0/1 labels; the task here is {task}. "
                f"Use {self._with(multilabel=False)!r}, which also turns to several labels by itself where "
                "the target recommends it."
            )
        return super().for_task(task)

    def _with(self, **params: Any) -> Loss:
        return type(self)(**{**self.get_params(), **params})

    def _is_bernoulli(self, z: Tensor) -> bool:
        return bool(self.multilabel) or z.ndim == 1 or z.shape[-1] == 1


class LogLoss(LogitLoss):
    r"""Logistic loss, the negative log likelihood of the true classes; also known as cross-entropy.

    Parameters
    ----------
    multilabel : bool, default=False
        Whether each output is a separate 0/1 label. Otherwise the outputs are mutually exclusive
        classes.
    label_smoothing : float in [0, 1), default=0.0
        Share of each target that is spread evenly over all classes, so that no logit is pushed
        towards infinity.
    class_weight : array-like of shape (n_classes,) or dict, default=None
        How much each class counts; a dict maps class numbers to weights, in estimators labels, and those
        it leaves out count as 1. One output has two classes; of several labels each has a weight.
    pos_weight : float or array-like of shape (n_labels,), default=None
        How much more a label counts where it is 1 than where it is 0; for one output and for
        several labels only.
    ignore_index : int, default=None
        A target that is ignored, such as padding in a sequence: the number of a class for a `Model`, a
        label for estimators, of which it is then no class.

    See Also
    --------
    sklearn.metrics.log_loss : The same loss, from probabilities.

    Notes
    -----
    With logits :math:`z`, for one output and for every output of a multilabel task

    .. math:: \ell(z, y) = \log(1 + e^z) - y z, \qquad y \in \{0, 1\},

    summed over the labels; for mutually exclusive classes [1]_

    .. math:: \ell(z, y) = \log \sum_k e^{z_k} - z_y, \qquad y \in \{0, \ldots, K - 1\}.

    Label smoothing replaces the target by its mean with the uniform distribution [2]_: for K
    classes, of which labels have two, the true class counts :math:`1 - \epsilon + \epsilon / K` and each
    other :math:`\epsilon / K`.

    An output of shape (n_samples, ..., n_classes), such as one for every step of a sequence, meets class
    numbers of shape (n_samples, ...): a sample's value is the mean over its positions. `Model` takes
    sample weights of shape (n_samples,), or of the targets' shape, one for each position.

    `values` is multiplied by the weight of the class and is 0 where the target is ignored; `counts`
    is what a mean divides by: the same weights, so that the mean is one over what counts, over
    all positions of all samples. For classes this is PyTorch's ``cross_entropy``, also with label
    smoothing, and for labels its ``binary_cross_entropy_with_logits``, where `pos_weight` and the
    weights of several labels do not change what is divided by.

    Both are computed from the logits, so that large logits do not overflow. scikit-learn clips
    probabilities instead, and differs where a probability is within rounding of 0 or 1.

    References
    ----------
    .. [1] C. M. Bishop, "Pattern Recognition and Machine Learning", 2006, section 4.3.
    .. [2] C. Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016,
       section 7.

    Examples
    --------
    >>> from sknet.losses import LogLoss
    >>> loss = LogLoss()
    >>> loss.values([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [0, 2]).numpy()
    array([0.2395, 1.0986])
    >>> loss.predict([[0.0], [2.0]]).numpy()
    array([[0.5   ],
           [0.8808]])
    >>> sequences = LogLoss(ignore_index=-1)
    >>> sequences.values([[[0.0, 0.0], [5.0, 0.0]]], [[1, -1]]).numpy()
    array([0.3466])
    >>> sequences.counts([[[0.0, 0.0], [5.0, 0.0]]], [[1, -1]]).numpy()
    array([0.5])
    """

    _parameter_constraints = {
        "multilabel": ["boolean"],
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "class_weight": ["array-like", dict, None],
        "pos_weight": [Interval(Real, 0, None, closed="left"), "array-like", None],
        "ignore_index": [Integral, None],
    }

    def __init__(
        self,
        multilabel: bool = False,
        label_smoothing: float = 0.0,
        class_weight: Any = None,
        pos_weight: Any = None,
        ignore_index: int | None = None,
    ) -> None:
        self.multilabel = multilabel
        self.label_smoothing = label_smoothing
        self.class_weight = class_weight
        self.pos_weight = pos_weight
        self.ignore_index = ignore_index

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        z, found = as_tensor(output), super().counts(output, target)
        if self.class_weight is None or self.multilabel or not self._is_bernoulli(z):
            return found
        z, y = self.pair(z, target)
        if self.ignore_index is None:
            return self._of_two(z, y)
        counted = ops.not_equal(y, self.ignore_index)
        return ops.where(counted, self._of_two(z, ops.where(counted, y, 0.0)), 0.0)

    def _of_two(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the weights of labels of a single output, whose classes are 0 and 1."""
        weights = numbers_for(self, "class_weight", self.class_weight, 2, z)
        return (1.0 - y) * weights[0] + y * weights[1]

    def _label_terms(self, z: Tensor, y: Tensor) -> Tensor:
        labels = y
        if self.label_smoothing:
            y = y * (1.0 - self.label_smoothing) + 0.5 * self.label_smoothing
        if self.pos_weight is None:
            terms = ops.softplus(z) - y * z
        else:
            terms = self._pos_weights(z) * (y * ops.softplus(-z)) + (1.0 - y) * ops.softplus(z)
        if self.class_weight is None:
            return terms
        if self.multilabel:
            return terms * numbers_for(self, "class_weight", self.class_weight, _width(z), z)
        return terms * self._of_two(z, labels)

    def _pos_weights(self, z: Tensor) -> Tensor:
        given = self.pos_weight
        count = _width(z) if self.multilabel else 1
        return numbers_for(self, "pos_weight", [given] * count if np.ndim(given) == 0 else given, count, z)

    def _class_values(self, z: Tensor, y: Tensor) -> Tensor:
        if self.pos_weight is not None:
            raise ValueError(
                f"LogLoss: pos_weight is for one output or several labels, got {z.shape[-1]} mutually "
                "exclusive classes: use class_weight"
            )
        # The log probability and not logsumexp(z) - z[y]: near zero it keeps its precision in float32.
        log_probability = ops.log_softmax(z, axis=-1)
        values, weights = -of_class(log_probability, y), class_weights(self, z)
        if weights is not None:
            values = values * ops.take(weights, ops.squeeze(y, -1), from_end=False)
        if not self.label_smoothing:
            return values
        spread = self.label_smoothing / z.shape[-1]
        others = log_probability if weights is None else log_probability * weights
        return values * (1.0 - self.label_smoothing) - ops.sum(others, axis=-1) * spread


def _width(z: Tensor) -> int:
    """Return the number of labels: a single one has lost its axis."""
    return 1 if z.ndim == 1 else z.shape[-1]


class Focal(LogitLoss):
    r"""Focal loss: a log loss in which well-classified samples count less.

    Parameters
    ----------
    gamma : float, default=2.0
        How much less; 0 gives the log loss.
    multilabel : bool, default=False
        Whether each output is a separate 0/1 label. Otherwise the outputs are mutually exclusive
        classes.
    ignore_index : int, default=None
        A target that is ignored, as for `LogLoss`.

    Notes
    -----
    With the probability :math:`p` that the logits give to the true class, or to a label's true
    value [1]_,

    .. math:: \ell = -(1 - p)^\gamma \log p,

    summed over labels. The paper's factor for each class is the estimators' `class_weight`.

    It draws probabilities together: predictions are less confident than those of a network trained
    with `LogLoss`, and not calibrated.

    References
    ----------
    .. [1] T.-Y. Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.

    Examples
    --------
    >>> from sknet.losses import Focal
    >>> Focal().values([[0.0], [3.0]], [1, 1]).numpy()
    array([1.7329e-01, 1.0929e-04])
    """

    _parameter_constraints = {
        "gamma": [Interval(Real, 0, None, closed="left")],
        "multilabel": ["boolean"],
        "ignore_index": [Integral, None],
    }

    def __init__(self, gamma: float = 2.0, multilabel: bool = False, ignore_index: int | None = None) -> None:
        self.gamma = gamma
        self.multilabel = multilabel
        self.ignore_index = ignore_index

    def _label_terms(self, z: Tensor, y: Tensor) -> Tensor:
        towards = z * (2.0 * y - 1.0)
        return self._weight(ops.sigmoid(-towards)) * ops.softplus(-towards)

    def _class_values(self, z: Tensor, y: Tensor) -> Tensor:
        log_probability = of_class(ops.log_softmax(z, axis=-1), y)
        return self._weight(-ops.expm1(log_probability)) * -log_probability

    def _weight(self, rest: Tensor) -> Tensor:
        # A power below 1 has no slope at 0, and the loss is 0 there: the power is not evaluated.
        return ops.clip(rest, min=float(np.finfo(rest.dtype).tiny)) ** float(self.gamma)


class Hinge(LogitLoss):
    r"""Hinge loss, as in support vector machines: wrong decisions cost, and those within the margin.

    Parameters
    ----------
    squared : bool, default=False
        Square the values, which makes the loss smooth.
    multilabel : bool, default=False
        Whether each output is a separate 0/1 label. Otherwise the outputs are mutually exclusive
        classes.

    See Also
    --------
    sklearn.metrics.hinge_loss : The same loss.

    Notes
    -----
    For one output, and for every label, and for mutually exclusive classes [1]_

    .. math:: \ell(z, y) = \max(0, 1 - (2 y - 1) z), \qquad
              \ell(z, y) = \max(0, 1 + \max_{k \ne y} z_k - z_y).

    Outputs are signed distances to a boundary, not logits: `predict` returns them unchanged, and
    there are no probabilities. PyTorch's ``multi_margin_loss`` sums over classes instead.

    References
    ----------
    .. [1] K. Crammer and Y. Singer, "On the Algorithmic Implementation of Multiclass Kernel-based
       Vector Machines", JMLR 2, 2001.

    Examples
    --------
    >>> from sknet.losses import Hinge
    >>> Hinge().values([[2.0], [0.5], [-1.0]], [1, 1, 1]).numpy()
    array([0. , 0.5, 2. ])
    >>> Hinge().values([[2.0, 0.0, 1.5]], [0]).numpy()
    array([0.5])
    """

    has_probabilities = False

    _parameter_constraints = {"squared": ["boolean"], "multilabel": ["boolean"]}

    def __init__(self, squared: bool = False, multilabel: bool = False) -> None:
        self.squared = squared
        self.multilabel = multilabel

    def predict(self, output: Tensor) -> Tensor:
        return as_tensor(output)

    def _label_terms(self, z: Tensor, y: Tensor) -> Tensor:
        return self._powered(ops.relu(1.0 - z * (2.0 * y - 1.0)))

    def _class_values(self, z: Tensor, y: Tensor) -> Tensor:
        # The other classes are raised by 1; where the true class is still the largest, the loss is 0.
        raised = z + (1.0 - ops.one_hot(ops.squeeze(y, -1), z.shape[-1], dtype=z.dtype))
        return self._powered(ops.max(raised, axis=-1) - of_class(z, y))

    def _powered(self, values: Tensor) -> Tensor:
        return ops.square(values) if self.squared else values
