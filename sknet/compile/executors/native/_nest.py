"""Loop nests over three or more axes as source; each array is indexed by the axes that it has."""

from collections.abc import Iterator

from sknet.compile.executors.native._loops import START, Names, extreme
from sknet.compile.executors.native._scalar import ScalarWriter
from sknet.compile.executors.native._schedule import Nest
from sknet.compile.executors.native._value import Map, Reduction, Value

__all__ = ["NestWriter"]


class NestWriter:
    """Writes one loop nest.

    Parameters
    ----------
    nest : Nest
        What is computed.
    names : Names
        Names of arrays.
    scalars : ScalarWriter
        Writes expressions.
    """

    def __init__(self, nest: Nest, names: Names, scalars: ScalarWriter) -> None:
        self._names, self._scalars = names, scalars
        self._members, self._inside = nest.members, set(nest.members)
        *outer, self._last = nest.space
        self._outer = {axis: f"i{n}" for n, axis in enumerate(outer)}
        self._letters = self._outer | {self._last: "j"}  # the name of the index in `Indexed` expressions

    def lines(self) -> Iterator[str]:
        """Yield the lines."""
        sums = [value for value in self._members if isinstance(value, Reduction)]
        for value in sums:
            yield self._initial(value)
        indent = ""
        for axis, letter in self._outer.items():
            yield f"{indent}for {letter} in range({self._names.size(axis)}):"
            indent += "    "
        for line in (*self._loads(inner=False), *self._row_starts(sums)):
            yield indent + line
        yield f"{indent}for j in range({self._names.size(self._last)}):"
        for line in self._body():
            yield f"{indent}    {line}"
        for value in sums:
            if self._is_of_rows(value):
                yield indent + self._row_end(value)
        for value in sums:
            if not value.axes and not value.is_extreme:
                yield f"{value.name} = {self._scalars.type_of(value.dtype)}({value.name}_sum)"

    def _body(self) -> Iterator[str]:
        yield from self._loads(inner=True)
        for value in self._members:
            if isinstance(value, Map):
                yield f"{value.name} = {self._scalars.expression(value, {x: x.name for x in value.values})}"
                if value.stored:
                    yield f"{self._at(value)} = {value.name}"
            else:
                assert isinstance(value, Reduction)
                yield self._added(value)

    def _loads(self, inner: bool) -> Iterator[str]:
        """Yield lines that load elements: those that vary in the innermost loop, or the others."""
        read = dict.fromkeys(x for value in self._members for x in value.values)
        for x in read:
            if x not in self._inside and not x.is_local and (self._last in x.axes) == inner:
                yield f"{x.name} = {self._at(x)}"

    def _at(self, value: Value) -> str:
        index = ", ".join(self._letters[axis] for axis in value.axes)
        return f"{self._names.array(value)}[{index or 0}]"

    # -- reductions ---------------------------------------------------------------------------

    def _is_of_rows(self, value: Reduction) -> bool:
        """Tell whether the innermost loop computes one number, which is then added to the result."""
        return self._last not in value.axes and not (value.is_extreme and not value.axes)

    def _initial(self, value: Reduction) -> str:
        if value.axes:
            return f"{self._names.array(value)}[:] = {START[value.op]}"
        return f"{value.name} = {START[value.op]}" if value.is_extreme else f"{value.name}_sum = 0.0"

    def _row_starts(self, sums: list[Reduction]) -> Iterator[str]:
        for value in sums:
            if self._is_of_rows(value):
                yield f"{value.name}_row = {START[value.op]}"

    def _added(self, value: Reduction) -> str:
        terms = [x.name for x in value.values]
        if value.is_extreme:
            so_far = value.name if not value.axes else self._at(value)
            return extreme(value, f"{value.name}_row" if self._is_of_rows(value) else so_far, terms[0])
        if not self._is_of_rows(value):
            return f"{self._at(value)} += {terms[0]}"
        total = f"{value.name}_row"
        if value.op == "inner":
            return f"{total} = plus_product({total}, {terms[0]}, {terms[-1]})"
        term = f"({terms[0]} if j == {terms[1]} else T(0.0))" if value.op == "pick" else terms[0]
        return f"{total} = plus({total}, {term})"

    def _row_end(self, value: Reduction) -> str:
        row = f"{value.name}_row"
        if value.is_extreme:
            return extreme(value, self._at(value), row)
        if value.axes:
            return f"{self._at(value)} += {row}"
        return f"{value.name}_sum = plus({value.name}_sum, {row})"
