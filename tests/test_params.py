"""Parameters, arguments and fields: what satisfies their declarations, and errors that name what does not."""

import inspect
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _param_validation as theirs

from sknet import MLPClassifier, nn
from sknet import _constraints as ours
from sknet import _validation as both
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
from sknet._params import (
    Composite,
    Interval,
    ParameterObject,
    StrOptions,
    checked,
    described_by,
    named_errors,
    resolve,
    validate_parameters,
)
from sknet.exceptions import InvalidParameterError, ShapeError
from sknet.losses import LogLoss, Ordinal, Quantile
from sknet.optim import Adam
from tests.combinations import every


class Rate(ParameterObject):
    _parameter_constraints = {
        "value": [Interval(Real, 0, None, closed="neither")],
        "mode": [StrOptions({"a", "b"})],
    }

    def __init__(self, value=1.0, mode="a"):
        self.value = value
        self.mode = mode


class Outer(ParameterObject):
    _parameter_constraints = {"rate": "no_validation", "weights": "no_validation"}

    def __init__(self, rate=None, weights=None):
        self.rate = rate
        self.weights = weights


REGISTRY = {"rate": Rate, "rates": Rate, "other": Outer}


class TestEquality:
    def test_by_type_and_parameters(self):
        assert Rate() == Rate()
        assert Rate() != Rate(2.0)
        assert Rate() != Outer()
        assert Rate() != "rate"
        assert Outer(Rate()) == Outer(Rate(1))
        assert Outer(Rate()) != Outer(Rate(2))

    def test_of_arrays(self):
        assert Outer(weights=np.ones(2)) == Outer(weights=np.ones(2))
        assert Outer(weights=np.ones(2)) != Outer(weights=np.ones(3))
        assert Outer(weights=np.ones(2)) != Outer(weights=[1.0, 1.0])

    def test_equal_objects_have_equal_hashes(self):
        for one, other in ((1, 1.0), (1.0, np.float32(1)), (True, 1)):
            assert Rate(one) == Rate(other)
            assert hash(Rate(one)) == hash(Rate(other))
        assert len({Rate(), Rate(1), Rate(2), Outer()}) == 3


def test_scikit_learns_tools_work():
    outer = Outer(Rate(2.0))
    twin = clone(outer)
    assert twin == outer
    assert twin.rate is not outer.rate
    assert outer.set_params(rate__value=3.0).rate.value == 3.0
    assert pickle.loads(pickle.dumps(outer)) == outer
    assert outer.get_params() == {"rate": outer.rate, "rate__value": 3.0, "rate__mode": "a", "weights": None}


class TestValidate:
    def test_on_use_and_not_before(self):
        rate = Rate(-1.0)
        with pytest.raises(
            InvalidParameterError,
            match=r"The 'value' parameter of Rate must be a float in the range \(0.0, inf\). Got -1.0",
        ):
            rate.validate()
        rate.set_params(value=1.0).validate()

    def test_nested(self):
        with pytest.raises(
            InvalidParameterError,
            match=r"The 'mode' parameter of Rate must be a str among .* Got 'c' instead",
        ):
            Outer(Rate(mode="c")).validate()
        with pytest.raises(ValueError, match="The 'value' parameter of Rate"):
            validate_parameters(Outer(Rate(0)))


class TestResolve:
    def resolve(self, value):
        return resolve(value, REGISTRY, ParameterObject, parameter="rate", caller="Net")

    def test_names_and_objects(self):
        assert self.resolve("rate") == Rate()
        assert self.resolve("rate") is not self.resolve("rate")
        rate = Rate(2.0)
        assert self.resolve(rate) is rate

    def test_objects_are_validated(self):
        with pytest.raises(InvalidParameterError, match="The 'value' parameter of Rate"):
            self.resolve(Rate(-1))

    @pytest.mark.parametrize(
        ("value", "hint"),
        [
            ("ratte", r"Got 'ratte' instead. Did you mean 'rate' or 'rates'\?$"),
            ("zzz", r"Got 'zzz' instead.$"),
            (None, r"Got None instead.$"),
            (3, r"Got 3 instead.$"),
            (Rate, r"Got <class .*Rate'> instead. Pass an instance: Rate\(\).$"),
        ],
    )
    def test_refused(self, value, hint):
        message = (
            r"The 'rate' parameter of Net must be a str among \['other', 'rate', 'rates'\] "
            r"or an instance of ParameterObject. " + hint
        )
        with pytest.raises(InvalidParameterError, match=message):
            self.resolve(value)


# -- set_params -------------------------------------------------------------------------------


class Pair(Composite):
    """Holds other objects in a list, and one by name."""

    container = "parts"

    def __init__(self, parts, rate=None, flag=0):
        self.parts = parts
        self.rate = rate
        self.flag = flag


class Table(Pair):
    """Holds other objects in a dict whose keys contain the separator of names."""


def composed(rng, depth=2):
    """Draw a nested parameter object."""
    kind = rng.integers(0, 4) if depth else 0
    if kind == 0:
        return Rate(float(rng.random()), str(rng.choice(["a", "b"])))
    if kind == 1:
        return Outer(composed(rng, depth - 1), float(rng.random()))
    n = int(rng.integers(1, 4))
    parts = [composed(rng, depth - 1) for _ in range(n)]
    rest = (composed(rng, depth - 1), int(rng.integers(0, 9)))
    return (
        Pair(parts, *rest)
        if kind == 2
        else Table(dict(zip(("a", "a__b", "*.c"), parts, strict=False)), *rest)
    )


@every(seed=range(40))
def test_any_names_in_one_call_in_any_order(seed):
    """`get_params` returns what `set_params` has set: parts, their replacements, and their parameters."""
    rng = np.random.default_rng(seed)
    target, wanted = composed(rng), composed(rng)
    while type(wanted) is not type(target):
        wanted = composed(rng)
    everything = wanted.get_params()
    items = list(everything.items())
    rng.shuffle(items)
    given = {name: clone(value, safe=False) for name, value in items}
    assert target.set_params(**given) is target
    assert target == wanted
    assert target.get_params() == everything


@pytest.mark.parametrize("seed", range(20))
def test_a_replaced_part_and_what_is_in_it(seed):
    rng = np.random.default_rng(seed)
    before, after = ([composed(rng, 1) for _ in range(n)] for n in (2, 3))
    target = Pair(before, Rate())
    at = int(rng.integers(0, 3))
    params = {
        "parts": after,
        f"{at}": Rate(1.0),
        f"{at}__value": 7.0,
        "rate": Rate(mode="b"),
        "rate__value": 8.0,
    }
    untouched = [clone(part) for part in before]
    items = list(params.items())
    rng.shuffle(items)
    target.set_params(**dict(items))
    assert target.parts[at] == Rate(7.0)
    assert target.rate == Rate(8.0, "b")
    assert [part for i, part in enumerate(target.parts) if i != at] == [
        x for i, x in enumerate(after) if i != at
    ]
    assert before == untouched


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"flag": 5, "flagg": 1}, "Invalid parameter 'flagg' for estimator Pair.* Did you mean 'flag'"),
        ({"flag": 5, "0__valu": 1}, "Invalid parameter 'valu' for estimator Rate.* Did you mean 'value'"),
        ({"flag": 5, "2__value": 1}, "Invalid parameter '2' for estimator Pair"),
        ({"flag": 5, "1__value": 1}, r"Invalid parameter '1__value' .* '1' is 0.5, which has no parameters"),
        ({"flag": 5, "rate__value": 1}, "Invalid parameter 'rate__value' .* 'rate' is None, which has no"),
        ({"flag": 5, "0": 3, "0__value": 1}, "'0' is 3, which has no parameters of its own. Set '0' as well"),
        ({"flag": 5, "parts": [], "0__value": 1}, "Invalid parameter '0' for estimator Pair"),
    ],
)
def test_all_or_nothing(params, message):
    target = Pair([Rate(), 0.5])
    with pytest.raises(ValueError, match=message):
        target.set_params(**params)
    assert target == Pair([Rate(), 0.5])


def constructor(self, alpha=1.0, beta=None, names=("a", "b"), table=None, part=None, *, eta=float("nan")):
    self.alpha, self.beta, self.names, self.table, self.part, self.eta = alpha, beta, names, table, part, eta


Ours = type("Thing", (ParameterObject,), {"__init__": constructor})
Theirs = type("Thing", (BaseEstimator,), {"__init__": constructor})
SETTINGS = [
    {},
    {"alpha": 2, "beta": "text", "eta": 0.5},
    {"names": ["x"] * 12, "beta": {"b": 1, "a": [2]}, "alpha": -1e-5},
    {"table": np.arange(3.0), "part": ("inner", {"alpha": 3.0})},
    {
        "alpha": 1,
        "names": "a long text " * 5,
        "beta": "another text",
        "part": ("inner", {"beta": "text " * 9}),
    },
    {"eta": float("nan"), "alpha": True},
]


def made(kind, params):
    inner = params.get("part")
    return kind(**(params if inner is None else {**params, "part": kind(**inner[1])}))


@pytest.mark.parametrize("params", SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.parametrize("changes_only", [True, False])
def test_the_protocol_is_scikit_learns(params, changes_only):
    ours, theirs = made(Ours, params), made(Theirs, params)
    with config_context(print_changed_only=changes_only):
        assert "".join(repr(ours).split()) == "".join(repr(theirs).split())
    for deep in (False, True):
        mine, other = ours.get_params(deep), theirs.get_params(deep)
        assert {**mine, "part": None, "eta": None}.items() == {
            **other,
            "part": None,
            "eta": None,
        }.items() or ("table" in params and mine.keys() == other.keys())
    twin = clone(ours)
    assert type(twin) is Ours
    assert twin is not ours
    assert repr(twin) == repr(ours)
    if ours.part is not None:
        assert twin.part is not ours.part
        assert twin.set_params(part__alpha=9).part.alpha == 9


def test_lines_of_a_representation_are_filled():
    long = Ours(names=("first name", "second name"), beta="some text or other", alpha=12345.0, table="xyz")
    assert repr(long).splitlines() == [
        "Thing(alpha=12345.0, beta='some text or other',",
        "      names=('first name', 'second name'), table='xyz')",
    ]


def test_a_long_representation_is_shortened():
    assert len(repr(Ours(beta="text " * 1000))) < 800


def test_parameters_need_names():
    class Any(ParameterObject):
        def __init__(self, *values):
            self.values = values

    with pytest.raises(RuntimeError, match=r"the constructor of Any takes \*args: give each"):
        Any(1).get_params()


def test_names_are_those_of_the_signature():
    def renamed(init):
        def made(self, value=1.0):
            init(self, value)

        made.__signature__ = inspect.signature(init)
        return made

    class Keywords(Rate):
        def __init__(self, *, mode="a", other=0, **kwargs):
            super().__init__(mode=mode)
            self.other = other

    class Renamed(ParameterObject):
        @renamed
        def __init__(self, rate=1.0):
            self.rate = rate

    assert sorted(Keywords(other=3).get_params()) == ["mode", "other"]
    assert sorted(Rate().get_params()) == ["mode", "value"]
    assert Renamed(2.0).get_params() == {"rate": 2.0}


DESCRIBED = """
from sknet._params import described_by

class Shared:
    '''Base.

    Parameters
    ----------
    rate : float, default=0.1
        Of the steps.
    low, high : float
        Bounds,
        both finite.
    seed : int
        Of the draws.

    Attributes
    ----------
    loss_ : float
        The last.
    n_iter_ : int
        Epochs.
    '''

@described_by(Shared)
class Made(Shared):
    '''Do something.

    At length.

    Parameters
    ----------
    name : str
        Of it.
    seed : int, default=3
        Other.

    Attributes
    ----------
    loss_ : float
        The first.

    Examples
    --------
    >>> 1

    >>> 2
    '''

    def __init__(self, low, high, *, seed=3, name):
        pass
"""


def test_a_class_is_described_by_another():
    made = {}
    exec(DESCRIBED, made)
    assert inspect.getdoc(made["Made"]) == inspect.cleandoc("""
        Do something.

        At length.

        Parameters
        ----------
        low, high : float
            Bounds,
            both finite.
        seed : int, default=3
            Other.
        name : str
            Of it.

        Attributes
        ----------
        loss_ : float
            The first.
        n_iter_ : int
            Epochs.

        Examples
        --------
        >>> 1

        >>> 2""")


def test_a_function_is_described_by_another():
    """It returns and raises the same, unless it says otherwise."""

    def shared(x, y):
        """Do something.

        Parameters
        ----------
        x, y : int
            Numbers.

        Returns
        -------
        int
            Their sum.

        Raises
        ------
        ValueError
            If it is odd.
        """

    def made(x, *, z):
        """Do more.

        Parameters
        ----------
        z : int
            Other.

        Raises
        ------
        TypeError
            If it is none.

        Examples
        --------
        >>> 1
        """

    expected = inspect.getdoc(made).replace("z : int", "x, y : int\n    Numbers.\nz : int")
    expected = expected.replace("Raises", "Returns\n-------\nint\n    Their sum.\n\nRaises")
    assert inspect.getdoc(described_by(shared)(made)) == expected


def test_descriptions_may_be_stripped():
    script = f"{DESCRIBED}\nif Made.__doc__ is not None:\n    raise SystemExit(1)"
    subprocess.run([sys.executable, "-OO", "-c", script], check=True)


def test_a_parameter_that_nobody_describes_is_an_error():
    script = DESCRIBED.replace("name):", "other):")
    with pytest.raises(KeyError, match="other"):
        exec(script, {})


VALUES = (
    *(0, 1, -1, 7, 0.0, 1.0, -0.5, 1e300, math.nan, math.inf, -math.inf, True, False, None, "a", "b", "c"),
    *(
        np.float32(0.5),
        np.int64(3),
        np.bool_(True),
        np.float64(np.nan),
        [1],
        (),
        {},
        {1},
        np.ones(2),
        np.array(1.0),
    ),
    *(len, Adam, Adam(), object(), range(3)),
)
RANGES = [
    (kind, left, right, closed)
    for kind in (Integral, Real, "RealNotInt")
    for left, right in ((0, 1), (-1, 7), (0, None), (None, 1), (None, None))
    for closed in ("left", "right", "both", "neither")
    if not (kind is Integral and (None in (left, right)) and closed != "neither")
]


def intervals(module):
    return [
        module.Interval(getattr(module, kind) if isinstance(kind, str) else kind, left, right, closed=closed)
        for kind, left, right, closed in RANGES
    ]


def constraints(module):
    """Return the same lists of constraints of one of the modules."""
    single = [
        *intervals(module),
        module.StrOptions({"a"}),
        module.Options(Real, {7}),
        *(None, callable, "array-like", "boolean", Adam, list, dict, str, Integral, Real),
    ]
    several = [single[i : i + n] for i in range(0, len(single), 3) for n in (2, 3)]
    return [*([each] for each in single), *several]


def new_thing():
    """Return an object of a new class, which has one set of constraints."""
    return type("Thing", (), {})()


def test_they_agree_with_scikit_learns():
    n_refused = 0
    for mine, other in zip(constraints(ours), constraints(theirs), strict=True):
        for value in VALUES:
            expected = found = None
            try:
                theirs.validate_parameter_constraints({"x": other}, {"x": value}, caller_name="Thing")
            except theirs.InvalidParameterError as error:
                expected = str(error)
            try:
                ours.check_values(new_thing(), {"x": mine}, {"x": value})
            except theirs.InvalidParameterError as error:
                found = str(error)
                n_refused += 1
            assert found == expected, (mine, value)
    assert n_refused > len(VALUES)


def test_options_are_sorted():
    with pytest.raises(ours.InvalidParameterError, match=r"must be a str among \{'a', 'b', 'c'\}. Got 1"):
        ours.check_values(new_thing(), {"x": [ours.StrOptions({"c", "a", "b"})]}, {"x": 1})


@pytest.mark.parametrize("constraint", ["random_state", "verbose", both.Interval(Real, 0, 1, closed="both")])
def test_estimators_can_use_scikit_learns(constraint):
    thing = new_thing()
    ours.check_values(thing, {"x": [constraint]}, {"x": 1})
    with pytest.raises(ours.InvalidParameterError, match=r"The 'x' parameter of Thing must be .* Got 'zzz'"):
        ours.check_values(thing, {"x": [constraint]}, {"x": "zzz"})


def test_the_error_is_scikit_learns_and_can_be_pickled():
    with pytest.raises(theirs.InvalidParameterError) as caught:
        ours.invalid("wrong")
    same = pickle.loads(pickle.dumps(caught.value))
    assert type(same) is both.InvalidEstimatorError
    assert isinstance(same, ours.InvalidParameterError)
    assert str(same) == "wrong"


def test_lists_that_hold_themselves_are_no_arrays():
    circular = []
    circular.append(circular)
    for loss in (LogLoss(pos_weight=circular), Quantile(circular), Ordinal(circular)):
        with pytest.raises(ours.InvalidParameterError, match=r"parameter of .* Got \[\[...\]\] instead"):
            loss.validate()
    with pytest.raises(ours.InvalidParameterError, match="'cardinalities' parameter of CategoryEmbeddings"):
        nn.CategoryEmbeddings(circular)


# declaration -> (values that satisfy it, values that do not)
DECLARED = {
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


@pytest.mark.parametrize("name", DECLARED)
def test_values_satisfy_declarations(name):
    spec, right, wrong = DECLARED[name]
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


class PairOfFields(NamedTuple):
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
        (
            PairOfFields,
            {"first": 1, "second": None},
            "field 'second' of PairOfFields must be a str, got None",
        ),
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


def test_checked_functions_refuse_before_the_call():
    called = []

    @checked
    def count(n: int) -> None:
        called.append(n)

    count(np.int64(3))
    with pytest.raises(TypeError, match="count: n must be an integer, got 'a'"):
        count("a")
    assert called == [3]


class Hostile:
    """An object that cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no representation")


def failing(error):
    @named_errors
    def called(
        x: Any,
        n: int = 0,
        is_on: bool = False,
        sizes: int | Sequence[int] = 1,
        table: Mapping[str, Any] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        raise error

    return called


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n", 0.5, "must be an integer, got 0.5"),
        ("n", 10**400, "must be an integer, got an int of 1329 bits"),
        ("n", Hostile(), "must be an integer, got an object of .*Hostile, whose representation raises"),
        ("is_on", "yes", "must be True or False, got 'yes'"),
        ("is_on", np.zeros(2), "must be True or False"),
        ("sizes", "ab", "must be an integer or a sequence whose items are an integer, got 'ab'"),
        ("sizes", [1, None], "must be an integer or a sequence"),
        ("table", {0: 1}, "must be a mapping or None"),
        ("function", 3, "must be a callable or None, got 3"),
        ("x", 10**400, "must be a number of at most 64 bits"),
    ],
)
def test_a_wrong_argument_is_named(name, value, expected):
    call = failing(TypeError("raw"))
    with pytest.raises((TypeError, ValueError), match=f"called: {name} {expected}") as caught:
        call(**{"x": 1.0, name: value})
    assert str(caught.value.__cause__) == "raw"


@pytest.mark.parametrize("error", [TypeError("own words"), ShapeError("own words"), LookupError("a user's")])
def test_other_errors_pass_as_they_are(error):
    with pytest.raises(type(error)) as caught:
        failing(error)(1.0, np.int8(2), np.True_, (3, np.int64(4)), {"a": 1}, len)
    assert caught.value is error


def test_errors_of_the_package_pass_whatever_the_arguments():
    with pytest.raises(ShapeError, match="own words"):
        failing(ShapeError("own words"))(1.0, n="a")


def test_a_raw_error_of_a_computation_names_all_arguments():
    with pytest.raises(ValueError, match=r"cannot be computed with x=1\.0, n=3: ZeroDivisionError: by"):
        failing(ZeroDivisionError("by"))(1.0, 3)


def test_a_long_message_is_shortened():
    with pytest.raises(ValueError, match=r"^x+\.\.\.x+$") as caught:
        failing(ValueError("x" * 10**6))(1.0)
    assert len(str(caught.value)) < 3000


def test_a_long_message_about_an_argument_of_a_wrong_type_is_replaced():
    long = ValueError("n must be an int, got " + "x" * 10**6)
    with pytest.raises(TypeError, match=r"^called: n must be an integer, got 'xxx") as caught:
        failing(long)(1.0, n="x" * 10**6)
    assert len(str(caught.value)) < 3000


class Endless:
    def __repr__(self):
        return repr([self])


def test_an_endless_representation_is_told_apart_from_an_endless_computation():
    with pytest.raises(ValueError, match=r"called: x cannot be read, got an object of .*Endless"):
        failing(RecursionError("maximum recursion depth exceeded"))(Endless())


class Doubled(MLPClassifier):
    """An estimator with one parameter that is a property, and others that are set as it sets all."""

    def __init__(self, alpha=1.0, max_iter=5):
        super().__init__(alpha=alpha, max_iter=max_iter)

    @property
    def alpha(self):
        return 2 * self.half

    @alpha.setter
    def alpha(self, alpha):
        self.half = alpha / 2

    @property
    def dropout(self):
        return 0.0

    @dropout.setter
    def dropout(self, dropout):
        self.given = dropout


def test_parameters_that_are_properties():
    estimator = Doubled(alpha=np.float32(3.0), max_iter=np.int64(7))
    assert estimator.get_params() == {"alpha": 3.0, "max_iter": 7}
    assert type(estimator.max_iter) is int
    assert vars(estimator).keys() >= {"half", "given"}
    assert not {"alpha", "dropout"} & vars(estimator).keys()


def test_numbers_of_numpy_in_a_constructor():
    estimator = MLPClassifier((np.int64(3),), alpha=np.float32(0.5), max_iter=np.int16(4))
    assert estimator.hidden_layer_sizes == (3,)
    assert list(map(type, (estimator.alpha, estimator.max_iter, estimator.hidden_layer_sizes[0]))) == [
        float,
        int,
        int,
    ]
