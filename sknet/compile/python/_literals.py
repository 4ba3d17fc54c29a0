"""Data in generated Python files: literals, docstrings and comments.

Files are executed by whoever imports them, and what they are written from may come from anybody. So data get
into a file only through these functions.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sknet.exceptions import CaptureError

__all__ = ["comment", "docstring", "literal"]

LONGEST = 4096  # bits of an integer in decimal digits, which Python limits


def literal(value: Any, array: Callable[[np.ndarray[Any, Any]], str] | None = None) -> str:
    """Return the Python expression of plain data.

    Parameters
    ----------
    value : object
        None, a bool, int, float, str, bytes, NumPy number or dtype, or a tuple, list, dict, set or slice of
        these; none of a derived class.
    array : callable, default=None
        Returns the expression of an array, which is refused without it.

    Returns
    -------
    str
        It evaluates to an equal value where NumPy is ``np``.

    Raises
    ------
    CaptureError
        If it is, or holds, anything else.

    Examples
    --------
    >>> from sknet.compile.extend import literal
    >>> print(literal(("it's", -0.5, float("inf"), {1: None})))
    ("it's", -0.5, np.inf, {1: None})
    """
    kind = type(value)
    if kind is np.ndarray and array is not None:
        return array(value)
    if isinstance(value, np.generic):
        return _number(value)
    if isinstance(value, np.dtype) and value.kind in "biuf":
        return f"np.dtype({value.name!r})"
    write = WRITERS.get(kind)
    if write is None:
        raise CaptureError(
            f"an object of type {kind.__name__} cannot be written in a Python file: expected numbers, "
            "texts, arrays, or containers of these"
        )
    return write(value, lambda part: literal(part, array))


def _number(value: np.generic) -> str:
    if isinstance(value, (np.str_, np.bytes_)):
        return literal(value.item())
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
        raise CaptureError(f"a number of dtype {value.dtype} cannot be written in a Python file")
    return f"np.{value.dtype.name}({literal(value.item())})"


def _int(value: int) -> str:
    return repr(value) if value.bit_length() < LONGEST else hex(value)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "np.nan" if value != value else "np.inf" if value > 0 else "-np.inf"


Write = Callable[[Any], str]


def _tuple(values: Iterable[Any], write: Write) -> str:
    parts = [write(each) for each in values]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _set(values: Iterable[Any], write: Write) -> str:
    return f"{{{', '.join(sorted(map(write, values)))}}}" if values else "set()"


def _dict(values: Mapping[Any, Any], write: Write) -> str:
    return f"{{{', '.join(f'{write(key)}: {write(item)}' for key, item in values.items())}}}"


WRITERS: Mapping[type, Callable[[Any, Write], str]] = {
    **dict.fromkeys((type(None), bool, str, bytes, type(...)), lambda value, _: repr(value)),
    int: lambda value, _: _int(value),
    float: lambda value, _: _float(value),
    tuple: _tuple,
    list: lambda values, write: f"[{', '.join(map(write, values))}]",
    dict: _dict,
    set: _set,
    frozenset: lambda values, write: f"frozenset({_set(values, write)})",
    slice: lambda value, write: f"slice({', '.join(map(write, (value.start, value.stop, value.step)))})",
}


def docstring(text: str) -> str:
    r"""Return a text as it may stand between the three quotes of a docstring.

    Parameters
    ----------
    text : str
        Any.

    Returns
    -------
    str
        In one line.

    Examples
    --------
    >>> from sknet.compile.extend import docstring
    >>> print(docstring('a "quoted"\nline'))
    a \"quoted\"\nline
    """
    return _visible(text.replace("\\", r"\\").replace('"', r"\""))


def comment(text: str) -> str:
    """Return a text as it may stand in a comment: in one line, without invisible characters.

    Parameters
    ----------
    text : str
        Any.

    Returns
    -------
    str
        In one line.

    Examples
    --------
    >>> from sknet.compile.extend import comment
    >>> comment("two" + chr(10) + "lines")
    'two lines'
    """
    return _visible(" ".join(text.split()))


def _visible(text: str) -> str:
    """Escape control characters, line ends, marks of direction and surrogates."""
    return "".join([each if each.isprintable() else repr(each)[1:-1] for each in text])
