"""The contract of all combinators, with one table row for each; a combinator without a row fails."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import sknet.optim
from sknet import ops
from sknet.core import Tensor
from sknet.exceptions import InvalidParameterError, StateError
from sknet.optim import (
    EMA,
    LBFGS,
    SGD,
    SWA,
    Accumulate,
    Adam,
    AdamW,
    ClipNorm,
    ClipValue,
    Combinator,
    Groups,
    Lookahead,
    Muon,
    Optimizer,
    RateFactors,
    RMSprop,
    ScheduleFreeAdamW,
    WeightDecay,
)
from sknet.optim.schedules import Adaptive, Constant, Cosine, InverseScaling, Progress
from tests.optim.helpers import follow, gradient_series
from tests.trees import leaves, map_leaves

INNER = SGD(lr=0.1, momentum=0.5)
CASES = [
    ClipNorm(INNER, max_norm=0.5),
    ClipValue(INNER, max_value=0.1),
    WeightDecay(INNER, 0.1),
    WeightDecay(INNER, Cosine(0.1, n_steps=50), {"*.bias": 0.5}),
    RateFactors(INNER, {"*.bias": 0.1, "0.*": 2.0}),
    RateFactors(EMA(Muon()), {"1.*": 0.5}),
    EMA(INNER, decay=0.5),
    SWA(INNER, start=2),
    Accumulate(INNER, every=2),
    Lookahead(INNER, every=2),
    Groups({"0.*": INNER, "*": Adam()}),
    EMA(ClipNorm(WeightDecay(Adam()))),
    Accumulate(ClipNorm(Groups({"*.bias": EMA(INNER), "*": Muon()}), 0.1)),
    Groups({"*": ClipNorm(ScheduleFreeAdamW(), 0.1), "*.bias": Lookahead(EMA(INNER))}),
    ClipNorm(ClipNorm(Accumulate(Muon(rest=WeightDecay(SGD(), parameters="*"))), 2.0), 1.0),
]


def name_of(optimizer):
    return " ".join(str(optimizer).split())


each_case = pytest.mark.parametrize("optimizer", CASES, ids=name_of)


def nested(seed):
    draw = np.random.default_rng(seed).normal
    return {"0": {"weight": draw(size=(3, 2)), "bias": draw(size=2)}, "1": [draw(size=(2, 2)), draw(size=4)],
            "2": {"bias": draw(size=())}}  # fmt: skip


def run(optimizer, n_steps=5):
    params = nested(0)
    state = optimizer.init(params)
    for step in range(n_steps):
        deltas, state = optimizer.update(nested(step + 1), state, params)
        params = map_leaves(np.add, params, deltas)
    return params, state


def test_every_public_combinator_has_a_row():
    public = [getattr(sknet.optim, name) for name in sknet.optim.__all__]
    wanted = {x for x in public if inspect.isclass(x) and issubclass(x, Combinator)} - {Combinator}
    assert wanted | {Groups} == {type(optimizer) for optimizer in CASES}


@each_case
def test_is_a_parameter_object(optimizer):
    optimizer.validate()
    for copy in (clone(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert copy == optimizer
        assert copy is not optimizer
        assert copy.kind == optimizer.kind


@each_case
def test_nested_parameters_are_reached(optimizer):
    copy = clone(optimizer)
    names = [name for name in copy.get_params() if name.split("__")[-1] == "lr"]
    assert names
    for name in names:
        if name.endswith("rest__lr"):
            continue
        copy.set_params(**{name: 0.125})
        assert copy.get_params()[name] == 0.125
    assert copy != optimizer


@each_case
def test_updates_are_pure_and_keep_trees(optimizer):
    params, gradients = nested(0), nested(1)
    _, state = optimizer.update(gradients, optimizer.init(params), params)
    before = pickle.dumps((params, gradients, state))
    deltas, after = optimizer.update(gradients, state, params)
    assert pickle.dumps((params, gradients, state)) == before
    assert tuple(after.slots) == optimizer.slots
    for tree in (deltas, *after.slots.values(), optimizer.averaged(params, after)):
        assert map_leaves(np.shape, tree) == map_leaves(np.shape, params)
    again = optimizer.update(gradients, state, params)
    for a, b in zip(leaves((deltas, after)), leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)


@each_case
def test_single_precision_and_tensors_stay(optimizer):
    params = map_leaves(lambda x: Tensor(np.asarray(x, np.float32)), nested(0))
    deltas, state = optimizer.update(nested(1), optimizer.init(params), params)
    averaged = optimizer.averaged(params, state)
    assert all(isinstance(leaf, Tensor) for leaf in leaves((deltas, state.slots, averaged)))
    single = map_leaves(lambda x: np.asarray(x, np.float32), nested(1))
    params = map_leaves(lambda x: np.asarray(x, np.float32), nested(0))
    deltas, state = optimizer.update(single, optimizer.init(params), params)
    found = {leaf.dtype for leaf in leaves((deltas, state.slots, optimizer.averaged(params, state)))}
    assert found == {np.dtype(np.float32)}


@each_case
def test_numbers_of_many_steps_are_those_of_each(optimizer):
    progress = Progress(step=41, epoch=2, samples=80, total_steps=100)
    table = optimizer.hyper_table(progress, 30)
    rows = [list(optimizer.hyper(t + 1, progress._replace(step=t)).values()) for t in range(41, 71)]
    np.testing.assert_allclose(table, rows, rtol=1e-14)
    assert all(type(value) is float for value in optimizer.hyper(1, progress).values())


@each_case
def test_state_survives_pickling(optimizer):
    expected, _ = run(optimizer)
    params = nested(0)
    state = optimizer.init(params)
    for step in range(5):
        optimizer, state = pickle.loads(pickle.dumps((optimizer, state)))
        deltas, state = optimizer.update(nested(step + 1), state, params)
        params = map_leaves(np.add, params, deltas)
    for a, b in zip(leaves(params), leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("optimizer", [x for x in CASES if x.elementwise and not x.measures], ids=name_of)
def test_by_name_and_at_once_are_the_same(optimizer):
    """For elementwise combinators `rule` and `rules` agree."""
    rng = np.random.default_rng(0)
    hyper = optimizer.hyper(3, Progress(step=2, total_steps=9))
    gradient, param, *slots = (Tensor(rng.normal(size=(3, 2))) for _ in range(2 + len(optimizer.slots)))
    hyper |= optimizer.marks("a", (3, 2))
    delta, after = optimizer.rule(gradient, param, tuple(slots), hyper)
    named = {name: {"a": slot} for name, slot in zip(optimizer.slots, slots, strict=True)}
    deltas, new = optimizer.rules({"a": gradient}, {"a": param}, named, {"a": hyper})
    np.testing.assert_array_equal(delta.data, deltas["a"].data)
    for name, value in zip(optimizer.slots, after, strict=True):
        np.testing.assert_array_equal(value.data, new[name]["a"].data)


class Alone(Optimizer):
    """Delegates to another optimizer, but parameter by parameter."""

    elementwise = False

    def __init__(self, inner):
        self.inner = inner

    @property
    def slots(self):
        return self.inner.slots

    def hyper(self, count, progress):
        return self.inner.hyper(count, progress)

    def learning_rate(self, progress):
        return self.inner.learning_rate(progress)

    def rule(self, gradient, param, slots, hyper):
        return self.inner.rule(gradient, param, slots, hyper)


@pytest.mark.parametrize(
    "around",
    [
        lambda x: ClipNorm(x, 0.5),
        lambda x: WeightDecay(x, 0.1),
        lambda x: Accumulate(ClipNorm(x, 0.1), 2),
        lambda x: EMA(Lookahead(ClipValue(x, 0.1), every=2)),
        lambda x: ClipNorm(Accumulate(ClipNorm(x, 0.1), 2), 5.0),
    ],
)
def test_around_a_non_elementwise_optimizer(around):
    found, state = run(around(Alone(Adam(0.1))))
    expected, expected_state = run(around(Adam(0.1)))
    for a, b in zip(leaves((found, state)), leaves((expected, expected_state)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_names_reach_the_wrapped_optimizer():
    optimizer = EMA(ClipNorm(Adam(lr=0.5)))
    assert optimizer.slots == ("lag", "optimizer.optimizer.mu", "optimizer.optimizer.nu")
    assert list(optimizer.hyper(1, Progress())) == [
        "keep",
        "optimizer.optimizer.lr",
        "optimizer.optimizer.step",
    ]
    assert optimizer.get_params()["optimizer__optimizer__lr"] == 0.5
    assert optimizer.learning_rate(Progress()) == 0.5


def test_schedules_come_from_the_wrapped_optimizer():
    assert ClipNorm(EMA(SGD(lr=Cosine(0.1)))).schedules == (Cosine(0.1),)
    assert Groups({"a": SGD(0.5), "*": SGD(Adaptive(0.1))}).schedules == (Constant(0.5), Adaptive(0.1))
    assert WeightDecay(AdamW(0.5, weight_decay=Adaptive(0.1)), Cosine(0.2)).schedules == (
        *(Constant(0.5), Adaptive(0.1), Cosine(0.2)),
    )
    assert Muon(lr=Adaptive(0.1), rest=SGD(0.5)).schedules == (Adaptive(0.1), Constant(0.5))


def test_gradients_are_squared_where_one_squares_them():
    assert not any(x.squares for x in (SGD(), EMA(SGD()), Muon(rest=SGD()), Groups({"*": SGD()})))
    assert all(x.squares for x in (ClipNorm(SGD()), EMA(Adam()), Muon()))
    assert Groups({"a": SGD(), "*": RMSprop()}).squares


def test_kinds_tell_whose_state_fits():
    assert EMA(Adam(), 0.5).kind == EMA(Adam(lr=0.1)).kind
    assert len({str(x.kind) for x in (Adam(), EMA(Adam()), EMA(SGD()), SWA(Adam()))}) == 4
    assert Groups({"a": SGD(), "*": Adam()}).kind == Groups({"*": Adam(0.5), "a": SGD()}).kind
    assert Muon().kind != Muon(rest=SGD()).kind


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (ClipNorm(LBFGS()), r"'optimizer' parameter of ClipNorm must be an instance of .*Got LBFGS\(\)"),
        (ClipNorm("adam"), r"'optimizer' parameter of ClipNorm must be .* Got 'adam'"),
        (ClipNorm(Adam(), 0.0), r"'max_norm' parameter of ClipNorm must be .* Got 0\.0"),
        (ClipNorm(Adam(lr=-1.0)), r"'lr' parameter of Adam must be .* Got -1\.0"),
        (ClipValue(Adam(), -1), r"'max_value' parameter of ClipValue must be .* Got -1"),
        (WeightDecay(Adam(), -0.1), r"'weight_decay' parameter of WeightDecay must be .* Got -0\.1"),
        (WeightDecay(Adam(), parameters=[1]), r"'parameters' parameter of WeightDecay must be .* Got \[1\]"),
        (WeightDecay(Adam(), parameters={"*": -1.0}), r"must be a dict of .*Got -1\.0 for '\*' instead"),
        (RateFactors(Adam(), {"*": "big"}), r"'lr_factors' parameter of RateFactors must be .* Got 'big'"),
        (RateFactors(Adam(), {0: 1.0}), r"'lr_factors' parameter of RateFactors must be .* Got 1\.0 for 0"),
        (RateFactors(Adam(), {"*": float("inf")}), r"'lr_factors' parameter of .* Got inf for '\*'"),
        (RateFactors(Adam(), {"*": True}), r"'lr_factors' parameter of .* Got True for '\*'"),
        (RateFactors(Adam(), 0.1), r"'lr_factors' parameter of RateFactors must be an instance of 'dict'"),
        (EMA(Adam(), 1.0), r"'decay' parameter of EMA must be .*\[0\.0, 1\.0\)\. Got 1\.0"),
        (SWA(Adam(), start=1.5), r"'start' parameter of SWA must be .* Got 1\.5"),
        (SWA(Adam(), every=0), r"'every' parameter of SWA must be .* Got 0"),
        (Accumulate(Adam(), 0), r"'every' parameter of Accumulate must be .* Got 0"),
        (Lookahead(Adam(), part=0.0), r"'part' parameter of Lookahead must be .* Got 0\.0"),
        (Groups({}), r"'groups' parameter of Groups must not be empty"),
        (Groups([SGD()]), r"'groups' parameter of Groups must be an instance of 'dict'"),
        (Groups({"*": "adam"}), r"'groups' parameter of Groups must be .* Got 'adam' for '\*'"),
        (Groups({"*": SGD(lr=0.0)}), r"'lr' parameter of SGD must be .* Got 0\.0"),
        (Muon(rest=Adam(lr=0.0)), r"'lr' parameter of Adam must be .* Got 0\.0"),
        (Muon(n_iterations=0), r"'n_iterations' parameter of Muon must be .* Got 0"),
        (ScheduleFreeAdamW(warmup=-1), r"'warmup' parameter of ScheduleFreeAdamW must be .* Got -1"),
    ],
    ids=lambda x: name_of(x)[:40],
)
def test_wrong_parameters(optimizer, message):
    with pytest.raises(InvalidParameterError, match=message):
        optimizer.validate()


class Sloppy(Optimizer):
    slots = ("a", "b")

    def __init__(self, lr=0.1):
        self.lr = lr

    def rule(self, gradient, param, slots, hyper):
        return gradient, slots[:1]


def test_a_missing_slot_is_found():
    with pytest.raises(StateError, match=r"Sloppy\.rule returned 1 slots, but `slots` names 2: \('a', 'b'\)"):
        follow(ClipValue(Sloppy()), gradient_series(1, (2,)), np.ones(2))


class Normalized(Optimizer):
    """A custom optimizer that uses a statistic over all gradients."""

    measures = True

    def __init__(self, lr=0.1):
        self.lr = lr

    def measure(self, gradients, slots, hyper):
        return {"norm": ops.sqrt(ops.sum_squares(*gradients))}

    def rule(self, gradient, param, slots, hyper):
        return -hyper["lr"] * (gradient / hyper["norm"]), ()


def test_custom_measures():
    params, gradients = {"a": np.zeros(1), "b": np.zeros(1)}, {"a": np.array([3.0]), "b": np.array([-4.0])}
    optimizer = ClipValue(Normalized(), 100.0)
    deltas, _ = optimizer.update(gradients, optimizer.init(params), params)
    assert (deltas["a"].item(), deltas["b"].item()) == pytest.approx((-0.06, 0.08))


def test_rates_follow_the_progress():
    optimizer = WeightDecay(ClipNorm(SGD(InverseScaling(1.0, 1.0))), 0.5)
    assert optimizer.hyper(1, Progress(samples=3))["decay"] == -0.125
