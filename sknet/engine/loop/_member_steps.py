"""The steps of a fit that is trained together with others of its structure, as one program on a device."""

import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sknet.compile import Variable, capture
from sknet.compile.extend import LiftedGraph, lift_constants
from sknet.device import active, backend, is_array, namespace
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._choice import steps_for
from sknet.engine.loop._computed import ComputedRows
from sknet.engine.loop._device_steps import are_same, made_of, step_function
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._steps import Block, EagerSteps, Steps
from sknet.engine.loop._turns import Turn, current_turn
from sknet.engine.state import Fingerprint, any_sparse, each_input, structure_of
from sknet.engine.step import (
    advance,
    check_repeatable,
    follow_schedules,
    per_output,
)
from sknet.exceptions import CaptureError, GraphError

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Asked", "Done", "MemberSteps", "Place", "member_steps"]


class Asked(NamedTuple):
    """A block of steps that a fit waits for."""

    steps: "MemberSteps"
    order: Any
    first: int
    most: int
    is_scored: bool


class Done(NamedTuple):
    """The block that a fit has been given; None in its place tells the fit to train alone."""

    reports: np.ndarray
    outputs: Any
    output: Variable
    buffers: dict[str, Any]


class Place(NamedTuple):
    """The arrays of one member of a stack."""

    flat: Any
    slots: dict[str, Any]
    untrained: dict[str, Any]


class MemberSteps(Steps):
    """Steps on a device that are made for many models at once, each with its own rows, rates and seed."""

    def __init__(self, model: "Model", batches: Batches, check_finite: bool, turn: Turn) -> None:
        super().__init__(model, batches, check_finite)
        self.optimizer = model.optimizer.in_steps()
        self._turn = turn
        self._alone: Steps | None = None
        self._captured: dict[int, LiftedGraph] = {}
        self._structure = structure_of(model.module, model.loss_function, model.alpha, self.optimizer)
        self._made_of = made_of(model)
        self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)
        self._is_placed = False
        forms = turn.board.setdefault("forms", {})
        self.form: int = forms.setdefault(self._form(), len(forms))
        turn.at_end.append(self.give_back)
        turn.steps = self

    @property
    def name(self) -> str:
        return type(self).__name__ if self._alone is None else self._alone.name

    def hold(self) -> bool:
        if self._alone is not None:
            return self._alone.hold()
        return are_same(made_of(self.model), self._made_of) and self._fingerprint.holds()

    # -- what steps can be made together --------------------------------------------------------

    def _form(self) -> Hashable:
        model, batches = self.model, self.batches
        sizes = self.sizes
        inputs = batches.X if isinstance(batches.X, dict) else {None: batches.X}
        dtypes = batches.input_dtype
        kinds = dtypes.values() if isinstance(dtypes, dict) else [dtypes]
        return (
            *(self.captured(n_rows).key for n_rows in sizes),
            tuple(model.memory.layout.shapes.items()),
            (model.precision, model.device, self.check_finite, batches.n_samples, batches.size),
            tuple(zip(inputs, map(str, kinds), strict=True)),
            (model.memory.slot_names, tuple(model.memory.untrained), tuple(model.buffers)),
            tuple(self.optimizer.hyper(1, model.progress)),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of rows that a batch may have."""
        return tuple(n_rows for _, n_rows, _ in self.batches.alike)

    def captured(self, n_rows: int) -> LiftedGraph:
        """Return the step of this model alone on so many rows, as a graph with its numbers."""
        if n_rows not in self._captured:
            known = self._turn.board.setdefault("captured", {})
            key = None if self._structure is None else (*self._what_a_graph_depends_on, n_rows)
            if key is None or key not in known:
                found = self._capture(n_rows)
                if key is None:
                    self._captured[n_rows] = found
                    return found
                known[key] = found
            self._captured[n_rows] = known[key]
        return self._captured[n_rows]

    @property
    def _what_a_graph_depends_on(self) -> tuple[Hashable, ...]:
        model, batches = self.model, self.batches
        arrays = [batches.y, *([] if batches.weight is None else [batches.weight])]
        inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
        return (
            self._structure,
            tuple(model.memory.layout.shapes.items()),
            (model.dtype, model.device, self.check_finite, str(batches.input_dtype)),
            tuple((x.shape[1:], str(x.dtype)) for x in (*inputs, *arrays)),
            len(arrays),
        )

    def _capture(self, n_rows: int) -> LiftedGraph:
        model, batches = self.model, self.batches
        function = step_function(model, batches.weight is not None, self.check_finite, is_masked=True)

        def one(x: Any, dtype: Any) -> Variable:
            return Variable((n_rows, *x.shape[1:]), dtype)

        with active(model.device, model.precision):
            flat, slots = model.memory.flat_buffers()
            hyper = {name: Variable((), flat.dtype) for name in self.optimizer.hyper(1, model.progress)}
            X = each_input(one, batches.X, batches.input_dtype)
            y, weight = (None if x is None else one(x, x.dtype) for x in (batches.y, batches.weight))
            counter, is_fine = Variable((), np.int64), Variable((), np.bool_)
            args = (flat, slots, model.memory.untrained, counter, is_fine, hyper, X, y, weight)
            key = Variable((), np.int64), Variable((), np.int64)
            check_repeatable(model, function, (*args, key))
            return lift_constants(capture(function, *args, key))

    # -- the place in a stack -------------------------------------------------------------------

    def move(self, place: Place) -> None:
        """Let the model keep its arrays where the stack reads and writes them."""
        model = self.model
        with active(model.device, model.precision):
            for name, array in model.buffers.items():
                place.untrained[name][...] = array
            model.memory.move(place.flat, place.slots, place.untrained)
        self._made_of, self._is_placed = made_of(model), True

    def give_back(self) -> None:
        """Leave the stack: the model keeps its arrays by itself."""
        memory, self.has_left = self.model.memory, True
        if self._turn.steps is self:
            self._turn.steps = None
        is_placed, self._is_placed = self._is_placed, False
        if not is_placed or memory.is_spent or memory.flat is not self._made_of[0]:
            return
        owner, frozen = backend(memory.device.kind), {name: p.data for name, p in memory.frozen.items()}
        try:
            with active(memory.device):
                own = {name: owner.zeros(x.shape, x.dtype, memory.device) for name, x in frozen.items()}
                buffers = {name: array.copy() for name, array in memory.buffers.items()}
                memory.move(memory.zeros(), {name: memory.zeros() for name in memory.slots}, own)
                memory.set_buffers(buffers)
            self.model._predictors.forget(self._made_of[0])
        except owner.memory_errors:
            pass  # the memory of the stack is kept instead

    has_left = False  # or has ended

    # -- steps ----------------------------------------------------------------------------------

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        if self._alone is None:
            found = self._turn.wait(Asked(self, order, first, most, outputs is not None))
            if found is not None:
                return self._taken(found, order, first, outputs)
            self._go_alone()
        assert self._alone is not None
        return self._alone.run(order, first, most, outputs)

    def _taken(self, found: Done, order: Any, first: int, outputs: Outputs | None) -> Block:
        model, reports = self.model, found.reports
        _, n_rows = self.batches.part(order, first)
        done = len(reports) if reports[:, 2].all() else int(np.argmin(reports[:, 2]))
        if not done:  # raises an error that says what is wrong, unless it was a false alarm
            return EagerSteps(model, self.batches, self.check_finite).run(order, first, 1, outputs)
        if outputs is not None:
            given, n = found.outputs, done * n_rows
            room = outputs.free(n, given.shape[1:], given.dtype, namespace(given))
            room[:n] = given[:n]
        advance(model, found.buffers, done)
        losses = per_output(model, 1.0, found.output) * reports[:done, 0] + reports[:done, 1]
        return Block(losses, done * n_rows)

    def _go_alone(self) -> None:
        self.give_back()
        self._turn.leave()
        self._alone = steps_for(self.model, self.batches, self.check_finite)


def member_steps(model: "Model", batches: Batches, check_finite: bool) -> MemberSteps | None:
    """Return steps that are made together with those of other fits; None if this fit trains alone."""
    turn = current_turn()
    if turn is None or turn.steps is not None:  # a callback of the fit that takes turns trains this model
        return None
    # Who has changed what its steps are made of goes on alone.
    if not turn.at_end and _may_be_member(model, batches):
        try:
            return MemberSteps(model, batches, check_finite, turn)
        except (CaptureError, GraphError):
            pass  # told by the steps of this fit alone
    turn.leave()
    return None


def _may_be_member(model: "Model", batches: Batches) -> bool:
    if model.device.kind == "cpu" or not model.compile or any_sparse(batches.X) or follow_schedules(model):
        return False
    inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
    return all(is_array(x) and not isinstance(x, ComputedRows) for x in inputs)
