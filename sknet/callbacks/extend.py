"""The interface between callbacks and training loops."""

from sknet.callbacks._callback import HOOKS, check_callbacks, fresh_callbacks
from sknet.callbacks._checkpoint import SavedFit, read_checkpoint, saved_fit
from sknet.callbacks._epoch_scoring import direction_of, naming_classes
from sknet.callbacks._fit_fields import VERSION, check_state, checked_fit
from sknet.callbacks._kept_state import KeepState
from sknet.callbacks._plateau import Plateau
from sknet.callbacks._progress_bar import shared_bar
from sknet.callbacks._view import FitState, Rows

__all__ = [
    "HOOKS",
    "PARTS",
    "VERSION",
    "FitState",
    "KeepState",
    "Plateau",
    "Rows",
    "SavedFit",
    "check_callbacks",
    "check_state",
    "checked_fit",
    "direction_of",
    "fresh_callbacks",
    "naming_classes",
    "read_checkpoint",
    "saved_fit",
    "shared_bar",
]

PARTS = {"Plateau": Plateau}
