"""Forward passes of whole chunks of rows on a device: compiled, and repeated as a graph."""

from typing import Any, NoReturn

from sknet.compile.extend import compile_cached
from sknet.core import no_grad
from sknet.device import Device, Issued, active, backend
from sknet.engine.predict._predictor import Head, Pass, are_equal, forward_function
from sknet.engine.state import Fingerprint, Layout, each_input, structure_of
from sknet.nn import Module

__all__ = ["DevicePredictor"]


class DevicePredictor:
    """A module's forward pass and a head on a device, compiled for one shape of inputs."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DevicePredictor holds programs of this process and cannot be pickled or copied")

    def __init__(
        self,
        module: Module,
        layout: Layout,
        flat: Any,
        head: Head | None,
        by: Pass,
        device: Device,
        precision: str,
    ) -> None:
        self.flat = flat
        self._module, self._layout, self._head, self._by = module, layout, head, by
        self._device, self._precision = device, precision
        # One tuple, so that a thread never combines a program with another thread's fingerprint.
        self._made: tuple[Fingerprint | None, Any, list[Any]] = (None, None, [])

    def is_for(self, flat: Any, head: Head | None) -> bool:
        """Tell whether this predicts with the parameters in `flat`, and with this `head`."""
        return self.flat is flat and are_equal(self._head, head)

    def __call__(self, X: Any) -> Any:
        """Return the result for a chunk of rows on the device, as a new array."""
        with active(self._device, self._precision):
            fingerprint, shape, waiting = self._made
            if shape != _shape_of(X) or fingerprint is None or not fingerprint.holds():
                waiting = []
            try:
                program = waiting.pop()
            except IndexError:  # there is none, or another thread has taken it
                program = self._program(X)
                # Taken after the capture, which may have set attributes of the module.
                if waiting is not self._made[2]:
                    self._made = Fingerprint(self._module, self._head), _shape_of(X), waiting
            run, slots, result = program
            untrained, slot = slots[1], slots[2]
            known = dict(self._module.named_buffers())
            for name, buffer in known.items():
                untrained[name][...] = buffer.data
            if isinstance(X, dict):
                for name, x in X.items():
                    slot[name][...] = x
            else:
                slot[...] = X
            run()
            found = result.copy()
        waiting.append(program)
        return found

    def _program(self, X: Any) -> tuple[Any, ...]:
        module, layout, head, by = self._module, self._layout, self._head, self._by
        zeros = backend(self._device.kind).zeros
        buffers = {name: zeros(b.shape, b.dtype, self._device) for name, b in module.named_buffers()}
        frozen = {name: p.data for name, p in module.own_parameters() if name not in layout.slices}
        with no_grad():
            inputs = each_input(lambda x: zeros(x.shape, x.dtype, self._device), X)
            args = (self.flat, {**buffers, **frozen}, inputs)
            known = structure_of(module, head, by)
            structure = None if known is None else ("forward", known, tuple(layout.shapes))
            forward = forward_function(module, layout, head, by)
            program = compile_cached(structure, forward, args, slots=(self.flat, frozen, None))
        return Issued(program.run, self._device), program.slots, program.result


def _shape_of(X: Any) -> Any:
    return tuple([(n, x.shape, x.dtype) for n, x in X.items()]) if isinstance(X, dict) else (X.shape, X.dtype)
