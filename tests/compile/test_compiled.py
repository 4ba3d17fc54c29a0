"""Compiled functions: slots, sharing, separate memory."""

import ast
import gc
import weakref

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.compile import compile
from sknet.exceptions import CaptureError, DtypeError, ShapeError
from tests.threads import run_in_threads

X = np.arange(6.0).reshape(2, 3)


def affine(state, x):
    return {"w": state["w"] * 0.5 + x.sum(0)}, (x @ state["w"]).sum()


def make(**options):
    return compile(affine, ({"w": np.ones(3)}, X), **options)


def test_arguments_are_copied_into_slots():
    compiled = make()
    state, total = compiled({"w": np.ones(3)}, X)
    np.testing.assert_array_equal(state["w"], 0.5 + X.sum(0))
    assert total == X.sum()
    np.testing.assert_array_equal(compiled.slots[1], X)
    assert not np.shares_memory(compiled.slots[1], X)


def test_slots_may_be_written_and_the_function_run():
    compiled = make()
    compiled.slots[0]["w"][:] = 2.0
    np.take(X, [1, 1], axis=0, out=compiled.slots[1], mode="clip")
    compiled.run()
    assert compiled.result[1] == 2 * 2 * X[1].sum()


def test_tensors_are_arguments_too():
    np.testing.assert_array_equal(make()({"w": Tensor(np.ones(3))}, Tensor(X))[1], X.sum())


def test_the_same_structure_shares_the_program():
    first, second = make(), compile(affine, ({"w": np.zeros(3)}, -X))
    assert first.plan is second.plan
    assert first.source == second.source
    assert make(donate=(0,)).plan is not first.plan
    assert make(exact=True).plan is not first.plan
    assert compile(affine, ({"w": np.ones(3)}, X[:1])).plan is not first.plan


def test_fresh_has_its_own_memory():
    first = make()
    second = first.fresh()
    expected = first({"w": np.ones(3)}, X)[0]["w"].copy()
    second({"w": np.zeros(3)}, -X)
    np.testing.assert_array_equal(first.result[0]["w"], expected)
    assert second.plan is first.plan
    assert second.nbytes == first.nbytes == first.plan.arena_size + first.plan.pinned_size


def test_slots_can_be_shared():
    """As for the last, short batch of an epoch: different rows, the same parameters."""
    full = make(donate=(0,))
    short = compile(affine, ({"w": np.ones(3)}, X[:1]), donate=(0,)).fresh(({"w": full.slots[0]["w"]}, None))
    full.slots[0]["w"][:] = 1.0
    full.slots[1][:] = X
    full.run()
    short.slots[1][:] = X[:1]
    short.run()
    np.testing.assert_array_equal(full.slots[0]["w"], (0.5 + X.sum(0)) * 0.5 + X[0])


def test_another_array_on_the_same_memory():
    """As for batches in the order of the data: rows are read in place, even if read-only."""
    data = np.arange(12.0).reshape(4, 3)
    data.flags.writeable = False
    gathered = make(donate=(0,))
    placed = make(donate=(0,))
    for start in (0, 2, 0):
        gathered.slots[1][:] = data[start : start + 2]
        gathered.run()
        over = placed.over((None, data[start : start + 2]))
        over.run()
        assert over.slots[0]["w"] is placed.slots[0]["w"]
        assert over._memory is placed._memory
        np.testing.assert_equal(over.result, gathered.result)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(ShapeError, match=r"slot 0\.w must be a writeable array"):
        placed.over(({"w": frozen}, None))


@pytest.mark.parametrize(
    ("slots", "error", "message"),
    [
        (
            ({"w": np.ones(4)}, None),
            ShapeError,
            r"argument 0\.w must have shape \(3,\), as captured, got \(4,\)",
        ),
        (({"w": np.ones(3, "f4")}, None), DtypeError, r"argument 0\.w must have dtype float64"),
        (
            ({"w": np.ones(6)[::2]}, None),
            ShapeError,
            r"slot 0\.w must be an array that is C-contiguous",
        ),
        (
            ({"b": np.ones(3)}, None),
            CaptureError,
            r"slots has arrays at \['0\.b'\], where the function takes none",
        ),
    ],
)
def test_slots_that_do_not_fit(slots, error, message):
    with pytest.raises(error, match=message):
        make().fresh(slots)


def test_a_donated_argument_without_an_output():
    with pytest.raises(
        CaptureError, match=r"no output has the shape .* of a donated array, float64\[2,3\] \(array 1"
    ):
        make(donate=(1,))


def test_results_of_numbers_and_nothing():
    compiled = compile(lambda x: {"a": None, "b": 3, "c": [x, "text"]}, (X,))
    found = compiled(X)
    assert found["a"] is None
    assert found["b"] == 3
    assert found["c"][1] == "text"
    np.testing.assert_array_equal(found["c"][0], X)


def test_results_that_do_not_depend_on_arguments():
    np.testing.assert_array_equal(compile(lambda x: ops.exp(np.zeros(3)), (X,))(X), np.ones(3))


def test_the_source_can_be_read():
    source = make().source
    assert source.startswith("# slots: v0: float64[3], v1: float64[2,3]\n# arena: ")
    assert "def step():" in source
    assert repr(make()).startswith("Compiled(")


def test_no_dictionaries_and_no_loops_over_equations():
    assert "[" not in "".join(line.split("#")[0] for line in make().source.splitlines()[2:])


def test_several_threads():
    program = make()
    errors = []

    def work(seed):
        mine = program.fresh()
        rng = np.random.default_rng(seed)
        for _ in range(50):
            w, x = rng.standard_normal(3), rng.standard_normal((2, 3))
            state, total = mine({"w": w}, x)
            if not np.allclose(state["w"], w * 0.5 + x.sum(0)) or not np.allclose(total, (x @ w).sum()):
                errors.append(seed)

    run_in_threads(work, [(i,) for i in range(4)])
    assert not errors


def test_memory_is_given_back():
    compiled = make()
    memory = weakref.ref(compiled.slots[1])
    del compiled
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("n", [0, 1, 5])
def test_flat_arrays_of_any_length(n):
    """BLAS, which adds multiples of flat arrays, treats empty and strided ones differently."""
    x = np.arange(float(2 * n))
    function = compile(
        lambda x, a: (ops.exp(x[::2]) * 3.0 + a * x[1::2], x - a * ops.sin(x)), (x, np.array(0.5))
    )
    first, second = function(x, np.array(2.0))
    np.testing.assert_allclose(first, np.exp(x[::2]) * 3 + 2 * x[1::2], rtol=1e-14)
    np.testing.assert_allclose(second, x - 2 * np.sin(x), rtol=1e-14)


def test_long_sums_are_accurate():
    x = np.random.default_rng(0).random((1 << 18, 4), dtype=np.float32)
    over_rows, over_all = compile(lambda x: (x.sum(0), x.reshape(-1).sum()), (x,))(x)
    np.testing.assert_allclose(over_rows, x.sum(0, dtype=float), rtol=3e-6)
    np.testing.assert_allclose(over_all, x.sum(dtype=float), rtol=3e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_multiples_in_place_in_every_dtype(dtype):
    """BLAS has no float16: it would compute on a copy, and write nothing."""
    x = np.linspace(-1, 1, 5).astype(dtype)
    found = compile(lambda x: ops.exp(x) * 0.5 + x * 2.0, (x,))(x)
    expected = np.exp(x.astype("float64")) * 0.5 + x * 2.0
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    "shape", [(200, 64, 100), (64, 200, 100), (127, 100, 90)], ids=["rows", "columns", "whole"]
)
def test_products_that_run_in_one_thread(shape, monkeypatch):
    monkeypatch.setattr("sknet.compile.numpy._emitters.small_limit", lambda: 10**6)
    m, k, n = shape  # of no other test, whose programs are cached
    rng = np.random.default_rng(0)
    x, w, turned = rng.normal(size=(m, k)), rng.normal(size=(k, n)), rng.normal(size=(k, m))
    compiled = compile(lambda x, w, t: (x @ w, ops.matrix_transpose(t) @ w), (x, w, turned))
    assert ("matmul(" in compiled.source) == (m != 127)  # a prime number of rows has no equal parts
    for found, expected in zip(compiled(x, w, turned), (x @ w, turned.T @ w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_slots_as_arguments_for_one_another():
    """A value must not be overwritten before it is read."""
    compiled = compile(lambda x, y, z: (x - 2 * y, y * z), (np.ones(3), np.ones(3), np.ones(3)))
    x, y, z = np.arange(3.0), np.arange(3.0) + 5, np.arange(3.0) + 9
    for _ in range(2):
        compiled(x, y, z)
        first, second = compiled(compiled.slots[1], compiled.slots[0], compiled.slots[2][::-1])
        np.testing.assert_array_equal(first, y - 2 * x)
        np.testing.assert_array_equal(second, x * z[::-1])


def test_donated_results_as_other_arguments():
    compiled = compile(lambda x, y: (y + 1, x * 2), (np.ones(2), np.ones(2)), donate=(0, 1))
    first, second = compiled(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    swapped = compiled(second, first)
    np.testing.assert_array_equal(swapped[0], [5.0, 6.0])
    np.testing.assert_array_equal(swapped[1], [4.0, 8.0])


def test_a_donated_slot_has_its_own_memory():
    memory = np.arange(6.0)
    args = np.ones(4), np.ones(4)
    with pytest.raises(CaptureError, match="slots 0 and 1 share memory, and the first is written to"):
        compile(lambda x, y: (x + y[::-1], y.sum()), args, donate=(0,), slots=(memory[:4], memory[2:]))
    shared = compile(lambda x, y: x + y[::-1], args, slots=(memory[:4], memory[2:]))
    shared.run()
    np.testing.assert_array_equal(shared.result, memory[:4] + memory[2:][::-1])


# -- the same bits, whatever the layout -------------------------------------------------------

ONES = np.full((7, 7), 0.3, np.float32)
OF_ANY_LAYOUT = {
    "sum of a transposed array": lambda x: (x.T * 0.4).sum(),
    "mean over some axes": lambda x: ops.tanh(ops.permute_dims(x.reshape(7, 13, 3), (2, 0, 1))).mean((0, 2)),
    "softmax": lambda x: ops.softmax(x.T, axis=0) @ x,
    "log_softmax": lambda x: ops.log_softmax(x.T, axis=-1).sum(),
    "logsumexp": lambda x: ops.logsumexp(x.T),
    "product of transposed arrays": lambda x: ops.sin(x.T) @ ops.cos(x),
    "a product over both axes": lambda x: ops.einsum("ab,ab->b", x.T * 0.5, x.T),
    "an axis more": lambda x: ops.matmul(x.T.reshape(39, 1, 7), x.T.reshape(39, 7, 1)),
    "a repeated number": lambda x: Tensor(ONES) @ x,
    "a repeated row": lambda x: (ops.broadcast_to(x[:1], (13, 39)) * 0.3) @ x.reshape(39, 7),
    "a repeated row, turned": lambda x: x @ ops.permute_dims(-ops.broadcast_to(x[:1], (13, 39)), (1, 0)),
    "cumulative sum": lambda x: ops.cumulative_sum(x.T * 1.1, axis=1).sum(),
    "gradient": lambda x: grad(lambda x: (ops.exp(x.T * 0.1) @ x).sum())(x).sum(axis=0),
}


@pytest.mark.parametrize("name", OF_ANY_LAYOUT)
def test_exact_plans_are_bitwise_identical_to_calls_for_every_layout(name):
    """NumPy's results for transposed operands are transposed, and sums over them round differently."""

    def function(x):
        return OF_ANY_LAYOUT[name](x.reshape(7, 39))

    given = [np.random.default_rng(seed).normal(size=273).astype("float32") for seed in range(5)]
    compiled = compile(function, (given[0],), exact=True)
    for x in given:
        np.testing.assert_array_equal(compiled(x), function(Tensor(x)).numpy())


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "prod", "any", "all", "var"])
def test_names_of_loops_hide_no_functions(reduction):
    """A multiple is added in blocks, by a loop whose variables must not be the functions of later lines."""

    def function(a, b, x, images):
        return a @ b + 0.5 * x, getattr(ops, reduction)(images, (0, 2, 3))

    rng = np.random.default_rng(0)
    shapes = (100, 8), (8, 200), (100, 200), (4, 3, 5, 6)
    a, b, x, images = (rng.normal(size=shape).astype("float32") for shape in shapes)
    compiled = compile(function, (a, b, x, images))
    nodes = list(ast.walk(ast.parse(compiled.source).body[-1]))
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assert not stored & {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    for _ in range(2):
        added, reduced = compiled(a, b, x, images)
        np.testing.assert_allclose(added, a @ b + x / 2, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            reduced, getattr(np, reduction)(images, axis=(0, 2, 3)), rtol=1e-4, atol=1e-5
        )
