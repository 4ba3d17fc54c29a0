"""MLPClassifier and MLPRegressor: loss and optimizer are hyperparameters."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex

import numpy as np

from sknet._params import described_by, store_parameters
from sknet._validation import Interval
from sknet.callbacks import Callback
from sknet.device import to_host
from sknet.engine import Model
from sknet.estimators._architecture import (
    Activation,
    Members,
    Perceptron,
    check_activation,
    check_never_falls,
)
from sknet.estimators._base import BaseNet
from sknet.estimators._classifier import Decisions
from sknet.estimators._fit import Fitted, layer_sizes
from sknet.estimators._members import MEMBERS
from sknet.estimators._options import (
    CALIBRATE,
    CLASS_WEIGHT,
    CONFORMAL,
    CONSTRAINTS,
    ENCODER,
    SAMPLER,
    SCALE_TARGET,
    NamedOptions,
    WithEncoder,
)
from sknet.estimators._regressor import UncertainRegressor
from sknet.estimators._scaling import InputScaling
from sknet.losses import Loss
from sknet.nn import MonotonicLinear
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import Schedule

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder


class LayerArrays(list[Any]):
    """A list of arrays, one a layer, whose items can be replaced: the network has the new ones then."""

    def __init__(self, arrays: Iterable[Any], write: Callable[[list[Any]], None], name: str) -> None:
        super().__init__(arrays)
        self._write, self._name = write, name

    def __setitem__(self, index: "SupportsIndex | slice", value: Any) -> None:
        changed = list(self)
        changed[index] = value
        self._write(changed)
        super().__setitem__(index, value)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{self._name} has one array for each of {len(self)} layers, so none can be added, removed or "
            f"moved: assign to an item, {self._name}[0] = array, or to all of them, {self._name} = arrays"
        )

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return self.__reduce__()


def read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


class FirstLayer(NamedTuple):
    """The first linear layer of a network whose inputs are standardized."""

    scaling: InputScaling
    weight: str
    bias: str

    def of_inputs(self, arrays: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return weights and biases for inputs in their own units, in double precision."""
        weight = to_host(arrays[self.weight]).astype(np.float64) / self._scale
        return weight, to_host(arrays[self.bias]) - self.scaling.each("mean") @ weight

    def standardized(self, weight: Any, bias: Any) -> dict[str, Any]:
        """Return weights and biases for standardized inputs, by their paths."""
        return {self.weight: weight * self._scale, self.bias: bias + self.scaling.each("mean") @ weight}

    @property
    def _scale(self) -> Any:
        return self.scaling.each("scale")[:, np.newaxis]


def effective(arrays: Mapping[str, Any], module: Any) -> dict[str, Any]:
    """Return parameters by their paths, with the weights that multiply the inputs of monotonic layers."""
    found = dict(arrays)
    for path, layer in module.named_modules():
        if isinstance(layer, MonotonicLinear) and f"{path}.weight" in found:
            found[f"{path}.weight"] = read_only(layer.effective(to_host(found[f"{path}.weight"])))
    return found


def write_arrays(
    model: Model, paths: list[str], values: Iterable[Any], name: str, first: FirstLayer | None = None
) -> None:
    """Write new values to some parameters of a model: all of them, or after an error none."""
    if model.optimizer.averaging:
        raise ValueError(
            f"{name} are averages that {model.optimizer!r} makes of the trained parameters, and cannot be "
            "set: write to the parameters of model_.module"
        )
    arrays = [np.asarray(to_host(value)) for value in values]
    parameters = dict(model.module.named_parameters())
    if len(arrays) != len(paths):
        raise ValueError(f"{name} must have an array for each of {len(paths)} layers, got {len(arrays)}")
    for i, (path, array) in enumerate(zip(paths, arrays, strict=True)):
        if array.shape != parameters[path].shape or array.dtype.kind not in "biuf":
            raise ValueError(
                f"{name}[{i}] must be an array of real numbers of shape {parameters[path].shape}, got "
                f"{array.dtype} of shape {array.shape}"
            )
    changed = dict(zip(paths, arrays, strict=True))
    if first is not None:  # the other of weights and biases stays as it is for inputs in their own units
        before = effective({path: p.data for path, p in parameters.items()}, model.module)
        weight, bias = first.of_inputs(before)
        changed |= first.standardized(changed.get(first.weight, weight), changed.get(first.bias, bias))
    for path, array in effective(changed, model.module).items():
        if not np.array_equal(array, changed[path], equal_nan=True):
            raise ValueError(f"{name} of the layer of {path!r} have other signs than monotonic_cst demands")
    for path, array in changed.items():
        parameters[path].data = array


class PerceptronLayers(BaseNet):
    """Shows the linear layers of an estimator whose network is a `Perceptron`."""

    _architecture: Perceptron

    def _take(self, fitted: Fitted) -> None:
        super()._take(fitted)
        self.n_layers_ = len(self._architecture.linear_layers) + 1

    def _layer_shape(self, layer: int | str) -> tuple[int, ...]:
        """Return the shape of a layer's output; for the last hidden one that of the weights behind it."""
        if isinstance(self.model_.module, Members):
            return super()._layer_shape(layer)
        hidden, last = self._architecture.linear_layers[:-1], self._architecture.linear_layers[-1]
        if layer == -2 and hidden:
            return (int(self.model_.evaluation_parameters[f"{last}.weight"].shape[0]),)
        return super()._layer_shape(layer)

    def _output_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all layers, which follow from those of the weights."""
        if isinstance(self.model_.module, Members):
            return super()._output_shapes()
        parameters, shapes = self.model_.evaluation_parameters, {}
        linear = self._architecture.linear_layers
        for path, after in pairwise(linear):
            shapes[path] = (int(parameters[f"{path}.weight"].shape[1]),)
            width = (int(parameters[f"{after}.weight"].shape[0]),)
            shapes |= {str(place): width for place in range(int(path) + 1, int(after))}
        return {**shapes, linear[-1]: (int(parameters[f"{linear[-1]}.weight"].shape[1]),)}

    @property
    def coefs_(self) -> list[Any]:
        """Weight matrices of shape (n_in, n_out), one per layer; the list or an item of it can be set."""
        return self._of_linear_layers("weight", "coefs_")

    @coefs_.setter
    def coefs_(self, values: Iterable[Any]) -> None:
        self._of_linear_layers("weight", "coefs_")[:] = values

    @property
    def intercepts_(self) -> list[Any]:
        """Bias vectors of shape (n_out,), one per layer; the list or an item of it can be set."""
        return self._of_linear_layers("bias", "intercepts_")

    @intercepts_.setter
    def intercepts_(self, values: Iterable[Any]) -> None:
        self._of_linear_layers("bias", "intercepts_")[:] = values

    def _of_linear_layers(self, parameter: str, name: str) -> LayerArrays:
        if "model_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first")
        if isinstance(self.model_.module, Members):
            n_members = len(self.model_.module)
            raise AttributeError(
                f"the {n_members} members of this {type(self).__name__} have {name} of their own: see "
                "model_.module[0], model_.module[1], ..."
            )
        model = self.model_
        arrays = effective(model.evaluation_parameters, model.module)
        linear = self._architecture.linear_layers
        paths = [f"{path}.{parameter}" for path in linear]
        found = [to_host(arrays[path]) for path in paths]
        if model.optimizer.averaging:  # what is written into averages would be lost
            found = [read_only(array) for array in found]
        scaling = self._input_scaling
        if scaling is None:
            return LayerArrays(found, lambda values: write_arrays(model, paths, values, name), name)
        first = FirstLayer(scaling, f"{linear[0]}.weight", f"{linear[0]}.bias")
        found[0] = read_only(first.of_inputs(arrays)[parameter == "bias"])  # it is made anew each time

        def write(values: Iterable[Any]) -> None:
            write_arrays(model, paths, values, name, first)

        return LayerArrays(found, write, name)


PERCEPTRON: dict[str, Any] = {
    "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
    "activation": "no_validation",  # the names are better told by the function that looks them up
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "monotonic_cst": ["array-like", dict, None],
}


class NamedPerceptron(WithEncoder, NamedOptions, PerceptronLayers):
    """A perceptron whose loss and optimizer are hyperparameters."""

    hidden_layer_sizes: Any
    activation: Activation
    dropout: float
    monotonic_cst: Any

    def _described(self) -> Perceptron:
        # Only checked: a name is resolved where the network is built, and compared when a fit continues.
        check_activation(self.activation, type(self).__name__)
        if self.monotonic_cst is not None:
            check_never_falls(self.activation, type(self).__name__)
        return Perceptron(layer_sizes(self.hidden_layer_sizes), self.activation, self.dropout)


@described_by(NamedOptions)
class MLPClassifier(NamedPerceptron, Decisions):
    """Multi-layer perceptron for classification; loss and optimizer are hyperparameters.

    Attributes
    ----------
    encoder_ : TableEncoder
        The fitted encoder, with `encoder`.
    classes_ : ndarray of shape (n_classes,), or a list of those
        The sorted labels; for several columns of labels a list of them.
    temperature_ : float or ndarray of shape (n_columns,)
        With `calibrate`: divisor of the outputs, above 1 if they were overconfident.
    coefs_, intercepts_ : list of ndarray
        Weight matrices of shape (n_in, n_out) and bias vectors, one per layer. With `scale_inputs`, those of
        the first layer apply to X in its own units, while the parameters in `model_` apply to standardized
        inputs.
    histories_ : list of History
        Histories of the members, if there are several; `history_` and attributes derived from it have their
        means.
    n_layers_, n_outputs_, out_activation_ : int, int, str
        Number of layers, the input included; number of outputs; and the function that turns them into
        probabilities.

    See Also
    --------
    sknet.NetClassifier : Classification by any other network.
    sknet.TabularClassifier : Ensembles for raw tables, without tuning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.optim import Adam
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((32,), optimizer=Adam(lr=1e-2), batch_size=32, tol=1e-3, random_state=0)
    >>> clf.fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = CONSTRAINTS | SAMPLER | ENCODER | PERCEPTRON | CLASS_WEIGHT | CALIBRATE | MEMBERS

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: Activation = "relu",
        *,
        encoder: "str | TableEncoder | None" = None,
        dropout: float = 0.0,
        monotonic_cst: Any = None,
        loss: "str | Loss | Callable[..., Any]" = "log_loss",
        optimizer: str | BaseOptimizer = "adam",
        lr: "float | Schedule | None" = None,
        alpha: float | str = "auto",
        batch_size: int | str = "auto",
        max_iter: int = 200,
        shuffle: bool = True,
        scale_inputs: bool = True,
        sampler: Any = None,
        class_weight: Any = None,
        calibrate: str | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        validation_split: Any = None,
        scoring: Any = None,
        monitor: str | None = None,
        refit_on_all: bool = False,
        n_iter_no_change: float = 10,
        tol: float = 1e-4,
        frozen: "str | list[str] | None" = None,
        warm_start: bool = False,
        verbose: bool | int | str = False,
        callbacks: list[Callback] | None = None,
        n_members: int = 1,
        bootstrap: bool = False,
        device: str | None = "auto",
        dtype: Any = "auto",
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())


@described_by(NamedOptions)
class MLPRegressor(NamedPerceptron, UncertainRegressor):
    """Multi-layer perceptron for regression; loss and optimizer are hyperparameters.

    Parameters
    ----------
    loss : str, Loss or callable, default="squared_error"
        The loss to minimize: "squared_error", "absolute_error", "huber", "quantile", "poisson" or an object
        of `sknet.losses`, or a function ``(y_true, output)`` of tensors that returns one value per row.
    scoring : str, callable, list, dict or None, default=None
        Metrics of each epoch besides the loss: names of scikit-learn's scorers, or scorers ``(estimator, X,
        y)``; in a dict by the names of their columns in `history_`. None is R2; "loss" is no metric but the
        loss.
    monitor : str or None, default=None
        The metric that decides when to stop: "loss", or the name of a scorer. None is the only scorer in
        `scoring`; if none is given there, R2 for the squared error, and the loss for all other losses.
    n_members : int, default=1
        Networks of an ensemble, which are fitted together from seeds drawn by `random_state`, and whose
        predictions are averaged. An ensemble is frozen, saved and exported like one network.

    Attributes
    ----------
    encoder_ : TableEncoder
        The fitted encoder, with `encoder`.
    coefs_, intercepts_ : list of ndarray
        Weight matrices of shape (n_in, n_out) and bias vectors, one per layer. With `scale_inputs`, those of
        the first layer apply to X in its own units, while the parameters in `model_` apply to standardized
        inputs.
    histories_ : list of History
        Histories of the members, if there are several; `history_` and attributes derived from it have their
        means.
    n_layers_, n_outputs_, out_activation_ : int, int, str
        Number of layers, the input included; number of outputs; and the function that turns them into
        predictions.

    See Also
    --------
    sknet.NetRegressor : Regression by any other network.
    sknet.TabularRegressor : Ensembles for raw tables, without tuning.

    Notes
    -----
    The loss of several outputs is their sum; as in scikit-learn, it is reported as their mean
    (Poisson's as the sum).

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet import MLPRegressor
    >>> X, y = make_regression(200, 5, random_state=0)
    >>> MLPRegressor((32,), optimizer="lbfgs", tol=1e-2, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = CONSTRAINTS | SAMPLER | ENCODER | SCALE_TARGET | CONFORMAL | PERCEPTRON | MEMBERS

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: Activation = "relu",
        *,
        encoder: "str | TableEncoder | None" = None,
        dropout: float = 0.0,
        monotonic_cst: Any = None,
        loss: "str | Loss | Callable[..., Any]" = "squared_error",
        optimizer: str | BaseOptimizer = "adam",
        lr: "float | Schedule | None" = None,
        alpha: float | str = "auto",
        batch_size: int | str = "auto",
        max_iter: int = 200,
        shuffle: bool = True,
        scale_inputs: bool = True,
        sampler: Any = None,
        scale_target: bool | str = "auto",
        calibrate: str | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        validation_split: Any = None,
        scoring: Any = None,
        monitor: str | None = None,
        refit_on_all: bool = False,
        n_iter_no_change: float = 10,
        tol: float = 1e-4,
        frozen: "str | list[str] | None" = None,
        warm_start: bool = False,
        verbose: bool | int | str = False,
        callbacks: list[Callback] | None = None,
        n_members: int = 1,
        bootstrap: bool = False,
        device: str | None = "auto",
        dtype: Any = "auto",
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())
