"""Data in Python files cannot become code: literals, docstrings and comments."""

import ast
import io
import re
import tokenize
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sknet
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
from sknet.graphs._literals import comment, docstring, literal

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
