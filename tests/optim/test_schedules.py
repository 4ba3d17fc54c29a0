"""Schedules: values by hand and by PyTorch, and what each promises; one without a row fails."""

import inspect
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sknet._params import InvalidParameterError
from sknet.optim import SGD, schedules
from sknet.optim.schedules import Adaptive, Constant, Cosine, InverseScaling, Progress, Schedule
from tests.optim.helpers import follow, follow_torch, gradient_series

# Each schedule, and learning rates by hand: how far the fit has come -> rate.
CASES = [
    (Constant(0.3), {Progress(): 0.3, Progress(10, 10, 10, 10, 10): 0.3}),
    (InverseScaling(0.3), {Progress(): 0.3, Progress(step=9): 0.3, Progress(samples=8): 0.1}),
    (InverseScaling(0.3, power=1.0), {Progress(samples=2): 0.1}),
    (InverseScaling(0.3, power=0.0), {Progress(samples=2): 0.3}),
    (Adaptive(0.5), {Progress(step=7): 0.5, Progress(reductions=1): 0.1, Progress(reductions=2): 0.02}),
    (Adaptive(0.5, factor=2.0), {Progress(reductions=3): 0.0625}),
    (
        Cosine(0.4, n_steps=6),
        {
            Progress(): 0.4,
            Progress(2): 0.3,
            Progress(3): 0.2,
            Progress(4): 0.1,
            Progress(6): 0.0,
            Progress(99): 0.0,
        },
    ),
    (
        Cosine(0.5, min_lr=0.1, n_steps=2),
        {Progress(): 0.5, Progress(1): 0.3, Progress(2): 0.1, Progress(3): 0.1},
    ),
    (
        Cosine(0.4),
        {Progress(3, total_steps=6): 0.2, Progress(6, total_steps=6): 0.0, Progress(total_steps=0): 0.0},
    ),
]
each_schedule = pytest.mark.parametrize("schedule", [schedule for schedule, _ in CASES], ids=str)


def test_every_public_schedule_has_a_row():
    public = [getattr(schedules, name) for name in schedules.__all__]
    concrete = {x for x in public if issubclass(x, Schedule) and not inspect.isabstract(x)}
    assert concrete == {type(schedule) for schedule, _ in CASES}


@pytest.mark.parametrize(("schedule", "rates"), CASES, ids=str)
def test_rates_by_hand(schedule, rates):
    for progress, rate in rates.items():
        assert schedule(progress) == pytest.approx(rate, rel=1e-14, abs=1e-17)


@each_schedule
def test_is_a_parameter_object(schedule):
    schedule.validate()
    for copy in (
        clone(schedule),
        pickle.loads(pickle.dumps(schedule)),
        type(schedule)(**schedule.get_params()),
    ):
        assert copy == schedule
        assert copy is not schedule
        assert hash(copy) == hash(schedule)


@each_schedule
def test_rates_are_plain_numbers_that_never_rise(schedule):
    narrow = clone(schedule).set_params(lr=np.float32(0.25))
    rates = [narrow(Progress(n, n, n, n, 30)) for n in range(40)]
    assert all(type(rate) is float for rate in rates)
    assert rates == sorted(rates, reverse=True)
    assert rates == [narrow(Progress(n, n, n, n, 30)) for n in range(40)]


@each_schedule
def test_only_adaptive_answers_to_plateaus(schedule):
    assert schedule.can_reduce(Progress(total_steps=9)) is isinstance(schedule, Adaptive)


def test_adaptive_stops_at_its_smallest_rate():
    schedule = Adaptive(1.0, factor=2.0, min_lr=0.25)
    assert [schedule.can_reduce(Progress(reductions=n)) for n in range(4)] == [True, True, False, False]


def test_cosine_equals_pytorch():
    pytest.importorskip("torch")
    gradients, start = gradient_series(100, (3,)), np.ones(3)
    path = follow(SGD(lr=Cosine(0.1, min_lr=0.01, n_steps=100)), gradients, start)
    expected = follow_torch(
        lambda optim, params: optim.SGD(params, lr=0.1),
        gradients,
        start,
        lambda schedulers, optimizer: schedulers.CosineAnnealingLR(optimizer, T_max=100, eta_min=0.01),
    )
    np.testing.assert_allclose(path, expected, rtol=1e-12)


def test_cosine_without_a_length():
    message = r"falls over the whole fit, but progress\.total_steps is None: .* Give n_steps"
    with pytest.raises(ValueError, match=message):
        Cosine(0.1)(Progress(step=3))


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Constant(0.0), r"'lr' parameter of Constant must be a float in the range \(0\.0, inf\)\. Got 0\.0"),
        (InverseScaling(0.1, power=-1.0), r"'power' parameter of InverseScaling must be .* Got -1\.0"),
        (Adaptive(0.1, factor=1.0), r"'factor' parameter of Adaptive must be .*\(1\.0, inf\)\. Got 1\.0"),
        (Adaptive(0.1, min_lr=-1.0), r"'min_lr' parameter of Adaptive must be .* Got -1\.0"),
        (Cosine(math.nan), r"'lr' parameter of Cosine must be .* Got nan"),
        (Cosine(0.1, n_steps=0), r"'n_steps' parameter of Cosine must be an int .* or None\. Got 0"),
        (Cosine(0.1, min_lr=0.2), r"'min_lr' parameter of Cosine must be at most lr=0\.1\. Got 0\.2 instead"),
    ],
    ids=str,
)
def test_wrong_parameters(schedule, message):
    with pytest.raises(InvalidParameterError, match=message):
        schedule.validate()
    with pytest.raises(InvalidParameterError, match=message):
        SGD(lr=schedule).validate()


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Schedule()
