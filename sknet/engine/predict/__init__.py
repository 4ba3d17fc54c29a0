"""Predictions: in chunks of bounded memory, and compiled."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.engine.predict._overflow import warn_of_overflow
from sknet.engine.predict._predictor import (
    FEW_ROWS,
    MOST_ROWS,
    Head,
    Pass,
    Predictor,
    rows_of_a_part,
)
from sknet.engine.predict._predictors import Predictors
from sknet.engine.predict._rows import (
    apply_head,
    chunk_rows,
    chunk_rows_of,
    in_chunks,
    predict_chunk,
    predict_raw,
    predict_rows,
    rows_at_once,
)

if TYPE_CHECKING:
    from sknet.engine.predict._detached import detached, flattened
    from sknet.engine.predict._input_gradients import Chosen, input_gradients, integrated_gradients
    from sknet.engine.predict._layers import (
        Layer,
        Part,
        find_layer,
        layer_rows,
        model_layer,
        output_shapes,
        part_rows,
    )

__all__ = [
    "FEW_ROWS",
    "MOST_ROWS",
    "Chosen",
    "Head",
    "Layer",
    "Part",
    "Pass",
    "Predictor",
    "Predictors",
    "apply_head",
    "chunk_rows",
    "chunk_rows_of",
    "detached",
    "find_layer",
    "flattened",
    "in_chunks",
    "input_gradients",
    "integrated_gradients",
    "layer_rows",
    "model_layer",
    "output_shapes",
    "part_rows",
    "predict_chunk",
    "predict_raw",
    "predict_rows",
    "rows_at_once",
    "rows_of_a_part",
    "warn_of_overflow",
]

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.engine.predict._detached": ("detached", "flattened"),
            "sknet.engine.predict._input_gradients": ("Chosen", "input_gradients", "integrated_gradients"),
            "sknet.engine.predict._layers": (
                "Layer",
                "Part",
                "find_layer",
                "layer_rows",
                "model_layer",
                "output_shapes",
                "part_rows",
            ),
        }
    ).into(globals())
