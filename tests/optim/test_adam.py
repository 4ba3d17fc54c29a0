"""Adam by hand, and step by step with scikit-learn's; where eps is added; decoupled decay."""

import math

import numpy as np
import pytest
from sklearn.neural_network._stochastic_optimizers import AdamOptimizer

from sknet.optim import SGD, Adam, AdamW, RAdam
from sknet.optim.schedules import FlatThenCosine, InverseScaling, InverseTime, Progress, WarmUp
from tests.optim.helpers import follow, gradient_series


def test_by_hand():
    optimizer = Adam(lr=0.1, beta1=0.5, beta2=0.75, eps=1.0)
    deltas, state = optimizer.update(np.array([4.0]), optimizer.init(np.zeros(1)), np.zeros(1))
    assert (state.slots["mu"], state.slots["nu"]) == (2.0, 4.0)
    np.testing.assert_allclose(deltas, [-0.1 * math.sqrt(0.25) / 0.5 * 2 / (2 + 1)])


@pytest.mark.parametrize(
    "optimizer",
    [
        *(Adam(0.01, beta1=0.8), Adam(InverseScaling(0.1)), Adam(beta1=0.0, beta2=0.0)),
        *(Adam(InverseTime(0.02, 50, 1e-3)), AdamW(InverseTime(0.1, 3))),
        *(Adam(FlatThenCosine(0.1, 0.3, 0.01, 90)), Adam(WarmUp(FlatThenCosine(0.1, n_steps=200), 20))),
        *(Adam(WarmUp(0.1, 3)), Adam(WarmUp(InverseScaling(0.1), 70)), Adam(WarmUp(FlatThenCosine(0.2), 9))),
        *(AdamW(0.01, weight_decay=0.3), AdamW(0.01, weight_decay=InverseScaling(0.1))),
        *(SGD(0.3), SGD(0.3, momentum=0.9), SGD(InverseScaling(0.1))),
    ],
    ids=repr,
)
@pytest.mark.parametrize("first", [0, 1, 40, 63, 64, 1000])
@pytest.mark.parametrize("n_steps", [1, 2, 24, 64, 65, 200])
def test_numbers_of_many_steps_are_those_of_each(n_steps, first, optimizer):
    """To the bit, so that a seeded fit does not depend on how its steps are divided into blocks."""
    progress = Progress(step=first, epoch=2, samples=80, total_steps=300)
    rows = [
        list(optimizer.hyper(step + 1, progress._replace(step=step)).values())
        for step in range(first, first + n_steps)
    ]
    assert optimizer.hyper_table(progress, n_steps).tolist() == rows


def test_numbers_follow_a_schedule_that_changes():
    schedule = FlatThenCosine(0.1, n_steps=50)
    optimizer = Adam(WarmUp(schedule, 5))
    before = optimizer.hyper_table(Progress(), 60)
    schedule.set_params(n_steps=20)
    expected = Adam(WarmUp(FlatThenCosine(0.1, n_steps=20), 5)).hyper_table(Progress(), 60)
    np.testing.assert_array_equal(optimizer.hyper_table(Progress(), 60), expected)
    assert (before != expected).any()


class Halved(Adam):
    def hyper(self, count, progress):
        return {name: value / 2 for name, value in super().hyper(count, progress).items()}


def test_a_subclass_has_its_own_numbers():
    table, expected = (each.hyper_table(Progress(), 9) for each in (Halved(0.5), Adam(0.5)))
    np.testing.assert_array_equal(table, expected / 2)


class Warming:
    def learning_rate(self, progress):
        return super().learning_rate(progress) * min(1.0, (progress.step + 1) / 5)


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW, RAdam])
def test_a_subclass_has_its_own_learning_rate(kind):
    def learning_rate(self, progress):
        return 0.5 / (1 + progress.step)

    for own in (type("Own", (kind,), {"learning_rate": learning_rate}), type("Mixed", (Warming, kind), {})):
        optimizer = own(0.5)
        rows = [list(optimizer.hyper(step + 1, Progress(step)).values()) for step in range(9)]
        assert len({row[0] for row in rows}) > 4
        assert optimizer.hyper_table(Progress(), 9).tolist() == rows


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.0), (0.5, 0.9)])
def test_every_bit_of_hundred_steps_is_scikit_learns(betas):
    gradients, start = gradient_series(100, (5, 2)), np.ones((5, 2))
    param, expected = start.copy(), []
    theirs = AdamOptimizer([param], 0.01, *betas, epsilon=1e-4)
    for gradient in gradients:
        theirs.update_params([param], [gradient])
        expected.append(param.copy())
    np.testing.assert_array_equal(follow(Adam(0.01, *betas, eps=1e-4), gradients, start), expected)


@pytest.mark.slow
def test_pytorchs_eps_is_the_same_after_rescaling():
    torch = pytest.importorskip("torch")
    gradients, eps = gradient_series(50, (4,)), 0.3
    param = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))
    theirs = torch.optim.Adam([param], lr=0.01, eps=eps)
    ours, state = np.ones(4), Adam().init(np.ones(4))
    for step, gradient in enumerate(gradients, 1):
        param.grad = torch.tensor(gradient)
        theirs.step()
        optimizer = Adam(lr=0.01, eps=eps * math.sqrt(1 - 0.999**step))
        delta, state = optimizer.update(gradient, state, ours)
        ours = ours + delta
    np.testing.assert_allclose(ours, param.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("optimizer", [Adam(), AdamW(weight_decay=0.0)], ids=str)
def test_gradients_of_zero_change_nothing(optimizer):
    path = follow(optimizer, np.zeros((3, 2)), np.ones(2))
    np.testing.assert_array_equal(path, np.ones((3, 2)))


def test_decay_follows_the_learning_rate_and_not_the_gradient():
    path = follow(AdamW(lr=0.1, weight_decay=0.5), np.zeros((2, 1)), np.ones(1))
    np.testing.assert_allclose(path.ravel(), [0.95, 0.95**2])


def test_without_decay_it_is_adam():
    gradients, start = gradient_series(20, (3,)), np.ones(3)
    np.testing.assert_array_equal(
        follow(AdamW(weight_decay=0.0), gradients, start), follow(Adam(), gradients, start)
    )


def test_corrections_are_computed_on_the_host():
    hyper = AdamW(lr=0.1, beta1=0.5, beta2=0.75, weight_decay=0.3).hyper(2, Progress())
    expected = {"lr": 0.1, "step": -0.1 * math.sqrt(1 - 0.75**2) / (1 - 0.5**2), "decay": -0.03}
    assert hyper == pytest.approx(expected)
    assert Adam().hyper(10**9, Progress())["step"] == -1e-3
