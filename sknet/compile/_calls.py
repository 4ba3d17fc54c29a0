"""Calls: a program is a list of them, by names before it is bound to memory, and by arrays afterwards."""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from keyword import iskeyword
from types import MappingProxyType, MethodDescriptorType
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from sknet.compile._graph import Equation, Operand, Variable, same_value
from sknet.compile._plan import Place, Plan
from sknet.device import result_dtype
from sknet.ops import SparseSlot

OTHERS = re.compile(r"[^A-Za-z0-9_]+")


def identifier(name: str) -> str:
    """Return a Python identifier like a name."""
    text = OTHERS.sub("_", name).lstrip("_")
    if not text or text[0].isdigit():
        return f"f{text}"
    return f"{text}_" if iskeyword(text) else text


def unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


NOTHING_NAMED: Mapping[str, Any] = {}  # not to be changed
COLUMN = 48  # of comments


class Name(str):
    """The name of an array or a function that is looked up when a program is bound to memory."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Method:
    name: str

    def __call__(self, array: Any, *args: Any) -> Any:
        return getattr(array, self.name)(*args)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A function that writes the result of another to the array that is its first argument."""

    function: Callable[..., Any]

    def __call__(self, out: Any, *args: Any, **named: Any) -> None:
        out[...] = self.function(*args, **named)


FILL, RESHAPE, TRANSPOSE, VIEW = (Method(name) for name in ("fill", "reshape", "transpose", "view"))


class Call(NamedTuple):
    """One call of a function, given by a name or itself."""

    function: Any
    args: tuple[Any, ...]  # names or arrays, numbers, texts, and tuples of these
    named: Mapping[str, Any] = NOTHING_NAMED
    loop: str = ""  # the name of what is iterated over, of calls that are repeated on blocks

    def run(self) -> Any:
        return self.function(*self.args, **self.named)

    def on(self, values: Mapping[str, Any]) -> "Call":
        """Return the call, ready to run, with the objects that its names stand for in `values`."""
        args: list[Any] = []
        for x in self.args:
            kind = type(x)
            args.append(values[x] if kind is Name else _value(x, values) if kind is tuple else x)
        named = {key: _value(x, values) for key, x in self.named.items()} if self.named else NOTHING_NAMED
        return Call(values.get(self.function, self.function), tuple(args), named, self.loop)

    def text(self, values: Mapping[str, Any]) -> str:
        """Return the call as a line of Python, to be read."""
        # `values` has the functions that names stand for: methods and indices are written as Python writes
        # them.
        function, args = values.get(self.function, self.function), [_text(x) for x in self.args]
        if function is operator.setitem:
            return f"{args[0]}[{_index_text(self.args[1])}] = {args[2]}"
        if function is operator.getitem:
            return f"{args[0]}[{_index_text(self.args[1])}]"
        args += [f"{key}={_text(x)}" for key, x in self.named.items()]
        if isinstance(function, Method):
            return f"{args[0]}.{function.name}({', '.join(args[1:])})"
        if isinstance(function, MethodDescriptorType):
            return f"{args[0]}.{function.__name__}({', '.join(args[1:])})"
        if isinstance(function, Assigned):
            return f"{args[0]}[...] = {self.function}({', '.join(args[1:])})"
        return f"{self.function}({', '.join(args)})"


class RepeatedCalls(NamedTuple):
    """Calls that are repeated on blocks of arrays."""

    name: Name
    targets: Sequence[Name]
    made: list[tuple[Name, Call]]
    calls: list[Call]
    about: str


def bound(
    items: Iterable[Call | RepeatedCalls], values: dict[str, Any], made: Iterable[tuple[Name, Call]] = ()
) -> list[Call]:
    """Return the calls of a program with the objects that names stand for, after those that are made once."""
    for name, call in made:
        values[name] = call.on(values).run()
    found = []
    for item in items:
        if isinstance(item, Call):
            found.append(item.on(values))
            continue
        for block in values[item.name]:
            values.update(zip(item.targets, block, strict=True))
            found += bound(item.calls, values, item.made)
    return found


def runner_of(calls: Iterable[Call]) -> Callable[[], None]:
    """Return a function without arguments that makes bound calls one after the other."""
    given = [
        (partial(call.function, **call.named) if call.named else call.function, call.args) for call in calls
    ]

    def step() -> None:
        for function, args in given:
            function(*args)

    return step


def lines_of(
    items: Iterable[Call | RepeatedCalls], comments: Mapping[int, Any], values: Mapping[str, Any]
) -> list[str]:
    found = []
    for i, item in enumerate(items):
        if isinstance(item, Call):
            line = item.text(values)
            comment = " ".join(str(comments.get(i, "")).split())
            found.append(f"{line:<{COLUMN}}  # {comment}" if comment else line)
        else:
            found.append(f"for {', '.join(item.targets)} in {item.name}:  # {item.about}")
            found += [f"    {name} = {call.text(values)}" for name, call in item.made]
            found += [f"    {call.text(values)}" for call in item.calls]
    return found


def _value(x: Any, values: Mapping[str, Any]) -> Any:
    kind = type(x)
    if kind is Name:
        return values[x]
    return tuple([_value(each, values) for each in x]) if kind is tuple else x


def _text(x: Any) -> str:
    if type(x) is Name:
        return x
    if type(x) is tuple:
        return f"({', '.join(map(_text, x))}{',' if len(x) == 1 else ''})"
    if type(x) is float and x - x != 0:
        return f"float('{x}')"
    return repr(x)


def _index_text(index: Any) -> str:
    """Return an index as it stands between brackets."""
    return ", ".join(map(_part_text, index)) if type(index) is tuple and index else _part_text(index)


def _part_text(part: Any) -> str:
    if part is Ellipsis:
        return "..."
    if isinstance(part, slice):
        ends = ["" if x is None else _text(x) for x in (part.start, part.stop, part.step)]
        return ":".join(ends[: 3 if ends[2] else 2])
    return _text(part)


# -- writing the calls of a step, the names that they use, and the objects bound to the names --


Rule = TypeVar("Rule", bound=Callable[..., Any])
NO_SLOTS: Mapping[SparseSlot, SparseSlot] = MappingProxyType({})
OWN_NAMES = ("KERNELS", "b_x", "b_y", "float", "step")  # which sources have without asking for them


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
    """Collects the calls of a step and the names that they use."""

    def __init__(self, plan: Plan, exact: bool) -> None:
        self.plan = plan
        self.exact = exact
        self.names = {x: Name(name) for x, name in plan.graph.names().items()}
        self.functions: dict[str, Any] = {}
        self.made: list[tuple[Name, Call]] = []
        self.calls: list[Call | RepeatedCalls] = []
        self.is_dividing = False
        self._comments: dict[int, Any] = {}
        self._taken: set[str] = {*OWN_NAMES, *self.names.values(), *self._scratch_names()}
        self._by_label: dict[str, tuple[Name, Any]] = {}
        self._in_block: dict[Variable, Name] = {}
        self._block_constants: dict[Name, tuple[float, Variable]] = {}
        self._constants: dict[Any, Name] = {}
        self._known: dict[Any, Name] = {}  # the names of `made`, by calls
        self._sparse: dict[SparseSlot, Name] = {}
        self._partials = 0
        self._scratch: list[tuple[Name, Place]] | None = None  # names and places of scratch arrays

    # -- operands -----------------------------------------------------------------------------

    def name(self, x: Operand) -> Name:
        """Return the name of a variable's array, or of its block while blocks are written."""
        return self._in_block.get(x) or self.names[x]

    def scratch(self, equation: Equation, i: int = 0) -> Name:
        return Name(f"{self.names[equation.output]}_s{i}")

    def _scratch_names(self) -> Iterator[Name]:
        for equation, buffers in self.plan.scratch.items():
            for i in range(len(buffers)):
                yield self.scratch(equation, i)

    def new_name(self, name: str) -> Name:
        """Return a name that nothing else in the source has: this one, unless it is taken."""
        found = Name(unused(name, self._taken))
        self._taken.add(found)
        return found

    def operands(self, equation: Equation) -> list[Name]:
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

    def constant(self, value: Any, dtype: Any = None) -> Name:
        try:
            array = np.asarray(value, dtype)
        except OverflowError:  # a comparison with a number that the dtype cannot hold
            array = np.asarray(value)
        key = array.dtype.str, array.shape, array.tobytes()
        return self._constants.get(key) or self._constant(key, array)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Name:
        """Return the name of a constant array of zeros, as `constant` does, without reading it."""
        key = "zeros", shape, dtype
        return self._constants.get(key) or self._constant(key, np.zeros(shape, dtype))

    def _constant(self, key: Any, array: np.ndarray) -> Name:
        array.flags.writeable = False
        name = self._constants[key] = self._bind(array, f"c{len(self._constants)}")
        return name

    def number(self, x: Operand) -> Name | float:
        """Return a number as an argument: itself, or the name of an array of shape ()."""
        return self.name(x) if type(x) is Variable else float(x)

    def block_constant(self, value: float, like: Variable) -> Name:
        """Return the name of a block of a constant, of the shape of the blocks of `like`."""
        for name, (known, other) in self._block_constants.items():
            if other.dtype == like.dtype and same_value(known, value):
                return name
        name = self.new_name(f"z{len(self._block_constants)}")
        self._block_constants[name] = (value, like)
        return name

    def begin_blocks(self, names: dict[Variable, Name]) -> None:
        """Write calls for blocks from now on; `names` maps divided arrays to the names of their blocks."""
        self._begin()
        self._in_block, self._block_constants = names, {}

    def end_blocks(self, name: Name, about: str) -> dict[Name, tuple[float, Variable]]:
        """Write calls for whole arrays again, after a loop over what `name` lists."""
        self._end(name, [*self._in_block.values(), *self._block_constants], about)
        self._in_block = {}
        return self._block_constants

    def _begin(self) -> None:
        self.is_dividing = True
        self._outside = self.calls, self.made, self._known
        self.calls, self.made, self._known = [], [], {}

    def _end(self, name: Name, targets: list[Name], about: str) -> None:
        calls = [call._replace(loop=name) for call in self.calls if isinstance(call, Call)]
        made = self.made
        self.calls, self.made, self._known = self._outside
        self.is_dividing = False
        self.calls.append(RepeatedCalls(name, targets, made, calls, about))

    def on_parts(self, arrays: Mapping[str, Name], size: int, write: Callable[..., None]) -> None:
        """Write calls for parts of vectors, of at most so many elements."""
        parts = self.of(_parts, "parts", size, *arrays.values())
        names = [Name(name) for name in arrays]
        self._begin()
        write(*names)
        self._end(parts, names, f"{size} elements each")

    # -- functions ----------------------------------------------------------------------------

    def function(self, function: Any, label: str) -> Name:
        """Return the name of a function that may be called: like the label, if it is the first one."""
        known = self._by_label.get(label)
        if known is None:
            known = self._by_label[label] = self._bind(function, identifier(label)), function
        return known[0] if known[1] is function else self.partial(function, label)

    def partial(self, function: Any, label: str) -> Name:
        self._partials += 1
        return self._bind(function, f"{identifier(label)}_{self._partials}")

    def _bind(self, value: Any, name: str) -> Name:
        """Bind a function or a constant to a new name, and return that."""
        found = self.new_name(name)
        self.functions[found] = value
        return found

    def call(self, function: Any, *args: Any, label: str = "", **named: Any) -> None:
        """Add a call to the step."""
        if type(function) is not Name:
            function = self.function(function, label or function.__name__)
        self.calls.append(Call(function, args, named or NOTHING_NAMED))

    # -- views --------------------------------------------------------------------------------

    def of(self, function: Any, name: str, *args: Any) -> Name:
        """Return a name for the result of a call that is made once per arena, or once per block."""
        if type(function) is not Name:
            label = function.name if isinstance(function, Method) else function.__name__
            function = self.function(function, label)
        key = function, _key(args)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.new_name(f"{name}{len(self._known)}")
            self.made.append((found, Call(function, args)))
        return found

    def part(self, x: Name, *index: Any) -> Name:
        """Return the name of a part of an array: a basic index of it."""
        return self.of(operator.getitem, "p", x, index if len(index) != 1 else index[0])

    def shaped(self, x: Name, *shape: int) -> Name:
        """Return the name of a view of a contiguous array in another shape."""
        return self.of(RESHAPE, "r", x, shape)

    def turned(self, x: Name, axes: tuple[int, ...]) -> Name:
        """Return the name of a view of an array with its axes in another order."""
        return self.of(TRANSPOSE, "t", x, axes)

    def viewed(self, x: Name, dtype: Any) -> Name:
        return self.of(VIEW, "v", x, dtype)

    def copies(self, equation: Equation) -> Iterator[tuple[Name, Name | None]]:
        """Yield parts of what an operation copies to, and what they are copies of; None for zeros."""
        out, given, kind = self.name(equation.output), equation.variables, equation.primitive.name
        if kind == "concat":
            yield from self._joined(out, equation)
        elif kind == "assemble":
            for i, (start, x) in enumerate(zip(equation.params["starts"], given, strict=True)):
                if not self.plan.is_in_place(equation, i):
                    yield self.part(out, slice(start, start + x.size)), self.name(x)
        else:  # a reshape is no view if its operand is not contiguous
            target = self.reshaped(equation.output, given[0].shape) if kind == "reshape" else out
            yield target, self.name(given[0])

    def _joined(self, out: Name, equation: Equation) -> Iterator[tuple[Name, Name | None]]:
        before, start = [slice(None)] * (equation.params["axis"] % equation.output.ndim), 0
        if any(map(self._is_zeros, equation.variables)):  # all at once: a few columns in between take longer
            yield out, None
        for x in equation.variables:
            stop = start + x.shape[len(before)]
            if not self._is_zeros(x):
                yield self.part(out, *before, slice(start, stop)), self.name(x)
            start = stop

    def _is_zeros(self, x: Variable) -> bool:
        value = self.plan.graph.constants.get(x)
        if value is None or not value.size or any(value.strides):
            return False
        return bool(value.flat[0] == 0 and not np.signbit(value.flat[0]))

    def reshaped(self, x: Variable, shape: tuple[int, ...]) -> Name:
        return self.name(x) if x.shape == shape else self.shaped(self.name(x), *shape)

    # -- the primitive's own forward ----------------------------------------------------------

    def forward_call(self, equation: Equation, forward: Any, operands: list[Any]) -> None:
        """Add a call of the primitive's own forward, with ``out=`` if it takes that."""
        primitive, out = equation.primitive, self.name(equation.output)
        sparse = {key: x for key, x in equation.params.items() if isinstance(x, SparseSlot)}
        params = {key: x for key, x in equation.params.items() if key not in sparse}
        named: dict[str, Any] = {key: self._slot(x) for key, x in sparse.items()}
        if primitive.scratch:
            count = len(self.plan.scratch[equation])
            named["scratch"] = tuple([self.scratch(equation, i) for i in range(count)])
        function = partial(forward, **params) if params else forward
        if primitive.writes_out:
            named["out"] = out
        else:
            function, operands = Assigned(function), [out, *operands]
        named_once = self.function if function is forward else self.partial
        self.call(named_once(function, primitive.name), *operands, **named)

    def _slot(self, slot: SparseSlot) -> Name:
        if slot not in self._sparse:
            self._sparse[slot] = self.new_name(f"m{len(self._sparse)}")
        return self._sparse[slot]

    def comment(self, first: int, text: Any) -> None:
        """Write a comment beside a call; `str` converts it when the source is read."""
        if first < len(self.calls):
            self._comments[first] = text

    # -- source and values --------------------------------------------------------------------

    def source(self, head: str) -> str:
        """Return the step as Python source, to be read: views made once per arena, and ``step()``."""
        plan = self.plan
        slots = ", ".join(f"{self.names[x]}: {x!r}" for x in plan.graph.inputs)
        arena = f"{plan.arena_size} bytes, of which {plan.peak_live} are needed at one time"
        setup = "".join(f"{name} = {call.text(self.functions)}\n" for name, call in self.made)
        lines = lines_of(self.calls, self._comments, self.functions) or ["pass"]
        step = "".join(f"    {line}\n" for line in lines)
        return f"{head}# slots: {slots}\n# arena: {arena}\n{setup}\ndef step():\n{step}"

    def values(
        self,
        memory: Any,
        arrays: Mapping[Variable, Any],
        needs: Needs,
        sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS,
    ) -> dict[str, Any]:
        """Return the objects that the names stand for, on the given memory, without those of `made`."""
        found: dict[str, Any] = dict(self.functions)
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


def _key(x: Any) -> Any:
    """Return an argument as a part of a key; slices are not hashable before Python 3.12."""
    if type(x) is tuple:
        return tuple([_key(each) for each in x])
    return type(x), (x.start, x.stop, x.step) if type(x) is slice else x


def _parts(size: int, *arrays: Any) -> list[tuple[Any, ...]]:
    starts = range(0, len(arrays[0]), size)
    return [tuple([array[start : start + size] for array in arrays]) for start in starts]


Emitter = Callable[[Writer, Equation], None]


class Program:
    """The calls of a plan, which can be bound to memory many times."""

    plan: Plan
    _writer: Writer
    _head = ""  # of the source

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a program is code of this process and cannot be pickled or copied: pickle its graph, and plan "
            "it again"
        )

    @property
    def source(self) -> str:
        """The calls as Python source, to be read; on a device, after the kernels in C."""
        return self._writer.source(self._head)

    def bind(
        self, memory: Any, slots: Sequence[Any], sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS
    ) -> tuple[Any, dict[Variable, Any]]:
        """Return the step on some `memory`, and the array of every variable that has one."""
        # The step reads the arrays in `slots`, one for each input, and writes the outputs: a list of calls
        # for NumPy, and a function without arguments elsewhere. `sparse` maps captured slots for sparse
        # matrices to those to be read instead.
        raise NotImplementedError
