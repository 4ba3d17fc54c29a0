"""L-BFGS over the full batch, by SciPy."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet._params import Interval
from sknet.exceptions import NonFiniteError, ShapeError
from sknet.optim._base import BaseOptimizer, MinimizeResult, Vector


class LBFGS(BaseOptimizer):
    r"""Limited-memory BFGS: a quasi-Newton method for small data sets, over all samples at once.

    It does not make one update per batch, but minimizes the objective with its own line search.

    Parameters
    ----------
    max_fun : int, default=15000
        The maximum number of evaluations of the objective.
    memory : int, default=10
        Number of past steps that approximate the curvature, at most `max_iter`; SciPy's ``maxcor``.
    gtol : float or None, default=None
        Stop when the largest component of the gradient is at most this. None uses the `gtol` of `minimize`,
        which for estimators is their `tol`.
    ftol : float, default=2.220446049250313e-09
        Stop when the relative decrease of an iteration is at most this.

    See Also
    --------
    scipy.optimize.minimize : Does the work, as method "L-BFGS-B".

    References
    ----------
    .. [1] R. H. Byrd, P. Lu, J. Nocedal and C. Zhu, "A Limited Memory Algorithm for Bound
       Constrained Optimization", SIAM Journal on Scientific Computing 16(5), 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import LBFGS
    >>> result = LBFGS().minimize(lambda x: (((x - 3) ** 2).sum(), 2 * (x - 3)), np.zeros(2))
    >>> result.x
    array([3., 3.])
    >>> result.converged
    True
    """

    _parameter_constraints = {
        "max_fun": [Interval(Integral, 1, None, closed="left")],
        "memory": [Interval(Integral, 1, None, closed="left")],
        "gtol": [Interval(Real, 0, None, closed="left"), None],
        "ftol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        max_fun: int = 15000,
        memory: int = 10,
        gtol: float | None = None,
        ftol: float = 2.220446049250313e-09,
    ) -> None:
        self.max_fun = max_fun
        self.memory = memory
        self.gtol = gtol
        self.ftol = ftol

    def minimize(
        self,
        value_and_grad: Callable[[Vector], tuple[float, Vector]],
        x0: Vector,
        max_iter: int = 15000,
        gtol: float = 1e-5,
        verbose: bool | int = False,
        callback: Callable[[int, float, Vector], object] | None = None,
    ) -> MinimizeResult:
        if np.ndim(x0) != 1:
            raise ShapeError(f"x0 must be a vector, but its shape is {np.shape(x0)}. Ravel it first.")
        from scipy.optimize import minimize  # it takes long to load

        report = _Report(bool(verbose), callback)
        memory = min(int(self.memory), max(1, int(max_iter)))  # SciPy allocates for all of them
        try:
            found = minimize(
                value_and_grad,
                x0,
                method="L-BFGS-B",
                jac=True,
                callback=report,
                options={
                    "maxfun": self.max_fun,
                    "maxiter": max_iter,
                    "maxcor": memory,
                    "gtol": gtol if self.gtol is None else self.gtol,
                    "ftol": self.ftol,
                },
            )
        except MemoryError as error:
            size = 8 * memory * (2 * len(x0) + 11 * memory) / 2**30
            raise MemoryError(
                f"L-BFGS ran out of memory: {memory} past steps of {len(x0)} parameters take {size:.2g} GiB. "
                "Lower memory, of which 10 to 50 are usual."
            ) from error
        if not np.isfinite(found.fun):
            raise NonFiniteError(
                f"L-BFGS ended after {found.nit} iterations with an objective of {found.fun}: it must be "
                "finite. Scale the data, or start from smaller parameters."
            )
        return MinimizeResult(
            x=found.x,
            value=float(found.fun),
            n_iter=int(found.nit),
            n_evaluations=int(found.nfev),
            converged=found.status == 0,
            message=str(found.message),
        )


class _Report:
    """SciPy's callback: counts the iterations, prints them, and calls the user's."""

    def __init__(self, verbose: bool, callback: Callable[[int, float, Vector], object] | None) -> None:
        self.verbose = verbose
        self.callback = callback
        self.n_iter = 0

    # SciPy passes the objective only to a callback whose one argument has this very name.
    def __call__(self, intermediate_result: Any) -> None:
        self.n_iter += 1
        value, x = float(intermediate_result.fun), intermediate_result.x.copy()
        if self.verbose:
            print(f"Iteration {self.n_iter}, loss = {value:.8f}")
        if self.callback is not None and self.callback(self.n_iter, value, x) is True:
            raise StopIteration
