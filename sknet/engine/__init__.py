"""Training of networks below the estimators: models, the results of their steps, histories and scores."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.engine._batches import Batches
from sknet.engine._fit import History
from sknet.engine._memory import Gradient, ModelState, StepResult
from sknet.engine._model import Model
from sknet.engine._programs import CompiledStep, compiled_step
from sknet.engine._scores import Accuracy, RSquared, Score

if TYPE_CHECKING:
    from sknet.engine._many import fit_many

__all__ = [
    "Accuracy", "Batches", "CompiledStep", "Gradient", "History", "Model", "ModelState", "RSquared", "Score",
    "StepResult", "compiled_step", "fit_many",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = _Names({"sknet.engine._many": ("fit_many",)}).into(globals())

__dir__ = __all__.copy
