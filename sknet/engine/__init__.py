"""Model, the one owner of state, and the loops that train it."""

from sknet.device import active
from sknet.engine._model import Model
from sknet.engine.loop import (
    Accuracy,
    Batches,
    Gathered,
    History,
    InterruptGuard,
    Outcome,
    RSquared,
    Score,
    Settings,
    Source,
    Validation,
    minimize,
    take_rows,
    train,
)
from sknet.engine.predict import Predictor, chunk_rows, predict_rows
from sknet.engine.state import Gradient, Layout, ModelState, StepResult
from sknet.engine.step import CompiledStep, compiled_step

__all__ = [
    "Accuracy",
    "Batches",
    "CompiledStep",
    "Gathered",
    "Gradient",
    "History",
    "InterruptGuard",
    "Layout",
    "Model",
    "ModelState",
    "Outcome",
    "Predictor",
    "RSquared",
    "Score",
    "Settings",
    "Source",
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
