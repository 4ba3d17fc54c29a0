"""Model, the one owner of state, and the loops that train it."""

from sknet.engine._batches import Batches, take_rows
from sknet.engine._compiled_step import CompiledStep, compiled_step
from sknet.engine._full_batch import minimize
from sknet.engine._history import History
from sknet.engine._interrupt import InterruptGuard
from sknet.engine._layout import Gradient, Layout
from sknet.engine._loop import Outcome, Settings, Validation, train
from sknet.engine._model import Model
from sknet.engine._place import active
from sknet.engine._predict import chunk_rows, predict_rows
from sknet.engine._predictor import Predictor
from sknet.engine._scores import Accuracy, RSquared, Score
from sknet.engine._state import ModelState, StepResult
from sknet.engine._stopping import Plateau

__all__ = [
    "Accuracy",
    "Batches",
    "CompiledStep",
    "Gradient",
    "History",
    "InterruptGuard",
    "Layout",
    "Model",
    "ModelState",
    "Outcome",
    "Plateau",
    "Predictor",
    "RSquared",
    "Score",
    "Settings",
    "StepResult",
    "Validation",
    "active",
    "chunk_rows",
    "compiled_step",
    "minimize",
    "predict_rows",
    "take_rows",
    "train",
]
