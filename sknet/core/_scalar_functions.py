"""The functions that scalar expressions may call: one row each, for NumPy and C."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sknet._scipy import SpecialFunction

__all__ = ["SCALAR_FUNCTIONS", "ScalarFunction", "check_functions"]

CALLED = re.compile(r"([A-Za-z_]\w*)\s*\(")
KEYWORDS = frozenset({"and", "else", "if", "not", "or"})  # a parenthesis after these is not a call


class ScalarFunction(NamedTuple):
    """One function in the languages that code is generated in.

    Attributes
    ----------
    numpy : callable
        The function on arrays; what the other columns have to agree with.
    c : str
        The function of C's library, in float32 with an f at the end; or, with braces, the text for
        floating-point arguments ``{0}``, ``{1}``.
    c_integers : str or None
        The text in C for arguments of integer dtype; None where the function is called on whole arrays, or
        where the text depends on the dtype: then whoever writes the code has it.

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
            "in sknet/core/_scalar_functions.py"
        )
