"""Learning rate factors, against separate rates for every optimizer, and PyTorch's parameter groups."""

import numpy as np
import pytest

from sknet.exceptions import InvalidParameterError
from sknet.optim import (
    EMA,
    SGD,
    SWA,
    Accumulate,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    ClipNorm,
    Groups,
    Lion,
    Lookahead,
    Muon,
    NAdam,
    RAdam,
    RateFactors,
    RMSprop,
    ScheduleFreeAdamW,
    WeightDecay,
)
from sknet.optim.schedules import Cosine, Product, Progress
from tests.optim.helpers import gradient_series

# An optimizer of a given rate; its steps are proportional to it.
RATES = {
    "SGD": lambda lr: SGD(lr),
    "SGD momentum": lambda lr: SGD(lr, momentum=0.9, nesterov=True),
    "Adam": lambda lr: Adam(lr),
    "AdamW": lambda lr: AdamW(lr, weight_decay=Cosine(0.3, n_steps=20)),
    "Adamax": Adamax,
    "NAdam": NAdam,
    "RAdam": RAdam,
    "RMSprop": lambda lr: RMSprop(lr, momentum=0.5),
    "Adagrad": Adagrad,
    "Adadelta": Adadelta,
    "Lion": Lion,
    "Muon": lambda lr: Muon(lr, rest=SGD(lr)),
    "ScheduleFreeAdamW": lambda lr: ScheduleFreeAdamW(lr, weight_decay=0.1, warmup=3),
    "WeightDecay": lambda lr: WeightDecay(Adam(lr), 0.3, "*"),
    "EMA": lambda lr: EMA(SGD(lr, momentum=0.5), 0.8),
    "SWA": lambda lr: SWA(Adam(lr), start=4, every=2),
    "Accumulate": lambda lr: Accumulate(EMA(Adam(lr), 0.5), 2),
    "Lookahead": lambda lr: Lookahead(Adam(lr), every=3),
    "Groups": lambda lr: Groups({"*.weight": Adam(lr), "*": EMA(SGD(lr), 0.5)}),
}
EACH = pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
FACTORS = {"*.bias": 0.1, "front.*": 6.0, "front.bias": 0.0}
EXPECTED = {
    ("front", "weight"): 6.0,
    ("front", "bias"): 0.0,
    ("head", "weight"): 1.0,
    ("head", "bias"): 0.1,
}


def start_of(seed=0):
    draw = np.random.default_rng(seed).normal
    return {name: {"weight": draw(size=(3, 2)), "bias": draw(size=2)} for name in ("front", "head")}


def followed(optimizer, keys=EXPECTED, n_steps=12):
    """Return parameters, and those used for predictions, after some updates by constant gradients."""
    params = start_of()
    params = {name: {leaf: params[name][leaf] for layer, leaf in keys if layer == name} for name, _ in keys}
    series = {key: gradient_series(n_steps, start_of()[key[0]][key[1]].shape, len(key[1])) for key in keys}
    state = optimizer.init(params)
    for step in range(n_steps):
        gradients = {name: {leaf: series[name, leaf][step] for leaf in part} for name, part in params.items()}
        deltas, state = optimizer.update(gradients, state, params, Progress(step=step, total_steps=n_steps))
        params = {
            name: {leaf: part[leaf] + deltas[name][leaf] for leaf in part} for name, part in params.items()
        }
    averaged = optimizer.averaged(params, state)
    return {(name, leaf): (params[name][leaf], averaged[name][leaf]) for name, leaf in keys}


@EACH
@pytest.mark.parametrize("lr", [0.05, Cosine(0.05)], ids=str)
def test_a_factor_equals_a_separate_rate(rate, lr):
    found = followed(RateFactors(rate(lr), FACTORS))
    for key, factor in EXPECTED.items():
        if factor == 0.0:
            np.testing.assert_array_equal(found[key][0], start_of()[key[0]][key[1]])
            continue
        alone = followed(rate(Product([factor, lr])))[key]
        np.testing.assert_allclose(found[key], alone, rtol=1e-11, atol=1e-13)


def test_factors_are_the_parameter_groups_of_pytorch():
    torch = pytest.importorskip("torch")
    params = {"weight": np.ones((3, 2)), "bias": np.ones(2)}
    theirs = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in params.items()}
    groups = [{"params": [theirs["weight"]]}, {"params": [theirs["bias"]], "lr": 0.001}]
    reference = torch.optim.AdamW(groups, lr=0.01, weight_decay=0.3, eps=1e-300)
    optimizer = RateFactors(AdamW(0.01, weight_decay=0.3, eps=1e-300), {"bias": 0.1})
    state = optimizer.init(params)
    for step in range(50):
        gradients = {name: np.random.default_rng(step).normal(size=x.shape) for name, x in params.items()}
        for name, value in theirs.items():
            value.grad = torch.tensor(gradients[name])
        reference.step()
        deltas, state = optimizer.update(gradients, state, params)
        params = {name: value + deltas[name] for name, value in params.items()}
    for name, value in params.items():
        np.testing.assert_allclose(value, theirs[name].detach().numpy(), rtol=1e-10)


def test_the_order_of_decay_and_factors_determines_the_decays_rate():
    zeros = {name: {leaf: 0 * x for leaf, x in part.items()} for name, part in start_of().items()}
    ones = {name: {leaf: 0 * x + 1 for leaf, x in part.items()} for name, part in start_of().items()}
    for optimizer, expected in (
        (RateFactors(WeightDecay(SGD(0.5), 0.1), {"front.*": 6.0}), (-0.3, -0.05)),
        (WeightDecay(RateFactors(SGD(0.5), {"front.*": 6.0}), 0.1), (-0.05, -0.05)),
        (RateFactors(WeightDecay(SGD(0.5), 0.1, {"*": 1, "front.*": 6}), {"front.*": 6}), (-1.8, -0.05)),
    ):
        deltas, _ = optimizer.update(zeros, optimizer.init(ones), ones)
        for name, value in zip(("front", "head"), expected, strict=True):
            np.testing.assert_allclose(deltas[name]["weight"], value)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"*.wieght": 2.0}, r"matches none of \['front.weight', .*\]\. Did you mean '\*\.weight'"),
        ({"frnt.*": 2.0}, r"Got 'frnt\.\*', which matches none of .*\. Did you mean 'front\.\*'"),
        ({"front.wait": 2.0}, r"Did you mean 'front\.weight'"),
        ({"xyz": 2.0}, r"matches none of \[.*'head\.bias'\]\.$"),
        ({"front.*": 2.0, "*.weight": 1.0, "*t.bias": 1.0}, r"Got .*of the same length, and 'front\.bias'"),
    ],
)
@pytest.mark.parametrize(
    ("around", "name"),
    [
        (lambda factors: RateFactors(Adam(), factors), "'lr_factors' parameter of RateFactors"),
        (
            lambda factors: ClipNorm(WeightDecay(Adam(), 0.1, factors)),
            "'parameters' parameter of WeightDecay",
        ),
    ],
)
def test_patterns_that_fit_no_parameter(around, name, factors, message):
    with pytest.raises(InvalidParameterError, match=rf"(?s)The {name} .*{message}"):
        around(factors).init(start_of())


def test_a_grid_reaches_it():
    optimizer = RateFactors(Adam(0.1), {"*.bias": 0.1})
    assert optimizer.get_params()["optimizer__lr"] == 0.1
    changed = optimizer.set_params(lr_factors={"*.bias": 0.5}, optimizer__lr=0.2)
    assert changed == RateFactors(Adam(0.2), {"*.bias": 0.5})


@pytest.mark.parametrize("name", ["lr_factors", "decay_factors"])
def test_an_optimizer_says_where_factors_belong(name):
    wrapped = {"lr_factors": r"RateFactors\(Adam", "decay_factors": r"WeightDecay\(Adam"}[name]
    with pytest.raises(TypeError, match=rf"Adam has no parameter '{name}': wrap it, {wrapped}"):
        Adam(0.1, **{name: {"*.bias": 0.1}})
