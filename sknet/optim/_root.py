"""The base of all optimizers, those that go step by step and those over all rows at once."""

from abc import ABC
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sknet._params import ParameterObject
from sknet.core import Tensor

if TYPE_CHECKING:
    from sknet.optim._base import Optimizer

Vector = NDArray[np.float64]
Shapes = Mapping[str, tuple[int, ...]]
Named = Mapping[str, Tensor]
Slots = Mapping[str, Named]


class MinimizeResult(NamedTuple):
    """The result of a minimization.

    Attributes
    ----------
    x : ndarray of shape (n_parameters,), dtype=float64
        The best parameters found.
    value : float
        The objective there.
    n_iter : int
        Number of iterations.
    n_evaluations : int
        Number of evaluations of the objective.
    converged : bool
        Whether it ended because the gradient or the decrease was small enough; False at a limit, after a
        failed line search, and if the callback stopped it.
    message : str
        SciPy's message on why it ended.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import LBFGS
    >>> result = LBFGS().minimize(lambda x: ((x**4).sum(), 4 * x**3), np.array([1.0, 2.0]), max_iter=1)
    >>> result.n_iter, result.converged
    (1, False)
    """

    x: Vector
    value: float
    n_iter: int
    n_evaluations: int
    converged: bool
    message: str


class BaseOptimizer(ParameterObject, ABC):
    """Abstract base of all optimizers.

    Most go step by step, and are an `Optimizer`. Others, such as `LBFGS`, `minimize` an objective over
    all rows with a line search of their own.

    Examples
    --------
    >>> from sknet.optim import LBFGS, Adam, BaseOptimizer
    >>> [(isinstance(x, BaseOptimizer), x.goes_in_steps) for x in (Adam(), LBFGS())]
    [(True, True), (True, False)]
    """

    squares: bool = False
    """Whether gradients are squared, so that very large ones overflow."""

    goes_in_steps: ClassVar[bool] = False
    """Whether it makes one update per batch."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the arrays kept for each parameter, all of which start at zero."""
        return ()

    @property
    def averaging(self) -> tuple[str, ...]:
        """Names of the slots that `averages` reads; empty if the trained parameters predict."""
        return ()

    @property
    def kind(self) -> Any:
        """What two optimizers must have in common for one to continue from the state of the other."""
        return type(self)

    def in_steps(self) -> "Optimizer":
        """Return the optimizer as one that makes one update per batch.

        Returns
        -------
        Optimizer
            The same object.

        Raises
        ------
        TypeError
            If it does not.
        """
        raise TypeError(
            f"{type(self).__name__} goes over the full batch and has no single step: use an optimizer such "
            "as Adam()"
        )

    def minimize(
        self,
        value_and_grad: Callable[[Vector], tuple[float, Vector]],
        x0: Vector,
        max_iter: int = 15000,
        gtol: float = 1e-5,
        verbose: bool | int = False,
        callback: Callable[[int, float, Vector], object] | None = None,
    ) -> MinimizeResult:
        """Minimize an objective, starting from `x0`.

        Parameters
        ----------
        value_and_grad : callable
            Takes parameters of shape (n_parameters,) and returns the objective, a float, and its
            gradient, of the same shape; dtype=float64.
        x0 : ndarray of shape (n_parameters,), dtype=float64
            The initial parameters.
        max_iter : int, default=15000
            The maximum number of iterations.
        gtol : float, default=1e-5
            The largest component of the gradient at which to stop, unless the optimizer has its own.
        verbose : bool or int, default=False
            Whether to print the objective after each iteration.
        callback : callable or None, default=None
            Called after each iteration with its number (from 1), the objective, and a copy of the
            parameters. Returning True ends the minimization.

        Returns
        -------
        MinimizeResult
            The result.

        Raises
        ------
        TypeError
            If the optimizer goes step by step.
        """
        raise TypeError(
            f"{type(self).__name__} goes step by step and minimizes nothing by itself: use LBFGS(), or call "
            "update once per step"
        )

    def check_parameters(self, shapes: Shapes) -> None:
        """Check that the paths and patterns in the optimizer's parameters fit the network's parameters.

        Parameters
        ----------
        shapes : mapping of str to tuple of int
            Paths and shapes of all parameters.

        Raises
        ------
        InvalidParameterError
            If it names a parameter that does not exist, or leaves one without an optimizer.
        """
        return

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        """Return the parameters to predict with, which some optimizers average.

        Parameters
        ----------
        params : mapping of str to Tensor
            The trained parameters by path.
        slots : mapping of str to mapping of str to Tensor
            At least those that `averaging` names.

        Returns
        -------
        dict of str to Tensor
            The given ones, unless the optimizer averages.
        """
        return dict(params)
