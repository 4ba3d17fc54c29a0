"""Functions written as Python that needs only NumPy compute what programs compute, for every operation."""

from functools import partial

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import capture, compile
from sknet.compile._graph import OWN
from sknet.core import PRIMITIVES, bind, no_grad
from sknet.device import backend
from sknet.exceptions import CaptureError
from sknet.graphs._literals import LACKING
from sknet.graphs._python import NOT_WRITTEN, PythonSource
from tests.compile.helpers import named
from tests.contracts.rows import ROWS
from tests.contracts.table import drawn
from tests.contracts.test_executors import applications
from tests.nn.layers.test_contract import ROWS as LAYERS
from tests.trees import leaves

# SciPy's functions, which NumPy lacks, and operations that programs compute by BLAS or in fewer passes.
ROUNDED = {
    *("erf", "erfc", "gelu", "glu", "logit", "sigmoid", "silu", "xlogy"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "group_norm", "instance_norm", "layer_norm", "mean"),
    *("quantile", "rms_norm", "std", "sum", "var"),
}
RANDOM = ("dropout", "dropout_mask", "uniform_draws")


def written(function, arrays, name="f"):
    """Return a function of arrays executed from its written source, and the source."""
    with no_grad():
        return executed(lambda n: capture(function, *arrays), len(arrays), name)


def executed(captured, count, name="f"):
    source = PythonSource()
    names = [f"x{i}" for i in range(count)]
    text = source.function(name, "Doc.", captured, [], names, result=lambda names: f"[{', '.join(names)}]")
    whole = "\n\n".join([source.imports, *source.decoder, *source.helpers, *source.arrays, text])
    assert "sknet" not in whole
    assert "scipy" not in whole
    namespace = {}
    exec(whole, namespace)
    return namespace[name], whole


def arrays_in(tree):
    return [np.array(x.data if isinstance(x, Tensor) else x) for x in leaves(tree) if hasattr(x, "shape")]


def rounds_alike(found, wanted, dtype):
    """Compare numbers that differ in the last digits."""
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=8 * eps, atol=8 * eps)


@pytest.mark.slow
def test_every_operation_is_written_or_has_a_reason():
    used = set()
    for row in ROWS:
        for case in row.cases[-1:]:
            function, arrays = drawn(row, case, "float32")
            if row.op in (*RANDOM, "sparse_matmul", "coded_matmul"):
                with pytest.raises(CaptureError):
                    written(function, arrays)
                continue
            with no_grad():
                used |= {e.primitive.name for e in capture(function, *arrays).equations}
            found = written(function, arrays)[0](*arrays)
            wanted = arrays_in(compile(function, tuple(arrays))(*arrays))
            for ours, theirs in zip(map(np.asarray, found), wanted, strict=True):
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), row.op
                if row.op in ROUNDED:
                    rounds_alike(ours, theirs, "float32")
                else:
                    np.testing.assert_array_equal(ours, theirs, err_msg=row.op)
    assert used | NOT_WRITTEN.keys() == PRIMITIVES.keys()
    assert all(NOT_WRITTEN.values())


@pytest.mark.parametrize("name", ["acme.thrice", "np", "x0", "v1", "f", "import", "3\ntimes"])
def test_primitives_may_have_any_name(name):
    x = np.arange(3, dtype="float32")
    with named(name) as primitive:
        function, _ = written(lambda x: ops.exp(bind(primitive, (bind(primitive, (x,), {}),), {})), [x])
    np.testing.assert_array_equal(function(x)[0], np.exp(x * 9))


def bound(primitive, params, *operands):
    return bind(primitive, operands, params)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_elementwise_records_agree_on_extreme_values(dtype):
    for primitive, arrays, params, expected in applications(dtype):
        if primitive.name in OWN:
            continue
        function, _ = written(partial(bound, primitive, params), arrays)
        with np.errstate(all="ignore"):
            [found] = function(*arrays)
        assert found.dtype == expected.dtype, primitive.name
        same = np.isclose(found, expected, rtol=1e-6, atol=np.finfo("f").tiny, equal_nan=True)
        assert same.all(), primitive.name


@pytest.mark.slow
def test_a_layer_is_written_for_any_number_of_rows():
    dtype = "float32"
    for name, (make, shape) in LAYERS.items():
        layer = make()
        layer(np.random.default_rng(0).normal(size=(4, *shape)).astype("float32"))
        layer.eval()
        for parameter in layer.parameters():
            parameter.requires_grad = False
        with no_grad():
            function, _ = executed(
                lambda n, f=layer.forward, shape=shape: capture(lambda x: f(x), np.zeros((n, *shape), dtype)),
                1,
            )
            for n_rows in (1, 9):
                X = np.random.default_rng(n_rows).normal(size=(n_rows, *shape)).astype(dtype)
                wanted = arrays_in(layer(Tensor(X)))
                for ours, theirs in zip(function(X), wanted, strict=True):
                    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
                    tolerance = 200 * np.finfo(dtype).eps
                    np.testing.assert_allclose(ours, theirs, tolerance, tolerance, err_msg=name)


def test_functions_that_numpy_lacks_are_written():
    names = {name for name, value in vars(backend("cpu").xp).items() if not hasattr(np, name)}
    own_source = {"check_indices"}
    assert names - own_source == LACKING.keys() & names
    own = [backend("cpu").xp.where, np.where]
    assert own[0] is not own[1]
    assert "where" in LACKING


def test_lines_are_operators_and_functions_of_numpy():
    def function(x, y):
        return ops.softmax(ops.relu(x @ y) * 0.5, axis=-1)[:, 1:]

    _, text = written(function, [np.ones((5, 3), "f"), np.ones((3, 4), "f")])
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    assert "v2 = x0 @ x1" in lines
    assert "v3 = np.maximum(v2, 0)" in lines
    assert "v4 = v3 * 0.5" in lines
    assert "v5 = softmax(v4, axis=-1)" in lines
    assert "v6 = v5[:, 1:]" in lines
    assert "# matmul: (5, 4)" in text


def test_helpers_are_sources_of_called_functions():
    _, text = written(lambda x: ops.softplus(x), [np.ones((5, 3), "f")])
    assert "def _tail(x):" in text
    assert '"""Return log(1 + exp(-|x|)), what softplus adds' in text


def test_what_needs_native_code_is_left_out():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 16, 14, 14)), rng.normal(size=(16, 16, 3, 3))
    function, source = written(lambda x, w: ops.conv2d(x, w, padding=1), (x, w))
    expected = ops.conv2d(x, w, padding=1).numpy()
    np.testing.assert_allclose(function(x, w)[0], expected, rtol=1e-10, atol=1e-10)
    assert "native()" not in source
    assert "Winograd" not in source


def test_operations_that_depend_on_the_rows_raise():
    def captured(n):
        return capture(lambda x: ops.exp(x) if n > 5 else x * 2.0, np.ones((n, 2)))

    with pytest.raises(CaptureError, match="depend on the number of rows"):
        PythonSource().function("f", "Doc.", captured, [], ["x"])
    with pytest.raises(CaptureError, match="a constant depends on the number of rows"):
        PythonSource().function(
            "f", "Doc.", lambda n: capture(lambda x: x * np.full(2, n / 7.3), np.ones((n, 2))), [], ["x"]
        )


def test_unsupported_functions_are_named():
    with pytest.raises(CaptureError, match=r"dropout_mask cannot be written as .* no random numbers"):
        written(lambda step: ops.dropout(np.ones((3, 2)), 0.5, key=(0, 1), step=step, site=0), [np.array(1)])
    source = PythonSource()
    for value in (object(), np.array(["2026-01-01"], "datetime64[D]"), backend("cpu")):
        with pytest.raises(CaptureError, match="cannot be written"):
            source.value(value)


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -0.5, np.inf, -np.inf, "a\n'", (1,), [1, (2, "x")], {"a": slice(1, None)}, ...,
     np.float32(0.1), np.arange(3), np.linspace(0, 1, 50).reshape(5, 10), np.array(["b", "a"]),
     np.array([True] * 30), np.array(["x", 1, None], object), np.zeros((0, 3))],
    ids=str,
)  # fmt: skip
def test_values_are_restored(value):
    source = PythonSource()
    text = source.value(value)
    namespace = {}
    exec("\n".join([source.imports, *source.decoder, *source.arrays, f"found = {text}"]), namespace)
    found = namespace["found"]
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert (found.dtype, found.shape) == (value.dtype, value.shape)
        assert found.tolist() == value.tolist()
    else:
        assert found == value


def test_names_of_arrays_are_valid_and_unique():
    source = PythonSource()
    names = [source.array(np.ones(2), name) for name in ("0.weight", "a.b", "a_b", "np", "n")]
    assert names == ["layer_0_weight", "a_b", "a_b_", "np_", "n_"]
    assert source.local("a_b") == "a_b__"
