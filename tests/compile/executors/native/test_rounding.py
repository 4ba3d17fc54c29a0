"""What the compiler may make of the generated loops: sums in another order, and nothing else."""

import itertools

import numpy as np
import pytest

from sknet.compile.executors.native._text import HEAD

pytest.importorskip("numba", reason="the native executor needs Numba: install sknet[fast]")

# Two operations each, of arrays and of numbers that are the same for all elements of a loop.
PATTERNS = (
    "(x[i] {0} a) {1} b", "b {1} (a {0} x[i])", "(x[i] {0} y[i]) {1} y[i]", "y[i] {1} (x[i] {0} y[i])",
    "(x[i] {0} a) {1} (y[i] {0} a)", "(x[i] {0} a) {1} (x[i] {0} b)", "(x[i] {0} y[i]) {1} (y[i] {0} x[i])",
)  # fmt: skip
FORMS = [pattern.format(*pair) for pattern in PATTERNS for pair in itertools.product("+-*/", repeat=2)]


def values(dtype):
    info = np.finfo(dtype)
    found = [0.0, -0.0, 1.0, -1.5, 0.7, 3.0, np.nan, np.inf, -np.inf, info.max, -info.max / 3, info.tiny]
    return np.array([*found, -info.smallest_subnormal, 1 / info.max, info.eps, 1e30, -1e-30], dtype)


def compiled(source, dtype):
    names = {}
    exec(HEAD.format(dtype=dtype) + "@loops\n" + source, names)
    return names["function"]


def test_two_operations_are_those_of_numpy():
    """Bit for bit: infinite, NaN or zero in the same places, whatever the operands."""
    dtype = "float32"
    lines = [f"        out[{k}, i] = {form}\n" for k, form in enumerate(FORMS)]
    function = compiled(
        f"def function(x, y, a, b, out):\n    for i in range(x.size):\n{''.join(lines)}", dtype
    )
    x, y = (each.ravel() for each in np.meshgrid(values(dtype), values(dtype)))
    found = np.zeros((len(FORMS), x.size), dtype)
    plain = [compile(form.replace("[i]", ""), form, "eval") for form in FORMS]
    for a, b in itertools.product(values(dtype)[::2], repeat=2):
        function(x, y, a, b, found)
        with np.errstate(all="ignore"):
            expected = np.array([eval(form, {"x": x, "y": y, "a": a, "b": b}) for form in plain])
        wrong = np.argwhere((found != expected) & ~(np.isnan(found) & np.isnan(expected)))
        rows = [(FORMS[k], x[i], y[i], a, b, found[k, i], expected[k, i]) for k, i in wrong[:10]]
        assert not rows, f"form, x, y, a, b, found, expected: {rows}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("total", ["float32", "float64"])
def test_sums_may_be_in_another_order(dtype, total):
    function = compiled(
        "def function(x, y):\n"
        "    a, b = np." + total + "(0.0), np." + total + "(0.0)\n"
        "    for i in range(x.size):\n"
        "        a = plus(a, x[i])\n"
        "        b = plus_product(b, x[i], y[i])\n"
        "    return a, b\n",
        dtype,
    )
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1003)).astype(dtype)
    eps = max(np.finfo(dtype).eps if dtype == total else 0, np.finfo(total).eps)
    for found, terms in zip(function(x, y), (x, x.astype(float) * y), strict=True):
        assert abs(found - terms.sum(dtype=float)) < 100 * eps * np.abs(terms).sum()
    for bad in (np.nan, np.inf, -np.inf):
        x[17] = bad
        np.testing.assert_array_equal(function(x, y), [bad, bad * np.sign(y[17])])
