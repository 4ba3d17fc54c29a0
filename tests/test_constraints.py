"""Constraints of parameters accept the same values and give the same messages as scikit-learn's."""

import math
import pickle
from numbers import Integral, Real

import numpy as np
import pytest
from sklearn.utils import _param_validation as theirs

from sknet import _constraints as ours
from sknet import _validation as both
from sknet import nn
from sknet.losses import LogLoss, Ordinal, Quantile
from sknet.optim import Adam

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
