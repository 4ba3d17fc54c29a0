"""Programs in native code have the bits of NumPy's, for batches and for rows of any dtype and layout."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.compile.native import NativeStep

RNG = np.random.default_rng(0)


def network(dtype, n_rows, n_features=7):
    """Return a compiled function of rows: two layers, and probabilities of three classes."""
    w, v = RNG.normal(size=(n_features, 5)).astype(dtype), RNG.normal(size=(5, 3)).astype(dtype)
    b = RNG.normal(size=5).astype(dtype)

    def forward(x):
        return ops.softmax(ops.relu(x @ w + b) @ v)

    return compile(forward, (np.zeros((n_rows, n_features), dtype),), exact=True)


def native_of(program):
    """Return the program in native code; none of its calls are left to NumPy."""
    found = NativeStep.of(program.calls(), program.slots[0], program.result, program.nbytes)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_rows", [1, 2, 16, 64])
def test_batches(dtype, n_rows):
    program, X = network(dtype, n_rows), RNG.normal(size=(n_rows, 7)).astype(dtype)
    expected = program(X).copy()
    program.poison()
    program.slots[0][...] = X
    assert native_of(program).run()
    np.testing.assert_array_equal(program.result, expected, strict=True)


ROWS = {
    "of the dtype": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "float64": lambda x: x.astype(np.float64),
    "int8": lambda x: (9 * x).astype(np.int8),
    "int64": lambda x: (9 * x).astype(np.int64),
    "of a matrix": lambda x: np.repeat(x, 3, axis=0)[1:2],
    "of columns in Fortran's order": lambda x: np.asfortranarray(np.repeat(x, 3, axis=0))[1:2],
    "backwards": lambda x: x[:, ::-1],
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_rows(dtype, name):
    program = network(dtype, 1)
    X = ROWS[name](RNG.normal(size=(1, 7)).astype(dtype))
    expected = program(X.astype(dtype)).copy()
    program.poison()
    program.slots[0][...] = np.nan
    assert native_of(program).unchecked(X)
    np.testing.assert_array_equal(program.result, expected, strict=True)


def unaligned():
    """Return a row whose numbers begin at an odd address."""
    memory = np.zeros(7 * 4 + 1, np.uint8)
    return memory[1:].view(np.float32).reshape(1, 7)


OTHERS = {
    "two rows": lambda: np.zeros((2, 7), np.float32),
    "other columns": lambda: np.zeros((1, 6), np.float32),
    "one axis": lambda: np.zeros(7, np.float32),
    "three axes": lambda: np.zeros((1, 7, 1), np.float32),
    "no rows": lambda: np.zeros((0, 7), np.float32),
    "unaligned": unaligned,
    "the other order of bytes": lambda: np.zeros((1, 7), np.dtype("float32").newbyteorder()),
    "complex": lambda: np.zeros((1, 7), np.complex64),
    "bool": lambda: np.zeros((1, 7), bool),
    "objects": lambda: np.zeros((1, 7), object),
    "NaN": lambda: np.full((1, 7), np.nan, np.float32),
    "infinite": lambda: np.full((1, 7), -np.inf, np.float32),
    "too large for float32": lambda: np.full((1, 7), 1e300),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_finite_row_is_left_to_others(name):
    assert not native_of(network("float32", 1)).unchecked(OTHERS[name]())


def test_a_result_that_overflows_is_left_to_others():
    program = compile(lambda x: ops.exp(x), (np.zeros((1, 2), np.float32),), exact=True)
    step = native_of(program)
    assert step.unchecked(np.array([[1.0, 80.0]])) is False  # its square overflows
    assert step.unchecked(np.array([[1.0, 2.0]]))
    np.testing.assert_allclose(program.result, [[np.e, np.e**2]], rtol=1e-6)


def test_an_index_out_of_bounds_ends_a_run():
    table = RNG.normal(size=(4, 2))
    program = compile(lambda i: ops.take(table, i), (np.zeros(3, np.int64),), exact=True)
    program.slots[0][...] = 3, 0, -1
    step = native_of(program)
    assert step.run()
    np.testing.assert_array_equal(program.result, table[[3, 0, -1]])
    program.slots[0][...] = 3, 4, 0
    assert not step.run()


def test_a_call_that_only_numpy_makes_is_no_program_in_native_code():
    program = compile(lambda x: ops.sort(x), (np.zeros((1, 3)),), exact=True)
    assert NativeStep.of(program.calls(), program.slots[0], program.result, 0) is None


def test_rows_of_large_programs_release_the_interpreter():
    program = network("float64", 1)
    X = RNG.normal(size=(1, 7))
    expected = program(X).copy()
    step = NativeStep.of(program.calls(), program.slots[0], program.result, 1 << 30)
    assert step is not None
    assert step.unchecked(X)
    np.testing.assert_array_equal(program.result, expected)
