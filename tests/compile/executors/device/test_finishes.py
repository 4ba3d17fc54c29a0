"""Products with what follows them in one launch: which are found, and that they compute the same."""

import re

import numpy as np
import pytest

from sknet import ops
from sknet.autograd import vmap
from sknet.compile import compile
from sknet.core import Tensor, bind, gradients
from sknet.device import Device
from tests.compile.executors.device.test_executor import off, on
from tests.devices import fake
from tests.devices.finished import CHAINS

FAKE = Device("fake")


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def endings(program):
    """Return the parts that follow the products of a program."""
    found = re.findall(r"Ending\(\((.*?)\)", program.source)
    return [tuple(re.findall(r"'([a-z ]+)'", each)) for each in found]


def parts_of(function, *args):
    """Return the parts that follow the products of a function."""
    return endings(compile(function, on(FAKE, args)))


def checked(found, *others):
    """Return whether results are finite, as a training step asks it."""
    return ops.less(ops.abs(ops.sum_squares(*found, *others)), np.inf)


X, W, V, B, C = (
    drawn(40, 20),
    drawn(20, 30, seed=1),
    drawn(30, 3, seed=2),
    drawn(30, seed=3),
    drawn(3, seed=4),
)


def network(x, w, b, v, c, y):
    """Return the loss of a network with a hidden layer, its gradients, and whether all is finite."""
    parameters = [w, b, v, c]
    for each in parameters:
        each.requires_grad = True
    hidden = ops.relu(x @ w + b)
    loss = ops.sum_squares(hidden @ v + c - y) * 0.5 + 0.1 * (ops.sum_squares(w) + ops.sum_squares(v))
    found = gradients(loss, parameters)
    return loss, found, checked([*found, *parameters])


ARGS = X, W, B, V, C, drawn(40, 3, seed=5)


SIZES = (40, 20), (20, 32), (32,), (32, 4), (4,), (40, 4)
ENDINGS = [("bias", "relu"), ("bias",), ("sums of y",), ("sums of y",)]  # of a step's products, in order


def test_a_step_of_a_network(fake_device):
    step = compile(network, on(fake_device, ARGS))
    with fake.plain_products():
        plain = compile(network, on(fake_device, ARGS))
    launches = [program.source.split("def step")[1].count("(") for program in (step, plain)]
    assert launches[0] < launches[1]
    assert endings(step) == ENDINGS
    expected = network(*map(Tensor, ARGS))
    for _ in range(2):
        step.poison()
        found = off(step(*on(fake_device, ARGS)))
        np.testing.assert_allclose(found[0], expected[0].numpy(), rtol=1e-5)
        for mine, theirs in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-4)
        assert found[2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", range(4))
def test_what_is_not_finite_is_seen(which, value, fake_device):
    """The library's ReLU makes 0 of NaN; then the gradient or the parameter itself is not finite."""
    args = [x.copy() for x in ARGS]
    args[which].reshape(-1)[0] = value
    step = compile(network, on(fake_device, ARGS))
    with np.errstate(all="ignore"):
        assert not off(step(*on(fake_device, tuple(args)))[2])


def test_a_relu_is_not_finished_where_nan_would_be_lost(fake_device):
    def unseen(x, w, b):
        return ops.relu(x @ w + b)

    def seen_in_part(x, w, b):
        return ops.relu(x @ w + b), checked([x, w])

    def seen_unless_negative(x, w, b):
        return ops.relu(x @ w + b), ops.less(ops.sum(x) + ops.sum(w) + ops.sum(b), np.inf)

    assert parts_of(seen_unless_negative, X, W, B) == [("bias",)]
    assert parts_of(unseen, X, W, B) == parts_of(seen_in_part, X, W, B) == [("bias",)]
    assert parts_of(lambda x, w, b: (ops.relu(x @ w + b), checked([x, w, b])), X, W, B) == [("bias", "relu")]
    x = X.copy()
    x[3, 4] = np.nan
    args = on(fake_device, (x, W, B))
    found = off(compile(unseen, args)(*args))
    assert np.isnan(found[3]).all()
    np.testing.assert_allclose(np.delete(found, 3, 0), np.delete(np.maximum(x @ W + B, 0), 3, 0), rtol=1e-4)


def test_what_the_library_has_not_is_no_part():
    def function(x, w):
        return ops.relu(x @ w), checked([x, w])

    assert parts_of(function, X, W) == [("relu",)]
    with fake.plain_products():
        assert parts_of(function, X, W) == []


# -- many networks at once ----------------------------------------------------------------------


MEMBERS = 3


def stacked(x):
    """Return different values for each member."""
    return np.stack([x * (1 + 0.1 * i) for i in range(MEMBERS)]).astype("float32")


# Vectors of members are multiples of 16 bytes apart.
STACK = tuple(stacked(drawn(*shape, seed=i)) for i, shape in enumerate(SIZES))


def test_a_step_of_many_networks(fake_device):
    step = compile(vmap(network), on(fake_device, STACK))
    assert endings(step) == ENDINGS
    expected = [network(*[Tensor(x[i]) for x in STACK]) for i in range(MEMBERS)]
    for _ in range(2):
        step.poison()
        loss, gradient, is_finite = off(step(*on(fake_device, STACK)))
        for i, (own_loss, own_gradient, _) in enumerate(expected):
            np.testing.assert_allclose(loss[i], own_loss.numpy(), rtol=1e-5)
            for mine, theirs in zip(gradient, own_gradient, strict=True):
                scale = np.abs(theirs.numpy()).max()
                np.testing.assert_allclose(mine[i] / scale, theirs.numpy() / scale, atol=2e-6)
        assert is_finite.all()


@pytest.mark.parametrize("member", range(MEMBERS))
@pytest.mark.parametrize("which", range(4))
def test_of_many_the_one_that_is_not_finite_is_seen(which, member, fake_device):
    args = [x.copy() for x in STACK]
    args[which][member].reshape(-1)[0] = np.nan
    step = compile(vmap(network), on(fake_device, STACK))
    with np.errstate(all="ignore"):
        is_finite = off(step(*on(fake_device, tuple(args)))[2])
    np.testing.assert_array_equal(is_finite, np.arange(MEMBERS) != member)


def test_a_check_of_all_together_is_one_of_each(fake_device):
    def function(x, w, each):
        hidden = ops.relu(x @ w)
        return hidden, ops.less(ops.abs(ops.sum(x, each) + ops.sum(w, each)), np.inf)

    args = STACK[:2]
    assert parts_of(lambda x, w: function(x, w, None), *args) == [("relu",)]
    assert parts_of(lambda x, w: function(x, w, (1, 2)), *args) == [("relu",)]
    rows = args[0][:, :20].copy(), args[1]
    assert parts_of(lambda x, w: function(x, w, (0, 2)), *rows) == []


def test_vectors_that_are_too_near_are_added_apart(fake_device):
    """Of 30 numbers each: the next begins after 120 bytes."""
    narrow = STACK[0], stacked(W), stacked(B)
    assert parts_of(lambda x, w, b: x @ w + b[:, None, :], *narrow) == []
    given = STACK[0], stacked(W), np.zeros((MEMBERS, 32), "float32")
    assert parts_of(lambda x, w, b: x @ w + b[:, None, :30], *given) == [("bias",)]
    assert parts_of(lambda x, w: (x @ w, ops.sum(w, 1)), *narrow[:2]) == []


def test_a_factor_that_all_share_is_summed_once():
    x, w = STACK[:2]
    assert parts_of(lambda x, w: (x @ w, ops.sum(w, 1)), x, w) == [("sums of y",)]
    assert parts_of(lambda x, w: (x @ w, ops.sum(w, 1)), x, w[:1]) == []


@pytest.mark.parametrize("of_all", [True, False])
def test_elements_that_are_taken_are_seen(of_all):
    """Of the operation that a constant index becomes, which also joins the arrays of many networks."""
    positions = Tensor(np.arange(MEMBERS * 20 * 32), device=FAKE)
    known = compile(lambda x: ops.take_along_axis(x, np.array([[0], [1]]), 1), (np.ones((2, 3)),))
    [take] = {e.primitive for e in known.graph.equations if e.primitive.name == "take_at"}

    def function(x, w):
        of_w = ops.sum(bind(take, (w, positions), {"of_all": of_all}))
        return ops.relu(x @ w), ops.less(ops.abs(ops.sum(x) + of_w), np.inf)

    assert parts_of(function, *STACK[:2]) == ([("relu",)] if of_all else [])


def test_terms_and_sums(fake_device):
    def function(x, w, y):
        total = ops.sum(y, 0)
        return total, x @ y + 0.5 * w, ops.sum(x @ y, 0)

    args = drawn(30, 40), drawn(30, 20), drawn(40, 20)
    assert parts_of(function, *args) == [("sums of y",)]
    found = off(compile(function, on(fake_device, args))(*on(fake_device, args)))
    x, w, y = args
    for mine, theirs in zip(found, (y.sum(0), x @ y + 0.5 * w, (x @ y).sum(0)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


def test_what_is_needed_before_a_product_is_not_put_off():
    def function(x, y):
        return ops.sum(y, 0), (x + ops.sum(y, 0)) @ y

    assert parts_of(function, drawn(20, 20), drawn(20, 20)) == []
    assert parts_of(lambda x, y: (x @ y) + ops.sum(x @ y, 0), drawn(20, 20), drawn(20, 20)) == []


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_nothing_is_overwritten_that_a_product_reads(dtype, fake_device):
    """All are of one shape, so that results could take the place of operands."""
    args = tuple((8 * drawn(24, 24, seed=i)).astype(dtype) for i in range(3))

    def function(x, w, y):
        one = ops.tanh(x) * 1.0 if dtype != "int64" else x + w
        two = (one @ w + y[0]) * 2
        three = two @ (one + 1) + 3 * (one - y)
        return ops.sum(three @ two, 0), three

    there = on(fake_device, args)
    compiled = compile(function, there)
    for _ in range(2):
        compiled.poison()
        for mine, theirs in zip(off(compiled(*there)), function(*map(Tensor, args)), strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-2)


# -- random functions -------------------------------------------------------------------------


class Drawn:
    """Square matrices, rows and masks, of which a random function takes one or the other."""

    def __init__(self, x, y, w, row):
        self.values, self.rows, self.masks = [x, y, w], [row], [ops.greater(x, 0.0)]

    def biased(self, product, share, most):
        """Return a product, with a row added if that is drawn."""
        return product + drawn_from(self.rows, share) if share < most else product

    def add(self, kind, shares):
        one, other, third = (drawn_from(self.values, share) for share in shares)
        getattr(self, kind)(one, other, third, shares)

    def matmul(self, one, other, third, shares):
        self.values.append((ops.matrix_transpose(one) if shares[2] < 0.4 else one) @ other * 0.2)

    def bias(self, one, other, third, shares):
        self.values.append(one @ other + drawn_from(self.rows, shares[2]))

    def relu(self, one, other, third, shares):
        product = self.biased(one @ other, shares[2], 0.6)
        self.values.append(ops.relu(product if shares[2] < 0.8 else third))
        self.masks.append(ops.greater(self.values[-1], 0.0))

    def mask(self, one, other, third, shares):
        self.values.append(ops.where(drawn_from(self.masks, shares[2]), one @ other, 0.0))
        if shares[0] < 0.3:
            self.sums(self.values[-1])

    def term(self, one, other, third, shares):
        self.values.append(one @ other + 0.25 * third)

    def sums(self, one, *others):
        self.rows.append(ops.sum(one, 0) * 0.1)

    def tanh(self, one, other, third, shares):
        self.values.append(ops.tanh(one))


KINDS = "matmul", "matmul", "bias", "relu", "mask", "term", "sums", "tanh"


def drawn_from(among, share):
    """Return one of some values, a late one with a greater probability."""
    return among[int(len(among) * np.sqrt(share))]


def random_function(seed):
    """Return a function of square matrices and a row, with products and what may follow them, and arrays."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([16, 24]))
    steps = [(str(rng.choice(KINDS)), rng.random(3)) for _ in range(rng.integers(4, 20))]
    kept = rng.random(3)

    def function(x, y, w, row):
        of = Drawn(x, y, w, row)
        for kind, shares in steps:
            of.add(kind, shares)
        found = [drawn_from(of.values, share) for share in kept]
        return [of.values[-1], of.rows[-1], *found], checked([*of.values, *of.rows])

    arrays = [rng.normal(size=(n, n)).astype("float32") * 0.3 for _ in range(3)]
    return function, (*arrays, rng.normal(size=n).astype("float32"))


@pytest.mark.parametrize("seed", range(60))
def test_random_functions(seed, fake_device):
    function, args = random_function(seed)
    there = on(fake_device, args)
    compiled = compile(function, there)
    expected, is_finite = function(*map(Tensor, args))
    for _ in range(2):
        compiled.poison()
        found, seen = off(compiled(*there))
        assert seen == is_finite.item()
        for mine, theirs in zip(found, expected, strict=True):
            scale = np.abs(theirs.numpy()).max() + 1
            np.testing.assert_allclose(mine / scale, theirs.numpy() / scale, atol=2e-4)


def test_random_functions_have_every_chain():
    """Of all that the library knows: nothing of the table above is untested."""
    found = set()
    for seed in range(60):
        function, args = random_function(seed)
        found.update(parts_of(function, *args))
    assert found - {()} == {parts for parts in CHAINS if parts}


# -- products that run beside others ------------------------------------------------------------


def deep(x, *weights):
    """Return the gradients of a network of several layers, and their squares, which read them."""
    for w in weights:
        w.requires_grad = True
    hidden = x
    for w in weights:
        hidden = ops.tanh(hidden @ w)
    found = gradients(ops.sum_squares(hidden), list(weights))
    return [*found, ops.sum_squares(*found)]


def test_products_of_weights_run_beside_the_next_ones(fake_device, limits):
    """They are done as late as they may be here; arrays are in use for two products more at most."""
    n, width, layers = 300, 40, 6
    args = drawn(n, width), *[drawn(width, width, seed=i) / 6 for i in range(layers)]
    results, compiled = {}, {}
    for name in ("beside", "one by one"):
        if name == "one by one":
            limits.products_one_after_the_other()
        compiled[name] = compile(deep, on(fake_device, args))
        compiled[name].poison()
        results[name] = off(compiled[name](*on(fake_device, args)))
    for x, y in zip(*results.values(), strict=True):
        np.testing.assert_array_equal(x, y)
    for x, expected in zip(results["beside"], deep(*map(Tensor, args)), strict=True):
        np.testing.assert_allclose(x, expected.numpy(), rtol=1e-4, atol=1e-5)
    calls = re.findall(r"branch\d+\.(run|join)\(", compiled["beside"].source)
    assert sorted(calls) == ["join"] * (layers - 1) + ["run"] * (layers - 1)
    more = compiled["beside"].plan.arena_size - compiled["one by one"].plan.arena_size
    assert more <= 2 * 4 * n * width
