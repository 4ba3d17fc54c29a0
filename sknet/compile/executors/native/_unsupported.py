"""The error of what native code leaves to NumPy's plan."""

from sknet.exceptions import CaptureError

__all__ = ["UnsupportedError"]


class UnsupportedError(CaptureError):
    """Steps that native code cannot do; NumPy's plan can."""
