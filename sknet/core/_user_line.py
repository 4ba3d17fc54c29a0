"""Where in the user's code something happens."""

import linecache
import sys
from pathlib import Path
from types import FrameType

__all__ = ["line_of", "shown", "user_line"]

PACKAGE = str(Path(__file__).parents[1])

Line = tuple[str, int]


class _Files(dict[str, bool]):
    """Files by path: whether they are the user's. Dozens of frames are looked up, each without a call."""

    def __missing__(self, path: str) -> bool:
        found = self[path] = not path.startswith((PACKAGE, "<frozen")) and "site-packages" not in path
        return found


_is_users = _Files()


def line_of() -> Line | None:
    """Return file and line of the innermost frame that is not sknet's or a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if _is_users[path]:
            return path, frame.f_lineno
        frame = frame.f_back
    return None


def shown(line: Line | None) -> str:
    """Return a line for a message: file, number, and the line's text."""
    if line is None:
        return "in sknet itself"
    text = linecache.getline(*line).strip()
    return f"in {line[0]}, line {line[1]}" + (f": `{text}`" if text else "")


def user_line() -> str:
    """Return where the user's code is: file, line, and the line's text.

    Returns
    -------
    str
        For a message.

    Examples
    --------
    >>> from sknet.core import user_line
    >>> user_line().startswith("in ")
    True
    """
    return shown(line_of())
