"""Primitives: the record from which an operation is computed, differentiated, traced and checked."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import index
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from sknet._constraints import is_integer, is_number, shown
from sknet._late import SpecialFunction
from sknet.device import Backend, Namespace
from sknet.exceptions import ShapeError


class ParamKind(NamedTuple):
    said: str
    fits: Callable[[Any, int], bool]


def _is_integer(x: Any) -> bool:
    return is_integer(x) and not isinstance(x, bool)


def tuple_of(kind: ParamKind) -> ParamKind:
    def fits(value: Any, ndim: int) -> bool:
        return isinstance(value, tuple) and all(kind.fits(item, ndim) for item in value)

    return ParamKind(f"a tuple, and each item {kind.said}", fits)


def one_of(*names: str) -> ParamKind:
    return ParamKind(f"one of {', '.join(map(repr, names))}", lambda x, _: type(x) is str and x in names)


def _is_index(x: Any, ndim: int) -> bool:
    if isinstance(x, slice):
        return all(part is None or _is_integer(part) for part in (x.start, x.stop, x.step))
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "biu"
    return x is None or x is ... or isinstance(x, (bool, np.bool)) or _is_integer(x)


INTEGER = ParamKind("an integer", lambda x, _: _is_integer(x))
LENGTH = ParamKind("an integer of 0 or more", lambda x, _: _is_integer(x) and x >= 0)
LENGTHS = tuple_of(LENGTH)
ONES = tuple_of(ParamKind("an integer of 1 or more", lambda x, _: _is_integer(x) and x >= 1))
PAIRS = tuple_of(
    ParamKind(
        "a pair of integers", lambda x, _: isinstance(x, tuple) and len(x) == 2 and all(map(_is_integer, x))
    )
)
AXIS = ParamKind("an axis, counted from the end", lambda x, ndim: _is_integer(x) and -ndim <= x < 0)
AXES = tuple_of(AXIS)
FROM_END = ParamKind("an axis of the result, counted from the end", lambda x, _: _is_integer(x) and x < 0)
FLAG = ParamKind("True or False", lambda x, _: isinstance(x, (bool, np.bool)))
NUMBER = ParamKind("a number", lambda x, _: is_number(x))
DTYPE = ParamKind("a dtype of tensors", lambda x, _: isinstance(x, np.dtype) and x.kind in "biuf")
INDEX = ParamKind(
    "an index: integers, slices, None, ..., arrays of integers or of truth values, or a tuple of these",
    lambda x, ndim: all(_is_index(part, ndim) for part in (x if isinstance(x, tuple) else (x,))),
)


# -- axes -------------------------------------------------------------------------------------
#
# A leading axis added later (many models at once) then needs no second implementation.


def normalize_axis(axis: int, ndim: int, op: str) -> int:
    """Return `axis` as a negative number, if it is one of `ndim`; errors name `op`.

    Parameters
    ----------
    axis : int
        The axis; a negative one counts from the end.
    ndim : int
        Number of axes of the array.
    op : str
        Name of the operation, for error messages.

    Returns
    -------
    int
        From ``-ndim`` to -1.

    Raises
    ------
    ShapeError
        If there is no such axis.
    TypeError
        If it is not an integer.

    Examples
    --------
    >>> from sknet.core import normalize_axis
    >>> normalize_axis(0, 3, "sum")
    -3
    >>> normalize_axis(3, 3, "sum")
    Traceback (most recent call last):
        ...
    sknet.exceptions.ShapeError: sum: axis 3 does not exist in an array with 3 axes
    """
    try:
        axis = index(axis)
    except TypeError:
        raise TypeError(f"{op}: an axis must be an integer, got {shown(axis)}") from None
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{op}: axis {axis} does not exist in an array with {ndim} axes")
    return axis if axis < 0 else axis - ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, op: str) -> tuple[int, ...]:
    """Return `axis` (one of `ndim`, several, None for all) as negative numbers; errors name `op`.

    Parameters
    ----------
    axis : int, sequence of int or None
        The axes; negative ones count from the end.
    ndim : int
        Number of axes of the array.
    op : str
        Name of the operation, for error messages.

    Returns
    -------
    tuple of int
        From ``-ndim`` to -1.

    Raises
    ------
    ShapeError
        If an axis does not exist, or is given twice.
    TypeError
        If it is not an integer.

    Examples
    --------
    >>> from sknet.core import normalize_axes
    >>> normalize_axes((0, -1), 3, "sum"), normalize_axes(None, 2, "sum")
    ((-3, -1), (-2, -1))
    >>> normalize_axes((0, -2), 2, "sum")
    Traceback (most recent call last):
        ...
    sknet.exceptions.ShapeError: sum: an axis is repeated in (0, -2)
    """
    if axis is None:
        return tuple(range(-ndim, 0))
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(axis, ndim, op),)  # type: ignore[arg-type]  # checked there
    axes = tuple([normalize_axis(a, ndim, op) for a in axis])
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op}: an axis is repeated in {tuple(axis)}")
    return axes


# -- functions of scalar expressions ----------------------------------------------------------

CALLED = re.compile(r"([A-Za-z_]\w*)\s*\(")
KEYWORDS = frozenset({"and", "else", "if", "not", "or"})  # a parenthesis after these is not a call


class ScalarFunction(NamedTuple):
    """One function in the languages that code is generated in.

    Attributes
    ----------
    numpy : callable
        The function on arrays, with which the other forms agree.
    c : str
        The function of C's library, in float32 with an f at the end; or, with braces, the text for
        floating-point arguments ``{0}``, ``{1}``.
    c_integers : str or None
        The text in C for arguments of integer dtype; None if the function is called on whole arrays, or if
        the text depends on the dtype and is part of the code generator.

    Examples
    --------
    >>> import numpy as np
    >>> SCALAR_FUNCTIONS["asinh"].in_c(["x3"], np.dtype("float32"))
    'asinhf(x3)'
    """

    numpy: Callable[..., Any]
    c: str
    c_integers: str | None = None

    def in_c(self, arguments: list[str], dtype: np.dtype[Any]) -> str | None:
        """Return a call in C on `arguments`, texts of values of a `dtype`; None where there is none."""
        if dtype.kind in "iu":
            return None if self.c_integers is None else self.c_integers.format(*arguments)
        if dtype.kind != "f":
            return None
        if "{" in self.c:
            return self.c.format(*arguments)
        return f"{self.c}{'f' if dtype.itemsize == 4 else ''}({', '.join(arguments)})"


SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    "abs": ScalarFunction(np.absolute, "fabs"),
    "acos": ScalarFunction(np.arccos, "acos"),
    "acosh": ScalarFunction(np.arccosh, "acosh"),
    "asin": ScalarFunction(np.arcsin, "asin"),
    "asinh": ScalarFunction(np.arcsinh, "asinh"),
    "atan": ScalarFunction(np.arctan, "atan"),
    "atan2": ScalarFunction(np.arctan2, "atan2"),
    "atanh": ScalarFunction(np.arctanh, "atanh"),
    "ceil": ScalarFunction(np.ceil, "ceil"),
    "copysign": ScalarFunction(np.copysign, "copysign"),
    "cos": ScalarFunction(np.cos, "cos"),
    "cosh": ScalarFunction(np.cosh, "cosh"),
    "erf": ScalarFunction(SpecialFunction("erf"), "erf"),
    "erfc": ScalarFunction(SpecialFunction("erfc"), "erfc"),
    "exp": ScalarFunction(np.exp, "exp"),
    "exp2": ScalarFunction(np.exp2, "exp2"),
    "expm1": ScalarFunction(np.expm1, "expm1"),
    "floor": ScalarFunction(np.floor, "floor"),
    "hypot": ScalarFunction(np.hypot, "hypot"),
    "invert": ScalarFunction(np.invert, "", c_integers="(~{0})"),
    # Macros in C and functions in CUDA: written out.
    "isfinite": ScalarFunction(np.isfinite, "({0} - {0} == 0)"),
    "isinf": ScalarFunction(np.isinf, "({0} == {0} && {0} - {0} != 0)"),
    "isnan": ScalarFunction(np.isnan, "({0} != {0})"),
    "left_shift": ScalarFunction(np.left_shift, ""),
    "log": ScalarFunction(np.log, "log"),
    "log10": ScalarFunction(np.log10, "log10"),
    "log1p": ScalarFunction(np.log1p, "log1p"),
    "log2": ScalarFunction(np.log2, "log2"),
    "nextafter": ScalarFunction(np.nextafter, "nextafter"),
    "pow": ScalarFunction(np.power, "pow"),
    "right_shift": ScalarFunction(np.right_shift, ""),
    "rint": ScalarFunction(np.rint, "rint"),
    "signbit": ScalarFunction(np.signbit, "(copysign(1.0, {0}) < 0)"),
    "sin": ScalarFunction(np.sin, "sin"),
    "sinh": ScalarFunction(np.sinh, "sinh"),
    "sqrt": ScalarFunction(np.sqrt, "sqrt"),
    "tan": ScalarFunction(np.tan, "tan"),
    "tanh": ScalarFunction(np.tanh, "tanh"),
    "trunc": ScalarFunction(np.trunc, "trunc"),
}


def check_functions(primitive: str, expression: str) -> None:
    """Raise ValueError if the expression of a primitive calls a function that the table does not have."""
    missing = sorted(set(CALLED.findall(expression)) - SCALAR_FUNCTIONS.keys() - KEYWORDS)
    if missing:
        raise ValueError(
            f"the expression of the primitive {primitive!r}, {expression!r}, calls {', '.join(missing)}, "
            "which cannot be translated: add a row with its names in NumPy and C to SCALAR_FUNCTIONS, "
            "in sknet/core/_primitive.py"
        )


Saves = Literal["inputs", "output", "both", "nothing"]
Shape = tuple[int, ...]
ShapeAndDtype = tuple[Shape, np.dtype[Any]]


class Forward(Protocol):
    def __call__(self, xp: Namespace, /, *arrays: Any, **params: Any) -> Any:
        """Return an array, computed from `arrays` by the functions of `xp`."""


class ShapeRule(Protocol):
    def __call__(self, *arrays: Any, **params: Any) -> ShapeAndDtype:
        """Return shape and dtype of the result of `arrays`, of which only shapes and dtypes matter."""


class VjpRule(Protocol):
    def __call__(self, g: Any, out: Any, /, *inputs: Any, **params: Any) -> Any:
        """Return the gradient of an operand from the gradient `g` of the result `out`, in operations."""


class ViewRule(Protocol):
    def __call__(self, xp: Namespace, /, *arrays: Any, **params: Any) -> Any:
        """Return a view of the only one of `arrays`, or None where it has to be copied."""


class ScratchRule(Protocol):
    """Tells how much working memory a forward needs."""

    def __call__(self, *arrays: Any, **params: Any) -> Sequence[ShapeAndDtype]:
        """Return shape and dtype of each array."""


PRIMITIVES: dict[str, "Primitive"] = {}


class Primitive:
    """One operation and all its rules.

    Parameters
    ----------
    name : str
        Unique name; `PRIMITIVES` lists all.

    Attributes
    ----------
    forward : str or callable
        The namespace's function of this name, or ``forward(xp, *arrays, **params) -> array`` on
        any array namespace; where `writes_out` is true it also takes ``out=``.
    shape : callable
        ``shape(*arrays, **params) -> (shape, dtype)`` from objects with a shape and a dtype;
        raises `ShapeError` where the operands do not fit.
    params : mapping of str to ParamKind, or None
        Kind of each static parameter; graphs with other parameters are invalid. None declares nothing.
    vjp : tuple of callables, or None
        One rule per operand: ``rule(g, out, *inputs, **params)`` returns that operand's share of
        the gradient, **in differentiable operations**; None for an operand that has
        no gradient, None altogether where the operation has none.
    saves : {"inputs", "output", "both", "nothing"}
        The arrays whose values the vjp rules read; of all others they only get shape and dtype, so that the
        memory can be freed.
    expression : str or None
        For an elementwise operation, one element of the result as a Python expression of ``x``, ``y`` and
        ``z``, elements of the operands. Compiled code is generated from it, so it must agree with `forward`
        for NaN and infinities, too. It may use operators, comparisons, conditional expressions and the
        functions of `SCALAR_FUNCTIONS`.
    condition : int or None
        The position of a boolean operand, whose dtype does not affect that of the result; None if there is
        none.
    overwrites : tuple of int
        Positions of the operands that the output may overwrite while it is computed: by default all of
        an elementwise operation, and none of any other.
    view : callable or None
        ``view(xp, array, **params)`` returns the result as a view of the memory of `array`, the only
        operand, or None where it has to be copied; None for an operation that computes.
    tape_only : bool
        Whether the result is the first operand itself, and the operation affects only the tape: a
        captured function leaves it out.
    writes_out : bool
        Whether `forward` takes ``out=``.
    lays_out : bool
        Whether `forward` lays out its operands itself, so that their strides have no influence on the
        result's bits. That of an elementwise operation never depends on them.
    scratch : callable or None
        ``scratch(*arrays, **params)`` lists shape and dtype of the temporary arrays that `forward` needs
        and, where memory is planned, takes as ``scratch=``; None if it needs none.

    Raises
    ------
    TypeError
        If the name is not a str.
    ValueError
        If a primitive of this name exists.

    Examples
    --------
    >>> from sknet.core import PRIMITIVES
    >>> PRIMITIVES["add"].expression
    'x + y'
    >>> PRIMITIVES["where"].condition
    0
    """

    __slots__ = (
        "_forwards", "condition", "expression", "forward", "lays_out", "name", "overwrites", "params",
        "saves", "scratch", "shape", "tape_only", "view", "vjp", "writes_out",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a primitive must be a str, got {shown(name)}")
        if name in PRIMITIVES:
            raise ValueError(f"a primitive named {name!r} exists already: give this one another name")
        self.name = name
        PRIMITIVES[name] = self

    def define(
        self,
        *,
        forward: str | Forward,
        shape: ShapeRule,
        vjp: Iterable[VjpRule | None] | None,
        params: Mapping[str, ParamKind] | None = None,
        saves: Saves = "inputs",
        expression: str | None = None,
        condition: int | None = None,
        overwrites: tuple[int, ...] | None = None,
        view: ViewRule | None = None,
        tape_only: bool = False,
        writes_out: bool = True,
        lays_out: bool = False,
        scratch: ScratchRule | None = None,
    ) -> "Primitive":
        """Attach all rules and return the primitive.

        See the attributes of the class for `forward`, `shape`, `params`, `vjp`, `saves`, `expression`,
        `condition`, `overwrites`, `view`, `tape_only`, `writes_out`, `lays_out` and `scratch`.

        Raises
        ------
        ValueError
            If the expression calls a function that `SCALAR_FUNCTIONS` does not have.
        """
        if expression is not None:
            check_functions(self.name, expression)
        self.forward = forward
        self._forwards: dict[Backend, Callable[..., Any]] = {}
        self.shape = shape
        self.params = params
        self.vjp = vjp
        self.saves = saves
        self.expression = expression
        self.condition = condition
        self.overwrites = ((0, 1, 2) if expression is not None else ()) if overwrites is None else overwrites
        self.view = view
        self.tape_only = tape_only
        self.writes_out = writes_out
        self.lays_out = lays_out
        self.scratch = scratch
        return self

    def result(self, operands: tuple[Any, ...], params: Mapping[str, Any]) -> ShapeAndDtype:
        """Return shape and dtype of the result of `operands` by the shape rule, after a check of `params`.

        Raises
        ------
        TypeError
            If a parameter is not of the declared kind.
        ShapeError, DtypeError
            If the operands do not fit.
        """
        if params and self.params is not None:
            ndim = len(getattr(operands[0], "shape", ())) if operands else 0
            for name, value in params.items():
                kind = self.params.get(name)
                if kind is None:
                    raise TypeError(f"{self.name} has no parameter {name!r}: it has {', '.join(self.params)}")
                if not kind.fits(value, ndim):
                    raise TypeError(f"{self.name}: {name} must be {kind.said}, got {value!r:.80}")
        return self.shape(*operands, **params)

    def values(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return all `operands` except the condition."""
        at = self.condition
        return operands if at is None else operands[:at] + operands[at + 1 :]

    def forward_on(self, owner: Backend) -> Callable[..., Any]:
        """Return the forward on the backend `owner`: ``forward(*arrays, **params)``."""
        found = self._forwards.get(owner)
        if found is None:
            forward = self.forward
            found = getattr(owner.xp, forward) if isinstance(forward, str) else partial(forward, owner.xp)
            self._forwards[owner] = found
        return found

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)


def _by_name(name: str) -> Primitive:
    return PRIMITIVES[name]


# What Python's operators and Tensor's methods need; their rules are attached in sknet.ops.
add = Primitive("add")
subtract = Primitive("subtract")
multiply = Primitive("multiply")
divide = Primitive("divide")
power = Primitive("pow")
floor_divide = Primitive("floor_divide")
remainder = Primitive("remainder")
negative = Primitive("negative")
positive = Primitive("positive")
absolute = Primitive("abs")
exp = Primitive("exp")
log = Primitive("log")
sqrt = Primitive("sqrt")
less = Primitive("less")
less_equal = Primitive("less_equal")
greater = Primitive("greater")
greater_equal = Primitive("greater_equal")
equal = Primitive("equal")
not_equal = Primitive("not_equal")
bitwise_and = Primitive("bitwise_and")
bitwise_or = Primitive("bitwise_or")
bitwise_xor = Primitive("bitwise_xor")
bitwise_invert = Primitive("bitwise_invert")
bitwise_left_shift = Primitive("bitwise_left_shift")
bitwise_right_shift = Primitive("bitwise_right_shift")
matmul = Primitive("matmul")
total = Primitive("sum")
maximum_of = Primitive("max")
minimum_of = Primitive("min")
reshape = Primitive("reshape")
permute_dims = Primitive("permute_dims")
getitem = Primitive("getitem")
take = Primitive("take")
setitem = Primitive("setitem")
astype = Primitive("astype")
