"""Callbacks: objects whose hooks a training loop calls during a fit."""

import typing as _typing

from sknet._hints import module_getattr as _module_getattr
from sknet.callbacks._callback import Callback, FitView
from sknet.callbacks._checkpoint import Checkpoint
from sknet.callbacks._learning_rate_finder import LearningRateFinder
from sknet.callbacks._logging import CSVLog, PrintLog, ProgressBar, TensorBoardLog
from sknet.callbacks._scoring import EpochScoring, GradientMonitor
from sknet.callbacks._stopping import EarlyStopping, Pruning, TimeLimit

__all__ = [
    "CSVLog", "Callback", "Checkpoint", "EarlyStopping", "EpochScoring", "FitView", "GradientMonitor",
    "LearningRateFinder", "PrintLog", "ProgressBar", "Pruning", "TensorBoardLog", "TimeLimit",
]  # fmt: skip

if not _typing.TYPE_CHECKING:
    __getattr__ = _module_getattr("sknet.callbacks", __all__)

__dir__ = __all__.copy
