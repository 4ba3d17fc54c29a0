"""What CuPy accepts, from tables that `record_signatures` has written with the oldest and the newest CuPy.

Calls of the fake device are checked: those that one of these versions refuses are refused with an error of
the same class. Accepted forms of calls are remembered, so a check takes about a microsecond.
"""

import inspect
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["COMMAND", "OUT", "SCATTERED", "TABLES", "bind", "check", "entry", "loop_of", "missing", "names"]

COMMAND = "python -m tests.devices.record_signatures"
TABLES: dict[str, dict[str, Any]] = {
    path.stem.removeprefix("cupy-"): json.loads(path.read_text())
    for path in sorted(Path(__file__).parent.glob("cupy-*.json"))
}

# -- what no signature says; tests/gpu/test_signatures.py compares it with CuPy -----------------


class Out(NamedTuple):
    """How a result may be cast to the dtype of `out`; how many arguments the result is made from; and whether
    CuPy changes the strides of `out` if the first is in Fortran order, as its reductions do."""

    casting: str
    sources: int
    turns: bool = False


ANY, REDUCED = Out("unsafe", 1), Out("unsafe", 1, turns=True)
# Functions other than ufuncs that take `out=`. CuPy's min has it too, but confuses it with the dtype.
OUT = {
    **dict.fromkeys(("cupy.cumprod", "cupy.cumsum"), ANY),
    **{f"cupy.{name}": REDUCED for name in ("all", "any", "argmax", "argmin", "max", "prod", "sum")},
    **{f"cupy.ndarray.{name}": REDUCED for name in ("all", "any", "sum")},
    **dict.fromkeys(("cupy.take", "cupy.ndarray.take"), Out("no", 1)),
    **dict.fromkeys(("cupy.concatenate", "cupy.stack"), Out("same_kind", 1)),
    "cupy.clip": Out("same_kind", 3),
    "cupy.matmul": Out("same_kind", 2),
    "cupy.ndarray.dot": Out("no", 2),
}
# What CUDA adds atomically, in CuPy 14.0; CuPy 14.2 adds int64 too.
SCATTERED = {"cupy.add.at": "iILefd"}


# -- the table --------------------------------------------------------------------------------


def names() -> list[str]:
    """Return the names that all versions of CuPy have."""
    return sorted(set.intersection(*map(set, TABLES.values())))


def missing(name: str) -> str:
    """Return what to do about a name that is not in the tables."""
    return (
        f"{name} is not among the signatures of CuPy {' and '.join(TABLES)} in tests/devices: if CuPy has "
        f"it, {COMMAND} records it, in an environment with each of these versions"
    )


def entry(name: str, version: str) -> Any:
    """Return what a version of CuPy says about a function.

    Raises
    ------
    AttributeError
        If it is not in the table.
    """
    if name not in TABLES[version]:
        raise AttributeError(missing(name))
    return TABLES[version][name]


@cache
def signature(name: str, version: str) -> inspect.Signature:
    """Return a function's signature."""
    return inspect.signature(eval(f"lambda {_text(name, version)[1:-1]}: None"))


def _text(name: str, version: str) -> str:
    found = entry(name, version)
    return found if isinstance(found, str) else found["signature"]


def bind(name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by their names.

    Raises
    ------
    TypeError
        If a version of CuPy does not take them.
    """
    for version in TABLES:
        try:
            bound = signature(name, version).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{name}: {error}: CuPy {version} has {name.rpartition('.')[2]}{_text(name, version)}"
            ) from None
    return bound.arguments


# -- checks -----------------------------------------------------------------------------------


def check(name: str) -> Callable[..., tuple[np.dtype, ...] | None]:
    """Return a function of the arguments of a call that raises what CuPy would raise.

    It returns the dtypes of a ufunc's results.

    Raises
    ------
    AttributeError
        If the name is not in the table.
    """
    is_ufunc = {isinstance(entry(name, version), dict) for version in TABLES}
    return (_UfuncCheck if is_ufunc == {True} else _Check)(name)


class _Check:
    """The check of a function."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._accepted: set[tuple[Any, ...]] = set()
        parameters = list(signature(name, min(TABLES)).parameters.values())
        places = [i for i, p in enumerate(parameters) if p.name == "out" and p.kind is not p.KEYWORD_ONLY]
        self._place = places[0] if places else math.inf

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        form = (len(args), *kwargs)
        if form not in self._accepted:
            bind(self._name, *args, **kwargs)
            self._accepted.add(form)
        out = args[self._place] if len(args) > self._place else kwargs.get("out")
        if out is not None:
            self._check_out(args, out)

    def _check_out(self, args: tuple[Any, ...], out: Any) -> None:
        rule = OUT.get(self._name)
        if rule is None:
            raise TypeError(f"{self._name} refuses out=, in all versions of CuPy")
        first = args[0]
        if rule.turns and first.flags.f_contiguous and not first.flags.c_contiguous:
            raise TypeError(f"{self._name} of an array in Fortran order changes the strides of out in CuPy")
        if rule.casting != "unsafe":
            sources = first if isinstance(first, (list, tuple)) else args[: rule.sources]
            forms = tuple(map(_form, sources))
            if (out.dtype, forms) not in self._accepted:
                made = np.result_type(*(x(0) if x in WEAK else x for x in forms if x))
                _check_cast(self._name, made, out, rule.casting)
                self._accepted.add((out.dtype, forms))


class _UfuncCheck:
    """The check of a ufunc, whose loops are tried in turn, as CuPy does."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._accepted: dict[tuple[Any, ...], tuple[np.dtype, ...]] = {}
        kinds = entry(name, min(TABLES))["types"].split()[0].partition("->")
        self._count = len(kinds[0])

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[np.dtype, ...]:
        forms = tuple(map(_form, args))
        given = ((name, _form(x) if name == "out" else str(x)) for name, x in kwargs.items())
        key = (forms, *given) if kwargs else forms
        found = self._accepted.get(key)
        if found is None:
            found = self._accepted[key] = self._resolved(args, kwargs, forms[: self._count])
        return found

    def _resolved(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], forms: tuple[Any, ...]
    ) -> tuple[np.dtype, ...]:
        bind(self._name, *args, **kwargs)
        results = set()
        for version in TABLES:
            made = loop_of(self._name, version, forms, kwargs.get("dtype"))
            out = kwargs.get("out", args[self._count] if len(args) > self._count else None)
            if out is not None:
                _check_cast(self._name, made[0], out, kwargs.get("casting", "same_kind"))
            results.add(made)
        if len(results) > 1:
            raise TypeError(f"{self._name} of {forms} has results of {results}, by version of CuPy")
        return results.pop()


def _form(x: Any) -> Any:
    """Return an array's dtype, and the type of a Python number, whose dtype is weak."""
    found = getattr(x, "dtype", None)
    if found is None and x is not None:
        found = type(x)
        if found not in WEAK:
            raise TypeError(f"Unsupported type {found}")
    return found


WEAK = {bool: 0, int: 1, float: 2, complex: 2}
KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 2}


def _check_cast(name: str, made: np.dtype, out: Any, casting: str) -> None:
    if not np.can_cast(made, out.dtype, casting):
        raise TypeError(
            f"{name}: Cannot cast output operand from {made!r} to {out.dtype!r} with casting rule {casting!r}"
        )


@cache
def loop_of(name: str, version: str, forms: tuple[Any, ...], dtype: Any = None) -> tuple[np.dtype, ...]:
    """Return the dtypes of a ufunc's results, of operands of some dtypes and weak types.

    The rules are those of `_Ops.guess_routine` in cupy/_core/_kernel.pyx: the first loop to whose types the
    operands can be cast safely.

    Raises
    ------
    TypeError
        If CuPy has no such loop.
    """
    kinds = entry(name, version)["types"]
    is_weak = _uses_weak(forms)
    for operands, results in _loops(kinds):
        if dtype is None:
            is_found = all(_fits(form, to, is_weak) for form, to in zip(forms, operands, strict=True))
        else:
            is_found = results is not REFUSED and results[0] == dtype
        if is_found and results is not REFUSED:
            return results
        if is_found:
            break
    said = ", ".join(str(x) if isinstance(x, np.dtype) else x.__name__ for x in forms)
    to = "" if dtype is None else f" with dtype={dtype}"
    raise TypeError(f"Wrong type ({said}) of arguments for {name}{to}: CuPy {version} has {kinds}")


REFUSED = ("!",)  # in place of results: CuPy has such a loop only for its error message


@cache
def _loops(kinds: str) -> list[tuple[tuple[np.dtype, ...], ...]]:
    pairs = [kind.split("->") for kind in kinds.split()]
    return [(tuple(map(np.dtype, x)), REFUSED if y == "!" else tuple(map(np.dtype, y))) for x, y in pairs]


def _uses_weak(forms: tuple[Any, ...]) -> bool:
    """Tell whether numbers follow the arrays: not if they are of a higher kind."""
    numbers = [WEAK[x] for x in forms if x in WEAK and x is not bool]
    arrays = [KINDS[np.dtype(x).kind] for x in forms if x not in WEAK or x is bool]
    return bool(numbers and arrays) and max(arrays) >= max(numbers)


def _fits(form: Any, to: np.dtype, is_weak: bool) -> bool:
    if np.can_cast(np.dtype(form), to):
        return True
    return is_weak and form in WEAK and form is not bool and np.result_type(form(0), to) == to
