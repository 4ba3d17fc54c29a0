"""Every elementwise record in every executor, over ordinary and extreme values of every dtype that it takes.

What a record's forward computes with NumPy is compared with NumPy's plan, whose calls native code makes too,
and with what is generated from the scalar expression in C.
"""

import itertools
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.core import PRIMITIVES, Primitive, bind
from sknet.device import Device, active, backend, to_device
from sknet.exceptions import DtypeError
from tests.devices import fake

DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool")
PARAMS = {"astype": {"dtype": np.dtype("float64")}}
NUMBER = {"axpy": 2}  # operands that are a single number


def extremes(dtype, count):
    """Return values of every kind; fewer where there are three operands to combine."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = [0, 1, 2, 3, 7, 20, info.max, info.min, *([-1, -2, -13] if info.min else [])]
        return np.array(found[:count], dtype)
    info = np.finfo(dtype)
    found = [
        *(0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 0.7),
        *(0.5, -0.3, 2.0, -3.0, 7.25, 30.0, -90.0, 110.0, 1e-4),
        *(info.eps, info.tiny, -info.tiny, info.smallest_subnormal, info.max, -info.max, info.max / 3),
    ]  # fmt: skip
    return np.array(found[:count], dtype)


class Application(NamedTuple):
    """A record with all combinations of values as operands."""

    primitive: Primitive
    arrays: list[np.ndarray]
    params: dict
    expected: np.ndarray

    @property
    def dtype(self):
        return self.expected.dtype


@cache
def of_the_compiler():
    """Return the elementwise records that only programs have, from some that have them."""
    x, device = np.ones((256, 256), "float32"), Device(fake.FakeBackend.kind)
    there = to_device(x, device)
    with active(device, "tf32x3"):
        plans = [compile(ops.matmul, (there, there)).plan]
    plans.append(compile(lambda x: (2.0 * x, x), (x,), donate=(0,)).plan)
    plans.append(compile(lambda x: ops.where(x > 0, x, 0.0), (x,)).plan)
    found = {each.primitive.name: each.primitive for plan in plans for each in plan.equations}
    own = {name: found[name] for name in found.keys() - PRIMITIVES.keys()}
    assert own.keys() == {"axpy", "copy", "leading", "masked"}
    return own


def applications(dtype):
    """Apply every record that supports a dtype; the compiler's own only to floating-point numbers."""
    records = PRIMITIVES | of_the_compiler() if np.dtype(dtype).kind == "f" else PRIMITIVES
    elementwise = [p for p in records.values() if p.expression is not None]
    return [found for p in elementwise if (found := application(p, dtype)) is not None]


def application(primitive, dtype):
    params = PARAMS.get(primitive.name, {})
    for arity in (1, 2, 3):
        dtypes = ["bool" if i == primitive.condition else dtype for i in range(arity)]
        values = [extremes(kind, 24 if arity < 3 else 8) for kind in dtypes]
        try:
            _, result = primitive.shape(*[x[:1] for x in values], **params)
        except DtypeError:
            return None
        except TypeError:  # of another number of operands
            continue
        arrays = [np.array(x) for x in zip(*itertools.product(*values), strict=True)]
        arrays = [x.astype(kind) for x, kind in zip(arrays, dtypes, strict=True)]
        if primitive.name in NUMBER:
            arrays[NUMBER[primitive.name]] = np.array(0.7, dtype)
        with np.errstate(all="ignore"):
            try:
                expected = primitive.forward_on(backend("cpu"))(*arrays, **params)
            except ValueError:  # NumPy has no negative powers of integers
                return None
        assert expected.dtype == result
        return Application(primitive, arrays, params, expected)
    raise AssertionError(f"{primitive} takes no operands that are known here")


def check(applied, found, what):
    """Assert equal NaN and infinities, and numbers equal up to a few units in the last place."""
    expected, message = applied.expected, f"{applied.primitive.name} in {applied.dtype}, {what}"
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), message
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=message)
        return
    info = np.finfo(expected.dtype)
    wrong = ~np.isclose(found, expected, rtol=16 * info.eps, atol=2 * info.tiny, equal_nan=True)
    operands = np.broadcast_arrays(*applied.arrays)
    rows = [(*[x[i].item() for x in operands], found[i], expected[i]) for i in np.flatnonzero(wrong)]
    assert not rows, f"{message}: operands, found, expected: {rows[:10]}"


def function_of(applied):
    def function(*arrays):
        given = iter(arrays)
        return [bind(x.primitive, tuple(next(given) for _ in x.arrays), x.params) for x in applied]

    return function


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "relaxed"])
def test_the_plan_for_numpy(dtype, exact):
    for applied in applications(dtype):
        compiled = compile(function_of([applied]), tuple(applied.arrays), exact=exact)
        with np.errstate(all="ignore"):
            [found] = compiled(*applied.arrays)
        check(applied, found, "NumPy's plan")
        if exact and applied.primitive.name not in NUMBER:  # which are made where rounding may change
            np.testing.assert_array_equal(found, applied.expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_in_c(dtype, fake_device):
    applied = applications(dtype)
    arrays = tuple(x for each in applied for x in each.arrays)
    there = tuple(to_device(x, fake_device) for x in arrays)
    with np.errstate(all="ignore"):  # of what is called as a whole
        found = compile(function_of(applied), there)(*there)
    for each, result in zip(applied, found, strict=True):
        check(each, backend(fake_device.kind).to_host(result), "C")
