"""What ``encoder=`` makes of an estimator."""

from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from sknet._constraints import shown
from sknet._params import InvalidParameterError, resolve
from sknet.estimators._encoded import Encoded
from sknet.estimators._inputs import Inputs

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder

__all__ = ["ENCODER", "ENCODERS", "WithEncoder", "check_encoder"]

ENCODER: dict[str, Any] = {"encoder": "no_validation"}  # told better by `check_encoder`


def _table_encoder() -> "TableEncoder":
    from sknet.preprocessing import TableEncoder  # most estimators do without

    return TableEncoder()


ENCODERS: dict[str, Any] = {"table": _table_encoder}


def check_encoder(encoder: Any, caller: str) -> "TableEncoder | None":
    """Return the encoder that a parameter `encoder` asks for."""
    if encoder is None:
        return None
    from sknet.preprocessing import TableEncoder

    if hasattr(encoder, "transform") and not isinstance(encoder, (TableEncoder, type)):
        raise InvalidParameterError(
            f"The 'encoder' parameter of {caller} must be 'table', a TableEncoder or None. "
            f"Got {shown(encoder)} "
            f"instead. Put other transformers before {caller} in a Pipeline."
        )
    found = resolve(encoder, ENCODERS, TableEncoder, parameter="encoder", caller=caller)
    return clone(found)  # type: ignore[no-any-return]


class WithEncoder:
    """What estimators with a parameter `encoder` have besides."""

    encoder: Any
    _inputs: "Inputs | Encoded | None"

    @property
    def encoder_(self) -> "TableEncoder":
        """The fitted encoder; there is none without `encoder`."""
        if not isinstance(self._inputs, Encoded):
            why = "call fit first" if "model_" not in vars(self) else "it was fitted with encoder=None"
            raise AttributeError(f"this {type(self).__name__} has no encoder_: {why}")
        encoder: Any = self._inputs.encoder  # not frozen yet
        return encoder  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if self.encoder is not None:
            tags.input_tags.categorical = tags.input_tags.allow_nan = True
            tags.transformer_tags.preserves_dtype = []
        return tags
