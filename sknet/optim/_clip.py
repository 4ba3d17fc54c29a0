"""Gradient clipping by norm and by value."""

from collections.abc import Sequence
from numbers import Real

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim._combinator import Combinator, Own

_POSITIVE = Interval(Real, 0, None, closed="neither")


class ClipNorm(Combinator):
    r"""Clips the gradient by its norm over all parameters before an optimizer sees it.

    Parameters
    ----------
    optimizer : Optimizer
        Receives the clipped gradient.
    max_norm : float, default=1.0
        The maximum norm.

    Notes
    -----
    With gradients g of all parameters together [1]_,

    .. math:: g \leftarrow g \cdot \frac{c}{\max(c, \lVert g \rVert_2)}.

    A gradient within the limit is not changed at all. PyTorch adds 1e-6 to the norm.

    References
    ----------
    .. [1] R. Pascanu, T. Mikolov and Y. Bengio, "On the difficulty of training recurrent neural
       networks", ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, ClipNorm
    >>> optimizer, params = ClipNorm(SGD(lr=1.0), max_norm=1.0), {"a": np.zeros(1), "b": np.zeros(1)}
    >>> gradients = {"a": np.array([30.0]), "b": np.array([40.0])}
    >>> deltas, state = optimizer.update(gradients, optimizer.init(params), params)
    >>> deltas
    {'a': array([-0.6]), 'b': array([-0.8])}
    """

    measures = True
    squares = True

    _parameter_constraints = {"optimizer": [Optimizer], "max_norm": [_POSITIVE]}

    def __init__(self, optimizer: Optimizer, max_norm: float = 1.0) -> None:
        self.optimizer = optimizer
        self.max_norm = max_norm

    def measure(
        self, gradients: Sequence[Tensor], slots: Sequence[tuple[Tensor, ...]], hyper: Hyper
    ) -> dict[str, Tensor]:
        max_norm = float(self.max_norm)
        norm = ops.sqrt(ops.sum_squares(*gradients))
        own = {"scale": max_norm / ops.maximum(norm, max_norm)}
        return {**own, **super().measure(gradients, slots, {**hyper, **own})}

    def before(self, gradient: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return gradient * hyper["scale"], own


class ClipValue(Combinator):
    """Clips every component of the gradient before an optimizer sees it.

    Parameters
    ----------
    optimizer : Optimizer
        Receives the clipped gradient.
    max_value : float, default=1.0
        The maximum absolute value of a component.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, ClipValue
    >>> optimizer, weight = ClipValue(SGD(lr=1.0), max_value=0.5), np.zeros(3)
    >>> delta, state = optimizer.update(np.array([0.1, 2.0, -9.0]), optimizer.init(weight), weight)
    >>> delta
    array([-0.1, -0.5,  0.5])
    """

    _parameter_constraints = {"optimizer": [Optimizer], "max_value": [_POSITIVE]}

    def __init__(self, optimizer: Optimizer, max_value: float = 1.0) -> None:
        self.optimizer = optimizer
        self.max_value = max_value

    def before(self, gradient: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return ops.clip(gradient, -float(self.max_value), float(self.max_value)), own
