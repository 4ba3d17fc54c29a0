"""The functions that scalar expressions may call: one row each, for NumPy, C and Numba."""

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
    numba : str
        What Numba knows it as. `sknet.compile.executors.native` has functions of its own for some, which
        are made for vectorised loops and take precedence.
    c_integers : str or None
        The text in C for arguments of integer dtype; None where the function is called on whole arrays.

    Examples
    --------
    >>> import numpy as np
    >>> SCALAR_FUNCTIONS["asinh"].in_c(["x3"], np.dtype("float32"))
    'asinhf(x3)'
    """

    numpy: Callable[..., Any]
    c: str
    numba: str
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


# Rounding functions and predicates are NumPy's in Numba too: math's versions return integers.
SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    "abs": ScalarFunction(np.absolute, "fabs", "abs", c_integers="({0} < 0 ? -{0} : {0})"),
    "acos": ScalarFunction(np.arccos, "acos", "np.arccos"),
    "acosh": ScalarFunction(np.arccosh, "acosh", "np.arccosh"),
    "asin": ScalarFunction(np.arcsin, "asin", "np.arcsin"),
    "asinh": ScalarFunction(np.arcsinh, "asinh", "np.arcsinh"),
    "atan": ScalarFunction(np.arctan, "atan", "np.arctan"),
    "atan2": ScalarFunction(np.arctan2, "atan2", "np.arctan2"),
    "atanh": ScalarFunction(np.arctanh, "atanh", "np.arctanh"),
    "ceil": ScalarFunction(np.ceil, "ceil", "np.ceil"),
    "copysign": ScalarFunction(np.copysign, "copysign", "np.copysign"),
    "cos": ScalarFunction(np.cos, "cos", "math.cos"),
    "cosh": ScalarFunction(np.cosh, "cosh", "np.cosh"),
    "erf": ScalarFunction(SpecialFunction("erf"), "erf", "math.erf"),
    "erfc": ScalarFunction(SpecialFunction("erfc"), "erfc", "math.erfc"),
    "exp": ScalarFunction(np.exp, "exp", "math.exp"),
    "exp2": ScalarFunction(np.exp2, "exp2", "np.exp2"),
    "expm1": ScalarFunction(np.expm1, "expm1", "math.expm1"),
    "floor": ScalarFunction(np.floor, "floor", "np.floor"),
    "hypot": ScalarFunction(np.hypot, "hypot", "np.hypot"),
    "invert": ScalarFunction(np.invert, "", "np.invert", c_integers="(~{0})"),
    # Macros in C and functions in CUDA: written out.
    "isfinite": ScalarFunction(np.isfinite, "({0} - {0} == 0)", "np.isfinite"),
    "isinf": ScalarFunction(np.isinf, "({0} == {0} && {0} - {0} != 0)", "np.isinf"),
    "isnan": ScalarFunction(np.isnan, "({0} != {0})", "np.isnan"),
    "left_shift": ScalarFunction(np.left_shift, "", "np.left_shift"),
    "log": ScalarFunction(np.log, "log", "math.log"),
    "log10": ScalarFunction(np.log10, "log10", "np.log10"),
    "log1p": ScalarFunction(np.log1p, "log1p", "math.log1p"),
    "log2": ScalarFunction(np.log2, "log2", "np.log2"),
    "nextafter": ScalarFunction(np.nextafter, "nextafter", "np.nextafter"),
    "pow": ScalarFunction(np.power, "pow", "pow"),
    "right_shift": ScalarFunction(np.right_shift, "", "np.right_shift"),
    "rint": ScalarFunction(np.rint, "rint", "np.rint"),
    "signbit": ScalarFunction(np.signbit, "(copysign(1.0, {0}) < 0)", "np.signbit"),
    "sin": ScalarFunction(np.sin, "sin", "math.sin"),
    "sinh": ScalarFunction(np.sinh, "sinh", "np.sinh"),
    "sqrt": ScalarFunction(np.sqrt, "sqrt", "math.sqrt"),
    "tan": ScalarFunction(np.tan, "tan", "np.tan"),
    "tanh": ScalarFunction(np.tanh, "tanh", "math.tanh"),
    "trunc": ScalarFunction(np.trunc, "trunc", "np.trunc"),
}


def check_functions(primitive: str, expression: str) -> None:
    """Raise ValueError if the expression of a primitive calls a function that the table does not have."""
    missing = sorted(set(CALLED.findall(expression)) - SCALAR_FUNCTIONS.keys() - KEYWORDS)
    if missing:
        raise ValueError(
            f"the expression of the primitive {primitive!r}, {expression!r}, calls {', '.join(missing)}, "
            "which cannot be translated: add a row with its names in NumPy, C and Numba to SCALAR_FUNCTIONS, "
            "in sknet/core/_scalar_functions.py"
        )
