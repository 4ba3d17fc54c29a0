"""Initializers: schemes that draw the weights of a layer, and versions of the default schemes.

They are parameter objects, so a grid search can set their parameters. All draw on the host in float64,
from a `RandomState`, so that a seed gives the same weights on every device.

A new default scheme would change the results of old scripts. So the defaults have versions: layers use the
newest, `version` selects an older one, and a module stores the version it used (`Module.init_versions`).
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real

import numpy as np
from numpy.random import RandomState

from sknet._constraints import shown
from sknet._params import Interval, resolve
from sknet.exceptions import InvalidParameterError, ShapeError
from sknet.nn._initializer import Array, FromData, Initializer, Shape, from_data
from sknet.nn._module import takes_data

__all__ = [
    "INITIALIZERS", "SCHEMES", "VERSION", "Constant", "FromData", "GlorotNormal", "GlorotUniform", "HeNormal",
    "HeUniform", "Initializer", "LeCunNormal", "Normal", "Ones", "Orthogonal", "Uniform", "Zeros",
    "active_version", "from_data", "scheme", "version",
]  # fmt: skip

__dir__ = __all__.copy


NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
POSITIVE = [Interval(Real, 0, None, closed="neither")]
ANY_NUMBER = [Interval(Real, None, None, closed="neither")]


class Constant(Initializer):
    """All weights the same, bias zero.

    Parameters
    ----------
    value : float, default=0.0
        The value.

    Examples
    --------
    >>> Constant(0.5).draw(None, (2,), fan_in=1, fan_out=1)
    array([0.5, 0.5])
    """

    _parameter_constraints = {"value": ANY_NUMBER}

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return np.full(shape, float(self.value))


class Zeros(Initializer):
    """All weights and the bias zero.

    Examples
    --------
    >>> Zeros().draw(None, (2,), fan_in=1, fan_out=1)
    array([0., 0.])
    """

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return np.zeros(shape)


class Ones(Initializer):
    """All weights one, bias zero.

    Examples
    --------
    >>> Ones().draw(None, (2,), fan_in=1, fan_out=1)
    array([1., 1.])
    """

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return np.ones(shape)


class Uniform(Initializer):
    """Weights uniform in [low, high), bias zero.

    Parameters
    ----------
    low : float, default=-0.05
        Lower bound.
    high : float, default=0.05
        Upper bound.

    Examples
    --------
    >>> import numpy as np
    >>> Uniform(2.0, 3.0).draw(np.random.RandomState(0), (2,), fan_in=1, fan_out=1)
    array([2.5488135 , 2.71518937])
    """

    _parameter_constraints = {"low": ANY_NUMBER, "high": ANY_NUMBER}

    def __init__(self, low: float = -0.05, high: float = 0.05) -> None:
        self.low = low
        self.high = high

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return random_state.uniform(self.low, self.high, shape)


class Normal(Initializer):
    """Weights from a normal distribution, bias zero.

    Parameters
    ----------
    std : float, default=0.05
        Standard deviation.
    mean : float, default=0.0
        Mean.

    Examples
    --------
    >>> import numpy as np
    >>> Normal().draw(np.random.RandomState(0), (2,), fan_in=1, fan_out=1)
    array([0.08820262, 0.02000786])
    """

    _parameter_constraints = {"std": NOT_NEGATIVE, "mean": ANY_NUMBER}

    def __init__(self, std: float = 0.05, mean: float = 0.0) -> None:
        self.std = std
        self.mean = mean

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return random_state.normal(self.mean, self.std, shape)


class GlorotUniform(Initializer):
    r"""Weights and bias uniform, scaled by both fans: scikit-learn's scheme.

    Parameters
    ----------
    factor : float, default=6.0
        Numerator under the root; scikit-learn uses 2 for the logistic activation, and 6 for all others.

    Notes
    -----
    Uniform in :math:`\pm\sqrt{\text{factor} / (\text{fan}_{in} + \text{fan}_{out})}` [1]_. In the paper the
    bias starts at zero; scikit-learn and this class draw it from the same distribution as the weights.

    References
    ----------
    .. [1] X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural
       networks", AISTATS 2010, equation 16.

    Examples
    --------
    >>> import numpy as np
    >>> GlorotUniform().draw(np.random.RandomState(0), (2,), fan_in=4, fan_out=2)
    array([0.09762701, 0.43037873])
    """

    _parameter_constraints = {"factor": POSITIVE}

    def __init__(self, factor: float = 6.0) -> None:
        self.factor = factor

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        bound = math.sqrt(self.factor / max(fan_in + fan_out, 1))
        return random_state.uniform(-bound, bound, shape)

    def draw_bias(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return self.draw(random_state, shape, fan_in, fan_out)


class GlorotNormal(Initializer):
    r"""Weights normal, scaled by both fans; bias zero.

    Parameters
    ----------
    factor : float, default=2.0
        Numerator under the root.

    Notes
    -----
    Standard deviation :math:`\sqrt{\text{factor} / (\text{fan}_{in} + \text{fan}_{out})}`, from
    X. Glorot, Y. Bengio, AISTATS 2010, equation 12.

    Examples
    --------
    >>> import numpy as np
    >>> GlorotNormal().draw(np.random.RandomState(0), (2,), fan_in=1, fan_out=1)
    array([1.76405235, 0.40015721])
    """

    _parameter_constraints = {"factor": POSITIVE}

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return random_state.normal(0.0, math.sqrt(self.factor / max(fan_in + fan_out, 1)), shape)


class HeUniform(Initializer):
    r"""Weights uniform, scaled by the inputs, for rectifiers; bias zero.

    Parameters
    ----------
    factor : float, default=6.0
        Numerator under the root; 6 / (1 + a^2) for a leaky rectifier of negative slope a.

    Notes
    -----
    Uniform in :math:`\pm\sqrt{\text{factor} / \text{fan}_{in}}`: the variance of `HeNormal`.

    Examples
    --------
    >>> import numpy as np
    >>> HeUniform().draw(np.random.RandomState(0), (2,), fan_in=6, fan_out=1)
    array([0.09762701, 0.43037873])
    """

    _parameter_constraints = {"factor": POSITIVE}

    def __init__(self, factor: float = 6.0) -> None:
        self.factor = factor

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        bound = math.sqrt(self.factor / max(fan_in, 1))
        return random_state.uniform(-bound, bound, shape)


class HeNormal(Initializer):
    r"""Weights normal, scaled by the inputs, for rectifiers; bias zero.

    Parameters
    ----------
    factor : float, default=2.0
        Numerator under the root; 2 / (1 + a^2) for a leaky rectifier of negative slope a.

    Notes
    -----
    Standard deviation :math:`\sqrt{\text{factor} / \text{fan}_{in}}`, from K. He et al., "Delving
    deep into rectifiers", ICCV 2015, equation 10.

    Examples
    --------
    >>> import numpy as np
    >>> HeNormal().draw(np.random.RandomState(0), (2,), fan_in=2, fan_out=1)
    array([1.76405235, 0.40015721])
    """

    _parameter_constraints = {"factor": POSITIVE}

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return random_state.normal(0.0, math.sqrt(self.factor / max(fan_in, 1)), shape)


class LeCunNormal(Initializer):
    r"""Weights normal with variance :math:`1 / \text{fan}_{in}`, for SELU; bias zero.

    Notes
    -----
    Y. LeCun et al., "Efficient BackProp", 1998, section 4.6; G. Klambauer et al., "Self-normalizing
    neural networks", NeurIPS 2017, recommends it.

    Examples
    --------
    >>> import numpy as np
    >>> LeCunNormal().draw(np.random.RandomState(0), (2,), fan_in=1, fan_out=1)
    array([1.76405235, 0.40015721])
    """

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return random_state.normal(0.0, math.sqrt(1.0 / max(fan_in, 1)), shape)


class Orthogonal(Initializer):
    """Weights with orthonormal rows or columns, whichever are fewer; bias zero.

    Parameters
    ----------
    gain : float, default=1.0
        Length of the rows or columns.

    Notes
    -----
    The Q of the QR decomposition of a normal matrix, with the signs that make it uniform among
    orthogonal matrices (F. Mezzadri, "How to generate random matrices from the classical compact
    groups", 2007). Axes before the last count as one. From A. Saxe et al., ICLR 2014.

    Examples
    --------
    >>> import numpy as np
    >>> w = Orthogonal().draw(np.random.RandomState(0), (3, 2), fan_in=3, fan_out=2)
    >>> np.allclose(w.T @ w, np.eye(2))
    True
    """

    _parameter_constraints = {"gain": POSITIVE}

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        if len(shape) < 2:
            raise ShapeError(f"Orthogonal draws matrices: expected a shape with at least 2 axes, got {shape}")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        normal = random_state.normal(size=(max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(normal)
        q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
        matrix: Array = self.gain * (q if rows >= columns else q.T)
        return matrix.reshape(shape)


INITIALIZERS: dict[str, type[Initializer]] = {
    "constant": Constant,
    "data": FromData,
    "glorot_normal": GlorotNormal,
    "glorot_uniform": GlorotUniform,
    "he_normal": HeNormal,
    "he_uniform": HeUniform,
    "lecun_normal": LeCunNormal,
    "normal": Normal,
    "ones": Ones,
    "orthogonal": Orthogonal,
    "uniform": Uniform,
    "zeros": Zeros,
}


# -- versions ---------------------------------------------------------------------------------

VERSION = 2

# kind of layer -> version -> scheme. A kind that a version leaves alone keeps the one before. An entry
# is never changed once it has been released: its draws must stay reproducible.
SCHEMES: dict[str, dict[int, Initializer]] = {
    "attention": {1: LeCunNormal()},  # of a square projection, what Glorot's is
    "conv": {1: HeNormal()},
    "embedding": {1: Normal(1.0)},
    "linear": {1: GlorotUniform(), 2: HeNormal()},
    "linear ntp": {1: Normal(1.0)},  # of a layer that divides by the root of fan_in
    "recurrent input": {1: GlorotUniform()},
    "scale": {1: Ones()},
    "recurrent state": {1: Orthogonal()},  # of one gate: states keep their length (A. Saxe et al., ICLR 2014)
}

_active: ContextVar[int] = ContextVar("sknet.nn.init.version", default=VERSION)


@contextmanager
def version(number: int) -> Iterator[None]:
    """Context manager in which new layers use the default schemes of an older version.

    Parameters
    ----------
    number : int
        1 is scikit-learn's scheme everywhere: `GlorotUniform` for weights and biases. 2, the
        newest, is `HeNormal` (K. He et al., ICCV 2015) with zero biases.

    Yields
    ------
    None
        For a ``with`` block, in the thread that enters it.

    Raises
    ------
    ValueError
        If there is no such version.

    Notes
    -----
    A layer's argument `init=` takes precedence. `MLPClassifier` and `MLPRegressor` use it: they draw weights
    like scikit-learn in every version.

    Examples
    --------
    >>> from sknet import nn
    >>> with nn.init.version(1):
    ...     old = nn.Linear(2, 3)
    >>> nn.Sequential(old, nn.ReLU(), nn.Linear(3, 1)).init_versions()
    {'0': 1, '2': 2}
    """
    if number not in range(1, VERSION + 1):
        raise ValueError(
            f"there is no version {number!r} of the initial weights: expected an int from 1 to {VERSION}, "
            "the newest of this release"
        )
    token = _active.set(number)
    try:
        yield
    finally:
        _active.reset(token)


def active_version() -> int:
    """Return the version of the default schemes that new layers use.

    Returns
    -------
    int
        `VERSION`, unless `version` has selected another one.

    Examples
    --------
    >>> with version(1):
    ...     active_version()
    1
    """
    return _active.get()


def scheme(
    init: "Initializer | str | None", layer: object, kind: str, parameter: str = "init"
) -> Initializer:
    """Return the scheme for the initial weights of a layer, and store its version in the layer.

    Parameters
    ----------
    init : Initializer, str or None
        The layer's own argument; None is the active version's scheme.
    layer : Module
        The layer.
    kind : str
        Key of the layer in `SCHEMES`.
    parameter : str, default="init"
        Name of the layer's argument.

    Returns
    -------
    Initializer
        The scheme, validated.

    Raises
    ------
    InvalidParameterError
        If `init` is neither an initializer nor the name of one, is `FromData` for a layer that does not
        support it, or if `SCHEMES` has no such key.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.init.scheme(None, nn.Linear(2, 3), "linear")
    HeNormal()
    """
    if not isinstance(kind, str) or kind not in SCHEMES:
        raise InvalidParameterError(f"scheme: kind must be one of {list(SCHEMES)}, got {shown(kind)}")
    if init is not None:
        caller = type(layer).__name__
        found: Initializer = resolve(init, INITIALIZERS, Initializer, parameter=parameter, caller=caller)
        if isinstance(found, FromData) and not takes_data(layer):
            raise InvalidParameterError(
                f"The {parameter!r} parameter of {caller} must be a scheme that draws without data. "
                f"Got {shown(init)} instead, which is for layers that can be shown data, such as Linear."
            )
        return found
    wanted = active_version()
    vars(layer)["_init_version"] = wanted
    return _of_version(SCHEMES[kind], wanted)


def _of_version(schemes: Mapping[int, Initializer], wanted: int) -> Initializer:
    return schemes[max((number for number in schemes if number <= wanted), default=min(schemes))]
