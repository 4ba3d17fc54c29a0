"""Functions for code that owns, runs and watches modules; networks are written without them.

`sknet.engine` is written with these names. They change with it, and more often than `sknet.nn`.
"""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.nn._initializer import (
    DataDependentInit,
    draw_bias,
    draw_weight,
    rows_of,
    rows_to_see,
    see_data,
    takes_data,
    waits_for_data,
)
from sknet.nn._lazy import materialize_for
from sknet.nn._module import copy_with, held_buffers, held_of, hold_statistics, is_held, with_statistics
from sknet.nn._parameter import convert, latest, note_structure
from sknet.nn._shape_pass import copy_for_shapes, shadows, shape_pass
from sknet.nn.layers._embedding import draw_embedding, draw_frequencies
from sknet.nn.layers._linear import draw_ones, draw_signs, draw_standard
from sknet.nn.layers._recurrent import draw_gates

if TYPE_CHECKING:
    from sknet.nn._layer_outputs import RECORDED, Call, Calls, Recorded, run_to
else:
    __getattr__ = _Names(
        {"sknet.nn._layer_outputs": ("RECORDED", "Call", "Calls", "Recorded", "run_to")}
    ).into(globals())

__all__ = [
    "PARTS",
    "RECORDED",
    "Call",
    "Calls",
    "DataDependentInit",
    "Recorded",
    "convert",
    "copy_for_shapes",
    "copy_with",
    "draw_bias",
    "draw_weight",
    "held_buffers",
    "held_of",
    "hold_statistics",
    "is_held",
    "latest",
    "materialize_for",
    "note_structure",
    "rows_of",
    "rows_to_see",
    "run_to",
    "see_data",
    "shadows",
    "shape_pass",
    "takes_data",
    "waits_for_data",
    "with_statistics",
]

PARTS = {
    each.__name__: each
    for each in (
        draw_weight,
        draw_bias,
        draw_embedding,
        draw_frequencies,
        draw_gates,
        draw_ones,
        draw_signs,
        draw_standard,
    )
}
