"""sknet's table encoder."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sknet._frames import Frame
from sknet._scipy import issparse
from sknet.preprocessing.extend import Plan, Schema

__all__ = ["Encoding", "table_encoder"]


@dataclass(frozen=True)
class Encoding:
    """The encoding of a table."""

    schema: Schema
    plan: Plan
    names: tuple[str, ...] | None
    dtype: str
    is_sparse: bool
    _stored_fields = {
        "dtype": Literal["float32", "float64"],
    }

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        X = X.ordered() if type(X) is Frame else X.tocsc() if issparse(X) else X
        table = self.schema.read_opened(X, self.names)
        encode = self.plan.csr if self.is_sparse else self.plan.dense
        return encode(table, np.dtype(self.dtype))


def table_encoder(encoder: Any) -> Encoding:
    """Freeze a TableEncoder."""
    names = getattr(encoder, "feature_names_in_", None)
    names = None if names is None else tuple(map(str, names))
    return Encoding(encoder._schema, encoder._plan, names, encoder.dtype, encoder._is_sparse())
