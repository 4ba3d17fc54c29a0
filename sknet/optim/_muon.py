"""Muon."""

import math
from numbers import Integral, Real
from typing import Any

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._adam import AdamW
from sknet.optim._base import Hyper, Hypers, Named, Optimizer, Shapes, Slots, Updated, moving_average
from sknet.optim._combinators import inside
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import RATE, Rate


class Muon(Optimizer):
    r"""Momentum with orthogonalized matrices: steps of equal length along every direction.

    Parameters
    ----------
    lr : float, Schedule or callable, default=2e-2
        Learning rate of the parameters with two or more axes.
    momentum : float, default=0.95
        Decay rate of the moving average of the gradient, in [0, 1).
    nesterov : bool, default=True
        Whether to use Nesterov momentum.
    n_iterations : int, default=5
        Number of iterations of the orthogonalization.
    rest : Optimizer or None, default=None
        The optimizer of parameters with fewer than two axes, with a rate of its own; None is ``AdamW()``.

    Notes
    -----
    With gradient g and mean :math:`\mu` [1]_,

    .. math:: \mu \leftarrow m \mu + (1 - m) g, \qquad
              \Delta = -\mathrm{lr} \sqrt{\max(1, n_\mathrm{out} / n_\mathrm{in})} \;
              \mathrm{orthogonal}(m \mu + (1 - m) g),

    or of :math:`\mu` itself without nesterov. A matrix :math:`U S V^T` becomes about :math:`U V^T`
    by Newton-Schulz iterations :math:`X \leftarrow a X + b (X X^T) X + c (X X^T)^2 X` from
    :math:`X / \lVert X \rVert`, with a = 3.4445, b = -4.775 and c = 2.0315: its singular values then
    lie between 0.7 and 1.2. A parameter with more axes is reshaped to a matrix whose rows are its first
    axis; a matrix has shape (in, out) here.

    The same as PyTorch's, which computes the iterations in bfloat16; for its weight decay use
    ``WeightDecay(Muon())``. Embeddings and the last layer are better trained by `AdamW`, using `Groups`.

    References
    ----------
    .. [1] K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024,
       https://kellerjordan.github.io/posts/muon/.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import Muon
    >>> optimizer, weight = Muon(lr=1.0, n_iterations=20), np.zeros((2, 2))
    >>> gradient = np.array([[100.0, 0.0], [0.0, 1.0]])
    >>> delta, state = optimizer.update(gradient, optimizer.init(weight), weight)
    >>> bool((0.6 < -delta.diagonal()).all() and (-delta.diagonal() < 1.3).all())
    True
    """

    elementwise = False

    _parameter_constraints = {
        "lr": RATE,
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "nesterov": ["boolean"],
        "n_iterations": [Interval(Integral, 1, None, closed="left")],
        "rest": [Optimizer, None],
    }

    def __init__(
        self,
        lr: Rate = 2e-2,
        momentum: float = 0.95,
        nesterov: bool = True,
        n_iterations: int = 5,
        rest: Optimizer | None = None,
    ) -> None:
        self.lr = lr
        self.momentum = momentum
        self.nesterov = nesterov
        self.n_iterations = n_iterations
        self.rest = rest

    # -- matrices and the rest --------------------------------------------------------------------

    @property
    def _rest(self) -> Optimizer:
        return AdamW() if self.rest is None else self.rest

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("mu", *self._rest.slots)))

    @property
    def averaging(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._rest.averaging

    @property
    def squares(self) -> bool:  # type: ignore[override]
        return self._rest.squares

    @property
    def kind(self) -> Any:
        return type(self), self._rest.kind

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return (*super().schedules, *self._rest.schedules)

    def check_parameters(self, shapes: Shapes) -> None:
        self._rest.check_parameters({path: shape for path, shape in shapes.items() if len(shape) < 2})

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        rest = self._rest.hyper(count, progress)
        return {**super().hyper(count, progress), **{REST + name: value for name, value in rest.items()}}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the update of one matrix, and its new slots; those of other parameters are unchanged."""
        mu = moving_average(slots[0], gradient, self.momentum)
        ahead = moving_average(mu, gradient, self.momentum) if self.nesterov else mu
        matrix = ops.reshape(ahead, (ahead.shape[0], -1))
        n_in, n_out = matrix.shape if param.ndim == 2 else matrix.shape[::-1]
        scale = math.sqrt(max(1.0, n_out / n_in))
        step = ops.reshape(scale * orthogonal(matrix, self.n_iterations), param.shape)
        return hyper["step"] * step, (mu, *slots[1:])

    def rules(self, gradients: Named, params: Named, slots: Slots, hypers: Hypers) -> Updated:
        matrices = {path: param for path, param in params.items() if param.ndim >= 2}
        deltas, after = super().rules(gradients, matrices, slots, hypers)
        others = {path: param for path, param in params.items() if path not in matrices}
        if not others:
            return deltas, after
        before = {name: {path: slots[name][path] for path in others} for name in self._rest.slots}
        numbers = inside(hypers[next(iter(others))], REST)
        found, new = self._rest.updated({path: gradients[path] for path in others}, others, before, numbers)
        deltas.update(found)
        for name, values in after.items():
            values.update(new.get(name) or {path: slots[name][path] for path in others})
        return deltas, after

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        others = {path: param for path, param in params.items() if param.ndim < 2}
        return {**params, **self._rest.averages(others, slots)}


REST = "rest."
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # the polynomial is steep at 0 and maps (0, 1] close to 1
SMALLEST = 1e-7  # smallest norm that a matrix is divided by


def orthogonal(matrix: Tensor, n_iterations: int) -> Tensor:
    """Return a matrix with the same singular vectors, and singular values near 1."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ops.matrix_transpose(matrix) if is_tall else matrix  # the smaller of the two products
    x = x / ops.maximum(ops.sqrt(ops.sum_squares(x)), SMALLEST)
    a, b, c = COEFFICIENTS
    for _ in range(n_iterations):
        square = x @ ops.matrix_transpose(x)
        x = a * x + (b * square + c * (square @ square)) @ x
    return ops.matrix_transpose(x) if is_tall else x
