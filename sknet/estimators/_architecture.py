"""Architectures: what the networks of estimators are built from."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from sknet import nn, ops
from sknet._constraints import invalid, shown
from sknet._fields import POSITIVE, SHARE, Each, Items, Named
from sknet._hints import suggestion
from sknet._params import resolve
from sknet.core import as_tensor
from sknet.engine import Model
from sknet.estimators._inputs import Forward, forward_of
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn.layers._activation import NEVER_FALLING

Activation = str | nn.Module | Callable[[Any], Any]


def check_activation(activation: Any, caller: str) -> None:
    """Raise an InvalidParameterError unless hidden layers can have this activation."""
    if not callable(activation) or isinstance(activation, (type, nn.Module)):
        resolve(activation, nn.ACTIVATIONS, nn.Module, parameter="activation", caller=caller)


def check_never_falls(activation: Any, caller: str) -> None:
    """Raise an InvalidParameterError unless a network of this activation can be monotonic."""
    if not (isinstance(activation, str) and activation in NEVER_FALLING):
        invalid(
            f"With monotonic_cst, the 'activation' parameter of {caller} must be the name of one that never "
            f"falls, among {list(NEVER_FALLING)}. Got {shown(activation)} instead."
        )


def activation_layer(activation: Activation) -> nn.Module:
    """Return an activation, given by its name, as a layer or as a function of tensors, as a layer."""
    if isinstance(activation, str):
        return nn.ACTIVATIONS[activation]()
    return activation if isinstance(activation, nn.Module) else nn.Lambda(activation)


class Architecture(ABC):
    """Builds the network of an estimator when the data are known."""

    is_foreign = True

    @property
    def is_trained(self) -> bool:
        """True if the network has been trained before, on inputs as they are."""
        return False

    @property
    def forward(self) -> "Mapping[str, bool] | None":
        """The arguments of the network's `forward`, as far as they are known: whether each is required."""
        return None

    @property
    def plan(self) -> "Mapping[str, float] | None":
        """The training of estimators that are left to choose it, if the network comes with one."""
        return None

    @abstractmethod
    def build(self, inputs: Any, n_outputs: int) -> nn.Module:
        """Return the network; weights that have no values yet are drawn by its owner."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the hyperparameters that decide the network, by name."""

    @abstractmethod
    def label(self, network: nn.Module) -> str:
        """Return what a network that was built is called, in a few words."""


@dataclass(frozen=True)
class Perceptron(Architecture):
    """A multi-layer perceptron: linear layers with an activation, and dropout after it, between them."""

    hidden_layer_sizes: tuple[int, ...]
    activation: Activation
    dropout: float = 0.0
    is_foreign = False
    _stored_fields = {"hidden_layer_sizes": Each(tuple, POSITIVE), "dropout": SHARE}

    def build(self, inputs: Any, n_outputs: int, directions: Any = None) -> nn.Sequential:
        """Return the layers for these inputs; outputs rise with inputs of direction 1 and fall with -1."""
        width, activation = int(inputs.shape[1]), self.activation
        kind: Any = nn.ACTIVATIONS[activation] if isinstance(activation, str) else None
        is_plain = type(self.dropout) in (int, float) and getattr(kind, "__module__", "").startswith("sknet.")
        if directions is not None or not is_plain:
            return self._layers(width, n_outputs, directions)
        # To copy a network takes a quarter of the time.
        return _undrawn_layers(self, kind, self.dropout, width, n_outputs).copy()

    def _layers(self, width: int, n_outputs: int, directions: Any = None) -> nn.Sequential:
        # scikit-learn's scheme (Glorot & Bengio, 2010), with a smaller bound for the logistic function.
        like = activation_layer(self.activation)
        init = nn.init.GlorotUniform(2.0 if isinstance(like, nn.ACTIVATIONS["logistic"]) else 6.0)
        layers: list[nn.Module] = []
        for size in self.hidden_layer_sizes:
            linear = linear_layer(width, size, directions, init=init)
            layers += [linear, after_linear(linear, like.copy())]
            if self.dropout:
                layers.append(nn.Dropout(self.dropout))
            width = size if isinstance(self.activation, str) else width_after(like, size)
            directions = linear.out_directions if isinstance(linear, nn.MonotonicLinear) else None
        return nn.Sequential(*layers, linear_layer(width, n_outputs, directions, is_last=True, init=init))

    def parameters(self) -> dict[str, Any]:
        return vars(self).copy()

    def label(self, network: nn.Module) -> str:
        known = dict(network.named_parameters())
        shapes = [known[f"{path}.weight"].shape for path in self.linear_layers]
        sizes = "-".join(str(size) for size in (shapes[0][0], *(shape[1] for shape in shapes)))
        layer = activation_layer(self.activation)
        name = self.activation if isinstance(self.activation, str) else repr(layer)
        name = f"{type(layer).__name__}(...)" if "\n" in name else name
        return f"{sizes}, {name}"

    @property
    def linear_layers(self) -> list[str]:
        """Paths of the linear layers, from the inputs to the outputs; activations may have some inside."""
        apart = 3 if self.dropout else 2
        return [str(number * apart) for number in range(len(self.hidden_layer_sizes) + 1)]


@lru_cache(maxsize=32, typed=True)
def _undrawn_layers(
    perceptron: Perceptron, kind: type, dropout: float, width: int, n_outputs: int
) -> nn.Sequential:
    """Return layers that nobody trains, for an activation of this class and a type of `dropout`."""
    return perceptron._layers(width, n_outputs)


def linear_layer(
    n_in: int, n_out: int, directions: Any = None, *, is_last: bool = False, **options: Any
) -> nn.Linear:
    """Return a layer for inputs of some directions, if they have any; outputs of the last layer rise."""
    if directions is None:
        return nn.Linear(n_in, n_out, **options)
    return nn.MonotonicLinear(directions, [1] * n_out if is_last else n_out, **options)


def after_linear(linear: nn.Linear, activation: nn.Module) -> nn.Module:
    """Return the activation of a hidden layer, with a bound for some units of one with directions."""
    if not isinstance(linear, nn.MonotonicLinear) or isinstance(activation, nn.Identity):
        return activation
    return nn.Sequential(activation, nn.Saturation(linear.out_directions))


def width_after(activation: nn.Module, width: int) -> int:
    """Return how many columns an activation makes of the outputs of a hidden layer."""
    n_rows = 2
    try:
        shape = nn.summary(activation, (n_rows, width)).rows[0].output_shape
    except DeviceError:  # it depends on values, and is assumed to keep the width
        return width
    except ShapeError as error:
        raise ShapeError(
            f"activation {activation!r} does not fit a hidden layer of {width} units: {error}"
        ) from None
    if not (isinstance(shape, tuple) and len(shape) == 2 and shape[0] == n_rows):
        raise ShapeError(
            f"activation {activation!r} must return an array of shape (n_samples, n_units), and returns "
            f"shape {shape} for inputs of shape {(n_rows, width)}"
        )
    return int(shape[1])


class Members(nn.Parallel):
    """The networks of an ensemble: their outputs are side by side."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = [as_tensor(member(*args, **kwargs)) for member in self._children.values()]
        return ops.concat(outputs, axis=-1)


class Joined(Architecture):
    """Architecture of the members of an ensemble."""

    _stored_fields = {"member": Named("Architecture"), "n_members": POSITIVE}

    def __init__(self, member: Architecture, n_members: int) -> None:
        self.member, self.n_members = member, n_members

    @property
    def linear_layers(self) -> list[str]:
        """Paths of the linear layers of a member that is a perceptron."""
        member: Any = self.member
        return member.linear_layers

    def build(self, inputs: Any, n_outputs: int) -> nn.Module:
        return Members(*[self.member.build(inputs, n_outputs) for _ in range(self.n_members)])

    def parameters(self) -> dict[str, Any]:
        return self.member.parameters()

    def label(self, network: nn.Module) -> str:
        first: Any = next(iter(network.children()))
        return f"{self.n_members} times {self.member.label(first)}"


class HeadOutputs(nn.Module):
    """A network with several heads, whose outputs become columns of one array."""

    # It returns them by name in a dict, in the order of the heads in a tuple, or as columns already.

    _stored_fields = {"network": Named("Module"), "widths": Items(str, POSITIVE)}

    def __init__(self, network: nn.Module, widths: Mapping[str, int]) -> None:
        self.network = network
        self.widths = dict(widths)

    @property
    def forwards_to(self) -> nn.Module:
        """The network, whose inputs these are."""
        return self.network

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs of all heads side by side."""
        returned, widths = self.network(*args, **kwargs), self.widths
        name = type(self.network).__name__
        if isinstance(returned, Mapping):
            missing = [head for head in widths if head not in returned]
            if missing:
                raise ShapeError(
                    f"{name} returns a dict of {list(returned)}, and the losses need the head(s) {missing}: "
                    "let forward return them, or name the losses as it names its outputs"
                )
            found = {head: returned[head] for head in widths}
        elif isinstance(returned, (list, tuple)):
            if len(returned) != len(widths):
                raise ShapeError(
                    f"{name} returns {len(returned)} outputs, and there are losses for the heads "
                    f"{list(widths)}: they must be as many, in this order, or a dict by their names"
                )
            found = dict(zip(widths, returned, strict=True))
        else:
            return self._columns(returned, name)
        return ops.concat([self._of_head(found[head], head, name) for head in widths], axis=-1)

    def _columns(self, returned: Any, name: str) -> Any:
        x, total = as_tensor(returned), sum(self.widths.values())
        x = ops.reshape(x, (-1, 1)) if x.ndim == 1 else x
        if x.ndim != 2 or x.shape[1] != total:
            raise ShapeError(
                f"{name} returns one array of shape {x.shape}, and the heads need a dict by their names, or "
                f"{total} columns: {self._needs()}"
            )
        return x

    def _of_head(self, output: Any, head: str, name: str) -> Any:
        x, width = as_tensor(output), self.widths[head]
        x = ops.reshape(x, (-1, 1)) if x.ndim == 1 else x
        if x.ndim != 2 or x.shape[1] != width:
            raise ShapeError(
                f"{name} returns an array of shape {x.shape} for the head {head!r}, and its targets and loss "
                f"need (n_samples, {width}): {self._needs()}. A constructor that takes n_outputs is given "
                "these numbers as a dict"
            )
        return x

    def _needs(self) -> str:
        return ", ".join(f"{width} for {head!r}" for head, width in self.widths.items())


class WithHeads(Architecture):
    _stored_fields = {"network": Named("Architecture")}

    def __init__(self, network: Architecture) -> None:
        self.network = network

    is_trained = property(attrgetter("network.is_trained"))
    forward = property(attrgetter("network.forward"))

    def build(self, inputs: Any, n_outputs: Any) -> nn.Module:
        widths: dict[str, int] = n_outputs
        factory = getattr(self.network, "factory", None)
        # Networks of sknet's own have one array of outputs.
        home = getattr(getattr(factory, "factory", None), "__module__", "")
        counts: Any = sum(widths.values()) if home.startswith("sknet.nn.") else widths
        return HeadOutputs(self.network.build(inputs, counts), widths)

    def parameters(self) -> dict[str, Any]:
        return self.network.parameters()

    def label(self, network: nn.Module) -> str:
        return self.network.label(network.get_submodule("network"))


def architecture_of(module: Any, caller: str) -> Architecture:
    """Return what the parameter `module` of an estimator describes."""
    if isinstance(module, nn.Module):
        return Ready(module)
    if isinstance(module, nn.ModuleFactory):
        return Built(module.__sklearn_clone__())
    if isinstance(module, str):
        return Built(named_network(module, caller))
    hint = next((text for fits, text in NO_NETWORKS if fits(module)), "")
    if callable(module) and not hint:
        return Built(nn.ModuleFactory(module))
    raise TypeError(
        f"The 'module' parameter of {caller} must be a class of modules, nn.ModuleFactory(MyNet, ...), or a "
        f"module that is built already. Got {shown(module)} instead.{hint}"
    )


def named_network(name: str, caller: str) -> nn.ModuleFactory:
    if name not in nn.NETWORKS:
        invalid(
            f"The 'module' parameter of {caller} must be a class of modules, a module, or a str among "
            f"{sorted(nn.NETWORKS)}. Got {shown(name)} instead{suggestion(name, nn.NETWORKS)}"
        )
    return nn.NETWORKS[name].__sklearn_clone__()


def _is_torchs(module: Any) -> bool:
    kind = module if isinstance(module, type) else type(module)
    return any(base.__module__.startswith("torch.") for base in kind.__mro__)


def _is_kind(kind: type) -> Callable[[Any], bool]:
    return lambda module: isinstance(module, kind) or (isinstance(module, type) and issubclass(module, kind))


def _is_estimator(module: Any) -> bool:
    from sklearn.base import BaseEstimator  # predictors load this module without scikit-learn

    return _is_kind(BaseEstimator)(module)


# What is given instead of a network: a test, and what to say.
NO_NETWORKS: list[tuple[Callable[[Any], bool], str]] = [
    (_is_torchs, " PyTorch modules are not sknet modules: sknet.nn has layers of the same names."),
    (_is_kind(Model), " A Model owns a network: give that, model.module, or its class."),
    (_is_estimator, " An estimator is not a network; one that is fitted has one, model_.module."),
    (
        lambda module: isinstance(module, (int, tuple, list)),
        " Sizes of layers are for MLPClassifier and MLPRegressor; layers are joined by nn.Sequential(...).",
    ),
]


@dataclass(frozen=True)
class Ready(Architecture):
    """A module that is there already: every fit begins with a copy, weights included."""

    module: nn.Module

    @property
    def is_trained(self) -> bool:
        if nn.is_lazy(self.module):
            return False
        parameters = [parameter for _, parameter in self.module.own_parameters()]
        return bool(parameters) and all(parameter.is_drawn for parameter in parameters)

    @property
    def forward(self) -> Forward | None:
        return forward_of(self.module)

    def build(self, inputs: Any, n_outputs: int) -> nn.Module:
        return self.module.copy()

    def parameters(self) -> dict[str, Any]:
        return {"module": self.module}

    def label(self, network: nn.Module) -> str:
        return type(network).__name__


@dataclass(frozen=True)
class Built(Architecture):
    """A factory of modules, given what it asks for of the data."""

    factory: nn.ModuleFactory

    @property
    def forward(self) -> Forward | None:
        return forward_of(self.factory.factory) if isinstance(self.factory.factory, type) else None

    @property
    def plan(self) -> "Mapping[str, float] | None":
        return getattr(self.factory.factory, "_plan", None)

    def build(self, inputs: Any, n_outputs: int) -> nn.Module:
        known = {
            name: find(self.factory.name, inputs, n_outputs)
            for name, find in FROM_DATA.items()
            if self.factory.needs(name)
        }
        return self.factory.build(**known)

    def parameters(self) -> dict[str, Any]:
        arguments = self.factory.get_params(deep=False)
        return {"module": self.factory.factory, **{f"module__{name}": x for name, x in arguments.items()}}

    def label(self, network: nn.Module) -> str:
        return type(network).__name__


def _n_features(name: str, inputs: Any, n_outputs: int) -> int:
    shape = None if isinstance(inputs, dict) else inputs.shape
    if shape is None or len(shape) != 2:
        got = f"inputs by the names {list(inputs)}" if shape is None else f"X of shape {tuple(shape)}"
        raise ShapeError(
            f"{name} takes n_features, the number of columns of a table, and got {got}: let it take "
            "input_shape, or use lazy layers"
        )
    return int(shape[1])


def _input_shape(name: str, inputs: Any, n_outputs: int) -> Any:
    if isinstance(inputs, dict):
        return {key: tuple(array.shape[1:]) for key, array in inputs.items()}
    return tuple(inputs.shape[1:])


def _n_ids(name: str, inputs: Any, n_outputs: int) -> int | None:
    """Return one more than the largest id of sequences; None for sequences of numbers."""
    x = next(iter(inputs.values())) if isinstance(inputs, dict) else inputs
    if x.dtype.kind not in "iu" or len(x.shape) != 2:
        return None
    if int(x.min()) < 0:
        raise ValueError(f"{name}: ids must not be negative, got {int(x.min())}; numbers are X.astype(float)")
    return int(x.max()) + 1


FROM_DATA: dict[str, Callable[[str, Any, int], Any]] = {
    "n_features": _n_features,
    "n_outputs": lambda name, inputs, n_outputs: n_outputs,
    "input_shape": _input_shape,
    "n_ids": _n_ids,
}
