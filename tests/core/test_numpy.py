"""NumPy's functions called with tensors: elementwise ones compute, others raise and suggest an op."""

from functools import partial

import numpy as np
import pytest

from sknet import Tensor, no_grad, ops
from sknet.compile import capture, compile
from sknet.exceptions import CaptureError, GradientError
from tests.combinations import every

POSITIVE = np.random.default_rng(0).uniform(0.2, 0.9, (3, 4))
OTHER = np.random.default_rng(1).uniform(0.2, 0.9, (3, 4))
INTEGERS = np.array([[3, 1, 2, 0], [5, 7, 1, 2], [4, 4, 0, 1]])


# Functions that take arrays; the others create arrays from numbers.
MAKERS = {"arange", "eye", "full", "ones", "zeros"}
NAMES = [name for name in ops.__all__ if callable(getattr(np, name, None)) and name not in MAKERS]
UFUNCS = [name for name in NAMES if isinstance(getattr(np, name), np.ufunc)]
LISTS = {"concat", "stack"}  # of arrays, as one operand
MORE = {
    "astype": ("float32",),
    "broadcast_arrays": (OTHER,),
    "broadcast_to": ((2, 3, 4),),
    "clip": (0.3, 0.6),
    "expand_dims": (0,),
    "full_like": (2.0,),
    "linspace": (3.0, 5),
    "moveaxis": (0, 1),
    "outer": (OTHER,),
    "pad": (((1, 1), (0, 0)),),
    "quantile": (0.3,),
    "repeat": (2,),
    "reshape": ((4, 3),),
    "roll": (1,),
    "searchsorted": (0.5,),
    "split": (3,),
    "take": ([0, 2], 0),
    "take_along_axis": (INTEGERS[:1] % 3, 0),
    "tensordot": (OTHER.T, 1),
    "tile": ((2, 1),),
    "where": (POSITIVE, OTHER),
}
SHAPES = {"squeeze": (1, 3, 1), "searchsorted": (6,), "cumulative_sum": (5,), "cumulative_prod": (5,)}


def operands_of(ufunc):
    """Return operands for a NumPy function, of a kind that it accepts."""
    given = [POSITIVE + 1.5 * (ufunc.__name__ == "arccosh"), OTHER]
    if "matmul" in ufunc.__name__:
        given[1] = OTHER.T
    if ufunc.__name__.startswith(("bitwise", "left_shift", "right_shift", "invert")):
        given = [INTEGERS, INTEGERS[::-1]]
    return given[: ufunc.nin]


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, strict=True)


@every(name=UFUNCS)
def test_elementwise_functions_are_operations(name):
    ufunc, operation = getattr(np, name), getattr(ops, name)
    arrays = operands_of(ufunc)
    expected = ufunc(*arrays)
    for place, array in enumerate(arrays):  # each operand may be the tensor

        def called(function, x, place=place):
            return function(*[x if i == place else other for i, other in enumerate(arrays)])

        same(called(ufunc, Tensor(array)).numpy(), expected)
        same(compile(partial(called, ufunc), (array,))(array), expected)
        if array.dtype.kind != "f":
            continue
        x, y = (Tensor(array, requires_grad=True) for _ in range(2))
        found, theirs = called(ufunc, x), called(operation, y)
        assert found.requires_grad == theirs.requires_grad
        if found.requires_grad:
            found.sum().backward()
            theirs.sum().backward()
            same(x.grad.numpy(), y.grad.numpy())


def test_other_functions_say_what_to_use():
    for name in sorted({*NAMES} - {*UFUNCS}):
        function = getattr(np, name)
        array = (
            POSITIVE.reshape(-1)[: np.prod(SHAPES[name])].reshape(SHAPES[name])
            if name in SHAPES
            else POSITIVE
        )

        def called(x, name=name, function=function):
            if name == "einsum":
                return function("ij->j", x)
            return function([x, x] if name in LISTS else x, *MORE.get(name, ()))

        with pytest.raises(
            GradientError, match=rf"computes with arrays, .* use sknet\.ops\.{name}, or the values"
        ):
            called(Tensor(array, requires_grad=True))
        with pytest.raises(CaptureError, match=rf"reads the values .* use sknet\.ops\.{name}$"):
            capture(called, array)
        found, expected = called(Tensor(array)), called(array)
        for one, other in zip(
            *([x] if not isinstance(x, (tuple, list)) else x for x in (found, expected)), strict=True
        ):
            assert type(one) is type(other)
            same(one, other)


def test_functions_without_an_operation_are_unchanged():
    x = Tensor(POSITIVE, requires_grad=True)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((3, 4), 2, 12)
    with pytest.raises(GradientError, match="is converted to an array"):
        np.average(x)
    with pytest.raises(GradientError, match=r"np\.cbrt computes .* use the operations of sknet\.ops, or"):
        np.cbrt(x)
    same(np.average(x.detach()), np.average(POSITIVE))
    same(np.cbrt(x.detach()), np.cbrt(POSITIVE))
    with no_grad():
        same(np.amax(x), POSITIVE.max())


def test_options_and_methods_of_elementwise_functions():
    x, array = Tensor(POSITIVE, requires_grad=True), OTHER.copy()
    with pytest.raises(GradientError, match=r"np\.add\.reduce computes with arrays, .* use sknet\.ops\.add"):
        np.add.reduce(x)
    with pytest.raises(GradientError, match=r"np\.add with out= .*: use `a = a \+ x` in place of `a \+= x`"):
        array += x
    with pytest.raises(CaptureError, match=r"np\.add with out= .* use `a = a \+ x` in place of `a \+= x`"):
        capture(lambda x: array.__iadd__(x), POSITIVE)
    same(array, OTHER)
    array += x.detach()
    same(array, OTHER + POSITIVE)
    same(np.add.reduce(x.detach()), POSITIVE.sum(axis=0))
    same(np.exp(x.detach(), where=POSITIVE > 0, out=array), np.exp(POSITIVE))
