"""The records of primitives."""

import copy
import pickle

import numpy as np
import pytest

import sknet.ops  # attaches the rules
from sknet.core import PRIMITIVES, Primitive, Shaped
from sknet.device import backend


def test_names_are_unique():
    with pytest.raises(
        ValueError, match="a primitive named 'add' exists already: give this one another name"
    ):
        Primitive("add")
    assert all(name == primitive.name for name, primitive in PRIMITIVES.items())


def test_names_are_str():
    with pytest.raises(TypeError, match="the name of a primitive must be a str, got 3"):
        Primitive(3)
    assert 3 not in PRIMITIVES


def test_are_pickled_by_name():
    add = PRIMITIVES["add"]
    assert pickle.loads(pickle.dumps(add)) is add
    assert copy.deepcopy([add])[0] is add
    assert repr(add) == "<primitive add>"


def test_kernels_are_found_once():
    cpu = backend("cpu")
    assert PRIMITIVES["add"].forward_on(cpu) is np.add
    assert PRIMITIVES["relu"].forward_on(cpu) is PRIMITIVES["relu"].forward_on(cpu)


def test_public_functions_name_their_primitives():
    assert {name for name in sknet.ops.__all__ if name in PRIMITIVES} >= {"add", "matmul", "softmax", "where"}


def test_shaped():
    assert Shaped((2, 3), np.dtype("float32")).ndim == 2


def test_the_error_for_a_missing_row_says_where_to_add_it():
    exp = PRIMITIVES["exp"]
    with pytest.raises(ValueError, match=r"calls digamma, gamma, .* SCALAR_FUNCTIONS, in sknet/core"):
        exp.define(forward="exp", shape=exp.shape, vjp=None, expression="digamma(x) * (gamma(x) + sqrt(x))")
    assert exp.expression == "exp(x)"
    assert exp.vjp is not None
