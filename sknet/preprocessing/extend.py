"""Building blocks for estimators that read raw tables."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.preprocessing._categories import Crossed
from sknet.preprocessing._fitted import FittedEncoder
from sknet.preprocessing._one_row import OneRow
from sknet.preprocessing._plan import Options, Plan, check_plan, fit_plan
from sknet.preprocessing._schema import MISSING, UNSEEN, Feature, Schema, Table
from sknet.preprocessing._targets import Target, target_of
from sknet.preprocessing._value_means import ValueMeans
from sknet.preprocessing._values import HUGE

if TYPE_CHECKING:
    from sknet.preprocessing._encoder import fit_encoder
    from sknet.preprocessing._native import NativeRows
    from sknet.preprocessing._python import (
        EncodedTable,
        columns_of,
        encoding_call,
        table_facts,
        table_source,
    )

__all__ = [
    "HUGE",
    "MISSING",
    "UNSEEN",
    "Crossed",
    "EncodedTable",
    "Feature",
    "FittedEncoder",
    "NativeRows",
    "OneRow",
    "Options",
    "Plan",
    "Schema",
    "Table",
    "Target",
    "ValueMeans",
    "check_plan",
    "columns_of",
    "encoding_call",
    "fit_encoder",
    "fit_plan",
    "table_facts",
    "table_source",
    "target_of",
]

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.preprocessing._encoder": ("fit_encoder",),
            "sknet.preprocessing._native": ("NativeRows",),
            "sknet.preprocessing._python": (
                *("EncodedTable", "columns_of", "encoding_call", "table_facts", "table_source"),
            ),
        }
    ).into(globals())
