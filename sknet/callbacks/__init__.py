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

_FOREIGN = {
    **dict.fromkeys(("ModelCheckpoint", "BackupAndRestore", "TrainEndCheckpoint"), "use Checkpoint(path)"),
    **dict.fromkeys(
        ("ReduceLROnPlateau", "LRScheduler", "LearningRateScheduler"),
        "the optimizer's learning rate can be a schedule, such as Adam(lr=Adaptive(1e-3)) or "
        "Adam(lr=Cosine(1e-3)), with those of sknet.optim.schedules",
    ),
    **dict.fromkeys(("CSVLogger", "CSVLoggerCallback"), "use CSVLog(path)"),
    **dict.fromkeys(("TensorBoard", "TensorBoardLogger"), "use TensorBoardLog(path)"),
    **dict.fromkeys(("LRFinder", "LRFind"), "use LearningRateFinder"),
    **dict.fromkeys(("LearningRateMonitor", "History"), "leave it out: history_ has loss, scores and rate"),
    **dict.fromkeys(("TerminateOnNaN", "DetectAnomaly"), "leave it out: a fit raises NonFiniteError"),
    **dict.fromkeys(("TQDMProgressBar", "RichProgressBar"), "use ProgressBar"),
    **dict.fromkeys(("LambdaCallback", "on_epoch_end"), "derive a class from Callback"),
    **dict.fromkeys(
        ("GradientNormClipping", "GradientClipping"), "use sknet.optim.ClipNorm around an optimizer"
    ),
    **dict.fromkeys(("StochasticWeightAveraging", "SwapEMAWeights"), "use sknet.optim.SWA or EMA"),
    "Freezer": "use the parameter frozen of the estimator",
    "Timer": "use TimeLimit",
}
"""Names in other libraries, and advice."""

if not _typing.TYPE_CHECKING:
    __getattr__ = _module_getattr("sknet.callbacks", __all__, _FOREIGN)


def __dir__() -> list[str]:
    return __all__
