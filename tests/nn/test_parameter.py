"""Parameters are drawn once, lazily, in float64 on the host; their shape is known before."""

import pickle
import threading
import time
from copy import deepcopy

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.device import Device
from sknet.exceptions import DtypeError, ShapeError
from tests.threads import run_in_threads


def draw_uniform(random_state):
    return random_state.uniform(size=(3, 2))


def later(draw=draw_uniform, **options):
    return nn.Parameter(shape=(3, 2), draw=draw, **options)


def never(random_state):
    pytest.fail("drawn")


def test_values():
    parameter = nn.Parameter([[1.0, 2.0]])
    assert parameter.is_drawn
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert isinstance(parameter, Tensor)
    assert (parameter.shape, parameter.ndim, parameter.size) == ((1, 2), 2, 2)


def test_an_array_is_not_copied():
    values = np.ones(2)
    assert nn.Parameter(values).data is values


def test_dtype_of_values():
    assert nn.Parameter(np.ones(2, np.float32)).dtype == np.float32
    assert nn.Parameter([1.0], dtype="float32").dtype == np.float32
    with pytest.raises(DtypeError, match="only floating-point tensors have gradients, this one is int64"):
        nn.Parameter([1, 2])


@pytest.mark.parametrize(
    "arguments",
    [{}, {"data": [1.0], "draw": draw_uniform}, {"draw": draw_uniform}, {"data": [1.0], "shape": (1,)}],
)
def test_values_or_undrawn(arguments):
    with pytest.raises(
        TypeError, match="takes either its values, Parameter\\(data\\), or a shape and how to draw"
    ):
        nn.Parameter(**arguments)


def test_what_is_known_before_drawing_does_not_draw():
    parameter = later(never, dtype="float64")
    assert not parameter.is_drawn
    assert (parameter.shape, parameter.ndim, parameter.size) == ((3, 2), 2, 6)
    assert parameter.dtype == np.float64
    assert parameter.device == Device("cpu")
    assert parameter.requires_grad
    assert parameter.is_leaf
    assert repr(parameter) == "Parameter(not drawn, shape=(3, 2), dtype=float64)"
    parameter.requires_grad = False
    assert not parameter.requires_grad
    assert not parameter.is_drawn


def test_drawing():
    parameter = later(dtype="float64")
    parameter.draw(0)
    np.testing.assert_array_equal(parameter.numpy(), np.random.RandomState(0).uniform(size=(3, 2)))
    parameter.draw(1)
    np.testing.assert_array_equal(parameter.numpy(), np.random.RandomState(0).uniform(size=(3, 2)))


def test_draws_are_converted_from_float64():
    parameter = later()
    parameter.draw(0)
    expected = np.random.RandomState(0).uniform(size=(3, 2)).astype(np.float32)
    assert parameter.dtype == np.float32
    np.testing.assert_array_equal(parameter.numpy(), expected)


@pytest.mark.parametrize(
    "read", [lambda p: p.data, lambda p: p.numpy(), lambda p: ops.exp(p), lambda p: p + 1]
)
def test_reading_draws_fresh(read):
    first, second = later(), later()
    read(first)
    read(second)
    assert first.is_drawn
    assert not np.array_equal(first.numpy(), second.numpy())


def test_reading_does_not_touch_global_randomness():
    before = np.random.get_state()[1].copy()  # noqa: NPY002  what must not change
    later().numpy()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_threads_draw_once():
    calls = []

    def draw(random_state):
        calls.append(1)
        time.sleep(0.02)  # so that the others arrive
        return draw_uniform(random_state)

    parameter, barrier, seen = later(draw), threading.Barrier(4), []

    def read():
        barrier.wait()
        seen.append(parameter.numpy())

    run_in_threads(read, [()] * 4)
    assert len(calls) == 1
    assert all(values is seen[0] for values in seen)


def test_assigning_values_draws():
    parameter = later(never)
    parameter.data = np.zeros((3, 2))
    assert parameter.is_drawn
    parameter.draw(0)
    assert parameter.shape == (3, 2)


@pytest.mark.parametrize("values", [np.float64(3.0), 3.0, Tensor(3.0, dtype="float64")])
def test_numbers_that_are_assigned_become_arrays(values):
    parameter = nn.Parameter(np.array(1.5))
    parameter.data = parameter.data * 2  # a number, to NumPy
    assert (type(parameter.data), parameter.device) == (np.ndarray, Device("cpu"))
    parameter.data = values
    assert type(parameter.data) is np.ndarray
    (parameter * parameter).backward()
    assert parameter.grad.item() == 6


def test_draw_of_another_shape():
    parameter = later(lambda random_state: np.zeros(3))
    with pytest.raises(ShapeError, match=r"parameter of shape \(3, 2\) returned shape \(3,\)"):
        parameter.draw(0)
    assert not parameter.is_drawn


def test_unknown_dtype():
    with pytest.raises(DtypeError, match="the dtype of a parameter must be one of"):
        later(dtype="int32")


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="'Parameter' object has no attribute 'nothing'"):
        _ = later(never).nothing


def test_gradient():
    parameter = later(dtype="float64")
    ops.sum(parameter * parameter).backward()
    np.testing.assert_allclose(parameter.grad.numpy(), 2 * parameter.numpy(), rtol=1e-15)


def test_repr():
    assert repr(nn.Parameter([1.0])) == "Parameter([1.], dtype=float64)"
    assert repr(nn.Parameter([[1.0], [2.0]])) == "Parameter([[1.],\n           [2.]], dtype=float64)"


@pytest.mark.parametrize("duplicate", [deepcopy, lambda p: pickle.loads(pickle.dumps(p)), nn.Parameter.copy])
def test_copies(duplicate):
    original = nn.Parameter([1.0, 2.0])
    original.requires_grad = False
    copy = duplicate(original)
    assert type(copy) is nn.Parameter
    assert copy is not original
    assert copy.requires_grad is False
    np.testing.assert_array_equal(copy.numpy(), original.numpy())
    copy.data = np.zeros(2)
    np.testing.assert_array_equal(original.numpy(), [1.0, 2.0])


@pytest.mark.parametrize("duplicate", [deepcopy, lambda p: pickle.loads(pickle.dumps(p)), nn.Parameter.copy])
def test_copies_of_what_is_not_drawn(duplicate):
    original = later(dtype="float64")
    copy = duplicate(original)
    assert not original.is_drawn
    assert not copy.is_drawn
    assert copy.requires_grad
    copy.draw(0)
    original.draw(0)
    np.testing.assert_array_equal(copy.numpy(), original.numpy())


def test_a_copy_of_what_another_thread_has_drawn_meanwhile():
    original = later()
    original.draw(0)
    copy = original.like(None)  # there were no values when `copy` looked
    assert copy.is_drawn
    np.testing.assert_array_equal(copy.numpy(), original.numpy())


def test_sharing():
    original = nn.Parameter([1.0])
    assert original.copy().data is original.data
    assert not np.shares_memory(deepcopy(original).data, original.data)


def test_a_drawn_parameter_pickles_whatever_drew_it():
    parameter = later(lambda random_state: np.zeros((3, 2)))
    parameter.draw(0)
    assert pickle.loads(pickle.dumps(parameter)).is_drawn


def test_deleted_values_are_an_error():
    for parameter in (nn.Parameter([1.0]), later()):
        parameter.draw(0)
        del parameter.data
        with pytest.raises(AttributeError, match="no attribute 'data'"):
            _ = parameter.data
