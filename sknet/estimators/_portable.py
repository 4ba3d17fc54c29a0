"""Frozen predictors without classes and functions of users: graphs of networks, and links of losses."""

import copy
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from inspect import getattr_static
from types import FunctionType
from typing import Any

import numpy as np

from sknet._warnings import warn_caller
from sknet.core import Tensor, no_grad
from sknet.exceptions import CaptureError, DeviceError, GraphError, StateError
from sknet.graphs import GraphModule
from sknet.graphs._export import export_function, export_network
from sknet.losses import Loss
from sknet.losses._wrappers import Averaged, FrozenLoss, FunctionLoss, Heads
from sknet.nn import Module

KNOWN = {"sknet", "numpy", "scipy", "sklearn"}
LINKS = ("predict", "log_predict", "predict_std", "predict_quantiles")
KINDS = (bool, float, bool)  # of a loss's scaling
OTHERS = ("predict_interval", "deciding", "tempered")  # whose arguments are no arrays alone
OF_PREDICTIONS = (
    *(*LINKS, *OTHERS, "threshold", "outputs_per_target", "tasks"),
    *("scaling", "has_probabilities", "of_probabilities"),
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


def portable_module(
    module: Module,
    example: tuple[Any, ...] | dict[str, Any],
    parts: Callable[[], Mapping[str, Any]] | None = None,
) -> Module:
    """Return a module without classes of users: itself if it has none, else its graph."""
    if isinstance(module, GraphModule) or not _needs_user_code(module):
        return module
    name = type(module).__name__
    try:
        given = {} if parts is None else parts()
        made = {path: export_network(part, its).module for path, (part, its) in given.items()}
        found = export_network(module, example, made)
    except (CaptureError, GraphError, StateError, DeviceError) as error:
        warn_caller(
            f"this predictor can only be loaded where the classes and functions of its network {name} are "
            f"defined, since it cannot become a graph: {error}",
            UserWarning,
        )
        return module
    for (argument, axis), reason in found.fixed.items():
        if axis == 1 and len(example[argument].shape if isinstance(example, dict) else example[0].shape) < 4:
            warn_caller(
                f"where {name} is not defined, this predictor takes only sequences of the length of those of "
                f"the fit as its input {argument!r}: {reason}",
                UserWarning,
            )
    return found.module


def as_captured(module: GraphModule, X: Any) -> Any:
    """Return checked inputs as the graph of a network takes them."""
    arrays = X if isinstance(X, dict) else {module.input_names[0]: X}
    found = {}
    for given in module.symbolic.arguments:
        x = found[given.name] = arrays[given.name]
        for axis, (expected, length) in enumerate(zip(given.shape, x.shape, strict=True)):
            if isinstance(expected, int) and length != expected:
                raise ValueError(
                    f"input {given.name!r} must have the length {expected} along axis {axis}, as in the fit, "
                    f"got shape {x.shape}: this predictor holds the graph of a network whose class is not "
                    "here, and other lengths would be another graph"
                )
        if given.dtype.kind == "i" and x.dtype.kind in "ub":
            found[given.name] = x.astype(np.int64)
    return found if isinstance(X, dict) else next(iter(found.values()))


def portable_loss(loss: Any, raw: Any) -> Any:
    """Return a loss that predicts alike, without classes of users."""
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
    if isinstance(loss, Heads):
        return _of_heads(loss, raw)
    if isinstance(loss, Averaged):
        each = enumerate(loss.losses)
        return Averaged([portable_loss(own, lambda m=m: loss.parts(raw())[m]) for m, own in each])
    if isinstance(loss, FunctionLoss):
        return _frozen(loss, None, raw)
    cls = type(loss)
    known: Any = next(base for base in cls.__mro__ if base.__module__.startswith("sknet."))
    made = None if known is Loss else _of_class(known, loss)
    if made is not None and _differing(OF_PREDICTIONS, cls, known) == []:
        return made
    own = _differing(OTHERS, cls, known)
    if own or (made is None and known is not Loss):
        why = f"it has a {own[0]} of its own" if own else f"{known.__name__} cannot be made of its parameters"
        return _kept(loss, why)
    return _frozen(loss, made, raw)


def _of_heads(loss: Heads, raw: Any) -> Any:
    """Return losses of heads that predict alike, each for the outputs that it reads."""
    found = copy.copy(loss)
    found.heads = {
        name: portable_loss(each, lambda name=name: loss.parts(raw())[name])
        for name, each in loss.heads.items()
    }
    return found


def _kept(loss: Any, why: Any) -> Any:
    warn_caller(
        f"this predictor cannot be loaded where {type(loss).__name__} is not defined: the loss cannot become "
        f"graphs, since {why}",
        UserWarning,
    )
    return loss


def _of_class(known: Any, loss: Any) -> Any:
    """Return a loss of sknet's with those parameters that a derived one has; None if some are missing."""
    made, names = known.__new__(known), known._get_param_names()
    vars(made).update({name: value for name, value in vars(loss).items() if name in names})
    return made if vars(made).keys() == set(names) and not _needs_user_code(made) else None


def _differing(names: tuple[str, ...], cls: type, known: type) -> list[str]:
    """Return the names of what a class has not from one of its bases."""
    return [x for x in names if getattr_static(cls, x, None) is not getattr_static(known, x, None)]


def _frozen(loss: Any, base: Any, raw: Any) -> Any:
    try:
        with no_grad():
            output = Tensor(raw().data)
        heads = {name: export_function(getattr(loss, name), output) for name in LINKS if hasattr(loss, name)}
    except (CaptureError, GraphError, StateError, DeviceError) as error:
        return _kept(loss, error)
    scaling = loss.scaling
    return FrozenLoss(
        type(loss).__name__,
        list(loss.tasks),
        heads,
        n_outputs=loss.outputs_per_target,
        middle=loss.threshold,
        has_probabilities=loss.has_probabilities,
        of_probabilities=loss.of_probabilities,
        base=base,
        scales=None if scaling is None else [kind(x) for kind, x in zip(KINDS, scaling, strict=True)],
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
    """Return a network and a loss of users' classes as bytes, but for the arrays that are in the graph."""
    paths = dict(graph.own_parameters()) if graph is not module else {}
    shared = {_place(p.data): path for path, p in module.own_parameters() if path in paths}
    file = io.BytesIO()
    try:
        _Sharing(file, shared).dump((module, loss))
    except Exception:
        return None
    return file.getvalue()


def unpack(packed: bytes | None, graph: Module, loss: Any) -> tuple[Module, Any]:
    """Return the network and the loss in `packed` where their classes are, else the graph and its loss."""
    if packed is None:
        return graph, loss
    arrays = {path: p.data for path, p in graph.own_parameters()}
    try:
        found: tuple[Module, Any] = _Shared(io.BytesIO(packed), arrays).load()
    except Exception:  # whatever is missing here
        return graph, loss
    return found
