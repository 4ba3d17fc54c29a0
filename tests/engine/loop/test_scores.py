"""Scores accumulated in parts, against scikit-learn's on the whole."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from sknet.engine import Accuracy, RSquared
from sknet.engine._scores import Gathered
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import LOSSES, Poisson, SquaredError

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
