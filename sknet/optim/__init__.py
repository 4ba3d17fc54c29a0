"""Optimizers: how parameters follow their gradients. Learning rates are in `sknet.optim.schedules`.

Each is a small parameter object without state: `init` and `update` are pure functions. Combinators
take an optimizer and change what it does: ``EMA(ClipNorm(Adam(lr=3e-3), max_norm=1.0))``.
"""

import typing as _typing
from collections.abc import Mapping as _Mapping

from sknet._hints import module_getattr as _module_getattr
from sknet._late import Names as _Names
from sknet._params import resolve
from sknet.optim import schedules
from sknet.optim._adam import Adam, Adamax, AdamW, NAdam, RAdam, ScheduleFreeAdamW
from sknet.optim._base import BaseOptimizer, MinimizeResult, Optimizer, OptimizerState

if _typing.TYPE_CHECKING:
    from sknet.optim._combinators import EMA, SWA, Accumulate, ClipNorm, ClipValue, Combinator, Lookahead
    from sknet.optim._lbfgs import LBFGS
    from sknet.optim._muon import Muon
    from sknet.optim._parameter_groups import Groups, RateFactors, WeightDecay
    from sknet.optim._sgd import SGD, Adadelta, Adagrad, Lion, RMSprop, Rprop

__all__ = [
    "EMA",
    "LBFGS",
    "OPTIMIZERS",
    "SGD",
    "SWA",
    "Accumulate",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "BaseOptimizer",
    "ClipNorm",
    "ClipValue",
    "Combinator",
    "Groups",
    "Lion",
    "Lookahead",
    "MinimizeResult",
    "Muon",
    "NAdam",
    "Optimizer",
    "OptimizerState",
    "RAdam",
    "RMSprop",
    "RateFactors",
    "Rprop",
    "ScheduleFreeAdamW",
    "WeightDecay",
    "check_optimizer",
    "schedules",
]

OPTIMIZERS: _Mapping[str, type[BaseOptimizer]] = _Names(
    {
        "sknet.optim._sgd": {
            "sgd": "SGD",
            "rmsprop": "RMSprop",
            "rprop": "Rprop",
            "adagrad": "Adagrad",
            "adadelta": "Adadelta",
            "lion": "Lion",
        },
        "sknet.optim._adam": {
            "adam": "Adam",
            "adamw": "AdamW",
            "adamax": "Adamax",
            "nadam": "NAdam",
            "radam": "RAdam",
            "schedule_free_adamw": "ScheduleFreeAdamW",
        },
        "sknet.optim._muon": {"muon": "Muon"},
        "sknet.optim._lbfgs": {"lbfgs": "LBFGS"},
    }
)


def check_optimizer(value: str | BaseOptimizer, caller: str) -> BaseOptimizer:
    """Turn a name or an object into an optimizer whose parameters are valid.

    Parameters
    ----------
    value : str or BaseOptimizer
        One of the names in `OPTIMIZERS`, or an optimizer.
    caller : str
        Whose parameter it is, for the message.

    Returns
    -------
    BaseOptimizer
        A new optimizer for a name; an optimizer as it is.

    Raises
    ------
    InvalidParameterError
        If it is neither, or if a parameter of the optimizer is wrong.

    Examples
    --------
    >>> from sknet.optim import check_optimizer
    >>> check_optimizer("adam", caller="MLPClassifier")
    Adam()
    """
    found: BaseOptimizer = resolve(value, OPTIMIZERS, BaseOptimizer, parameter="optimizer", caller=caller)
    return found


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


def __dir__() -> list[str]:
    return __all__
