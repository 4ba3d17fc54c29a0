"""Recurrent ops: padding, states, errors; values and gradients are in the contract tables."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import Tensor, config_context, ops
from sknet.autograd import grad
from sknet.compile import compile
from sknet.core import PRIMITIVES, Primitive, gradients, no_grad
from sknet.device import backend
from sknet.exceptions import DtypeError, ShapeError
from tests.contracts.rows_recurrent import lstm_step, reference
from tests.project import has_native

CELLS = {"rnn": (1, 1), "lstm": (4, 4), "gru": (3, 4)}
EACH = pytest.mark.parametrize("cell", CELLS)


def setup(cell, n=3, steps=5, features=2, size=4):
    (gates, biases), rng = CELLS[cell], np.random.default_rng(0)
    shapes = (n, steps, features), (features, gates * size), (size, gates * size), (biases * size,)
    return getattr(ops, cell), [rng.normal(size=shape) for shape in shapes]


@EACH
def test_no_bias_and_no_state_are_zeros(cell):
    run, [x, *weights, bias] = setup(cell)
    zeros = np.zeros((3, 4))
    state = (zeros, zeros) if cell == "lstm" else zeros
    expected, _ = run(x, *weights, np.zeros_like(bias), state)
    np.testing.assert_array_equal(run(x, *weights)[0].numpy(), expected.numpy())


@EACH
@pytest.mark.parametrize("reverse", [False, True])
def test_padding_is_not_looked_at(cell, reverse):
    run, operands = setup(cell)
    lengths = np.array([5, 2, 3])
    padding = np.arange(5) >= lengths[:, None]

    def results(fill):
        x = operands[0].copy()
        x[padding] = fill
        leaves = [Tensor(a, requires_grad=True) for a in (x, *operands[1:])]
        output, _ = run(*leaves, lengths=lengths, reverse=reverse)
        return [output, *gradients((output * output).sum(), leaves)]

    for a, b in zip(results(0.0), results(np.nan), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    output, slope, *_ = results(np.nan)
    assert not output.numpy()[padding].any()
    assert not slope.numpy()[padding].any()


@EACH
def test_a_row_alone_is_the_row_among_others(cell):
    run, [x, *weights] = setup(cell)
    lengths = [5, 2, 0]
    output, state = run(x, *weights, lengths=lengths, reverse=True)
    for row, length in enumerate(lengths[:2]):
        alone, last = run(x[row : row + 1, :length], *weights, reverse=True)
        np.testing.assert_allclose(output.numpy()[row, :length], alone.numpy()[0], rtol=1e-12)
        found, expected = (state[0], last[0]) if cell == "lstm" else (state, last)
        np.testing.assert_allclose(found.numpy()[row], expected.numpy()[0], rtol=1e-12)
    assert not output.numpy()[2].any()


@EACH
def test_what_needs_no_gradient_keeps_no_tape(cell):
    run, operands = setup(cell)
    leaves = [Tensor(a, requires_grad=True) for a in operands]
    with no_grad():
        bare, _ = run(*leaves)
    np.testing.assert_array_equal(bare.numpy(), run(*leaves)[0].numpy())
    wide = [Tensor(a, requires_grad=True) for a in setup(cell, steps=500, size=32)[1]]
    assert peak(no_grad()(run), *wide) < 0.6 * peak(run, *wide) or cell == "rnn"  # which keeps nothing more


def peak(function, *args):
    """Return the most bytes that a call has in use at one time."""
    tracemalloc.start()
    function(*args)
    _, found = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found


@EACH
def test_all_operands_share_one_way_back(cell, monkeypatch):
    run, operands = setup(cell)
    leaves = [Tensor(a, requires_grad=True) for a in operands]
    output, _ = run(*leaves)
    record, calls = PRIMITIVES["recurrence_gradient"], []
    kernel = Primitive.forward_on
    monkeypatch.setattr(
        Primitive, "forward_on", lambda self, owner: calls.append(self) or kernel(self, owner)
    )
    first, second = gradients(output.sum(), leaves), gradients(output.sum(), leaves)
    assert calls.count(record) == 2  # once for each of the two
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@EACH
def test_gradients_of_third_order(cell):
    run, [x, *weights] = setup(cell, n=1, steps=2, features=1, size=2)

    def value(scale):
        return (run(scale * x, *weights)[0] ** 2).sum()

    third = grad(grad(grad(value)))
    second, at, step = grad(grad(value)), 0.7, 1e-5
    expected = (second(Tensor(at + step)).item() - second(Tensor(at - step)).item()) / (2 * step)
    assert third(Tensor(at)).item() == pytest.approx(expected, rel=1e-6)


@EACH
def test_large_inputs_do_not_overflow(cell):
    run, [x, *weights] = setup(cell)
    with np.errstate(all="raise"):
        output, _ = run(x * 1e4, *weights)
    assert np.isfinite(output.numpy()).all()


def test_errors():
    _, [x, wi, wh, bias] = setup("lstm")
    for message, function, *operands in [
        (r"lstm: expected x of shape \(n, steps, features\), .* got \(3, 2\)", ops.lstm, x[:, 0], wi, wh),
        (r"with a step at least, got \(3, 0, 2\)", ops.lstm, x[:, :0], wi, wh),
        (r"gru: .* weight_ih of shape \(2, 3 \* size\) .* got \(2, 16\) and \(4, 16", ops.gru, x, wi, wh),
        (r"rnn: .* weight_ih of shape \(2, size\) ", ops.rnn, x, wi, wh),
        (r"lstm: .* weight_ih of shape \(3, 4 \* size\)", ops.lstm, np.ones((2, 5, 3)), wi, wh),
        (r"lstm: expected bias of shape \(16,\), got \(15,\)", ops.lstm, x, wi, wh, bias[1:]),
        (
            "lstm: expected 2 states, hidden and cell state, got 1",
            ops.lstm,
            x,
            wi,
            wh,
            bias,
            [np.ones((3, 4))],
        ),
        ("lstm: expected 2 states, hidden and cell state, got 0.5", ops.lstm, x, wi, wh, bias, 0.5),
        (r"lstm: expected state of shape \(3, 4\), got \(4,\)", ops.lstm, x, wi, wh, bias, np.ones((2, 4))),
    ]:
        with pytest.raises(ShapeError, match=message):
            function(*operands)
    with pytest.raises(ShapeError, match=r"expected lengths of shape \(3,\), one per row of x, got \(2,\)"):
        ops.lstm(x, wi, wh, lengths=[1, 2])
    with pytest.raises(DtypeError, match="lstm: lengths must be integers, got float64"):
        ops.lstm(x, wi, wh, lengths=[1.0, 2.0, 3.0])
    with pytest.raises(DtypeError, match="lstm: expected a floating-point operand, got int64"):
        ops.lstm(np.ones((3, 5, 2), int), wi, wh)
    with pytest.raises(ValueError, match="rnn: activation must be 'tanh' or 'relu', got 'gelu'"):
        ops.rnn(x, np.ones((2, 4)), np.ones((4, 4)), activation="gelu")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(3, 5, 2, 4), (33, 7, 20, 50), (1, 2, 1, 1)], ids=str)
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_native_code_leaves_the_same_bits(sizes, lengths, reverse, dtype):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    run, operands = setup("lstm", *sizes)
    given = np.arange(sizes[0]) % sizes[1] + 1 if lengths else None

    def results():
        tensors = [Tensor(x.astype(dtype), requires_grad=True) for x in operands]
        output, (h, c) = run(*tensors, lengths=given, reverse=reverse)
        with no_grad():
            alone = run(*tensors, lengths=given, reverse=reverse)
        found = [
            output,
            h,
            c,
            *gradients((output * output).sum() + (h * c).sum(), tensors),
            alone[0],
            *alone[1],
        ]
        return [x.numpy() for x in found]

    with config_context(native="never"):
        expected = results()
    with config_context(native="always"):
        found = results()
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Sizes of which several threads take shares: rows that do not divide, one step, and parts of a share.
SHARED = [(64, 20, 96, 128), (70, 40, 64, 128), (300, 7, 80, 96), (4096, 1, 64, 64)]


def shared(sizes, dtype):
    """Return the operands, with a state, scaled so that outputs differ from step to step."""
    (n, *_, size), rng = sizes, np.random.default_rng(1)
    _, [x, *weights, bias] = setup("lstm", *sizes)
    states = [rng.normal(size=(n, size)) for _ in range(2)]
    given = x, *[w / np.sqrt(len(w)) for w in weights], bias, *states
    return [a.astype(dtype) for a in given]


def outputs_of(*given, reverse=False):
    *operands, h, c = given
    output, states = ops.lstm(*operands, (h, c), reverse=reverse)
    return [output, *states]


@no_grad()
def run_alone(operands, **options):
    return [x.numpy() for x in outputs_of(*operands, **options)]


def with_gradients(*given, **options):
    """Return the outputs, and gradients of all operands."""
    leaves = [x.detach() for x in map(Tensor, given)]
    for leaf in leaves:
        leaf.requires_grad = True
    found = outputs_of(*leaves, **options)
    return [*found, *gradients(sum((x * x).sum() for x in found), leaves)]


@pytest.mark.parametrize("sizes", SHARED, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shares_of_rows_are_the_whole(sizes, reverse, dtype):
    operands = shared(sizes, dtype)
    found = run_alone(operands, reverse=reverse)
    precise = [x[:3].astype("float64") for x in operands[:1] + operands[4:]]
    weights = [x.astype("float64") for x in operands[1:4]]
    expected = reference(lstm_step, 2)(precise[0], *weights, *precise[1:], reverse=reverse)
    first = np.concatenate([x[:3].ravel() for x in found])
    tolerance = 3e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(first, expected, rtol=0, atol=tolerance)
    for ours, theirs in zip(with_gradients(*operands, reverse=reverse), found, strict=False):
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("sizes", SHARED, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_shares_are_the_sum_of_those_of_few_rows(sizes, reverse, dtype):
    operands = shared(sizes, dtype)
    found = [x.numpy() for x in with_gradients(*operands, reverse=reverse)[3:]]
    parts = []
    for start in range(0, sizes[0], 8):  # too few to be shared
        rows = slice(start, start + 8)
        given = [x if 0 < i < 4 else x[rows] for i, x in enumerate(operands)]
        given = [x.astype("float64") for x in given]
        parts.append([x.numpy() for x in with_gradients(*given, reverse=reverse)[3:]])
    for i, (ours, each) in enumerate(zip(found, zip(*parts, strict=True), strict=True)):
        expected = sum(each) if 0 < i < 4 else np.concatenate(each)
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SHARED, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_do_not_depend_on_threads_or_native_code(sizes, dtype):
    operands = shared(sizes, dtype)
    with threadpool_limits(1, "blas"):
        expected = run_alone(operands), [x.numpy() for x in with_gradients(*operands)]
        programs = [compile(no_grad()(outputs_of), operands), compile(with_gradients, operands)]
    for native in ("never", "always"):
        with threadpool_limits(2, "blas"), config_context(native=native):
            found = run_alone(operands), [x.numpy() for x in with_gradients(*operands)]
            planned = [program(*operands) for program in programs]
        for ours, theirs in zip([*found, *planned], [*expected, *expected], strict=True):
            for x, y in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("units", [96, 128, 256])
def test_shares_go_back_in_native_code(units, monkeypatch):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 64, 50, units), dtype=np.float32)
    w_ih, w = rng.standard_normal((2, units, 4 * units), dtype=np.float32) * 0.05
    with config_context(native="always"):
        native = backend("cpu").xp.native_passes()
        done, back = [], type(native).lstm_back_steps
        monkeypatch.setattr(
            type(native), "lstm_back_steps", lambda self, *given: done.append(back(self, *given)) or done[-1]
        )
        leaves = [Tensor(v, requires_grad=True) for v in (x, w_ih, w)]
        gradients((ops.lstm(*leaves)[0] * g).sum(), leaves)
    assert done
    assert all(done)


def test_the_input_needs_no_gradient():
    operands = shared(SHARED[0], "float64")
    expected = [x.numpy() for x in with_gradients(*operands)[4:]]
    leaves = [Tensor(x, requires_grad=True) for x in operands[1:]]
    found = gradients(sum((x * x).sum() for x in outputs_of(operands[0], *leaves)), leaves)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x.numpy(), y)


def test_several_threads_take_shares_where_there_is_enough_to_do(monkeypatch):
    callers, host = [], backend("cpu").xp
    threads = host.in_threads

    def noted(work, count, rooms):
        callers.append(count)
        threads(work, count, rooms)

    monkeypatch.setattr(host, "in_threads", noted)
    for sizes in SHARED:
        run_alone(shared(sizes, "float32"))
    assert len(callers) == len(SHARED) * has_native()
    run_alone(shared((4, 100, 128, 128), "float32"))
    run_alone(shared((64, 1, 128, 128), "float32"))
    with no_grad():
        run, operands = setup("lstm", *SHARED[0])
        run(*operands, lengths=[7] * SHARED[0][0])
    assert len(callers) == len(SHARED) * has_native()


def test_devices_have_no_shares(fake_device):
    """But the plan's temporary arrays are as large as those of the host's shares."""
    operands = shared(SHARED[0], "float64")
    there = [Tensor(x).to(fake_device).data for x in operands]
    for function in (no_grad()(outputs_of), with_gradients):
        expected = compile(function, operands)(*operands)
        for x, y in zip(compile(function, there)(*there), expected, strict=True):
            np.testing.assert_allclose(Tensor(x).to("cpu").numpy(), y, rtol=1e-10, atol=1e-12)
