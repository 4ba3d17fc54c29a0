"""The columns of a table as inputs of a network, encoded as numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sknet._fields import Named
from sknet.estimators._namespace import on_host
from sknet.estimators._reading import Sequences

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder
    from sknet.preprocessing.extend import FittedEncoder

__all__ = ["Encoded", "check_table"]


def check_table(X: Any) -> Any:
    """Return what a user gave as a table, on the host."""
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
    """What the inputs of a fitted network are that reads encoded tables; stands where `Inputs` may."""

    encoder: "TableEncoder | FittedEncoder"
    forward: ClassVar[None] = None
    _stored_fields = {
        "encoder": Named("TableEncoder", "FittedEncoder"),
    }

    @property
    def n_features(self) -> int:
        """Columns of a table."""
        return int(self.encoder.n_features_in_)

    @property
    def example(self) -> np.ndarray:
        """An encoded row of zeros."""
        return np.zeros((1, self.encoder.n_features_out_))

    def frozen(self) -> "Encoded":
        """Return the same without what only a fit needs."""
        from sknet.preprocessing.extend import FittedEncoder

        return Encoded(FittedEncoder(self.encoder))

    def read(self, estimator: Any, X: Any, dtypes: list[type]) -> Any:
        """Return the rows of a table like that of the fit, encoded."""
        encoder = self.encoder
        return encoder.encode(encoder.read(check_table(X)))
