"""Optimizers, which update parameters by their gradients. Learning rates are in `sknet.optim.schedules`.

Each is a small parameter object without state: `init` and `update` are pure functions. Combinators
take an optimizer and change what it does: ``EMA(ClipNorm(Adam(lr=3e-3), max_norm=1.0))``.
"""

import typing as _typing

from sknet._hints import module_getattr as _module_getattr
from sknet._late import Names as _Names
from sknet.optim import schedules
from sknet.optim._adam import Adam, Adamax, AdamW, NAdam, RAdam, ScheduleFreeAdamW
from sknet.optim._base import (
    OPTIMIZERS,
    BaseOptimizer,
    MinimizeResult,
    Optimizer,
    OptimizerState,
    check_optimizer,
)

if _typing.TYPE_CHECKING:
    from sknet.optim._combinators import EMA, SWA, Accumulate, ClipNorm, ClipValue, Combinator, Lookahead
    from sknet.optim._lbfgs import LBFGS
    from sknet.optim._muon import Muon
    from sknet.optim._parameter_groups import Groups, RateFactors, WeightDecay
    from sknet.optim._sgd import SGD, Adadelta, Adagrad, Lion, RMSprop, Rprop

__all__ = [
    "EMA", "LBFGS", "OPTIMIZERS", "SGD", "SWA", "Accumulate", "Adadelta", "Adagrad", "Adam", "AdamW",
    "Adamax", "BaseOptimizer", "ClipNorm", "ClipValue", "Combinator", "Groups", "Lion", "Lookahead",
    "MinimizeResult", "Muon", "NAdam", "Optimizer", "OptimizerState", "RAdam", "RMSprop", "RateFactors",
    "Rprop", "ScheduleFreeAdamW", "WeightDecay", "check_optimizer", "schedules",
]  # fmt: skip

if not _typing.TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.optim._combinators": (
                "Accumulate",
                "ClipNorm",
                "ClipValue",
                "Combinator",
                "EMA",
                "Lookahead",
                "SWA",
            ),
            "sknet.optim._lbfgs": ("LBFGS",),
            "sknet.optim._muon": ("Muon",),
            "sknet.optim._parameter_groups": ("Groups", "RateFactors", "WeightDecay"),
            "sknet.optim._sgd": ("SGD", "Adadelta", "Adagrad", "Lion", "RMSprop", "Rprop"),
        }
    ).into(globals(), _module_getattr("sknet.optim", __all__))

__dir__ = __all__.copy
