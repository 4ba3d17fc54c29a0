"""Every kernel against NumPy and SciPy, with the same bits on every set of instructions of this processor.

Operands have extreme values, odd and no lengths, strides, and begin anywhere in a vector. At the end: what
Python and C must say alike of instructions, addresses and threads.
"""

import itertools
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.signal
import scipy.special

import sknet
from sknet import config_context, no_grad, ops
from sknet._native import LAYOUT, OLD, needed
from sknet._parallel import Crew
from sknet.compile import compile
from sknet.compile.native import Codes, Field
from sknet.compile.native._instructions import (
    CONVERTED,
    TURN,
    WIDTH,
    Kind,
    Product,
    Spread,
    Tape,
    Tile,
    Work,
    address_of,
)
from sknet.compile.native._passes import FIELDS
from sknet.compile.native._rules import translated
from sknet.compile.numpy._emitters import fast_erfc
from sknet.ops._codes import coded_matmul, decoded, paired_matmul, pairs_of
from sknet.preprocessing._native import NativeRows
from tests.compile.executors.native.running import carry_out
from tests.project import ROOT

core = pytest.importorskip("sknet._native._core", reason="native code was not built")

LENGTHS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100)
REALS = ["float32", "float64"]
EXTREME = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 1e-30, 5e-324, 1e308]


@pytest.fixture(autouse=True)
def newest():
    """Use the newest instructions again when a test has tried others."""
    yield
    core.use(core.isas()[0])


FUSING = {"x86-64-v4", "x86-64-v3"}  # these round a product and a sum once, in products of codes


def alike(compute, of=lambda isa: True):
    """Return the results of a function, which must have the same bits on every set of instructions."""
    found = []
    for isa in filter(of, core.isas()):
        core.use(isa)
        assert core.isa() == isa
        found.append([np.array(x) for x in compute()])
    for others in found[1:]:
        for x, y in zip(others, found[0], strict=True):
            np.testing.assert_array_equal(x, y)
            if x.dtype.kind == "f":
                known = ~np.isnan(x)
                np.testing.assert_array_equal(np.signbit(x)[known], np.signbit(y)[known])
    return found[0] if found else []


SETS = FUSING.__contains__, lambda isa: isa not in FUSING


def carried_out(kind, *fields):
    """Carry out one instruction; tell whether it succeeded."""
    tape = Tape()
    tape.add(kind, *[tape.address(x) if isinstance(x, np.ndarray) else x for x in fields])
    return carry_out(tape.finished())


def values(n, dtype, seed=0, offset=1):
    """Return extreme numbers among others, from an address that is not that of a vector."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        found = np.asarray(rng.normal(size=n + offset) * 10.0 ** rng.integers(-3, 4, n + offset), dtype)
        places = rng.random(found.size) < 0.4
        found[places] = np.resize(np.asarray(EXTREME, dtype), places.sum())
    return found[offset:]


# -- instructions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_copies(dtype):
    rng = np.random.default_rng(0)
    for n0, n1, step in itertools.product((0, 1, 3), LENGTHS, (1, 2)):
        given = rng.integers(0, 200, (7, step * n1 + 1)).astype(dtype)[:, 1::step]
        rows = rng.integers(0, 7, n0)

        def compute(given=given, rows=rows, n0=n0, n1=n1):
            outs = []
            for chosen in (rows, None):
                out = np.ones((n0, n1 + 1), dtype)[:, 1:]
                carried_out(
                    Kind.COPY, given.itemsize, given, *given.strides, 0 if chosen is None else chosen, out,
                    *out.strides, n0, n1,
                )  # fmt: skip
                outs.append(out)
            return outs

        by_rows, in_order = alike(compute)
        np.testing.assert_array_equal(by_rows, given[rows])
        np.testing.assert_array_equal(in_order, given[:n0])


@pytest.mark.parametrize(("source", "target"), CONVERTED)
def test_conversions(source, target):
    rng = np.random.default_rng(1)
    for n, step in itertools.product(LENGTHS, (1, 3)):
        if source[0] == "f":
            given = values(step * n, source)[::step]
        else:
            limits = np.iinfo(source)
            given = rng.integers(limits.min, limits.max, step * n, source, endpoint=True)[::step]

        def compute(given=given, n=n):
            out = np.empty(n + 1, target)[1:]
            number = CONVERTED.index((source, target))
            carried_out(Kind.CONVERT, number, given, 0, *given.strides, 0, out, 0, *out.strides, 1, n)
            return [out]

        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(alike(compute)[0], given.astype(target))


@pytest.mark.parametrize("dtype", REALS)
def test_masks_and_positions(dtype):
    size, word = np.dtype(dtype).itemsize, f"u{np.dtype(dtype).itemsize}"
    for n in LENGTHS:
        x, mask = values(n, dtype), np.random.default_rng(n).random(n + 1)[1:] < 0.5

        def compute(x=x, mask=mask, n=n):
            masked, kept, constant, put, filled = (values(n, dtype, 1) for _ in range(5))
            carried_out(Kind.MASK, size, x, mask, masked, n)
            carried_out(Kind.REPLACE, size, x, size, mask, kept, n)
            if n:
                carried_out(Kind.REPLACE, size, np.array(2.5, dtype), 0, mask, constant, n)
            carried_out(Kind.PUT, size, put, np.flatnonzero(mask), x[mask], int(mask.sum()))
            carried_out(Kind.FILL, size, filled, int(np.array(-1.5, dtype).view(f"i{size}")), n)
            return masked.view(word), kept, constant, put, filled

        others = values(n, dtype, 1)
        put = others.copy()
        put[mask] = x[mask]
        expected = (
            np.where(mask, x.view(word), 0), np.where(mask, x, others), np.where(mask, 2.5, others), put,
            np.full(n, -1.5),
        )  # fmt: skip
        for found, theirs in zip(alike(compute), expected, strict=True):
            np.testing.assert_array_equal(found, theirs)


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("in_place", [False, True])
def test_rows_and_columns_of_a_matrix(dtype, in_place):
    size = np.dtype(dtype).itemsize
    for n0, n1 in itertools.product((0, 1, 5), LENGTHS):
        x, row, column = values(n0 * n1, dtype).reshape(n0, n1), values(n1, dtype, 1), values(n0, dtype, 2)
        given = {
            Spread.ADD_ROW: (row, x + row), Spread.SUBTRACT_COLUMN: (column, x - column[:, None]),
            Spread.MULTIPLY_COLUMN: (column, x * column[:, None]),
            Spread.DIVIDE_COLUMN: (column, x / column[:, None]),
        }  # fmt: skip

        def compute(x=x, row=row, given=given, n0=n0, n1=n1):
            outs = []
            for spread, (other, _) in given.items():
                source = x.copy()
                out = source if in_place else np.empty_like(x)
                carried_out(Kind.SPREAD, size, spread, source, other, out, n0, n1)
                outs.append(out)
            source = x.copy()
            out = source if in_place else np.empty_like(x)
            carried_out(Kind.ADD_ROW_RELU, size, source, row, out, n0, n1)
            return [*outs, out]

        total = x + row
        expected = [*(each for _, each in given.values()), np.where(total <= 0, 0, total)]
        for found, theirs in zip(alike(compute), expected, strict=True):
            np.testing.assert_array_equal(found, theirs)


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", REALS)
def test_gradients_of_rectifiers_and_sums(dtype):
    size = np.dtype(dtype).itemsize
    for n in LENGTHS:
        x, g = values(n, dtype), values(n, dtype, 1)
        rows, many = np.array([2, 0, 2]), values(3 * n, dtype, 2).reshape(3, n)

        def compute(x=x, g=g, rows=rows, many=many, n=n):
            apart, within = np.empty(n, dtype), g.copy()
            masks = np.zeros((2, n), bool)
            carried_out(Kind.MASK_POSITIVE, size, x, g, masks[0], apart, n)
            carried_out(Kind.MASK_POSITIVE, size, x, within, masks[1], within, n)
            sums, multiple = np.ones((4, n), dtype), np.ones(n, dtype)
            carried_out(Kind.ADD_ROWS, size, sums, n, rows, many, 3)
            carried_out(Kind.ADD_MULTIPLE, size, 0, 0, np.zeros(1, dtype), x, 0, multiple, 0, n)
            return apart, within, masks, sums, multiple

        apart, within, masks, sums, multiple = alike(compute)
        expected = np.ones((4, n), dtype)
        np.add.at(expected, rows, many)
        np.testing.assert_array_equal(sums, expected)
        np.testing.assert_array_equal(multiple, 1 + x * 0)
        for found, mask in zip((apart, within), masks, strict=True):
            np.testing.assert_array_equal(mask, x > 0)
            np.testing.assert_array_equal(found, np.where(x > 0, g, 0))


@pytest.mark.parametrize("dtype", REALS)
def test_what_is_not_finite_ends_a_run(dtype):
    size = np.dtype(dtype).itemsize
    for loss, penalty, squares in itertools.product([1.0, np.inf, -np.inf, np.nan], repeat=3):
        given = [np.array(x, dtype) for x in (loss, penalty, squares)]
        is_fine = np.isfinite(loss + penalty) and squares < np.inf and not np.isnan(squares)
        assert alike(lambda given=given: [carried_out(Kind.FINITE, size, *given)]) == [is_fine]


def test_indices_end_a_run_out_of_bounds():
    table = np.arange(10, 15)
    for at, is_fine in [([0, -5, 4], True), ([5], False), ([-6], False), ([], True)]:
        rows, out = np.array(at, np.int64), np.empty(len(at), np.int64)
        assert carried_out(Kind.TABLE, 0, table, 5, rows, out, len(at)) == is_fine
        if is_fine:
            np.testing.assert_array_equal(out, table[rows])
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        for n in LENGTHS:
            indices = np.full(n + 1, 6, dtype)[1:]
            assert carried_out(Kind.BOUNDS, indices.itemsize, indices, n, 7)
            if n:
                indices[-1] = 7
                assert not carried_out(Kind.BOUNDS, indices.itemsize, indices, n, 7)


def test_masks_are_of_draws_by_numpys_generator():
    key, site, step = (2**63 + 5, 77), 3, np.array(2**40)
    for n in LENGTHS:
        bits = np.random.Philox(key=np.array(key, np.uint64), counter=[0, 0, site, int(step)])
        expected = bits.random_raw(n // 4 + 1).view(np.uint16)[:n] >= 20_000

        def compute(n=n):
            halves = np.array(key, np.uint64).view(np.int64).tolist()
            found = [np.full(n, 7, np.float32), np.full(n, 7, np.float64)]
            for out in found:
                scale = np.array(3, out.dtype)
                carried_out(Kind.DROPOUT, out.itemsize, out, n, *halves, site, step, 20_000, scale)
            return found

        for out in alike(compute):
            np.testing.assert_array_equal(out, 3 * expected)


# -- passes -----------------------------------------------------------------------------------------


def test_erfc():
    rng, few = np.random.default_rng(0), np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -12, 12])
    for n in LENGTHS:
        x = np.concatenate([few, rng.uniform(-11, 11, n)]).astype(np.float32)

        def compute(x=x):
            out = np.empty_like(x)
            with config_context(native="always"):
                fast_erfc(x, np.empty((4, 16), np.float32), out)
            return [out]

        np.testing.assert_allclose(alike(compute)[0], scipy.special.erfc(x.astype(float)), 6e-7, 1e-42)


def correlated(images, kernels):
    """Return the correlation of each channel of each image with its kernel."""
    return np.array(
        [
            [scipy.signal.correlate2d(x, w[0], "valid") for x, w in zip(*each, strict=True)]
            for each in zip(images, kernels, strict=True)
        ]
    )


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 1, 1), (3, 2, 1), (2, 1, 0), (5, 1, 2)])
def test_convolutions_channel_by_channel(kernel, stride, padding, dtype):
    rng = np.random.default_rng(0)
    for n, size in [(1, 5), (3, 9), (9, 12)]:
        x = rng.normal(size=(n, 4, size, size + 3)).astype(dtype)
        w, g = rng.normal(size=(4, 1, kernel, kernel)).astype(dtype), None
        padded = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)]).astype(float)
        expected = correlated(padded, [w] * n)[..., ::stride, ::stride]
        g = rng.normal(size=expected.shape).astype(dtype)
        spread = np.zeros((*g.shape[:2], *(np.array(padded.shape[2:]) - kernel + 1)))
        spread[..., ::stride, ::stride] = g
        of_kernel = correlated(padded, spread[:, :, np.newaxis]).sum(axis=0)[:, np.newaxis]

        def compute(x=x, w=w, g=g):
            with config_context(native="always"):
                leaf = sknet.Tensor(w, requires_grad=True)
                out = ops.conv2d(x, leaf, stride=stride, padding=padding, groups=4)
                (out * g).sum().backward()
                return out.numpy(), leaf.grad.numpy()

        eps = np.finfo(dtype).eps
        for found, theirs in zip(alike(compute), (expected, of_kernel), strict=True):
            np.testing.assert_allclose(found, theirs, 0, 30 * eps * abs(theirs).max())


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("size", [(14, 14), (13, 33), (31, 40)])
def test_convolutions_by_tiles(size, dtype):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(16, 16, *size)).astype(dtype), rng.normal(size=(8, 16, 3, 3)).astype(dtype)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]).astype(float)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", views, w.astype(float))
    g = rng.normal(size=expected.shape).astype(dtype)
    of_kernel = np.einsum("nchwij,nohw->ocij", views, g.astype(float))

    def compute():
        with config_context(native="always"):
            leaf = sknet.Tensor(w, requires_grad=True)
            out = ops.conv2d(x, leaf, padding=1)
            (out * g).sum().backward()
            return out.numpy(), leaf.grad.numpy()

    for found, theirs in zip(alike(compute), (expected, of_kernel), strict=True):
        np.testing.assert_allclose(found, theirs, 0, 50 * np.finfo(dtype).eps * abs(theirs).max())


def norm_of(x, g, eps=1e-5):
    """Return the norm of rows and the gradient of its operand, in double precision."""
    x, g = x.astype(float), g.astype(float)
    factor = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    normal = (x - x.mean(-1, keepdims=True)) * factor
    inner, share = g.mean(-1, keepdims=True), (g * normal).mean(-1, keepdims=True)
    return normal, (g - inner - normal * share) * factor


@pytest.mark.parametrize("width", [3, 17, 64, 100])
def test_layer_norms(width):
    rng = np.random.default_rng(0)
    x, g = rng.normal(2, 3, size=(2, 37, 41, width)).astype(np.float32)
    w, b = np.ones(width, np.float32), np.zeros(width, np.float32)

    def compute():
        with config_context(native="always"):
            leaf = sknet.Tensor(x, requires_grad=True)
            out = ops.layer_norm(leaf, (width,), sknet.Tensor(w, requires_grad=True), b)
            (out * g).sum().backward()
            return out.numpy(), leaf.grad.numpy()

    for found, theirs in zip(alike(compute), norm_of(x, g), strict=True):
        np.testing.assert_allclose(found, theirs, 2e-4, 2e-5)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("width", [1, 5, 16, 33])
def test_steps_of_an_lstm(width, dtype):
    rng = np.random.default_rng(0)
    x, w_ih = rng.normal(size=(6, 9, 4)).astype(dtype), rng.normal(size=(4, 4 * width)).astype(dtype)
    w_hh, b = rng.normal(size=(width, 4 * width)).astype(dtype), rng.normal(size=4 * width).astype(dtype)
    h, c, outputs = np.zeros((6, width)), np.zeros((6, width)), []
    for step in range(9):
        z = x[:, step].astype(float) @ w_ih + h @ w_hh.astype(float) + b
        i, f, cell, o = np.split(z, 4, axis=1)
        c = scipy.special.expit(f) * c + scipy.special.expit(i) * np.tanh(cell)
        h = scipy.special.expit(o) * np.tanh(c)
        outputs.append(h)

    def compute():
        with config_context(native="always"), no_grad():
            out, (last, _) = ops.lstm(x, w_ih, w_hh, b)
            return out.numpy(), last.numpy()

    out, last = alike(compute)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(out, np.stack(outputs, 1), 300 * eps, 100 * eps)
    np.testing.assert_array_equal(last, out[:, -1])


# -- rows of tables ---------------------------------------------------------------------------------


def test_rows_of_tables():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 3))
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    numbers[5, 0], numbers[6, 1] = 1e300, -1e300
    X = np.column_stack([numbers, rng.integers(0, 5, 200)])
    encoder = sknet.TableEncoder(categorical_features=[3]).fit(X)
    rows = rng.integers(0, 200, 77)
    described = NativeRows(encoder.plan, encoder.read(X), {})

    def compute():
        out = np.empty((77, encoder.n_features_out_), np.float32)
        described.encode(rows, rows, out)
        return [out]

    np.testing.assert_array_equal(alike(compute)[0], np.asarray(encoder.transform(X[rows])))


def test_codes_of_rows_of_tables():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 3))
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    numbers[5, 0], numbers[6, 1] = 1e300, -1e300
    X = np.column_stack([numbers, rng.integers(0, 5, 200), rng.integers(0, 2, 200)])
    encoder = sknet.TableEncoder(categorical_features=[3, 4]).fit(X, numbers[:, 0] > 0.3)
    rows, blocks = rng.integers(0, 200, 77), encoder.plan.blocks
    described = NativeRows(encoder.plan, encoder.read(X), {}, is_coded=True)

    def compute():
        out = np.empty((77, 2 * len(blocks)), np.float32)
        described.encode(rows, rows, out)
        return [out]

    np.testing.assert_array_equal(decoded(alike(compute)[0], blocks), np.asarray(encoder.transform(X[rows])))


CODED = {
    "steps": ((16, 1),) * 9,
    "of one column": ((1, 0),) * 40,
    "more than are added at once": ((1, 0), (3, 1), (2, 0)) * 50,
    "levels": ((2, 0), (40, 0), (3, 0)),
    "mixed": ((1, 0), (1, 0), (5, 1), (1, 1), (24, 1), (2, 1), (3, 0), (4, 0), (2, 1), (1, 0)),
}


def codes_for(blocks, n_rows):
    rng = np.random.default_rng(0)
    columns = [(rng.integers(0, count, n_rows), rng.normal(size=n_rows)) for count, _ in blocks]
    return np.array(columns, np.float32).transpose(2, 0, 1).reshape(n_rows, -1)


def rows_for(codes, blocks):
    """Return the rows that codes stand for, element by element."""
    found = []
    for row in codes.reshape(len(codes), -1, 2).astype(float):
        parts = []
        for (count, is_steps), (at, value) in zip(blocks, row, strict=True):
            half = 0.5 * is_steps
            parts += [value if i == at else half if i < at else -half for i in range(count)]
        found.append(parts)
    return np.array(found)


def native_product(codes, given, blocks, transposed):
    """Return the product by native code, and whether all instructions succeeded."""
    compiled = compile(lambda x, y: coded_matmul(x, y, blocks, transposed), (codes, given))
    tape = Tape()
    assert all(translated(tape, call) for call in compiled.calls())
    for slot, array in zip(compiled.slots, (codes, given), strict=True):
        slot[...] = array
    program = tape.finished()
    done = carry_out(program)
    return np.array(compiled.result), done


@pytest.mark.parametrize("width", [1, 7, 16, 150])
@pytest.mark.parametrize("blocks", CODED.values(), ids=CODED)
def test_products_of_codes(blocks, width):
    codes = codes_for(blocks, 37)
    rows = rows_for(codes, blocks)
    rng = np.random.default_rng(1)
    for matrix, transposed in ((rows, False), (rows.T, True)):
        given = rng.normal(size=(matrix.shape[1], width)).astype(np.float32)
        for of in SETS:
            for found in alike(
                lambda given=given, t=transposed: [native_product(codes, given, blocks, t)[0]], of
            ):
                np.testing.assert_allclose(found, matrix @ given.astype(float), 1e-5, 2e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("blocks", CODED.values(), ids=CODED)
def test_a_product_with_one_column_has_the_bits_of_one_with_several(blocks, transposed):
    codes = codes_for(blocks, 37)
    given = np.random.default_rng(1).normal(size=(37 if transposed else sum(n for n, _ in blocks), 9))
    given = given.astype(np.float32)
    for isa in core.isas():
        core.use(isa)
        one = native_product(codes, given[:, 4:5].copy(), blocks, transposed)[0]
        np.testing.assert_array_equal(one[:, 0], native_product(codes, given, blocks, transposed)[0][:, 4])


@pytest.mark.parametrize("width", [1, 7, 150])
@pytest.mark.parametrize("blocks", CODED.values(), ids=CODED)
def test_products_of_codes_and_pairs_have_the_bits_of_those_of_codes_and_weights(blocks, width):
    codes = codes_for(blocks, 5)
    codes[::2, 1::6] = 0  # flags that are not set
    given = np.random.default_rng(1).normal(size=(sum(n for n, _ in blocks), width)).astype(np.float32)
    pairs = pairs_of(given, blocks)
    compiled = compile(lambda x, y: paired_matmul(x, y, blocks), (codes, pairs))
    expected = rows_for(codes, blocks) @ given.astype(float)
    np.testing.assert_allclose(compiled(codes, pairs), expected, 1e-5, 2e-5)  # by NumPy
    for isa in core.isas():
        core.use(isa)
        tape = Tape()
        assert all(translated(tape, call) for call in compiled.calls())
        for slot, array in zip(compiled.slots, (codes, pairs), strict=True):
            slot[...] = array
        assert carry_out(tape.finished()) == 1
        np.testing.assert_array_equal(compiled.result, native_product(codes, given, blocks, False)[0])


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("bin", [-1.0, 3.0, 0.5, 2.0000002, 2**25, -np.inf, np.nan, np.inf])
def test_codes_of_no_bin_are_refused(bin, width):
    blocks, given = ((2, 0), (3, 1)), np.ones((5, width), np.float32)
    codes = codes_for(blocks, 6)
    codes[4, 2] = bin
    assert native_product(codes, given, blocks, False)[1] == 0
    with pytest.raises(IndexError, match=r"bins of encoded rows must be integers from 0 to \[1, 2\]"):
        coded_matmul(codes, given, blocks)


# -- threads that serve -----------------------------------------------------------------------------


def helpers():
    return [thread for thread in threading.enumerate() if thread.name == "sknet helper"]


def test_a_thread_that_cannot_begin_is_none(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    crew, before = Crew(), len(helpers())
    for _ in range(2):
        crew.ready(needed(), 3)
    assert len(helpers()) == before


def test_ctrl_c_while_a_thread_begins_gives_no_number_twice(monkeypatch):
    start, numbers = threading.Thread.start, []

    def interrupted(self):
        start(self)
        raise KeyboardInterrupt

    fake = SimpleNamespace(serve=numbers.append, crew=lambda threads, started: None)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    crew = Crew()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            crew.ready(fake, 3)
    crew.ready(fake, 3)
    deadline = time.monotonic() + 20
    while len(numbers) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sorted(set(numbers)) == [1, 2]


# -- the module -------------------------------------------------------------------------------------


def test_unknown_instructions_and_arguments_are_refused():
    with pytest.raises(ValueError, match="no instructions named 'x86-64-v9'"):
        core.use("x86-64-v9")
    with pytest.raises(TypeError, match="expected 2 integers, got 1"):
        core.steps(0)
    with pytest.raises(TypeError, match="integer"):
        core.passes(0, 4, "erfc")


# -- addresses, read from the memory of NumPy's objects ----------------------------------------------

TABLE = np.arange(24, dtype=np.float32).reshape(4, 6)
ARRAYS = {
    "whole": TABLE,
    "a part": TABLE[1:, 2:4],
    "reversed": TABLE[::-1, ::-1],
    "transposed": TABLE.T,
    "repeated": np.broadcast_to(TABLE[0], (4, 6)),
    "one number": np.float64(1)[...],
    "empty": np.zeros((0, 3)),
    "of a buffer": np.frombuffer(bytes(range(16)), np.int32),
    "of another class": np.ma.masked_array(TABLE, TABLE > 3),
    "a field": np.zeros(3, [("a", "i1"), ("b", "f8")])["b"],
    "objects": np.array([None, "a"], dtype=object),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_addresses_are_numpys(kind):
    assert address_of(ARRAYS[kind]) == ARRAYS[kind].ctypes.data


def test_none_has_no_address():
    assert address_of(None) == 0


def test_addresses_of_memory_in_a_file(tmp_path):
    array = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(5, 3))
    assert address_of(array[2:]) == array.ctypes.data + 24


# -- numbers and fields, of which Python and C say the same -------------------------------------------

FOLDER = ROOT / "sknet" / "_native"
HEADER = (FOLDER / "native.h").read_text()


def body(kind, name):
    [found] = re.findall(rf"^{kind} {name} {{(.*?)}};", HEADER, re.DOTALL | re.MULTILINE)
    return found


def fields(name):
    """Return where each field of a structure of integers begins, and how many integers it is."""
    found, place = {}, 0
    for field in re.sub(
        r"\bint64_t\b|[;\n]", lambda m: "" if m[0] == "int64_t" else ",", body("struct", name)
    ).split(","):
        if field := field.strip():
            [(label, length)] = re.findall(r"(\w+)(?:\[(\d+)\])?", field)
            found[label] = place
            place += int(length or 1)
    return found, place


@pytest.mark.parametrize(
    ("name", "enum"), [("kind", Kind), ("spread", Spread), ("work", Work), ("codes", Codes)]
)
def test_numbers_are_those_of_the_source(name, enum):
    names = [x.strip() for x in body("enum", name).split(",") if x.strip()]
    assert names == list(vars(enum))
    assert list(vars(enum).values()) == list(range(len(names)))


@pytest.mark.parametrize(("name", "enum"), [("tile", Tile), ("product", Product), ("table", Field)])
def test_fields_are_those_of_the_source(name, enum):
    found, _ = fields(name)
    found = {label: place for label, place in found.items() if not label.startswith("unused")}
    assert found == {label.lower(): number for label, number in vars(enum).items()}


def test_lengths_are_those_of_the_source():
    assert fields("gates")[1] == FIELDS
    assert fields("turn")[1] == TURN
    assert re.findall(r"\bWIDTH = (\d+)", HEADER) == [str(WIDTH)]
    assert re.findall(r"\bLAYOUT = (\d+)", HEADER) == [str(LAYOUT)]


STALE = """
from sknet import _native
from sknet._native import _core

_core.layout -= 1
print(_native.core(), _native.reason())
"""


def test_an_extension_of_another_version_is_not_used():
    ran = subprocess.run([sys.executable, "-c", STALE], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == f"None {OLD}\n"


def test_conversions_are_in_the_order_of_the_source():
    source = (FOLDER / "moves.inc.c").read_text()
    names = {"float": "float32", "double": "float64"}
    found = re.findall(r"\bconverted_(\w+?)_(float|double)\b", source)
    assert [tuple(names.get(x, x.removesuffix("_t")) for x in pair) for pair in found] == list(CONVERTED)
