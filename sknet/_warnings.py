"""Warnings: sknet's own point at the user's line, however deep they are issued; NumPy's can be silenced."""

import sys
import warnings
from collections.abc import Callable
from contextvars import Context, copy_context
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

PACKAGE = str(Path(__file__).parent)


def warn_caller(message: str, category: type[Warning], beyond: tuple[str, ...] = ()) -> None:
    """Issue a warning at the innermost line outside sknet."""
    level, skipped = 1, (PACKAGE, *beyond)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(skipped):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def silently(**errors: Any) -> Callable[..., Any]:
    """Return a function that runs under ``np.errstate(**errors)``, in a tenth of the time of the context."""

    def made() -> Context:
        with np.errstate(**errors):
            return copy_context()

    return Context().run(made).run
