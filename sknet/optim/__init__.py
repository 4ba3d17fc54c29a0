"""Optimizers: how parameters follow their gradients. Learning rates are in `sknet.optim.schedules`.

Each is a small parameter object without state: `init` and `update` are pure functions. Combinators
take an optimizer and change what it does: ``EMA(ClipNorm(Adam(lr=3e-3), max_norm=1.0))``.
"""

import typing as _typing
from collections.abc import Mapping as _Mapping

from sknet._hints import module_getattr as _module_getattr
from sknet._late import Names as _Names
from sknet._params import resolve
from sknet.optim import _names, schedules
from sknet.optim._adam import Adam, AdamW
from sknet.optim._base import Optimizer, OptimizerState
from sknet.optim._root import BaseOptimizer, MinimizeResult

if _typing.TYPE_CHECKING:
    from sknet.optim._accumulate import Accumulate
    from sknet.optim._adagrad import Adadelta, Adagrad
    from sknet.optim._adam_kin import Adamax, NAdam, RAdam
    from sknet.optim._average import EMA, SWA
    from sknet.optim._clip import ClipNorm, ClipValue
    from sknet.optim._combinator import Combinator
    from sknet.optim._decay import WeightDecay
    from sknet.optim._groups import Groups
    from sknet.optim._lbfgs import LBFGS
    from sknet.optim._lion import Lion
    from sknet.optim._lookahead import Lookahead
    from sknet.optim._muon import Muon
    from sknet.optim._rate_factors import RateFactors
    from sknet.optim._rmsprop import RMSprop
    from sknet.optim._rprop import Rprop
    from sknet.optim._schedule_free import ScheduleFreeAdamW
    from sknet.optim._sgd import SGD

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
        "sknet.optim._sgd": {"sgd": "SGD"},
        "sknet.optim._adam": {"adam": "Adam", "adamw": "AdamW"},
        "sknet.optim._adam_kin": {"adamax": "Adamax", "nadam": "NAdam", "radam": "RAdam"},
        "sknet.optim._rmsprop": {"rmsprop": "RMSprop"},
        "sknet.optim._rprop": {"rprop": "Rprop"},
        "sknet.optim._adagrad": {"adagrad": "Adagrad", "adadelta": "Adadelta"},
        "sknet.optim._lion": {"lion": "Lion"},
        "sknet.optim._muon": {"muon": "Muon"},
        "sknet.optim._schedule_free": {"schedule_free_adamw": "ScheduleFreeAdamW"},
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
            "sknet.optim._accumulate": ("Accumulate",),
            "sknet.optim._adagrad": ("Adadelta", "Adagrad"),
            "sknet.optim._adam_kin": ("Adamax", "NAdam", "RAdam"),
            "sknet.optim._average": ("EMA", "SWA"),
            "sknet.optim._clip": ("ClipNorm", "ClipValue"),
            "sknet.optim._combinator": ("Combinator",),
            "sknet.optim._decay": ("WeightDecay",),
            "sknet.optim._groups": ("Groups",),
            "sknet.optim._lbfgs": ("LBFGS",),
            "sknet.optim._lion": ("Lion",),
            "sknet.optim._lookahead": ("Lookahead",),
            "sknet.optim._muon": ("Muon",),
            "sknet.optim._rate_factors": ("RateFactors",),
            "sknet.optim._rmsprop": ("RMSprop",),
            "sknet.optim._rprop": ("Rprop",),
            "sknet.optim._schedule_free": ("ScheduleFreeAdamW",),
            "sknet.optim._sgd": ("SGD",),
        }
    ).into(globals(), _module_getattr("sknet.optim", __all__, _names.OPTIMIZERS))
