"""Scores by name and as functions, for fits of a model."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, get_scorer, mean_absolute_error, r2_score, roc_auc_score

from sknet.core import Tensor
from sknet.engine._scores import NamedScores, check_scores
from sknet.losses import LogLoss, SquaredError

RNG = np.random.default_rng(0)
LOGITS, CLASSES = RNG.normal(size=(40, 3)), RNG.integers(0, 3, 40)
OUTPUTS, REAL = RNG.normal(size=(40, 1)), RNG.normal(size=40)
WEIGHT = RNG.uniform(0.5, 2, 40)


def probabilities(logits):
    return LogLoss().predict(Tensor(logits)).numpy()


def log_of_the_right(y, p):
    return float(np.log(p[np.arange(len(y)), y]).mean())


TABLE = [
    (
        "accuracy",
        LogLoss(),
        LOGITS,
        CLASSES,
        lambda w: accuracy_score(CLASSES, LOGITS.argmax(1), sample_weight=w),
    ),
    ("r2", SquaredError(), OUTPUTS, REAL[:, None], lambda w: r2_score(REAL, OUTPUTS, sample_weight=w)),
    ("r2", SquaredError(), OUTPUTS, REAL, lambda w: r2_score(REAL, OUTPUTS, sample_weight=w)),
    (
        mean_absolute_error,
        SquaredError(),
        OUTPUTS,
        REAL,
        lambda w: mean_absolute_error(REAL, OUTPUTS, sample_weight=w),
    ),
    (
        log_of_the_right,
        LogLoss(),
        LOGITS,
        CLASSES,
        lambda w: log_of_the_right(CLASSES, probabilities(LOGITS)),
    ),
    (
        roc_auc_score,
        LogLoss(),
        OUTPUTS,
        (REAL > 0).astype(float),
        lambda w: roc_auc_score(REAL > 0, OUTPUTS[:, 0], sample_weight=w),
    ),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parts", [[40], [7, 20, 13]])
@pytest.mark.parametrize(("score", "loss", "output", "y", "expected"), TABLE)
def test_scores_are_those_of_all_rows(score, loss, output, y, expected, parts, weighted):
    make, _ = check_scores({"mine": score}, "fit")
    scores, half, start = make(loss), make(loss), 0
    weight = WEIGHT if weighted else None
    for i, size in enumerate(parts):
        rows = slice(start, start + size)
        scores.add(output[rows], y[rows], None if weight is None else weight[rows])
        if not i:
            half.load_state(scores.state())
        else:
            half.add(output[rows], y[rows], None if weight is None else weight[rows])
        start += size
    assert scores.results() == {"mine": pytest.approx(expected(weight), rel=1e-6)}
    assert half.results() == scores.results()


def test_names_and_directions():
    def cost(y, p):
        return 1.0

    cost.greater_is_better = False
    make, directions = check_scores(["accuracy", cost, mean_absolute_error], "fit")
    assert directions == {"accuracy": True, "cost": False, "mean_absolute_error": None}
    assert list(make(LogLoss()).results()) == list(directions)
    assert check_scores(None, "fit")[1] == {}
    assert check_scores("r2", "fit")[1] == {"r2": True}
    assert check_scores({"mine": "r2"}, "fit")[1] == {"mine": True}
    assert np.isnan(NamedScores({}).result())


def test_outputs_that_are_not_finite_have_no_score():
    make, _ = check_scores([mean_absolute_error, "r2"], "fit")
    scores = make(SquaredError())
    scores.add(np.array([[np.nan]]), np.array([1.0]), None)
    assert np.isnan(list(scores.results().values())).all()


@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        (
            "acuracy",
            ValueError,
            r"of fit got 'acuracy', expected one of \['accuracy', 'r2'\] or a function .*accuracy",
        ),
        (3, TypeError, "must be 'accuracy', 'r2', a function of .* Got 3 instead: give a dict"),
        ({"loss": "r2"}, ValueError, "cannot be named 'loss', which is another column"),
        ({"validation_r2": "r2"}, ValueError, "cannot be named 'validation_r2'"),
        (["r2", "r2"], ValueError, "cannot be named 'r2'"),
        (
            {"a": get_scorer("accuracy")},
            TypeError,
            r"score 'a' .* a scorer of \(estimator, X, y\) needs an estimator",
        ),
        ({"a": 3}, TypeError, "score 'a' of fit is 3, expected 'accuracy'"),
    ],
)
def test_objects_that_are_not_scores(scores, error, message):
    with pytest.raises(error, match=message):
        check_scores(scores, "fit")


def test_a_score_is_one_number():
    make, _ = check_scores({"mine": lambda y, p: [1.0, 2.0]}, "fit")
    scores = make(SquaredError())
    scores.add(OUTPUTS, REAL, None)
    with pytest.raises(
        TypeError, match=r"score 'mine' returned \[1.0, 2.0\]: a score must return one number"
    ):
        scores.results()
