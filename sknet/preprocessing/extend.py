"""Building blocks for estimators that read raw tables."""

from sknet.preprocessing._encoder import fit_encoder
from sknet.preprocessing._one_row import OneRow
from sknet.preprocessing._plan import Options, Plan, fit_plan
from sknet.preprocessing._schema import Schema, Table
from sknet.preprocessing._targets import Target, target_of

__all__ = ["OneRow", "Options", "Plan", "Schema", "Table", "Target", "fit_encoder", "fit_plan", "target_of"]
