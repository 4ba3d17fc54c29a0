"""Random sequences of fits, between which parts of a network are frozen and unfrozen: against an eager twin.

Frozen parameters keep all bits in every fit; trained ones agree with eager steps up to rounding.

    python -m tests.fuzz.freezes --cases 500 --seed 0
"""

import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from sknet import NetClassifier, nn, ops
from sknet.exceptions import GradientError
from sknet.optim import EMA, SGD, Adam, AdamW, Groups, Lookahead, WeightDecay
from tests.fuzz.command import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 4))
LABELS = np.arange(48) % 3
PATTERNS: tuple[Any, ...] = (
    None,
    [],
    "first",
    "first.*",
    "*.bias",
    "body.0",
    "body*",
    ["last"],
    ["first.weight", "last.bias"],
    ["first", "body"],
    "*.weight",
)
OPTIMIZERS: tuple[Callable[[], Any], ...] = (
    lambda: Adam(0.01),
    lambda: SGD(0.05, momentum=0.9),
    lambda: AdamW(0.01, weight_decay=0.1),
    lambda: WeightDecay(SGD(0.05), 0.1),
    lambda: EMA(Adam(0.01), 0.9),
    lambda: Lookahead(Adam(0.01), 3),
    lambda: Groups({"*bias": SGD(0.05), "*": Adam(0.01)}),
)


class Network(nn.Module):
    """Has buffers and parts to freeze."""

    def __init__(self, n_outputs: int = 3) -> None:
        self.first = nn.Linear(4, 5)
        self.body = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm(5))
        self.last = nn.Linear(5, n_outputs)

    def forward(self, x: Any) -> Any:
        return self.last(self.body(ops.tanh(self.first(x))))


class Eager(Network):
    """Cannot be captured, because it reads a value."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * (1.0 if ops.sum(x).item() < 1e9 else 0.5)


Nets = list[Any]  # the compiled one, and its twin


def drawn(rng: Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def new(rng: Generator) -> Nets:
    is_ready, frozen = rng.random() < 0.5, [name for name in ("first", "body", "last") if rng.random() < 0.2]
    params = {
        "optimizer": drawn(rng, OPTIMIZERS)(),
        "alpha": float(drawn(rng, [0.0, 0.01])),
        "max_iter": int(rng.integers(1, 4)),
        "batch_size": int(drawn(rng, [10, 16, 48])),
        "random_state": int(rng.integers(100)),
        "shuffle": bool(rng.random() < 0.7),
        "early_stopping": bool(rng.random() < 0.3),
        "warm_start": bool(rng.random() < 0.7),
        "frozen": drawn(rng, PATTERNS),
    }
    found = []
    for kind in (Network, Eager):
        module: Any = kind
        if is_ready:
            module = kind().initialize(1).to(dtype="float64")
            for name in frozen[:2]:
                getattr(module, name).requires_grad_(False)
        found.append(NetClassifier(module, **params))
    return found


def fit(rng: Generator) -> Callable[[Any], Any]:
    weight = RNG.uniform(0.1, 2, len(X)) if rng.random() < 0.3 else None
    return lambda net: net.fit(X, LABELS, weight)


def fit_in_parts(rng: Generator) -> Callable[[Any], Any]:
    rows = rng.permutation(48)[: drawn(rng, (24, 36, 48))]
    more = {"X_val": X[:20], "y_val": LABELS[:20]}

    def act(net: Any) -> Any:
        held_out = more if net.early_stopping else {}
        return net.partial_fit(X[rows], LABELS[rows], classes=[0, 1, 2], **held_out)

    return act


def set_pattern(rng: Generator) -> Callable[[Any], Any]:
    frozen = drawn(rng, PATTERNS)
    return lambda net: net.set_params(frozen=frozen)


def set_in_the_model(rng: Generator) -> Callable[[Any], Any]:
    path, on = drawn(rng, ["first", "body", "last"]), bool(rng.random() < 0.6)
    of_bias = bool(rng.random() < 0.3)

    def act(net: Any) -> Any:
        if hasattr(net, "model_"):
            part = getattr(net.model_.module, path)
            part.requires_grad_(on)
            if of_bias and hasattr(part, "bias"):
                part.bias.requires_grad = not on
        return net

    return act


def take_a_step(rng: Generator) -> Callable[[Any], Any]:
    rows = rng.permutation(48)[:16]

    def act(net: Any) -> Any:
        if hasattr(net, "model_"):
            net.model_.step(X[rows], LABELS[rows])
        return net

    return act


def save(_: Generator) -> Callable[[Any], Any]:
    return lambda net: pickle.loads(pickle.dumps(net))


OFTEN = (fit, fit_in_parts, set_pattern)
ACTIONS = (*OFTEN, *OFTEN, set_in_the_model, take_a_step, save)


def parameters(net: Any) -> dict[str, Any]:
    if not hasattr(net, "model_"):
        return {}
    return {name: np.array(p.data) for name, p in net.model_.module.own_parameters()}


def frozen_names(net: Any) -> set[str]:
    if not hasattr(net, "model_"):
        return set()
    return {name for name, p in net.model_.module.own_parameters() if not p.requires_grad}


def wrong(nets: Nets, before: list[dict[str, Any]], goes_on: bool) -> str | None:
    """Return what is wrong after an action."""
    if frozen_names(nets[0]) != frozen_names(nets[1]):
        return f"frozen are {frozen_names(nets[0])} and {frozen_names(nets[1])}"
    for net, known in zip(nets, before, strict=True):
        for name in frozen_names(net) & known.keys() if goes_on else ():
            if not np.array_equal(parameters(net)[name], known[name]):
                return f"frozen {name!r} has changed"
    for name, array in parameters(nets[0]).items():
        if not np.allclose(array, parameters(nets[1])[name], rtol=1e-7, atol=1e-9):
            return f"{name!r} differs by {np.abs(array - parameters(nets[1])[name]).max()}"
    if hasattr(nets[0], "model_"):
        mine, other = (net.predict_proba(X[:5]) for net in nets)
        one = np.concatenate([nets[0].predict_proba(X[i : i + 1]) for i in range(5)])
        again = nets[0].freeze().predict_proba(X[:5])
        if not all(np.allclose(mine, each, rtol=1e-6, atol=1e-9) for each in (other, one, again)):
            return "predictions differ"
    return None


def outcome(net: Any, act: Callable[[Any], Any]) -> tuple[Any, str | None]:
    """Return the estimator after an action, and the error of the action."""
    try:
        return act(net), None
    except (ValueError, GradientError) as error:
        return net, str(error)


def mismatch(seed: int) -> str | None:
    """Do some actions; return after which something is wrong."""
    rng = np.random.default_rng(seed)
    nets, done = new(rng), []
    shown = f"{nets[0]}".replace("\n", " ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(int(rng.integers(2, 10))):
            action = drawn(rng, ACTIONS)
            act, before = action(rng), [parameters(net) for net in nets]
            done.append(action.__name__)
            ends = [outcome(net, act) for net in nets]
            nets = [net for net, _ in ends]
            if ends[0][1] != ends[1][1]:
                return f"case {seed}: {done} of {shown} end with {ends[0][1]!r} and {ends[1][1]!r}"
            goes_on = action is not fit or nets[0].warm_start
            found = wrong(nets, before, goes_on)
            if found is not None:
                return f"case {seed}: after {done} of {shown} {found}"
    return None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, 500))
