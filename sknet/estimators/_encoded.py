"""What ``encoder=`` makes of an estimator: its inputs are the columns of a table, encoded as numbers."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from sknet._params import InvalidParameterError, resolve
from sknet.estimators._inputs import Inputs, Sequences
from sknet.estimators._namespace import on_host
from sknet.preprocessing import TableEncoder

__all__ = ["ENCODER", "ENCODERS", "Encoded", "WithEncoder", "check_encoder", "check_table"]

ENCODER: dict[str, Any] = {"encoder": "no_validation"}  # told better by `check_encoder`
ENCODERS = {"table": TableEncoder}


def check_encoder(encoder: Any, caller: str) -> TableEncoder | None:
    """Return the encoder that a parameter `encoder` asks for.

    Parameters
    ----------
    encoder : "table", TableEncoder or None
        What the user gave.
    caller : str
        The estimator, for a message.

    Returns
    -------
    TableEncoder or None
        Not fitted; later changes of the user's do not change it.

    Raises
    ------
    InvalidParameterError
        If it is anything else.
    """
    if encoder is None:
        return None
    if hasattr(encoder, "transform") and not isinstance(encoder, (TableEncoder, type)):
        raise InvalidParameterError(
            f"The 'encoder' parameter of {caller} must be 'table', a TableEncoder or None. Got {encoder!r} "
            f"instead. Put other transformers before {caller} in a Pipeline."
        )
    found = resolve(encoder, ENCODERS, TableEncoder, parameter="encoder", caller=caller)
    return clone(found)  # type: ignore[no-any-return]


def check_table(X: Any) -> Any:
    """Return what a user gave as a table, on the host.

    Parameters
    ----------
    X : frame, array-like or sparse matrix of shape (n_samples, n_features)
        Inputs.

    Returns
    -------
    frame, array-like or sparse matrix of shape (n_samples, n_features)
        What a `TableEncoder` reads.

    Raises
    ------
    TypeError
        If they are sequences or several inputs.
    """
    if isinstance(X, Sequences):
        raise TypeError("lengths= are for sequences, and an encoder reads a table: set encoder=None")
    if isinstance(X, dict) and not hasattr(X, "tocsr"):
        raise TypeError(
            f"an encoder reads one table, and X is a dict of {list(X)}: make a data frame of it, or set "
            "encoder=None for a network that takes several inputs"
        )
    return on_host(X)


@dataclass(frozen=True)
class Encoded:
    """What the inputs of a fitted network are that reads encoded tables; stands where `Inputs` may.

    Attributes
    ----------
    encoder : TableEncoder
        Fitted.
    """

    encoder: TableEncoder
    forward: ClassVar[None] = None

    @property
    def n_features(self) -> int:
        """Columns of a table."""
        return int(self.encoder.n_features_in_)

    @property
    def example(self) -> np.ndarray:
        """An encoded row of zeros."""
        return np.zeros((1, self.encoder.n_features_out_))

    def read(self, estimator: Any, X: Any, dtypes: list[type]) -> Any:
        """Return the rows of a table like that of the fit, encoded."""
        encoder = self.encoder
        return encoder.encode(encoder.read(check_table(X)))


class WithEncoder:
    """What estimators with a parameter `encoder` have besides."""

    encoder: Any
    _inputs: "Inputs | Encoded | None"

    @property
    def encoder_(self) -> TableEncoder:
        """The fitted encoder; there is none without `encoder`."""
        if not isinstance(self._inputs, Encoded):
            why = "call fit first" if "model_" not in vars(self) else "it was fitted with encoder=None"
            raise AttributeError(f"this {type(self).__name__} has no encoder_: {why}")
        return self._inputs.encoder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if self.encoder is not None:
            tags.input_tags.categorical = tags.input_tags.allow_nan = True
            tags.transformer_tags.preserves_dtype = []
        return tags
