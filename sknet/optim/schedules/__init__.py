"""Learning rates as pure functions of the progress of a fit.

A schedule is stateless: all it depends on is in a `Progress`, which it receives before every update. So a fit
can stop, be pickled and continue at exactly the same rate.
"""

import typing as _typing

from sknet._hints import module_getattr as _module_getattr
from sknet._late import Names as _Names
from sknet.optim import _names
from sknet.optim.schedules._base import Constant, InverseScaling, Progress, Schedule
from sknet.optim.schedules._steps import Adaptive, Exponential, MultiStep, Step

if _typing.TYPE_CHECKING:
    from sknet.optim.schedules._compose import Joined, Product, WarmUp
    from sknet.optim.schedules._cosine import Cosine, CosineRestarts, CosLog, FlatThenCosine, OneCycle
    from sknet.optim.schedules._cyclic import Cyclic
    from sknet.optim.schedules._lines import Linear, Polynomial

__all__ = [
    "Adaptive",
    "Constant",
    "CosLog",
    "Cosine",
    "CosineRestarts",
    "Cyclic",
    "Exponential",
    "FlatThenCosine",
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


if not _typing.TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.optim.schedules._compose": ("Joined", "Product", "WarmUp"),
            "sknet.optim.schedules._cosine": (
                "Cosine",
                "CosineRestarts",
                "CosLog",
                "FlatThenCosine",
                "OneCycle",
            ),
            "sknet.optim.schedules._cyclic": ("Cyclic",),
            "sknet.optim.schedules._lines": ("Linear", "Polynomial"),
        }
    ).into(globals(), _module_getattr("sknet.optim.schedules", __all__, _names.SCHEDULES))
