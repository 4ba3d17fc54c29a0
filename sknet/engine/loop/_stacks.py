"""Choice of the waiting fits that are trained together, as one stack after the other."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from sknet.device import backend
from sknet.engine.loop._member_steps import MemberSteps
from sknet.engine.loop._stack import Stack, StackPlan
from sknet.engine.loop._stack_rows import fit_in_memory
from sknet.engine.loop._turns import Turn, run_in_turns
from sknet.exceptions import CaptureError, GraphError
from sknet.ops.extend import goes_at_once

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["may_be_stacked", "run_stacked"]

Result = TypeVar("Result")
SHARE = 0.75  # of the memory that is free, for a stack


def run_stacked(
    fits: Sequence[Callable[[], Result]], may_stack: Sequence[bool], n_jobs: int | None = None
) -> list[Result]:
    """Run fits together: those on a device that share their structure as one program."""
    return run_in_turns(fits, may_stack, n_jobs, Stacks().serve)


def may_be_stacked(model: "Model") -> bool:
    """Tell whether a fit of a model may be one of those that `run_stacked` makes together."""
    return model.device.kind != "cpu" and bool(model.compile) and model.optimizer.goes_in_steps


class Stacks:
    """The stack that is trained now, and what comes after it."""

    def __init__(self) -> None:
        self._stack: Stack | None = None
        self._refused: set[object] = set()  # forms

    def serve(self, waiting: list[Turn]) -> list[Turn]:
        """Make a block of steps for some of the fits that wait, or tell some to train alone."""
        stack = self._stack_of(waiting)
        if stack is not None:
            return stack.run([turn for turn in waiting if turn.asked.steps in stack])
        form = waiting[0].asked.steps.form
        alone = [turn for turn in waiting if turn.asked.steps.form == form]
        for turn in alone:
            turn.answer(None)
        return alone

    def _stack_of(self, waiting: Sequence[Turn]) -> Stack | None:
        """Return the stack that goes on; a new one if half of it has left, or none is there."""
        live = [] if self._stack is None else self._stack.live
        if self._stack is not None and 2 * len(live) > self._stack.size:
            return self._stack
        if not live:
            self._stack = None
        form = (live or [waiting[0].asked.steps])[0].form
        others = [turn.asked.steps for turn in waiting if turn.asked.steps.form == form]
        members = live + [member for member in others if member not in live]
        found = None if form in self._refused else self._begun(members, len(live))
        if found is not None:
            self._stack = found
        elif not live:
            self._refused.add(form)
        return self._stack

    def _begun(self, members: list[MemberSteps], least: int) -> Stack | None:
        """Return a stack of as many members as memory has room for; None if these are too few."""
        device = members[0].model.device
        owner, least = backend(device.kind), max(least, 2)
        while len(members) >= least:
            try:
                if not _go_at_once(members):
                    return None
                if not fit_in_memory([x.batches for x in members]):
                    alike = _of_one_array(members)
                    if len(alike) == len(members):
                        return None
                    members = alike
                    continue
                plan, room = StackPlan(members), SHARE * owner.free_memory(device)
                if plan.nbytes <= room:
                    return Stack(plan)
                members = members[: min(len(members) - 1, int(len(members) * room / plan.nbytes))]
            except owner.memory_errors:  # free memory may be in pieces
                members = members[: len(members) // 2]
            except (CaptureError, GraphError):
                return None
        return None


def _of_one_array(members: Sequence[MemberSteps]) -> list[MemberSteps]:
    """Return those that take their rows from the same arrays as the first one, such as those of its fold."""

    def source(member: MemberSteps) -> list[int]:
        X = member.batches.X
        return [id(x) for x in (X.values() if isinstance(X, dict) else [X])]

    return [member for member in members if source(member) == source(members[0])]


def _go_at_once(members: Sequence[MemberSteps]) -> bool:
    """Tell whether all operations of a step are made for all members at once, rather than one by one."""
    first = members[0]
    return all(
        goes_at_once(equation.primitive)
        for n_rows in first.sizes
        for equation in first.captured(n_rows).graph.equations
    )
