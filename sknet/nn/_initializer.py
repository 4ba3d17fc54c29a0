"""The base of the initializers, and initial weights fitted to the first data."""

import math
from abc import ABC, abstractmethod
from functools import partial
from numbers import Integral, Real
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.random import RandomState

from sknet._params import Interval, ParameterObject, StrOptions
from sknet._random import check_random_state
from sknet.core import Tensor, no_grad
from sknet.device import to_device, to_host
from sknet.nn._module import Module, takes_data
from sknet.nn._parameter import Parameter, Scope, run
from sknet.ops import is_sparse

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Initializer(ParameterObject, ABC):
    """Base of the initializers: a scheme for the weights of a layer and their bias.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> class Alternating(nn.init.Initializer):
    ...     def draw(self, random_state, shape, fan_in, fan_out):
    ...         return (-1.0) ** np.arange(np.prod(shape)).reshape(shape)
    >>> nn.Linear(3, 1, init=Alternating()).initialize(0).weight.tolist()
    [[1.0], [-1.0], [1.0]]
    """

    @abstractmethod
    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        """Draw a layer's weights of this `shape` from `random_state`, in float64.

        Each output depends on `fan_in` inputs, and each input affects `fan_out` outputs.
        """

    def draw_bias(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        """Draw a layer's bias, after its weights: by default zeros of this `shape`.

        `random_state`, `fan_in` and `fan_out` are those of the weights.
        """
        return np.zeros(shape)


M = TypeVar("M", bound=Module)
CORNERS = 5  # sampled rows whose weighted mean is a zero of a unit, in "he+5"


class FromData(Initializer):
    r"""Weights and biases fitted to the first data that a layer sees; ``init="data"``.

    The weights are drawn standard normal; before the first training step, every column is divided by the
    standard deviation of its output. If the inputs have few distinct rows, some outputs hardly vary; `least`
    limits their scaling.

    Parameters
    ----------
    bias : {"he+5", "zeros"}, default="he+5"
        "he+5" sets each bias so that the output is zero at a random point among the data: minus a
        weighted mean of 5 sampled outputs, with weights drawn from Exp(1).
    n_rows : int, default=2000
        Maximum number of rows to use; of more rows, a random sample of this size.
    least : float, default=0.0
        Smallest divisor, relative to the root mean square deviation of outputs over draws of the weights.

    Notes
    -----
    A `Model`, and with it every estimator, shows the training rows to all such layers once, before
    the first step, layer by layer in the order of the forward pass, drawing from its `random_state`.
    Parameters that were trained, loaded, assigned or frozen since they were drawn are not changed. Without
    a model, `nn.init.from_data` does the same.

    The deviations follow D. Mishkin and J. Matas, "All You Need is a Good Init", ICLR 2016; the biases
    I. Steinwart, "A Sober Look at Neural Network Initializations", arXiv:1903.11482, 2019; both together
    D. Holzmüller, L. Grinsztajn and I. Steinwart, "Better by Default: Strong Pre-Tuned MLPs and Boosted
    Trees on Tabular Data", NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> X = np.random.default_rng(0).normal(5.0, 3.0, size=(500, 4))
    >>> layer = nn.init.from_data(nn.Linear(4, 2, init="data"), X, random_state=0)
    >>> layer(X).numpy().std(axis=0).round(3)
    array([1., 1.])
    """

    _parameter_constraints = {
        "bias": [StrOptions({"he+5", "zeros"})],
        "n_rows": [Interval(Integral, 1, None, closed="left")],
        "least": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, bias: str = "he+5", n_rows: int = 2000, least: float = 0.0) -> None:
        self.bias = bias
        self.n_rows = n_rows
        self.least = least

    def draw(self, random_state: RandomState, shape: Shape, fan_in: int, fan_out: int) -> Array:
        return random_state.normal(size=shape)

    def fitted(
        self, random_state: RandomState, weight: Array, outputs: Array, expected: float = 0.0
    ) -> tuple[Array, Array]:
        """Return weights and biases for outputs that were computed without biases.

        Columns of `weight`, of shape (..., n_outputs), are rescaled for `outputs` of the first data, of shape
        (n_rows, n_outputs), unless their deviation is not positive and finite. Divisors are at least `least`
        times the `expected` deviation. Draws come from `random_state`.
        """
        n_rows, n_outputs = outputs.shape
        bias = np.zeros(n_outputs)
        if not n_rows:
            return weight, bias
        with np.errstate(all="ignore"):
            spread = outputs.std(axis=0)
            scale = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
            if math.isfinite(expected):
                scale = np.maximum(scale, self.least * expected)
            if self.bias == "he+5":
                corners = random_state.randint(n_rows, size=(CORNERS, n_outputs))
                shares = random_state.exponential(size=(CORNERS, n_outputs))
                points = np.take_along_axis(outputs / scale, corners, axis=0)
                bias = -(shares * points).sum(axis=0) / shares.sum(axis=0)
        return weight / scale, np.where(np.isfinite(bias), bias, 0.0)


class DataDependentInit(Protocol):
    """A module that takes part in the initialization from data; custom modules can, too."""

    @property
    def awaits_data(self) -> bool:
        """True if its first weights are still to be fitted, as `Parameter.awaits_data` says."""

    def see_data(self, x: Any, random_state: RandomState) -> None:
        """Fit the first weights to the module's first input."""


def _waits(layer: Any) -> bool:
    return takes_data(layer) and bool(layer.awaits_data)


def see_data(module: Module, inputs: "tuple[Any, ...] | dict[str, Any]", random_state: RandomState) -> None:
    """Show data to the layers that wait for them: all layers are fitted, or after an error none."""
    if not waits_for_data(module):
        return
    copy = module.copy()
    for each in copy.modules():
        if _waits(each):
            each.register_forward_pre_hook(partial(_shown, random_state))
    with no_grad():
        run(copy, Scope({}, False), inputs)
    for mine, theirs in zip(module.modules(), copy.modules(), strict=True):
        if not _waits(mine):
            continue
        if not _waits(theirs):
            for name, parameter in mine._parameters.items():
                parameter.data = theirs._parameters[name].data
                parameter.note_data_seen()


def waits_for_data(module: Module) -> bool:
    """Tell whether a layer's first weights are still to be fitted to data."""
    return any(_waits(each) for each in module.modules())


def _shown(random_state: RandomState, module: Any, args: tuple[Any, ...]) -> None:
    if module.awaits_data:  # not in a second call of a layer that is used twice
        module.see_data(args[0], random_state)
        for parameter in module._parameters.values():
            parameter.note_data_seen()


def rows_to_see(module: Module, n_rows: int, random_state: RandomState) -> Array | None:
    """Return which rows are shown to a module: as many as any of its layers uses."""
    most = max(
        (getattr(each, "n_rows_seen", n_rows) for each in module.modules() if takes_data(each)),
        default=n_rows,
    )
    return None if n_rows <= most else np.sort(random_state.choice(n_rows, most, replace=False))


def from_data(module: M, *inputs: Any, random_state: "int | RandomState | None" = None, **named: Any) -> M:
    """Draw a module's weights, and fit those of its layers with ``init="data"`` to data.

    Parameters
    ----------
    module : Module
        The module, which is changed in place; a lazy one must be materialized before.
    *inputs : array or CSR matrix of shape (n_samples, ...)
        Arguments of the forward pass.
    random_state : int, RandomState or None, default=None
        Random state to draw from; None is NumPy's global state, as in scikit-learn.
    **named : array or CSR matrix of shape (n_samples, ...)
        Keyword arguments of the forward pass, if there are no `inputs`.

    Returns
    -------
    Module
        The same module. Parameters that have changed since they were drawn are not changed.

    Raises
    ------
    ShapeError
        If the inputs do not fit; then no layer is fitted.

    Notes
    -----
    A `Model` does this with the training rows, before its first step.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> X = np.random.default_rng(0).normal(5.0, 3.0, size=(500, 4))
    >>> net = nn.Sequential(nn.Linear(4, 8, init="data"), nn.ReLU(), nn.Linear(8, 2, init="data"))
    >>> nn.init.from_data(net, X, random_state=0)(X).numpy().std(axis=0).round(3)
    array([1., 1.])
    """
    source = check_random_state(random_state)
    module.initialize(source)
    if not waits_for_data(module):
        return module
    given: Any = named or inputs
    arrays = [_array(x) for x in (given.values() if isinstance(given, dict) else given)]
    chosen = rows_to_see(module, min((x.shape[0] for x in arrays), default=0), source)
    shown = arrays if chosen is None else [x[chosen] for x in arrays]
    see_data(module, dict(zip(named, shown, strict=True)) if named else tuple(shown), source)
    return module


def _array(x: Any) -> Any:
    return x if is_sparse(x) or isinstance(x, Tensor) else np.asarray(x)


def rows_of(x: Any, most: int, random_state: RandomState) -> Any:
    """Return an input's vectors along the last axis as rows on the host."""
    if is_sparse(x):
        found = x
    else:
        found = np.asarray(to_host(x.data if isinstance(x, Tensor) else x))
        found = found.reshape(-1, found.shape[-1])
    if found.shape[0] > most:
        found = found[np.sort(random_state.choice(found.shape[0], most, replace=False))]
    return found


AT_ONCE = 2**17  # elements that are converted together


def in_float64(rows: Any, weight: Array) -> Array:
    """Return the product of rows and weights in float64, of which there is no other copy of all rows."""
    if is_sparse(rows):
        return np.asarray(rows.astype(np.float64) @ weight)
    found = np.empty((len(rows), weight.shape[-1]))
    size = max(1, AT_ONCE // max(rows.shape[-1], 1))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        np.matmul(rows[part].astype(np.float64), weight, out=found[part])
    return found


def deviation_of(rows: Any) -> float:
    """Return the root of the sum of the variances of all columns."""
    n_rows = rows.shape[0]
    if not n_rows:
        return 0.0
    if is_sparse(rows):
        squares = np.square(rows.data, dtype=np.float64).sum() / n_rows
        return math.sqrt(max(float(squares - np.square(np.asarray(rows.mean(axis=0))).sum()), 0.0))
    mean, total = rows.mean(axis=0, dtype=np.float64), 0.0
    size = max(1, AT_ONCE // max(rows.shape[-1], 1))
    for start in range(0, len(rows), size):
        total += float(np.square(rows[start : start + size] - mean).sum())
    return math.sqrt(total / n_rows)


def write(parameter: Parameter, values: Array) -> None:
    """Set a parameter to values from the host, in its own dtype and on its own device."""
    parameter.data = to_device(values.astype(parameter.dtype), parameter.device)
