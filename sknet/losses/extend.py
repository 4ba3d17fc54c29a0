"""What estimators make of losses; users of losses do not need it."""

from sknet.losses._averaged import Averaged
from sknet.losses._base import Scaling
from sknet.losses._clipped import ClippedLogLoss
from sknet.losses._frozen import FrozenLoss
from sknet.losses._wrapped import Columns, Standardized

__all__ = ["Averaged", "ClippedLogLoss", "Columns", "FrozenLoss", "Scaling", "Standardized"]
