"""Outputs are written once, where they are scored, in parts of one size, and only if they are read."""

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn
from sknet.engine import Accuracy, Batches, History, Score, _runners
from sknet.engine._loop import Settings, train
from sknet.engine._runners import NativeSteps, Outputs
from tests.callbacks.helpers import unconverged

RNG = np.random.default_rng(0)
X, CLASSES = RNG.normal(size=(50, 4)).astype("f4"), RNG.integers(0, 3, 50)


def written(outputs, rows, size, rng):
    """Write the rows as blocks of batches would; return the parts."""
    found, start = [], 0
    while start < len(rows):
        one = min(size, len(rows) - start)
        free = outputs.free(one, rows.shape[1:], rows.dtype)
        stop = min(start + one * int(rng.integers(1, 4)), start + len(free) // one * one, len(rows))
        stop = stop if (stop - start) % one == 0 else start + one
        free[: stop - start] = rows[start:stop]
        outputs.add(stop - start)
        found += [part.copy() for part in outputs.parts()]
        start = stop
    return [*found, *[part.copy() for part in outputs.parts(also_last=True)]]


@pytest.mark.parametrize("seed", range(30))
def test_parts_do_not_depend_on_blocks(seed, monkeypatch):
    monkeypatch.setattr(_runners, "MOST_KEPT", 60)
    rng = np.random.default_rng(seed)
    n_samples, size, width = int(rng.integers(1, 80)), int(rng.integers(1, 30)), int(rng.integers(1, 90))
    shape = (width,) if seed % 2 else (width, 2)
    expected = max(1, min(n_samples, 60 // int(np.prod(shape))))
    outputs = Outputs(n_samples)
    for _ in range(2):  # epochs
        rows = rng.normal(size=(n_samples, *shape)).astype("f4")
        parts = written(outputs, rows, size, rng)
        assert [len(part) for part in parts[:-1]] == [expected] * (len(parts) - 1)
        np.testing.assert_array_equal(np.concatenate(parts), rows)
        assert outputs.n_rows == 0


def test_what_is_scored_by_batch_is_one_part():
    outputs = Outputs(None)
    for shape in ((5, 3), (7, 3), (2, 4, 3), (7, 3)):
        rows = RNG.normal(size=shape)
        outputs.free(len(rows), rows.shape[1:], rows.dtype)[: len(rows)] = rows
        outputs.add(len(rows))
        [part] = outputs.parts(also_last=True)
        np.testing.assert_array_equal(part, rows)


class Looking(Score):
    """Records the memory of outputs."""

    def __init__(self, seen):
        self._seen = seen

    def add(self, output, target, weight, rows=None):
        self._seen.append(output)

    def result(self):
        return 0.0

    def state(self):
        return {}

    def load_state(self, state):
        pass


KINDS = {"native": (True, "always"), "plan": (True, "never"), "eager": (False, "never")}


@pytest.mark.parametrize(("compiled", "native"), KINDS.values(), ids=KINDS)
def test_outputs_are_scored_where_steps_wrote_them(compiled, native, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", native)
    rooms, seen, free = [], [], Outputs.free

    def noted(self, *args):
        rooms.append(free(self, *args))
        return rooms[-1]

    monkeypatch.setattr(Outputs, "free", noted)
    model = Model(nn.Linear(4, 3), "log_loss", random_state=0, compile=compiled)
    batches = Batches(X, CLASSES, None, 8, model.dtype, model.device)
    train(model, batches, History(), Settings(3), lambda: Looking(seen))
    assert [part.shape for part in seen] == [(50, 3)] * 3  # an epoch at once
    assert all(np.shares_memory(part, seen[0]) for part in seen)
    assert all(np.shares_memory(room, seen[0]) for room in rooms)


def fit_estimator(**params):
    with unconverged():
        return MLPClassifier((5,), max_iter=3, random_state=0, **params).fit(X, CLASSES)


def fit_model(**params):
    return Model(nn.Linear(4, 3), "log_loss", random_state=0).fit(X, CLASSES, epochs=3, **params)


def fit_stream(**params):
    return Model(nn.Linear(4, 3), "log_loss", random_state=0).train([(X, CLASSES)], epochs=3, **params)


HELD_OUT = {"X_val": X, "y_val": CLASSES}

# Fits without and with a score.
FITS = {
    "estimator": (fit_estimator, {"scoring": "loss"}, {}),
    "stopping": (fit_estimator, {"scoring": "loss", "early_stopping": True}, {"early_stopping": True}),
    "model": (fit_model, {}, {"scores": "accuracy"}),
    "model, validated": (fit_model, HELD_OUT, {**HELD_OUT, "scores": "accuracy"}),
    "stream": (fit_stream, HELD_OUT, {**HELD_OUT, "scores": "accuracy"}),
}


@pytest.mark.parametrize(("fit", "without", "params"), FITS.values(), ids=FITS)
@pytest.mark.parametrize("native", ["never", "always"])
def test_outputs_that_nobody_reads_are_not_kept(fit, without, params, native, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", native)
    kept, scored, free, add = [], [], Outputs.free, Accuracy.add
    monkeypatch.setattr(Outputs, "free", lambda self, *args: kept.append(self) or free(self, *args))
    monkeypatch.setattr(Accuracy, "add", lambda self, *args: scored.append(self) or add(self, *args))
    run, of_epochs = NativeSteps.run_epochs, Accuracy.of_epochs
    monkeypatch.setattr(
        NativeSteps, "run_epochs", lambda *args: (kept.append(args) if args[3] else None) or run(*args)
    )
    monkeypatch.setattr(Accuracy, "of_epochs", lambda *args: scored.append(args) or of_epochs(*args))
    loss = fit(**without)
    assert not kept
    assert not scored
    scores = fit(**params)
    assert kept
    assert scored
    one, other = (getattr(found, "history_", found) for found in (loss, scores))
    assert one["loss"] == other["loss"]
