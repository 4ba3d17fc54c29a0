"""Identity: graphs share a program if and only if structure and bits are equal."""

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, Tensor, nn, ops
from sknet.compile import Equation, Graph, Variable, capture, compile
from sknet.core import PRIMITIVES, gradients
from sknet.exceptions import CaptureError
from tests.contracts.rows import every_case

LONG = 1500  # elements: NumPy abbreviates the text of an array of more than 1,000
NAN = float("nan")


def another_nan():
    return np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0].item()


# -- values -----------------------------------------------------------------------------------


def key_of(value):
    """Return the key of a graph whose only equation has a parameter."""
    x = Variable((), "float64")
    equation = Equation(PRIMITIVES["exp"], (x,), {"value": value}, Variable((), "float64"))
    return Graph((x,), {}, [equation], [equation.output]).key()


DIFFERENT = [
    *(0, 0.0, -0.0, False, None, ..., "", b"", "0", 0j, 1, 1.0, True, "1", NAN, another_nan(), 5e-324),
    *((), (0,), (0.0,), (-0.0,), (False,), [0], [0.0], ((0,),), (1, 0), (True, False), (1.0, 0.0)),
    *({}, {"a": 0}, {"a": 0.0}, {"b": 0}, {"a": {"a": 0}}, slice(None), slice(0), slice(0, None), slice(0.0)),
    *(np.dtype("f4"), np.dtype("f8"), np.dtype(">f8"), np.float32, np.float64, "float32"),
    *(np.float32(0), np.float64(0), np.float64(-0.0), np.int64(0), np.int32(0), np.bool_(False)),
    *(np.zeros(()), np.zeros(1), np.zeros((1, 1)), np.zeros(2), np.zeros(0), np.zeros((0, 2)), -np.zeros(2)),
    *(np.zeros(2, np.int64), np.zeros(2, np.float32), np.zeros(2, ">f8"), np.array([1e-320, 0.0])),
    *(np.zeros(LONG), np.zeros((LONG, 1)), np.arange(LONG), np.arange(LONG)[::-1], (np.arange(LONG),)),
    *([np.arange(LONG)], (slice(None), np.arange(LONG)), {"index": np.arange(LONG)}, np.array([None, "a"])),
]


def test_different_values_have_different_keys():
    keys = [key_of(value) for value in DIFFERENT]
    for i, key in enumerate(keys):
        assert [j for j, other in enumerate(keys) if other == key] == [i]
    assert len(set(keys)) == len(keys)


def copied(value):
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {name: copied(x) for name, x in value.items()}
    return type(value)([copied(x) for x in value]) if isinstance(value, (tuple, list)) else value


def test_equal_values_have_equal_keys():
    for value in DIFFERENT:
        assert key_of(copied(value)) == key_of(value)
        assert hash(key_of(copied(value))) == hash(key_of(value))


@pytest.mark.parametrize("at", [0, LONG // 2, LONG - 1])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (..., x), lambda x: [{"a": (x,)}]])
def test_one_element_of_a_long_array(at, wrap):
    first, second = np.arange(LONG), np.arange(LONG)
    second[at] += 1
    assert repr(first) == repr(second) or at != LONG // 2
    assert key_of(wrap(first)) != key_of(wrap(second))


class Count(int):
    """A number of a custom class."""


class Half(float):
    pass


def test_numbers_of_custom_classes():
    assert key_of(Count(3)) == key_of(Count(3)) != key_of(Count(4))
    assert key_of((Half(0.5), 1)) == key_of((Half(0.5), 1)) != key_of((Half(0.0), 1))
    assert key_of(Half(0.0)) != key_of(Half(-0.0))
    x = np.ones((2, 3))
    first, second = (capture(lambda x: ops.reshape(x, (x.size,)), x) for _ in range(2))
    assert first.key() == second.key()


def test_memory_layouts_do_not_matter():
    x = np.arange(600.0).reshape(20, 30)
    assert key_of(x) == key_of(np.asfortranarray(x)) == key_of(np.repeat(x, 2, axis=1)[:, ::2])


def test_unknown_objects_are_compared_by_identity_and_kept_alive():
    """An id may be reused once its object is deleted."""
    keys = [key_of(object()) for _ in range(100)]
    assert len(set(keys)) == 100
    kept = object()
    assert key_of(kept) == key_of(kept)


# -- graphs -----------------------------------------------------------------------------------


def parts_varied(value):
    for i, part in enumerate(value):
        for other in variants(part):
            yield type(value)([other if i == j else x for j, x in enumerate(value)])
    yield type(value)([*value, 0])


def bounds_varied(value):
    bounds = [value.start, value.stop, value.step]
    return [slice(*other) for other in parts_varied(bounds) if len(other) == 3]


VARIANTS = {
    tuple: parts_varied,
    list: parts_varied,
    slice: bounds_varied,
    np.ndarray: lambda value: arrays_unlike(value),
    bool: lambda value: [not value, int(value)],
    int: lambda value: [value + 1, -value - 1, float(value)],
    float: lambda value: floats_unlike(value),
    str: lambda value: [value + "x"],
    type(None): lambda value: [0],
    type(...): lambda value: [0],
}


def variants(value):
    """Yield values that differ from one in a single place; a new type of parameter needs an entry above."""
    if isinstance(value, np.dtype):
        return [np.dtype("int8" if value != "int8" else "int16")]
    if isinstance(value, int) and type(value) not in VARIANTS:  # a tensor's size
        value = int(value)
    return VARIANTS[type(value)](value)


def floats_unlike(value):
    if np.isnan(value):
        return [0.0, np.inf]
    return [float(np.nextafter(value, -np.inf if value > 0 else np.inf)), -value, NAN]


def arrays_unlike(array):
    yield array.astype(np.complex128)
    yield array[None]
    if array.size:
        other = array.copy()
        raw = other.reshape(-1).view(np.uint8)
        raw[raw.size // 2] ^= 1
        yield other


def perturbed(graph):
    """Yield graphs that differ from one in a parameter, a number, a constant or in their wiring."""
    for i, equation in enumerate(graph.equations):
        for name, value in equation.params.items():
            for other in variants(value):
                yield with_equation(graph, i, params={**equation.params, name: other})
        for j, operand in enumerate(equation.operands):
            others = graph.inputs if type(operand) is Variable else variants(operand)
            for other in others:
                if other is not operand:
                    operands = [other if j == k else x for k, x in enumerate(equation.operands)]
                    yield with_equation(graph, i, operands=tuple(operands))
        other = PRIMITIVES["exp" if equation.primitive.name != "exp" else "log"]
        yield with_equation(graph, i, primitive=other)
    for variable, value in graph.constants.items():
        for other in arrays_unlike(np.array(value)):
            yield Graph(graph.inputs, {**graph.constants, variable: other}, graph.equations, graph.outputs)
    yield Graph(graph.inputs, graph.constants, graph.equations, (*graph.outputs, *graph.outputs[:1]))
    yield Graph((*graph.inputs, Variable((), "int8")), graph.constants, graph.equations, graph.outputs)


def with_equation(graph, i, primitive=None, operands=None, params=None):
    old = graph.equations[i]
    new = Equation(
        primitive or old.primitive,
        old.operands if operands is None else operands,
        old.params if params is None else params,
        old.output,
    )
    return Graph(
        graph.inputs, graph.constants, [*graph.equations[:i], new, *graph.equations[i + 1 :]], graph.outputs
    )


def captured(row, case):
    operands = case.draw()
    arrays = [x for x in operands if isinstance(x, np.ndarray)]

    def function(*given):
        left = iter(given)
        inputs = [next(left) if isinstance(x, np.ndarray) else x for x in operands]
        leaves = [x for x in inputs if isinstance(x, Tensor) and x.dtype.kind == "f"]
        for x in leaves:
            x.requires_grad = True
        out = row(*inputs, **case.params)
        return out, gradients(out.sum(), leaves) if out.requires_grad else []

    return capture(function, *arrays)


@pytest.mark.slow
@every_case()
def test_every_op_and_parameter(row, case):
    if row.op == "sparse_matmul":
        with pytest.raises(CaptureError, match="sparse matrix"):
            captured(row, case)
        return
    graph = captured(row, case)
    key, again = graph.key(), captured(row, case).key()
    assert again == key
    assert hash(again) == hash(key)
    for other in perturbed(graph):
        assert other.key() != key


def test_a_key_is_of_structure_not_of_names():
    def first(x, y):
        return ops.exp(x) * y, x + 1

    def second(a, b):
        return ops.exp(a) * b, a + 1

    args = np.ones(3), np.ones(3)
    assert capture(first, *args).key() == capture(second, *args).key()
    assert capture(first, *args).key() != capture(lambda x, y: first(y, x), *args).key()
    assert capture(first, *args).key() != capture(lambda x, y: first(x, y)[::-1], *args).key()
    assert capture(first, *args).key() != capture(first, np.ones(4), np.ones(4)).key()
    assert capture(first, *args).key() != capture(first, np.ones(3), np.ones(3, np.float32)).key()


# -- consequences of identity -----------------------------------------------------------------


def indices():
    """Return two long arrays that differ in the middle."""
    i, j = np.arange(LONG), np.arange(LONG)
    j[LONG // 2] = 0
    return i, j


@pytest.mark.parametrize("exact", [True, False])
def test_programs_of_different_indices(exact):
    X = np.random.default_rng(0).standard_normal((2, LONG))
    for index in indices():
        run = compile(lambda x, index=index: x[:, index] * 2.0, (X,), exact=exact)
        np.testing.assert_array_equal(run(X), X[:, index] * 2.0)


@pytest.mark.parametrize("exact", [True, False])
def test_only_equal_subexpressions_are_merged(exact):
    X = np.random.default_rng(0).standard_normal((LONG, 2))
    i, j = indices()
    run = compile(lambda x: x[i, 1] - x[j, 1], (X,), exact=exact)
    np.testing.assert_array_equal(run(X), X[i, 1] - X[j, 1])
    assert np.count_nonzero(run(X)) == 1
    names = [e.primitive.name for e in compile(lambda x: x[i, 1] - x[i.copy(), 1], (X,)).graph.equations]
    assert names == ["getitem", "subtract"]


class Chosen(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.columns = columns
        self.linear = nn.Linear(LONG, 1)

    def forward(self, x):
        return self.linear(x[:, self.columns])


def test_steps_of_models_that_choose_other_columns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, LONG)).astype(np.float32)
    y = rng.standard_normal((4, 1)).astype(np.float32)
    for columns in indices():
        models = [
            Model(Chosen(columns), loss="squared_error", optimizer="sgd", random_state=0, compile=mode)
            for mode in (True, False)
        ]
        for _ in range(3):
            losses = [model.step(X, y).loss for model in models]
            assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # of another layout in memory


@pytest.mark.parametrize("value", [0.0, -0.0, 1, 1.0, NAN, 5e-324, np.inf])
def test_programs_of_different_numbers(value):
    X = np.array([-1.0, 0.0, 2.0])
    with np.errstate(all="ignore"):
        found = compile(lambda x: ops.atan2(x * value, value), (X,), exact=True)(X)
        np.testing.assert_array_equal(found, np.arctan2(X * value, value))
        assert np.array_equal(np.signbit(found), np.signbit(np.arctan2(X * value, value)))


def test_numbers_among_the_arguments_keep_their_type():
    X = np.arange(3)
    run = compile(lambda x, n: x * n, (X, 2))
    for other in (2.0, True, np.int64(2), 3):
        with pytest.raises(CaptureError, match=r"argument 1 was 2 when the function was captured, and is "):
            run(X, other)
    np.testing.assert_array_equal(run(X, 2), X * 2)
    again = compile(lambda x, n: x * n, (X, NAN))
    assert np.isnan(again(X, NAN)).all()
    run = compile(lambda x, names: x * len(names), (X, frozenset("ab")))
    np.testing.assert_array_equal(run(X, frozenset("ba")), X * 2)
    with pytest.raises(CaptureError, match="argument 1 was"):
        run(X, frozenset("ac"))


def test_an_index_that_is_changed_after_the_capture():
    """The captured function and those that share its program keep the index of the capture."""
    X, index = np.arange(6.0), np.array([1, 2])
    first = compile(lambda x: x[index], (X,))
    index[:] = 5
    np.testing.assert_array_equal(first(X), [1, 2])
    second = compile(lambda x: x[np.array([1, 2])], (X,))
    np.testing.assert_array_equal(second(X), [1, 2])
    np.testing.assert_array_equal(compile(lambda x: x[index], (X,))(X), [5, 5])


def test_arrays_that_are_changed_between_two_uses():
    X, factor, index = np.ones(3), np.ones(3), np.array([0])

    def function(x):
        found = []
        for i in range(3):
            factor[:] = index[:] = i
            found.append((x * factor)[index].sum() + x[index].sum() * factor.sum())
        return found

    expected = [float(part.numpy()) for part in function(Tensor(X))]
    assert [float(part) for part in compile(function, (X,))(X)] == expected == [0.0, 4.0, 8.0]


# -- sparse matrices --------------------------------------------------------------------------


def product(slot):
    return lambda weight: ops.matmul(slot, weight)


def test_slots_of_one_shape_share_a_program_and_no_matrix():
    weight = np.arange(1.0, 4.0)
    matrices = [scipy.sparse.csr_array(np.full((2, 3), float(i))) for i in (1, 2)]
    slots = [ops.SparseSlot((2, 3), "float64") for _ in matrices]
    runs = [compile(product(slot), (weight,)) for slot in slots]
    assert runs[0].graph is runs[1].graph
    for _ in range(2):
        for slot, matrix in zip(slots, matrices, strict=True):
            slot.matrix = matrix
        for run, matrix in zip(runs, matrices, strict=True):
            np.testing.assert_array_equal(run(weight), matrix @ weight)
            np.testing.assert_array_equal(run.fresh()(weight), matrix @ weight)
        matrices.reverse()
    assert all(slot.matrix is None for slot in runs[0].graph.sparse_slots())


def test_slots_of_other_shapes_dtypes_and_wiring_do_not():
    first, second = (ops.SparseSlot((3, 3), "float64") for _ in range(2))
    weight = np.ones(3)
    keys = [
        capture(function, weight).key()
        for function in (
            product(first),
            product(second),
            lambda w: ops.matmul(first, ops.matmul(second, w)),
            lambda w: ops.matmul(second, ops.matmul(first, w)),
            lambda w: ops.matmul(first, ops.matmul(first, w)),
        )
    ]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 3
    wide = ops.SparseSlot((4, 3), "float64")
    assert capture(product(wide), weight).key() != keys[0]
    narrow = capture(product(ops.SparseSlot((3, 3), "float32")), weight.astype("float32"))
    assert narrow.key() != capture(product(ops.SparseSlot((3, 3), "float64")), weight).key()


def test_two_slots_in_one_function():
    first, second = (ops.SparseSlot((2, 2), "float64") for _ in range(2))
    run = compile(lambda w: ops.matmul(first, ops.matmul(second, w)) - ops.matmul(first, w), (np.ones(2),))
    a, b = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[0.0, 3.0], [1.0, 1.0]])
    first.matrix, second.matrix = map(scipy.sparse.csr_array, (a, b))
    np.testing.assert_array_equal(run(np.ones(2)), a @ (b @ np.ones(2)) - a @ np.ones(2))


def test_a_product_with_a_computed_constant_is_not_computed_beforehand():
    slot = ops.SparseSlot((2, 2), "float64")
    run = compile(lambda w: ops.matmul(slot, ops.ones_like(w)) + w, (np.ones(2),))
    for factor in (1.0, 2.0):
        slot.matrix = scipy.sparse.csr_array(np.eye(2) * factor)
        np.testing.assert_array_equal(run(np.ones(2)), [1 + factor, 1 + factor])


def test_a_product_with_a_constant_raises():
    slot = ops.SparseSlot((2, 2), "float64")
    slot.matrix = scipy.sparse.csr_array(np.eye(2))
    with pytest.raises(CaptureError, match="the product of a SparseSlot and a constant would be frozen"):
        compile(lambda w: ops.matmul(slot, np.ones(2)) + w, (np.ones(2),))


def test_models_of_sparse_rows_share_their_programs():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((6, 1)).astype(np.float32)
    graphs, losses = [], []
    for seed in range(2):
        X = scipy.sparse.random(6, 5, 0.5, "csr", rng=np.random.default_rng(seed), dtype=np.float32)
        model, twin = (
            Model(nn.Linear(5, 1), loss="squared_error", optimizer="sgd", random_state=seed, compile=mode)
            for mode in (True, False)
        )
        for _ in range(3):
            losses.append((model.step(X, y).loss, twin.step(X, y).loss))
        slot = ops.SparseSlot(X.shape, X.dtype)
        graphs.append(compile(product(slot), (np.ones((5, 1), np.float32),)).graph)
    assert all(a == b for a, b in losses)
    assert graphs[0] is graphs[1]
