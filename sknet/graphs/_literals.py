"""Texts in generated Python files: literals, docstrings, comments, names, and functions that NumPy lacks.

Files are executed by whoever imports them, and what they are written from may come from anybody. So data get
into a file only through these functions.
"""

import ast
import builtins
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from sknet.compile._calls import identifier, unused
from sknet.exceptions import CaptureError

LONGEST = 4096  # bits of an integer in decimal digits, which Python limits


def literal(value: Any, array: Callable[[np.ndarray[Any, Any]], str] | None = None) -> str:
    """Return the Python expression of plain data."""
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
    r"""Return a text as it may stand between the three quotes of a docstring."""
    return _visible(text.replace("\\", r"\\").replace('"', r"\""))


def comment(text: str) -> str:
    """Return a text as it may stand in a comment: in one line, without invisible characters."""
    return _visible(" ".join(text.split()))


def _visible(text: str) -> str:
    """Escape control characters, line ends, marks of direction and surrogates."""
    return "".join([each if each.isprintable() else repr(each)[1:-1] for each in text])


# -- functions of the array namespace that NumPy lacks, written with NumPy's functions --------


# By name in the namespace: the definition of a function of this name, and its imports.
LACKING: dict[str, tuple[tuple[str, ...], str]] = {
    "erf": (
        ("import math",),
        '''
def erf(x):
    """Return the error function, computed by Python's."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(np.result_type(x, np.float16))
''',
    ),
    "erfc": (
        ("import math",),
        '''
def erfc(x):
    """Return 1 - erf(x), computed by Python's function."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(x)).astype(np.result_type(x, np.float16))
''',
    ),
    "expit": (
        (),
        '''
def expit(x):
    """Return 1 / (1 + exp(-x)), the logistic function, which is 0 where exp(-x) is infinite."""
    return 1 / (1 + np.exp(-1.0 * x))
''',
    ),
    "logit": (
        (),
        '''
def logit(x):
    """Return log(x / (1 - x)), whose inverse is the logistic function."""
    return np.log(x) - np.log1p(-x)
''',
    ),
    "xlogy": (
        (),
        '''
def xlogy(x, y):
    """Return x * log(y), which is 0 where x is 0."""
    is_zero = (x == 0) & ~np.isnan(y)
    return np.where(is_zero, 0, x * np.log(np.where(is_zero, 1, y)))
''',
    ),
    "where": (
        (),
        '''
def where(condition, x, y):
    """Return x where the condition holds, and y elsewhere."""
    return np.where(condition, x, y)
''',
    ),
    "add_rows_at": (
        (),
        '''
def add_rows_at(out, rows, values):
    """Add values[i] to out[rows[i]] for every i in turn."""
    np.add.at(out, rows, values)
''',
    ),
    "in_threads": (
        (),
        '''
def in_threads(work, count, rooms):
    """Call work(i, room) for each i below count, one after the other."""
    for i in range(count):
        work(i, rooms[0])
''',
    ),
    "may_be_native": (
        (),
        '''
def may_be_native():
    """Return False: there is no native code."""
    return False
''',
    ),
    "small_products": (
        (),
        '''
def small_products():
    """Return 0: products of small matrices are as others."""
    return 0
''',
    ),
    "native_passes": (
        (),
        '''
def native_passes():
    """Return None: there is no native code."""
    return None
''',
    ),
}  # fmt: skip


# -- names: users choose those of parameters, inputs and primitives, and the file has others --


RESERVED = LACKING.keys() | vars(builtins).keys() | {"n", "np", "base64", "decoded"}
RESULT = re.compile(r"[vks]\d+")  # of an equation, a constant, or a size


class FileNames:
    def __init__(self, others: Collection[str] | None = ()) -> None:
        self.is_draft = others is None
        self._others = frozenset(others or ())
        self._taken = set(RESERVED)

    def of_user(self, name: str) -> str:
        name = f"given{len(self._taken)}" if self.is_draft else identifier(name)
        if RESULT.fullmatch(name):
            name += "_"
        return self.take(unused(name, self._taken | self._others))

    def of_file(self, name: str) -> str:
        return self.take(unused(name, self._taken))

    def take(self, name: str) -> str:
        """Note that a name is taken, and return it."""
        self._taken.add(name)
        return name


def names_in(text: str) -> set[str]:
    """Return the names of all that a Python file defines or uses."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias():
                found.add((node.asname or node.name).partition(".")[0])
    return found
