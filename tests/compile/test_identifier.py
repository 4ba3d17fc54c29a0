"""Primitives may have any name, also one that the generated source has for something else."""

import ast

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.core import PRIMITIVES, bind
from sknet.device import to_device, to_host
from tests.compile.helpers import named

ODD = ["acme.soft-clip", "lambda", "None", "2nd", "a b", "é", "_", "__builtins__", "line\nbreak", "max "]
RESERVED = ["step", "record", "float", "exec", "KERNELS", "_array_copyto", "b_x", "clip_1", "v1_s0", "map0"]
X = np.linspace(-2.0, 2.0, 96).reshape(24, 4).astype("float32")
LARGE = np.linspace(-1.0, 1.0, 1 << 19).astype("float32").reshape(-1, 8)


def function_with(primitive):
    """A function whose source has views, constants, scratch arrays, methods and loops over blocks."""

    def function(x, large):
        x = bind(primitive, (bind(primitive, (x,), {}),), {"factor": 0.5})
        chosen = ops.take_along_axis(ops.log_softmax(x, axis=-1), np.zeros((24, 1), np.int64), axis=-1)
        clipped = ops.clip(ops.where(x > 1, x, -np.inf), -5.0, 1.0)
        blocks = ops.relu(ops.softplus(large) * 2.0 - 1.0)
        return chosen, clipped, x.T @ x, ops.concat([x, x[:3] * 0.0]), blocks

    return function


def names_in(source):
    """The names of Python code, and of kernels in it."""
    tree = ast.parse(source)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def is_free(name):
    return name not in PRIMITIVES


@pytest.fixture(scope="module")
def host():
    """The source with a primitive of an ordinary name, and its results."""
    with named("thrice") as thrice:
        made = compile(function_with(thrice), (X, LARGE))
        found = names_in(made.source)
        assert {"v0", "c0", "t0", "v4_s0", "r1", "blocks0", "z0", "b_v1", "thrice_1"} < found
        return found, [np.array(x) for x in made(X, LARGE)]


def check(results, expected):
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["odd", "reserved", "of the source"])
def test_sources_for_the_host(host, kind):
    known, expected = host
    names = {"odd": ODD, "reserved": RESERVED, "of the source": sorted(known)}[kind]
    for name in filter(is_free, names):
        with named(name) as primitive:
            made = compile(function_with(primitive), (X, LARGE))
            check(made(X, LARGE), expected)
            made.poison()
            for call in made.calls():
                call.run()
            check(made.result, expected)


@pytest.mark.parametrize("kind", ["odd", "reserved", "of the source"])
def test_sources_for_a_device(fake_device, kind):
    given = [to_device(x, fake_device) for x in (X, LARGE[:64])]
    with named("thrice") as thrice:
        made = compile(function_with(thrice), given)
        known, expected = names_in(made.source), [to_host(x) for x in made(*given)]
    assert {"KERNELS", "v0"} < known
    names = {"odd": ODD, "reserved": RESERVED, "of the source": sorted(known)}[kind]
    for name in filter(is_free, names):
        with named(name) as primitive:
            check([to_host(x) for x in compile(function_with(primitive), given)(*given)], expected)


def test_different_names_that_read_alike():
    with named("a-b") as first, named("a_b") as second:

        def function(x):
            return bind(first, (bind(second, (x,), {"factor": 2.0}),), {}) + bind(second, (x,), {})

        np.testing.assert_allclose(compile(function, (X,))(X), X * 9, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("acme2", "acme2"),
        ("a.b-c", "a_b_c"),
        ("2nd", "f2nd"),
        ("if", "if_"),
        ("", "f"),
        ("__x", "x"),
        ("ﬁ", "f"),
    ],
)
def test_names_in_sources_are_as_near_as_identifiers_can_be(name, found):
    with named(name) as primitive:
        names = names_in(compile(lambda x: bind(primitive, (x,), {}), (X,)).source)
    assert f"{found}_1" in names
