"""Learning rates as pure functions of how far a fit has come.

A schedule keeps nothing: what it depends on stands in a `Progress`, which whoever trains hands to
it before every update. So a fit can stop, be pickled and go on at the very same rate.
"""

from sknet.optim.schedules._base import Constant, InverseScaling, Progress, Schedule
from sknet.optim.schedules._compose import Joined, Product, WarmUp
from sknet.optim.schedules._cosine import Cosine, CosineRestarts, OneCycle
from sknet.optim.schedules._cyclic import Cyclic
from sknet.optim.schedules._lines import Linear, Polynomial
from sknet.optim.schedules._steps import Adaptive, Exponential, MultiStep, Step

__all__ = [
    "Adaptive",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Cyclic",
    "Exponential",
    "InverseScaling",
    "Joined",
    "Linear",
    "MultiStep",
    "OneCycle",
    "Polynomial",
    "Product",
    "Progress",
    "Schedule",
    "Step",
    "WarmUp",
]
