"""What the fake device takes, CuPy takes, and with the same dtypes: the rules that no signature states."""

import importlib
import itertools

import numpy as np
import pytest

from sknet.device import Device, backend
from tests.devices import fake, signatures
from tests.devices.test_signatures import DTYPES, UFUNCS, outcome

pytestmark = pytest.mark.gpu

FAKE, CUDA = (backend("fake"), Device("fake")), Device("cuda")


@pytest.fixture
def cupy():
    return importlib.import_module("cupy")


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_have_the_dtypes_of_the_table(cupy, name):
    """Of arrays without elements, for which CuPy compiles no kernel."""
    package, _, function = name.rpartition(".")
    theirs, check = getattr(importlib.import_module(package), function), signatures.check(name)
    for forms in itertools.product([*DTYPES, bool, int, float], repeat=theirs.nin):
        if any(isinstance(x, np.dtype) for x in forms):
            operands = tuple(cupy.empty(0, x) if isinstance(x, np.dtype) else x(1) for x in forms)
            expected = outcome(check, operands, {})
            if expected is not TypeError:
                assert theirs(*operands).dtype == expected[0], forms


CALLS = {
    "cupy.all": lambda xp, x, make: xp.all(x, axis=1, out=make(0)),
    "cupy.any": lambda xp, x, make: xp.any(x, axis=1, out=make(0)),
    "cupy.argmax": lambda xp, x, make: xp.argmax(x, axis=1, out=make(0)),
    "cupy.argmin": lambda xp, x, make: xp.argmin(x, axis=1, out=make(0)),
    "cupy.clip": lambda xp, x, make: xp.clip(x, 0, 1.5, out=make(0, 4)),
    "cupy.concatenate": lambda xp, x, make: xp.concatenate([x, x], out=make(0, 4)),
    "cupy.cumprod": lambda xp, x, make: xp.cumprod(x, axis=1, out=make(0, 4)),
    "cupy.cumsum": lambda xp, x, make: xp.cumsum(x, axis=1, out=make(0, 4)),
    "cupy.matmul": lambda xp, x, make: xp.matmul(x, x.T, out=make(0, 0)),
    "cupy.max": lambda xp, x, make: xp.max(x, axis=1, out=make(0)),
    "cupy.ndarray.all": lambda xp, x, make: x.all(axis=1, out=make(0)),
    "cupy.ndarray.any": lambda xp, x, make: x.any(axis=1, out=make(0)),
    "cupy.ndarray.dot": lambda xp, x, make: x.dot(x.T, out=make(0, 0)),
    "cupy.ndarray.sum": lambda xp, x, make: x.sum(axis=1, out=make(0)),
    "cupy.ndarray.take": lambda xp, x, make: x.take(xp.asarray([1]), axis=1, out=make(0, 1)),
    "cupy.prod": lambda xp, x, make: xp.prod(x, axis=1, out=make(0)),
    "cupy.stack": lambda xp, x, make: xp.stack([x, x], out=make(2, 0, 4)),
    "cupy.sum": lambda xp, x, make: xp.sum(x, axis=1, out=make(0)),
    "cupy.take": lambda xp, x, make: xp.take(x, xp.asarray([1]), axis=1, out=make(0, 1)),
    "a ufunc": lambda xp, x, make: xp.multiply(x, 1.5, out=make(0, 4)),
}  # fmt: skip
ERRORS = (TypeError, ValueError)


@pytest.mark.parametrize("name", CALLS)
def test_out_has_a_dtype_that_cupy_takes(cupy, name):
    taken = 0
    for dtype, of_out in itertools.product(DTYPES, DTYPES):
        if is_taken(FAKE, fake.cupy, name, dtype, of_out):
            assert is_taken((backend("cuda"), CUDA), cupy, name, dtype, of_out), (dtype, of_out)
            taken += 1
    assert taken


def is_taken(owner_and_device, xp, name, dtype, of_out):
    owner, device = owner_and_device
    try:
        x = owner.empty((0, 4), dtype, device)
        CALLS[name](xp, x, lambda *shape: owner.empty(shape, of_out, device))
    except ERRORS:
        return False
    return True


def test_every_rule_is_compared():
    assert CALLS.keys() - {"a ufunc"} == signatures.OUT.keys()


def test_cupy_adds_at_rows_in_the_dtypes_of_the_table(cupy):
    for letter in signatures.SCATTERED["cupy.add.at"]:
        x = cupy.zeros(3, letter)
        cupy.add.at(x, cupy.asarray([2, 0, 2]), cupy.ones(3, letter))
        assert x.tolist() == [1, 0, 2]


def test_cupy_refuses_out_of_min(cupy):
    """Where this fails, `sknet.device._cupy` and the rules of the fake device know too little of CuPy."""
    with pytest.raises(TypeError):
        cupy.min(cupy.ones((2, 3)), axis=1, out=cupy.empty(2))
