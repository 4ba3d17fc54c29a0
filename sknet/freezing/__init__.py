"""Fitted pipelines frozen into predictors that need neither scikit-learn nor the state of a training."""

from sknet.freezing._freeze import freeze
from sknet.freezing._predictor import FrozenPipeline

__all__ = ["FrozenPipeline", "freeze"]
