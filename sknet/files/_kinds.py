"""Descriptions of each kind of object, and restoring from them: one record per kind.

A description is a dict or list of values. An object is restored by its constructor if that checks its
arguments, and otherwise attribute by attribute, after each was checked to be what the class declares (see
`sknet._fields`); a file never names anything that is called.
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Hashable, Mapping
from numbers import Integral
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from sknet._constraints import Taking, check_values
from sknet._fields import ABSENT, COUNT, NOT_NEGATIVE, Each, Fields, Items, Number, Together, fields_of
from sknet._params import ParameterObject
from sknet._random import check_generator
from sknet.compile import Graph
from sknet.core import Tensor
from sknet.device import MetaArray
from sknet.engine import History, Model
from sknet.engine._model_copies import parts_of, restored_model
from sknet.estimators import FrozenClassifier, FrozenMultiHeadNet, FrozenRegressor, FrozenTransformer
from sknet.files import _graphs
from sknet.graphs import GraphModule
from sknet.losses import Loss
from sknet.nn import Lazy, Module, ModuleFactory, Parameter, StateDict, is_lazy
from sknet.optim import BaseOptimizer


class Kind(NamedTuple):
    """Description and restoring of objects of some classes."""

    bases: tuple[type, ...]
    describe: Callable[[Any], Any]
    restore: Callable[[type, Any], Any]


SPLITTERS = "sklearn.model_selection._split"
COMPUTED = (property, functools.cached_property, types.FunctionType, classmethod, staticmethod)

# -- attributes -------------------------------------------------------------------------------------


def _attributes(x: Any) -> dict[str, Any]:
    """Return the attributes of an object, without cached properties."""
    state = x.__getstate__()
    if not isinstance(state, dict):
        raise TypeError(
            f"objects of class {type(x).__name__} have no attributes that can be stored by name. If they are "
            "values of a column, convert it before the fit, as by .astype(str)"
        )
    return {name: value for name, value in state.items() if not _is_cached(type(x), name)}


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name, None), functools.cached_property)


def _splitter(cls: Any, state: dict[str, Any]) -> Any:
    """Return a splitter of scikit-learn, whose constructor checks its arguments."""
    given = {**state, **state.get("cvargs", {})}
    made = cls(**{name: given[name] for name in inspect.signature(cls).parameters if name in given})
    if vars(made).keys() != state.keys():
        raise ValueError(f"{cls.__name__} has other attributes, {sorted(state)}")
    return made


def _with_attributes(cls: Any, state: Mapping[str, Any]) -> Any:
    """Return an object with these attributes, none of which may shadow what the class defines."""
    made = cls.__new__(cls)
    checked = dict(state) if _ours(cls) is cls else _checked(cls, state)  # ours declare their fields
    _check_fields(cls, checked)
    if hasattr(made, "__setstate__"):
        made.__setstate__(checked)
    else:
        vars(made).update(checked)
    return _whole(made)


def _check_fields(cls: type, values: Mapping[str, Any], *, is_partial: bool = False) -> None:
    """Raise a ValueError unless values are as declared; users' classes may have more or fewer fields."""
    ours = _ours(cast(Hashable, cls))
    if ours is not None:
        kept = Lazy if issubclass(ours, Lazy) else ours  # which has nothing of the ordinary class yet
        fields = fields_of(cast(Hashable, kept), parameters=issubclass(ours, Module))
        fields.check(values, is_partial=is_partial or ours is not cls, others=ours is not cls)


@functools.cache
def _ours(cls: Any) -> type | None:
    """Return the class itself if it is one of sknet's, or else the first of its bases that is; or None."""
    return next((base for base in cls.__mro__ if _is_ours(base)), None)


def _is_ours(cls: type) -> bool:
    home = cls.__module__ if cls.__module__.startswith("sknet.") else ""
    return vars(sys.modules.get(home, object)).get(cls.__qualname__) is cls


def _whole(made: Any) -> Any:
    """Return an object of sknet's after checking what its fields cannot say one by one."""
    if _ours(cast(Hashable, type(made))) is type(made) and hasattr(made, "_check_stored"):
        made._check_stored()
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
    """Tell whether values still await data, by which they are initialized when training begins."""
    trained = x.copy()
    trained.requires_grad = True
    return trained.awaits_data


PARAMETER = Fields.of(
    "Parameter",
    {
        "data": [np.ndarray, ABSENT],
        "shape": [Each((tuple, list), COUNT), ABSENT],
        "dtype": [str, ABSENT],
        "draw": [Taking(1, "a random state"), ABSENT],
        "requires_grad": bool,
        "awaits_data": bool,
    },
)


def _parameter(cls: type, state: dict[str, Any]) -> Any:
    PARAMETER.check(state)
    is_trained, awaits_data = state.pop("requires_grad"), state.pop("awaits_data")
    made = cls(**state)
    if awaits_data is True:
        made.await_data()
    made.requires_grad = is_trained is True
    return made


def _of_tensor(x: Tensor) -> dict[str, Any]:
    return {"data": x.numpy(), "requires_grad": x.requires_grad}


TENSOR = Fields.of("Tensor", {"data": np.ndarray, "requires_grad": bool})


def _tensor(cls: type, state: dict[str, Any]) -> Any:
    TENSOR.check(state)
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


MODULE = Fields.of(
    "Module",
    {
        "parameters": Items(str, Parameter),
        "buffers": Items(str, [Tensor, np.ndarray]),
        "transient": list[str],
        "children": Items(str, Module),
        "settings": dict[str, Any],
    },
)


def _module(cls: Any, state: dict[str, Any]) -> Any:
    MODULE.check(state)
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
    _check_fields(cls, {**settings, **made._parameters, **made._buffers, **made._children})
    return _whole(made)


def _check_drawn(module: Module) -> None:
    """Raise a ValueError unless all parameters have values, since loading draws none."""
    if not is_lazy(module):
        for name, parameter in module.own_parameters():
            if not parameter.is_drawn:
                raise ValueError(f"parameter {name!r} has no values")


def _of_factory(x: ModuleFactory) -> dict[str, Any]:
    return {"factory": x.factory, "arguments": _attributes(x)["_arguments"]}


FACTORY = Fields.of("ModuleFactory", {"factory": callable, "arguments": dict[str, Any]})


def _factory(cls: type, state: dict[str, Any]) -> Any:
    FACTORY.check(state)
    return cls(state["factory"], **state["arguments"])


# -- parameter objects and estimators ---------------------------------------------------------------


def _of_parameters(x: Any) -> dict[str, Any]:
    params = x.get_params(deep=False)
    _check_parameters(x, params)
    state = {name: value for name, value in _attributes(x).items() if name not in params}
    chosen = [state.pop(name, None) for name in CHOSEN]
    described = {"params": params, "state": _checked(type(x), state)}
    return described if chosen == [None] * len(CHOSEN) else {**described, "choices": _of_choices(*chosen)}


def _of_choices(output: Any, request: Any, callbacks: Any) -> dict[str, Any]:
    """Return what scikit-learn's methods such as `set_output` and `set_fit_request` have set."""
    methods = [] if request is None else vars(request).items()
    requests = {name: dict(each.requests) for name, each in methods if name != "owner"}
    return {"output": output or {}, "requests": requests, "callbacks": list(callbacks or [])}


def _choose(made: Any, choices: dict[str, Any]) -> None:
    CHOICES.check(choices)
    if choices["output"]:
        made.set_output(**choices["output"])
    if choices["callbacks"]:
        made.set_callbacks(*choices["callbacks"])
    found = made._get_metadata_request() if choices["requests"] else None
    for method, requests in choices["requests"].items():
        if method == "owner" or method not in vars(found):
            raise ValueError(f"{type(made).__name__} has no method {method!r} that takes metadata")
        for name, alias in requests.items():
            vars(found)[method].add_request(param=name, alias=alias)
    if found is not None:
        made._metadata_request = found


# Parameters that objects in earlier files do not have yet, and their values there.
ADDED = {
    **{"encoder": None, "lr": None, "value_means": False, "n_members": 1, "bootstrap": False},
    **{"verbose": False, "embeddings": False, "target_dtype": "float64", "extrapolate": False},
    **{"base": None, "scales": None, "calibrate": None, "sampler": None, "monotonic_cst": None},
    **{"neighbors": None, "log_link": "auto"},
}


# Attributes that a fitted object has, and no other.
FITTED = {"model_", "members_", "cv_results_", "_plan"}
PARAMETERS = Fields.of(
    "object", {"params": dict[str, Any], "state": dict[str, Any], "choices": [dict[str, Any], ABSENT]}
)
CHOSEN = "_sklearn_output_config", "_metadata_request", "_skl_callbacks"
CHOICES = Fields.of(
    "choices",
    {
        "output": Items(Literal["transform"], Literal["default", "pandas", "polars"]),
        "requests": Items(str, Items(str, [bool, str, None])),
        "callbacks": list,
    },
)


def _with_parameters(cls: Any, state: dict[str, Any]) -> Any:
    PARAMETERS.check(state)
    made, names = cls.__new__(cls), set(cls._get_param_names())
    params = {**{name: value for name, value in ADDED.items() if name in names}, **state["params"]}
    if set(params) != names:
        raise ValueError(f"the parameters of {cls.__name__} are {cls._get_param_names()}")
    own = {name: value for name, value in state["state"].items() if name not in params}
    _check_fields(cls, own, is_partial=not own.keys() & FITTED)
    vars(made).update({**params, **(own if _ours(cls) is cls else _checked(cls, own))})
    _check_parameters(made, params)
    if "choices" in state:
        _choose(made, state["choices"])
    return _whole(made)


def _check_parameters(x: Any, params: Mapping[str, Any]) -> None:
    """Raise a ValueError if a parameter is invalid."""
    if isinstance(x, ParameterObject):
        x.validate()
    elif _ours(cast(Hashable, type(x))) is not None and hasattr(x, "_parameter_constraints"):
        check_values(x, x._parameter_constraints, params)


# -- models and predictors --------------------------------------------------------------------------


STATES = Items(str, Items(str, np.ndarray))
MODEL = Fields.of(
    "Model",
    {
        "module": Module,
        "loss": Loss,
        "optimizer": BaseOptimizer,
        "alpha": NOT_NEGATIVE,
        "dtype": str,
        "device": str,
        "compile": [bool, str],
        "random_state": [COUNT, np.random.RandomState],
        "has_seen_output": bool,
        "input_names": [Each(list, str), ABSENT],
        "progress": Each(list, [COUNT, bool, None]),
        "epoch": Each(list, COUNT),
        "key": [Each(list, Number(Integral, 0, 2**64 - 1)), ABSENT],
        "slots": [STATES, ABSENT],
        "resting": [STATES, ABSENT],
    },
)


def _model(cls: type, parts: dict[str, Any]) -> Any:
    MODEL.check(parts)
    _check_drawn(parts["module"])
    return restored_model(parts)


def _predictor(cls: type, state: dict[str, Any]) -> Any:
    made = _with_attributes(cls, state)
    _check_drawn(made._module)
    return made


# -- others -----------------------------------------------------------------------------------------


def _random_state(cls: type, state: dict[str, Any]) -> Any:
    check_generator(state, np.random.MT19937)
    made = np.random.RandomState(0)
    made.set_state(state)
    return made


def _generator(cls: type, state: dict[str, Any]) -> Any:
    bits = check_generator(state)(0)
    bits.state = state
    return np.random.Generator(bits)


def _record(cls: Any, values: Any) -> Any:
    if not isinstance(values, list) or len(values) != len(cls._fields):
        raise ValueError(f"{cls.__name__} has the fields {cls._fields}")
    made = cls._make(values)
    _check_fields(cls, made._asdict())
    return _whole(made)


HISTORY = Items(str, Each(list, float))


def _history(cls: Any, columns: Any) -> Any:
    if not HISTORY.is_satisfied_by(columns) or len({*map(len, columns.values())}) > 1:
        raise ValueError("a history has a list of as many numbers for each name")
    return cls(columns)


STATE_DICT = Together(Items(str, np.ndarray), Items(str, Items(str, COUNT)))


def _state_dict(cls: Any, state: Any) -> Any:
    if not STATE_DICT.is_satisfied_by(tuple(state)):
        raise ValueError("a state has arrays by name, and versions by name")
    return cls(*state)


META = Together(Each(tuple, COUNT), str)


def _meta(cls: Any, state: Any) -> Any:
    if not META.is_satisfied_by(tuple(state)):
        raise ValueError("an array without values has a shape, and a dtype")
    return cls(*state)


PREDICTORS = (FrozenClassifier, FrozenMultiHeadNet, FrozenRegressor, FrozenTransformer)


class Record(tuple[Any, ...]):
    """Represents all `typing.NamedTuple` classes in the table."""


RECORDS = Kind((Record,), list, _record)
KINDS = (
    Kind((Model,), parts_of, _model),
    Kind((Parameter,), _of_parameter, _parameter),
    Kind((Tensor,), _of_tensor, _tensor),
    Kind((Graph,), _graphs.of_graph, _graphs.graph),
    Kind((GraphModule,), _graphs.of_graph_module, _graphs.graph_module),
    Kind((Module,), _of_module, _module),
    Kind((ModuleFactory,), _of_factory, _factory),
    Kind(PREDICTORS, _attributes, _predictor),
    Kind((History,), dict, _history),
    Kind((StateDict,), lambda x: [dict(x), x.metadata], _state_dict),
    Kind((MetaArray,), lambda x: [x.shape, str(x.dtype)], _meta),
    Kind((np.random.RandomState,), lambda x: x.get_state(legacy=False), _random_state),
    Kind((np.random.Generator,), lambda x: x.bit_generator.state, _generator),
)
PARAMETRIZED = Kind((object,), _of_parameters, _with_parameters)  # as scikit-learn's estimators are
SPLITTER = Kind((object,), _attributes, _splitter)
OTHERS = Kind((object,), _attributes, _with_attributes)


def kind_of(cls: type) -> Kind:
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return RECORDS
    if cls.__module__ == SPLITTERS:
        return SPLITTER
    others = PARAMETRIZED if hasattr(cls, "_get_param_names") else OTHERS
    return next((kind for kind in KINDS if issubclass(cls, kind.bases)), others)


def is_stored(cls: type) -> bool:
    """Tell whether a file may hold objects of a public class of sknet."""
    return kind_of(cls) not in (OTHERS, RECORDS) and not inspect.isabstract(cls)
