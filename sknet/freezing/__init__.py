"""Fitted pipelines frozen into predictors on arrays, without training state."""

from sknet.freezing._freeze import freeze
from sknet.freezing._predictor import FrozenPipeline

__all__ = ["FrozenPipeline", "freeze"]

__dir__ = __all__.copy
