"""scoring= and monitor=: names, directions, and errors."""

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import f1_score, get_scorer, get_scorer_names, make_scorer, mean_squared_error

from sknet import MLPClassifier, MLPRegressor
from sknet.callbacks import Callback

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 2)), RNG.integers(2, size=40)
HELD_OUT = np.arange(30, 40)
SPLIT = np.arange(30), HELD_OUT
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")


def cost(estimator, X, y):
    return 2.0


def gain(estimator, X, y, sample_weight=None):
    return float(len(X) if sample_weight is None else sample_weight.sum())


def said(function, higher_is_better):
    function = partial(function)
    function.greater_is_better = higher_is_better
    return function


class BegunError(Exception):
    """A fit has begun that goes by this number, and knows the directions of these."""


class Ending(Callback):
    def on_fit_begin(self, fit):
        raise BegunError(fit.monitor, dict(fit.directions))


def begun(kind=MLPClassifier, **params):
    """Return the monitored number of a fit, and directions by name."""
    with pytest.raises(BegunError) as error:
        kind(callbacks=[Ending()], **params).fit(X, Y)
    return error.value.args


def scored(scoring, weight=None):
    """Return a fit of one epoch, and the scores of its held-out rows."""
    told = {"early_stopping": True, "validation_split": SPLIT, "max_iter": 1, "random_state": 0}
    clf = MLPClassifier((2,), scoring=scoring, monitor="loss", **told).fit(X, Y, weight)
    names = [name for name in clf.history_ if name.startswith("validation_")]
    return clf, {name.removeprefix("validation_"): clf.history_[name][0] for name in names}


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
    assert begun(scoring=scoring)[1] == expected


@pytest.mark.parametrize("name", sorted(get_scorer_names()))
def test_every_scorer_of_scikit_learn_has_a_direction(name):
    assert begun(scoring=name)[1][name] is True


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
    kind = MLPRegressor if default == "score" else MLPClassifier  # whose losses are those that decide
    name, directions = begun(kind, scoring=scoring, monitor=monitor, early_stopping=True)
    assert (name, directions[name]) == (f"validation_{expected[0]}", expected[1])


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
        MLPClassifier(scoring=scoring).fit(X, Y)


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
        MLPClassifier(scoring=scoring, monitor=monitor, early_stopping=True).fit(X, Y)


# -- evaluating ------------------------------------------------------------------------------------------


def test_every_scorer_is_called_as_scikit_learn_calls_it():
    weight = RNG.uniform(0.5, 2, size=40)
    clf, found = scored(["accuracy", "neg_log_loss", "neg_max_error", cost, gain], weight)
    given = clf, X[HELD_OUT], Y[HELD_OUT]
    expected = {
        "accuracy": get_scorer("accuracy")(*given, sample_weight=weight[HELD_OUT]),
        "neg_log_loss": get_scorer("neg_log_loss")(*given, sample_weight=weight[HELD_OUT]),
        "neg_max_error": get_scorer("neg_max_error")(*given),  # it takes no weights
        "cost": 2.0,
        "gain": weight[HELD_OUT].sum(),
    }
    assert found.pop("loss") == -expected["neg_log_loss"]
    assert found == pytest.approx(expected)
    assert scored({"gain": gain})[1]["gain"] == 10.0


RETURNS = [np.float32(0.5), np.array(0.5), 0.5, True, 1]


@pytest.mark.parametrize("value", RETURNS)
def test_numbers_of_every_kind(value):
    found = scored({"v": lambda *args: value})[1]
    assert type(found["v"]) is float
    assert found["v"] == float(value)


@pytest.mark.parametrize("value", [None, "good", {"a": 1.0}, np.zeros(2), [1.0]])
def test_non_numeric_scores_raise(value):
    with pytest.raises(ValueError, match=r"scoring 'v' of the .* rows returned .*: a scorer"):
        scored({"v": lambda *args: value})


def test_an_error_of_a_scorer_names_it():
    def metric(y_true, y_pred):
        return 1.0

    with pytest.raises(ValueError, match=r"scoring 'metric' of the .* rows failed: TypeError.*estimator"):
        scored({"metric": metric})
