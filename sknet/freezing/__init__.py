"""Fitted pipelines frozen into predictors on arrays, without training state."""

from sknet.freezing import _encoders, _predictor, _transformers
from sknet.freezing._freeze import freeze
from sknet.freezing._predictor import FrozenPipeline

__all__ = ["FrozenPipeline", "freeze"]

# The parts of a frozen pipeline, by their names in files.
PARTS = {
    name: value
    for module in (_encoders, _predictor, _transformers)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__
}


def __dir__() -> list[str]:
    return __all__
