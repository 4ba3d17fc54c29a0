"""Compiled forward passes, for a few rows on the host or chunks on a device."""

import types
from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from sknet._config import native_core
from sknet._warnings import silently
from sknet.compile import Compiled, native
from sknet.compile.extend import compile_cached
from sknet.core import Tensor, no_grad
from sknet.device import Device, Issued, active, backend, device_of
from sknet.engine._fingerprint import Fingerprint, structure_of
from sknet.engine._inputs import arguments, computed_dtype, each_input, n_rows
from sknet.engine._model_type import ModelLike
from sknet.engine._optimizer import averaging
from sknet.engine._state import Layout
from sknet.exceptions import CaptureError
from sknet.nn import Module, Scope, bindings, run
from sknet.nn.extend import latest

if TYPE_CHECKING:
    from sknet.compile.native import NativeStep

__all__ = [
    "MOST_ROWS",
    "DevicePredictor",
    "Head",
    "Pass",
    "Predictor",
    "Predictors",
    "are_equal",
    "forward_function",
    "rows_of_a_part",
]


class Head(Protocol):
    """Maps raw outputs to predictions, in operations that can be captured."""

    def __call__(self, output: Tensor, /) -> Tensor:
        """Return the predictions, row by row."""


class Pass(Protocol):
    """A forward pass, or a part of one that ends at some layer; `sknet.nn.run` is one."""

    def __call__(self, module: Module, scope: Scope, args: Any, /) -> Any:
        """Run a module, or a part of it, in a scope on the arguments of its forward pass."""


FEW_ROWS = 16  # up to this many rows, there is a program for each number of rows
MOST_PROGRAMS = 64  # per predictor: each has its own memory
MOST_ROWS = 1024  # for larger chunks, the overhead of one call each is negligible


def rows_of_a_part(n: int) -> int:
    """Return how many of some rows a program computes at once."""
    return n if n <= FEW_ROWS else 1 << (n.bit_length() - 1)


class Fixed:
    """The fingerprint of a module that cannot change."""

    @staticmethod
    def holds() -> bool:
        """Return True."""
        return True


class Predictor:
    """A module's forward pass and a head, compiled for several numbers of rows."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Predictor holds programs of this process and cannot be pickled or copied: pickle the model or "
            "the frozen estimator"
        )

    def __init__(
        self,
        module: Module,
        layout: Layout,
        flat: Any,
        head: Head | None = None,
        most_rows: int = MOST_ROWS,
        by: Pass = run,
        is_fixed: bool = False,
    ) -> None:
        self.flat, self._is_fixed = flat, is_fixed
        self._most_rows = rows_of_a_part(most_rows)
        self._module, self._layout, self._head, self._by = module, layout, head, by
        # One tuple, so that a thread never combines programs with another thread's fingerprint.
        self._made: tuple[Fingerprint | Fixed | None, dict[Any, list[Any]]] = (None, {})

    def is_for(self, flat: Any, head: Head | None) -> bool:
        """Tell whether this predicts with the parameters in `flat`, and with this `head`."""
        return self.flat is flat and (self._head is head or are_equal(self._head, head))

    def __call__(self, X: Any) -> Any:
        """Return the result for some rows, as a new array."""
        rows = X.shape[0] if type(X) is np.ndarray else n_rows(X)
        size = min(rows_of_a_part(rows), self._most_rows)
        if size == rows:
            return self.at_once(X)
        whole, start = None, 0
        while start < rows:
            stop = start + min(rows_of_a_part(rows - start), size)
            chosen = slice(start, stop)
            part = self.at_once(each_input(lambda x, chosen=chosen: x[chosen], X))
            if whole is None:
                whole = np.empty((rows, *part.shape[1:]), part.dtype)
            whole[start:stop], start = part, stop
        return whole

    def at_once(self, X: Any) -> Any:
        """Return the result for as many rows as `X` has, by a program of their own."""
        fingerprint, by_rows = self._made
        if fingerprint is not None and not fingerprint.holds():
            self._made = None, {}
            by_rows = self._made[1]
        key = _shape_of(X)
        waiting = by_rows.get(key)
        if waiting is None:
            if len(by_rows) >= MOST_PROGRAMS:
                by_rows.clear()
            waiting = by_rows.setdefault(key, [])
        try:
            program = waiting.pop()
        except IndexError:
            program = self._program(X)
            # Taken after the capture, which may have set attributes of the module.
            if self._made[1] is by_rows:  # otherwise another thread has found these programs stale
                self._made = self._fingerprint(), by_rows
        run_program, slot, result, buffers, _ = program
        if type(slot) is dict:
            for name, x in X.items():
                slot[name][...] = x
        else:
            slot[...] = X
        if buffers:
            self._fill(buffers)
        run_program()
        found = result.copy()
        waiting.append(program)
        return found

    def of_row(self, X: np.ndarray) -> Any:
        """Return the result for one row of a table, if a program for it is there and both are finite."""
        fingerprint, by_rows = self._made
        waiting = by_rows.get(1)
        if not waiting or fingerprint is None or not fingerprint.holds():
            return None
        try:
            program = waiting.pop()
        except IndexError:  # another thread has taken the last
            return None
        _, _, result, buffers, of_row = program
        if buffers:
            self._fill(buffers)
        found = result.copy() if of_row(X) else None
        waiting.append(program)
        return found

    def _fingerprint(self) -> "Fingerprint | Fixed":
        module, head = self._module, self._head
        # A user's own module might change itself.
        if self._is_fixed and structure_of(module, head, self._by) is not None:
            return Fixed()
        return Fingerprint(module, head)

    def _fill(self, buffers: dict[str, Any]) -> None:
        known = dict(self._module.named_buffers())
        for name, place in buffers.items():
            place[...] = known[name].data

    def _program(self, X: Any) -> tuple[Any, ...]:
        layout, module, head, by = self._layout, self._module, self._head, self._by
        forward = forward_function(module, layout, head, by)
        buffers = {name: np.asarray(b.data) for name, b in module.named_buffers()}
        frozen = {name: p.data for name, p in module.own_parameters() if name not in layout.slices}
        with no_grad():
            inputs = each_input(lambda x: np.zeros(x.shape, computed_dtype(x, self.flat.dtype)), X)
            args = (self.flat, {**buffers, **frozen}, inputs)
            known = structure_of(module, head, by)
            structure = None if known is None else ("forward", known, tuple(layout.shapes))
            program = compile_cached(structure, forward, args, slots=(self.flat, frozen, None), exact=True)
        replaced = {name: program.slots[1][name] for name in buffers}
        slot, result = program.slots[2], program.result
        if native_core() is not None:
            nbytes = program.nbytes + self.flat.nbytes
            step = native.NativeStep.of(program.calls(), slot, result, nbytes)
            if step is not None:
                return partial(_run, step, program), slot, result, replaced, step.row
        return program.run, slot, result, replaced, _of_row(program.run, slot, result)


def forward_function(module: Module, layout: Layout, head: Head | None, by: Pass) -> Callable[..., Tensor]:
    """Return the pure function of parameters and inputs that a predictor captures."""
    places = bindings(module)

    def forward(flat: Tensor, untrained: dict[str, Tensor], X: Any) -> Tensor:
        values = {**layout.views(flat), **untrained}
        scope = Scope({places[name]: value for name, value in values.items()})
        output = by(module, scope, arguments(X))
        return output if head is None else head(output)

    return forward


def _run(step: "NativeStep", program: Compiled) -> None:
    if not step.run():
        program.run()  # an index is out of bounds, and NumPy says which


def _of_row(run: Callable[[], Any], slot: Any, result: Any) -> Callable[[Any], bool]:
    """Return what runs a program for a row without NumPy's warnings, and tells whether all is finite."""
    arrays = (slot, result)
    if not all(type(x) is np.ndarray and x.dtype.kind == "f" and x.flags.c_contiguous for x in arrays):
        return lambda X: False
    row, outcome, dtype = slot.reshape(-1), result.reshape(-1), slot.dtype

    def compute(X: Any) -> bool:
        if X.dtype.kind not in "fiu":
            return False
        if X.dtype is dtype:
            slot[...] = X
        else:
            np.copyto(slot, X, "unsafe")
        if not isfinite(row.dot(row)):  # in a quarter of the time of a sum
            return False
        run()
        return isfinite(outcome.dot(outcome))

    return partial(silently(all="ignore"), compute)


def _shape_of(X: Any) -> Any:
    """Return the key of the program that computes the result for X."""
    if type(X) is dict:
        return tuple([(name, x.shape, x.dtype) for name, x in X.items()])
    # For tables, the number of rows suffices; sequences may have any length.
    return X.shape[0] if X.ndim == 2 and X.dtype.kind == "f" else (X.shape, X.dtype)


def are_equal(one: Any, other: Any) -> bool:
    """Tell whether two heads are equivalent: closures created for each call are not identical."""
    if one is other or one == other:
        return True
    if type(one) is not types.FunctionType or type(other) is not types.FunctionType:
        return False
    if one.__code__ is not other.__code__ or one.__defaults__ != other.__defaults__:
        return False
    cells = [[cell.cell_contents for cell in function.__closure__ or ()] for function in (one, other)]
    return cells[0] == cells[1]


class Predictors:
    """Compiled forward passes by name, each created on first use; copies and pickles are empty."""

    def __init__(self) -> None:
        self._known: dict[str, Predictor] = {}
        self._on_device: dict[str, DevicePredictor] = {}
        self._given_up: dict[str, object] = {}  # the mark of the settings when a capture failed
        self._seen: set[tuple[str, int]] = set()  # names and numbers of rows

    def has_seen(self, X: Any, name: str, rows: int) -> bool:
        """Tell whether so few rows came before: then a program for them pays, and has the same bits."""
        if (name, rows) not in self._seen:
            return False
        arrays = X.values() if isinstance(X, dict) else (X,)
        return all(x.flags.c_contiguous for x in arrays)

    def see(self, name: str, rows: int) -> None:
        """Note that so few rows came, and were computed at once."""
        self._seen.add((name, rows))

    def of_row(self, model: ModelLike, X: Any, name: str, head: Head | None) -> Any:
        """Return the result for the only row of a table not checked yet, see `Predictor.of_row`."""
        predictor = self._known.get(name)
        if predictor is None or not predictor.is_for(_parameters(model), head):
            return None
        return predictor.of_row(X)

    def compute(
        self,
        model: ModelLike,
        X: Any,
        name: str,
        head: Head | None,
        by: Pass = run,
        most_rows: int = MOST_ROWS,
    ) -> Any:
        """Return the result of a pass and a head for some rows."""
        memory, flat = model.memory, _parameters(model)
        predictor = self._known.get(name)
        if predictor is None or not predictor.is_for(flat, head):
            if flat is None or memory.device.kind != "cpu" or self._given_up.get(name) is latest.settings:
                return None
            predictor = Predictor(memory.module, memory.layout, flat, head, most_rows, by)
            self._known[name] = predictor
        try:
            return predictor(X)
        except CaptureError:
            self._known.pop(name, None)
            self._given_up[name] = latest.settings
            return None

    def compute_chunk(self, model: ModelLike, X: Any, name: str, head: Head | None, by: Pass) -> Any:
        """Return the result of a pass and a head for a chunk of rows on a device that compiles kernels."""
        memory, flat = model.memory, model.memory.flat
        if flat is None or model.optimizer.averaging or self._given_up.get(name) is latest.settings:
            return None
        predictor = self._on_device.get(name)
        if predictor is None or not predictor.is_for(flat, head):
            of = memory.module, memory.layout, flat, head, by, device_of(flat), model.precision
            predictor = DevicePredictor(*of)
            self._on_device[name] = predictor
        try:
            return predictor(X)
        except CaptureError:
            self._on_device.pop(name, None)
            self._given_up[name] = latest.settings
            return None

    def forget(self, flat: Any) -> None:
        """Give back the memory of programs on a device that read these parameters, and the parameters'."""
        for name, predictor in list(self._on_device.items()):
            if predictor.flat is flat:
                self._on_device.pop(name, None)

    def __reduce__(self) -> Any:
        return Predictors, ()


def _parameters(model: ModelLike) -> Any:
    """Return the parameters that a model predicts with, as one array, or None."""
    optimizer = averaging(model)
    return model.memory.flat if optimizer is None else model.memory.averaged(optimizer)


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
            if shape != _device_shape_of(X) or fingerprint is None or not fingerprint.holds():
                waiting = []
            try:
                program = waiting.pop()
            except IndexError:  # there is none, or another thread has taken it
                program = self._program(X)
                # Taken after the capture, which may have set attributes of the module.
                if waiting is not self._made[2]:
                    self._made = Fingerprint(self._module, self._head), _device_shape_of(X), waiting
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


def _device_shape_of(X: Any) -> Any:
    return tuple([(n, x.shape, x.dtype) for n, x in X.items()]) if isinstance(X, dict) else (X.shape, X.dtype)
