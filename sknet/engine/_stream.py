"""Training on streams of batches, one batch after the other."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sknet import ops
from sknet._parallel import Cache
from sknet.device import backend, leased
from sknet.engine._batches import Batches
from sknet.engine._checks import check_losses, look_at_output, note_inputs
from sknet.engine._fit import Fit, FitKeeper, History, Hooks, digested
from sknet.engine._fit_rows import Options, Prepared, check_count, checked_rows
from sknet.engine._inputs import computed_dtype, each_input, n_rows
from sknet.engine._loop import Epochs, Loop, Settings, Sums, run_loop
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import stepping_optimizer
from sknet.engine._programs import check_classes_of, show_rows
from sknet.engine._runner_cache import steps_for
from sknet.engine._runners import NO_LOSSES, Block, EagerSteps, Outputs, Steps
from sknet.engine._scheduler import raise_if_cancelled
from sknet.exceptions import StateError
from sknet.persistence import differences

MOST_SHAPES = 8  # of batches, each with its own programs


class BatchSteps:
    """Training steps on single batches, with programs and memory for each shape."""

    def __init__(self, model: ModelLike, settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._by_shape = Cache(MOST_SHAPES)
        self._first: Any = None
        self._never = False  # whether this model's step cannot be compiled

    def run(self, X: Any, y: Any, weight: Any, outputs: Outputs | None) -> Block:
        """Train on one batch of checked arrays."""
        key = _key_of(X, y, weight)
        steps: Steps | bool | None = self._by_shape.get(key, False)
        if not isinstance(steps, Steps):
            steps = self._new(key, X, y, weight, is_new=steps is False)
        self._by_shape.put(key, steps if self._is_kept(steps) else None)
        steps.batches.refill(X, y, weight)
        return steps.run(None, 0, 1, outputs)

    def pass_by(self, X: Any, y: Any, weight: Any) -> None:
        """Register the shape of a batch that was trained on before, so that later ones take the same path."""
        key = _key_of(X, y, weight)
        self._first = self._first or _form_of(key)
        self._by_shape.put(key, self._by_shape.get(key))

    def refresh(self) -> None:
        """Discard steps that are no longer valid."""
        if not all(steps is None or steps.is_valid() for steps in self._by_shape.values()):
            self._first, self._never = None, False
            self._by_shape.clear()

    def _is_kept(self, steps: Steps) -> bool:
        return self._never or not isinstance(steps, EagerSteps)

    def _new(self, key: Any, X: Any, y: Any, weight: Any, is_new: bool) -> Steps:
        model, settings = self._model, self._settings
        batches = self._room_for(X, y, weight)
        form = _form_of(key)
        waits = self._first not in (None, form) and is_new and model.compile == "auto"
        if self._never or waits:
            return EagerSteps(model, batches, settings.check_finite)
        found = steps_for(model, batches, settings.check_finite)
        self._first = self._first or form
        self._never = isinstance(found, EagerSteps)
        return found

    def _room_for(self, X: Any, y: Any, weight: Any) -> Batches:
        """Return memory on the device for batches of this shape."""
        model = self._model

        def room(array: Any) -> Any:
            if array is None or ops.is_sparse(array):
                return array
            dtype = computed_dtype(array, model.dtype)
            return backend(model.device.kind).zeros(array.shape, dtype, model.device)

        return Batches(each_input(room, X), room(y), room(weight), n_rows(X), model.dtype, model.device)


def _key_of(X: Any, y: Any, weight: Any) -> Any:
    """Return everything about a batch that its program depends on."""
    inputs = X if isinstance(X, dict) else {"": X}
    arrays = {**inputs, "y ": y, "weight ": weight}  # with a space, which no argument's name contains
    return tuple((name, *_form(array)) for name, array in arrays.items())


def _form_of(key: Any) -> Any:
    """Return a key without the number of rows."""
    return tuple((name, shape[1:], *kind) for name, shape, *kind in key)


def _form(array: Any) -> tuple[tuple[int, ...], str, bool]:
    """Return everything about an array that a program depends on."""
    return ((), "", False) if array is None else (tuple(array.shape), str(array.dtype), ops.is_sparse(array))


class Feed:
    """The batches of a fit, epoch by epoch."""

    def __init__(
        self, batches: Any, epochs: int | None, n_steps: int | None, steps_per_epoch: int | None, caller: str
    ) -> None:
        for name, value in (("epochs", epochs), ("n_steps", n_steps), ("steps_per_epoch", steps_per_epoch)):
            if value is not None:
                check_count(value, name, caller)
        self._caller, self._batches = caller, batches
        self._is_function = callable(batches) and not hasattr(batches, "__iter__")
        if not self._is_function and not isinstance(batches, Iterable):
            raise TypeError(
                f"{caller} expects an iterable of batches (X, y) or (X, y, sample_weight), or a function "
                f"that returns one, got {type(batches).__name__}"
            )
        self._once = isinstance(batches, Iterator)
        self._epochs = 1 if epochs is None and n_steps is None else epochs
        self._left, self._per_epoch = n_steps, steps_per_epoch
        if self._once and steps_per_epoch is None and (self._epochs or 1) > 1:
            raise ValueError(
                f"{caller} was asked to iterate over the batches {self._epochs} times, but a generator can "
                "be iterated only once: pass a list, an object whose __iter__ starts again, the generator "
                "function itself, or steps_per_epoch"
            )
        self._in_epoch = 0
        self._passes: Iterator[Any] | None = None
        self._next: Any = None
        self._n_batches = len(batches) if hasattr(batches, "__len__") else None
        self.n_steps = self._planned(n_steps)

    def _planned(self, n_steps: int | None) -> int | None:
        size = self._per_epoch or self._n_batches
        known = None if self._epochs is None or size is None else self._epochs * size
        if self._once and n_steps is None and self._per_epoch is not None:
            return None  # the stream may end earlier
        return min((n for n in (n_steps, known) if n is not None), default=None)

    @property
    def most_epochs(self) -> int:
        if self._left is None:
            return self._epochs or 1
        size = self._per_epoch or self._n_batches or 1
        by_steps = -(-self._left // size)
        return by_steps if self._epochs is None else min(self._epochs, by_steps)

    @property
    def first(self) -> Any:
        """The next batch, after `begin_epoch`."""
        return self._next

    def begin_epoch(self) -> bool:
        """Tell whether another epoch has a batch."""
        self._in_epoch = 0
        if self._per_epoch is None and self._passes is not None and self._next is None:
            if self._once:
                return False
            self._passes = None
        return self._peek()

    def has_next(self) -> bool:
        """Tell whether the epoch has another batch."""
        return self._in_epoch != self._per_epoch and self._peek()

    def next(self) -> Any:
        """Return the next batch of the epoch; None at its end."""
        if not self.has_next():
            return None
        batch, self._next = self._next, None
        self._in_epoch += 1
        if self._left is not None:
            self._left -= 1
        return batch

    def _peek(self) -> bool:
        """Tell whether there is a next batch, in this pass or (if epochs are counted in steps) a new one."""
        if self._next is not None:
            return True
        if self._left == 0:
            return False
        for _ in range(2):
            is_new = self._passes is None
            passes = self._passes
            if passes is None:
                passes = self._passes = iter(self._batches() if self._is_function else self._batches)
            self._next = next(passes, None)
            if self._next is not None:
                return True
            if is_new:
                raise ValueError(f"{self._caller} got no batches: the iterable is empty")
            if self._per_epoch is None or self._once:
                return False
            self._passes = None
        return False


class StreamEpochs(Epochs):
    def __init__(self, fit: Fit, feed: Feed, settings: Settings) -> None:
        super().__init__(fit, Sums(None, self._targets))
        self._feed = feed
        self._steps = BatchSteps(fit.model, settings)
        self._counts: list[int] = []  # batches of each finished epoch
        self._latest: Any = None

    @property
    def steps_name(self) -> str:
        return type(self._steps).__name__

    def refresh(self, n_iter: int) -> None:
        self._steps.refresh()

    def another(self) -> bool:
        return self._feed.begin_epoch()

    def begin(self) -> None:
        """Nothing to do: `another` has fetched the first batch already."""

    def has(self, number: int) -> bool:
        return self._feed.has_next()

    def train(self, number: int, most: int) -> tuple[int, np.ndarray[Any, Any]]:
        sums, model = self.sums, self.fit.model
        X, y, weight = self._latest = _checked(model, self._feed.next(), self.place(number))
        if weight is not None and not weight.any():
            sums.skip(len(y))  # all weights are zero: nothing to learn
            return 1, NO_LOSSES
        block = self._steps.run(X, y, weight, sums.outputs)
        model.memory.note_written("a fit")
        sums.add(block)
        return 1, block.losses

    def place(self, number: int) -> str:
        return f"batch {number + 1} of epoch {self.fit.epoch}"

    def end(self, number: int) -> None:
        super().end(number)
        self._counts.append(number)

    def _targets(self, part: slice) -> tuple[Any, Any, Any]:
        _, y, weight = self._latest
        return y, weight, None

    # -- saving ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        latest = _digests(self._latest)
        return {"counts": list(self._counts), "planned": self._feed.n_steps, "latest": latest}

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        for count in state["counts"]:
            self._pass_by(count, path)
        self._counts = list(state["counts"])
        if state["inside"] is not None:
            self._pass_by(state["inside"]["batch"], path)
        if differences(state["latest"], _digests(self._latest)):
            raise StateError(
                f"{path} is of a fit on other batches: the last one before it was saved had other values. "
                "The stream must yield the same batches again, from the first one"
            )

    def _pass_by(self, count: int, path: str) -> None:
        """Skip batches of an epoch that were trained on before the fit was saved."""
        self._feed.begin_epoch()
        for _ in range(count):
            batch = self._feed.next()
            if batch is None:
                raise StateError(f"{path} is of a fit on other batches: there were more of them")
            self._latest = _checked(self.fit.model, batch, "a batch before the checkpoint")
            self._steps.pass_by(*self._latest)

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        now, then = self._feed.n_steps, state["planned"]
        return None if now is None or then is None else now - int(then)


def _digests(batch: Any) -> Any:
    return digested(None if batch is None else dict(zip(("X", "y", "sample_weight"), batch, strict=True)))


def _checked(model: ModelLike, batch: Any, place: str) -> tuple[Any, Any, Any]:
    """Return the arrays of a batch; `place` names it in errors."""
    if not isinstance(batch, (tuple, list)) or not 2 <= len(batch) <= 3:
        size = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
        raise TypeError(
            f"{place} must be a tuple (X, y) or (X, y, sample_weight), got {type(batch).__name__}{size}"
        )
    try:
        X, y, weight = checked_rows(model.loss_function, *batch)
        check_classes_of(model.materialize(X), X, y)
        check_losses(model, y, weight)
        return X, y, weight
    except (TypeError, ValueError, RuntimeError) as error:
        error.add_note(f"in {place}")
        raise


def fit_batches(
    model: ModelLike,
    batches: Any,
    epochs: int | None,
    n_steps: int | None,
    steps_per_epoch: int | None,
    options: Options,
    resume_from: Any = None,
) -> History:
    feed = Feed(batches, epochs, n_steps, steps_per_epoch, options.caller)
    prepared = Prepared(model, options, resume_from=resume_from)
    model.optimizer.in_steps()
    if not feed.begin_epoch():
        raise ValueError(f"{options.caller} got no batches: the iterable is empty")
    X, y, weight = _checked(model, feed.first, "the first batch")
    stepping_optimizer(model)
    validation = prepared.validation(X)
    step = model.progress.step
    total = None if feed.n_steps is None else step + feed.n_steps
    model.progress = model.progress.planned(total)
    settings = Settings(max_iter=feed.most_epochs, check_finite=options.check_finite)
    fit = Fit(model, None, prepared.history, settings.max_iter, validation is not None, prepared.source)
    loop = Loop(fit, StreamEpochs(fit, feed, settings), prepared.new_score, validation)

    def begin(hooks: Hooks) -> None:
        first = Batches(X, y, weight, n_rows(X), model.dtype, model.device)
        show_rows(model, first.n_samples, first.inputs)
        note_inputs(model, X)
        look_at_output(model, first.inputs)
        keeper = FitKeeper(fit, loop, hooks, None if validation is None else validation.batches, first)
        fit.state = keeper.state
        if prepared.saved is not None:
            keeper.load(prepared.saved)
            keeper.warn_of_environment(prepared.saved)

    try:
        with leased(model.device, raise_if_cancelled):
            run_loop(loop, fit, prepared.all_callbacks, begin)
    finally:
        prepared.hand_back()
    return prepared.history
