"""Base of all losses: values per sample, an inverse link, a check of targets, the supported tasks."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sknet import ops
from sknet._constraints import shown
from sknet._params import ParameterObject
from sknet.core import Tensor, as_tensor
from sknet.exceptions import DtypeError, ShapeError

TASKS = ("binary", "multiclass", "multilabel", "ordinal", "regression")


class Scaling(NamedTuple):
    """Dependence of a loss on the unit of its targets.

    Attributes
    ----------
    shifts : bool
        Whether adding a constant to targets and predictions leaves the loss unchanged.
    power : float
        Multiplying targets and predictions by c multiplies the loss by ``c**power``.
    adds_log : bool
        Whether this also adds ``log(c)`` to the loss (of times: to that of events).

    Examples
    --------
    >>> from sknet.losses import SquaredError
    >>> SquaredError().scaling
    Scaling(shifts=True, power=2.0, adds_log=False)
    """

    shifts: bool
    power: float
    adds_log: bool = False


class Loss(ParameterObject, ABC):
    """Abstract base of the losses: the function that a network minimizes, and the meaning of its output.

    A loss has no state. It compares the raw output of a network (logits, log means, means) with
    the target and returns one value per sample; weighting and averaging them is up to the caller. It owns
    the inverse link, too, so that predictions always fit the loss they were trained with.

    A custom loss defines `tasks`, `values` and `check_target`, and `predict` if its link is not the identity;
    `pair` and `total` are helpers.

    See Also
    --------
    sknet.losses.check_loss : Converts a name or an object to a loss.

    Examples
    --------
    >>> from sknet import ops
    >>> from sknet.losses import Loss
    >>> class Cauchy(Loss):
    ...     tasks = ("regression",)
    ...
    ...     def values(self, output, target):
    ...         z, y = self.pair(output, target)
    ...         return self.total(ops.log1p(ops.square(z - y)))
    >>> Cauchy().values([[0.0], [2.0]], [0.0, 0.0]).numpy()
    array([0.    , 1.6094])
    """

    tasks: ClassVar[tuple[str, ...]] = ()
    """The supported tasks, of "binary", "multiclass", "multilabel", "ordinal" and "regression"."""

    mean_over_outputs: ClassVar[bool] = False
    """True if the loss is reported as the mean over outputs, though its sum is descended."""

    of_probabilities: ClassVar[bool] = False
    """True if it expects probabilities, from a network that ends in a softmax or sigmoid."""

    has_probabilities: ClassVar[bool] = True
    """True if `predict` returns probabilities, where the task is a classification."""

    columns_per_target: ClassVar[int] = 1
    """Columns of y that are one target, of which more than one are read by the loss alone."""

    @property
    def outputs_per_target(self) -> int:
        """Number of outputs of the network for each column of the targets."""
        return 1

    @property
    def scaling(self) -> Scaling | None:
        """The dependence of the loss on the unit of the targets; None where they cannot be scaled."""
        return None

    @property
    def reporting(self) -> "Loss":
        """The loss whose mean a fit reports: this one, unless training uses other units."""
        return self

    @property
    def unit(self) -> float:
        """Factor that converts the loss to the reported one."""
        return 1.0

    @abstractmethod
    def values(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of every sample, summed over outputs.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_outputs), dtype=floating
            Raw output of the network, before the inverse link.
        target : Tensor or array of shape (n_samples,) or (n_samples, n_outputs)
            The target values. A target (n_samples,) matches an output (n_samples, 1).

        Returns
        -------
        Tensor of shape (n_samples,)
            In the output's dtype and on its device; differentiable in the output.

        Raises
        ------
        ShapeError
            If target and output do not match; nothing is broadcast.
        """

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of every target of every sample, for means with a weight for each target.

        `output` and `target` are as for `values`, which are the sums of the result, of shape (n_samples,
        n_targets), over targets. A custom loss whose targets depend on each other overrides it.
        """
        z, y = as_tensor(output), as_tensor(target)
        if (
            z.ndim != 2
            or y.ndim != 2
            or z.shape[0] != y.shape[0]
            or not y.shape[1]
            or z.shape[1] % y.shape[1]
        ):
            raise shape_error(self, z.shape, y.shape, expected="(n_samples, n_targets)")
        n, count = y.shape
        # Columns of one target are n_targets apart.
        blocks = ops.permute_dims(ops.reshape(z, (n, -1, count)), (0, 2, 1))
        found = self.values(ops.reshape(blocks, (n * count, -1)), ops.reshape(y, (n * count, 1)))
        return ops.reshape(found, (n, count))

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        """Return the weight of each sample in a mean, if that depends on its target; None if all are 1.

        The mean loss is the sum of `values` divided by the sum of these weights, so that ignored targets do
        not count and classes have their weights. `output` and `target` are as for `values`.
        """
        return None

    @property
    def threshold(self) -> float:
        """The output that separates two classes, if there is a single output."""
        return 0.5 if self.of_probabilities else 0.0

    def predict(self, output: Tensor) -> Tensor:
        """Apply the inverse link to the `output` of the network, which gives predictions.

        These are probabilities for a classification; means or quantiles, a column per target, for a
        regression.
        """
        return as_tensor(output)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        """Check that the loss is defined for targets `y`, which a message calls `name`.

        The domain may depend on the number of outputs of the network, `n_outputs`.

        Raises
        ------
        ValueError
            If a target is outside the domain; the message names the first.
        DtypeError
            If the targets are not numbers.
        """
        finite_numbers(y, name)

    def for_task(self, task: str) -> "Loss":
        """Return the loss to use for a task: itself, or a copy with other parameters.

        `task` is "binary", "multiclass", "multilabel", "ordinal" or "regression".

        Raises
        ------
        ValueError
            If this loss does not support the task.
        """
        check_task(task)
        if not self.tasks:
            raise ValueError(
                f"{type(self).__name__} is a loss for Model alone: it supports no task of estimators, "
                f"and the task here is {task}"
            )
        if task not in self.tasks:
            raise ValueError(
                f"{type(self).__name__} supports the tasks {', '.join(self.tasks)}; the task here is {task}. "
                "A classification needs a loss such as 'log_loss', a regression one such as 'squared_error'."
            )
        return self

    def pair(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Bring `output` and `target` to the same shape and dtype, for losses that compare them elementwise.

        The dtype is the output's. A single output loses its axis, and matches a target of shape (n_samples,).

        Raises
        ------
        ShapeError
            If the shapes do not match.
        """
        z, y = as_tensor(output), as_tensor(target)
        shape = z.shape
        if len(shape) == 2 and shape[1] == 1 and y.shape in (shape, shape[:1]):
            # One output: without its axis there is nothing to sum over.
            z = ops.reshape(z, shape[:1])
            y = ops.reshape(y, shape[:1]) if y.ndim == 2 else y
        elif y.shape != shape or not shape:
            raise shape_error(self, shape, y.shape)
        return z, ops.astype(y, z.dtype)

    @staticmethod
    def total(terms: Tensor) -> Tensor:
        """Return the sum of `terms` of shape (n_samples, ...) over everything but the samples."""
        return terms if terms.ndim == 1 else ops.sum(terms, axis=tuple(range(1 - terms.ndim, 0)))


def mean_loss_of(loss: Loss, output: Tensor, target: Tensor, weight: Any) -> float:
    """Return the mean loss of samples, with weights of samples or of targets."""
    if np.ndim(weight) < 2:
        return float(np.average(loss.values(output, target).numpy(), weights=weight))
    found = loss.of_targets(output, target).numpy()
    return float(np.average(found, weights=weight)) * int(found.shape[1])


def of_blocks(loss: Loss, z: Tensor, y: Tensor, count: int) -> tuple[list[Tensor], Tensor]:
    """Return `count` blocks of outputs, each of which has a column for every target, and the targets."""
    width = z.shape[1] // count if z.ndim == 2 and z.shape[1] % count == 0 else 0
    fitting = [(z.shape[0], width), z.shape[:1]][: 2 if width == 1 else 1] if width else []
    if y.shape not in fitting:
        share = "half as wide as the output" if count == 2 else f"the output being {count} times as wide"
        expected = " or ".join(map(str, fitting)) or f"(n_samples, n_targets), {share}"
        raise shape_error(loss, z.shape, y.shape, expected=expected)
    blocks = [z[:, k * width : (k + 1) * width] for k in range(count)]
    return blocks, ops.astype(ops.reshape(y, blocks[0].shape), z.dtype)


def times_log(y: Tensor) -> Tensor:
    """Return y * log(y), and 0 where y is 0, by loops of NumPy: `ops.xlogy` is called through Python."""
    return y * ops.log(ops.where(ops.equal(y, 0.0), 1.0, y))


def shape_error(
    loss: Loss, output: tuple[int, ...], target: tuple[int, ...], expected: str = ""
) -> ShapeError:
    """Return the error for an output and a target that do not match."""
    expected = expected or " or ".join(map(str, _target_shapes(output))) or "one row for each sample"
    return ShapeError(
        f"{type(loss).__name__} got an output of shape {output} and a target of shape {target}; "
        f"for this output the target must have shape {expected}. Nothing is broadcast: reshape the target, "
        "or change the number of outputs of the last layer."
    )


def _target_shapes(output: tuple[int, ...]) -> list[tuple[int, ...]]:
    if len(output) == 2 and output[1] == 1:
        return [output[:1], output]
    return [output] if output else []


def check_task(task: str) -> None:
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}. Got {shown(task)} instead.")


def finite_numbers(y: Any, name: str) -> Any:
    """Return `y` as an array, once it is known to hold finite numbers, one row for each sample."""
    y = numbers(y, name)
    if y.dtype.kind == "f":
        reject(~np.isfinite(y), y, name, "finite")
    return y


def numbers(y: Any, name: str) -> Any:
    """Return `y` as an array, once it is known to hold numbers, one row for each sample."""
    y = y if hasattr(y, "dtype") else np.asarray(y)
    if y.dtype.kind not in "biuf":
        raise DtypeError(f"{name} must hold numbers, but its dtype is {y.dtype}. Encode it first.")
    if y.ndim == 0:
        raise ShapeError(f"{name} must have one row for each sample, but it is a single number.")
    return y


def reject(bad: Any, y: Any, name: str, expected: str) -> None:
    """Raise a ValueError that shows the first place where `bad` is true."""
    if bad.any():
        place = tuple(int(axis[0]) for axis in bad.nonzero())
        where = ", ".join(map(str, place))
        raise ValueError(f"{name} must be {expected}, but {name}[{where}] is {y[place]}.")
