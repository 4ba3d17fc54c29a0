"""Declared fields: what values satisfy them, and what the message says of others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from sknet import nn
from sknet._fields import (
    ABSENT,
    COUNT,
    FINITE,
    LEVEL,
    SHARE,
    SLICE,
    Arrays,
    Dtypes,
    Each,
    Fields,
    Items,
    Named,
    Number,
    Params,
    Together,
    check_of,
    fields_of,
    shown,
)

# declaration -> (values that satisfy it, values that do not)
CASES = {
    "bool": (bool, (True, np.bool_(False)), (1, None, "True")),
    "int": (int, (1, np.int64(-3)), (True, 1.0, "1", 2**65, np.timedelta64(1))),
    "float": (float, (1.0, 2, np.float32(1), np.nan), (True, "1.0", 1j, None, np.timedelta64(1))),
    "str": (str, ("a", ""), (b"a", 1, None)),
    "None": (None, (None,), (0, False)),
    "class": (nn.Module, (nn.ReLU(),), (nn.ReLU, "ReLU")),
    "named": (Named("Module"), (nn.ReLU(),), (object(), nn.Module)),
    "union": (int | None, (1, None), (1.5, "a")),
    "alternatives": ([str, COUNT, None], ("a", 0, None), (-1, 1.5, True)),
    "constraint": (["boolean", callable], (True, len), (1, "len")),
    "literal": (Literal["a", "b"], ("a",), ("c", ["a"], None)),
    "tuple": (tuple[int, ...], ((), (1, 2)), ([1], (1.5,), ((1,),))),
    "pair": (tuple[str, float], (("a", 1.5),), (("a",), ("a", "b"), ["a", 1.5])),
    "together": (Together(COUNT, [str, None]), ((0, None),), ((0,), (-1, "a"), [0, "a"])),
    "list": (list[str], ([], ["a"]), (("a",), [1])),
    "each": (Each((list, tuple), COUNT), ([1], (1,)), ([-1], {1}, "1")),
    "frozenset": (frozenset[int], (frozenset({1}),), ({1}, frozenset({"a"}))),
    "dict": (dict[str, float], ({}, {"a": 1.0}), ({1: 1.0}, {"a": "b"}, [("a", 1.0)])),
    "mapping": (Mapping[str, Any], ({"a": []},), ({1: []}, None)),
    "items": (Items(LEVEL, [COUNT, None]), ({1.5: 0, "a": None},), ({print: 1}, {"a": -1})),
    "callable": (Callable[[Any], Any], (len, nn.ReLU()), ("len", None)),
    "number": (Number(Integral, 0, 624), (0, 624), (-1, 625, True, 1.0, 2**28, np.timedelta64(1))),
    "finite": (FINITE, (0, -1e300), (np.inf, np.nan, "0", 10**400)),
    "share": (SHARE, (0.0, 1), (1.5, -0.1, np.nan)),
    "array": (
        Arrays("fi", 2, "n"),
        (np.ones((2, 5)), np.ones((2, 0), int)),
        (np.ones(2), np.ones((3, 2)), [[1], [2]]),
    ),
    "words": (
        Arrays("u", 4, itemsize=8),
        (np.zeros(4, np.uint64),),
        (np.zeros(4, np.uint32), np.zeros(4, int)),
    ),
    "parameter": (Params("n"), (nn.Parameter([1.0]),), (np.ones(1), nn.Parameter([[1.0]]))),
    "dtype": (Dtypes("f"), (np.dtype("f4"),), (np.dtype("i8"), "f4", np.float32)),
    "slice": (SLICE, (slice(None), slice(1, -1, 2)), (slice("a"), slice(0, 1, 0), (0, 1))),
    "anything": (Any, (None, object()), ()),
}


@pytest.mark.parametrize("name", CASES)
def test_values_satisfy_declarations(name):
    spec, right, wrong = CASES[name]
    check = check_of(spec)
    assert all(check.is_satisfied_by(value) for value in right)
    assert not any(check.is_satisfied_by(value) for value in wrong)
    assert str(check)


@dataclass
class Grid:
    n_rows: int
    values: np.ndarray
    names: tuple[str, ...] = ()

    _stored_fields = {"values": [Arrays("f", "n_rows", "n_columns"), None]}


class Pair(NamedTuple):
    first: int
    second: str


class Sized:
    _stored_fields = {"size": COUNT, "a": Arrays("f", "n"), "b": [Arrays("f", "n"), ABSENT], "*": str}


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (Grid, {"n_rows": 2.5, "values": None}, r"field 'n_rows' of Grid must be an int from .*, got 2.5"),
        (
            Grid,
            {"n_rows": 2, "values": np.ones((3, 1))},
            "'values' of Grid has n_rows = 3, but 'n_rows' says 2",
        ),
        (Grid, {"n_rows": 2, "values": [1.0]}, "must be a ndarray of float .* or None, got a list of 1"),
        (Grid, {"n_rows": 2}, "Grid lacks its field 'values'"),
        (Grid, {"n_rows": 2, "values": None, "other": 1}, r"Grid has no field 'other', only \['n_rows'"),
        (Pair, {"first": 1, "second": None}, "field 'second' of Pair must be a str, got None"),
        (Sized, {"size": 1, "a": np.ones(2), "b": np.ones(3)}, "'b' of Sized has n = 3, but 'a' says 2"),
        (Sized, {"size": 1, "a": np.ones(2), "more": 1}, "field 'more' of Sized must be a str, got 1"),
    ],
)
def test_messages_name_field_and_value(cls, values, message):
    with pytest.raises(ValueError, match=message):
        fields_of(cls).check(values)


def test_some_fields_may_be_absent():
    fields_of(Grid).check({"n_rows": 2, "values": None})  # names has a default
    fields_of(Sized).check({"size": 1, "a": np.ones(2), "more": "text"})
    fields_of(Sized).check({}, is_partial=True)
    fields_of(Grid).check({"n_rows": 1, "values": None, "other": 1}, others=True)


def test_declarations_that_are_texts_are_refused():
    @dataclass
    class Late:
        other: "Grid"

    with pytest.raises(TypeError, match=r"Late.other is declared as a text: name its class"):
        fields_of(Late)


def test_values_are_shown_in_few_characters():
    circular: list[Any] = []
    circular.append(circular)
    values = ["a" * 10_000, [0] * 10_000, 10**4000, circular, np.ones(3), nn.ReLU(), {"a": {}}]
    assert all(len(shown(value)) < 100 for value in values)


def test_fields_in_fields():
    inner = Fields.of("Inner", {"key": Arrays("u", "n"), "pos": Number(Integral, 0, 4)})
    outer = Fields.of("Outer", {"state": inner})
    outer.check({"state": {"key": np.zeros(4, np.uint8), "pos": 4}})
    for wrong in ({"key": np.zeros(4, np.uint8), "pos": 5}, {"pos": 4}, 5, None, [1]):
        with pytest.raises(
            ValueError, match="'state' of Outer must be a dict of key: a ndarray of unsigned int"
        ):
            outer.check({"state": wrong})
