"""Callbacks: objects whose hooks a training loop calls during a fit."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.callbacks._callback import Callback
from sknet.callbacks._checkpoint import Checkpoint
from sknet.callbacks._early_stopping import EarlyStopping
from sknet.callbacks._print_log import PrintLog
from sknet.callbacks._progress_bar import ProgressBar
from sknet.callbacks._view import FitView

if TYPE_CHECKING:
    from sknet.callbacks._csv_log import CSVLog
    from sknet.callbacks._epoch_scoring import EpochScoring
    from sknet.callbacks._finder import LearningRateFinder
    from sknet.callbacks._gradient_monitor import GradientMonitor
    from sknet.callbacks._pruning import Pruning
    from sknet.callbacks._tensorboard import TensorBoardLog
    from sknet.callbacks._time_limit import TimeLimit

__all__ = [
    "CSVLog",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "EpochScoring",
    "FitView",
    "GradientMonitor",
    "LearningRateFinder",
    "PrintLog",
    "ProgressBar",
    "Pruning",
    "TensorBoardLog",
    "TimeLimit",
]

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.callbacks._csv_log": ("CSVLog",),
            "sknet.callbacks._epoch_scoring": ("EpochScoring",),
            "sknet.callbacks._finder": ("LearningRateFinder",),
            "sknet.callbacks._gradient_monitor": ("GradientMonitor",),
            "sknet.callbacks._pruning": ("Pruning",),
            "sknet.callbacks._tensorboard": ("TensorBoardLog",),
            "sknet.callbacks._time_limit": ("TimeLimit",),
        }
    ).into(globals())
