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
    """Return a copy of a model's module, on the host and in evaluation mode.

    Parameters
    ----------
    model : Model
        Left alone.

    Returns
    -------
    Module
        With the parameters that the model predicts with, which may be averages.

    Examples
    --------
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> detached(model).training, model.module.training
    (False, True)
    """
    module = deepcopy(model.module).eval().to(device="cpu")
    module.load_state_dict(model.evaluation_parameters, strict=False)
    return module


def flattened(module: Module, dtype: DTypeLike) -> tuple[Layout, np.ndarray[Any, Any]]:
    """Let the parameters of a module become views of one array, as a `Predictor` takes them.

    Parameters
    ----------
    module : Module
        On the host; changed in place.
    dtype : dtype
        Of the array.

    Returns
    -------
    layout : Layout
        The position of each parameter.
    flat : ndarray of shape (layout.size,)
        Their values.

    Examples
    --------
    >>> from sknet import nn
    >>> module = nn.Linear(2, 1).initialize(0)
    >>> layout, flat = flattened(module, "float32")
    >>> flat[:] = 3
    >>> module.weight.tolist()
    [[3.0], [3.0]]
    """
    parameters = dict(module.named_parameters())
    layout = Layout({path: tuple(parameter.shape) for path, parameter in parameters.items()})
    flat = np.zeros(layout.size, dtype)
    layout.fill(flat, {path: parameter.data for path, parameter in parameters.items()})
    for path, view in layout.views(flat).items():
        parameters[path].data = view
    return layout, flat
