"""Random fits on rows of a table that are encoded when they are read, and of a twin on an array of them.

Tables, encodings, networks, optimizers, batches, weights and held-out rows are drawn. One model is trained
on computed rows; its twin on an array that was encoded at once, by NumPy. Fits follow one another: in parts,
with callbacks that stop, change, break off or interrupt them, and resumed from checkpoints of the other kind
of rows. In between, models and rows are copied and pickled. After each fit both are bitwise identical.

    python -m tests.fuzz.rows --cases 500 --seed 0
"""

import copy
import pickle
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from numpy.random import Generator

import sknet
from sknet import Model, nn
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.engine import Batches, History, RSquared, _batches
from sknet.engine._fit import saved_fit
from sknet.engine._loop import Settings, Validation, train
from sknet.optim import EMA, SGD, Adam, RateFactors, WeightDecay
from sknet.optim.schedules import FlatThenCosine
from sknet.preprocessing import TableEncoder
from sknet.preprocessing._encoder import fit_encoder
from sknet.preprocessing._encodings import target_of
from sknet.preprocessing._plan import FittedEncoder
from sknet.tabular._training import EncodedRows
from tests.fuzz.command import run
from tests.fuzz.resumes import Dies, KilledError, different, drawn
from tests.fuzz.tables import drawn as drawn_table

EVERY = (1, 2, "1 steps", "4 steps")
WINDOWS = (1, 700, 1 << 20)


class Shrinks(Callback):
    """Changes the module, and with it the steps, after an epoch."""

    def __init__(self, how: str) -> None:
        self.how = how

    def on_epoch_end(self, fit: Any) -> None:
        module = fit.model.module
        if self.how == "values":
            for parameter in module.parameters():
                parameter.data[...] *= 0.5
        elif self.how == "frozen":
            module[0].requires_grad_(fit.epoch % 2 == 0)
        else:
            fit.model.optimizer = SGD(0.01)


class Presses(Callback):
    """Presses Ctrl-C in some block, or raises an error that keeps what was learned."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_block_end(self, fit: Any) -> None:
        self.after -= 1
        if not self.after:
            signal.raise_signal(signal.SIGINT)


OPTIMIZERS: tuple[Callable[[], Any], ...] = (
    lambda: Adam(0.01),
    lambda: SGD(0.05, momentum=0.9),
    lambda: EMA(Adam(0.02), 0.8),
    lambda: WeightDecay(RateFactors(Adam(0.02), {"*.bias": 0.1}), FlatThenCosine(0.05, n_steps=30)),
)


@dataclass
class Sides:
    """Rows of a table, computed and as an array, with their targets.

    Attributes
    ----------
    X : tuple of EncodedRows and ndarray
        Rows to train on, twice.
    held_out : tuple of EncodedRows and ndarray
        Rows that are not trained on, twice.
    y, weight : ndarray of shape (n_samples, 1), ndarray of shape (n_samples,) or None
        Targets of all rows of the table.
    rows, others : ndarray of int
        Which rows these are.
    """

    X: tuple[Any, np.ndarray]
    held_out: tuple[Any, np.ndarray]
    y: np.ndarray
    weight: np.ndarray | None
    rows: np.ndarray
    others: np.ndarray


def drawn_sides(rng: Generator, seed: int) -> Sides | None:
    """Return rows of a drawn table; None if nothing can be learned from it."""
    frame, y = drawn_table(seed, "regression")
    options = {
        "piecewise": drawn(rng, ["both", "tree", "quantile", None]),
        "n_bins": int(rng.integers(2, 9)),
        "max_levels": int(drawn(rng, [2, 5, 40])),
        "min_count": int(rng.integers(1, 4)),
        "dtype": "float64" if rng.random() < 0.1 else "float32",
    }
    encoder = TableEncoder(**options, sparse_output=False, random_state=0)
    chosen = rng.permutation(len(frame))
    if rng.random() < 0.2:
        chosen = rng.integers(0, len(frame), len(frame))  # some several times
    cut = max(2, int(len(chosen) * 0.8))
    rows, others = chosen[:cut], chosen[cut:]
    try:
        encoder.fit(frame, y)
        schema, table = encoder._schema, encoder.read(frame)
        fitted, crossed = fit_encoder(
            encoder, encoder, schema, table, target_of(y, "regression"), np.random.RandomState(seed), rows
        )
    except ValueError:
        return None
    at_once = fitted.plan.dense(table.take(rows), np.dtype(fitted.dtype), crossed)
    apart = fitted.encode(table.take(others)) if len(others) else at_once[:0]
    reads = fitted if rng.random() < 0.5 or crossed else FittedEncoder(fitted)
    weight = rng.random(len(frame)).astype("float32") if rng.random() < 0.5 else None
    if weight is not None and rng.random() < 0.5:
        weight[rng.random(len(frame)) < 0.4] = 0.0
    scaled = ((y - y.mean()) / (y.std() or 1.0)).astype("float32")[:, np.newaxis]
    lazy = EncodedRows(reads, table, rows, crossed), EncodedRows(reads, table, others)
    return Sides((lazy[0], at_once), (lazy[1], apart), scaled, weight, rows, others)


def network(rng: Generator, width: int) -> nn.Module:
    hidden = int(rng.integers(2, 7))
    middle = [[nn.ReLU()], [nn.BatchNorm(hidden), nn.Tanh()], [nn.ReLU(), nn.Dropout(0.3)]]
    return nn.Sequential(nn.Linear(width, hidden), *drawn(rng, middle), nn.Linear(hidden, 1))


class Pair:
    """A model that is trained on computed rows, and its twin."""

    def __init__(self, rng: Generator, seed: int, sides: Sides) -> None:
        self.rng, self.sides = rng, sides
        module = network(rng, sides.X[0].shape[1]).initialize(seed)
        optimizer, alpha = drawn(rng, OPTIMIZERS)(), float(drawn(rng, [0.0, 0.01]))
        make = lambda: Model(  # noqa: E731
            copy.deepcopy(module), "squared_error", copy.deepcopy(optimizer), alpha=alpha, random_state=seed
        )
        self.models = [make(), make()]
        self.histories = [History(), History()]
        self.done: list[str] = []

    def trained(self, side: int, how: "How", callbacks: list[Callback]) -> str | None:
        """Train one of the two; return how it ended."""
        model, sides = self.models[side], self.sides
        X, own = sides.X[side], sides.rows
        y, weight = sides.y[own], None if sides.weight is None else sides.weight[own]
        size = min(how.size, len(own) if how.rows is None else len(how.rows))
        batches = Batches(X, y, weight, size, model.dtype, model.device, how.rows)
        validation = None
        if how.validates and len(sides.others):
            held = Batches(
                sides.held_out[side], sides.y[sides.others], None, how.chunk, model.dtype, model.device
            )
            validation = Validation(held, lambda: RSquared(held.y, None, model.loss_function))
        new_score = lambda: RSquared(batches.y, None, model.loss_function)  # noqa: E731
        given = [each if side == 0 else copy.deepcopy(each) for each in callbacks]
        settings = Settings(
            how.epochs, how.shuffle, check_finite=True, max_steps=how.max_steps, is_part=how.is_part
        )
        saved = saved_fit([*given], None)
        try:
            outcome = train(
                *(model, batches, self.histories[side], settings, new_score, validation, given),
                saved=saved,
            )
        except (KilledError, ValueError, ArithmeticError) as error:
            return f"{type(error).__name__}: {error}"
        return f"{outcome.n_iter} {outcome.interrupted} {type(outcome.stopped_by).__name__}"


@dataclass
class How:
    """The settings of a fit."""

    size: int
    chunk: int
    epochs: int
    shuffle: bool
    validates: bool
    is_part: bool
    max_steps: int | None
    rows: np.ndarray | None


def drawn_how(rng: Generator, n_rows: int) -> How:
    some = rng.permutation(n_rows)[: max(2, n_rows // 2)] if rng.random() < 0.2 else None
    return How(
        size=int(drawn(rng, [1, 3, 16, 64, 1000])) if n_rows < 50 else int(drawn(rng, [7, 16, 64, 1000])),
        chunk=int(drawn(rng, [1, 5, 64])),
        epochs=int(rng.integers(1, 5)),
        shuffle=bool(rng.random() < 0.8),
        validates=bool(rng.random() < 0.5),
        is_part=bool(rng.random() < 0.3),
        max_steps=int(rng.integers(1, 30)) if rng.random() < 0.2 else None,
        rows=some,
    )


def fits(pair: Pair, native: str) -> str | None:
    """Train both in the same way, with a callback."""
    rng = pair.rng
    how = drawn_how(rng, len(pair.sides.rows))
    name = str(rng.choice(["none", "stops", "values", "frozen", "optimizer", "dies", "presses"]))
    made: dict[str, Callable[[], list[Callback]]] = {
        "none": list,
        "stops": lambda: [EarlyStopping("loss", patience=1)],
        "dies": lambda: [Dies(after)],
        "presses": lambda: [Presses(after)],
    }
    after = int(rng.integers(1, 12))
    make = made.get(name, lambda: [Shrinks(name)])
    pair.done.append(f"fit {name} {native} {how}")
    # The number of steps in a block depends on time, unless a callback asks for single steps.
    single = [Single()] if name == "presses" else []
    with sknet.config_context(native=native):
        first = pair.trained(0, how, [*make(), *single])
    with sknet.config_context(native="never"):
        second = pair.trained(1, how, [*make(), *single])
    return None if first == second else f"one ends with {first}, the other with {second}"


class Single(Callback):
    """Asks for single steps."""

    steps_per_block = 1


def resumes(pair: Pair, native: str) -> str | None:
    """Kill a fit at random steps, and resume it from its checkpoint, each time on the other kind of rows."""
    rng = pair.rng
    how = drawn_how(rng, len(pair.sides.rows))
    how.max_steps, how.is_part = None, False
    every, deaths = drawn(rng, EVERY), [int(rng.integers(1, 20)) for _ in range(int(rng.integers(1, 4)))]
    pair.done.append(f"resume every {every} after {deaths} {native} {how}")
    kept = pickle.dumps((pair.models[0], pair.histories[0]))
    with sknet.config_context(native="never"):
        expected = pair.trained(1, how, [])
    array, lazy = pair.sides.X[1], pair.sides.X[0]
    with tempfile.TemporaryDirectory() as folder, sknet.config_context(native=native):
        for number, after in enumerate(deaths):
            pair.sides.X = (array if number % 2 else lazy, array)
            saves = Checkpoint(folder, every=every, resume=True)
            ended = pair.trained(0, how, [saves, Dies(after)])
            if "KilledError" not in str(ended):
                break
            pair.models[0], pair.histories[0] = pickle.loads(kept)
        else:
            pair.sides.X = (lazy, array)
            ended = pair.trained(0, how, [Checkpoint(folder, every=every, resume=True)])
    pair.sides.X = (lazy, array)
    return None if ended == expected else f"ends with {ended} instead of {expected}"


def copies(pair: Pair, native: str) -> str | None:
    """Replace models and rows by copies."""
    way = drawn(pair.rng, [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    pair.done.append("copies")
    pair.models = [way(each) for each in pair.models]
    sides = pair.sides
    sides.X, sides.held_out = (way(sides.X[0]), sides.X[1]), (way(sides.held_out[0]), sides.held_out[1])
    return None


ACTIONS = (fits, fits, fits, resumes, copies)


def state_of(model: Model, history: History) -> dict[str, Any]:
    state = model.state
    return {
        "parameters": {name: np.array(p.data) for name, p in model.module.own_parameters()},
        "slots": {name: np.array(array) for name, array in state.optimizer.slots.items()},
        "buffers": {name: np.array(array) for name, array in state.buffers.items()},
        "progress": tuple(model.progress),
        "history": {name: list(column) for name, column in history.items() if name != "time"},
        "random_state": model.random_state.get_state(legacy=False),
    }


def mismatch(seed: int, natives: tuple[str, ...] = ("never", "auto", "always")) -> str | None:
    """Do some actions; return after which the two differ."""
    rng = np.random.default_rng([20260505, seed])
    sides = drawn_sides(rng, seed)
    if sides is None:
        return None
    X, array = sides.X
    window = mock.patch.object(_batches, "WINDOW_BYTES", drawn(rng, WINDOWS))
    pair = Pair(rng, seed, sides)
    with window, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(int(rng.integers(1, 5))):
            act = drawn(rng, ACTIONS)
            native = str(rng.choice(natives))
            said = act(pair, native)
            both = [state_of(*each) for each in zip(pair.models, pair.histories, strict=True)]
            found = [said] if said else different(*both)
            if found:
                return f"case {seed}: after {pair.done} {found[:4]}"
        for setting in natives:
            with sknet.config_context(native=setting):
                if not np.array_equal(X[:], array):
                    return f"case {seed}: rows are not those of the array, native={setting!r}"
    return None


if __name__ == "__main__":
    sys.exit(run(mismatch, __doc__, 500))
