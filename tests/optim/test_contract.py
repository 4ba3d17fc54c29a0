"""The contract of all optimizers, with one table row for each; an optimizer without a row fails."""

import inspect
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

import sknet.optim
from sknet.core import Tensor
from sknet.exceptions import ShapeError, StateError
from sknet.optim import (
    LBFGS,
    OPTIMIZERS,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Combinator,
    Groups,
    Lion,
    Muon,
    NAdam,
    Optimizer,
    OptimizerState,
    RAdam,
    RMSprop,
    Rprop,
    ScheduleFreeAdamW,
)
from sknet.optim.schedules import Constant, Cosine, Progress
from tests.combinations import every
from tests.optim.helpers import follow, follow_torch, gradient_series

TINY = 1e-300  # libraries add eps at different places; with a tiny eps they agree


class Case(NamedTuple):
    """An optimizer, PyTorch's equivalent if there is one, and a rate that finds a nearby minimum."""

    optimizer: Optimizer
    torch_optimizer: Callable[..., Any] | None = None
    lr: float = 0.05


CASES = [
    Case(SGD(lr=0.1), lambda o, p: o.SGD(p, lr=0.1)),
    Case(SGD(lr=0.1, momentum=0.9), lambda o, p: o.SGD(p, lr=0.1, momentum=0.9)),
    Case(
        SGD(lr=0.1, momentum=0.9, nesterov=True), lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True)
    ),
    Case(SGD(lr=0.1, nesterov=True), lambda o, p: o.SGD(p, lr=0.1)),
    Case(Adam(lr=0.01, eps=TINY), lambda o, p: o.Adam(p, lr=0.01, eps=0.0)),
    Case(
        Adam(lr=0.01, beta1=0.0, beta2=0.5, eps=TINY),
        lambda o, p: o.Adam(p, lr=0.01, betas=(0.0, 0.5), eps=0.0),
    ),
    Case(AdamW(lr=0.01, eps=TINY), lambda o, p: o.AdamW(p, lr=0.01, eps=0.0)),
    Case(
        AdamW(lr=0.01, eps=TINY, weight_decay=0.3),
        lambda o, p: o.AdamW(p, lr=0.01, eps=0.0, weight_decay=0.3),
    ),
    Case(RMSprop(lr=0.01, eps=0.1), lambda o, p: o.RMSprop(p, lr=0.01, eps=0.1)),
    Case(
        RMSprop(lr=0.01, rho=0.5, momentum=0.9),
        lambda o, p: o.RMSprop(p, lr=0.01, alpha=0.5, momentum=0.9),
    ),
    Case(Adagrad(lr=0.1), lambda o, p: o.Adagrad(p, lr=0.1), lr=0.5),
    Case(Adagrad(lr=0.1, eps=0.5), lambda o, p: o.Adagrad(p, lr=0.1, eps=0.5), lr=0.5),
    Case(Adadelta(), lambda o, p: o.Adadelta(p, lr=1.0), lr=50.0),
    Case(Adadelta(lr=0.5, rho=0.7, eps=1e-2), lambda o, p: o.Adadelta(p, lr=0.5, rho=0.7, eps=1e-2), lr=1.0),
    Case(Adamax(lr=0.01, eps=TINY), lambda o, p: o.Adamax(p, lr=0.01, eps=0.0), lr=0.1),
    Case(
        Adamax(lr=0.01, beta1=0.5, beta2=0.6, eps=TINY),
        lambda o, p: o.Adamax(p, lr=0.01, betas=(0.5, 0.6), eps=0.0),
    ),
    Case(NAdam(lr=0.01, eps=TINY), lambda o, p: o.NAdam(p, lr=0.01, eps=0.0)),
    Case(
        NAdam(lr=0.01, beta1=0.6, beta2=0.7, eps=TINY, momentum_decay=0.1),
        lambda o, p: o.NAdam(p, lr=0.01, betas=(0.6, 0.7), eps=0.0, momentum_decay=0.1),
    ),
    Case(RAdam(lr=0.01), lambda o, p: o.RAdam(p, lr=0.01), lr=0.1),
    Case(
        RAdam(lr=0.01, beta1=0.5, beta2=0.9, eps=0.1),
        lambda o, p: o.RAdam(p, lr=0.01, betas=(0.5, 0.9), eps=0.1),
    ),
    Case(Rprop(lr=0.01), lambda o, p: o.Rprop(p, lr=0.01)),
    Case(Lion(lr=0.01)),
    Case(Muon(lr=0.01, rest=AdamW(lr=0.05, weight_decay=0.0))),
    Case(ScheduleFreeAdamW(lr=0.01, weight_decay=0.01, warmup=3)),
]


each_case = every(case=CASES)
each_optimizer = every(
    optimizer=[
        SGD(momentum=0.9),
        *(optimizer() for optimizer in OPTIMIZERS.values() if optimizer is not LBFGS),
    ]
)


def nested(seed):
    """A tree of dicts, lists and tuples."""
    draw = np.random.default_rng(seed).normal
    return {
        "0": {"weight": draw(size=(3, 2)), "bias": draw(size=2)},
        "more": [draw(size=()), (draw(size=4),)],
    }


def leaves(tree):
    """Return what is inside of dicts, lists and tuples, in order."""
    if isinstance(tree, (dict, list, tuple)):
        return [x for part in (tree.values() if isinstance(tree, dict) else tree) for x in leaves(part)]
    return [tree]


def test_every_public_optimizer_has_a_row():
    public = [getattr(sknet.optim, name) for name in sknet.optim.__all__]
    concrete = {
        x for x in public if inspect.isclass(x) and issubclass(x, Optimizer) and not inspect.isabstract(x)
    }
    plain = {x for x in concrete if not issubclass(x, Combinator)} - {Groups}
    assert plain == {type(case.optimizer) for case in CASES}
    assert plain | {LBFGS} == set(OPTIMIZERS.values())


@every(case=[case for case in CASES if case.torch_optimizer])
def test_hundred_steps_equal_pytorch(case):
    pytest.importorskip("torch")
    gradients, start = gradient_series(100, (4, 3)), np.random.default_rng(1).normal(size=(4, 3))
    path = follow(case.optimizer, gradients, start)
    expected = follow_torch(case.torch_optimizer, gradients, start)
    np.testing.assert_allclose(path, expected, rtol=1e-11, atol=1e-12)


@each_case
def test_finds_the_minimum(case):
    params = np.array([1.0, -2.0])
    optimizer = clone(case.optimizer).set_params(lr=Cosine(case.lr, n_steps=500))
    state = optimizer.init(params)
    for _ in range(500):
        delta, state = optimizer.update(2 * (params - 0.5), state, params)
        params = params + delta
    shrinks = case.optimizer.get_params().get("weight_decay") or isinstance(case.optimizer, Muon)
    np.testing.assert_allclose(optimizer.averaged(params, state), 0.5, atol=0.1 if shrinks else 1e-3)


@each_case
def test_update_does_not_change_its_arguments(case):
    params, gradients = nested(0), nested(1)
    _, state = case.optimizer.update(gradients, case.optimizer.init(params), params)
    given = params, gradients, state
    before = pickle.dumps(given)
    first = case.optimizer.update(gradients, state, params)
    assert pickle.dumps(given) == before
    second = case.optimizer.update(gradients, state, params)
    np.testing.assert_equal(second, first)


@each_case
def test_trees_are_updated_leaf_by_leaf(case):
    params, gradients = nested(0), nested(1)
    deltas, state = case.optimizer.update(gradients, case.optimizer.init(params), params)
    assert isinstance(state, OptimizerState)
    assert tuple(state.slots) == case.optimizer.slots
    for tree in (deltas, *state.slots.values()):
        assert isinstance(tree["more"][1], tuple)
        assert list(map(np.shape, leaves(tree))) == list(map(np.shape, leaves(params)))
    alone, _ = case.optimizer.update(
        gradients["0"]["bias"], case.optimizer.init(params["0"]["bias"]), params["0"]["bias"]
    )
    np.testing.assert_array_equal(deltas["0"]["bias"], alone)


@each_case
def test_one_flat_array_is_the_same_as_many(case):
    params, gradients = nested(0), nested(1)

    def flat(tree):
        return np.concatenate([np.ravel(leaf) for leaf in leaves(tree)])

    deltas, _ = case.optimizer.update(gradients, case.optimizer.init(params), params)
    if not case.optimizer.elementwise:
        return
    together, _ = case.optimizer.update(flat(gradients), case.optimizer.init(flat(params)), flat(params))
    np.testing.assert_array_equal(flat(deltas), together)


@each_case
def test_tensors_stay_tensors_and_are_not_recorded(case):
    params = {"weight": Tensor(np.ones(3), requires_grad=True)}
    gradients = {"weight": np.full(3, 0.5)}
    state = case.optimizer.init(params)
    deltas, state = case.optimizer.update(gradients, state, params)
    for leaf in leaves((deltas, state.slots)):
        assert isinstance(leaf, Tensor)
        assert not leaf.requires_grad


@each_case
def test_dtype_of_the_parameters_is_kept(case):
    values = {
        name: np.float64(value) if isinstance(value, float) else value
        for name, value in case.optimizer.get_params(deep=False).items()
    }
    optimizer = type(case.optimizer)(**values).set_params(**{} if "eps" not in values else {"eps": 1e-8})
    params = np.ones(3, np.float32)
    deltas, state = optimizer.update(np.full(3, 0.5, np.float32), optimizer.init(params), params)
    assert {leaf.dtype for leaf in leaves((deltas, state.slots))} == {np.dtype(np.float32)}


@each_case
def test_rule_reads_no_data_on_the_host_and_takes_numbers_as_tensors(case):
    hyper = case.optimizer.hyper(1, Progress())
    assert all(type(value) is float for value in hyper.values())
    on_device = {name: Tensor(np.float32(value)).to("meta") for name, value in hyper.items()}
    array = Tensor(np.ones((2, 3), np.float32)).to("meta")
    delta, slots = case.optimizer.rule(array, array, (array,) * len(case.optimizer.slots), on_device)
    assert len(slots) == len(case.optimizer.slots)
    for result in (delta, *slots):
        assert (str(result.device), result.shape, result.dtype) == ("meta", (2, 3), np.float32)


@each_case
def test_learning_rate_is_always_among_the_changing_numbers(case):
    optimizer = clone(case.optimizer)
    if "warmup" in optimizer.get_params():
        optimizer.set_params(warmup=0)
    assert optimizer.hyper(5, Progress())["lr"] == optimizer.lr
    scheduled = optimizer.set_params(lr=Cosine(0.5, n_steps=2))
    assert [scheduled.hyper(t + 1, Progress(step=t))["lr"] for t in (0, 1, 2)] == [0.5, 0.25, 0.0]


@each_case
def test_progress_is_taken_from_the_state(case):
    optimizer = clone(case.optimizer).set_params(lr=Cosine(0.5, n_steps=2))
    params = np.ones(2)
    state = optimizer.init(params)
    for step in range(3):
        expected, _ = optimizer.update(params, state, params, Progress(step=step))
        delta, state = optimizer.update(params, state, params)
        np.testing.assert_array_equal(delta, expected)
    assert state.count == 3


@each_case
def test_state_survives_pickling(case):
    gradients, start = gradient_series(6, (3,)), np.ones(3)
    expected = follow(case.optimizer, gradients, start)
    params, state = start, case.optimizer.init(start)
    for gradient in gradients:
        optimizer, state = pickle.loads(pickle.dumps((case.optimizer, state)))
        delta, state = optimizer.update(gradient, state, params)
        params = params + delta
    np.testing.assert_array_equal(params, expected[-1])


@every(optimizer=[*(case.optimizer for case in CASES), LBFGS(memory=5)])
def test_is_a_parameter_object(optimizer):
    optimizer.validate()
    for copy in (
        clone(optimizer),
        pickle.loads(pickle.dumps(optimizer)),
        type(optimizer)(**optimizer.get_params(deep=False)),
    ):
        assert copy == optimizer
        assert copy is not optimizer
        assert hash(copy) == hash(optimizer)


@each_optimizer
def test_nested_parameters(optimizer):
    optimizer = clone(optimizer).set_params(lr=Cosine(0.1, n_steps=10))
    assert optimizer.get_params()["lr__n_steps"] == 10
    assert clone(optimizer) == optimizer
    assert clone(optimizer).set_params(lr__lr=0.2).lr == Cosine(0.2, n_steps=10)
    assert clone(optimizer).lr is not optimizer.lr


@each_optimizer
def test_schedule(optimizer):
    assert optimizer.schedules[0] == Constant(optimizer.lr)
    assert clone(optimizer).set_params(lr=Cosine(0.1)).schedules[0] == Cosine(0.1)


@each_optimizer
def test_wrong_trees_raise(optimizer):
    params = {"a": np.ones(2), "b": np.ones(3)}
    state = optimizer.init(params)
    with pytest.raises(
        StateError, match=r"gradients must be a tree like .* expected \['a', 'b'\], got \['a'\]"
    ):
        optimizer.update({"a": np.ones(2)}, state, params)
    with pytest.raises(StateError, match=r"in the same order: expected \['a', 'b'\], got \['b', 'a'\]"):
        optimizer.update({"b": np.ones(3), "a": np.ones(2)}, state, params)
    name = optimizer.slots[-1]
    with pytest.raises(StateError, match=rf"slot '{name}' must be .*create a new state with init\(params\)"):
        optimizer.update(params, OptimizerState(1, {**state.slots, name: {"a": np.ones(2)}}), params)
    with pytest.raises(StateError, match=r"slot '\w+' must be a tree like the parameters"):
        optimizer.update(params, OptimizerState(0, {}), params)


@each_optimizer
def test_wrong_shapes_raise(optimizer):
    params = {"a": np.ones((2, 1))}
    with pytest.raises(ShapeError, match=r"gradient of a has shape \(2,\); its parameter has shape \(2, 1\)"):
        optimizer.update({"a": np.ones(2)}, optimizer.init(params), params)
    with pytest.raises(ShapeError, match=r"gradient of the parameter has shape \(3,\)"):
        optimizer.update(np.ones(3), optimizer.init(np.ones(2)), np.ones(2))
