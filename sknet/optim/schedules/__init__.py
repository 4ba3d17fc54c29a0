"""Learning rates as pure functions of the progress of a fit.

A schedule is stateless: all it depends on is in a `Progress`, which it receives before every update. So a fit
can stop, be pickled and continue at exactly the same rate.
"""

import typing as _typing

from sknet._hints import module_getattr as _module_getattr
from sknet._late import Names as _Names
from sknet.optim.schedules._base import (
    Adaptive,
    Constant,
    Exponential,
    InverseScaling,
    InverseTime,
    MultiStep,
    Progress,
    Schedule,
    Step,
)

if _typing.TYPE_CHECKING:
    from sknet.optim.schedules._curves import (
        Cosine,
        CosineRestarts,
        CosLog,
        Cyclic,
        FlatThenCosine,
        Joined,
        Linear,
        OneCycle,
        Polynomial,
        Product,
        WarmUp,
    )

__all__ = [
    "Adaptive", "Constant", "CosLog", "Cosine", "CosineRestarts", "Cyclic", "Exponential", "FlatThenCosine",
    "InverseScaling", "InverseTime", "Joined", "Linear", "MultiStep", "OneCycle", "Polynomial", "Product",
    "Progress", "Schedule", "Step", "WarmUp",
]  # fmt: skip


if not _typing.TYPE_CHECKING:
    __getattr__ = _Names(
        {"sknet.optim.schedules._curves": [name for name in __all__ if name not in globals()]}
    ).into(globals(), _module_getattr("sknet.optim.schedules", __all__))

__dir__ = __all__.copy
