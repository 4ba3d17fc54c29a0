"""Losses for classification: of logits, of probabilities, with margins, and of classes in an order."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet import ops
from sknet._constraints import is_number, shown
from sknet._frames import are_indices
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.device import to_device
from sknet.exceptions import DtypeError
from sknet.losses._base import Loss, finite_numbers, numbers, reject, shape_error, times_log


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
        """Return the logarithm of `predict` of the logits `output`, accurate also where that is nearly 0.

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
        """The negative log likelihood of the probabilities from `predict`, which may be another loss."""
        return LogLoss(self.multilabel, ignore_index=self.ignore_index)

    def tempered(self, output: Tensor, temperature: float) -> Tensor:
        """Return logits `output` divided by a `temperature`: above 1, probabilities are less confident."""
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
        Whether each output is a separate 0/1 label. Otherwise the outputs are mutually exclusive classes.
    label_smoothing : float in [0, 1), default=0.0
        Share of each target that is spread evenly over all classes, so that no logit is pushed
        towards infinity.
    class_weight : array-like of shape (n_classes,) or dict, default=None
        Weight of each class. A dict maps class numbers (in estimators: labels) to weights; classes it leaves
        out have the weight 1. A single output has two classes; with `multilabel`, each label has one weight.
    pos_weight : float or array-like of shape (n_labels,), default=None
        Factor of the loss of labels that are 1; for one output and for several labels only.
    ignore_index : int, default=None
        A target that is ignored, such as padding in a sequence: a class number for a `Model`; for estimators
        a label, which is then not a class.

    See Also
    --------
    sklearn.metrics.log_loss : The same loss, from probabilities.

    Notes
    -----
    With logits :math:`z`, for one output and for every output of a multilabel task

    .. math:: \ell(z, y) = \log(1 + e^z) - y z, \qquad y \in \{0, 1\},

    summed over the labels; for mutually exclusive classes [1]_

    .. math:: \ell(z, y) = \log \sum_k e^{z_k} - z_y, \qquad y \in \{0, \ldots, K - 1\}.

    Label smoothing replaces the target by its mean with the uniform distribution [2]_: for K classes, of
    which labels have two, the true class has the weight :math:`1 - \epsilon + \epsilon / K` and each other
    :math:`\epsilon / K`.

    An output of shape (n_samples, ..., n_classes), such as one for every step of a sequence, belongs to class
    numbers of shape (n_samples, ...): a sample's value is the mean over its positions. `Model` takes sample
    weights of shape (n_samples,), or of the targets' shape, one for each position.

    `values` are multiplied by the weight of the class and are 0 where the target is ignored; `counts` returns
    the same weights, so that the sum of `values` divided by the sum of `counts` is a weighted mean over all
    positions of all samples. For classes this is PyTorch's ``cross_entropy``, also with label smoothing, and
    for labels its ``binary_cross_entropy_with_logits``, where `pos_weight` and the weights of several labels
    do not change the divisor.

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

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        return self._label_terms(*self.pair(output, target))  # with weights of labels

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
        Exponent that reduces the loss of well-classified samples; 0 gives the log loss.
    multilabel : bool, default=False
        Whether each output is a separate 0/1 label. Otherwise the outputs are mutually exclusive classes.
    ignore_index : int, default=None
        A target that is ignored, as for `LogLoss`.

    Notes
    -----
    With the probability :math:`p` that the logits give to the true class, or to a label's true value [1]_,

    .. math:: \ell = -(1 - p)^\gamma \log p,

    summed over labels. The paper's factor for each class is the estimators' `class_weight`.

    Predictions are less confident than those of a network trained with `LogLoss`, and not calibrated.

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
    r"""Hinge loss, as in support vector machines, of wrong decisions and of right ones within the margin.

    Parameters
    ----------
    squared : bool, default=False
        Square the values, which makes the loss smooth.
    multilabel : bool, default=False
        Whether each output is a separate 0/1 label. Otherwise the outputs are mutually exclusive classes.

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


class ClippedLogLoss(LogLoss):
    r"""The log loss with scikit-learn's values and the gradients of `LogLoss`."""

    _parameter_constraints = {"multilabel": ["boolean"]}
    _stored_fields = {  # the parameters of `LogLoss` that are not this one's, and have their defaults
        name: kinds for name, kinds in LogLoss._parameter_constraints.items() if name != "multilabel"
    }

    def __init__(self, multilabel: bool = False) -> None:
        super().__init__(multilabel)

    def _label_terms(self, z: Tensor, y: Tensor) -> Tensor:
        # From probabilities, since 1 - p has their rounding: near 1 that is more than 1e-12.
        p = ops.sigmoid(z)
        eps = float(np.finfo(p.dtype).eps)
        of_truth = ops.clip(p * y + (1.0 - p) * (1.0 - y), min=eps, max=1.0 - eps)
        return _with_slope_of(-ops.log(of_truth), (p - y).detach() * z)

    def _class_values(self, z: Tensor, y: Tensor) -> Tensor:
        values = super()._class_values(z, y)
        eps = float(np.finfo(values.dtype).eps)
        return _with_slope_of(ops.clip(values, min=-math.log1p(-eps), max=-math.log(eps)), values)


def _with_slope_of(values: Tensor, other: Tensor) -> Tensor:
    """Return values whose gradients are those of others."""
    return values.detach() + (other - other.detach())


class NLL(Loss):
    r"""Negative log likelihood of the true classes, from probabilities.

    For a network that ends in a softmax. `LogLoss` computes the same from logits, with fewer
    operations and full precision: prefer it if the network can end before the softmax.

    Parameters
    ----------
    class_weight : array-like of shape (n_classes,) or dict, default=None
        Weight of each class, as for `LogLoss`.
    ignore_index : int, default=None
        A target that is ignored, as for `LogLoss`.

    See Also
    --------
    LogLoss : The same from logits.

    Notes
    -----
    :math:`\ell(p, y) = -\log p_y`, where logarithms are clamped at -100 (or at that of the smallest
    normal number, -87 in float32), as in PyTorch's ``binary_cross_entropy``. There the
    gradient is 0. PyTorch's ``nll_loss`` reads log probabilities instead.

    Examples
    --------
    >>> from sknet.losses import NLL
    >>> NLL().values([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], [0, 2]).numpy()
    array([0.1054, 0.6931])
    """

    tasks = ("multiclass",)
    of_probabilities = True

    _parameter_constraints = {"class_weight": ["array-like", dict, None], "ignore_index": [Integral, None]}

    def __init__(self, class_weight: Any = None, ignore_index: int | None = None) -> None:
        self.class_weight = class_weight
        self.ignore_index = ignore_index

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        return class_values(self, self._class_values, as_tensor(output), as_tensor(target))

    def _class_values(self, p: Tensor, y: Tensor) -> Tensor:
        values, weights = -_clamped_log(of_class(p, y)), class_weights(self, p)
        return values if weights is None else values * ops.take(weights, ops.squeeze(y, -1), from_end=False)

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        return class_counts(self, as_tensor(output), as_tensor(target))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        check_classes(y, name, n_outputs, self.ignore_index)


class BinaryCrossEntropy(Loss):
    r"""Log loss of labels that are 0 or 1, from probabilities.

    For a network that ends in a sigmoid, with one output or one for each of several labels.
    `LogLoss` computes the same from logits, with fewer operations and full precision: prefer it if
    the network can end before the sigmoid.

    See Also
    --------
    LogLoss : The same from logits.

    Notes
    -----
    Summed over outputs,

    .. math:: \ell(p, y) = -y \log p - (1 - y) \log(1 - p), \qquad 0 \le y \le 1,

    where logarithms are clamped at -100 (or at that of the smallest normal number, -87 in
    float32), as in PyTorch's ``binary_cross_entropy``. There the gradient is 0.

    Examples
    --------
    >>> from sknet.losses import BinaryCrossEntropy
    >>> BinaryCrossEntropy().values([[0.9], [0.5]], [1, 0]).numpy()
    array([0.1054, 0.6931])
    """

    tasks = ("binary", "multilabel")
    of_probabilities = True

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        p, y = self.pair(output, target)
        return -self.total(y * _clamped_log(p) + (1.0 - y) * _clamped_log(1.0 - p))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        reject((y < 0) | (y > 1), y, name, "between 0 and 1 for BinaryCrossEntropy")


class KLDivergence(Loss):
    r"""Kullback-Leibler divergence of the predicted distribution from the target distribution.

    For targets that are distributions: shares of votes, or the predictions of another network (distillation).
    The output is logits, with a column for each outcome.

    Notes
    -----
    Along the last axis [1]_, with :math:`q` the softmax of the logits,

    .. math:: \ell(z, y) = \sum_k y_k (\log y_k - \log q_k).

    The first term does not depend on the output; it makes 0 the smallest value. PyTorch's ``kl_div``
    reads log probabilities instead.

    References
    ----------
    .. [1] S. Kullback and R. A. Leibler, "On Information and Sufficiency", The Annals of
       Mathematical Statistics 22(1), 1951.

    Examples
    --------
    >>> from sknet.losses import KLDivergence
    >>> KLDivergence().values([[0.0, 0.0], [0.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]).numpy()
    array([0.    , 0.6931])
    """

    tasks = ("regression",)

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        raise ValueError(
            "KLDivergence compares whole distributions: no target may be missing or weighted alone"
        )

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        if z.ndim < 2 or z.shape[-1] < 2:  # the softmax of a single outcome is always 1
            raise shape_error(self, z.shape, y.shape, expected="(n_samples, n_outcomes), as the output has")
        z, y = self.pair(z, y)
        return self.total(times_log(y) - y * ops.log_softmax(z, axis=-1))

    def predict(self, output: Tensor) -> Tensor:
        return ops.softmax(as_tensor(output), axis=-1)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        if y.ndim < 2 or y.shape[-1] < 2:
            raise ValueError(f"{name} must have a column for each outcome, but its shape is {y.shape}")
        reject(y < 0, y, name, "0 or more for KLDivergence, whose targets are probabilities")
        totals = y.sum(axis=-1)
        reject(np.abs(totals - 1) > 1e-4, totals, f"the sum over {name}'s columns", "1 for KLDivergence")


def _clamped_log(p: Tensor) -> Tensor:
    """Return the logarithm, clamped at -100 or at that of the smallest normal number."""
    return ops.log(ops.clip(p, min=max(math.exp(-100.0), float(np.finfo(p.dtype).tiny))))


class MultiMargin(Loss):
    r"""Hinge loss summed over all classes that violate the margin.

    Parameters
    ----------
    p : float, default=1.0
        Power of each violation, 1 or more.
    margin : float, default=1.0
        Least difference between the output of the true class and the others.

    See Also
    --------
    Hinge : Only the class that violates the margin most counts.

    Notes
    -----
    For K classes [1]_

    .. math:: \ell(z, y) = \frac{1}{K} \sum_{k \ne y} \max(0, m - z_y + z_k)^p.

    Outputs are not logits: `predict` returns them unchanged. The same as PyTorch's ``multi_margin_loss``.

    References
    ----------
    .. [1] J. Weston and C. Watkins, "Support Vector Machines for Multi-Class Pattern Recognition",
       ESANN 1999.

    Examples
    --------
    >>> from sknet.losses import MultiMargin
    >>> MultiMargin().values([[2.0, 0.0, 1.5]], [0]).numpy()
    array([0.1667])
    """

    tasks = ("multiclass",)
    has_probabilities = False

    _parameter_constraints = {
        "p": [Interval(Real, 1, None, closed="left")],
        "margin": [Interval(Real, None, None, closed="neither")],
    }

    def __init__(self, p: float = 1.0, margin: float = 1.0) -> None:
        self.p = p
        self.margin = margin

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        return class_values(self, self._class_values, as_tensor(output), as_tensor(target))

    def _class_values(self, z: Tensor, y: Tensor) -> Tensor:
        others = 1.0 - ops.one_hot(ops.squeeze(y, -1), z.shape[-1], dtype=z.dtype)
        short = ops.relu(z - ops.expand_dims(of_class(z, y), -1) + self.margin) * others
        return ops.mean(short if self.p == 1 else short ** float(self.p), axis=-1)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        check_classes(y, name, n_outputs)


class Ordinal(Loss):
    r"""Negative log likelihood of classes that have an order: grades, ratings, stages.

    Parameters
    ----------
    order : array-like of shape (n_classes,), default=None
        All classes from the lowest to the highest, for an estimator, if they are not in sorted order. The
        targets of a `Model` are the numbers of the classes in their order.

    Notes
    -----
    A network has an output for each of the :math:`K - 1` boundaries between neighbouring classes. From
    these follow the log odds of a class beyond each boundary [1]_,

    .. math:: a_k = \log \frac{P(y \ge k)}{P(y < k)}, \qquad a_1 = z_1, \qquad
              a_{k} = a_{k-1} - \log(1 + e^{z_k}).

    They decrease by construction, so that every class has a probability above 0, and all sum to 1:
    :math:`P(y = k) = \sigma(a_k) - \sigma(a_{k+1})`. With the logistic function :math:`\sigma` and
    :math:`\sigma(a) - \sigma(a - \log(1 + e^z)) = \sigma(a) \, \sigma(z) \, \sigma(\log(1 + e^z) - a)`
    no precision is lost where both are nearly 0 or 1. If only :math:`a_1` depended on the input, this
    would be the proportional odds model; here each boundary may.

    References
    ----------
    .. [1] P. McCullagh, "Regression Models for Ordinal Data", Journal of the Royal Statistical Society B
       42(2), 1980.

    Examples
    --------
    >>> from sknet.losses import Ordinal
    >>> loss = Ordinal()
    >>> loss.predict([[0.0, 1.0]]).numpy()
    array([[0.5   , 0.2881, 0.2119]])
    >>> loss.values([[0.0, 1.0], [0.0, 1.0]], [0, 2]).numpy()
    array([0.6931, 1.5514])
    """

    tasks = ("ordinal",)

    _parameter_constraints = {"order": ["array-like", None]}

    def __init__(self, order: Any = None) -> None:
        self.order = order

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        if z.ndim != 2 or not z.shape[1] or y.shape != z.shape[:1]:
            expected = f"{z.shape[:1]}, and the output (n_samples, n_classes - 1)"
            raise shape_error(self, z.shape, y.shape, expected=expected)
        if np.dtype(y.dtype).kind not in "iu":
            raise DtypeError(
                f"Ordinal got targets of dtype {y.dtype}; they must be integers, the numbers of classes in "
                "their order. Cast them with astype."
            )
        # A number that is not a class crosses no boundary, and would cost nothing. A capture has no values.
        if (
            isinstance(y.data, np.ndarray)
            and y.size
            and not (y.data.min() >= 0 and y.data.max() <= z.shape[1])
        ):
            self.check_target(y.data, n_outputs=z.shape[1])
        columns, odds = _columns(z), self._log_odds(z)
        terms = []
        for k, a in enumerate(odds, start=1):
            below = ops.softplus(a) if k == 1 else ops.softplus(a) + ops.softplus(-columns[k - 1])
            here = ops.where(ops.equal(y, k), ops.softplus(-a), 0.0)
            terms.append(here + ops.where(ops.equal(y, k - 1), below, 0.0))
        return sum(terms[1:], terms[0])

    def predict(self, output: Tensor) -> Tensor:
        return ops.exp(self.log_predict(output))

    def log_predict(self, output: Tensor) -> Tensor:
        """Return the logarithm of each class's probability, accurate also where that is nearly 0.

        An `output` of shape (n_samples, n_classes - 1) gives a column for each class, from lowest to highest.
        """
        z = as_tensor(output)
        columns, odds = _columns(z), self._log_odds(z)
        found = [ops.log_sigmoid(-odds[0])]
        for k in range(1, len(odds)):
            found.append(
                ops.log_sigmoid(odds[k - 1]) + ops.log_sigmoid(-odds[k]) + ops.log_sigmoid(columns[k])
            )
        found.append(ops.log_sigmoid(odds[-1]))
        return ops.stack(found, axis=-1)

    @property
    def likelihood(self) -> Loss:
        """The negative log likelihood of the probabilities from `predict`: this loss."""
        return self

    def tempered(self, output: Tensor, temperature: float) -> Tensor:
        """Return outputs whose log odds are those of `output` divided by a `temperature`.

        Above 1, it makes probabilities less confident.
        """
        first, *others = _columns(as_tensor(output))
        # The inverse of the softplus, log(exp(x) - 1), in a form that does not overflow.
        steps = [ops.softplus(z) / temperature for z in others]
        return ops.stack(
            [first / temperature, *[step + ops.log(-ops.expm1(-step)) for step in steps]], axis=-1
        )

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        check_classes(y, name, None if n_outputs is None else n_outputs + 1)

    @staticmethod
    def _log_odds(z: Tensor) -> list[Tensor]:
        """Return the log odds of a class beyond each boundary, decreasing."""
        first, *others = _columns(z)
        odds = [first]
        for column in others:
            odds.append(odds[-1] - ops.softplus(column))
        return odds


def _columns(z: Tensor) -> list[Tensor]:
    return [z[..., k] for k in range(z.shape[-1])]


def class_values(loss: Loss, values: Callable[[Tensor, Tensor], Tensor], z: Tensor, y: Tensor) -> Tensor:
    """Return `values` of rows z and their classes, a column; for several positions per sample, the mean."""
    _check_class_target(loss, z, y)
    ignored: int | None = getattr(loss, "ignore_index", None)
    rows = z if z.ndim == 2 else ops.reshape(z, (y.size, z.shape[-1]))
    column = ops.expand_dims(y, axis=-1) if z.ndim == 2 else ops.reshape(y, (y.size, 1))
    if ignored is None:
        each = values(rows, column)
    else:
        counted = ops.not_equal(column, ignored)
        each = values(rows, ops.where(counted, column, 0))
        each = ops.where(ops.squeeze(counted, -1), each, 0.0)
    return _over_positions(each, y.shape)


def class_counts(loss: Loss, z: Tensor, y: Tensor) -> Tensor | None:
    """Return the weight of each sample by its class, averaged over its positions; None for 1 each."""
    ignored: int | None = getattr(loss, "ignore_index", None)
    weights = class_weights(loss, z)
    if ignored is None:
        if weights is None:
            return None
        return _over_positions(ops.take(weights, ops.reshape(y, (-1,)), from_end=False), y.shape)
    flat = ops.reshape(y, (-1,))
    counted = ops.not_equal(flat, ignored)
    if weights is None:
        return _over_positions(ops.astype(counted, z.dtype), y.shape)
    of_each = ops.take(weights, ops.where(counted, flat, 0), from_end=False)
    return _over_positions(ops.where(counted, of_each, 0.0), y.shape)


def _over_positions(each: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the mean over a sample's positions, of which `each` has the values in one axis."""
    return (
        each if len(shape) == 1 else ops.mean(ops.reshape(each, shape), axis=tuple(range(1 - len(shape), 0)))
    )


def class_weights(loss: Loss, z: Tensor) -> Tensor | None:
    given: Any = getattr(loss, "class_weight", None)
    return None if given is None else numbers_for(loss, "class_weight", given, z.shape[-1], z)


def numbers_for(loss: Loss, name: str, given: Any, count: int, z: Tensor) -> Tensor:
    """Return a parameter as `count` numbers in the dtype and on the device of z."""
    if isinstance(given, Mapping):
        unknown = [key for key in given if key not in range(count)]
        if unknown:
            raise ValueError(
                f"{type(loss).__name__}: {name} has {unknown[0]!r}, which is not a class "
                f"from 0 to {count - 1}"
            )
        given = [given.get(k, 1.0) for k in range(count)]
    where, got = f"{type(loss).__name__}: {name}", f"got {shown(getattr(loss, name))}"
    if isinstance(given, (list, tuple)) and not all(is_number(each) for each in given):
        raise ValueError(f"{where} must hold numbers, one for each of {count} classes or labels, {got}")
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where} must hold finite numbers of 0 or more, {got}") from error
    if values.shape != (count,):
        raise ValueError(f"{where} must have one number for each of {count} classes or labels, {got}")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"{where} must hold finite numbers of 0 or more, {got}")
    return Tensor(to_device(values.astype(z.dtype), z.device))


def _check_class_target(loss: Loss, z: Tensor, y: Tensor) -> None:
    if z.ndim < 2:
        raise shape_error(
            loss, z.shape, y.shape, expected="(n_samples,), and the output (n_samples, n_classes)"
        )
    if y.shape != z.shape[:-1]:
        what = "a row" if z.ndim == 2 else "a position"
        raise shape_error(loss, z.shape, y.shape, expected=f"{z.shape[:-1]}, one class number {what}")
    if np.dtype(y.dtype).kind not in "iu":
        name = type(loss).__name__
        labels = f"{name}(multilabel=True)" if hasattr(loss, "multilabel") else "BinaryCrossEntropy()"
        raise DtypeError(
            f"{name} got targets of dtype {y.dtype} for {z.shape[-1]} classes; they must be integers. "
            f"Cast class numbers with astype; use {labels} for 0/1 labels."
        )
    # As an index, a negative class number would count from the end, and one that is too large is an error
    # that knows neither loss nor target. A captured pass has no values to look at.
    if isinstance(y.data, np.ndarray) and not are_indices(y.data, z.shape[-1]):
        loss.check_target(y.data, n_outputs=z.shape[-1])


def check_classes(y: Any, name: str, n_outputs: int | None, ignore_index: int | None = None) -> None:
    """Raise a ValueError unless all targets are numbers of classes, or the one that is ignored."""
    y = numbers(y, name)
    if n_outputs is not None and type(y) is np.ndarray and y.dtype.kind in "iu" and are_indices(y, n_outputs):
        return  # the rest takes longer than the check
    y = finite_numbers(y, name)
    bad = y < 0
    if n_outputs is not None:
        bad |= y >= n_outputs
    if y.dtype.kind == "f":
        bad |= y != np.floor(y)
    expected = "a class, an integer from 0" + ("" if n_outputs is None else f" to {n_outputs - 1}")
    if ignore_index is not None:
        expected += f", or {ignore_index} to be ignored"
    reject(not_ignored(bad, y, ignore_index), y, name, expected)


def not_ignored(bad: Any, y: Any, ignore_index: int | None) -> Any:
    """Return `bad` without the targets that are ignored."""
    return bad if ignore_index is None else bad & (y != ignore_index)


def of_class(x: Tensor, y: Tensor) -> Tensor:
    """Return the element of each row of x that belongs to its class, of shape (n_samples,)."""
    return ops.reshape(ops.take_along_axis(x, y, axis=-1, from_end=False), x.shape[:1])
