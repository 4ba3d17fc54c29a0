"""Warnings that point at the user's line, however deep inside sknet they are issued."""

import sys
import warnings
from pathlib import Path
from types import FrameType

__all__ = ["warn_caller"]

PACKAGE = str(Path(__file__).parent)


def warn_caller(message: str, category: type[Warning], beyond: tuple[str, ...] = ()) -> None:
    """Issue a warning at the innermost line outside sknet.

    Parameters
    ----------
    message : str
        The text.
    category : type of Warning
        Its class.
    beyond : tuple of str, default=()
        Folders of other packages that are skipped, too.
    """
    level, skipped = 1, (PACKAGE, *beyond)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(skipped):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
