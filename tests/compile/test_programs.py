"""Programs from within: text of calls, functions cached by a key, and graphs that differ in numbers alone."""

import gc
import operator
import weakref

import numpy as np
import pytest
import scipy.sparse

from sknet import NetRegressor, Tensor, nn, ops, vmap
from sknet.compile import Plan, capture, compile
from sknet.compile._calls import Assigned, Call, Method, Name, RepeatedCalls, bound, lines_of, runner_of
from sknet.compile._compile import MOST_FUNCTIONS, MOST_PROGRAMS, compile_cached
from sknet.compile._symbolic import differing, lift_constants, outputs_with
from sknet.compile.passes import ASSEMBLY, rewrite
from sknet.device import Device, active, products_in, to_device
from tests.devices import fake
from tests.devices.rounding import BITS


def test_names_are_looked_up_in_functions_tuples_and_named_arguments():
    seen = []

    def function(*args, **named):
        seen.append((args, named))

    call = Call(Name("f"), (Name("a"), ("a", (Name("b"), 1)), "b", None), {"out": Name("b")})
    runner_of(bound([call], {"f": function, "a": 10, "b": 20}))()
    assert seen == [((10, ("a", (20, 1)), "b", None), {"out": 20})]


def test_loops_bind_each_block():
    seen = []
    twice = (Name("t"), Call(operator.mul, (Name("x"), 2)))
    loop = RepeatedCalls(
        Name("blocks"), [Name("x")], [twice], [Call(seen.append, (Name("t"),))], "two blocks"
    )
    runner_of(bound([loop], {"blocks": [(1,), (5,)]}))()
    assert seen == [2, 10]
    assert lines_of([loop], {}, {})[0] == "for x in blocks:  # two blocks"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (Call(Name("f"), (Name("a"), 1.5, float("nan"), "clip")), "f(a, 1.5, float('nan'), 'clip')"),
        (Call(Name("f"), ((Name("a"),), (1, Name("b")))), "f((a,), (1, b))"),
        (Call(Name("f"), (Name("a"),), {"where": Name("m")}), "f(a, where=m)"),
        (Call(Name("put"), (Name("a"), ..., Name("b"))), "a[...] = b"),
        (Call(Name("get"), (Name("a"), (slice(None), slice(2, 5)))), "a[:, 2:5]"),
        (Call(Name("get"), (Name("a"), slice(None, None, 2))), "a[::2]"),
        (Call(Name("take"), (Name("a"), Name("i"), None)), "a.take(i, None)"),
        (Call(Name("view"), (Name("a"), "i4")), "a.view('i4')"),
        (Call(Name("g"), (Name("a"), Name("b"))), "a[...] = g(b)"),
    ],
)
def test_text(call, text):
    functions = {
        "put": operator.setitem,
        "get": operator.getitem,
        "take": np.ndarray.take,
        "view": Method("view"),
        "g": Assigned(np.cumsum),
    }
    assert call.text(functions) == text


# -- functions cached by a key: captured once, each bound to its own memory and matrices --------------

ALONE = 16  # at most, of the steps that wait for a later fit


class Counted:
    """A function that counts how often it is captured."""

    def __init__(self, function):
        self.function, self.times = function, 0

    def __call__(self, *args):
        self.times += 1
        return self.function(*args)


def test_arguments_of_another_structure_are_captured_again():
    function = Counted(lambda x, more: (x["a"] * more["n"],))
    examples = [
        ({"a": np.ones(3)}, {"n": 2}),
        ({"a": np.ones(3)}, {"n": 2.0}),
        ({"a": np.ones(3, "f4")}, {"n": 2}),
        ({"a": np.ones((3, 1))}, {"n": 2}),
    ]
    for number, args in enumerate(examples):
        for _ in range(2):
            [found] = compile_cached("of other structure", function, args)(*args)
            np.testing.assert_array_equal(found, args[0]["a"] * 2)
        assert function.times == number + 1


def test_instances_have_their_own_memory():
    one, other = (compile_cached("own memory", lambda x: x + 1, (np.ones(3),)) for _ in range(2))
    found = one(np.zeros(3))
    other(np.ones(3))
    assert found.tolist() == [1.0, 1.0, 1.0]


def test_random_streams_are_in_the_key_only_if_numbers_are_drawn():
    def masked(stream):
        function.function = lambda x, step: ops.dropout(x, 0.5, key=stream, step=step)
        args = np.ones(64), np.zeros((), np.int64)
        return compile_cached("draws", function, args, stream=stream)(*args).tolist()

    function = Counted(None)
    streams = [(1, 2), (3, 4), (1, 2), (5, 6), (3, 4), (5, 6)]
    found = [masked(stream) for stream in streams]
    assert function.times == 3
    assert len(set(map(tuple, found))) == 3
    for stream, values in zip(streams, found, strict=True):
        assert values == found[streams.index(stream)]
    plain = Counted(lambda x: x * 2)
    for stream in streams:
        compile_cached("draws nothing", plain, (np.ones(3),), stream=stream)
    assert plain.times == 1


def test_each_reads_the_sparse_matrices_that_it_was_given():
    function = Counted(lambda a, b, w: ops.matmul(b, w) + 10 * ops.matmul(a, w))
    bound = []
    for factor in (1.0, 2.0):
        slots = [ops.SparseSlot((2, 2), "float64") for _ in range(2)]
        for i, slot in enumerate(slots):
            slot.matrix = scipy.sparse.csr_array(factor * (i + 1) * np.eye(2))
        args = (*slots, np.ones(2))
        bound.append(compile_cached("sparse", function, args))
    for run, factor in zip(bound, (1.0, 2.0), strict=True):
        run.slots[2][...] = 1.0
        run.run()
        assert run.result.tolist() == [12.0 * factor] * 2
    assert function.times == 1


def test_a_matrix_that_is_not_an_argument_is_never_shared():
    slots = [ops.SparseSlot((2, 2), "float64") for _ in range(2)]
    for i, slot in enumerate(slots):
        slot.matrix = scipy.sparse.csr_array((i + 1.0) * np.eye(2))
        found = compile_cached("closed over", lambda w, slot=slot: ops.matmul(slot, w), (np.ones(2),))
        assert found(np.ones(2)).tolist() == [i + 1.0] * 2


def test_the_least_recently_used_are_evicted():
    function = Counted(lambda x: x + 1)
    for number in range(MOST_FUNCTIONS + 2):
        compile_cached(("many", number), function, (np.ones(1),))
    before = function.times
    compile_cached(("many", MOST_FUNCTIONS + 1), function, (np.ones(1),))
    assert function.times == before
    compile_cached(("many", 0), function, (np.ones(1),))
    assert function.times == before + 1


def scaled(number):
    """Compile a function with a constant of its own."""
    function = Counted(lambda x: x * (1 + number * 1e-6))
    return compile_cached(("constant", number), function, (np.ones(1),)), function


def test_programs_of_many_constants_are_freed():
    alive = weakref.WeakSet()
    for number in range(2 * MOST_PROGRAMS):
        alive.add(scaled(number)[0].plan)
    gc.collect()
    assert len(alive) <= MOST_PROGRAMS


def test_a_program_in_use_is_found_after_many_others():
    in_use, _ = scaled(0.5)
    for number in range(1, 2 * MOST_PROGRAMS):
        scaled(number)
    found, function = scaled(0.5)
    assert function.times == 0
    assert found.plan is in_use.plan
    dropped, function = scaled(1)
    assert function.times == 1
    assert dropped(np.ones(1)).tolist() == [1 + 1e-6]


def test_programs_of_fits_with_many_constants_are_freed():
    def n_plans():
        gc.collect()
        return sum(type(x) is Plan for x in gc.get_objects())

    X, y = np.eye(4), np.arange(4.0)
    before = n_plans()
    for number in range(MOST_PROGRAMS + 30):
        network = nn.Sequential(nn.Linear(4, 2), nn.LeakyReLU(number / 1000), nn.Linear(2, 1))
        NetRegressor(network, tol=1e9, n_iter_no_change=1, random_state=0).fit(X, y).predict(X)
    assert n_plans() <= max(before, MOST_PROGRAMS + ALONE)


def test_shapes_are_part_of_the_structure():
    function = Counted(lambda x: x + 1)
    for device in ("cpu", "meta"):
        compile_cached("device", function, (ops.zeros((2,), device=Device(device)).data,))
    assert function.times == 2


def test_a_program_keeps_its_precision(fake_device):
    arrays = [to_device(np.ones(shape, "float32"), fake_device) for shape in ((6, 5), (5, 4))]
    made = {}
    with active(fake_device):
        for precision in ("float32", *BITS):
            with products_in(precision):
                made[precision] = compile_cached("of a precision", ops.matmul, tuple(arrays))
        for precision, program in made.items():
            for around in made:
                with products_in(around), fake.counted() as counts:
                    program(*arrays)
                assert counts.precisions == {precision: 1}


# -- graphs that differ in numbers alone ---------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(4, 6))


def graphs(function, *numbers, x=X):
    return [lift_constants(capture(lambda x, number=number: function(x, number), x)) for number in numbers]


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (lambda x, number: x * number + 1.0, (0.5, -0.0, 1e-8)),
        (lambda x, number: ops.where(ops.greater(x, number), x * 2.0, number), (0.1, 0.2)),
        (lambda x, number: ops.sum(x) / number + number**2, (3, 4)),
        (lambda x, number: x * Tensor(np.array([number, 1.0, number, 1, 1, 1])), (0.5, 0.25)),
    ],
    ids=["float", "condition", "int", "array"],
)
def test_one_graph_computes_what_each_does(function, numbers):
    found = graphs(function, *numbers)
    assert len({each.key for each in found}) == 1
    at = differing(found)
    assert at
    for each, number in zip(found, numbers, strict=True):
        given = {i: Tensor(each.numbers[i]) for i in at}
        [output] = outputs_with(found[0], [Tensor(X)], given)
        np.testing.assert_array_equal(output.numpy(), function(Tensor(X), number).numpy())


def test_numbers_are_told_apart_by_their_bits():
    assert differing(graphs(lambda x, number: x * number, 0.0, -0.0)) == (0,)
    assert differing(graphs(lambda x, number: x * number, np.nan, np.nan)) == ()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, number: ops.sum(x, number),
        lambda x, number: ops.exp(x) if number else ops.tanh(x),
        lambda x, number: ops.floor_divide(ops.astype(x, "int64"), number + 1),
        lambda x, number: x[:, number:],
    ],
    ids=["axis", "operation", "integers", "shape"],
)
def test_other_differences_are_differences(function):
    one, other = graphs(function, 0, 1)
    assert one.key != other.key


def test_in_single_precision_numbers_are_those_of_the_graph():
    [each] = graphs(lambda x, number: x * number, 0.1, x=X.astype("f4"))
    assert each.numbers == (np.float32(0.1),)
    assert each.numbers[0].dtype == "float32"


def test_a_flat_array_of_each_is_assembled_slice_by_slice():
    """With gaps between the slices, and slices that all have in common."""

    def function(x, common):
        a, b = ops.zeros((6,)), ops.zeros((4,))
        grown = ops.concat([a, x[:2] * 2, b, ops.reshape(x[2:], (-1,)), common])
        return grown * 3.0

    common, x = np.arange(3.0), X
    of = lift_constants(capture(function, x[0], common))
    assert any(e.primitive.name == "assemble" for e in rewrite(of.graph, ASSEMBLY).equations)

    def each(x, common):
        return outputs_with(of, [x, common], {})

    expected = np.stack([function(Tensor(row), Tensor(common)).numpy() for row in x])
    [found] = vmap(each, (0, None))(Tensor(x), Tensor(common))
    np.testing.assert_array_equal(found.numpy(), expected)
    [found] = compile(lambda x: vmap(lambda row: each(row, Tensor(common)))(x), (x,))(x)
    np.testing.assert_array_equal(found, expected)
