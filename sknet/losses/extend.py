"""Losses that estimators make of losses; users do not need them."""

from sknet.losses._base import Scaling
from sknet.losses._classification import ClippedLogLoss
from sknet.losses._function import FunctionLoss
from sknet.losses._wrappers import Averaged, Columns, FrozenLoss, InUnits, Standardized

__all__ = [
    "Averaged",
    "ClippedLogLoss",
    "Columns",
    "FrozenLoss",
    "FunctionLoss",
    "InUnits",
    "Scaling",
    "Standardized",
]
