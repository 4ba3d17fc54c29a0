"""sknet: neural networks as scikit-learn estimators, on their own tensor and autograd core.

The names here are loaded lazily, so ``import sknet`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sknet import _parallel as _parallel  # forks wait for imports
from sknet._late import completed_by as _completed_by
from sknet._late import imported as _imported
from sknet._late import offered as _offered

if TYPE_CHECKING:
    from sknet import (
        autograd,
        callbacks,
        dask,  # noqa: F401  not in __all__
        display,
        engine,
        exceptions,
        graphs,
        losses,
        model_selection,
        neural_network,
        nn,
        onnx,
        ops,
        optim,
        preprocessing,
        tabular,
    )
    from sknet._config import config_context, get_config, set_config
    from sknet.autograd import Function, checkpoint, grad, value_and_grad, vmap
    from sknet.core import Tensor, enable_grad, inference_mode, no_grad, set_grad_enabled
    from sknet.engine import Model
    from sknet.estimators import (
        Autoencoder,
        MLPClassifier,
        MLPRegressor,
        MultiHeadNet,
        NetClassifier,
        NetRegressor,
        NetTransformer,
    )
    from sknet.files import load, save, trusted_types
    from sknet.freezing import freeze
    from sknet.preprocessing import TableEncoder
    from sknet.tabular import TabularClassifier, TabularRegressor

__version__ = "0.1.0"

_completed_by(
    "sknet.core", lambda: import_module("sknet.ops")
)  # core declares primitives, ops attach their rules
_offered("export", lambda: import_module("sknet.graphs").export)
_offered("scoring_by_target", lambda: import_module("sknet.estimators._head_scoring").scoring_by_target)
_offered("save", lambda: import_module("sknet.files").save)
_offered("native_passes", lambda: import_module("sknet.compile.native").native_passes)
# Estimators that are given Dask collections.
_offered("fit_collections", lambda: import_module("sknet.dask._fit").fit_collections)
_offered("map_blocks", lambda: import_module("sknet.dask._collections").map_blocks)

_HOMES = {
    "sknet._config": ("config_context", "get_config", "set_config"),
    "sknet._show_versions": ("show_versions",),
    "sknet.autograd": ("Function", "checkpoint", "grad", "value_and_grad", "vmap"),
    "sknet.core": ("Tensor", "enable_grad", "inference_mode", "no_grad", "set_grad_enabled"),
    "sknet.engine": ("Model",),
    "sknet.estimators": (
        "Autoencoder",
        "MLPClassifier",
        "MLPRegressor",
        "MultiHeadNet",
        "NetClassifier",
        "NetRegressor",
        "NetTransformer",
    ),
    "sknet.preprocessing": ("TableEncoder",),
    "sknet.tabular": ("TabularClassifier", "TabularRegressor"),
    "sknet.files": ("load", "save", "trusted_types"),
    "sknet.freezing": ("freeze",),
}
_MODULES = (
    *("autograd", "callbacks", "dask", "display", "engine", "exceptions", "graphs", "losses"),
    *("model_selection", "neural_network", "nn", "onnx", "ops", "optim", "preprocessing", "tabular"),
)

# Without "dask": `from sknet import *` imports every name, and sknet.dask needs an extra.
__all__ = [
    "Autoencoder", "Function", "MLPClassifier", "MLPRegressor", "Model", "MultiHeadNet", "NetClassifier",
    "NetRegressor", "NetTransformer", "TableEncoder", "TabularClassifier", "TabularRegressor", "Tensor",
    "__version__", "autograd", "callbacks", "checkpoint", "config_context", "display", "enable_grad",
    "engine", "exceptions", "freeze", "get_config", "grad", "graphs", "inference_mode", "load", "losses",
    "model_selection", "neural_network", "nn", "no_grad", "onnx", "ops", "optim", "preprocessing", "save",
    "set_config", "set_grad_enabled", "show_versions", "tabular", "trusted_types", "value_and_grad", "vmap",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(f"sknet.{name}")
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        message = f"module 'sknet' has no attribute {name!r}"
        if name.startswith("_"):
            raise AttributeError(message)
        # `from sknet import` looks for an attribute before it imports a module.
        raise import_module("sknet._hints").MissingAttributeError(message, lambda: _suggestion(name))
    value = globals()[name] = getattr(_imported(home), name)
    return value


def _suggestion(name: str) -> str:
    """Return the end of a message about an unknown name: where PyTorch's and NumPy's functions are here."""
    ops, hints = import_module("sknet.ops"), import_module("sknet._hints")
    others = ("losses", "optim", "callbacks", "nn")
    advice = {
        **{
            each: f"use sknet.{home}.{each}" for home in others for each in _imported(f"sknet.{home}").__all__
        },
        **dict.fromkeys(("functional", "F"), "the functions are in sknet.ops"),
        "linalg": "use sknet.ops.linalg",
        **dict.fromkeys(ops.__all__, f"use sknet.ops.{name}"),
    }
    return hints.suggestion(name, __all__, {**hints.hints("sknet.ops"), **advice})


def __dir__() -> list[str]:
    return [*__all__, "dask"]
