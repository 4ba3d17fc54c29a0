"""Decoupled weight decay for any optimizer, and for chosen parameters."""

from collections.abc import Mapping, Sequence

from sknet._constraints import shown
from sknet._params import InvalidParameterError
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim._combinator import Combinator, Own
from sknet.optim._paths import check_patterns, matches
from sknet.optim._rate_factors import check_factors, factor_of
from sknet.optim._root import Shapes
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import DECAY, Rate, rate_of, scheduled


class WeightDecay(Combinator):
    r"""Decoupled weight decay in addition to the steps of an optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer to wrap.
    weight_decay : float, Schedule or callable, default=1e-2
        Weight decay coefficient: each update subtracts ``lr * weight_decay`` times the parameter.
    parameters : str, list of str, dict of str to float or None, default=None
        The parameters that decay: patterns of their paths, such as ``"*.weight"``. None selects those
        with two or more axes: neither biases nor the scales of normalizations. A dict has a factor of the
        coefficient for each pattern, ``{"*.weight": 1.0, "0.weight": 4.0}``; the longest matching pattern
        applies, and what matches none does not decay.

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
        "weight_decay": DECAY,
        "parameters": [str, list, tuple, dict, None],
    }

    def __init__(
        self,
        optimizer: Optimizer,
        weight_decay: Rate = 1e-2,
        parameters: "str | Sequence[str] | Mapping[str, float] | None" = None,
    ) -> None:
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.parameters = parameters

    def validate(self) -> None:
        super().validate()
        if not all(isinstance(pattern, str) for pattern in self._patterns):
            raise InvalidParameterError(
                "The 'parameters' parameter of WeightDecay must be a str, a list of str, a dict of str to "
                f"float or None. Got {shown(self.parameters)} instead."
            )
        if isinstance(self.parameters, dict):
            check_factors(self.parameters, "parameters", "WeightDecay")

    @property
    def _patterns(self) -> tuple[str, ...]:
        given = self.parameters
        return (given,) if isinstance(given, str) else tuple(given or ())

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return (*super().schedules, *scheduled(self.weight_decay))

    def check_parameters(self, shapes: Shapes) -> None:
        check_patterns(self._patterns, shapes, "parameters", "WeightDecay")
        for path, shape in shapes.items():
            self._share(path, shape)
        super().check_parameters(shapes)

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        return {"decay": -self.learning_rate(progress) * rate_of(self.weight_decay, progress)}

    def marks(self, path: str, shape: tuple[int, ...]) -> dict[str, float]:
        return {"shrinks": self._share(path, shape), **super().marks(path, shape)}

    def _share(self, path: str, shape: tuple[int, ...]) -> float:
        """Return the factor of the coefficient for a parameter: 0 if it does not decay."""
        if isinstance(self.parameters, dict):
            return factor_of(path, self.parameters, 0.0, "parameters", "WeightDecay")
        return float(len(shape) >= 2 if self.parameters is None else matches(path, self._patterns))

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return delta + hyper["decay"] * (hyper["shrinks"] * param), own
