"""Writing the source of a step: its lines, the names that they use, and the objects bound to the names."""

import linecache
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile._identifier import identifier, unused
from sknet.compile._key import same_value
from sknet.compile._layout import Place
from sknet.compile._plan import Plan
from sknet.device import result_dtype
from sknet.ops import SparseSlot

__all__ = ["NO_SLOTS", "Writer", "executable", "forward_scratch", "registry", "step_of"]

Rule = TypeVar("Rule", bound=Callable[..., Any])
NO_SLOTS: Mapping[SparseSlot, SparseSlot] = MappingProxyType({})
OWN_NAMES = ("KERNELS", "b_x", "b_y", "float", "record", "step")  # which sources have without asking for them


def registry(table: dict[str, Rule]) -> Callable[..., Callable[[Rule], Rule]]:
    """Return a decorator that registers a function in a table under the names of primitives."""

    def entry(*names: str) -> Callable[[Rule], Rule]:
        def register(function: Rule) -> Rule:
            table.update(dict.fromkeys(names, function))
            return function

        return register

    return entry


def forward_scratch(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and dtype of the scratch arrays that the primitive's own forward takes."""
    rule = equation.primitive.scratch
    return list(rule(*equation.operands, **equation.params)) if rule is not None else []


Needs = Callable[[Equation], Iterable[tuple[Any, ...]]]


class Writer:
    """Collects the lines of a step and the names that they use.

    Parameters
    ----------
    plan : Plan
        The memory of the values.
    exact : bool
        Whether results must equal those of the primitives' own forwards to the last bit.

    Attributes
    ----------
    names : dict of Variable to str
        Names of the arrays.
    bound : dict of str to object
        Functions and constants that the lines use; the same for every arena.
    setup : list of str
        Lines that are run once per arena: views and bound methods.
    lines : list of str
        Lines that are run in every step.
    calls : list of str
        The same lines, each as a call of a function in `bound` or `called`: what is recorded of a step.
    called : dict of str to object
        Functions and constants that only `calls` use.
    """

    def __init__(self, plan: Plan, exact: bool) -> None:
        self.plan = plan
        self.exact = exact
        self.names = plan.graph.names()
        self.bound: dict[str, Any] = {}
        self.setup: list[str] = []
        self.lines: list[str] = []
        self.calls: list[str] = []
        self.called: dict[str, Any] = {"_array_copyto": np.copyto}
        self.is_dividing = False
        self._taken = {*OWN_NAMES, *self.names.values(), *self._scratch_names()}
        self._by_label: dict[str, tuple[str, Any]] = {}
        self._in_block: dict[Variable, str] = {}
        self._block_constants: dict[str, tuple[float, Variable]] = {}
        self._constants: dict[Any, str] = {}
        self._made: dict[str, str] = {}
        self._sparse: dict[SparseSlot, str] = {}
        self._partials = 0
        self._scratch: list[tuple[str, Place]] | None = None  # names and places of scratch arrays

    # -- operands -----------------------------------------------------------------------------

    def name(self, x: Operand) -> str:
        """Return the name of a variable's array, or of its block while blocks are written."""
        return self._in_block.get(x) or self.names[x]

    def scratch(self, equation: Equation, i: int = 0) -> str:
        """Return the name of a scratch array of an equation."""
        return f"{self.names[equation.output]}_s{i}"

    def _scratch_names(self) -> Iterator[str]:
        for equation, buffers in self.plan.scratch.items():
            for i in range(len(buffers)):
                yield self.scratch(equation, i)

    def new_name(self, name: str) -> str:
        """Return a name that nothing else in the source has: this one, unless it is taken."""
        found = unused(name, self._taken)
        self._taken.add(found)
        return found

    def operands(self, equation: Equation) -> list[str]:
        """Return the names of all operands; numbers become arrays of the computing dtype."""
        primitive, operands = equation.primitive, equation.operands
        if len(operands) == len(equation.variables):
            return [self.name(x) for x in operands]
        dtype = result_dtype(*primitive.values(operands))
        return [
            self.name(x)
            if type(x) is Variable
            else self.constant(x, None if i == primitive.condition else dtype)
            for i, x in enumerate(operands)
        ]

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of a constant array."""
        try:
            array = np.asarray(value, dtype)
        except OverflowError:  # a comparison with a number that the dtype cannot hold
            array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        name = self._constants.get(key)
        if name is None:
            array.flags.writeable = False
            name = self._constants[key] = self._bind(array, f"c{len(self._constants)}")
        return name

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> str:
        """Return the name of a constant array of zeros, as `constant` does, without reading it."""
        key = ("zeros", shape, dtype)
        name = self._constants.get(key)
        if name is None:
            array = np.zeros(shape, dtype)
            array.flags.writeable = False
            name = self._constants[key] = self._bind(array, f"c{len(self._constants)}")
        return name

    def number(self, x: Operand) -> str:
        """Return the text of a number: a literal, or the name of an array of shape ()."""
        if type(x) is Variable:
            return self.name(x)
        return repr(float(x)) if math.isfinite(x) else f"float('{float(x)}')"

    def block_constant(self, value: float, like: Variable) -> str:
        """Return the name of a block of a constant, of the shape of the blocks of `like`."""
        for name, (known, other) in self._block_constants.items():
            if other.dtype == like.dtype and same_value(known, value):
                return name
        name = self.new_name(f"z{len(self._block_constants)}")
        self._block_constants[name] = (value, like)
        return name

    def begin_blocks(self, names: dict[Variable, str]) -> None:
        """Write lines for blocks from now on; `names` maps divided arrays to the names of their blocks."""
        self.is_dividing = True
        self._in_block = names
        self._block_constants = {}

    def end_blocks(self) -> dict[str, tuple[float, Variable]]:
        """Write lines for whole arrays again; return the constants that blocks have used."""
        self.is_dividing = False
        self._in_block = {}
        return self._block_constants

    # -- functions ----------------------------------------------------------------------------

    def function(self, function: Any, label: str) -> str:
        """Return the name of a function that the lines may call: like the label, if it is the first one."""
        known = self._by_label.get(label)
        if known is None:
            known = self._by_label[label] = self._bind(function, identifier(label)), function
        return known[0] if known[1] is function else self.partial(function, label)

    def partial(self, function: Any, label: str) -> str:
        """Return a new name for a function."""
        self._partials += 1
        return self._bind(function, f"{identifier(label)}_{self._partials}")

    def _bind(self, value: Any, name: str) -> str:
        """Bind a function or a constant to a new name, and return that."""
        name = self.new_name(name)
        self.bound[name] = value
        return name

    def made(self, expression: str, name: str) -> str:
        """Return the name of an expression of the arrays that is evaluated once per arena."""
        found = self._made.get(expression)
        if found is None:
            found = self._made[expression] = self.new_name(f"{name}{len(self._made)}")
            self.setup.append(f"{found} = {expression}")
        return found

    def parts_of(self, joined: Equation) -> tuple[bool, list[tuple[str, Variable]]]:
        """Return whether zeros are among what is concatenated, and the place of everything else."""
        output, start, found = joined.output, 0, []
        axis = joined.params["axis"] % len(output.shape)
        for x in joined.variables:
            stop = start + x.shape[axis]
            if not self._is_zeros(x):
                place = self.made(f"{self.name(output)}[{':, ' * axis}{start}:{stop}]", "p")
                found.append((place, x))
            start = stop
        return len(found) < len(joined.variables), found

    def _is_zeros(self, x: Variable) -> bool:
        value = self.plan.graph.constants.get(x)
        if value is None or not value.size or any(value.strides):
            return False
        return bool(value.flat[0] == 0 and not np.signbit(value.flat[0]))

    def reshaped(self, x: Variable, shape: tuple[int, ...]) -> str:
        """Return the name of a view of a contiguous array in another shape, made once per arena."""
        return self.name(x) if x.shape == shape else self.made(f"{self.name(x)}.reshape({shape})", "r")

    def forward_call(self, equation: Equation, forward: Any, operands: list[str]) -> None:
        """Add the line that calls the primitive's own forward, with ``out=`` if it takes that."""
        primitive, out = equation.primitive, self.name(equation.output)
        sparse = {key: x for key, x in equation.params.items() if isinstance(x, SparseSlot)}
        params = {key: x for key, x in equation.params.items() if key not in sparse}
        bound = partial(forward, **params) if params else forward
        name = self.partial(bound, primitive.name) if params else self.function(forward, primitive.name)
        given = ", ".join([*operands, *[f"{key}={self._slot(x)}" for key, x in sparse.items()]])
        if primitive.scratch:
            works_in = [self.scratch(equation, i) for i in range(len(self.plan.scratch[equation]))]
            given += f", scratch=({', '.join(works_in)},)"
        if primitive.writes_out:
            self.line(f"{name}({given}, out={out})")
        else:
            self.line(f"{out}[...] = {name}({given})", f"_array_copyto({out}, {name}({given}), 'unsafe')")

    def _slot(self, slot: SparseSlot) -> str:
        if slot not in self._sparse:
            self._sparse[slot] = self.new_name(f"m{len(self._sparse)}")
        return self._sparse[slot]

    def line(self, text: str, call: str | None = None) -> None:
        """Add a line to the step; `call` is the same as a call of a function, unless it is one already."""
        self.lines.append(text)
        self.calls.append(text if call is None else call)

    def method(self, of: str, name: str, given: str) -> None:
        """Add a call of a method of an array, bound once per arena, with what is `given` to it."""
        method = getattr(np.ndarray, name)
        self.called[f"_array_{name}"] = method
        self.line(f"{self.made(f'{of}.{name}', name)}({given})", f"_array_{name}({of}, {given})")

    def comment(self, line: int, text: str) -> None:
        """Append a comment to the line with this index, if it exists."""
        if line < len(self.lines):
            self.lines[line] = f"{self.lines[line]:<48}  # {' '.join(text.split())}"

    # -- source -------------------------------------------------------------------------------

    def source(self, head: str = "") -> str:
        """Return the source: it makes the views, once per arena, and defines ``step()``.

        Parameters
        ----------
        head : str
            Text to put first.
        """
        plan = self.plan
        slots = ", ".join(f"{self.names[x]}: {x!r}" for x in plan.graph.inputs)
        arena = f"{plan.arena_size} bytes, of which {plan.peak_live} are needed at one time"
        setup = "".join(f"{line}\n" for line in self.setup)
        lines = "".join(f"    {line}\n" for line in self.lines or ["pass"])
        return f"{head}# slots: {slots}\n# arena: {arena}\n{setup}\ndef step():\n{lines}"

    def recording(self) -> str:
        """Return source that goes through the step once, calling ``record(function)`` for each function."""
        functions = [name for name, value in (self.called | self.bound).items() if callable(value)]
        lines = [*self.setup, *[f"{name} = record({name})" for name in functions], *self.calls]
        return "".join(f"{line}\n" for line in lines)

    def values(
        self,
        memory: Any,
        arrays: Mapping[Variable, Any],
        needs: Needs,
        sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS,
    ) -> dict[str, Any]:
        """Return the objects that the names stand for, on the given memory.

        `needs` lists the plan's scratch arrays; `sparse` maps the graph's slots to those to be read instead.
        """
        found: dict[str, Any] = dict(self.bound)
        found.update({name: sparse.get(slot, slot) for slot, name in self._sparse.items()})
        found.update({self.names[x]: array for x, array in arrays.items()})
        if self._scratch is None:
            self._scratch = [
                (self.scratch(equation, i), buffer.place(*form[:2]))
                for equation, buffers in self.plan.scratch.items()
                for i, (buffer, form) in enumerate(zip(buffers, needs(equation), strict=True))
            ]
        found.update({name: place.array(memory) for name, place in self._scratch})
        return found


def executable(source: str, owner: Any) -> Callable[[dict[str, Any]], None]:
    """Return what runs a source, given the objects that its names stand for.

    Parameters
    ----------
    source : str
        From `Writer.source` or `Writer.recording`.
    owner : object
        While it is alive, tracebacks and debuggers show the lines.
    """
    file = f"<sknet step {id(owner):x}>"
    code = compile(source, file, "exec")
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    weakref.finalize(owner, linecache.cache.pop, file, None)
    return partial(exec, code)


def step_of(execute: Callable[[dict[str, Any]], None], values: dict[str, Any]) -> Callable[[], None]:
    """Return the ``step`` that a source defines, on these values."""
    execute(values)
    step: Callable[[], None] = values.pop("step")  # its globals would refer to it
    return step


Emitter = Callable[[Writer, Equation], None]
