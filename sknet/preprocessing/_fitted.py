"""What a fitted encoder is frozen into: it reads and encodes tables, without scikit-learn."""

import warnings
from typing import Any, Literal

import numpy as np

from sknet._fields import ABSENT, COUNT, Arrays
from sknet._frames import names_of
from sknet.preprocessing._plan import Plan, check_plan
from sknet.preprocessing._schema import Schema, Table

__all__ = ["FittedEncoder"]


class FittedEncoder:
    """An encoder that only reads and encodes tables."""

    n_features_in_: int
    _stored_fields = {
        "_schema": Schema,
        "_plan": Plan,
        "n_features_in_": COUNT,
        "n_features_out_": COUNT,
        "_dtype": Literal["float32", "float64"],
        "_is_sparse": bool,
        "feature_names_in_": [Arrays("OU", "n_features_in_"), ABSENT],
    }

    def _check_stored(self) -> None:
        check_plan(self._schema, self._plan, self.n_features_in_, self.n_features_out_)

    def __init__(self, encoder: Any) -> None:
        self._schema: Schema = encoder._schema
        self._plan: Plan = encoder._plan
        self.n_features_in_, self.n_features_out_ = int(encoder.n_features_in_), int(encoder.n_features_out_)
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = np.array(encoder.feature_names_in_)
        self._dtype, self._is_sparse = str(encoder.dtype), bool(encoder._is_sparse())

    @property
    def dtype(self) -> str:
        """Dtype of the outputs."""
        return self._dtype

    @property
    def schema(self) -> Schema:
        """How a table is read."""
        return self._schema

    @property
    def plan(self) -> Plan:
        """How every column is encoded."""
        return self._plan

    def read(self, X: Any) -> Table:
        """Read `X`, a table with the columns of the fit; pass the result to `encode`."""
        return self._schema.read(self, X)

    def encode(self, table: Table) -> Any:
        """Return the outputs for a table that has been read, of shape (n_samples, n_features_out_)."""
        encode = self._plan.csr if self._is_sparse else self._plan.dense
        return encode(table, np.dtype(self._dtype))

    def written(self, source: Any, name: str, table: str) -> str:
        """Return Python for the outputs; `source`, `name` and `table` are as for `encoding_call`."""
        from sknet.preprocessing._python import encoding_call  # a predictor does without

        return encoding_call(source, self._schema, self._plan, self._dtype, name, table)

    def check_columns(self, X: Any) -> None:
        """Raise a ValueError if `X`, a table, has other columns than that of the fit."""
        known = vars(self).get("feature_names_in_")
        given = names_of(X) if hasattr(X, "columns") else None
        given = given if given and all(isinstance(name, str) for name in given) else None
        if known is not None and given is not None and given != known.tolist():
            missing, unseen = set(known) - set(given), set(given) - set(known)
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"missing are {sorted(missing)}, unseen {sorted(unseen)}"
                if missing or unseen
                else "The feature names should match those that were passed during fit: they are in another "
                f"order, not {known.tolist()}"
            )
        if (known is None) != (given is None):
            was, now = ("with", "has no") if given is None else ("without", "has")
            warnings.warn(f"X {now} feature names, but the encoder was fitted {was} them", stacklevel=2)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but the encoder is expecting {self.n_features_in_} features"
            )
