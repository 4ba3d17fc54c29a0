"""scoring= and monitor=: names, directions, and errors."""

from functools import partial

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import f1_score, get_scorer, get_scorer_names, make_scorer, mean_squared_error

from sknet.estimators._head_scoring import evaluated
from sknet.estimators._scoring import check_scoring

Y = np.array([0, 1, 1, 0, 1])
X = np.zeros((5, 1))
CONSTANT = DummyClassifier(strategy="constant", constant=1).fit(X, Y)


def cost(estimator, X, y):
    return 2.0


def gain(estimator, X, y, sample_weight=None):
    return float(len(X) if sample_weight is None else sample_weight.sum())


def said(function, higher_is_better):
    function = partial(function)
    function.greater_is_better = higher_is_better
    return function


def checked(scoring):
    return check_scoring(scoring, "MLPClassifier")


# `scoring`, and the numbers that can be monitored: names, and whether higher is better.
GIVEN = {
    "none": (None, {"loss": False, "score": True}),
    "loss": ("loss", {"loss": False}),
    "name": ("roc_auc", {"loss": False, "roc_auc": True}),
    "negated": ("neg_log_loss", {"loss": False, "neg_log_loss": True}),
    "made": (make_scorer(f1_score), {"loss": False, "f1_score": True}),
    "made of a loss": (
        make_scorer(mean_squared_error, greater_is_better=False),
        {"loss": False, "mean_squared_error": True},
    ),
    "function": (cost, {"loss": False, "cost": None}),
    "said to be higher": (said(cost, True), {"loss": False, "cost": True}),
    "said to be lower": (said(cost, False), {"loss": False, "cost": False}),
    "list": (["loss", "accuracy", cost], {"loss": False, "accuracy": True, "cost": None}),
    "tuple": (("f1", "recall"), {"loss": False, "f1": True, "recall": True}),
    "dict": ({"area": "roc_auc", "c": said(cost, False)}, {"loss": False, "area": True, "c": False}),
    "dict with the loss": ({"loss": "loss", "f": "f1"}, {"loss": False, "f": True}),
    "empty": ([], {"loss": False}),
}


@pytest.mark.parametrize("case", GIVEN)
def test_names_and_directions(case):
    scoring, expected = GIVEN[case]
    assert checked(scoring).directions == expected


@pytest.mark.parametrize("name", sorted(get_scorer_names()))
def test_every_scorer_of_scikit_learn_has_a_direction(name):
    assert checked(name).directions[name] is True


# `scoring`, `monitor`, the default of the loss, and the monitored number.
DECIDES = [
    (None, None, "score", ("score", True)),
    (None, None, "loss", ("loss", False)),
    (None, "loss", "score", ("loss", False)),
    (None, "validation_score", "loss", ("score", True)),
    ("loss", None, "score", ("loss", False)),
    ("f1", None, "loss", ("f1", True)),
    ("f1", "loss", "score", ("loss", False)),
    (["f1", "recall"], "recall", "loss", ("recall", True)),
    (["loss", "recall"], None, "loss", ("recall", True)),
    (["f1", cost], "f1", "loss", ("f1", True)),
    ({"c": said(cost, False)}, None, "loss", ("c", False)),
    ({"c": said(cost, False)}, "validation_c", "loss", ("c", False)),
]


@pytest.mark.parametrize(("scoring", "monitor", "default", "expected"), DECIDES)
def test_the_monitored_number(scoring, monitor, default, expected):
    assert checked(scoring).monitored(monitor, default, "MLPClassifier") == expected


BAD_SCORING = [
    ("rocauc", r"got 'rocauc', which is not a scorer\. Did you mean 'roc_auc'"),
    (
        mean_squared_error,
        r"mean_squared_error .* is a metric of .*, not a scorer .*make_scorer",
    ),
    (3, r"'scoring' parameter of MLPClassifier must be 'loss', a name .* Got 3 instead"),
    (dict, r"Got <class 'dict'> instead"),
    (["f1", "f1"], "two scorers .* are called 'f1': give a dict"),
    ([cost, said(cost, True)], "two scorers .* are called 'cost'"),
    ({"loss": "f1"}, "cannot be called 'loss'"),
    ({"validation_f": "f1"}, "cannot be called 'validation_f'"),
    ({"time": cost}, "cannot be called 'time'"),
    ({1: cost}, "cannot be called 1"),
    ({"": cost}, "cannot be called ''"),
]


@pytest.mark.parametrize(("scoring", "message"), BAD_SCORING)
def test_invalid_scorers_raise(scoring, message):
    with pytest.raises(ValueError, match=message):
        checked(scoring)


BAD_MONITOR = [
    (
        cost,
        None,
        "it is unknown .* a lower 'cost' is better, .*make_scorer.*monitor='loss'",
    ),
    (["f1", cost], "cost", "it is unknown whether a higher or a lower 'cost' is better"),
    (["f1", cost], None, r"has several scorers, \['f1', 'cost'\]: say which .* monitor='f1'"),
    ("f1", "score", r"must be one of \['f1', 'loss'\], which are measured. Got 'score' instead"),
    (None, "los", "Got 'los' instead. Did you mean 'loss'"),
]


@pytest.mark.parametrize(("scoring", "monitor", "message"), BAD_MONITOR)
def test_invalid_monitors_raise(scoring, monitor, message):
    with pytest.raises(ValueError, match=message):
        checked(scoring).monitored(monitor, "loss", "MLPClassifier")


# -- evaluating ------------------------------------------------------------------------------------------


def test_every_scorer_is_called_as_scikit_learn_calls_it():
    weight = np.arange(5.0)
    scorers = checked(["accuracy", "neg_log_loss", "neg_max_error", cost, gain]).scorers
    found = evaluated(scorers, CONSTANT, X, Y, weight, "the validation rows")
    assert found == {
        "accuracy": get_scorer("accuracy")(CONSTANT, X, Y, sample_weight=weight),
        "neg_log_loss": get_scorer("neg_log_loss")(CONSTANT, X, Y, sample_weight=weight),
        "neg_max_error": get_scorer("neg_max_error")(CONSTANT, X, Y),  # it takes no weights
        "cost": 2.0,
        "gain": 10.0,
    }
    assert evaluated(checked(gain).scorers, CONSTANT, X, Y, None, "the rows") == {"gain": 5.0}


RETURNS = [np.float32(0.5), np.array(0.5), 0.5, True, 1]


@pytest.mark.parametrize("value", RETURNS)
def test_numbers_of_every_kind(value):
    found = evaluated(checked({"v": lambda *args: value}).scorers, CONSTANT, X, Y, None, "the rows")
    assert type(found["v"]) is float
    assert found["v"] == float(value)


@pytest.mark.parametrize("value", [None, "good", {"a": 1.0}, np.zeros(2), [1.0]])
def test_non_numeric_scores_raise(value):
    with pytest.raises(ValueError, match=r"scoring 'v' of the validation rows returned .*: a scorer"):
        evaluated(checked({"v": lambda *args: value}).scorers, CONSTANT, X, Y, None, "the validation rows")


def test_an_error_of_a_scorer_names_it():
    def metric(y_true, y_pred):
        return 1.0

    with pytest.raises(ValueError, match=r"scoring 'metric' of the rows failed: TypeError.*estimator"):
        evaluated(checked(metric).scorers, CONSTANT, X, Y, None, "the rows")
