"""Fitted pipelines frozen into predictors of arrays, without the state of a training."""

from sknet.freezing import _columns, _encoding, _imputing, _predictor, _scaling, _tables
from sknet.freezing._freeze import freeze
from sknet.freezing._predictor import FrozenPipeline

__all__ = ["FrozenPipeline", "freeze"]

# What a frozen pipeline consists of, by the names in files.
PARTS = {
    name: value
    for module in (_columns, _encoding, _imputing, _predictor, _scaling, _tables)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__
}
