"""Which loop computes what: values over the same axes share one, so that memory is read once."""

from collections.abc import Iterable

from sknet.compile.executors.native._value import ArrayCall, Axis, Map, Value, View

__all__ = ["Call", "Loop", "Nest", "Scalar", "Schedule", "Unit"]


class Unit:
    """Something that is done as a whole, before the next begins."""

    members: list[Value]


class Call(Unit):
    """A function over whole arrays."""

    def __init__(self, value: Value) -> None:
        self.members = [value]


class Scalar(Unit):
    """One number."""

    def __init__(self, value: Value) -> None:
        self.members = [value]


class Loop(Unit):
    """A loop over rows, and inside it, if there are columns, loops over those.

    Parameters
    ----------
    rows : Axis
        What the loop runs over.
    columns : Axis or None
        What the loops inside run over.
    """

    def __init__(self, rows: Axis, columns: Axis | None) -> None:
        self.rows, self.columns = rows, columns
        self.members = []

    def takes(self, rows: Axis, columns: Axis | None) -> bool:
        """Tell whether values over these axes can be computed here."""
        return self.rows is rows and (self.columns is None or columns is None or self.columns is columns)


class Nest(Unit):
    """Loops over three and more axes, one inside the other.

    Parameters
    ----------
    space : tuple of Axis
        What the loops run over, the outermost first.
    """

    def __init__(self, space: tuple[Axis, ...]) -> None:
        self.space = space
        self.members = []


class Schedule:
    """Units in an order in which each needs only what those before it have computed.

    A value is computed as late as one of its users allows, and in that user's loop if it can be:
    cheap things that backward needs of forward are then computed there, instead of being kept.

    Parameters
    ----------
    targets : iterable of Value
        What has to be computed, with all that it takes.
    """

    def __init__(self, targets: Iterable[Value]) -> None:
        self.units: list[Unit] = []
        for value in targets:
            self._place(value)

    def _place(self, value: Value) -> None:
        if value.is_placed:
            return
        if isinstance(value, (View, ArrayCall)) or not value.space:
            for x in value.values:
                self._place(x)
            if isinstance(value, View):
                value.home = value.source.home
            else:
                self._append(Call(value) if isinstance(value, ArrayCall) else Scalar(value))
            return
        kind = _Closure if len(value.space) <= 2 else _NestClosure
        closure = kind(value)
        while closure.before:
            for x in closure.before:
                self._place(x)
            closure = kind(value)
        self._join(closure)

    def _append(self, unit: Unit) -> None:
        for value in unit.members:
            value.home = len(self.units)
        self.units.append(unit)

    def _join(self, closure: "_Closure") -> None:
        """Put all of a closure into the first loop that can take it, or into a new one."""
        number = self._first_loop(closure)
        if number == len(self.units):
            self.units.append(closure.loop())
        closure.join(self.units[number])
        for value in closure.inside:
            value.home = number

    def _first_loop(self, closure: "_Closure") -> int:
        start = max([x.home for x in closure.given], default=0)
        for number in range(max(start, 0), len(self.units)):
            unit = self.units[number]
            if closure.fits_into(unit):
                late = [
                    x for x in closure.given if x.home == number and (x.needs_all_rows or isinstance(x, View))
                ]
                if not late:
                    return number
        return len(self.units)


class _Closure:
    """A value, and what is not yet computed that one loop can compute with it.

    Attributes
    ----------
    inside : list of Value
        In order of computation; the value is the last.
    before : list of Value
        What has to be computed first, elsewhere.
    given : list of Value
        What is known.
    """

    def __init__(self, value: Value) -> None:
        assert len(set(value.space)) == len(value.space)
        self.rows = value.space[0]
        self.columns: Axis | None = value.space[1] if len(value.space) > 1 else None
        self.inside: list[Value] = []
        self.before: list[Value] = []
        self.given: list[Value] = []
        self._take(value)

    def _take(self, value: Value) -> None:
        for x in value.values:
            if x in self.inside:
                continue
            if x.is_placed:
                self.given.append(x)
            elif (isinstance(x, Map) or x.is_row_reduction) and self._fits(x.space):
                self._take(x)
            else:
                self.before.append(x)
        if value not in self.inside:
            self.inside.append(value)

    def _fits(self, space: tuple[Axis, ...]) -> bool:
        if not space or len(space) > 2 or space[0] is not self.rows:
            return False
        if len(space) == 2:
            if space[1] is self.rows:  # a loop inside a loop over the same
                return False
            if self.columns is not None and space[1] is not self.columns:
                return False
            self.columns = space[1]
        return True

    def loop(self) -> Unit:
        """Return a new loop that takes these values."""
        return Loop(self.rows, self.columns)

    def fits_into(self, unit: Unit) -> bool:
        """Tell whether a unit can compute these values."""
        return isinstance(unit, Loop) and unit.takes(self.rows, self.columns)

    def join(self, unit: Unit) -> None:
        """Let a unit compute these values."""
        assert isinstance(unit, Loop)
        unit.columns = unit.columns or self.columns
        unit.members += self.inside


class _NestClosure(_Closure):
    """The same for a value over three axes and more, and others over all of them."""

    def __init__(self, value: Value) -> None:
        self._space = value.space
        super().__init__(value)

    def _fits(self, space: tuple[Axis, ...]) -> bool:
        return space == self._space

    def loop(self) -> Unit:
        return Nest(self._space)

    def fits_into(self, unit: Unit) -> bool:
        return isinstance(unit, Nest) and unit.space == self._space

    def join(self, unit: Unit) -> None:
        unit.members += self.inside
