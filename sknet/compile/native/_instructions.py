"""Instructions: rows of integers that the C extension carries out, and the addresses and layouts in them."""

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

# -- addresses: of arrays, and of the C functions that do the work of NumPy's plan -----------------


# The addresses of an inner loop of a ufunc, which needs no interpreter, and of its data:
# ``loop(arguments, lengths, strides, data)``.
Loop = tuple[int, int]


class _UFunc(ctypes.Structure):
    """The fields of a PyUFuncObject after its header (numpy/ufuncobject.h), as far as needed."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    )


@cache
def loop_of(function: Any, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    """Return the loop of one of NumPy's ufuncs for operands and result of these dtypes, if it has one."""
    if not isinstance(function, np.ufunc) or getattr(np, function.__name__, None) is not function:
        return None
    return _loop(function, dtypes)


@cache
def loop_of_products(dtype: np.dtype[Any]) -> Loop | None:
    """Return the loop of NumPy's matrix product for operands and result of a dtype."""
    return loop_of(np.matmul, (dtype, dtype, dtype)) if dtype.isnative else None


def address_of(x: Any) -> int:
    """Return the address of an array's first element, or 0 for None."""
    return 0 if x is None else ctypes.c_size_t.from_address(id(x) + object.__basicsize__).value


def _loop(ufunc: Any, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    kinds, chars = ufunc.types, "".join([x.char if x.isnative else " " for x in dtypes])
    wanted = f"{chars[:-1]}->{chars[-1]}"
    found = _UFunc.from_address(id(ufunc) + object.__basicsize__)
    known = (found.nin, found.nout, found.nargs, found.ntypes, found.name)
    if known != (ufunc.nin, 1, ufunc.nargs, len(kinds), ufunc.__name__.encode()) or wanted not in kinds:
        return None
    first = kinds.index(wanted)
    address = found.functions[first]
    return None if not address else (address, found.data[first] or 0)


def level_1(function: Callable[..., Any]) -> tuple[str, np.dtype[Any], int] | None:
    """Return name, dtype and address if a function is one of SciPy's level-1 BLAS routines, else None."""
    found = _vectors().get(id(function))
    return None if found is None else found[1:]


@cache
def _vectors() -> dict[int, tuple[Any, str, np.dtype[Any], int]]:
    """Return the functions by their identity, each with what `level_1` returns."""
    from scipy.linalg import blas  # long to load, and forward passes do without

    found = {}
    for name in ("scal", "axpy"):
        for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            function = blas.get_blas_funcs(name, dtype=dtype)
            if (address := _address_in(function)) is not None:
                found[id(function)] = function, name, dtype, address
    return found


def _address_in(function: Any) -> int | None:
    capsule = getattr(function, "_cpointer", None)  # public: SciPy's manual describes it
    if capsule is None:
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, None)


# -- instructions: a function of the runner and its arguments, mostly addresses ---------------------

WIDTH = 32  # integers per instruction
TURN = 6  # integers per turn, see `turn` of native.h
MEANING = 31  # field of a loop that only `_fusion` reads: see `Meaning`
OPERANDS = 30  # field of a loop that may be carried out in parts: number of addresses, or 0
AXIS, SHARES = 30, 31  # fields of a product: the axis that is divided, and into how many shares
ANY_SHARES = 6  # field of a product: whether fewer shares, or none, have the same bits
GIVEN = ("int8", "uint8", "int16", "int32", "int64", "float32", "float64")
# Pairs of dtypes between which elements are converted; NumPy converts all others.
CONVERTED = tuple((a, b) for a in GIVEN for b in ("float32", "float64") if a != b)


def _numbered(names: str) -> SimpleNamespace:  # enumerations take a process a millisecond
    return SimpleNamespace(**{name: i for i, name in enumerate(names.split())})


# The first field; the others follow, in this order. `b` is the number of the step in a run.
Kind = _numbered(
    "LOOP BLAS SPREAD COPY CONVERT MASK REPLACE FILL PUT ADD_ROWS ADD_MULTIPLE BOUNDS TABLE HOST "
    "FINITE COUNTER NOTHING ADD_ROW_RELU MASK_POSITIVE DROPOUT CHAIN MOMENTS SQUARES QUOTIENTS "
    "STANDARDIZE CODED PRODUCT PAIRED"
)


# Operations of a matrix and a row or column that is broadcast to it.
Spread = _numbered("ADD_ROW SUBTRACT_COLUMN MULTIPLY_COLUMN DIVIDE_COLUMN")


# Loops that may be fused with a neighbouring instruction.
Meaning = _numbered("OTHER RELU IS_POSITIVE SQUARE ROOT SUM QUOTIENT PRODUCT")


class Tape:
    """Collects instructions, and keeps alive what they point to."""

    def __init__(self, shared: float = math.inf) -> None:
        self.shared = shared  # from so many multiplications on, shares of a product have one thread of BLAS
        self.rows: list[list[int]] = []
        self._alive: list[np.ndarray] = []
        self._numbers: dict[tuple[np.dtype, bytes], int] = {}

    def address(self, array: np.ndarray) -> int:
        """Return the address of an array, which is kept alive."""
        self._alive.append(array)
        return address_of(array)

    def number(self, value: float, dtype: np.dtype) -> int:
        """Return the address of a constant, the same for the same."""
        constant = np.array(value, dtype)
        key = constant.dtype, constant.tobytes()
        if key not in self._numbers:
            self._numbers[key] = self.address(constant)
        return self._numbers[key]

    def add(self, kind: int, *fields: int) -> int:
        """Append an instruction; return its position."""
        self.rows.append([kind, *map(int, fields), *[0] * (WIDTH - 1 - len(fields))])
        return len(self.rows) - 1

    def has_shares(self) -> bool:
        """Tell whether threads share a product."""
        return any(row[0] == Kind.PRODUCT and row[SHARES] > 1 for row in self.rows)

    def finished(self) -> np.ndarray:
        """Return all instructions: ndarray of shape (n, WIDTH), dtype=int64."""
        return np.array(self.rows, np.int64).reshape(-1, WIDTH)


# -- passes over arrays: fields that `sknet/_native/native.h` describes ------------------------------


# Kinds of passes over arrays.
Work = _numbered(
    "CONVOLVED WEIGHT ERFC LSTM_FORWARD LSTM_BACKWARD NORM NORM_GRADIENT LSTM_STEPS BY_TILES "
    "SUMS_OF_ROWS SCALED_ROWS LSTM_BACK_STEPS LARGEST PUT_LARGEST PIECE SHARE_OF_PRODUCT RIGHT"
)


# Images and their tiles.
Tile = _numbered(
    "X X_SAMPLE X_CHANNEL X_ROW X_COLUMN TILES STEP ROOM BIAS SAMPLES CHANNELS ROWS COLUMNS TOP "
    "LEFT TILE_ROWS TILE_COLUMNS"
)


# Products of tiles: SHAPE is the first of four lengths, STRIDES of nine steps in bytes.
Product = SimpleNamespace(
    MATMUL=0, MATMUL_DATA=1, LEFT=2, RIGHT=3, OUT=4, SHAPE=5, STRIDES=9, SUMS=18, SAMPLES=19, PART=20,
    GROUPS=21, APART=22,
)  # fmt: skip


# -- rows of tables: arguments are the address of a number for each `Field`, how many rows, the addresses of
# -- their indices among the chosen rows and in the table, of their outputs, and of memory for a row's numbers


# Fields that describe a table and its encoding: numbers, and addresses of arrays.
Field = _numbered(
    "NUMBERS STRIDE N_NUMBERS CENTERS N_VALUES KEPT MIDDLES SCALES IS_PHASE N_BINS BIN_NUMBERS LOW "
    "INVERSE SMALLEST LARGEST N_FLAGS FLAGS N_COLUMNS COLUMNS WIDTH STEP N_STEPS STEPS"
)


# Source of the codes of a column of levels.
Codes = _numbered("OF_TABLE OF_CHOSEN OF_NUMBER")


# -- layouts of arrays --------------------------------------------------------------------------

Array = np.ndarray[Any, Any]


def is_plain(*arrays: Any) -> bool:
    """Tell whether these are C-contiguous, aligned arrays."""
    return all(
        type(x) is np.ndarray and x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative
        for x in arrays
    )


def is_apart(out: Array, *operands: Array) -> bool:
    """Tell whether each operand has exactly the memory of the result, or none of it."""
    place = out.__array_interface__["data"][0], out.strides
    return all(
        (x.__array_interface__["data"][0], x.strides) == place or not np.may_share_memory(x, out)
        for x in operands
    )


def merged(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Return lengths, and strides of each array, after merging axes that are contiguous in all of them."""
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for i, n in enumerate(shape):
        if n == 1:
            continue
        here = [each[i] for each in strides]
        if lengths and all(own[-1] == n * step for own, step in zip(steps, here, strict=True)):
            lengths[-1] *= n
            for own, step in zip(steps, here, strict=True):
                own[-1] = step
        else:
            lengths.append(n)
            for own, step in zip(steps, here, strict=True):
                own.append(step)
    return (lengths, steps) if lengths else ([1], [[0] for _ in strides])


def offset(place: tuple[int, ...], steps: Sequence[int]) -> int:
    return sum(i * step for i, step in zip(place, steps, strict=False))


def strides_over(x: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (
        *[0] * (len(shape) - x.ndim),
        *[0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)],
    )


# -- loops --------------------------------------------------------------------------------------


def looped(
    tape: Tape,
    function: Loop,
    arrays: Sequence[Array],
    lengths: list[int],
    strides: list[list[int]],
    meaning: int = Meaning.OTHER,
    in_parts: bool = False,
    core: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> bool:
    """Append an inner loop over the last of up to three axes and a `core`, called for each other position."""
    if len(lengths) > 3:
        return False
    third, second, inner = [*[1] * (3 - len(lengths)), *lengths]
    of_third, of_second, of_inner = zip(*([*[0] * (3 - len(each)), *each] for each in strides), strict=True)
    sizes, steps = (inner, *core[0]), (*of_inner, *core[1])
    loop(
        tape, function, list(map(tape.address, arrays)), (second, of_second), sizes, steps, (third, of_third)
    )
    if len(lengths) == 1:
        tape.rows[-1][MEANING] = meaning
        tape.rows[-1][OPERANDS] = len(arrays) if in_parts else 0
    return True


def loop(
    tape: Tape, function: Loop, addresses: Sequence[int], often: tuple[int, Sequence[int]],
    lengths: Sequence[int], strides: Sequence[int], again: tuple[int, Sequence[int]] = (1, ()),
) -> None:  # fmt: skip
    tape.add(
        Kind.LOOP, *function, *padded(addresses, 4), often[0], *padded(often[1], 4),
        *padded(lengths, 4), *padded(strides, 9), again[0], *padded(again[1], 4),
    )  # fmt: skip


def padded(values: Sequence[int], length: int) -> list[int]:
    return [*values, *[0] * (length - len(values))]


# -- copies -------------------------------------------------------------------------------------


def fill(tape: Tape, out: Any, value: Any) -> bool:
    if not is_plain(out) or out.itemsize not in (1, 2, 4, 8) or type(value) not in (int, float, bool):
        return False
    bits = np.array(value, out.dtype).view(f"i{out.itemsize}").item()
    tape.add(Kind.FILL, out.itemsize, tape.address(out), bits, out.size)
    return True


def code(source: np.dtype[Any], target: np.dtype[Any]) -> int | None:
    """Return the size of the elements if they are copied, a negative number for a conversion, or None."""
    if source == target:
        return source.itemsize if source.itemsize in (1, 2, 4, 8) and source.kind in "biuf" else None
    pair = ("uint8" if source.kind == "b" else source.name), target.name
    return -1 - CONVERTED.index(pair) if pair in CONVERTED else None


def copy(
    tape: Tape, code: int, source: int, strides: Sequence[int], target: int, to: Sequence[int],
    lengths: tuple[int, int], rows: int = 0, by: tuple[int, int, int] = (0, 0, 0),
) -> int:  # fmt: skip
    """Append a copy of rows, converted if necessary; return its position."""
    kind, number = (Kind.COPY, code) if code > 0 else (Kind.CONVERT, -1 - code)
    return tape.add(kind, number, source, *strides, rows, target, *to, *lengths, *by)
