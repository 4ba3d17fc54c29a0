"""How each kind of object is described, and restored from a description: one record per kind.

A description is a dict or list of values. An object is restored by its constructor if that checks its
arguments, and otherwise attribute by attribute; a file never names anything that is called.
"""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sknet._params import ParameterObject
from sknet.compile import Graph
from sknet.core import Tensor
from sknet.device import MetaArray
from sknet.engine import History, Model
from sknet.engine.extend import parts_of, restored_model
from sknet.estimators import FrozenClassifier, FrozenRegressor, FrozenTransformer
from sknet.files import _graphs
from sknet.graphs import GraphModule
from sknet.nn import Module, ModuleFactory, Parameter, StateDict, is_lazy

__all__ = ["Kind", "is_stored", "kind_of"]


class Kind(NamedTuple):
    """How objects of some classes are described and restored.

    Attributes
    ----------
    bases : tuple of type
        The classes; subclasses are included.
    describe : callable
        ``describe(object)`` returns the description.
    restore : callable
        ``restore(cls, description)`` returns the object; an exception means that the description is invalid.
    """

    bases: tuple[type, ...]
    describe: Callable[[Any], Any]
    restore: Callable[[type, Any], Any]


COMPUTED = (property, functools.cached_property, types.FunctionType, classmethod, staticmethod)

# -- attributes -------------------------------------------------------------------------------------


def _attributes(x: Any) -> dict[str, Any]:
    """Return the attributes of an object, without cached properties."""
    state = x.__getstate__()
    if not isinstance(state, dict):
        raise TypeError(f"objects of class {type(x).__name__} have no attributes that can be stored by name")
    return {name: value for name, value in state.items() if not _is_cached(type(x), name)}


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name, None), functools.cached_property)


def _with_attributes(cls: Any, state: Mapping[str, Any]) -> Any:
    """Return an object with these attributes, none of which may shadow what the class defines."""
    made = cls.__new__(cls)
    checked = _checked(cls, state)
    if hasattr(made, "__setstate__"):
        made.__setstate__(checked)
    else:
        vars(made).update(checked)
    return made


def _checked(cls: type, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes after checking that none shadows a method or a property of the class."""
    for name in state:
        of_class = inspect.getattr_static(cls, name, None)
        # Registered attributes of modules, such as a bias, have descriptors too, and may be None.
        hides = isinstance(of_class, COMPUTED) if issubclass(cls, Module) else hasattr(of_class, "__get__")
        if name.startswith("__") or hides:
            raise ValueError(f"{cls.__name__}.{name} is not an attribute that can be set")
    return dict(state)


# -- parameters, tensors and modules ----------------------------------------------------------------


def _of_parameter(x: Parameter) -> dict[str, Any]:
    state = x.__getstate__()
    found = {"requires_grad": state["requires_grad"], "awaits_data": "as_drawn" in state and _is_first(x)}
    if state["data"] is not None:
        return {"data": state["data"], **found}
    _, (shape, dtype, _, draw) = state["undrawn"].__reduce__()
    return {"shape": shape, "dtype": str(dtype), "draw": draw, **found}


def _is_first(x: Parameter) -> bool:
    """Tell whether values are still to be initialized from data, when training begins."""
    trained = x.copy()
    trained.requires_grad = True
    return trained.awaits_data


def _parameter(cls: type, state: dict[str, Any]) -> Any:
    is_trained, awaits_data = state.pop("requires_grad"), state.pop("awaits_data")
    state.pop("device", None)  # of earlier files; like values, those to be drawn are loaded on the host
    made = cls(**state)
    if awaits_data is True:
        made.await_data()
    made.requires_grad = is_trained is True
    return made


def _of_tensor(x: Tensor) -> dict[str, Any]:
    return {"data": x.numpy(), "requires_grad": x.requires_grad}


def _tensor(cls: type, state: dict[str, Any]) -> Any:
    return cls(state["data"], requires_grad=state["requires_grad"] is True)


MODULE_PARTS = ("_parameters", "_buffers", "_transient", "_children")


def _of_module(x: Module) -> dict[str, Any]:
    state = Module.__getstate__(x)
    parameters, buffers, transient, children = (state.pop(name) for name in MODULE_PARTS)
    settings = {name: value for name, value in state.items() if name not in children}
    return {
        **{"parameters": parameters, "buffers": buffers, "transient": sorted(transient)},
        **{"children": children, "settings": _checked(type(x), settings)},
    }


def _module(cls: Any, state: dict[str, Any]) -> Any:
    made: Any = cls.__new__(cls)
    for name, parameter in state["parameters"].items():
        made.register_parameter(name, parameter)
    for name, buffer in state["buffers"].items():
        made.register_buffer(name, buffer, persistent=name not in state["transient"])
    for name, child in state["children"].items():
        made.register_module(name, child)
    settings, taken = _checked(cls, state["settings"]), {*vars(made), *state["parameters"], *state["buffers"]}
    wrong = [name for name in settings if name in taken or name == "_hooks"]
    if wrong:
        raise ValueError(f"{cls.__name__}.{wrong[0]} is not a setting")
    vars(made).update(settings)
    return made


def _check_drawn(module: Module) -> None:
    """Raise a ValueError unless all parameters have values, since loading draws none."""
    if not is_lazy(module):
        for name, parameter in module.own_parameters():
            if not parameter.is_drawn:
                raise ValueError(f"parameter {name!r} has no values")


def _of_factory(x: ModuleFactory) -> dict[str, Any]:
    return {"factory": x.factory, "arguments": _attributes(x)["_arguments"]}


def _factory(cls: type, state: dict[str, Any]) -> Any:
    return cls(state["factory"], **state["arguments"])


# -- parameter objects and estimators ---------------------------------------------------------------


def _of_parameters(x: Any) -> dict[str, Any]:
    params = x.get_params(deep=False)
    if isinstance(x, ParameterObject):
        x.validate()
    state = {name: value for name, value in _attributes(x).items() if name not in params}
    return {"params": params, "state": _checked(type(x), state)}


# Parameters that objects in earlier files do not have yet, and their values there.
ADDED = {
    **{"encoder": None, "value_means": False, "n_members": 1, "bootstrap": False, "verbose": False},
    **{"embeddings": False, "target_dtype": "float64"},
}


def _with_parameters(cls: Any, state: dict[str, Any]) -> Any:
    made, names = cls.__new__(cls), set(cls._get_param_names())
    params = {**{name: value for name, value in ADDED.items() if name in names}, **state["params"]}
    if set(params) != names:
        raise ValueError(f"the parameters of {cls.__name__} are {cls._get_param_names()}")
    own = {name: value for name, value in state["state"].items() if name not in params}
    vars(made).update({**params, **_checked(cls, own)})
    if isinstance(made, ParameterObject):
        made.validate()
    return made


# -- models and predictors --------------------------------------------------------------------------


def _model(cls: type, parts: dict[str, Any]) -> Any:
    _check_drawn(parts["module"])
    return restored_model(parts)


FROZEN = {"_loss", "_targets", "_inputs", "_label", "_dtype", "_module"}


def _predictor(cls: type, state: dict[str, Any]) -> Any:
    if not state.keys() >= FROZEN:
        raise ValueError(f"a {cls.__name__} consists of {sorted(FROZEN)}")
    _check_drawn(state["_module"])
    return _with_attributes(cls, state)


# -- others -----------------------------------------------------------------------------------------


def _random_state(cls: type, state: dict[str, Any]) -> Any:
    made = np.random.RandomState(0)
    made.set_state(state)
    return made


def _generator(cls: type, state: dict[str, Any]) -> Any:
    kinds = {kind.__name__: kind for kind in BIT_GENERATORS}
    bits = kinds[state["bit_generator"]](0)
    bits.state = state
    return np.random.Generator(bits)


BIT_GENERATORS: tuple[Any, ...] = (
    *(np.random.PCG64, np.random.PCG64DXSM),
    *(np.random.MT19937, np.random.Philox, np.random.SFC64),
)


def _fields(cls: Any, values: list[Any]) -> Any:
    return cls._make(values)


class Record(tuple[Any, ...]):
    """Represents all `typing.NamedTuple` classes in the table."""


RECORDS = Kind((Record,), list, _fields)
KINDS = (
    Kind((Model,), parts_of, _model),
    Kind((Parameter,), _of_parameter, _parameter),
    Kind((Tensor,), _of_tensor, _tensor),
    Kind((Graph,), _graphs.of_graph, _graphs.graph),
    Kind((GraphModule,), _graphs.of_graph_module, _graphs.graph_module),
    Kind((Module,), _of_module, _module),
    Kind((ModuleFactory,), _of_factory, _factory),
    Kind((FrozenClassifier, FrozenRegressor, FrozenTransformer), _attributes, _predictor),
    Kind((History,), dict, lambda cls, columns: cls(columns)),
    Kind((StateDict,), lambda x: [dict(x), x.metadata], lambda cls, state: cls(*state)),
    Kind((MetaArray,), lambda x: [x.shape, str(x.dtype)], lambda cls, state: cls(*state)),
    Kind((np.random.RandomState,), lambda x: x.get_state(legacy=False), _random_state),
    Kind((np.random.Generator,), lambda x: x.bit_generator.state, _generator),
)
PARAMETRIZED = Kind((object,), _of_parameters, _with_parameters)  # as scikit-learn's estimators are
OTHERS = Kind((object,), _attributes, _with_attributes)


def kind_of(cls: type) -> Kind:
    """Return the kind of a class."""
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return RECORDS
    others = PARAMETRIZED if hasattr(cls, "_get_param_names") else OTHERS
    return next((kind for kind in KINDS if issubclass(cls, kind.bases)), others)


def is_stored(cls: type) -> bool:
    """Tell whether a file may hold objects of a public class of sknet."""
    return kind_of(cls) not in (OTHERS, RECORDS) and not inspect.isabstract(cls)
