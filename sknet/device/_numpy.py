"""The CPU: NumPy arrays, SciPy's CSR for sparse input."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse

# Private, but the ufuncs themselves: with SCIPY_ARRAY_API=1 the public names are plain functions around them.
from scipy.special import _ufuncs

from sknet.device._backend import Backend, register
from sknet.device._device import Device

__all__ = ["NumpyBackend"]

SPECIAL_FUNCTIONS = ("erf", "erfc", "expit", "logit", "xlogy")


class NumpyBackend(Backend):
    """Arrays in the host's memory."""

    kind = "cpu"
    array_type = np.ndarray

    def __init__(self) -> None:
        functions = {name: getattr(np, name) for name in np.__all__}
        special = {name: getattr(_ufuncs, name) for name in SPECIAL_FUNCTIONS}
        # The ufuncs' own reductions: np.sum and friends add a microsecond of dispatch on top.
        reductions = {"sum": np.add.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce}
        self.xp = SimpleNamespace(**functions | special | reductions)

    def from_host(self, array: Any, device: Device) -> Any:
        return array

    def to_host(self, array: Any) -> Any:
        return array

    def is_sparse(self, array: Any) -> bool:
        return bool(scipy.sparse.issparse(array))


register("cpu", NumpyBackend)
