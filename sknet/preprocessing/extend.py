"""Building blocks for estimators that read raw tables."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.preprocessing._columns import HUGE
from sknet.preprocessing._encodings import Crossed, Target, ValueMeans, target_of
from sknet.preprocessing._plan import FittedEncoder, OneRow, Options, Plan, check_plan, fit_plan
from sknet.preprocessing._schema import MISSING, UNSEEN, Feature, Schema, Table
from sknet.preprocessing._texts import spellings

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
    "spellings",
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
