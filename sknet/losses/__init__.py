"""Losses: the function that a network minimizes, and the meaning of its output.

Each is a small parameter object without state, known by scikit-learn's name or as a class.
"""

import typing as _typing
from typing import Any

from sknet._constraints import invalid as _invalid
from sknet._hints import module_getattr as _module_getattr
from sknet._params import named_errors as _named_errors
from sknet._params import resolve
from sknet.losses._base import Loss, Scaling
from sknet.losses._classification import (
    NLL,
    BinaryCrossEntropy,
    Focal,
    Hinge,
    KLDivergence,
    LogLoss,
    MultiMargin,
    Ordinal,
)
from sknet.losses._ctc import CTC
from sknet.losses._ranking import CosineEmbedding, MarginRanking, TripletMargin
from sknet.losses._regression import (
    AbsoluteError,
    Gamma,
    GaussianNLL,
    Huber,
    LogCosh,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)
from sknet.losses._survival import AFT, Cox
from sknet.losses._wrappers import FunctionLoss as _FunctionLoss

__all__ = [
    "AFT", "CTC", "LOSSES", "NLL", "AbsoluteError", "BinaryCrossEntropy", "CosineEmbedding", "Cox", "Focal",
    "Gamma", "GaussianNLL", "Hinge", "Huber", "KLDivergence", "LogCosh", "LogLoss", "Loss", "MarginRanking",
    "MultiMargin", "Ordinal", "Poisson", "Quantile", "Scaling", "SquaredError", "TripletMargin", "Tweedie",
    "check_loss",
]  # fmt: skip

LOSSES: dict[str, type[Loss]] = {
    "log_loss": LogLoss,
    "squared_error": SquaredError,
    "absolute_error": AbsoluteError,
    "huber": Huber,
    "poisson": Poisson,
    "quantile": Quantile,
    "log_cosh": LogCosh,
    "gamma": Gamma,
    "tweedie": Tweedie,
    "gaussian_nll": GaussianNLL,
    "kl_divergence": KLDivergence,
    "hinge": Hinge,
    "focal": Focal,
    "nll": NLL,
    "binary_cross_entropy": BinaryCrossEntropy,
    "multi_margin": MultiMargin,
    "ordinal": Ordinal,
    "cox": Cox,
    "aft": AFT,
    "ctc": CTC,
    "margin_ranking": MarginRanking,
    "cosine_embedding": CosineEmbedding,
    "triplet_margin": TripletMargin,
}


@_named_errors
def check_loss(value: Any, caller: str) -> Loss:
    """Convert a name or an object to a loss, and check its parameters.

    Parameters
    ----------
    value : str, Loss or callable
        A name in `LOSSES`, a loss, or a function ``(y_true, output)`` that returns one value per row.
    caller : str
        Name of the class whose parameter it is, for the error message.

    Returns
    -------
    Loss
        A new loss for a name or a function; a loss as it is.

    Raises
    ------
    InvalidParameterError
        If it is neither, or if a parameter of the loss is wrong.

    Examples
    --------
    >>> from sknet.losses import check_loss
    >>> check_loss("squared_error", caller="MLPRegressor")
    SquaredError()
    """
    if callable(value) and not isinstance(value, (type, Loss)):
        value = _FunctionLoss(value)
    if isinstance(value, dict):
        _invalid(
            f"The 'loss' parameter of {caller} is a dict of {list(value)}, a loss for each head: "
            "MultiHeadNet(MyNet, loss=...) takes it."
        )
    without_task = [name for name, cls in LOSSES.items() if not cls.tasks]
    elsewhere = None if caller == "Model" else {"Model": without_task}
    return resolve(value, LOSSES, Loss, parameter="loss", caller=caller, elsewhere=elsewhere)


if not _typing.TYPE_CHECKING:
    __getattr__ = _module_getattr("sknet.losses", __all__)

__dir__ = __all__.copy
