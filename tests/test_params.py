"""Parameter objects: they store, compare, clone, and validate with scikit-learn's message."""

import inspect
import pickle
import subprocess
import sys
from numbers import Real

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone

from sknet._params import Composite, Interval, ParameterObject, StrOptions, resolve, validate_parameters
from sknet.exceptions import InvalidParameterError
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


def test_descriptions_may_be_stripped():
    script = f"{DESCRIBED}\nif Made.__doc__ is not None:\n    raise SystemExit(1)"
    subprocess.run([sys.executable, "-OO", "-c", script], check=True)


def test_a_parameter_that_nobody_describes_is_an_error():
    script = DESCRIBED.replace("name):", "other):")
    with pytest.raises(KeyError, match="other"):
        exec(script, {})
