"""Model, the one owner of state; the results of its steps, and scores."""

from sknet.engine._many import fit_many
from sknet.engine._model import Model
from sknet.engine.loop import Accuracy, Batches, History, RSquared, Score
from sknet.engine.state import Gradient, ModelState, StepResult
from sknet.engine.step import CompiledStep, compiled_step

__all__ = [
    "Accuracy",
    "Batches",
    "CompiledStep",
    "Gradient",
    "History",
    "Model",
    "ModelState",
    "RSquared",
    "Score",
    "StepResult",
    "compiled_step",
    "fit_many",
]
