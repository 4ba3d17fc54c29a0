"""Functions cached by a key: captured once, each bound to its own memory and matrices."""

import gc
import weakref

import numpy as np
import scipy.sparse

from sknet import NetRegressor, nn, ops
from sknet.compile import Plan
from sknet.compile._compile import MOST_FUNCTIONS as KEPT
from sknet.compile._compile import MOST_PROGRAMS, compile_cached
from sknet.device import Device

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
    for number in range(KEPT + 2):
        compile_cached(("many", number), function, (np.ones(1),))
    before = function.times
    compile_cached(("many", KEPT + 1), function, (np.ones(1),))
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
