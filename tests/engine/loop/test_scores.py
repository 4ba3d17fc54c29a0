"""Scores: by name, as functions, of all rows at once, and from outputs in parts and in any order."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, get_scorer, mean_absolute_error, r2_score, roc_auc_score

from sknet.core import Tensor
from sknet.engine import Accuracy, RSquared
from sknet.engine._scores import Gathered, NamedScores, check_scores
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import LOSSES, LogLoss, Poisson, SquaredError

RNG = np.random.default_rng(0)
N = 57
WEIGHTS = [None, RNG.uniform(0, 2, N), (np.arange(N) % 2).astype(float)]
PARTS = [slice(0, 20), slice(20, 21), slice(21, N)]


def summed(score, output, target, weight):
    for part in PARTS:
        score.add(output[part], target[part], None if weight is None else weight[part])
    return score.result()


@pytest.mark.parametrize("weight", WEIGHTS, ids=["none", "some", "zeros"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_accuracy(weight, dtype):
    logits, classes = RNG.normal(size=(N, 4)).astype(dtype), RNG.integers(4, size=N)
    expected = accuracy_score(classes, logits.argmax(axis=1), sample_weight=weight)
    assert summed(Accuracy(), logits, classes, weight) == pytest.approx(expected)
    labels = RNG.integers(2, size=(N, 3)).astype(dtype)
    expected = accuracy_score(labels, logits[:, :3] > 0, sample_weight=weight)
    assert summed(Accuracy(), logits[:, :3], labels, weight) == pytest.approx(expected)
    expected = accuracy_score(labels[:, :1], logits[:, :1] > 0, sample_weight=weight)
    assert summed(Accuracy(), logits[:, :1], labels[:, :1], weight) == pytest.approx(expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 3), (20, 150, 7), (2, 300, 65)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_right_rows_of_epochs(shape, dtype, order):
    """The first of equal outputs is the class, in native code and in NumPy's plan."""
    output = np.asarray(RNG.integers(-3, 3, shape), dtype).reshape(-1, shape[-1]).copy(order)
    classes = RNG.integers(0, shape[-1], len(output))
    expected = (output.argmax(axis=1) == classes).reshape(shape[:2]).mean(axis=1)
    found = Accuracy().of_epochs(shape[0], output, classes)
    assert [score.result() for score in found] == pytest.approx(expected)
    for wrong in (np.nan, np.inf, -np.inf):
        changed = output.copy()
        changed[-1, -1] = wrong
        assert Accuracy().of_epochs(shape[0], changed, classes) is None
    for wrong in (-1, shape[-1]):
        with pytest.raises(ValueError, match=f"got the class number {wrong}: expected 0 to"):
            Accuracy().of_epochs(shape[0], output, np.append(classes[:-1], wrong))


@pytest.mark.parametrize("n_rows", [2, 1 << 15])
def test_outputs_whose_sum_overflows(n_rows):
    """They are finite, so rows are counted as they are on a device."""
    logits = np.tile(np.float32([[3e38, 2e38], [1e38, 3e38]]), (n_rows // 2, 1))
    classes, finite, infinite = np.zeros(n_rows, np.int64), Accuracy(), Accuracy()
    finite.add(logits, classes, None)
    assert finite.result() == Accuracy().of_epochs(1, logits, classes)[0].result() == 0.5
    logits[-1, 1] = np.inf
    infinite.add(logits, classes, None)
    assert np.isnan(infinite.result())
    assert Accuracy().of_epochs(1, logits, classes) is None


@pytest.mark.parametrize("n_classes", [2, 64, 65])
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_of_equal_outputs_the_first_is_predicted(n_classes, dtype):
    logits = RNG.integers(3, size=(N, n_classes)).astype("float32")
    classes = np.where(np.arange(N) % 3, logits.argmax(axis=1), RNG.integers(n_classes, size=N)).astype(dtype)
    expected = accuracy_score(classes, logits.argmax(axis=1))
    assert 0 < expected < 1
    assert summed(Accuracy(), logits, classes, None) == pytest.approx(expected)


@pytest.mark.parametrize("weight", WEIGHTS, ids=["none", "some", "zeros"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_r_squared(weight, n_outputs, offset):
    target = RNG.normal(size=(N, n_outputs)) + offset
    output = target + 0.3 * RNG.normal(size=target.shape)
    expected = r2_score(target, output, sample_weight=weight)
    assert summed(RSquared(target, weight, SquaredError()), output, target, weight) == pytest.approx(expected)


def test_r_squared_applies_the_link():
    target = RNG.poisson(3, size=(N, 2)).astype(float)
    output = np.log(target + 1)
    found = summed(RSquared(target, None, Poisson()), output, target, None)
    assert found == pytest.approx(r2_score(target, np.exp(output)))


@pytest.mark.parametrize("met", [True, False])
def test_constant_targets(met):
    target = np.column_stack([np.ones(N), RNG.normal(size=N)])
    output = target + np.array([0.0 if met else 0.1, 0.2])
    found = summed(RSquared(target, None, SquaredError()), output, target, None)
    assert found == pytest.approx(r2_score(target, output))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_prediction_that_is_not_finite_has_no_score(bad):
    output, target = np.zeros((N, 1)), np.ones((N, 1))
    output[3] = bad
    with np.errstate(invalid="ignore"):
        assert np.isnan(summed(Accuracy(), output, target, None))
        assert np.isnan(summed(RSquared(target, None, SquaredError()), output, target, None))


def test_without_weight_there_is_no_accuracy():
    assert np.isnan(summed(Accuracy(), np.ones((N, 1)), np.ones((N, 1)), np.zeros(N)))


# -- shapes ---------------------------------------------------------------------------------------------

LENGTHS = [(N,), (N, 1), (N, 3), (1, N), (N, 2, 3), (N, 2, 1), (N, 2), (2 * N,), (N + 1, 1), (), (3,)]
PAIRS = [(output, target) for output in LENGTHS[:7] for target in LENGTHS]
each_pair = pytest.mark.parametrize(("output", "target"), PAIRS)


def labels_right(output, target):
    """Compute an accuracy by hand, or return None if the shapes do not match."""
    if target == output or (output[-1] == 1 and target == output[:-1]):
        logits, labels = RNG.normal(size=output), RNG.integers(2, size=target)
        right = (logits > 0) == (labels.reshape(output) == 1)
        rows = right.reshape(-1, output[-1] if len(output) > 1 else 1)
        return logits, labels, np.mean([all(row) for row in rows])
    if len(output) > 1 and target == output[:-1]:
        logits, numbers = RNG.normal(size=output), RNG.integers(output[-1], size=target)
        pairs = zip(logits.reshape(-1, output[-1]), numbers.ravel(), strict=True)
        return logits, numbers, np.mean([list(row).index(max(row)) == number for row, number in pairs])
    return None


@each_pair
def test_accuracy_of_shapes(output, target):
    given = labels_right(output, target)
    if given is None:
        with pytest.raises(ShapeError, match=r"Accuracy got an output of shape .* and a target of shape"):
            Accuracy().add(np.zeros(output), np.zeros(target, int), None)
        return
    logits, labels, expected = given
    score = Accuracy()
    score.add(logits, labels, None)
    assert score.result() == pytest.approx(expected)


@each_pair
def test_r_squared_of_shapes(output, target):
    n_columns = int(np.prod(output[1:]))
    if not target or target[0] != output[0] or int(np.prod(target[1:])) != n_columns:
        with pytest.raises(ShapeError, match=r"RSquared got predictions of shape .* and a target of shape"):
            RSquared(np.zeros((5, n_columns)), None, SquaredError()).add(
                np.zeros(output), np.zeros(target), None
            )
        return
    predicted, real = RNG.normal(size=output), RNG.normal(size=target)
    score = RSquared(real, None, SquaredError())
    score.add(predicted, real, None)
    if output[0] > 1:
        columns = [x.reshape(len(x), -1) for x in (real, predicted)]
        assert score.result() == pytest.approx(r2_score(*columns))


@pytest.mark.parametrize("weight", [(N, 1), (1, N), (N + 1,), (1,), ()])
def test_weights_of_another_shape(weight):
    for score in (Accuracy(), RSquared(np.zeros(N), None, SquaredError())):
        with pytest.raises(ShapeError, match=rf"got weights of shape .*, expected one per row: \({N},\)"):
            score.add(np.zeros((N, 1)), np.zeros(N), np.ones(weight))
    with pytest.raises(ShapeError, match="RSquared got weights of shape"):
        RSquared(np.zeros(N), np.ones(weight), SquaredError())


# Classes in an order are predicted by their probabilities, and scored by the estimators; hazards by nothing.
UNSCORED = ("nll", "binary_cross_entropy", "ordinal", "cox", "aft")
SCORED = [name for name, loss in LOSSES.items() if loss.tasks and name not in UNSCORED]


@pytest.mark.parametrize("loss", SCORED)
def test_a_score_takes_what_its_loss_takes(loss):
    """Targets that a loss accepts can be scored."""
    assert sum(scores_as_its_values(LOSSES[loss](), *pair) for pair in PAIRS) >= 2


def scores_as_its_values(loss, output, target):
    labels = "multiclass" in loss.tasks
    z = RNG.normal(size=output)
    y = RNG.integers(1, size=target) if labels else np.full(target, 0.5)
    if labels and (target == output or output[-1] == 1):
        y = y.astype(float)
    try:
        values = loss.values(z, y)
    except (ShapeError, DtypeError):
        return False
    assert values.shape == output[:1]
    score = Accuracy(loss.threshold) if labels else RSquared(y, None, loss)
    score.add(z, y, None)
    assert np.isfinite(score.result())
    return True


@pytest.mark.parametrize("number", [-1, 3, 100])
@pytest.mark.parametrize("n_classes", [3, 70])
def test_invalid_class_numbers(number, n_classes):
    numbers = np.zeros(N, int)
    numbers[5] = number if number < 0 else number + n_classes
    with pytest.raises(ValueError, match=rf"class number {numbers[5]}: expected 0 to {n_classes - 1}"):
        Accuracy().add(np.zeros((N, n_classes)), numbers, None)


@pytest.mark.parametrize("weight", WEIGHTS, ids=["none", "some", "zeros"])
def test_ignored_targets_do_not_count(weight):
    logits, classes = RNG.normal(size=(N, 4)), RNG.integers(4, size=N)
    ignored = RNG.random(N) < 0.3
    kept = None if weight is None else weight[~ignored]
    expected = accuracy_score(classes[~ignored], logits[~ignored].argmax(axis=1), sample_weight=kept)
    assert summed(Accuracy(0.0, -1), logits, np.where(ignored, -1, classes), weight) == pytest.approx(
        expected
    )
    labels = RNG.integers(2, size=(N, 2))
    expected = accuracy_score(labels[~ignored], logits[~ignored, :2] > 0, sample_weight=kept)
    labels[ignored, 1] = -1
    found = summed(Accuracy(0.0, -1), logits[:, :2], labels, weight)
    assert found == pytest.approx(expected)


def test_an_accuracy_does_not_depend_on_the_axis_of_a_single_output():
    logits, labels = RNG.normal(size=(N, 1)), RNG.integers(2, size=N)
    expected = accuracy_score(labels, logits[:, 0] > 0)
    assert summed(Accuracy(), logits, labels, None) == pytest.approx(expected)
    assert summed(Accuracy(), logits[:, 0], labels, None) == pytest.approx(expected)
    assert summed(Accuracy(), logits, labels.reshape(-1, 1), None) == pytest.approx(expected)


def test_a_score_goes_on_from_its_state():
    target, output, weight = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 2)), RNG.uniform(0, 2, N)

    def compute(outputs, rows):
        return {"sum": outputs[:, 0].sum() + (0 if rows is None else rows.sum())}

    makers = [
        lambda: RSquared(target, weight, SquaredError()),
        Accuracy,
        lambda: Gathered(N, compute, ["sum"]),
    ]
    places = np.array_split(RNG.permutation(N)[:-3], 4)
    for make in makers:
        scores = [make()]
        for part in places:
            resumed = make()
            resumed.load_state(scores[-1].state())
            scores.append(resumed)
            for score in scores:
                score.add(
                    output[part], target[part] > 0 if make is Accuracy else target[part], weight[part], part
                )
        assert len({score.result() for score in scores}) == 1


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
        ({"a": lambda y: 1.0}, TypeError, "score 'a' of fit is .*, expected 'accuracy', 'r2' or a function"),
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


N_GATHERED = 40
OUTPUTS_GATHERED = RNG.normal(size=(N_GATHERED, 1))
LABELS = RNG.integers(2, size=N_GATHERED)


def area(outputs, rows):
    return {"area": roc_auc_score(LABELS if rows is None else LABELS[rows], outputs[:, 0])}


def filled(order, sizes, left_out=()):
    """Return a score to which the rows were added in this order, in parts of these sizes."""
    score, start = Gathered(N_GATHERED, area, ["area"]), 0
    for number, size in enumerate(sizes):
        rows = order[start : start + size]
        start += size
        if number not in left_out:
            score.add(OUTPUTS_GATHERED[rows], None, None, rows)
    return score


@pytest.mark.parametrize("seed", range(5))
def test_neither_order_nor_parts_matter(seed):
    rng = np.random.default_rng(seed)
    sizes = np.diff([0, *np.sort(rng.choice(np.arange(1, N_GATHERED), 4, replace=False)), N_GATHERED])
    score = filled(rng.permutation(N_GATHERED), sizes)
    assert score.results() == {"area": roc_auc_score(LABELS, OUTPUTS_GATHERED[:, 0])}
    assert score.result() == score.results()["area"]


def test_rows_in_a_slice():
    score = Gathered(N_GATHERED, area, ["area"])
    for start in (0, 20):
        score.add(OUTPUTS_GATHERED[start : start + 20], None, None, slice(start, start + 20))
    assert score.results() == area(OUTPUTS_GATHERED, None)


def test_rows_that_never_come_do_not_count():
    order = RNG.permutation(N_GATHERED)
    score = filled(order, [10, 10, 20], left_out=[1])
    came = np.sort(np.r_[order[:10], order[20:]])
    assert score.results() == area(OUTPUTS_GATHERED[came], came)
    assert np.isnan(Gathered(N_GATHERED, area, ["area"]).result())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_has_no_score(bad):
    score = Gathered(2, area, ["area", "more"])
    score.add(np.array([[0.0], [bad]]), None, None, slice(0, 2))
    assert np.isnan([score.results()[name] for name in ("area", "more")]).all()


def test_rows_must_be_named():
    with pytest.raises(ValueError, match="Gathered needs the indices of the rows"):
        Gathered(N_GATHERED, area, ["area"]).add(OUTPUTS_GATHERED, None, None)


def test_other_scores_have_one_name():
    score = Accuracy()
    score.add(OUTPUTS_GATHERED, LABELS.reshape(-1, 1), None, slice(0, N_GATHERED))
    assert score.results() == {"score": score.result()}
