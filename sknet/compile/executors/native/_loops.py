"""Loops as source: each visits every row once, and makes as many passes over a row as its reductions need."""

from collections.abc import Iterator
from typing import Any

from sknet.compile.executors.native._scalar import ScalarWriter
from sknet.compile.executors.native._schedule import Loop
from sknet.compile.executors.native._value import Axis, Map, Reduction, Value, View

__all__ = ["START", "LoopWriter", "Names", "extreme"]

START = {
    "sum": "T(0.0)", "inner": "T(0.0)", "pick": "T(0.0)", "max": "T(-np.inf)", "min": "T(np.inf)",
}  # fmt: skip
CHEAP = frozenset(
    {
        "add",
        "subtract",
        "multiply",
        "masked",
        "negative",
        "square",
        "greater",
        "less",
        "copy",
        "zeros_like",
        "ones_like",
    }
)


class Names:
    """Names of arrays, sizes and scratch rows, each of which is an argument of the generated function.

    Attributes
    ----------
    arrays : dict of (Value, form) to str
        `form` is a shape, "loop", "flat", or a slice or broadcast view of the array, as for `formed`.
    sizes : dict of Axis to str
        Lengths.
    rows : dict of Value to str
        Scratch rows.
    same : dict of Value to Value
        Values that overwrite others; they share a name, so that the compiler knows that they alias.
    """

    def __init__(self) -> None:
        self.arrays: dict[tuple[Value, Any], str] = {}
        self.sizes: dict[Axis, str] = {}
        self.rows: dict[Value, str] = {}
        self.same: dict[Value, Value] = {}

    def array(self, value: Value, form: Any = "loop") -> str:
        """Return the name of the array of a value, in some form."""
        value = self.same.get(value, value)
        if form == value.lengths and value.shape == value.lengths:
            form = "loop"
        if form == "flat" and len(value.axes) == 1:
            form = "loop"
        forms = sum(v is value for v, _ in self.arrays)
        letter = "abcdef"[forms - 1 : forms] or f"_{forms}"
        name = value.name.upper() + (letter if forms else "")
        return self.arrays.setdefault((value, form), name)

    def size(self, axis: Axis) -> str:
        """Return the name of the length of an axis."""
        return self.sizes.setdefault(axis.root, f"n{len(self.sizes)}")

    def row(self, value: Value) -> str:
        """Return the name of a scratch row for a value."""
        return self.rows.setdefault(value, f"{value.name.upper()}_row")


class LoopWriter:
    """Writes one loop.

    Parameters
    ----------
    loop : Loop
        What is computed.
    names : Names
        Names of arrays.
    scalars : ScalarWriter
        Writes expressions.
    """

    def __init__(self, loop: Loop, names: Names, scalars: ScalarWriter) -> None:
        self._names, self._scalars = names, scalars
        self._rows, self._columns = loop.rows, loop.columns
        self._members = loop.members
        self._inside = set(loop.members)
        self._phases: dict[Value, int] = {}
        for value in loop.members:
            self._phases[value] = self._phase(value)
            self._keep_operands(value)

    # -- phases -------------------------------------------------------------------------------
    # A row is visited in phases: first for values that need no reduction over it, then for those
    # that need one, and so on. Values with one number per row are computed after their phase.

    def _phase(self, value: Value) -> int:
        phase = 0
        for x in value.values:
            if x in self._inside:
                phase = max(phase, self._phases[x] + (len(x.axes) < len(value.space)))
        return max(phase, 1) if len(value.space) == 2 else phase

    def _keep_operands(self, value: Value) -> None:
        """Give a scratch row to operands from an earlier phase that are expensive to recompute."""
        for x in value.values:
            if x not in self._inside or len(x.axes) < 2 or x.stored:
                continue
            if self._phases[x] < self._phases[value] and not self.is_cheap(x):
                self._names.row(x)

    def is_cheap(self, x: Value) -> bool:
        """Tell whether to recompute an element rather than to keep it."""
        return isinstance(x, Map) and x.op in CHEAP and all(self._is_at_hand(y) for y in x.values)

    def _is_at_hand(self, x: Value) -> bool:
        if x not in self._inside or x.stored or len(x.axes) < 2 or x in self._names.rows:
            return True
        return self.is_cheap(x)

    def _is_full(self, value: Value) -> bool:
        return len(value.space) == 2

    # -- the loop -----------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """Yield the lines."""
        if self._is_flat():
            yield from self._flat()
            return
        for value in self._members:
            if isinstance(value, Reduction) and value.needs_all_rows:
                yield from self._initial(value)
        yield f"for i in range({self._names.size(self._rows)}):"
        body = self._body()
        yield from (f"    {line}" for line in body or ["pass"])
        for value in self._members:
            if value.needs_all_rows and not value.axes and not _is_extreme(value):
                yield f"{value.name} = {self._scalars.type_of(value.dtype)}({value.name}_sum)"

    def _initial(self, value: Reduction) -> Iterator[str]:
        if value.axes:
            yield f"{self._names.array(value)}[:] = {START[value.op]}"
        elif value.is_extreme:
            yield f"{value.name} = {START[value.op]}"
        else:
            yield f"{value.name}_sum = 0.0"

    def _body(self) -> list[str]:
        lines: list[str] = []
        for phase in range(max(self._phases.values()) + 1):
            if phase:
                lines += self._inner(phase)
            lines += self._row_level(phase)
        return lines

    def _row_level(self, phase: int) -> list[str]:
        block = _Block(self, 1)
        for value in self._members:
            if self._phases[value] != phase:
                continue
            if self._is_full(value):
                if value.needs_all_rows and not value.axes and not _is_extreme(value):
                    total, term = f"{value.name}_sum", f"{value.name}_row"
                    block.lines.append(f"{total} = plus({total}, {term})")
                elif value.is_row_reduction and value.stored:
                    block.store(value)
            else:
                block.add(value)
        return block.lines

    def _inner(self, phase: int) -> list[str]:
        assert self._columns is not None
        block = _Block(self, 2)
        before = []
        for value in self._members:
            if not self._is_full(value) or self._phases[value] != phase:
                continue
            is_of_all = not value.axes and _is_extreme(value)
            if isinstance(value, Reduction) and value.axes != (self._columns,) and not is_of_all:
                name = value.name if value.axes else f"{value.name}_row"
                before.append(f"{name} = {START[value.op]}")
            block.add(value)
        outer = [*before, *block.outer]
        return [
            *outer,
            f"for j in range({self._names.size(self._columns)}):",
            *[f"    {x}" for x in block.lines],
        ]

    # -- flat loops ---------------------------------------------------------------------------

    def _is_flat(self) -> bool:
        """Tell whether rows and columns can be one loop: all arrays have all elements, or are numbers."""
        if self._columns is None:
            return False
        space = (self._rows, self._columns)
        values = {x for v in self._members for x in (v, *v.values)}
        return all(
            not x.axes
            or (x.axes == space and (x in self._inside or not isinstance(x, View) or x.is_contiguous))
            for x in values
        )

    def _flat(self) -> Iterator[str]:
        assert self._columns is not None
        block = _Block(self, 2, flat=True)
        for value in self._members:
            if isinstance(value, Reduction) and value.needs_all_rows:
                yield from self._initial(value)
            block.add(value)
        yield from block.outer
        yield f"for k in range({self._names.size(self._rows)} * {self._names.size(self._columns)}):"
        yield from (f"    {line}" for line in block.lines)
        for value in self._members:
            if value.needs_all_rows and not _is_extreme(value):
                yield f"{value.name} = {self._scalars.type_of(value.dtype)}({value.name}_sum)"

    def index(self, value: Value) -> str:
        """Return the index of an element of a value."""
        letters = {self._rows: "i", self._columns: "j"}
        return ", ".join(letters[axis] for axis in value.axes)


class _Block:
    """The lines of one loop's body: elements are loaded once, computed, accumulated and stored."""

    def __init__(self, writer: LoopWriter, depth: int, flat: bool = False) -> None:
        self._writer, self._depth, self._is_flat = writer, depth, flat
        self._known: dict[Value, str] = {}
        self.lines: list[str] = []
        self.outer: list[str] = []

    def add(self, value: Value) -> None:
        """Compute an element of a value."""
        names = {x: self._element(x) for x in value.values}
        if isinstance(value, Map):
            self.lines.append(f"{value.name} = {self._writer._scalars.expression(value, names)}")
            self._known[value] = value.name
            if value.stored:
                self.store(value)
            if value in self._writer._names.rows:
                self.lines.append(f"{self._writer._names.row(value)}[j] = {value.name}")
        else:
            assert isinstance(value, Reduction)
            self._accumulate(value, [names[x] for x in value.values])

    def store(self, value: Value) -> None:
        """Write an element into its array."""
        self.lines.append(f"{self._at(value)} = {value.name}")

    def _accumulate(self, value: Reduction, terms: list[str]) -> None:
        if value.is_extreme:
            so_far = self._at(value) if value.needs_all_rows and value.axes else value.name
            self.lines.append(extreme(value, so_far, terms[0]))
            return
        if value.needs_all_rows and value.axes:
            self.lines.append(f"{self._at(value)} += {terms[0]}")
            return
        # Sums over all elements accumulate in double precision, since they are long.
        of_all = self._is_flat or (not value.axes and self._depth == 1)
        total = f"{value.name}_sum" if of_all else value.name if value.axes else f"{value.name}_row"
        if value.op == "inner":
            self.lines.append(f"{total} = plus_product({total}, {terms[0]}, {terms[-1]})")
        else:
            term = f"({terms[0]} if j == {terms[1]} else T(0.0))" if value.op == "pick" else terms[0]
            self.lines.append(f"{total} = plus({total}, {term})")

    def _at(self, value: Value) -> str:
        if self._is_flat and value.axes:
            return f"{self._writer._names.array(value, 'flat')}[k]"
        return f"{self._writer._names.array(value)}[{self._writer.index(value) or 0}]"

    def _element(self, x: Value) -> str:
        found = self._known.get(x)
        if found is None:
            found = self._known[x] = self._loaded(x)
        return found

    def _loaded(self, x: Value) -> str:
        writer = self._writer
        if x in writer._inside:
            if self._depth == 1 or len(x.axes) < 2:
                return x.name  # one number per row, computed in an earlier phase
            return self._again(x)
        if x.is_local:
            return x.name
        of_row = not self._is_flat and x.axes == (writer._rows,)
        lines = self.outer if self._depth == 2 and (of_row or not x.axes) else self.lines
        lines.append(f"{x.name} = {self._at(x)}")
        return x.name

    def _again(self, x: Value) -> str:
        """Return an element that an earlier phase has computed: loaded, or recomputed."""
        writer = self._writer
        if not x.stored and x not in writer._names.rows:
            assert isinstance(x, Map)
            names = {y: self._element(y) for y in x.values}
            self.lines.append(f"{x.name} = {writer._scalars.expression(x, names)}")
            return x.name
        source = self._at(x) if x.stored else f"{writer._names.row(x)}[j]"
        self.lines.append(f"{x.name} = {source}")
        return x.name


def extreme(value: Reduction, so_far: str, term: str) -> str:
    """Return the line that updates a running maximum or minimum with one more term."""
    is_more = f"{term} {'>' if value.op == 'max' else '<'} {so_far}"
    if value.keeps_nan:
        is_more += f" or {term} != {term}"
    return f"{so_far} = {term} if {is_more} else {so_far}"


def _is_extreme(value: Value) -> bool:
    return isinstance(value, Reduction) and value.is_extreme
