"""Learning rates as pure functions of the progress of a fit.

A schedule is stateless: all it depends on is in a `Progress`, which it receives before every update. So a fit
can stop, be pickled and continue at exactly the same rate.
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
