"""Model, the one owner of state, and the loop that trains it."""

from sknet.engine._layout import Gradient, Layout
from sknet.engine._model import Model, ModelState, StepResult

__all__ = ["Gradient", "Layout", "Model", "ModelState", "StepResult"]
