"""Parameter objects: they store, compare, clone, and validate with scikit-learn's message."""

import pickle
from numbers import Real

import numpy as np
import pytest
from sklearn.base import clone

from sknet._params import (
    Interval,
    InvalidParameterError,
    ParameterObject,
    StrOptions,
    resolve,
    validate_parameters,
)


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
