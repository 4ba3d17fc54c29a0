"""The contract of all losses, with one table row for each; a loss without a row fails."""

import inspect
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

import sknet.losses
from sknet.core import Tensor, gradients
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import (
    AFT,
    CTC,
    LOSSES,
    NLL,
    AbsoluteError,
    BinaryCrossEntropy,
    CosineEmbedding,
    Cox,
    Focal,
    Gamma,
    GaussianNLL,
    Hinge,
    Huber,
    KLDivergence,
    LogCosh,
    LogLoss,
    Loss,
    MarginRanking,
    MultiMargin,
    Ordinal,
    Poisson,
    Quantile,
    SquaredError,
    TripletMargin,
    Tweedie,
)
from tests.combinations import every
from tests.losses.helpers import value_and_gradient

N = 7


def real(rng, shape):
    return rng.normal(size=shape)


def count(rng, shape):
    return rng.poisson(1.0, size=shape).astype(float)


def zero_or_one(rng, shape):
    return rng.integers(0, 2, size=shape).astype(float)


def classes(rng, shape):
    return rng.integers(0, shape[1], size=shape[:1])


def classes_or_ignored(rng, shape):
    y = rng.integers(0, shape[-1], size=shape[:-1])
    y[rng.random(y.shape) < 0.3] = -1
    return y


def labels_or_ignored(rng, shape):
    return rng.integers(-1, 2, size=shape).astype(float)


def signs(rng, shape):
    return rng.choice([-1, 1], size=shape[0])


def nothing(rng, shape):
    return np.zeros(shape[0])


def labels_in_order(rng, shape):
    """Return as many labels as there are steps for, in rows that end with -1."""
    n, steps, classes = shape
    most = max(1, steps // 2)
    y = rng.integers(1, classes, (n, most))
    y[np.arange(most) >= rng.integers(0, most + 1, (n, 1))] = -1
    return y


def positive(rng, shape):
    return 1 + rng.gamma(2.0, size=shape)


def half_as_wide(rng, shape):
    return rng.normal(size=(shape[0], shape[1] // 2))


def times(rng, shape):
    """Return times, some of which are the same, and events."""
    return np.c_[rng.integers(1, 4, size=shape[0]), rng.integers(0, 2, size=shape[0])].astype(float)


def third_as_wide(rng, shape):
    return rng.normal(size=(shape[0], shape[1] // 3))


def ordered(rng, shape):
    return rng.integers(0, shape[1] + 1, size=shape[0])


def distribution(rng, shape):
    weights = rng.gamma(1.0, size=shape)
    return weights / weights.sum(axis=-1, keepdims=True)


def logit(rng, shape):
    return 2 * rng.normal(size=shape)


def probability(rng, shape):
    return rng.uniform(0.05, 0.95, size=shape)


class Case(NamedTuple):
    """One loss, the targets it takes, and PyTorch's values for them, elementwise or per sample."""

    loss: Loss
    target: Callable[..., Any]
    torch_values: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((N, 1), (N, 3), (1, 1), (N, 2, 3))
    is_smooth: bool = True
    output: Callable[..., Any] = logit

    def draw(self, shape, dtype=np.float64, seed=0):
        rng = np.random.default_rng(seed)
        target = self.target(rng, shape)
        output = self.output(rng, shape).astype(dtype)
        return output, target if target.dtype.kind == "i" else target.astype(dtype)


def torch_pinball(functional, z, y, quantile=0.3):
    return (y - z).clamp(min=0) * quantile + (z - y).clamp(min=0) * (1 - quantile)


def torch_quantiles(functional, z, y):
    low, middle, high = z.tensor_split(3, dim=1)
    every = [middle - functional.softplus(low), middle, middle + functional.softplus(high)]
    pairs = zip((0.1, 0.4, 0.9), every, strict=True)
    return sum(torch_pinball(functional, q, y, level) for level, q in pairs)


def torch_ordinal(functional, z, y):
    """Return the definition: differences of the probabilities of a class of at least k."""
    odds = z[:, :1] - functional.pad(functional.softplus(z[:, 1:]).cumsum(1), (1, 0))
    from_here_on = functional.pad(functional.pad(odds.sigmoid(), (1, 0), value=1.0), (0, 1))
    probability = from_here_on[:, :-1] - from_here_on[:, 1:]
    return -probability.gather(1, y[:, None])[:, 0].log()


def torch_poisson(functional, z, y):
    return functional.poisson_nll_loss(z, y, reduction="none") + y.xlogy(y) - y


def torch_tweedie(functional, z, y, power=1.5):
    a, b = 1 - power, 2 - power
    return (b * z).exp() / b - y * (a * z).exp() / a + y**b / (a * b)


def torch_gaussian(functional, z, y):
    mean, log_variance = z.tensor_split(2, dim=1)
    return functional.gaussian_nll_loss(mean, y, log_variance.exp(), reduction="none", eps=1e-300)


def torch_cox(functional, z, y):
    at_risk = y[:, 0] >= y[:, :1]
    return y[:, 1] * (z.T.where(at_risk, z.new_tensor(float("-inf"))).logsumexp(1) - z[:, 0])


def torch_aft(functional, z, y, distribution):
    from torch import special
    from torch.distributions import Normal

    x = (y[:, 0].log() - z[:, 0]) / z[:, 1].exp()
    density, survival = {
        "weibull": lambda: (x - x.exp(), -x.exp()),
        "log_logistic": lambda: (x - 2 * functional.softplus(x), functional.logsigmoid(-x)),
        "log_normal": lambda: (Normal(0, 1).log_prob(x), special.log_ndtr(-x)),
    }[distribution]()
    return -y[:, 1] * (density - z[:, 1] - y[:, 0].log()) - (1 - y[:, 1]) * survival


def torch_focal(functional, z, y, gamma=2.0):
    loss = functional.binary_cross_entropy_with_logits(z, y, reduction="none")
    return (1 - (-loss).exp()) ** gamma * loss


def torch_focal_classes(functional, z, y, gamma=2.0, **options):
    loss = functional.cross_entropy(z, y, reduction="none", **options)
    return (1 - (-loss).exp()) ** gamma * loss


def torch_crammer_singer(functional, z, y):
    others = z.scatter(1, y[:, None], float("-inf")).max(1).values
    return (1 + others - z.gather(1, y[:, None])[:, 0]).clamp(min=0)


def torch_classes(functional, z, y, **options):
    """Return PyTorch's cross-entropy of each position, as its share in the mean over positions."""
    found = functional.cross_entropy(
        z.movedim(-1, 1), y, weight=z.new_tensor(W), reduction="none", ignore_index=-1, **options
    )
    return found / math.prod(y.shape[1:])


def torch_nll(functional, p, y):
    log = p.log().movedim(-1, 1).contiguous()
    found = functional.nll_loss(log, y, p.new_tensor(W), reduction="none", ignore_index=-1)
    return found / math.prod(y.shape[1:])


def torch_labels(functional, z, y):
    smooth = y * 0.9 + 0.05
    return functional.binary_cross_entropy_with_logits(
        z, smooth, weight=z.new_tensor(W) * (y != -1), pos_weight=z.new_tensor(POS), reduction="none"
    )


def torch_ctc(functional, z, y):
    n, steps, _ = z.shape
    lengths = y.new_full((n,), steps), (y >= 0).sum(1)
    log_probability = z.log_softmax(-1).transpose(0, 1)
    return functional.ctc_loss(log_probability, y.clamp(min=0), *lengths, reduction="none")


def torch_triplet(functional, z, y, **options):
    return functional.triplet_margin_loss(z[:, 0], z[:, 1], z[:, 2], reduction="none", **options)


W, POS = [0.5, 2.0, 1.5], [3.0, 0.2, 1.0]
CLASSES, LABELS, ONE = ((N, 2), (N, 5), (1, 3)), ((N, 1), (N, 4), (1, 2)), ((N, 1), (1, 1))


THREE = ((N, 3), (1, 3), (N, 4, 3), (2, 2, 2, 3))


CASES = [
    Case(LogCosh(), real, lambda f, z, y: (z - y).cosh().log()),
    Case(Gamma(), positive, lambda f, z, y: y / z.exp() + z - y.log() - 1),
    Case(Tweedie(), count, torch_tweedie),
    Case(Tweedie(1), count, torch_poisson),
    Case(Tweedie(2), positive, lambda f, z, y: y / z.exp() + z - y.log() - 1),
    Case(Tweedie(3), positive, lambda f, z, y: torch_tweedie(f, z, y, 3.0), output=probability),
    Case(GaussianNLL(), half_as_wide, torch_gaussian, ((N, 2), (N, 6), (1, 2))),
    Case(Cox(), times, torch_cox, ((N, 1), (1, 1))),
    *(
        Case(AFT(name), times, partial(torch_aft, distribution=name), ((N, 2), (1, 2)))
        for name in ("weibull", "log_logistic", "log_normal")
    ),
    Case(
        KLDivergence(),
        distribution,
        lambda f, z, y: f.kl_div(z.log_softmax(-1), y, reduction="none"),
        ((N, 2), (N, 5), (N, 2, 3)),
    ),
    Case(Hinge(), zero_or_one, lambda f, z, y: (1 - z * (2 * y - 1)).clamp(min=0), ONE, is_smooth=False),
    Case(Hinge(), classes, torch_crammer_singer, CLASSES, is_smooth=False),
    Case(Hinge(squared=True), classes, lambda f, z, y: torch_crammer_singer(f, z, y) ** 2, CLASSES, False),
    Case(
        Hinge(multilabel=True),
        zero_or_one,
        lambda f, z, y: (1 - z * (2 * y - 1)).clamp(min=0),
        LABELS,
        is_smooth=False,
    ),
    Case(Focal(), zero_or_one, torch_focal, ONE),
    Case(Focal(), classes, torch_focal_classes, CLASSES),
    Case(Focal(0.5), classes, lambda f, z, y: torch_focal_classes(f, z, y, 0.5), CLASSES),
    Case(Focal(multilabel=True), zero_or_one, torch_focal, LABELS),
    Case(
        LogLoss(label_smoothing=0.1),
        zero_or_one,
        lambda f, z, y: f.binary_cross_entropy_with_logits(z, y * 0.9 + 0.05, reduction="none"),
        ONE,
    ),
    Case(
        LogLoss(label_smoothing=0.1),
        classes,
        lambda f, z, y: f.cross_entropy(z, y, reduction="none", label_smoothing=0.1),
        CLASSES,
    ),
    Case(
        NLL(), classes, lambda f, p, y: f.nll_loss(p.log(), y, reduction="none"), CLASSES, output=probability
    ),
    Case(
        BinaryCrossEntropy(),
        zero_or_one,
        lambda f, p, y: f.binary_cross_entropy(p, y, reduction="none"),
        LABELS,
        output=probability,
    ),
    Case(SquaredError(), real, lambda f, z, y: f.mse_loss(z, y, reduction="none") / 2),
    Case(AbsoluteError(), real, lambda f, z, y: f.l1_loss(z, y, reduction="none"), is_smooth=False),
    Case(Huber(), real, lambda f, z, y: f.huber_loss(z, y, reduction="none"), is_smooth=False),
    Case(Huber(0.3), real, lambda f, z, y: f.huber_loss(z, y, reduction="none", delta=0.3), is_smooth=False),
    Case(Quantile(0.3), real, torch_pinball, is_smooth=False),
    Case(
        Quantile([0.1, 0.4, 0.9]), third_as_wide, torch_quantiles, ((N, 3), (N, 6), (1, 3)), is_smooth=False
    ),
    Case(Ordinal(), ordered, torch_ordinal, ((N, 1), (N, 2), (N, 5), (1, 3))),
    Case(Poisson(), count, torch_poisson),
    Case(
        LogLoss(),
        zero_or_one,
        lambda f, z, y: f.binary_cross_entropy_with_logits(z, y, reduction="none"),
        ONE,
    ),
    Case(LogLoss(), classes, lambda f, z, y: f.cross_entropy(z, y, reduction="none"), CLASSES),
    Case(
        LogLoss(multilabel=True),
        zero_or_one,
        lambda f, z, y: f.binary_cross_entropy_with_logits(z, y, reduction="none"),
        LABELS,
    ),
    Case(LogLoss(class_weight=W, ignore_index=-1), classes_or_ignored, torch_classes, THREE),
    Case(
        LogLoss(class_weight=dict(enumerate(W)), label_smoothing=0.2, ignore_index=-1),
        classes_or_ignored,
        lambda f, z, y: torch_classes(f, z, y, label_smoothing=0.2),
        THREE,
    ),
    Case(
        LogLoss(True, label_smoothing=0.1, class_weight=W, pos_weight=POS, ignore_index=-1),
        labels_or_ignored,
        torch_labels,
        ((N, 3), (1, 3)),
    ),
    Case(
        LogLoss(class_weight=W[:2], pos_weight=3.0),
        zero_or_one,
        lambda f, z, y: f.binary_cross_entropy_with_logits(
            z, y, z.new_tensor(W)[y.long()], pos_weight=z.new_tensor(3.0), reduction="none"
        ),
        ONE,
    ),
    Case(
        NLL(class_weight=W, ignore_index=-1),
        classes_or_ignored,
        torch_nll,
        THREE,
        output=probability,
    ),
    Case(
        Focal(ignore_index=-1),
        classes_or_ignored,
        lambda f, z, y: torch_focal_classes(f, z.movedim(-1, 1), y, ignore_index=-1) / math.prod(y.shape[1:]),
        THREE,
    ),
    Case(MultiMargin(), classes, lambda f, z, y: f.multi_margin_loss(z, y, reduction="none"), CLASSES, False),
    Case(
        MultiMargin(2, 0.5),
        classes,
        lambda f, z, y: f.multi_margin_loss(z, y, 2, 0.5, reduction="none"),
        CLASSES,
        is_smooth=False,
    ),
    Case(
        MarginRanking(0.3),
        signs,
        lambda f, z, y: f.margin_ranking_loss(z[:, 0].ravel(), z[:, 1].ravel(), y, 0.3, reduction="none"),
        ((N, 2), (N, 2, 1), (1, 2)),
        is_smooth=False,
    ),
    Case(
        CosineEmbedding(0.2),
        signs,
        lambda f, z, y: f.cosine_embedding_loss(z[:, 0], z[:, 1], y, 0.2, reduction="none"),
        ((N, 2, 3), (1, 2, 4)),
        is_smooth=False,
    ),
    Case(TripletMargin(), nothing, torch_triplet, ((N, 3, 4), (1, 3, 2)), is_smooth=False),
    Case(
        TripletMargin(2.0, p=3, eps=1e-3, swap=True),
        nothing,
        lambda f, z, y: torch_triplet(f, z, y, margin=2.0, p=3, eps=1e-3, swap=True),
        ((N, 3, 4),),
        is_smooth=False,
    ),
    Case(TripletMargin(p=1), nothing, lambda f, z, y: torch_triplet(f, z, y, p=1), ((N, 3, 4),), False),
    Case(CTC(), labels_in_order, torch_ctc, ((3, 6, 4), (1, 2, 3), (3, 9, 2))),
]


each_case = every(case=CASES)


def each_row(test):
    """Run a test for every case, with all of its shapes."""
    return each_case(every(shape=lambda case: case.shapes)(test))


def test_every_public_loss_has_a_row():
    public = [getattr(sknet.losses, name) for name in sknet.losses.__all__]
    concrete = {x for x in public if inspect.isclass(x) and issubclass(x, Loss) and not inspect.isabstract(x)}
    assert concrete == {type(case.loss) for case in CASES} == set(LOSSES.values())


@each_row
def test_values_and_gradients_equal_pytorch(case, shape):
    torch = pytest.importorskip("torch")
    z, y = case.draw(shape)
    output = torch.tensor(z, requires_grad=True)
    expected = case.torch_values(torch.nn.functional, output, torch.tensor(y))
    expected = expected.reshape(len(z), -1).sum(1)
    expected.sum().backward()
    values, gradient = value_and_gradient(case.loss, z, y)
    assert values.shape == shape[:1]
    np.testing.assert_allclose(values, expected.detach().numpy(), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(gradient, output.grad.numpy(), rtol=1e-13, atol=1e-14)


@pytest.mark.slow
@each_row
def test_gradient_equals_central_differences(case, shape):
    z, y = case.draw(shape, seed=1)
    _, gradient = value_and_gradient(case.loss, z, y)
    h = 1e-6
    for index in np.ndindex(shape):
        step = np.zeros(shape)
        step[index] = h
        above, below = (case.loss.values(z + sign * step, y).numpy().sum() for sign in (1, -1))
        assert gradient[index] == pytest.approx((above - below) / (2 * h), rel=1e-6, abs=1e-7)


@every(case=[case for case in CASES if case.is_smooth])
def test_second_derivatives_equal_central_differences_of_the_gradient(case):
    z, y = case.draw(case.shapes[0], seed=2)
    v = np.random.default_rng(3).normal(size=z.shape)
    output = Tensor(z, requires_grad=True)
    (gradient,) = gradients(case.loss.values(output, y).sum(), [output], create_graph=True)
    (product,) = gradients((gradient * v).sum(), [output])
    above, below = (value_and_gradient(case.loss, z + h * v, y)[1] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(product.numpy(), (above - below) / 2e-6, rtol=1e-6, atol=1e-8)


ELEMENTWISE = [case for case in CASES if (N, 1) in case.shapes and case.target not in (ordered, times)]


@every(case=ELEMENTWISE)
def test_target_without_the_axis_of_a_single_output(case):
    z, y = case.draw((N, 1))
    for form in (y.ravel(), y.reshape(-1, 1), y.ravel().astype(int)):
        expected = case.loss.values(z, form.astype(float)).numpy()
        np.testing.assert_array_equal(case.loss.values(z, form).numpy(), expected)
        assert expected.shape == (N,)


@each_row
def test_dtype_of_the_output_is_kept(case, shape):
    z, y = case.draw(shape, np.float32)
    wide = y if y.dtype.kind == "i" else y.astype(np.float64)
    values, gradient = value_and_gradient(case.loss, z, wide)
    assert values.dtype == gradient.dtype == np.float32
    exact, _ = value_and_gradient(case.loss, z.astype(float), wide)
    np.testing.assert_allclose(values, exact, rtol=1e-5, atol=1e-6)
    assert case.loss.predict(z).dtype == np.float32


@each_row
def test_inputs_are_left_as_they_are(case, shape):
    z, y = case.draw(shape)
    before = z.copy(), y.copy()
    value_and_gradient(case.loss, z, y)
    case.loss.predict(z)
    np.testing.assert_array_equal(z, before[0])
    np.testing.assert_array_equal(y, before[1])


@each_row
def test_nothing_reads_the_data_on_the_host(case, shape):
    z, y = (Tensor(x).to("meta") for x in case.draw(shape, np.float32))
    predicted = (*shape[:-1], shape[-1] // case.loss.outputs_per_target + ("ordinal" in case.loss.tasks))
    for result, expected in ((case.loss.values(z, y), shape[:1]), (case.loss.predict(z), predicted)):
        assert (str(result.device), result.shape, result.dtype) == ("meta", expected, np.float32)


@each_row
@every(change=[lambda s: (s[0] + 1, *s[1:]), lambda s: (*s, 2), lambda s: (2, s[0])])
def test_wrong_shapes_raise(case, shape, change):
    z, y = case.draw(shape)
    wrong = np.zeros(change(y.shape), y.dtype)
    with pytest.raises(
        ShapeError, match=r"output of shape .* target of shape .* Nothing is broadcast: reshape"
    ):
        case.loss.values(z, wrong)


@each_row
def test_own_targets_pass_the_check(case, shape):
    _, y = case.draw(shape)
    case.loss.check_target(y)
    case.loss.check_target(y, n_outputs=shape[-1])


@each_case
@every(bad=[np.nan, np.inf, -np.inf])
def test_targets_must_be_finite(case, bad):
    y = np.zeros((4, 2))
    y[2, 1] = bad
    with pytest.raises(ValueError, match=rf"target must be finite, but target\[2, 1\] is {bad}"):
        case.loss.check_target(y, name="target")


@each_case
def test_targets_must_be_numbers_in_rows(case):
    with pytest.raises(DtypeError, match=r"y must hold numbers, but its dtype is <U1\. Encode it first"):
        case.loss.check_target(np.array(["a", "b"]))
    with pytest.raises(ShapeError, match="y must have one row for each sample, but it is a single number"):
        case.loss.check_target(np.array(1.0))


@each_case
def test_is_a_parameter_object(case):
    loss = case.loss
    for copy in (clone(loss), pickle.loads(pickle.dumps(loss)), type(loss)(**loss.get_params())):
        assert copy == loss
        assert copy is not loss
        assert hash(copy) == hash(loss)
    assert len({loss, clone(loss)}) == 1
    loss.validate()


@each_case
def test_for_task(case):
    served = ["multilabel"] if case.loss.get_params().get("multilabel") else case.loss.tasks
    assert all(isinstance(case.loss.for_task(task), type(case.loss)) for task in served)
    with pytest.raises(ValueError, match=r"task must be one of 'binary', .* Got 'ranking' instead"):
        case.loss.for_task("ranking")
    for task in {"binary", "multiclass", "multilabel", "ordinal", "regression"} - set(case.loss.tasks):
        with pytest.raises(
            ValueError, match=rf"{type(case.loss).__name__} .*supports .* the task here is {task}"
        ):
            case.loss.for_task(task)
