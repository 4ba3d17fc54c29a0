"""Functions and data as Python that needs only NumPy.

Functions compute what programs compute, for every operation; data cannot become code: they are literals,
docstrings and comments.
"""

import ast
import io
import re
import tokenize
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sknet
from sknet import Tensor, ops
from sknet.compile import capture, compile
from sknet.core import PRIMITIVES, bind, no_grad
from sknet.device import backend
from sknet.exceptions import CaptureError
from sknet.freezing._encoders import Branch, Chain, Columns, Levels, OneHot
from sknet.freezing._python import Table, steps_file
from sknet.freezing._transformers import (
    Binarizing,
    Elementwise,
    Imputing,
    Normalizing,
    Products,
    Projection,
    Quantiles,
    Scaling,
)
from sknet.graphs._literals import LACKING, comment, docstring, literal
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
            if row.op in (*RANDOM, "sparse_matmul", "coded_matmul", "paired_matmul"):
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
        if PRIMITIVES.get(primitive.name) is not primitive:
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


# -- literals, docstrings and comments ----------------------------------------------------------------

CODE = "__import__('os').abort()"
TEXTS = [
    "",
    "plain",
    "it's",
    'say "hi"',
    '"""',
    "'''",
    f'"""\n{CODE}\n"""',
    "\\",
    '\\"',
    '\\\\"""',
    "a\nb\rc\x0cd",
    "\0",
    "\x1b[31m",
    "\u202eevil\u2069",
    "\u2028line\u2029",
    "\ud800",
    "\ufeff",
    "naïve ∂",
    "{braces}",
    "%d",
    "#",
    f"x = 1\n{CODE}",
    "\\N{DIGIT ONE}",
    "\\x41",
    "tab\there",
    "\x85",
]
VALUES = [
    None,
    True,
    False,
    0,
    -7,
    2**70,
    -(10**5000),
    0.1,
    -0.0,
    1e-320,
    np.inf,
    -np.inf,
    b"\0'\"",
    ...,
    (),
    (1,),
    (1, "a"),
    [],
    [[None]],
    {},
    {"a": {1: (2.5,)}, None: b""},
    set(),
    {1, 2},
    frozenset({"x"}),
    slice(None, 2),
    np.float32(0.1),
    np.float64(-1.5),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.bool(True),
    np.float16(2),
    np.dtype("float32"),
    np.str_("a'b"),
    *TEXTS,
    [*TEXTS],
]


@pytest.mark.parametrize("i", range(len(VALUES)))
def test_literals_are_evaluated_to_equal_values(i):
    value = VALUES[i]
    text = literal(value)
    tree = ast.parse(text, mode="eval")
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert all(re.fullmatch(r"np\.\w+|slice|set|frozenset", name) for name in called)
    found = eval(text, {"np": np})
    assert found == value
    assert type(found) is (str if type(value) is np.str_ else type(value))
    assert str(found) == str(value) if isinstance(value, float) else True


def test_nan_is_a_literal():
    assert np.isnan(eval(literal(float("nan")), {"np": np}))
    assert np.isnan(eval(literal(np.float32("nan")), {"np": np}))


class Text(str):
    __slots__ = ()

    def __repr__(self):
        return CODE


class Number(int):
    def __repr__(self):
        return CODE

    __str__ = __repr__


class Float(float):
    def __repr__(self):
        return CODE


@pytest.mark.parametrize(
    "value",
    [
        Text("a"),
        Number(3),
        Float(1.5),
        object(),
        len,
        np.array([1]),
        1j,
        np.complex64(1),
        np.longdouble(1),
        int,
        np.datetime64("2026-01-01"),
        np.dtype("O"),
        type("Tuple", (tuple,), {})([1]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_others_are_refused(value):
    for holder in (value, [value], {"a": (value,)}):
        with pytest.raises(CaptureError, match="cannot be written in a Python file"):
            literal(holder)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_docstrings_say_the_text_and_nothing_else(text):
    source = f'def f():\n    """{docstring(text)}, as Python."""\n'
    [function] = ast.parse(source).body
    assert ast.get_docstring(function, clean=False) == f"{text}, as Python."
    assert len(function.body) == 1
    assert source.replace("\n", "").isprintable()


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_comments_stay_in_their_lines(text):
    source = f"x = 1  # {comment(text)}\n"
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(source).readline)]
    assert kinds.count(tokenize.COMMENT) == 1
    assert kinds.count(tokenize.NAME) == 1
    assert source[:-1].isprintable()


# -- what writers interpolate -----------------------------------------------------------------------

HOUSE = Path(sknet.__file__).parent
WRITERS = ("estimators", "freezing", "preprocessing", "tabular")
PASSING = {"str", "repr", "ascii", "format", "join", "map", "sorted", "list", "strip", "replace"}
NAMES = {"method.name", "method.then", "self._count", "type(layer).__name__"}  # sknet's own, or in comments


def parts_of(tree):
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.FormattedValue) and not in_error(tree, node)
    ]


def in_error(tree, part):
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return any(part in ast.walk(node) for node in raised)


def unchecked(node):
    """Return attributes of objects that reach the text as they are."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in PASSING:  # a writer's own
            return []
        return [found for argument in node.args for found in unchecked(argument)]
    if isinstance(node, ast.Attribute):
        return [] if ast.unparse(node) in NAMES else [ast.unparse(node)]
    return [found for child in ast.iter_child_nodes(node) for found in unchecked(child)]


@pytest.mark.parametrize("package", WRITERS)
def test_writers_interpolate_data_as_literals(package):
    tree = ast.parse((HOUSE / package / "_python.py").read_text())
    parts = parts_of(tree)
    assert parts
    for part in parts:
        is_said = ast.unparse(part.value) == "layer"  # in a docstring
        assert part.conversion == -1 or is_said, f"{ast.unparse(part)} in line {part.lineno}: use literal()"
        assert not unchecked(part.value), f"{ast.unparse(part)} in line {part.lineno}: use literal()"


# -- steps of frozen pipelines with text in their fields --------------------------------------------

ONES = np.ones(2)
STEPS = {
    "an operation": Scaling(((CODE, ONES),)),
    "bounds": Scaling((("add", ONES),), CODE),
    "rounds": Scaling((("add", ONES),), None, CODE),
    "a function": Elementwise(CODE),
    "columns of a projection": Projection(np.ones((2, 2)), CODE, False, False),
    "a norm": Normalizing(CODE),
    "a bias": Products(CODE, (), 0, "C"),
    "columns left out": Products(True, (), CODE, "C"),
    "a threshold": Binarizing(CODE),
    "the distribution": Quantiles(np.ones((3, 2)), np.arange(3.0), CODE),
    "a width": OneHot((Levels(("a",), (0,), None, None, "x"),), CODE, np.dtype(float), "array", False),
    "a column": OneHot((Levels(("a",), (0,), None, None, CODE),), 1, np.dtype(float), "array", False),
    "a code": OneHot((Levels(("a",), (CODE,), CODE, CODE, "x"),), 1, np.dtype(float), "array", False),
    "a level": OneHot((Levels((Text("a"),), (0,), None, None, "x"),), 1, np.dtype(float), "array", False),
    "what is missing": Imputing("floats", CODE, ONES),
    "a weight": Columns((Branch(Scaling(()), (0,), CODE),), False),
    "positions": Columns((Branch(Scaling(()), (CODE,)),), False),
    "a slice": Columns((Branch(Scaling(()), slice(CODE, CODE)),), False),
}
REFUSED = ("an operation", "a function", "a level")


def calls_in(text):
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("case", STEPS)
def test_texts_in_fields_of_steps_stay_texts(case):
    features = SimpleNamespace(count=CODE, names=(CODE, '"""'))
    table = Table(features, Chain((STEPS[case],)), f'"""{CODE}"""')
    if case in REFUSED:
        with pytest.raises(CaptureError, match=r"can(not)? be written"):
            steps_file(table)
        return
    text = steps_file(table)
    assert not any("__import__" in call or "abort" in call for call in calls_in(text))
    assert ast.get_docstring(ast.parse(text)).startswith(f'"""{CODE}""", as Python')
