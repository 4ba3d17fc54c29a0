"""Schedules: values by hand and by PyTorch, and their contract; a schedule without a row fails."""

import inspect
import math
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sknet.exceptions import InvalidParameterError
from sknet.optim import SGD, Adam, schedules
from sknet.optim.schedules import (
    Adaptive,
    Constant,
    Cosine,
    CosineRestarts,
    CosLog,
    Cyclic,
    Exponential,
    FlatThenCosine,
    InverseScaling,
    InverseTime,
    Joined,
    Linear,
    MultiStep,
    OneCycle,
    Polynomial,
    Product,
    Progress,
    Schedule,
    Step,
    WarmUp,
)
from tests.optim.helpers import follow, follow_torch, gradient_series

# Each schedule, and learning rates by hand: progress of the fit -> rate.
CASES = [
    (Constant(0.3), {Progress(): 0.3, Progress(10, 10, 10, 10, 10): 0.3}),
    (InverseScaling(0.3), {Progress(): 0.3, Progress(step=9): 0.3, Progress(samples=8): 0.1}),
    (InverseScaling(0.3, power=1.0), {Progress(samples=2): 0.1}),
    (InverseScaling(0.3, power=0.0), {Progress(samples=2): 0.3}),
    (
        InverseTime(0.3, 3, 0.02),
        {
            Progress(): 0.3,
            Progress(2): 0.3,
            Progress(3): 0.225,
            Progress(8): 0.1,
            Progress(44): 0.02,
            Progress(99): 0.02,
        },
    ),
    (InverseTime(0.4, 1), {Progress(): 0.4, Progress(1, total_steps=2): 0.2, Progress(399): 0.001}),
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
    (
        FlatThenCosine(0.5, 0.25, 0.1, n_steps=8),
        {Progress(2): 0.5, Progress(5): 0.3, Progress(7): 0.1 + 0.2 * (1 - 0.75**0.5), Progress(8): 0.1},
    ),
    (FlatThenCosine(0.4, 1.0), {Progress(8, total_steps=9): 0.4, Progress(9, total_steps=9): 0.0}),
    (FlatThenCosine(0.4, 0.0), {Progress(2, total_steps=6): 0.3, Progress(4, total_steps=6): 0.1}),
    # peaks and zeros of k cycles are where 1 + (2**k - 1) t is a power of the root of 2
    (CosLog(0.4, n_steps=15), {Progress(n): 0.0 for n in (0, 1, 3, 7, 15, 99)}),
    (
        CosLog(0.4),
        {
            Progress(1, total_steps=15): 0.0,
            Progress(4, total_steps=10): 0.2 * (1 - math.cos(2 * math.pi * math.log2(7))),
        },
    ),
    (CosLog(0.8, 1, 100), {Progress(0): 0.0, Progress(100): 0.0}),
    (Adaptive(Linear(0.8, n_steps=4)), {Progress(1): 0.6, Progress(2, reductions=1): 0.08}),
    (Adaptive(0.5, patience=3), {Progress(step=7): 0.5, Progress(reductions=1): 0.1}),
    (Step(0.5, every=3), {Progress(99, 2): 0.5, Progress(0, 3): 0.05, Progress(0, 6): 0.005}),
    (Step(0.5, 2, factor=0.5, unit="step"), {Progress(1, 9): 0.5, Progress(2): 0.25, Progress(5): 0.125}),
    (MultiStep(0.5, [1, 4]), {Progress(99): 0.5, Progress(0, 3): 0.05, Progress(0, 4): 0.005}),
    (MultiStep(0.5, (1, 4), 0.5, "step"), {Progress(0, 9): 0.5, Progress(3): 0.25, Progress(99): 0.125}),
    (Exponential(0.5), {Progress(99): 0.5, Progress(0, 2): 0.5 * 0.95**2}),
    (Exponential(0.5, factor=0.5, unit="step"), {Progress(2): 0.125}),
    (Linear(0.5, end_lr=0.1, n_steps=2), {Progress(): 0.5, Progress(1): 0.3, Progress(9): 0.1}),
    (Linear(0.5), {Progress(1, total_steps=4): 0.375, Progress(4, total_steps=4): 0.0}),
    (Polynomial(0.4), {Progress(1, total_steps=2): 0.1, Progress(2, total_steps=2): 0.0}),
    (Polynomial(0.5, 1.0, 0.1, 4), {Progress(1): 0.4, Progress(3): 0.2, Progress(9): 0.1}),
    (CosineRestarts(0.4, 6), {Progress(2): 0.3, Progress(6): 0.4, Progress(10): 0.1}),
    (CosineRestarts(0.4, 2, growth=2, min_lr=0.2), {Progress(1): 0.3, Progress(2): 0.4, Progress(4): 0.3}),
    (OneCycle(1.0, 11, rise=0.3, end_ratio=10.0), {Progress(): 0.04, Progress(99): 0.004}),
    (OneCycle(1.0, rise=0.5, start_ratio=2.0), {Progress(4, total_steps=10): 1.0}),
    (WarmUp(0.4, n_steps=3), {Progress(): 0.1, Progress(1): 0.2, Progress(3): 0.4, Progress(9): 0.4}),
    (
        WarmUp(Cosine(0.4), n_steps=4),
        {Progress(3, total_steps=6): 0.32, Progress(5, total_steps=6): 0.2, Progress(6, total_steps=6): 0.0},
    ),
    (
        Joined([Linear(0.4, 0.2, 2), 0.1, Cosine(0.3)], boundaries=[2, 3]),
        {Progress(): 0.4, Progress(1): 0.3, Progress(2): 0.1, Progress(4, total_steps=5): 0.15},
    ),
    (
        Cyclic(0.1, 0.5, 2, 4),
        {
            Progress(): 0.1,
            Progress(1): 0.3,
            Progress(2): 0.5,
            Progress(3): 0.4,
            Progress(6): 0.1,
            Progress(8): 0.5,
        },
    ),
    (Cyclic(0.1, 0.5, 1, mode="exp_range", factor=0.5), {Progress(1): 0.3, Progress(3): 0.15}),
    (Product([0.5, Linear(0.8, n_steps=4), Step(1.0, 2)]), {Progress(1): 0.3, Progress(2, epoch=2): 0.02}),
    (Adaptive(0.5, patience=3, cooldown=2), {Progress(step=7): 0.5, Progress(reductions=1): 0.1}),
]
RISING = (CosLog, Linear, OneCycle, WarmUp, Joined, CosineRestarts, Cyclic)
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
        type(schedule)(**schedule.get_params(deep=False)),
    ):
        assert copy == schedule
        assert copy is not schedule
        assert hash(copy) == hash(schedule)


@each_schedule
def test_rates_are_plain_numbers(schedule):
    narrow = clone(schedule)
    if "lr" in schedule.get_params():
        narrow.set_params(lr=np.float32(0.25))
    rates = [narrow(Progress(n, n, n, n, 30)) for n in range(40)]
    assert all(type(rate) is float for rate in rates)
    if not isinstance(schedule, RISING):
        assert rates == sorted(rates, reverse=True)
    assert rates == [narrow(Progress(n, n, n, n, 30)) for n in range(40)]


@pytest.mark.parametrize("schedule_of", [Cosine, OneCycle, Linear, Polynomial])
def test_a_length_must_be_known(schedule_of):
    with pytest.raises(ValueError, match=rf"{schedule_of.__name__}\(n_steps=None\) .* Give n_steps"):
        schedule_of(0.1)(Progress(step=3))


@each_schedule
def test_only_adaptive_reacts_to_plateaus(schedule):
    assert schedule.can_reduce(Progress(total_steps=9)) is isinstance(schedule, Adaptive)


def test_composed_schedules_delegate_to_inner_ones():
    inner = Adaptive(1.0, factor=2.0, min_lr=0.5, patience=4, cooldown=3)
    for schedule in (
        WarmUp(inner, n_steps=2),
        Joined([0.1, inner, inner], boundaries=[2, 3]),
        Product([1.0, lambda progress: 1.0, inner]),
    ):
        assert schedule.cooldown == 3
        assert schedule.can_reduce(Progress(2))
        assert not schedule.can_reduce(Progress(2, reductions=1))
        assert schedule(Progress(9, reductions=1)) == 0.5
        assert schedule.patience == 4
    assert not Joined([0.1, inner], boundaries=[2]).can_reduce(Progress(1))
    assert not WarmUp(0.5, n_steps=2).can_reduce(Progress(1))
    assert Joined([WarmUp(0.5, 2), 0.1], [9]).patience is None


def test_adaptive_stops_at_its_smallest_rate():
    schedule = Adaptive(1.0, factor=2.0, min_lr=0.25)
    assert [schedule.can_reduce(Progress(reductions=n)) for n in range(4)] == [True, True, False, False]


# Our schedule, and PyTorch's for an optimizer with the rate 0.1.
TORCH = [
    (Cosine(0.1, 0.01, 100), lambda s, o: s.CosineAnnealingLR(o, T_max=100, eta_min=0.01)),
    (
        FlatThenCosine(0.1, 0.4, 0.01, n_steps=100),
        lambda s, o: s.SequentialLR(
            o, [s.ConstantLR(o, 1.0), s.CosineAnnealingLR(o, 60, 0.01)], milestones=[40]
        ),
    ),
    (
        CosLog(0.1, n_steps=100),
        lambda s, o: s.LambdaLR(o, lambda n: 0.5 - 0.5 * math.cos(2 * math.pi * math.log2(1 + 15 * n / 100))),
    ),
    (CosineRestarts(0.1, 30, min_lr=0.01), lambda s, o: s.CosineAnnealingWarmRestarts(o, 30, 1, 0.01)),
    (CosineRestarts(0.1, 7, growth=3), lambda s, o: s.CosineAnnealingWarmRestarts(o, 7, 3)),
    (OneCycle(0.1, 100), lambda s, o: s.OneCycleLR(o, 0.1, 100)),
    (
        OneCycle(0.1, 101, rise=0.45, start_ratio=3.0, end_ratio=50.0),
        lambda s, o: s.OneCycleLR(o, 0.1, 101, pct_start=0.45, div_factor=3.0, final_div_factor=50.0),
    ),
    (Step(0.1, 30), lambda s, o: s.StepLR(o, 30)),
    (Step(0.1, 7, 0.5, "step"), lambda s, o: s.StepLR(o, 7, 0.5)),
    (MultiStep(0.1, [10, 60]), lambda s, o: s.MultiStepLR(o, [10, 60])),
    (MultiStep(0.1, [10, 11, 60], 0.5, "step"), lambda s, o: s.MultiStepLR(o, [10, 11, 60], 0.5)),
    (Exponential(0.1), lambda s, o: s.ExponentialLR(o, 0.95)),
    (Linear(0.1, 0.03, 60), lambda s, o: s.LinearLR(o, 1.0, 0.3, 60)),
    (Cyclic(0.02, 0.1, 13), lambda s, o: s.CyclicLR(o, 0.02, 0.1, 13, cycle_momentum=False)),
    (
        Cyclic(0.02, 0.1, 13, 4, "triangular2"),
        lambda s, o: s.CyclicLR(o, 0.02, 0.1, 13, 4, "triangular2", cycle_momentum=False),
    ),
    (
        Cyclic(0.02, 0.1, 7, 20, "exp_range", 0.97),
        lambda s, o: s.CyclicLR(o, 0.02, 0.1, 7, 20, "exp_range", 0.97, cycle_momentum=False),
    ),
    (
        Product([Exponential(0.1, 0.97), Step(1.0, 30), Linear(1.0, 0.3, 60)]),
        lambda s, o: s.ChainedScheduler(
            [s.ExponentialLR(o, 0.97), s.StepLR(o, 30), s.LinearLR(o, 1.0, 0.3, 60)]
        ),
    ),
    (
        lambda progress: 0.1 * 0.9**progress.epoch / (1 + progress.step),
        lambda s, o: s.LambdaLR(o, lambda n: 0.9**n / (1 + n)),
    ),
    (Polynomial(0.1, 3.0, n_steps=70), lambda s, o: s.PolynomialLR(o, 70, 3.0)),
    (
        WarmUp(Cosine(0.1, n_steps=91), n_steps=9),
        lambda s, o: s.SequentialLR(
            o, [s.LinearLR(o, 0.1, 1.0, 9), s.CosineAnnealingLR(o, 91)], milestones=[9]
        ),
    ),
    (
        Joined([0.05, Exponential(0.1, 0.9, "step"), Step(0.1, 9, 0.5, "step")], boundaries=[20, 55]),
        lambda s, o: s.SequentialLR(
            o,
            [s.ConstantLR(o, 0.5, 1000), s.ExponentialLR(o, 0.9), s.StepLR(o, 9, 0.5)],
            milestones=[20, 55],
        ),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "torch_schedule"), TORCH, ids=lambda x: getattr(x, "__name__", str(x)))
def test_hundred_rates_equal_pytorchs(schedule, torch_schedule):
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR itself calls a deprecated function
        theirs, expected = torch_schedule(torch.optim.lr_scheduler, optimizer), []
        for _ in range(100):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            theirs.step()
    found = [schedule(Progress(step, epoch=step)) for step in range(100)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("of", [lambda lr: lr, lambda lr: Product([lr, 1.0]), lambda lr: WarmUp(lr, 1)])
def test_a_function_is_a_schedule(of):
    def rate(progress):
        return 0.5 / (1 + progress.step)

    for optimizer in (SGD(lr=of(rate)), Adam(lr=of(rate))):
        optimizer.validate()
        [schedule] = optimizer.schedules
        assert not schedule.can_reduce(Progress())
        assert (schedule.patience, schedule.cooldown) == (None, 0)
        progress = Progress(step=9)
        assert optimizer.learning_rate(progress) == schedule(progress)
        table = optimizer.hyper_table(progress, 3)
        assert table[:, 0].tolist() == [optimizer.learning_rate(Progress(step)) for step in (9, 10, 11)]
        assert clone(optimizer) == optimizer


def test_a_class_is_not_a_schedule():
    with pytest.raises(InvalidParameterError, match=r"'lr' parameter of Adam .* pass an object, Cosine\("):
        Adam(lr=Cosine).validate()


def test_schedules_affect_the_updates():
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


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Constant(0.0), r"'lr' parameter of Constant must be a float in the range \(0\.0, inf\)\. Got 0\.0"),
        (InverseScaling(0.1, power=-1.0), r"'power' parameter of InverseScaling must be .* Got -1\.0"),
        (Adaptive(0.1, factor=1.0), r"'factor' parameter of Adaptive must be .*\(1\.0, inf\)\. Got 1\.0"),
        (Adaptive(0.1, min_lr=-1.0), r"'min_lr' parameter of Adaptive must be .* Got -1\.0"),
        (Cosine(math.nan), r"'lr' parameter of Cosine must be .* Got nan"),
        (Cosine(0.1, n_steps=0), r"'n_steps' parameter of Cosine must be an int .* or None\. Got 0"),
        (Adaptive(0.1, patience=-1), r"'patience' parameter of Adaptive must be .* or None\. Got -1"),
        (Step(0.1, every=0), r"'every' parameter of Step must be an int .*\. Got 0"),
        (Step(0.1, 1, unit="day"), r"'unit' parameter of Step must be a str among .* Got 'day'"),
        (MultiStep(0.1, [3, 3]), r"'milestones' parameter of MultiStep must be .* rising .* Got \[3, 3\]"),
        (MultiStep(0.1, [0.5]), r"'milestones' parameter of MultiStep must be .* ints\. Got \[0\.5\]"),
        (Exponential(0.1, factor=0), r"'factor' parameter of Exponential must be .* Got 0"),
        (CosineRestarts(0.1, 5, min_lr=0.2), r"'min_lr' parameter of CosineRestarts must be at most lr=0\.1"),
        (InverseTime(0.1, 9, min_lr=0.2), r"'min_lr' parameter of InverseTime must be at most lr=0\.1"),
        (Polynomial(0.1, min_lr=0.2), r"'min_lr' parameter of Polynomial must be at most lr=0\.1"),
        (OneCycle(0.1, rise=1.5), r"'rise' parameter of OneCycle must be .* Got 1\.5"),
        (OneCycle(0.1, n_steps=1), r"'n_steps' parameter of OneCycle must be .* Got 1"),
        (WarmUp(-0.1, 3), r"'lr' parameter of WarmUp must be .* Got -0\.1"),
        (WarmUp(Constant(0.0), 3), r"'lr' parameter of Constant must be .* Got 0\.0"),
        (Cyclic(0.1, 0.2, mode="sine"), r"'mode' parameter of Cyclic must be a str among .* Got 'sine'"),
        (Adaptive(0.1, cooldown=-1), r"'cooldown' parameter of Adaptive must be an int .* Got -1"),
        (Product([]), r"'schedules' parameter of Product must not be empty"),
        (Product([0.1, "cosine"]), r"'schedules' parameter of Product must be .* Got 'cosine' among them"),
        (
            Product([0.1]).set_params(schedules=5),
            r"'schedules' parameter of Product must be .* Got 5 instead",
        ),
        (
            Product([0.1]).set_params(schedules=np.array(1)),
            r"'schedules' parameter of Product must be .* Got a",
        ),
        (Joined([0.1, 0.2], [2, 5]), r"'boundaries' parameter of Joined must have one .*: 1\. Got \[2, 5\]"),
        (Joined([0.1, -0.2], [2]), r"'schedules' parameter of Joined must be .* Got -0\.2 among them"),
        (Joined([0.1, Constant(0.0)], [2]), r"'lr' parameter of Constant must be .* Got 0\.0"),
        (Joined([0.1, 0.2], [-2]), r"'boundaries' parameter of Joined must be .* rising .* Got \[-2\]"),
        (Cosine(0.1, min_lr=0.2), r"'min_lr' parameter of Cosine must be at most lr=0\.1\. Got 0\.2 instead"),
        (Joined([10**400], []), r"'schedules' parameter of Joined must be .* Got an int of 1329 bits"),
        (
            WarmUp(lambda: 0.1, 3),
            r"'lr' parameter of WarmUp must be .* callable that takes a Progress\. Got <f",
        ),
        (Product([dict, lambda: 0.1]), r"'schedules' parameter of Product must be .* Got <function"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_wrong_parameters(schedule, message):
    with pytest.raises(InvalidParameterError, match=message):
        schedule.validate()
    with pytest.raises(InvalidParameterError, match=message):
        SGD(lr=schedule).validate()


@pytest.mark.parametrize("found", [None, "fast", 1j, 10**400, [0.1]], ids=lambda x: type(x).__name__)
def test_a_function_must_return_a_number(found):
    def rate(progress):
        return found

    for caller in (SGD(lr=rate).learning_rate, WarmUp(rate, 3), Product([rate])):
        with pytest.raises(TypeError, match=r"rate at .* called with a Progress for a rate, .* at step \d"):
            caller(Progress(step=2))


@pytest.mark.parametrize("rate", [lambda: 0.1, lambda progress, more: 0.1])
def test_a_function_must_take_a_progress(rate):
    for caller in (SGD(lr=rate).learning_rate, Product([rate])):
        with pytest.raises(TypeError, match=r"is called with a Progress for a rate: "):
            caller(Progress(step=2))


def test_errors_within_a_function_stay():
    with pytest.raises(TypeError, match=r"^bad operand"):
        SGD(lr=lambda progress: -"").learning_rate(Progress(step=2))


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Schedule()


def test_a_rate_as_a_schedule_is_an_object_of_its_own():
    first, second = (SGD(0.1).schedules[0] for _ in range(2))
    first.set_params(lr=7.0)
    assert second.lr == SGD(0.1).schedules[0].lr == 0.1
    assert float(SGD(np.array(0.1)).schedules[0].lr) == 0.1


def test_a_power_that_no_rate_survives_is_refused():
    """Python would compute an integer of gigabytes."""
    with pytest.raises(ValueError, match=r"The 'power' parameter of InverseScaling must be .*\[0.0, 10.0\]"):
        InverseScaling(0.1, power=2**31).validate()
    with pytest.raises(ValueError, match=r"The 'n_cycles' parameter of CosLog must be .*\[1, 1000\]"):
        schedules.CosLog(0.1, n_cycles=2**31).validate()
    assert schedules.Exponential(0.1, factor=2)(Progress(epoch=900)) == pytest.approx(0.1 * 2.0**900)
    assert InverseScaling(0.1, power=10)(Progress(samples=2**40)) == pytest.approx(0.1 / 2.0**400)
