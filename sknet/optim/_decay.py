"""Decoupled weight decay for any optimizer, and for chosen parameters."""

from collections.abc import Sequence
from numbers import Real

from sknet._params import Interval, InvalidParameterError
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim._combinator import Combinator, Own
from sknet.optim._paths import check_patterns, matches
from sknet.optim._root import Shapes
from sknet.optim.schedules import Progress


class WeightDecay(Combinator):
    r"""Decoupled weight decay in addition to the steps of an optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer to wrap.
    weight_decay : float, default=1e-2
        Weight decay coefficient: each update subtracts ``lr * weight_decay`` times the parameter.
    parameters : str, list of str or None, default=None
        The parameters that decay: patterns of their paths, such as ``"*.weight"``. None selects those
        with two or more axes: neither biases nor the scales of normalizations.

    Notes
    -----
    :math:`\Delta \leftarrow \Delta - \mathrm{lr} \cdot \mathrm{weight\_decay} \cdot \theta`: the
    decay is decoupled from the gradient and follows the learning rate [1]_. ``WeightDecay(Adam())``
    is `AdamW` without decay of the biases.

    References
    ----------
    .. [1] I. Loshchilov and F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, WeightDecay
    >>> optimizer = WeightDecay(SGD(lr=0.5), weight_decay=0.1)
    >>> params = {"weight": np.ones((1, 1)), "bias": np.ones(1)}
    >>> gradients = {"weight": np.zeros((1, 1)), "bias": np.zeros(1)}
    >>> deltas, state = optimizer.update(gradients, optimizer.init(params), params)
    >>> deltas["weight"] + 0.0, deltas["bias"] + 0.0
    (array([[-0.05]]), array([0.]))
    """

    _parameter_constraints = {
        "optimizer": [Optimizer],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "parameters": [str, list, tuple, None],
    }

    def __init__(
        self,
        optimizer: Optimizer,
        weight_decay: float = 1e-2,
        parameters: "str | Sequence[str] | None" = None,
    ) -> None:
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.parameters = parameters

    def validate(self) -> None:
        super().validate()
        if not all(isinstance(pattern, str) for pattern in self._patterns):
            raise InvalidParameterError(
                "The 'parameters' parameter of WeightDecay must be a str, a list of str or None. "
                f"Got {self.parameters!r} instead."
            )

    @property
    def _patterns(self) -> tuple[str, ...]:
        given = self.parameters
        return (given,) if isinstance(given, str) else tuple(given or ())

    def check_parameters(self, shapes: Shapes) -> None:
        check_patterns(self._patterns, shapes, "parameters", "WeightDecay")
        super().check_parameters(shapes)

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        return {"decay": -self.learning_rate(progress) * float(self.weight_decay)}

    def marks(self, path: str, shape: tuple[int, ...]) -> dict[str, float]:
        shrinks = len(shape) >= 2 if self.parameters is None else matches(path, self._patterns)
        return {"shrinks": float(shrinks), **super().marks(path, shape)}

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return delta + hyper["decay"] * (hyper["shrinks"] * param), own
