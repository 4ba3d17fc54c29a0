"""Chains of elementwise calls, and updates in one pass: the bits of the calls, one after the other."""

import warnings
from itertools import permutations

import numpy as np
import pytest
from scipy.linalg import blas

from sknet import MLPRegressor, config_context
from sknet.compile.numpy import add_multiple
from sknet.optim import SGD, Adam, AdamW, RMSprop
from tests.compile.executors.native.running import (
    FLUSHES,
    Instructions,
    calling,
    is_translated,
    round_otherwise,
)

core = pytest.importorskip("sknet._native._core", reason="native code was not built")

PART = 8192  # elements of a vector that a step adds at a time
DTYPES = ["float32", "float64"]
LENGTHS = (1, 2, 7, 16, 31, 33, 64, 100, 1023, 1024, 1025, 1061, 3 * 1024, 7952, 8192, 8193, 20011)
EXTREME = [0.0, -0.0, 1e-40, -1e-40, 5e-324, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e308, 1e-30, 1.0]


@pytest.fixture(autouse=True)
def newest():
    """Use the newest instructions again when a test has tried others."""
    yield
    core.use(core.isas()[0])


def assert_same_numbers(found, expected):
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


def assert_as_one_after_the_other(calls, arrays):
    """Compare what calls leave in arrays, in native code and NumPy; return the kinds of instructions."""
    before = [x.copy() for x in arrays]
    with np.errstate(all="ignore"):
        for call in calls:
            call.run()
    expected = [x.copy() for x in arrays]
    instructions = Instructions(calls)
    for isa in core.isas():
        core.use(isa)
        for x, values in zip(arrays, before, strict=True):
            x[...] = values
        assert instructions.run()
        for x, values in zip(arrays, expected, strict=True):
            assert_same_numbers(x, values)
    return instructions.kinds


def vectors(count, n, dtype, seed=0):
    """Return vectors with extreme numbers among others, that begin anywhere in a line of the cache."""
    rng = np.random.default_rng([seed, n])
    found = []
    for i in range(count):
        whole = np.empty(n + i, dtype)
        x = whole[i:]
        x[...] = rng.standard_normal(n) * rng.choice([1e-3, 1.0, 30.0])
        if seed:
            with np.errstate(over="ignore"):
                extreme = np.array(EXTREME).astype(dtype)
            at = rng.random(n) < 0.2
            x[at] = rng.choice(extreme, at.sum())
        found.append(x)
    return found


def in_loop(calls):
    """Return calls marked as those of one loop over blocks."""
    return [call._replace(loop="blocks") for call in calls]


def level_1(dtype):
    return blas.get_blas_funcs(("scal", "axpy"), dtype=np.dtype(dtype))


def moments(x, y, a=0.9, b=0.1):
    scal, axpy = level_1(x.dtype)
    parts = [(y[i : i + PART], x[i : i + PART]) for i in range(0, x.size, PART)]
    return [calling(scal, a, x), *[calling(axpy, *part, part[0].size, b) for part in parts]]


def squares(g, t, x, a=0.99, b=0.01):
    return [calling(np.square, g, t), *moments(x, t, a, b)]


def quotients(v, t, m, w, factor, more):
    sums = [] if more is None else [calling(np.add, t, more, t)]
    axpy, parts = level_1(w.dtype)[1], [(t[i : i + PART], w[i : i + PART]) for i in range(0, w.size, PART)]
    add = [calling(add_multiple, axpy, *part, part[0].size, factor) for part in parts]
    return [calling(np.sqrt, v, t), *sums, calling(np.divide, m, t, t), *add]


UPDATES = ["MOMENTS", "SQUARES", "QUOTIENTS"]


def scaled_quotients(v, t, m, w, rate, more, factors):
    scal, _ = level_1(w.dtype)
    scaled = [calling(scal, rate, t), calling(np.multiply, t, factors, t), calling(np.add, w, t, w)]
    return [*quotients(v, t, m, w, rate, more)[:-1], *scaled]


# -- updates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_an_update_of_adam_is_three_passes_over_the_nearest_cache(seed, dtype):
    for n in (n for n in LENGTHS if n > 1):
        g, m, v, t, w = arrays = vectors(5, n, dtype, seed)
        factor, more = np.array(-0.01, dtype), np.array(1e-8, dtype)
        calls = [*moments(m, g), *squares(g, t, v), *quotients(v, t, m, w, factor, more)]
        kinds = assert_as_one_after_the_other(calls, arrays)
        assert kinds == (["CHAIN", *UPDATES] if n > 1024 else UPDATES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [0.0, -0.0, 0.5, np.inf, np.nan])
def test_a_multiple_of_quotients_of_any_factor(factor, dtype):
    for n, more in ((40, None), (1500, np.array(0.0, dtype))):
        arrays = vectors(4, n, dtype, seed=2)
        kinds = assert_as_one_after_the_other(quotients(*arrays, np.array(factor, dtype), more), arrays)
        assert kinds == ["QUOTIENTS"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rate", [-0.01, 0.0, np.nan])
@pytest.mark.parametrize("n_calls", [4, 5, 6])
def test_quotients_are_scaled_by_a_rate_and_by_factors(n_calls, rate, dtype):
    for n in (40, 1061):
        v, t, m, w, factors = arrays = vectors(5, n, dtype, seed=2)
        calls = scaled_quotients(v, t, m, w, np.array(rate, dtype), np.array(1e-8, dtype), factors)
        assert assert_as_one_after_the_other(calls[:n_calls], arrays) == ["QUOTIENTS"]


@pytest.mark.parametrize("exponent", [-126, -72, -70, -68, 0, 68, 70, 124])
def test_roots_of_quotients_are_rounded_once(exponent):
    mantissas = np.arange(0x3F800000, 0x40800000, 61, dtype=np.uint32).view(np.float32)  # from 1 to 4
    v = np.ldexp(mantissas, exponent)
    for m in (np.ones_like(v), v.copy()):
        arrays = [v, np.empty_like(v), m, np.zeros_like(v)]
        calls = quotients(*arrays, np.array(1.0, "f"), None)
        assert assert_as_one_after_the_other(calls, arrays) == ["QUOTIENTS"]


def test_quotients_of_a_single_element_are_calls():
    v, t, m, w, factors = arrays = vectors(5, 1, "float32", seed=2)
    calls = scaled_quotients(v, t, m, w, np.array(0.1, "f"), np.array(1e-8, "f"), factors)
    assert "QUOTIENTS" not in assert_as_one_after_the_other(calls, arrays)


def test_factors_of_an_update_in_its_own_memory_are_no_part_of_it():
    v, t, m, w = arrays = [np.abs(x) for x in vectors(4, 40, "float64")]
    for factors in (t, w):
        calls = scaled_quotients(v, t, m, w, np.array(0.1), np.array(1e-8), factors)
        kinds = assert_as_one_after_the_other(calls, arrays)
        assert kinds[0] == "QUOTIENTS"
        assert len(kinds) > 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_update_of_rmsprop_divides_the_gradient(dtype):
    g, v, t, w = arrays = vectors(4, 5000, dtype)
    calls = [*squares(g, t, v), *quotients(v, t, g, w, np.array(0.1, dtype), np.array(1e-7, dtype))]
    assert assert_as_one_after_the_other(calls, arrays) == ["CHAIN", "SQUARES", "QUOTIENTS"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_that_blas_leaves_out_are_left_to_it(dtype):
    for a, b in ((0.0, 0.1), (0.9, 0.0)):
        arrays = vectors(2, 50, dtype, seed=3)
        assert assert_as_one_after_the_other(moments(*arrays, a, b), arrays) == ["BLAS", "BLAS"]


def test_updates_of_arrays_that_share_memory_are_not_one():
    whole = np.empty(3000)
    number = np.array(0.1)
    overlaps = [
        ("MOMENTS", moments(whole[:2000], whole[1:2001])),
        ("MOMENTS", moments(whole, whole)),
        ("SQUARES", squares(whole[:1000], whole[:1000], whole[2000:])),
        ("SQUARES", squares(whole[:1000], whole[1000:2000], whole[1990:2990])),
        (
            "QUOTIENTS",
            quotients(whole[:900], whole[900:1800], whole[:900], whole[1000:1900], number, None),
        ),
        ("QUOTIENTS", quotients(*[whole[i : i + 900] for i in (0, 900, 0, 2000)], whole[2005, ...], None)),
    ]
    for kind, calls in overlaps:
        whole[...] = np.abs(np.random.default_rng(0).standard_normal(3000)) + 0.1
        assert kind not in assert_as_one_after_the_other(calls, [whole])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("more", [1e-8, 0.0, None])
@pytest.mark.parametrize("n", [40, 4000, 20_000])
def test_moments_below_the_least_normal_number(n, more, dtype):
    """Fits flush them where divisors stay the same without them; what follows is not flushed."""
    least = np.finfo(dtype).tiny
    g, m, v, t, w = (np.zeros(n, dtype) for _ in range(5))
    m[...], v[...], g[::2] = least / 8, least / 4, 0.5
    number = None if more is None else np.array(more, dtype)
    instructions = Instructions(
        [*moments(m, g), *squares(g, t, v), *quotients(v, t, m, w, np.array(-0.01, dtype), number)]
    )
    assert instructions.kinds == [*["CHAIN"][: n > 1024], *UPDATES]
    assert instructions.run(flushes=True)
    np.testing.assert_allclose(m[::2], 0.05, rtol=1e-6)
    np.testing.assert_allclose(v[::2], 0.0025, rtol=1e-6)
    if not more:
        ratio = 0.9 / 8 * least / np.sqrt(0.99 / 4 * least)
        np.testing.assert_allclose(w[1::2], -0.01 * ratio, rtol=1e-4)
    elif FLUSHES:
        assert not np.concatenate([x[1::2] for x in (m, v, w)]).any()
    assert np.array(least) / 2 > 0


@pytest.mark.parametrize("sizes", [(20, 5), (60, 100), (140, 110)])
@pytest.mark.parametrize(
    "optimizer",
    [SGD(lr=0.1, momentum=0.9), Adam(lr=0.05), AdamW(lr=0.05, weight_decay=0.1), RMSprop(lr=0.05)],
    ids=lambda optimizer: type(optimizer).__name__,
)
@pytest.mark.skipif(not FLUSHES, reason="other processors are as fast")
def test_fits_leave_no_number_below_the_least_normal_one(optimizer, sizes):
    """Weights of columns that are always 0 decay for ever."""
    inputs, hidden = sizes
    X = np.random.default_rng(0).standard_normal((40, inputs), dtype=np.float32)
    X[:, inputs // 2 :] = 0
    net = MLPRegressor(
        (hidden,),
        optimizer=optimizer,
        alpha=0.5,
        batch_size=20,
        max_iter=600,
        tol=0,
        n_iter_no_change=600,
        scale_inputs=False,
        random_state=0,
    )
    with config_context(native="always"), warnings.catch_warnings(action="ignore"):
        net.fit(X, X[:, 0])
    slots = net.model_.state.optimizer.slots.values()
    arrays = [*[p.numpy() for p in net.model_.module.parameters()], *slots]
    least = np.finfo(np.float32).tiny
    assert not any(((np.abs(x) < least) & (x != 0)).any() for x in arrays)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_that_are_not_one_vector(dtype):
    """A factor of its own, a gap, a part that reads what the one before has written, or an odd length."""
    _, axpy = level_1(dtype)
    whole, n = np.empty(5 * PART, dtype), PART
    x, y = whole[: 2 * n], whole[2 * n : 4 * n]
    halves = (x[:n], y[:n]), (x[n:], y[n:])
    cases = [
        ([(*halves[0], n, 0.5), (*halves[1], n, 0.5)], 1),
        ([(*halves[0], n, 0.5), (*halves[1], n, 0.25)], 2),
        ([(*halves[0], n, 0.5), (x[n:], whole[3 * n + 1 : 4 * n + 1], n, 0.5)], 2),
        ([(x[:n], x[n:], n, 0.5), (x[n:], y[:n], n, 0.5)], 2),
        ([(x[:99], y[:99], 99, 0.5), (x[99:n], y[99:n], n - 99, 0.5)], 2),
    ]
    for parts, count in cases:
        whole[...] = np.random.default_rng(0).standard_normal(5 * n)
        kinds = assert_as_one_after_the_other([calling(axpy, *part) for part in parts], [whole])
        assert kinds.count("BLAS") == count


# -- parts, as plans go over large arrays -------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2 * PART, 3 * PART + 1, 3 * PART + 2, 5 * PART - 3])
def test_an_update_in_parts_is_one(n, dtype):
    g, m, v, w = results = vectors(4, n, dtype, seed=1)
    factor, more, calls = np.array(-0.01, dtype), np.array(1e-8, dtype), []
    room = np.empty(PART, dtype)
    for i in range(0, n, PART):
        part = slice(i, i + PART)
        t = room[: g[part].size]
        calls += moments(m[part], g[part]) + squares(g[part], t, v[part])
        calls += quotients(v[part], t, m[part], w[part], factor, more)
    kinds = assert_as_one_after_the_other(in_loop(calls), results)
    assert kinds[:4] == ["CHAIN", *UPDATES]
    assert kinds.count("CHAIN") == 1
    assert len(kinds) == 4 or n % PART == 1  # a single number is no vector


@pytest.mark.parametrize("kind", ["of another factor", "read", "apart", "backwards"])
def test_updates_that_are_not_parts_of_one(kind):
    g, m, v, t = results = vectors(4, 4 * PART, "float32")
    parts = [slice(0, PART), slice(PART, 2 * PART)]
    if kind == "apart":
        parts[1] = slice(2 * PART, 3 * PART)
    if kind == "backwards":
        parts.reverse()
    calls = []
    for i, part in enumerate(parts):
        calls += squares(g[part], t[:PART], v[part], a=0.5 + i / 10 if kind == "of another factor" else 0.5)
        if kind == "read":
            calls += moments(m[part], t[:PART])
    kinds = assert_as_one_after_the_other(calls, results)
    assert kinds.count("SQUARES") == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_room", [False, True])
@pytest.mark.parametrize("rows", [8, 3 * 8, 3 * 8 + 5])
def test_bias_and_relu_in_parts(rows, has_room, dtype):
    """One array lies behind another, in any order."""
    kinds = dict.fromkeys(("x", "gradient", "out", "masked"), (rows, dtype))
    kinds |= {"room": (8, dtype), "keep": (8, bool)}
    for number, order in enumerate(permutations(kinds)):
        made, whole = (
            {},
            np.zeros(sum(n * 1024 * np.dtype(kind).itemsize for n, kind in kinds.values()), "u1"),
        )
        for name in order:
            n, kind = kinds[name]
            mine, whole = np.split(whole, [n * 1024 * np.dtype(kind).itemsize])
            made[name] = mine.view(kind).reshape(n, 1024)
        calls, results = bias_and_relu(**made, has_room=has_room)
        assert Instructions(calls).kinds == ["ADD_ROW_RELU", "MASK_POSITIVE"]
        if number % 29 == 0:  # all of them take a minute
            assert_as_one_after_the_other(calls, results)


def bias_and_relu(x, gradient, out, masked, room, keep, has_room):
    """Return calls for parts of 8 rows, and the arrays that they leave."""
    [values], [bias] = vectors(1, x.size, x.dtype, seed=1), vectors(1, 1024, x.dtype)
    x[...] = values.reshape(x.shape)
    gradient[...] = x[::-1]
    zero, word, calls = np.zeros((8, 1024), x.dtype), f"i{x.itemsize}", []
    zero.flags.writeable = False
    parts = [slice(i, i + 8) for i in range(0, len(x), 8)]
    for part in parts:
        n = len(x[part])
        sums = room[:n] if has_room else out[part]
        calls += [calling(np.add, x[part], bias, sums), calling(np.maximum, sums, zero[:n], out=out[part])]
    for part in parts:
        n = len(x[part])
        calls.append(calling(np.greater, out[part], zero[:n], keep[:n]))
        calls.append(calling(np.multiply, gradient[part].view(word), keep[:n], masked[part].view(word)))
    return in_loop(calls), [out, masked]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_that_is_read_again_outside_of_a_loop(dtype):
    """Two masks have one memory, and operands lie one behind the other, as if they were parts of a vector."""
    x, g, out = (np.empty(2 * PART, dtype) for _ in range(3))
    keep, zero, word = np.zeros(PART, bool), np.zeros(PART, dtype), f"i{x.itemsize}"
    x[...], g[...] = np.random.default_rng(0).standard_normal((2, x.size))
    zero.flags.writeable = False
    third, calls = np.empty(PART, dtype), []
    for i in (0, PART):
        part = slice(i, i + PART)
        calls.append(calling(np.greater, x[part], zero, keep))
        calls.append(calling(np.multiply, g[part].view(word), keep, out[part].view(word)))
    calls.append(calling(np.multiply, x[:PART].view(word), keep, third.view(word)))
    expected = np.where(x[PART:] > 0, x[:PART], 0)
    kinds = assert_as_one_after_the_other(calls, [out, third, keep])
    assert kinds.count("MASK_POSITIVE") == 2
    np.testing.assert_array_equal(third, expected)


def test_an_update_against_float64():
    """What is fused is Adam: m, v and w by their definitions."""
    n = 8000
    g, m, v, t, w = vectors(5, n, "float32")
    v[...] = np.abs(v)
    wide = [x.astype(float) for x in (g, m, v, w)]
    rate, more = np.array(-0.01, "float32"), np.array(1e-3, "float32")
    assert Instructions([*moments(m, g), *squares(g, t, v), *quotients(v, t, m, w, rate, more)]).run()
    first = 0.9 * wide[1] + 0.1 * wide[0]
    second = 0.99 * wide[2] + 0.01 * wide[0] ** 2
    size = 0.9 * np.abs(wide[1]) + 0.1 * np.abs(wide[0])  # of what the sum is rounded by
    np.testing.assert_array_less(np.abs(m - first), 2e-7 * size + 1e-30)
    np.testing.assert_allclose(v, second, rtol=3e-7)
    step = 0.01 * first / (np.sqrt(second) + 1e-3)
    allowed = 1e-6 * (np.abs(wide[3]) + 0.01 * size / (np.sqrt(second) + 1e-3))
    np.testing.assert_array_less(np.abs(w - (wide[3] - step)), allowed)


def test_a_blas_that_rounds_in_another_way_is_called(monkeypatch):
    round_otherwise(monkeypatch)
    arrays = vectors(2, 3000, "float32")
    assert assert_as_one_after_the_other(moments(*arrays), arrays) == ["CHAIN", "BLAS", "BLAS"]


# -- chains -------------------------------------------------------------------------------------

UNARY = [np.exp, np.expm1, np.log, np.log1p, np.tanh, np.sqrt, np.square, np.negative, np.absolute, np.rint]
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", UNARY)
def test_parts_of_a_loop_have_the_bits_of_the_whole(function, dtype):
    for n in (n for n in LENGTHS if n > 1024):
        for seed in (0, 1):
            x, y, z = arrays = vectors(3, n, dtype, seed)
            calls = [calling(function, x, y), calling(np.add, y, z, z), calling(function, z, z)]
            assert "CHAIN" in assert_as_one_after_the_other(calls, arrays)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(40))
def test_any_calls_on_views_of_one_array(seed, dtype):
    """Views that overlap, strided ones, and numbers that are elements of what is written."""
    rng = np.random.default_rng([seed, 5])
    n = int(rng.choice([1025, 2000, 3001]))
    whole = np.abs(rng.standard_normal(6 * n)).astype(dtype) + np.dtype(dtype).type(0.5)
    starts = [0, n, 2 * n, 3 * n, int(rng.integers(0, 3 * n)), n + 1, 2 * n - 1024]
    views = [whole[start : start + n] for start in starts] + [whole[: 2 * n : 2], whole[1 : 2 * n : 2]]
    numbers = [whole[i : i + 1].reshape(()) for i in rng.integers(0, whole.size, 3)]
    calls = []
    while len(calls) < 12:
        call = any_call(rng, views, numbers, dtype)
        if is_translated(call):
            calls.append(call)
    assert_as_one_after_the_other(calls, [whole])


def any_call(rng, views, numbers, dtype):
    """Return a call of a function of vectors; those of BLAS are dense, and apart from each other."""
    scal, axpy = level_1(dtype)
    x, y, out = (views[i] for i in rng.integers(0, len(views), 3))
    number, factor = numbers[rng.integers(0, len(numbers))], float(rng.uniform(0.1, 0.9))
    kind = rng.integers(0, 5)
    if kind == 0:
        return calling(rng.choice(UNARY[5:]), x, out)
    if kind == 1:
        return calling(rng.choice(BINARY), x, [y, number][rng.integers(0, 2)], out=out)
    if not out.flags.c_contiguous or kind == 2 or not x.flags.c_contiguous or np.may_share_memory(x, out):
        return calling(scal, factor, views[0])
    if kind == 3:
        return calling(axpy, x, out, x.size, factor)
    return calling(add_multiple, axpy, x, out, x.size, number)


def test_masks_of_chains():
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        x, gradient, out = vectors(3, 4000, dtype, seed=1)
        mask, bits = rng.random(4000) < 0.5, f"i{x.itemsize}"
        zero = np.zeros((), dtype)
        zero.flags.writeable = False
        calls = [
            calling(np.multiply, gradient.view(bits), mask, out.view(bits)),
            calling(np.multiply, out, x, out),
            calling(np.greater, x, zero, mask),
            calling(np.multiply, out.view(bits), mask, out.view(bits)),
        ]
        kinds = assert_as_one_after_the_other(calls, [x, gradient, out, mask.view(np.uint8)])
        assert kinds == ["CHAIN", "MASK", "LOOP", "MASK_POSITIVE"]


def test_a_chain_ends_where_another_begins():
    """Parameters in blocks have one array in common, which each block overwrites."""
    room = np.empty(8192, "float32")
    blocks = [vectors(4, 8192, "float32", seed) for seed in range(3)]
    factor = np.array(0.1, "float32")
    calls = [
        call
        for g, m, v, w in blocks
        for call in (*moments(m, g), *squares(g, room, v), *quotients(v, room, m, w, factor, None))
    ]
    kinds = assert_as_one_after_the_other(calls, [room, *[x for block in blocks for x in block]])
    assert kinds == ["CHAIN", *UPDATES] * 3
