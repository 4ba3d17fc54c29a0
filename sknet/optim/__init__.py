"""Optimizers: how parameters follow their gradients. Learning rates are in `sknet.optim.schedules`.

Each is a small parameter object without state: `init` and `update` are pure functions.
"""

from typing import Any

from sknet._params import resolve
from sknet.optim import schedules
from sknet.optim._adam import Adam, AdamW
from sknet.optim._base import Optimizer, OptimizerState
from sknet.optim._lbfgs import LBFGS, MinimizeResult
from sknet.optim._rmsprop import RMSprop
from sknet.optim._sgd import SGD

__all__ = [
    "LBFGS",
    "OPTIMIZERS",
    "SGD",
    "Adam",
    "AdamW",
    "MinimizeResult",
    "Optimizer",
    "OptimizerState",
    "RMSprop",
    "check_optimizer",
    "schedules",
]

OPTIMIZERS: dict[str, type[Optimizer] | type[LBFGS]] = {
    "sgd": SGD,
    "adam": Adam,
    "adamw": AdamW,
    "rmsprop": RMSprop,
    "lbfgs": LBFGS,
}


def check_optimizer(value: str | Optimizer | LBFGS, caller: str) -> Optimizer | LBFGS:
    """Turn a name or an object into an optimizer whose parameters are valid.

    Parameters
    ----------
    value : str, Optimizer or LBFGS
        One of the names in `OPTIMIZERS`, or an optimizer.
    caller : str
        Whose parameter it is, for the message.

    Returns
    -------
    Optimizer or LBFGS
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
    if isinstance(value, LBFGS):  # the one method that is not done step by step
        value.validate()
        return value
    optimizer: Any = resolve(value, OPTIMIZERS, Optimizer, parameter="optimizer", caller=caller)
    return optimizer  # type: ignore[no-any-return]
