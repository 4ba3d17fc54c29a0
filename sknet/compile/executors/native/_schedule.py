"""Loop fusion: values over the same axes are computed in one loop, so that memory is read once."""

from collections.abc import Iterable

from sknet.compile.executors.native._value import ArrayCall, Axis, Map, Value, View

__all__ = ["Call", "Loop", "Nest", "Scalar", "Schedule", "Stage"]


class Stage:
    """One stage of a step, completed before the next begins."""

    members: list[Value]


class Call(Stage):
    """A function over whole arrays."""

    def __init__(self, value: Value) -> None:
        self.members = [value]


class Scalar(Stage):
    """One number."""

    def __init__(self, value: Value) -> None:
        self.members = [value]


class Loop(Stage):
    """A loop over rows, with inner loops over the columns if there are any.

    Parameters
    ----------
    rows : Axis
        The axis of the outer loop.
    columns : Axis or None
        The axis of the inner loops.
    """

    def __init__(self, rows: Axis, columns: Axis | None) -> None:
        self.rows, self.columns = rows, columns
        self.members = []

    def takes(self, rows: Axis, columns: Axis | None) -> bool:
        """Tell whether values over these axes can be computed here."""
        return self.rows is rows and (self.columns is None or columns is None or self.columns is columns)


class Nest(Stage):
    """A loop nest over three or more axes.

    Parameters
    ----------
    space : tuple of Axis
        The axes of the loops, outermost first.
    """

    def __init__(self, space: tuple[Axis, ...]) -> None:
        self.space = space
        self.members = []


class Schedule:
    """Stages in an order in which each uses only results of earlier ones.

    A value is computed as late as possible, in the loop of its first user if that can compute it: cheap
    values of the forward pass that only the backward pass uses are then computed there, and never stored.

    Parameters
    ----------
    targets : iterable of Value
        The values to compute; what they depend on is scheduled too.
    """

    def __init__(self, targets: Iterable[Value]) -> None:
        self.stages: list[Stage] = []
        for value in targets:
            self._schedule(value)

    def _schedule(self, value: Value) -> None:
        if value.is_scheduled:
            return
        if isinstance(value, (View, ArrayCall)) or not value.space:
            for x in value.values:
                self._schedule(x)
            if isinstance(value, View):
                value.stage = value.source.stage
            else:
                self._append(Call(value) if isinstance(value, ArrayCall) else Scalar(value))
            return
        kind = _Closure if len(value.space) <= 2 else _NestClosure
        closure = kind(value)
        while closure.before:
            for x in closure.before:
                self._schedule(x)
            closure = kind(value)
        self._join(closure)

    def _append(self, stage: Stage) -> None:
        for value in stage.members:
            value.stage = len(self.stages)
        self.stages.append(stage)

    def _join(self, closure: "_Closure") -> None:
        """Add a closure to the first loop that can compute it, or to a new one."""
        number = self._first_loop(closure)
        if number == len(self.stages):
            self.stages.append(closure.loop())
        closure.join(self.stages[number])
        for value in closure.inside:
            value.stage = number

    def _first_loop(self, closure: "_Closure") -> int:
        start = max([x.stage for x in closure.given], default=0)
        for number in range(max(start, 0), len(self.stages)):
            stage = self.stages[number]
            if closure.fits_into(stage):
                late = [
                    x
                    for x in closure.given
                    if x.stage == number and (x.needs_all_rows or isinstance(x, View))
                ]
                if not late:
                    return number
        return len(self.stages)


class _Closure:
    """A value, together with the unscheduled operands that can be computed in the same loop.

    Attributes
    ----------
    inside : list of Value
        The values of the closure, in order of computation; the last is the value itself.
    before : list of Value
        Operands that must be scheduled first, in other stages.
    given : list of Value
        Operands that are scheduled already.
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
            if x.is_scheduled:
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
            if space[1] is self.rows:  # inner and outer loop would be over the same axis
                return False
            if self.columns is not None and space[1] is not self.columns:
                return False
            self.columns = space[1]
        return True

    def loop(self) -> Stage:
        """Return a new loop that takes these values."""
        return Loop(self.rows, self.columns)

    def fits_into(self, stage: Stage) -> bool:
        """Tell whether a stage can compute these values as well."""
        return isinstance(stage, Loop) and stage.takes(self.rows, self.columns)

    def join(self, stage: Stage) -> None:
        """Add these values to a stage."""
        assert isinstance(stage, Loop)
        stage.columns = stage.columns or self.columns
        stage.members += self.inside


class _NestClosure(_Closure):
    """The same for a value over three or more axes, and operands over all of these."""

    def __init__(self, value: Value) -> None:
        self._space = value.space
        super().__init__(value)

    def _fits(self, space: tuple[Axis, ...]) -> bool:
        return space == self._space

    def loop(self) -> Stage:
        return Nest(self._space)

    def fits_into(self, stage: Stage) -> bool:
        return isinstance(stage, Nest) and stage.space == self._space

    def join(self, stage: Stage) -> None:
        stage.members += self.inside
