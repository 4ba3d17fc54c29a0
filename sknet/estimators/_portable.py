"""Frozen predictors without classes and functions of users: graphs of networks, and links of losses."""

import copy
import io
import pickle
import sys
from inspect import getattr_static
from types import FunctionType
from typing import Any

import numpy as np

from sknet.core import Tensor, no_grad
from sknet.exceptions import CaptureError, DeviceError, GraphError, StateError
from sknet.graphs import GraphModule, export
from sknet.losses import Loss
from sknet.losses.extend import FrozenLoss
from sknet.nn import Module

__all__ = ["pack", "portable_loss", "portable_module", "unpack"]

KNOWN = {"sknet", "numpy", "scipy", "sklearn"}
LINKS = ("predict", "log_predict", "predict_std", "predict_quantiles")
OF_PREDICTIONS = (
    *(*LINKS, "predict_interval", "deciding", "tempered", "threshold", "outputs_per_target", "tasks"),
    *("has_probabilities", "of_probabilities"),
)


class _Search(pickle.Pickler):
    """Finds classes and functions that exist where the user's code does, and nowhere else."""

    found = False

    def persistent_id(self, obj: Any) -> Any:
        return "array" if type(obj) is np.ndarray and obj.dtype != object else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType)):
            root = (obj.__module__ or "").partition(".")[0]
            self.found = self.found or not (root in KNOWN or root in sys.stdlib_module_names)
        return NotImplemented


def _needs_user_code(value: Any) -> bool:
    search = _Search(io.BytesIO())
    try:
        search.dump(value)
    except Exception:  # a lambda, or what else is found nowhere
        return True
    return search.found


def portable_module(module: Module, example: tuple[Any, ...] | dict[str, Any]) -> Module:
    """Return a module without classes of users: itself if it has none, else its graph.

    Parameters
    ----------
    module : Module
        Of a frozen predictor.
    example : tuple or dict of Tensor
        Arguments of its forward pass.

    Returns
    -------
    Module
        The module as it is, if a graph cannot hold what it computes.
    """
    if isinstance(module, GraphModule) or isinstance(example, dict) or not _needs_user_code(module):
        return module
    try:
        return export(module, *example)
    except (CaptureError, GraphError, StateError, DeviceError):
        return module


def portable_loss(loss: Any, raw: Any) -> Any:
    """Return a loss that predicts alike, without classes of users.

    Parameters
    ----------
    loss : Loss
        Of a frozen predictor.
    raw : callable
        Returns an output of the network, a Tensor of shape (1, n_outputs).

    Returns
    -------
    Loss
        The loss as it is, if it needs none, or if a graph cannot hold its links.
    """
    inner = vars(loss).get("loss")
    if isinstance(inner, Loss):
        made = portable_loss(inner, raw)
        if made is inner:
            return loss
        loss = copy.copy(loss)
        loss.loss = made
        return loss
    if not _needs_user_code(loss):
        return loss
    cls = type(loss)
    known: Any = next(base for base in cls.__mro__ if base.__module__.startswith("sknet."))
    if known is not Loss and _predicts_alike(cls, known):
        made = known.__new__(known)
        names = known._get_param_names()
        vars(made).update({name: value for name, value in vars(loss).items() if name in names})
        return made if vars(made).keys() == set(names) and not _needs_user_code(made) else loss
    return loss if known is not Loss else _frozen(loss, raw)


def _predicts_alike(cls: type, known: type) -> bool:
    return all(
        getattr_static(cls, name, None) is getattr_static(known, name, None) for name in OF_PREDICTIONS
    )


def _frozen(loss: Any, raw: Any) -> Any:
    try:
        with no_grad():
            output = Tensor(raw().data)
        heads = {name: export(getattr(loss, name), output) for name in LINKS if hasattr(loss, name)}
    except (CaptureError, GraphError, StateError, DeviceError):
        return loss
    return FrozenLoss(
        type(loss).__name__,
        list(loss.tasks),
        heads,
        n_outputs=loss.outputs_per_target,
        middle=loss.threshold,
        has_probabilities=loss.has_probabilities,
        of_probabilities=loss.of_probabilities,
    )


# -- pickles ---------------------------------------------------------------------------------------------


def _place(array: Any) -> Any:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


class _Sharing(pickle.Pickler):
    """Leaves out the arrays that the graph of a network has as well."""

    def __init__(self, file: Any, shared: dict[Any, str]) -> None:
        super().__init__(file, protocol=5)
        self._shared = shared

    def persistent_id(self, obj: Any) -> Any:
        return self._shared.get(_place(obj)) if type(obj) is np.ndarray else None


class _Shared(pickle.Unpickler):
    def __init__(self, file: Any, arrays: dict[str, Any]) -> None:
        super().__init__(file)
        self._arrays = arrays

    def persistent_load(self, pid: Any) -> Any:
        return self._arrays[pid]


def pack(module: Module, loss: Any, graph: Module) -> bytes | None:
    """Return a network and a loss of users' classes as bytes, but for the arrays that are in the graph.

    Parameters
    ----------
    module, loss : Module, Loss
        Of a frozen predictor.
    graph : Module
        What `portable_module` returned.

    Returns
    -------
    bytes or None
        None where there are no names for the classes.
    """
    paths = dict(graph.own_parameters()) if graph is not module else {}
    shared = {_place(p.data): path for path, p in module.own_parameters() if path in paths}
    file = io.BytesIO()
    try:
        _Sharing(file, shared).dump((module, loss))
    except Exception:
        return None
    return file.getvalue()


def unpack(packed: bytes | None, graph: Module, loss: Any) -> tuple[Module, Any]:
    """Return the network and the loss in `packed` where their classes are, else the graph and its loss.

    Parameters
    ----------
    packed : bytes or None
        What `pack` returned.
    graph, loss : Module, Loss
        What `portable_module` and `portable_loss` returned.

    Returns
    -------
    tuple of Module and Loss
        Of a frozen predictor.
    """
    if packed is None:
        return graph, loss
    arrays = {path: p.data for path, p in graph.own_parameters()}
    try:
        found: tuple[Module, Any] = _Shared(io.BytesIO(packed), arrays).load()
    except Exception:  # whatever is missing here
        return graph, loss
    return found
