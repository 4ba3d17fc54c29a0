"""Predictions for any number of rows: compiled passes, and chunks of bounded memory."""

import math
import types
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from sknet._config import native_core
from sknet._frames import all_finite
from sknet._parallel import Cache, blas_threads
from sknet._warnings import silently, warn_caller
from sknet.compile import Compiled, native
from sknet.compile._compile import compile_cached
from sknet.core import Tensor, no_grad
from sknet.device import Device, Issued, active, backend, device_of, namespace, to_device, to_host
from sknet.engine._batches import Buckets, ComputedRows, take_rows
from sknet.engine._fingerprint import Fingerprint, structure_of
from sknet.engine._inputs import (
    any_sparse,
    are_arrays,
    arguments,
    check_output,
    computed_dtype,
    each_input,
    fed_inputs,
    n_rows,
    row_shapes,
)
from sknet.engine._memory import Layout
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import as_operands, averaging
from sknet.exceptions import CaptureError, DeviceError, GraphError
from sknet.nn import Module, Scope, bindings, largest_activation, run
from sknet.nn._parameter import latest

if TYPE_CHECKING:
    from sknet.compile.native import NativeStep, Units


class Head(Protocol):
    """Maps raw outputs to predictions, in operations that can be captured."""

    def __call__(self, output: Tensor, /) -> Tensor:
        """Return the predictions, row by row."""


class Pass(Protocol):
    """A forward pass, or a part of one that ends at some layer; `sknet.nn.run` is one."""

    def __call__(self, module: Module, scope: Scope, args: Any, /) -> Any:
        """Run a module, or a part of it, in a scope on the arguments of its forward pass."""


@dataclass(frozen=True)
class SubPass:
    """A pass through one module of a network on its own, such as a decoder."""

    path: str

    def __call__(self, module: Module, scope: Scope, args: tuple[Any, ...]) -> Any:
        """Run the module at the path in a scope of the whole network."""
        return run(module.get_submodule(self.path), scope, args)


HOST = Device("cpu")
FEW_ROWS = 16  # up to this many rows, there is a program for each number of rows
MOST_PROGRAMS = 64  # per predictor on the host: each has its own memory
MOST_REPEATED = 4  # numbers of rows that have a program because they come again and again
MOST_ROWS = 1024  # for larger chunks, the overhead of one call each is negligible
LEAST_ROWS = 64  # of sequences that are worth passes of their own for similar lengths
# Few rows of the host are predicted there, by a network on a device with so few parameters.
MOST_BYTES, MOST_PRODUCTS = 1 << 16, 1 << 20
ALONE = 1 << 18  # multiplications of few rows from which on BLAS would have threads, and has one


def threads_of(n: int, layout: Layout) -> int | None:
    """Return how many threads BLAS may have for some rows; None for as many as it likes."""
    # Services predict few rows, often beside others: threads that wait for a busy core would take far longer.
    # However rows are computed, the number is the same, since sums depend on it.
    return 1 if n <= FEW_ROWS and n * layout.size >= ALONE else None


def rows_of_a_part(n: int) -> int:
    """Return how many of some rows a program computes at once."""
    return n if n <= FEW_ROWS else 1 << (n.bit_length() - 1)


class Fixed:
    """The fingerprint of a module that cannot change."""

    @staticmethod
    def holds() -> bool:
        return True


class _HoldsPrograms:
    """Base of what holds programs of this process, and so cannot be pickled."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} holds programs of this process and cannot be pickled or copied: pickle "
            "the model or the frozen estimator"
        )


class Predictor(_HoldsPrograms):
    """A module's forward pass and a head, compiled for several numbers of rows."""

    def __init__(
        self,
        module: Module,
        layout: Layout,
        flat: Any,
        head: Head | None = None,
        by: Pass = run,
        device: Device = HOST,
        *,
        is_fixed: bool = False,
    ) -> None:
        self._flat, self._is_fixed = flat, is_fixed
        self._module, self._layout, self._head, self._by = module, layout, head, by
        self._device, self._is_host = device, device.kind == "cpu"
        # One tuple, so that a thread never combines programs with another thread's fingerprint.
        self._made: tuple[Fingerprint | Fixed | None, dict[Any, list[Any]]] = (None, {})

    def has(self, head: Head | None) -> bool:
        return self._head is head or are_equal(self._head, head)

    def in_parts(self, X: Any, most_rows: int = MOST_ROWS) -> Any:
        """Return the result for any number of rows, by programs for powers of two and for few rows."""
        rows = n_rows(X)
        size = min(rows_of_a_part(rows), rows_of_a_part(most_rows))
        if size == rows:
            return self(X)
        whole, start = None, 0
        while start < rows:
            stop = start + min(rows_of_a_part(rows - start), size)
            chosen = slice(start, stop)
            part = self(each_input(lambda x, chosen=chosen: x[chosen], X))
            if whole is None:
                whole = np.empty((rows, *part.shape[1:]), part.dtype)
            whole[start:stop], start = part, stop
        return whole

    def __call__(self, X: Any) -> Any:
        """Return the result for as many rows as `X` has, by a program of their own, as a new array."""
        fingerprint, by_rows = self._made
        if fingerprint is not None and not fingerprint.holds():
            self._made = None, {}
            by_rows = self._made[1]
        key = _shape_of(X)
        waiting = by_rows.get(key)
        if waiting is None:
            if len(by_rows) >= (MOST_PROGRAMS if self._is_host else 1):
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

    def unchecked(self, X: np.ndarray, units: "Units | None" = None) -> Any:
        """Return the result for a table in units, if a program is there and all numbers are finite."""
        fingerprint, by_rows = self._made
        waiting = by_rows.get(X.shape[0])
        if not waiting or fingerprint is None or not fingerprint.holds():
            return None
        try:
            program = waiting.pop()
        except IndexError:  # another thread has taken the last
            return None
        _, _, result, buffers, compute = program
        if buffers:
            self._fill(buffers)
        found = result.copy() if compute(X, units) else None
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
        zeros = backend(self._device.kind).zeros
        buffers = {name: zeros(b.shape, b.dtype, self._device) for name, b in module.named_buffers()}
        frozen = {name: p.data for name, p in module.own_parameters() if name not in layout.slices}
        with no_grad():
            inputs = each_input(
                lambda x: zeros(x.shape, computed_dtype(x, self._flat.dtype), self._device), X
            )
            args = (self._flat, {**buffers, **frozen}, inputs)
            known = structure_of(module, head, by)
            structure = None if known is None else ("forward", known, tuple(layout.shapes))
            slots = (self._flat, frozen, None)
            program = compile_cached(structure, forward, args, slots=slots, exact=self._is_host)
        replaced = {name: program.slots[1][name] for name in buffers}
        slot, result = program.slots[2], program.result
        if not self._is_host:
            return Issued(program.run, self._device), slot, result, replaced, None
        run, compute = program.run, _unchecked(program.run, slot, result)
        if native_core() is not None:
            nbytes = program.nbytes + self._flat.nbytes
            step = native.NativeStep.of(program.calls(), slot, result, nbytes)
            if step is not None:
                run, compute = partial(_run, step, program), step.unchecked
        limit = threads_of(n_rows(X), layout)
        if limit is not None:
            run, compute = (_with_threads(each, limit) for each in (run, compute))
        return run, slot, result, replaced, compute


def forward_function(module: Module, layout: Layout, head: Head | None, by: Pass) -> Callable[..., Tensor]:
    """Return the pure function of parameters and inputs that a predictor captures."""
    places = bindings(module)

    def forward(flat: Tensor, untrained: dict[str, Tensor], X: Any) -> Tensor:
        values = {**layout.views(flat), **untrained}
        scope = Scope({places[name]: value for name, value in values.items()})
        output = by(module, scope, arguments(X))
        return output if head is None else head(output)

    return forward


def _with_threads(function: Callable[..., Any], limit: int) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with blas_threads(limit):
            return function(*args)

    return run


def _run(step: "NativeStep", program: Compiled) -> None:
    if not step.run():
        program.run()  # an index is out of bounds, and NumPy says which


def _unchecked(run: Callable[[], Any], slot: Any, result: Any) -> Callable[..., bool]:
    """Return what runs a program for a table without NumPy's warnings, and tells whether all is finite."""
    arrays = (slot, result)
    if not all(type(x) is np.ndarray and x.dtype.kind == "f" and x.flags.c_contiguous for x in arrays):
        return lambda X, units: False
    row, outcome, dtype = slot.reshape(-1), result.reshape(-1), slot.dtype

    def compute(X: Any, units: "Units | None") -> bool:
        if X.dtype.kind not in "fiu" or X.shape != slot.shape or not (len(X) == 1 or X.flags.c_contiguous):
            return False
        if units is not None:
            if not np.isfinite(X).all():  # infinity may be clipped
                return False
            X = units.scaled(X, dtype)
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


class Network(_HoldsPrograms):
    """A module, the parameters that it predicts with, and its compiled passes by name."""

    # `is_fixed` is for a module that never changes and predicts again and again: it has more programs.

    def __init__(
        self,
        module: Module,
        layout: Layout,
        flat: Any,
        dtype: Any,
        device: Device = HOST,
        precision: str | None = None,
        *,
        is_average: bool = False,
        is_fixed: bool = False,
    ) -> None:
        self.module, self.layout, self.flat, self.dtype = module, layout, flat, np.dtype(dtype)
        self.device, self.precision = device, precision
        self.draws: tuple[Any, Any] = (None, 0)  # key and step of the random stream
        self._is_average, self._is_fixed, self._is_host = is_average, is_fixed, device.kind == "cpu"
        self._values: dict[Any, Tensor] = {}
        if is_average:  # the module has other parameters
            places = bindings(module)
            with active(device):
                self._values = {places[name]: Tensor(view) for name, view in layout.views(flat).items()}
        self._predictors: dict[str, Predictor] = {}
        self._given_up: dict[str, object] = {}  # the mark of the settings when a capture failed
        self._rows: dict[Any, int] = {}
        self._seen: set[tuple[str, int]] = set()  # names and numbers of rows
        self._latest, self._repeated = 0, frozenset[int]()
        self._made: tuple[Fingerprint | None, Network | None] = (None, None)  # on the host

    @classmethod
    def fixed(cls, module: Module, dtype: Any) -> "Network":
        """Return the network of a module that never changes; its parameters become views of one array."""
        parameters = dict(module.named_parameters())
        layout = Layout({path: tuple(parameter.shape) for path, parameter in parameters.items()})
        flat = np.zeros(layout.size, dtype)
        layout.fill(flat, {path: parameter.data for path, parameter in parameters.items()})
        for path, view in layout.views(flat).items():
            parameters[path].data = view
        return cls(module, layout, flat, dtype, is_fixed=True)

    def unchecked(
        self, X: np.ndarray, name: str, head: Head | None = None, *, units: "Units | None" = None
    ) -> Any:
        """Return the result for a table of numbers not checked yet, see `Predictor.unchecked`."""
        # Where the network is fixed, the name determines the head.
        known = self._predictors.get(name)
        if known is None or not self._is_host or not (self._is_fixed or known.has(head)):
            return None
        return known.unchecked(X, units)

    def compute(self, X: Any, name: str = "raw", head: Head | None = None, by: Pass = run) -> Any:
        """Return the result of a pass and a head for all rows, those of similar lengths together."""
        if by is run and not self._is_host and self._are_few(X) and structure_of(None, head) is not None:
            found = self._on_host()
            if found is not None:
                return found.compute(X, name, head)
        if self._is_host and type(X) is dict and n_rows(X) >= LEAST_ROWS:
            found = _by_width(self, X, lambda part: self._computed(part, name, head, by), by)
            if found is not None:
                return found
        return self._computed(X, name, head, by)

    def _computed(self, X: Any, name: str, head: Head | None, by: Pass) -> Any:
        n = X.shape[0] if type(X) is np.ndarray else n_rows(X)
        in_parts = by is not run and self._is_host and type(X) is np.ndarray  # outputs of layers
        rows = 1 if n == 1 else self.rows_at_once(X, by)
        if in_parts or self._has_program(X, name, n, rows):
            found = self._compiled(X, name, head, by, rows if in_parts else None)
            if found is not None:
                return found

        def compute(chunk: Any) -> Any:
            return self.chunk(chunk, rows < n and n_rows(chunk) == rows, name, head, by)

        return in_chunks(compute, X, rows, self.dtype, self.device, self.precision)

    def chunk(
        self, X: Any, comes_again: bool, name: str = "raw", head: Head | None = None, by: Pass = run
    ) -> Any:
        """Return the result for some rows at once; on a device by a program, if as many come again."""
        with no_grad(), active(self.device, self.precision):
            if comes_again and not (self._is_host or self._is_average or any_sparse(X)):
                found = self._compiled(X, name, head, by, None)
                if found is not None:
                    return found
            scope = Scope(self._values, False, *self.draws)
            with blas_threads(threads_of(n_rows(X), self.layout) if self._is_host else None):
                output = by(self.module, scope, arguments(as_operands(self, X)))
                if by is run:
                    check_output(self.module, output)
                return apply_head(head, output.data)

    def _compiled(self, X: Any, name: str, head: Head | None, by: Pass, most_rows: int | None) -> Any:
        """Return the result by programs, in parts of `most_rows` if given; None if there can be none."""
        if self.flat is None or self._given_up.get(name) is latest.settings:
            return None
        predictor = self._predictors.get(name)
        if predictor is None or not predictor.has(head):
            of = self.module, self.layout, self.flat, head, by, self.device
            predictor = self._predictors[name] = Predictor(*of, is_fixed=self._is_fixed)
        try:
            return predictor(X) if most_rows is None else predictor.in_parts(X, min(MOST_ROWS, most_rows))
        except (CaptureError, GraphError):
            self._predictors.pop(name, None)
            self._given_up[name] = latest.settings  # computed one operation after the other
            return None

    def _has_program(self, X: Any, name: str, n: int, rows: int) -> bool:
        """Tell whether a program computes all rows, to the same bits as one operation after the other."""
        is_array = type(X) is np.ndarray
        if not self._is_host or not (is_array or are_arrays(X)):
            return False
        if n == 1:
            return True
        is_contiguous = X.flags.c_contiguous if is_array else all(x.flags.c_contiguous for x in X.values())
        if not is_contiguous or n > rows or n > MOST_ROWS:
            return False
        if self._is_fixed:
            return n == rows_of_a_part(n) or self._is_repeated(n)
        key = name, n  # so few rows are worth a program if they came before
        if n > FEW_ROWS or key in self._seen:
            return n <= FEW_ROWS
        self._seen.add(key)
        return False

    def _is_repeated(self, n: int) -> bool:
        """Tell whether batches come in one size, which is worth a program."""
        before, self._latest = self._latest, n
        if n == before and len(self._repeated) < MOST_REPEATED:
            self._repeated |= {n}
        return n in self._repeated

    def _are_few(self, X: Any) -> bool:
        """Tell by shapes and dtypes alone whether the host predicts these rows sooner than a device."""
        flat = self.flat
        if flat is None or flat.nbytes > MOST_BYTES or self.precision in ("tf32", "bfloat16"):
            return False
        if not are_arrays(X) or n_rows(X) * flat.size > MOST_PRODUCTS:
            return False
        # Where rows have several positions, as images do, each reads the parameters.
        width = max((length for shape in self.layout.shapes.values() for length in shape), default=1)
        positions = -(-(CHUNK_ELEMENTS // self.rows_at_once(X)) // width)
        return bool(n_rows(X) * positions * flat.size <= MOST_PRODUCTS)

    def _on_host(self) -> "Network | None":
        """Return this network on the host, with the parameters of now; None if others may be read."""
        made, found = self._made
        if made is None or not made.holds():
            module, found = self.module, None
            if structure_of(module) is not None and not any(True for _ in module.named_buffers()):
                found = Network.fixed(deepcopy(module).eval().to(device="cpu"), self.dtype)
                found = found if found.layout.slices == self.layout.slices else None
            self._made = Fingerprint(module), found
        if found is not None:
            found.flat[...] = to_host(self.flat)  # users may have written to them
            found.draws = self.draws
        return found

    def rows_at_once(self, X: Any, by: Pass = run) -> int:
        """Return how many rows are computed at once, in bounded memory."""
        part = by.path if isinstance(by, SubPass) else ""
        if type(X) is np.ndarray and X.dtype.kind == "f":
            key: Any = part, X.shape[1:]
        else:
            kinds = each_input(lambda x: (tuple(x.shape[1:]), x.dtype), X)
            key = part, tuple(kinds.items()) if isinstance(X, dict) else kinds
        rows = self._rows.get(key)
        if rows is None:
            module = self.module.get_submodule(part) if part else self.module
            kinds = each_input(lambda x: computed_dtype(x, self.dtype), X)
            rows = self._rows[key] = rows_at_once(module, row_shapes(X), kinds)
        return rows


def _by_width(network: Network, X: Any, compute: Callable[[Any], Any], by: Pass) -> Any:
    """Return results for sequences without most of their padding; None if it is short, or they have steps."""
    buckets = Buckets.of(X)
    if buckets is None:
        return None
    first = each_input(lambda x: x[:1], X)
    whole = compute(first)
    whole = np.empty((n_rows(X), *whole.shape[1:]), whole.dtype)
    for rows, width in buckets.by_width():
        at_once = network.rows_at_once(buckets.narrowed(first, width), by)
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            inputs = buckets.narrowed(each_input(lambda x, part=part: take_rows(x, part), X), width)
            found = compute(each_input(np.ascontiguousarray, inputs))
            if found.shape[1:] != whole.shape[1:]:
                return None
            whole[part] = found
    return whole


def network_of(model: ModelLike) -> Network:
    """Return the network of a model with the parameters that it predicts with now."""
    memory, optimizer = model.memory, averaging(model)
    flat = memory.flat
    if optimizer is not None:
        with active(memory.device):
            flat = memory.averaged(optimizer)
    found: Network | None = model._network
    if found is None or found.flat is not flat or (flat is None and found.layout is not memory.layout):
        of = memory.module, memory.layout, flat, model.dtype, memory.device, model.precision
        found = model._network = Network(*of, is_average=optimizer is not None)
    return found


CHUNK_ELEMENTS = 1 << 20  # size of the largest activation: 4 MiB in float32, which fits into most caches

_by_structure = Cache(256)


def rows_at_once(module: Module, shape: Any, dtype: Any) -> int:
    """Return the chunk size at which no array of the pass takes more than a few MiB."""
    structure, named = structure_of(module), isinstance(shape, dict)
    key: Any = structure, *(map(str, (shape, dtype)) if named else (shape, str(dtype)))
    if structure is None:
        return _rows_at_once(module, shape, dtype)
    found: int | None = _by_structure.get(key)
    if found is None:
        found = _rows_at_once(module, shape, dtype)
        _by_structure.put(key, found)
    return found


def _rows_at_once(module: Module, shape: Any, dtype: Any) -> int:
    try:
        elements = largest_activation(module, shape, dtype)
    except DeviceError:  # its code depends on values: estimate by the parameters
        widths = [max(parameter.shape, default=1) for parameter in module.parameters()]
        shapes = shape.values() if isinstance(shape, dict) else [shape]
        elements = max([*map(math.prod, shapes), *widths])
    return max(1, CHUNK_ELEMENTS // max(elements, 1))


def chunk_rows(model: ModelLike, shape: Any, dtype: Any = None) -> int:
    """Return the chunk size of a model's predictions for rows of this shape."""
    return rows_at_once(model.module, shape, model.dtype if dtype is None else dtype)


def chunk_rows_of(model: ModelLike, X: Any) -> int:
    """Return the chunk size of a model's predictions for these inputs."""
    return network_of(model).rows_at_once(X)


def in_chunks(
    compute: Callable[[Any], Any], X: Any, rows: int, dtype: Any, device: Device, precision: str | None = None
) -> Any:
    """Return the results for all rows, computed chunk by chunk."""
    n_samples, whole = n_rows(X), None
    dtypes = each_input(lambda x: dtype if x.dtype.kind == "f" else x.dtype, X)
    fed = fed_inputs(X, dtypes, n_samples, rows, device)

    def chunk_of(x: Any) -> Any:
        if isinstance(x, ComputedRows):
            return to_device(x[part], device)
        with active(device_of(x)):
            chunk = x if n_samples <= rows else x[part]
            if chunk.dtype != dtype and chunk.dtype.kind == "f":
                chunk = chunk.astype(dtype)
        return to_device(chunk, device)

    for start in range(0, n_samples, rows):
        part = slice(start, min(start + rows, n_samples))
        with active(device, precision):
            chunk = each_input(chunk_of, X) if fed is None else fed.take(part, lambda name: chunk_of(X[name]))
            result = compute(chunk)
            if n_samples <= rows:
                return result
            if whole is None:
                shape = (n_samples, *result.shape[1:])
                whole = backend(device.kind).empty(shape, result.dtype, device)
            whole[part] = result
    return whole


def predict_raw(model: ModelLike, X: Any, comes_again: bool = False) -> Any:
    """Return the module's raw outputs for a few rows at once; `comes_again` is as for `Network.chunk`."""
    network = network_of(model.materialize(X))
    network.draws = model.memory.key, model.progress.step
    return network.chunk(X, comes_again)


def apply_head(head: Head | None, output: Any) -> Any:
    """Apply a head to an array of raw outputs; None returns them unchanged."""
    if head is None:
        return output
    with no_grad():
        return head(Tensor(output)).data


def predict_rows(
    model: ModelLike, X: Any, name: str = "raw", head: Head | None = None, by: Pass = run
) -> Any:
    """Return the module's raw outputs, or a function of them, for all rows."""
    network = network_of(model)
    network.draws = model.memory.key, model.progress.step
    return network.compute(X, name, head, by)


def warn_of_overflow(result: Any, X: Any, who: str) -> None:
    """Warn if predictions are NaN or infinite although the inputs are finite."""
    if _is_finite(result) or not all(map(_is_finite, _values_of(X))):
        return
    found = to_host(result)
    wrong = int((~np.isfinite(found.reshape(len(found), -1))).any(axis=1).sum())
    warn_caller(
        f"{wrong} of {len(found)} predictions of {who} are NaN or infinite although X is finite: numbers "
        "overflow inside the network. Scale the inputs as for the fit.",
        RuntimeWarning,
    )


def _values_of(X: Any) -> list[Any]:
    inputs = X.values() if isinstance(X, dict) else [X]
    return [x.data if hasattr(x, "tocsr") else x for x in inputs]


def _is_finite(array: Any) -> bool:
    if type(array) is np.ndarray:
        return all_finite(array)
    with active(device_of(array)):
        return bool(to_host(namespace(array).isfinite(array).all()))
