"""Recurrent networks on a device, forward and back: a product and a kernel for each step, without memory."""

import itertools

import numpy as np
import pytest

from sknet import grad, ops
from sknet.autograd import hvp, vmap
from sknet.compile import compile
from tests.compile.executors.device.test_executor import off, on
from tests.devices.fake import counted
from tests.trees import leaves

CELLS = {"tanh": (1, 1, 1), "relu": (1, 1, 1), "lstm": (4, 4, 2), "gru": (3, 4, 1)}
EACH = pytest.mark.parametrize("cell", CELLS)
SIZES = {"rows": 5, "steps": 4, "features": 3, "size": 6}
LENGTHS = np.array([4, 0, 2, 1, 4])


def drawn(cell, dtype="float64", *, rows=5, steps=4, features=3, size=6):
    """Return inputs, weights, bias and first states."""
    gates, biases, states = CELLS[cell]
    shapes = [(rows, steps, features), (features, gates * size), (size, gates * size), (biases * size,)]
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=shape).astype(dtype) for shape in [*shapes, (states, rows, size)])


def run(cell, x, weight_ih, weight_hh, bias, states, **options):
    """Return outputs and final states of any cell."""
    if cell in ("tanh", "relu"):
        options["activation"] = cell
    name = "rnn" if cell in ("tanh", "relu") else cell
    given = (states[0], states[1]) if cell == "lstm" else states[0]
    output, final = getattr(ops, name)(x, weight_ih, weight_hh, bias, given, **options)
    return output, *(final if cell == "lstm" else [final])


def loss(cell, operands, **options):
    """Return a number that depends on every element of the results."""
    results = run(cell, *operands, **options)
    return sum(ops.sum(ops.sin(x * (2.0 + i)) * ops.square(x)) for i, x in enumerate(results))


def both(cell, **options):
    """Return a function of the operands, which returns results and gradients of all operands."""

    def function(*operands):
        everywhere = tuple(range(len(operands)))
        slopes = grad(lambda *given: loss(cell, given, **options), everywhere)(*operands)
        return [*run(cell, *operands, **options), *slopes]

    return function


def check(function, operands, device, tolerance=1e-12):
    """Compare a compiled function on a device with that of the host; return the device's."""
    expected, there = compile(function, operands)(*operands), compile(function, on(device, operands))
    found = off(there(*on(device, operands)))
    for mine, theirs in zip(leaves(found), leaves(expected), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    there.poison()
    with counted() as counts:
        there.run()
    assert not counts.allocations
    return there


@EACH
@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("lengths", [None, "int64", "int32", "uint8"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-12)])
def test_results_and_gradients(cell, is_reverse, lengths, dtype, tolerance, fake_device):
    options = {"reverse": is_reverse}
    if lengths is None:
        check(both(cell, **options), drawn(cell, dtype), fake_device, tolerance)
        return

    def function(lengths, *operands):
        return both(cell, lengths=lengths, **options)(*operands)

    check(function, (LENGTHS.astype(lengths), *drawn(cell, dtype)), fake_device, tolerance)


@EACH
@pytest.mark.parametrize("is_reverse", [False, True])
def test_the_sizes_that_are_one(cell, is_reverse, fake_device):
    for name in SIZES:
        check(both(cell, reverse=is_reverse), drawn(cell, **{name: 1}), fake_device)
    check(both(cell, reverse=is_reverse), drawn(cell, rows=1, steps=1), fake_device)


@EACH
@pytest.mark.parametrize("name", ["rows", "features", "size"])
def test_nothing_to_multiply(cell, name, fake_device):
    """Without rows gradients are zero; without features states go on. CuPy computes both."""
    operands, function = drawn(cell, **{name: 0}), both(cell)
    expected = compile(function, operands)(*operands)
    found = off(compile(function, on(fake_device, operands))(*on(fake_device, operands)))
    for mine, theirs in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@EACH
@pytest.mark.parametrize("together", [2, 3, 64])
def test_sums_over_many_rows(cell, together, fake_device, limits):
    limits("rows that a thread of a recurrent layer adds", together)
    for rows, steps in ((5, 4), (8, 8), (33, 4)):
        check(both(cell), drawn(cell, rows=rows, steps=steps), fake_device)


@EACH
def test_without_gradients(cell, fake_device):
    for lengths in (None, LENGTHS):
        check(lambda *given, n=lengths: run(cell, *given, lengths=n), drawn(cell), fake_device)


@EACH
def test_without_gradients_of_the_inputs(cell, fake_device):
    x, *weights = drawn(cell)

    def function(x, *weights):
        return grad(lambda *given: loss(cell, (x, *given)), (0, 1, 2, 3))(*weights)

    check(function, (x, *weights), fake_device)


@EACH
def test_operands_in_another_order_of_axes(cell, fake_device):
    """All are turned, or repeated, and so is the gradient of the outputs."""
    x, w_ih, w, b, states = drawn(cell)
    given = x.transpose(2, 0, 1).copy(), w_ih.T.copy(), w.T.copy(), b, states.transpose(2, 0, 1).copy()

    def turned(x, w_ih, w, b, states):
        turned = ops.permute_dims(x, (1, 2, 0)), ops.permute_dims(w_ih, (1, 0)), ops.permute_dims(w, (1, 0))
        output, *_ = run(cell, *turned, b[::-1], ops.permute_dims(states, (1, 2, 0)))
        return ops.sum(ops.permute_dims(output, (2, 0, 1))[:, ::-1]) + ops.sum(ops.sin(output[:, -1]))

    check(grad(turned, (0, 1, 2, 3, 4)), given, fake_device)


@EACH
def test_rows_that_have_ended_pass_infinite_weights_by(cell, fake_device):
    operands = list(drawn(cell))
    operands[2] = operands[2].copy()
    operands[2][0] = np.inf
    lengths = np.zeros(5, int)
    with np.errstate(all="ignore"):
        check(both(cell, lengths=lengths), tuple(operands), fake_device)


@EACH
def test_numbers_that_are_not_finite(cell, fake_device):
    operands = list(drawn(cell))
    operands[0] = operands[0].copy()
    operands[0][1, 2, 0], operands[0][2, 1, 1] = np.nan, np.inf
    with np.errstate(all="ignore"):
        check(lambda *given: run(cell, *given), tuple(operands), fake_device)


@EACH
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_gradients_of_gradients(cell, lengths, fake_device):
    operands = drawn(cell)

    def function(*operands):
        return hvp(lambda *given: loss(cell, given, lengths=lengths), operands, operands)

    expected = compile(function, operands)(*operands)
    found = off(compile(function, on(fake_device, operands))(*on(fake_device, operands)))
    for mine, theirs in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@EACH
def test_members_of_a_stack(cell, fake_device):
    x, *weights = drawn(cell)
    stacked = [np.stack([w, 0.5 * w, -w]) for w in weights]

    def function(x, *stacked):
        slopes = grad(lambda *given: loss(cell, (x, *given)), (0, 1, 2, 3))
        return vmap(lambda *given: slopes(*given))(*stacked)

    check(function, (x, *stacked), fake_device)


@EACH
@pytest.mark.parametrize("has_lengths", [False, True])
def test_launches_of_a_step(cell, has_lengths, fake_device):
    counts, kernels = {}, {}
    for steps, is_back in itertools.product((6, 7, 9), (False, True)):
        lengths = np.arange(1, 6) if has_lengths else None
        if is_back:
            function = grad(lambda *x, n=lengths: loss(cell, x, lengths=n), (0, 1, 2, 3, 4))
        else:
            function = lambda *x, n=lengths: run(cell, *x, lengths=n)  # noqa: E731
        operands = on(fake_device, drawn(cell, steps=steps))
        program = compile(function, operands)
        program(*operands)
        with counted() as found:
            program.run()
        counts[steps, is_back] = found.launches
        kernels[steps, is_back] = program.source.count("__global__")
    for is_back, each in ((False, 2), (True, 4)):
        assert counts[9, is_back] - counts[7, is_back] == 2 * each
        assert counts[7, is_back] - counts[6, is_back] == each
        assert kernels[9, is_back] == kernels[6, is_back]
