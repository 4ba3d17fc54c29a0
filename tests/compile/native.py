"""Training in native code from the first step on, and comparing what is left to the last bit."""

import numpy as np

from sknet import Model
from sknet.device import to_host
from sknet.engine import Batches
from sknet.engine._device_runner import DeviceSteps
from sknet.engine._runner_cache import steps_for
from sknet.engine._runners import CompiledSteps, EagerSteps, NativeSteps, Outputs


class InspectedSteps(NativeSteps):
    """Native steps that tell what native code does."""

    @property
    def runs(self):
        """What native code does, for each number of rows; None where it does nothing."""
        return list(self._runs.values())


class ChangingSteps(InspectedSteps):
    """Steps by NumPy's plan and by native code, in turns."""

    _turns = 0

    def _run_for(self, *sizes):
        self._turns += 1
        return super()._run_for(*sizes) if self._turns % 3 == 2 else None


KINDS = {
    "eager": EagerSteps,
    "compiled": CompiledSteps,
    "native": InspectedSteps,
    "changing": ChangingSteps,
    "device": DeviceSteps,
}


def trained(
    kind,
    module,
    X,
    y,
    weight=None,
    *,
    size,
    epochs=1,
    order=None,
    check_finite=True,
    rows=None,
    is_scored=True,
    **settings,
):
    """Train a fresh model by a kind of steps; return it, its losses and its outputs.

    The order of rows is the same in all epochs, or a function of the epoch.
    """
    model = Model(module, random_state=0, **settings)
    batches = Batches(X, y, weight, size, model.dtype, model.device, rows)
    model.materialize(batches.X)
    model.epoch_ended()  # some schedules count epochs: the first begins
    steps = KINDS.get(kind, kind)(model, batches, check_finite)
    losses, outputs, kept = [], [], Outputs(batches.n_samples)
    with np.errstate(all="ignore"):
        for epoch in range(epochs):
            done, rows_of_epoch = 0, order(epoch) if callable(order) else order
            while done < batches.n_batches:
                block = steps.run(rows_of_epoch, done, outputs=kept if is_scored else None)
                done += len(block.losses)
                losses += list(block.losses)
                if is_scored:
                    kept.add(block.n_rows)
                    outputs += [to_host(part).copy() for part in kept.parts(also_last=True)]
            model.epoch_ended()
    return model, np.array(losses), np.concatenate(outputs or [np.empty(0)]), steps


def chosen(model, batches):
    """Return the kind of steps that a fit takes: "eager", "compiled", "native" or "device"."""
    names = {EagerSteps: "eager", CompiledSteps: "compiled", NativeSteps: "native", DeviceSteps: "device"}
    return names[type(steps_for(model, batches, True))]


def left_by(model):
    """Return parameters, slots and buffers of a model by name."""
    state, arrays = model.state, {}
    for prefix, part in (("parameter", state.parameters), ("buffer", model.buffers)):
        arrays |= {f"{prefix} {name}": np.array(array) for name, array in part.items()}
    for slot, array in state.optimizer.slots.items():
        for name, place in model.memory.layout.slices.items():
            arrays[f"slot {slot} of {name}"] = np.array(array[place])
    return arrays


def assert_same_bits(found, expected):
    """Compare arrays by name."""
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        signs = [np.signbit(x) for x in (found[name], array) if x.dtype.kind == "f"]
        assert not signs or (signs[0] == signs[1])[~np.isnan(array)].all(), f"the sign of a zero in {name}"


def assert_equal_training(make_module, *args, **settings):
    """Train both ways, by NumPy's plan and in native code, and compare all that is left, bit by bit."""
    expected, losses, outputs, _ = trained(CompiledSteps, make_module(), *args, **settings)
    found, native_losses, native_outputs, steps = trained(InspectedSteps, make_module(), *args, **settings)
    assert found.progress == expected.progress
    assert_same_bits(
        left_by(found) | {"losses": native_losses, "outputs": native_outputs},
        left_by(expected) | {"losses": losses, "outputs": outputs},
    )
    return steps
