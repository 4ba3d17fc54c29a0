"""Random sequences of fits of an estimator and of a twin whose fits are killed and resumed.

Both are fitted, fitted in parts, frozen and unfrozen, given other parameters and pickled. Fits of the twin
are killed at random steps, and resumed from a checkpoint: in the same estimator, in a pickle from before the
fit, or in a new estimator. After each action both are bitwise identical.

    python -m tests.fuzz.resumes --cases 500 --seed 0
"""

import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.base import clone

from sknet import NetClassifier, nn, ops
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.optim import EMA, SGD, Adam, AdamW, Lookahead, Muon, RMSprop
from sknet.optim.schedules import Adaptive, Cosine, Step
from tests.fuzz.command import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
LABELS = np.arange(60) % 3
WEIGHT = RNG.uniform(0.1, 2, 60)
EVERY = (1, 2, "1 steps", "3 steps", "7 steps")
PATTERNS: tuple[Any, ...] = (None, "first.*", "body", "*.bias", ["last.weight"], ["first", "body.0.weight"])


class Network(nn.Module):
    """Has buffers, draws numbers, and has parts to freeze."""

    def __init__(self, n_outputs: int, hidden: int = 5) -> None:
        self.first = nn.Linear(4, hidden)
        self.body = nn.Sequential(nn.BatchNorm(hidden), nn.Linear(hidden, hidden), nn.Dropout(0.2))
        self.last = nn.Linear(hidden, n_outputs)

    def forward(self, x: Any) -> Any:
        return self.last(self.body(ops.tanh(self.first(x))))


class Eager(Network):
    """Cannot be captured, because it reads a value."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * (1.0 if ops.sum(x).item() < 1e9 else 0.5)


def ready(kind: type[Network]) -> nn.Module:
    """Return a module instance with a frozen part."""
    module = kind(3).initialize(1).to(dtype="float64")
    module.first.bias.requires_grad = False
    return module


OPTIMIZERS: tuple[Callable[[], Any], ...] = (
    lambda: Adam(0.01),
    lambda: SGD(0.1, momentum=0.9),
    lambda: AdamW(Cosine(0.02)),
    lambda: EMA(Adam(0.01), 0.9),
    lambda: SGD(Adaptive(0.2, factor=2.0), 0.9),
    lambda: RMSprop(Step(0.01, 2, 0.5, unit="epoch")),
    lambda: Lookahead(Adam(0.01), 3),
    lambda: Muon(0.01),
)


class Dies(Callback):
    """Raises an error after some steps; the estimator is then as it was before the fit."""

    order, steps_per_block = 2, 1

    def __init__(self, after: int) -> None:
        self.after = after

    def on_block_end(self, fit: Any) -> None:
        self.after -= len(fit.losses)
        if self.after <= 0:
            raise KilledError


class KilledError(Exception):
    """Simulates the end of a process."""


class Pair:
    """An estimator and its twin."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng
        kind = Eager if rng.random() < 0.3 else Network
        module = ready(kind) if rng.random() < 0.3 else kind
        self.alone = NetClassifier(
            module,
            optimizer=drawn(rng, OPTIMIZERS)(),
            max_iter=int(rng.integers(1, 6)),
            batch_size=int(rng.choice([7, 16, 60])),
            random_state=int(rng.integers(100)),
            early_stopping=bool(rng.random() < 0.4),
            n_iter_no_change=int(rng.integers(1, 4)),
            shuffle=bool(rng.random() < 0.7),
            warm_start=bool(rng.random() < 0.7),
            frozen=drawn(rng, PATTERNS),
        )
        self.alone.refit_on_all = self.alone.early_stopping and bool(rng.random() < 0.2)
        self.twin = clone(self.alone)
        self.done: list[str] = []

    def both(self, act: Callable[[Any], Any]) -> None:
        self.alone, self.twin = act(self.alone), act(self.twin)


def drawn(rng: Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


ACTIONS: dict[str, Callable[[Pair], None]] = {}


def action(function: Callable[[Pair], None]) -> Callable[[Pair], None]:
    ACTIONS[function.__name__] = function
    return function


def given(rng: Generator) -> dict[str, Any]:
    """Return the arguments of a fit besides X and y."""
    more: dict[str, Any] = {}
    if rng.random() < 0.3:
        more["sample_weight"] = WEIGHT
    if rng.random() < 0.2:
        more |= {"X_val": X[:20] + 0.1, "y_val": LABELS[:20]}
    return more


@action
def fit(pair: Pair) -> None:
    """Fit both; the twin is killed, possibly several times, and resumed in one of the possible ways."""
    rng, more = pair.rng, given(pair.rng)
    stopping = [EarlyStopping("loss", patience=2)] if rng.random() < 0.2 else []
    every, before = drawn(rng, EVERY), pickle.dumps(pair.twin)
    pair.alone.fit(X, LABELS, **more, callbacks=clone_all(stopping))
    with tempfile.TemporaryDirectory() as folder:
        saves = Checkpoint(folder, every=every, resume=True)
        for _ in range(int(rng.integers(0, 4))):
            try:
                death = Dies(int(rng.integers(1, 30)))
                pair.twin.fit(X, LABELS, **more, callbacks=[*clone_all(stopping), saves, death])
            except KilledError:
                pass
            else:
                break
            is_saved = os.path.exists(os.path.join(folder, "last.safetensors"))
            if rng.random() < 0.6:
                pair.twin = clone(pair.twin) if is_saved and rng.random() < 0.5 else pickle.loads(before)
        else:
            pair.twin.fit(X, LABELS, **more, callbacks=[*clone_all(stopping), saves])


def clone_all(callbacks: list[Any]) -> list[Any]:
    return [clone(callback) for callback in callbacks]


@action
def fit_in_parts(pair: Pair) -> None:
    more: dict[str, Any] = {"classes": [0, 1, 2]}
    if pair.alone.early_stopping:
        more |= {"X_val": X[:20], "y_val": LABELS[:20]}
    rows = pair.rng.permutation(60)[: drawn(pair.rng, (21, 30, 44))]  # no batch of a single row
    pair.both(lambda net: net.partial_fit(X[rows], LABELS[rows], **more))


@action
def freeze(pair: Pair) -> None:
    frozen = drawn(pair.rng, PATTERNS)
    pair.both(lambda net: net.set_params(frozen=frozen))


@action
def thaw(pair: Pair) -> None:
    pair.both(lambda net: net.set_params(frozen=None))


@action
def freeze_in_the_model(pair: Pair) -> None:
    if hasattr(pair.alone, "model_"):
        name, on = drawn(pair.rng, ["first", "body", "last"]), bool(pair.rng.random() < 0.5)

        def act(net: Any) -> Any:
            getattr(net.model_.module, name).requires_grad_(on)
            return net

        pair.both(act)


@action
def set_params(pair: Pair) -> None:
    rng = pair.rng
    params = drawn(
        rng,
        [
            {"alpha": 0.01},
            {"max_iter": int(rng.integers(1, 6))},
            {"batch_size": int(rng.choice([7, 16, 60]))},
            {"optimizer": drawn(rng, OPTIMIZERS)()},
            {"shuffle": bool(rng.random() < 0.5)},
            {"early_stopping": bool(rng.random() < 0.5)},
            {"warm_start": bool(rng.random() < 0.7)},
        ],
    )
    if pair.alone.refit_on_all and not params.get("early_stopping", True):
        params["refit_on_all"] = False  # it needs early stopping
    pair.both(lambda net: net.set_params(**params))


@action
def save(pair: Pair) -> None:
    pair.both(lambda net: pickle.loads(pickle.dumps(net)))


def state_of(net: Any) -> dict[str, Any]:
    """Return all results of a fit, except times; slots of frozen parameters are compared when unfrozen."""
    if not hasattr(net, "model_"):
        return {}
    model = net.model_
    state = model.state
    return {
        "parameters": {name: np.array(p.data) for name, p in model.module.own_parameters()},
        "frozen": {name: p.requires_grad for name, p in model.module.own_parameters()},
        "slots": {name: np.array(array) for name, array in state.optimizer.slots.items()},
        "buffers": {name: np.array(array) for name, array in state.buffers.items()},
        "progress": tuple(model.progress),
        "history": {name: list(column) for name, column in net.history_.items() if name != "time"},
        "random_state": model.random_state.get_state(legacy=False),
        "best": [net.n_iter_, net.best_loss_, net.best_validation_score_, net.best_epoch_, net.loss_, net.t_],
        "stopped": [net.stopped_early_, net.monitor_],
        "predictions": net.predict_proba(X),
    }


def different(one: Any, other: Any, path: str = "") -> list[str]:
    """Return the paths at which two states differ, NaN being itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return [f"{path}: {sorted(one)} and {sorted(other)}"]
        return [found for key in one for found in different(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, np.ndarray):
        return [] if np.array_equal(one, other) else [path]
    return [] if repr(one) == repr(other) else [f"{path}: {one} and {other}"]


def outcome(function: Callable[[], Any]) -> str | None:
    """Return the error of an action."""
    try:
        function()
    except (ValueError, TypeError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def mismatch(seed: int) -> str | None:
    """Do some actions; return after which the two differ."""
    rng = np.random.default_rng(seed)
    pair = Pair(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(int(rng.integers(2, 8))):
            name = str(rng.choice(list(ACTIONS), p=CHANCES))
            pair.done.append(name)
            alone, twin = pickle.dumps(pair.alone), pickle.dumps(pair.twin)
            error = outcome(lambda name=name: ACTIONS[name](pair))
            if error is not None:
                if "KilledError" in error or not is_expected(error):
                    return f"case {seed}: {pair.done} {pair.alone} ends with {error}"
                pair.alone, pair.twin = pickle.loads(alone), pickle.loads(twin)
            found = different(state_of(pair.alone), state_of(pair.twin))
            if found:
                return f"case {seed}: after {pair.done} {pair.alone} differ in {found[:4]}"
    return None


def is_expected(error: str) -> bool:
    """Tell whether an error is an expected one for an invalid action."""
    told = (
        "no parameter to",
        "partial_fit does not support",
        "is of a fit",
        "cannot change it",
        "another network",
        "training diverged in epoch",
    )
    return any(each in error for each in told)


CHANCES = np.array([{"fit": 4, "fit_in_parts": 2}.get(name, 1) for name in ACTIONS], float)
CHANCES /= CHANCES.sum()

if __name__ == "__main__":
    os.environ.setdefault("SKNET_NATIVE", "never")
    sys.exit(run(mismatch, __doc__, 500))
