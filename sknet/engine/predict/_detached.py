"""Modules that predict without the model that has trained them."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from sknet.engine.state import Layout
from sknet.nn import Module

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["detached", "flattened"]


def detached(model: "Model") -> Module:
    """Return a copy of a model's module, on the host and in evaluation mode."""
    module = deepcopy(model.module).eval().to(device="cpu")
    module.load_state_dict(model.evaluation_parameters, strict=False)
    return module


def flattened(module: Module, dtype: DTypeLike) -> tuple[Layout, np.ndarray[Any, Any]]:
    """Let the parameters of a module become views of one array, as a `Predictor` takes them."""
    parameters = dict(module.named_parameters())
    layout = Layout({path: tuple(parameter.shape) for path, parameter in parameters.items()})
    flat = np.zeros(layout.size, dtype)
    layout.fill(flat, {path: parameter.data for path, parameter in parameters.items()})
    for path, view in layout.views(flat).items():
        parameters[path].data = view
    return layout, flat
