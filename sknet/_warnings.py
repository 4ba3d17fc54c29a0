"""Warnings that show the line of the user, however deep inside of sknet they are issued."""

import sys
import warnings
from pathlib import Path
from types import FrameType

__all__ = ["warn_caller"]

PACKAGE = str(Path(__file__).parent)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning at the innermost line outside of sknet.

    Parameters
    ----------
    message : str
        What it says.
    category : type of Warning
        Its class.
    """
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
