"""Custom networks: built by a factory when the data are known, or copied from a ready module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from sknet import nn
from sknet._constraints import shown
from sknet.engine import Model
from sknet.estimators._architecture import Architecture
from sknet.estimators._reading import Forward, forward_of
from sknet.exceptions import ShapeError

__all__ = ["Built", "Ready", "architecture_of"]


def architecture_of(module: Any, caller: str) -> Architecture:
    """Return what the parameter `module` of an estimator describes."""
    if isinstance(module, nn.Module):
        return Ready(module)
    if isinstance(module, nn.ModuleFactory):
        return Built(module.__sklearn_clone__())
    hint = next((text for fits, text in NO_NETWORKS if fits(module)), "")
    if callable(module) and not hint:
        return Built(nn.ModuleFactory(module))
    raise TypeError(
        f"The 'module' parameter of {caller} must be a class of modules, nn.ModuleFactory(MyNet, ...), or a "
        f"module that is built already. Got {shown(module)} instead.{hint}"
    )


def _is_torchs(module: Any) -> bool:
    kind = module if isinstance(module, type) else type(module)
    return any(base.__module__.startswith("torch.") for base in kind.__mro__)


def _is_kind(kind: type) -> Callable[[Any], bool]:
    return lambda module: isinstance(module, kind) or (isinstance(module, type) and issubclass(module, kind))


# What is given instead of a network: a test, and what to say.
NO_NETWORKS: list[tuple[Callable[[Any], bool], str]] = [
    (_is_torchs, " PyTorch modules are not sknet modules: sknet.nn has layers of the same names."),
    (_is_kind(Model), " A Model owns a network: give that, model.module, or its class."),
    (_is_kind(BaseEstimator), " An estimator is not a network; one that is fitted has one, model_.module."),
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


FROM_DATA: dict[str, Callable[[str, Any, int], Any]] = {
    "n_features": _n_features,
    "n_outputs": lambda name, inputs, n_outputs: n_outputs,
    "input_shape": _input_shape,
}
