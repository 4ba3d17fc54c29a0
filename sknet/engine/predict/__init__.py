"""Predictions: in chunks of bounded memory, and compiled."""

from sknet.engine.predict._predictor import Head, Predictor
from sknet.engine.predict._rows import chunk_rows, predict_raw, predict_rows

__all__ = [
    "Head",
    "Predictor",
    "chunk_rows",
    "predict_raw",
    "predict_rows",
]
