"""Fits of models, drawn at random: the actions of many steps."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from numpy.random import Generator

from sknet import Model
from sknet.callbacks import EarlyStopping
from tests.fuzz.actions import ACTIONS, Act, Batch, Twin, action, drawn_batch

__all__ = ["ACTIONS"]  # with these among them


@contextlib.contextmanager
def compiled_by_numpy(model: Model) -> Iterator[None]:
    """Let all twins compile a fit alike: it rounds differently from steps, and native code takes long."""
    mode, native = model.compile, os.environ.get("SKNET_NATIVE", "auto")
    model.compile, os.environ["SKNET_NATIVE"] = "auto", "never"
    try:
        yield
    finally:
        model.compile, os.environ["SKNET_NATIVE"] = mode, native


@action(4)
def fit(rng: Generator) -> Act:
    batch, held_out = drawn_batch(rng, 8), drawn_batch(rng, 3)
    epochs, size, shuffle = int(rng.integers(1, 4)), int(rng.choice([3, 8])), bool(rng.random() < 0.5)
    validated, stops = bool(rng.random() < 0.5), bool(rng.random() < 0.3)

    def act(twin: Twin) -> Any:
        X, y, weight = batch(twin)
        more = {"X_val": held_out(twin).X, "y_val": held_out(twin).y} if validated else {}
        stopping = [EarlyStopping(patience=1)] if stops else []
        with compiled_by_numpy(twin.model):
            history = twin.model.fit(
                X, y, weight, epochs=epochs, batch_size=size, shuffle=shuffle, callbacks=stopping, **more
            )
        return {name: column for name, column in history.items() if name != "time"}

    return act


@action(4)
def train(rng: Generator) -> Act:
    drawn = [drawn_batch(rng) for _ in range(int(rng.integers(1, 5)))]
    limits = [{}, {"epochs": 2}, {"n_steps": 3}, {"n_steps": 5, "steps_per_epoch": 2}][int(rng.integers(4))]
    lazily = bool(rng.random() < 0.5)

    def act(twin: Twin) -> Any:
        def batches() -> Iterator[Batch]:
            return (batch(twin) for batch in drawn)

        with compiled_by_numpy(twin.model):
            history = twin.model.train(batches if lazily else list(batches()), **limits)
        return {name: column for name, column in history.items() if name != "time"}

    return act
