"""Running the native executor's source as plain Python, without Numba."""

import ctypes
import math

import numpy as np

from sknet import Model
from sknet.compile.executors.native._math import FUNCTIONS
from sknet.compile.executors.native._scalar import ScalarWriter
from sknet.compile.executors.native._value import Given, Map
from sknet.core import PRIMITIVES
from sknet.engine import Batches
from sknet.engine.loop._native_steps import NativeSteps
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._steps import CompiledSteps
from tests.contracts.rows import ROWS


def interpreted(source):
    """Return the generated function, uncompiled: NumPy raises for an index that is out of bounds."""
    text = source.replace("@loops\n", "").replace("@scalar\n", "")
    namespace = {}
    exec(text, namespace)
    namespace["product"] = lambda a, b, out, room: np.matmul(a, b, out)
    namespace["products"] = lambda a, b, out, room: np.matmul(a, b, out)
    namespace["call_host"] = lambda address, number: ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(
        int(address)
    )(number)
    namespace["plus"] = lambda total, x: total + x
    namespace["plus_product"] = lambda total, x, y: total + x * y
    return namespace["steps"]


class InterpretedSteps(NativeSteps):
    """Native steps whose source is interpreted."""

    def _new_run(self, n_rows):
        run = super()._new_run(n_rows)
        run.steps = interpreted(run.source)
        return run


class BoundsCheckedSteps(NativeSteps):
    """Native steps, compiled so that they raise for an index out of bounds; nothing goes to disk."""

    def _new_run(self, n_rows):
        run = super()._new_run(n_rows)
        namespace = {}
        exec(run.source.replace("boundscheck=False", "boundscheck=True"), namespace)
        run.steps = namespace["steps"]
        return run


def trained(
    kind, module, X, y, weight=None, *, size, epochs=1, order=None, check_finite=True, rows=None, **settings
):
    """Train a fresh model; return it, its losses and its outputs."""
    model = Model(module, random_state=0, **settings)
    batches = Batches(X, y, weight, size, model.dtype, model.device, rows)
    model.epoch_ended()  # some schedules count epochs: the first begins
    planned = (epochs * batches.n_batches,) if issubclass(kind, NativeSteps) else ()
    steps = kind(model, batches, check_finite, *planned)
    losses, outputs, kept = [], [], Outputs(batches.n_samples)
    with np.errstate(all="ignore"):
        for _ in range(epochs):
            done = 0
            while done < batches.n_batches:
                block = steps.run(order, done, outputs=kept)
                done += len(block.losses)
                losses += list(block.losses)
                kept.add(block.n_rows)
                outputs += [part.copy() for part in kept.parts(also_last=True)]
            model.epoch_ended()
    return model, np.array(losses), np.concatenate(outputs), steps


def assert_equal_training(kind, make_module, *args, tolerance, **settings):
    """Train both ways, by NumPy's plan and by `kind`, and compare all that training leaves."""
    expected, losses, outputs, _ = trained(CompiledSteps, make_module(), *args, **settings)
    found, native_losses, native_outputs, steps = trained(kind, make_module(), *args, **settings)

    def close(a, b):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)

    close(native_losses, losses)
    close(native_outputs, outputs)
    assert found.progress == expected.progress
    for mine, theirs in (
        (found.state.parameters, expected.state.parameters),
        (found.state.optimizer.slots, expected.state.optimizer.slots),
        (found.buffers, expected.buffers),
    ):
        assert set(mine) == set(theirs)
        for name, array in mine.items():
            close(array, theirs[name])
    return steps


ELEMENTWISE = [row for row in ROWS if row.primitive and PRIMITIVES[row.primitive].expression]


def written(row, dtype):
    """Return an op's result, its operands by name, its scalar expression, and what else that names."""
    [case, *_] = row.cases
    operands = case.draw(dtype)
    expected = row(*operands, **case.params).numpy().ravel()
    arrays = dict(zip("abc", (x.ravel() for x in np.broadcast_arrays(*operands)), strict=False))
    values = [Given(name, (), (), x.dtype, ()) for name, x in arrays.items()]
    writer = ScalarWriter(dtype)
    value = Map("out", tuple(values), (), expected.dtype, (), op=row.primitive)
    text = writer.expression(value, {x: f"{x.name}[i]" for x in values})
    numbers = {f"c{i}": writer.dtype.type(number) for i, number in enumerate(writer.numbers)}
    names = {"np": np, "math": math, "T": writer.dtype.type, **numbers}
    return expected, arrays, text, names | {name: FUNCTIONS[name] for name in writer.functions}
