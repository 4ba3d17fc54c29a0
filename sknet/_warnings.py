"""Warnings that point at the user's line, however deep inside sknet they are issued."""

import sys
import warnings
from pathlib import Path
from types import FrameType

__all__ = ["warn_caller"]

PACKAGE = str(Path(__file__).parent)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning at the innermost line outside sknet.

    Parameters
    ----------
    message : str
        The text.
    category : type of Warning
        Its class.
    """
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
