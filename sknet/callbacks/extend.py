"""The interface between callbacks and training loops."""

from sknet.callbacks._callback import HOOKS, FitState, Rows, check_callbacks, fresh_callbacks
from sknet.callbacks._checkpoint import (
    VERSION,
    KeepState,
    SavedFit,
    check_state,
    checked_fit,
    read_checkpoint,
    saved_fit,
)
from sknet.callbacks._logging import shared_bar
from sknet.callbacks._scoring import direction_of, naming_classes
from sknet.callbacks._stopping import Plateau

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
