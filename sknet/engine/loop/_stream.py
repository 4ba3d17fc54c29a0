"""Training on batches that come one after the other, from whatever yields them."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sknet import ops
from sknet.device import backend
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._choice import steps_for
from sknet.engine.loop._fit import Fit
from sknet.engine.loop._fit_state import FitKeeper
from sknet.engine.loop._history import History
from sknet.engine.loop._hooks import Hooks
from sknet.engine.loop._interrupt import InterruptGuard
from sknet.engine.loop._model_fit import Options, Prepared, check_count, checked_rows
from sknet.engine.loop._scores import Score
from sknet.engine.loop._steps import Block, EagerSteps, Steps
from sknet.engine.loop._train import Loop, Settings, Validation, run_loop
from sknet.engine.state import computed_dtype, each_input, n_rows, stepping_optimizer
from sknet.engine.step import show_rows
from sknet.exceptions import NonFiniteError, StateError
from sknet.persistence import differences, digest

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["fit_batches"]

KEPT = 8  # shapes of batches, each with programs of its own
MANY = 10_000  # steps that are expected of a stream of unknown length


class Feed:
    """The batches of a fit, epoch by epoch.

    Parameters
    ----------
    batches : iterable or callable
        An iterable of batches, or a function without parameters that returns one.
    epochs, n_steps, steps_per_epoch : int or None
        As for `Model.train`.
    caller : str
        What the user called, for messages.
    """

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
                f"{caller} was to go over the batches {self._epochs} times, and a generator can be gone over "
                "once: pass a list, an object whose __iter__ begins anew, the generator function itself, or "
                "steps_per_epoch"
            )
        self._in_epoch = 0
        self._passes: Iterator[Any] | None = None
        self._next: Any = None
        self._n_batches = len(batches) if hasattr(batches, "__len__") else None
        self.n_steps = self._planned(n_steps)

    def _planned(self, n_steps: int | None) -> int | None:
        """Return how many steps there will be; None where nobody knows."""
        size = self._per_epoch or self._n_batches
        known = None if self._epochs is None or size is None else self._epochs * size
        if self._once and n_steps is None and self._per_epoch is not None:
            return None  # it may end before
        return min((n for n in (n_steps, known) if n is not None), default=None)

    @property
    def most_epochs(self) -> int:
        """How many epochs there are at most."""
        if self._left is None:
            return self._epochs or 1
        size = self._per_epoch or self._n_batches or 1
        by_steps = -(-self._left // size)
        return by_steps if self._epochs is None else min(self._epochs, by_steps)

    @property
    def first(self) -> Any:
        """The batch that comes next, after `begin_epoch`."""
        return self._next

    def begin_epoch(self) -> bool:
        """Tell whether another epoch has a batch."""
        self._in_epoch = 0
        if self._per_epoch is None and self._passes is not None and self._next is None:
            if self._once:
                return False
            self._passes = None
        return self._peek()

    def next(self) -> Any:
        """Return the next batch of the epoch; None at its end."""
        if self._in_epoch == self._per_epoch or not self._peek():
            return None
        batch, self._next = self._next, None
        self._in_epoch += 1
        if self._left is not None:
            self._left -= 1
        return batch

    def _peek(self) -> bool:
        """Tell whether there is a next batch, in this pass or, if epochs are counted in steps, in another."""
        if self._next is not None:
            return True
        if self._left == 0:
            return False
        for _ in range(2):
            is_new = self._passes is None
            if is_new:
                self._passes = iter(self._batches() if self._is_function else self._batches)
            self._next = next(self._passes, None)  # type: ignore[arg-type]
            if self._next is not None:
                return True
            if is_new:
                raise ValueError(f"{self._caller} got no batch: what it was given to go over is empty")
            if self._per_epoch is None or self._once:
                return False
            self._passes = None
        return False


class BatchSteps:
    """Training steps on single batches: programs for each shape that comes, in memory of their own.

    Parameters
    ----------
    model : Model
        Trained.
    settings : Settings
        The user's.
    planned : int
        How many steps there will be.

    Notes
    -----
    The first shape is compiled at once, and so is one that differs in the number of rows alone, as the last
    batch of an epoch does. Of all others, such as sequences of many lengths, the first batch is trained on
    one operation after the other, and the next one of its shape is compiled.
    """

    def __init__(self, model: "Model", settings: Settings, planned: int) -> None:
        self._model, self._settings, self._planned = model, settings, planned
        self._by_shape: OrderedDict[Any, Steps | None] = OrderedDict()
        self._first: Any = None
        self._never = False  # a step of this model is not compiled

    def run(self, X: Any, y: Any, weight: Any) -> Block:
        """Train on one batch of checked arrays."""
        key = _key_of(X, y, weight)
        steps = self._by_shape.get(key)
        if steps is None:
            steps = self._new(key, X, y, weight)
        self._by_shape[key] = steps if self._is_kept(steps) else None
        self._by_shape.move_to_end(key)
        if len(self._by_shape) > KEPT:
            self._by_shape.popitem(last=False)
        steps.batches.refill(X, y, weight)
        return steps.run(None, 0, 1)

    def pass_by(self, X: Any, y: Any, weight: Any) -> None:
        """Know a batch that was trained on before, so that the next of its shape is done as it would be."""
        key = _key_of(X, y, weight)
        self._first = self._first or _form_of(key)
        self._by_shape.setdefault(key, None)
        self._by_shape.move_to_end(key)
        if len(self._by_shape) > KEPT:
            self._by_shape.popitem(last=False)

    def follow(self) -> None:
        """Forget steps that do not hold any more."""
        held = {key: None if s is None or not s.hold() else s for key, s in self._by_shape.items()}
        if held != dict(self._by_shape):
            self._first, self._never = None, False
            self._by_shape.clear()

    def _is_kept(self, steps: Steps) -> bool:
        return self._never or not isinstance(steps, EagerSteps)

    def _new(self, key: Any, X: Any, y: Any, weight: Any) -> Steps:
        model, settings = self._model, self._settings
        batches = self._room_for(X, y, weight)
        form = _form_of(key)
        waits = self._first not in (None, form) and key not in self._by_shape and model.compile == "auto"
        if self._never or waits:
            return EagerSteps(model, batches, settings.check_finite)
        found = steps_for(model, batches, settings.check_finite, self._planned, settings.seeded)
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
    """Return all of a batch that its program depends on."""
    inputs = X if isinstance(X, dict) else {"": X}
    arrays = {**inputs, "y ": y, "weight ": weight}  # no argument has a space in its name
    return tuple((name, *_form(array)) for name, array in arrays.items())


def _form_of(key: Any) -> Any:
    """Return the same but for the number of rows."""
    return tuple((name, shape[1:], *kind) for name, shape, *kind in key)


def _form(array: Any) -> tuple[tuple[int, ...], str, bool]:
    """Return all that a program depends on."""
    return ((), "", False) if array is None else (tuple(array.shape), str(array.dtype), ops.is_sparse(array))


class StreamEpoch:
    """Sums over the batches of an epoch."""

    def begin(self, score: Score) -> None:
        """Start anew."""
        self.score, self._loss, self.n_rows = score, 0.0, 0

    def add(self, block: Block, y: Any, weight: Any) -> None:
        """Add what training on a batch has come to."""
        self._loss += float(block.losses[0]) * len(y)
        self.n_rows += len(y)
        self.score.add(block.outputs, y, weight, None)

    def skip(self, n_rows: int) -> None:
        """Leave out rows without weight."""
        self.n_rows += n_rows

    def state(self) -> dict[str, Any]:
        """Return what the batches so far came to."""
        return {"loss": self._loss, "rows": self.n_rows, "score": self.score.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._loss, self.n_rows = state["loss"], state["rows"]
        self.score.load_state(state["score"])

    @property
    def mean_loss(self) -> float:
        """Mean of the batches' losses, by rows."""
        return self._loss / self.n_rows


class StreamLoop(Loop):
    """The epochs of a fit on batches that come one after the other.

    Parameters
    ----------
    fit : Fit
        What the callbacks see.
    settings, new_score, validation
        As for `train`.
    feed : Feed
        The batches.
    """

    def __init__(
        self,
        fit: Fit,
        settings: Settings,
        new_score: Callable[[], Score],
        validation: Validation | None,
        feed: Feed,
    ) -> None:
        self._fit, self._settings = fit, settings
        self._new_score, self._validation = new_score, validation
        self._feed, self._epoch = feed, StreamEpoch()  # type: ignore[assignment]
        self._steps = BatchSteps(fit.model, settings, feed.n_steps or MANY)
        self._order = self._number = None
        self._counts: list[int] = []  # batches of each epoch that has ended
        self._latest: Any = None
        self.guard = InterruptGuard()
        self.n_iter = 0

    def _goes_on(self) -> bool:
        return super()._goes_on() and self._feed.begin_epoch()

    def _follow(self) -> None:
        self._steps.follow()

    def _begin_epoch(self) -> None:
        self._number = 0
        self._open_epoch()

    def _open_epoch(self) -> None:
        self._epoch.begin(self._new_score())  # type: ignore[call-arg]

    def _run_epoch(self, hooks: Hooks) -> None:
        fit, epoch, number = self._fit, self._epoch, self._number or 0
        while hooks.stopped_by is None:
            self.guard.poll()
            batch = self._feed.next()
            if batch is None:
                break
            self._number = number = number + 1
            place = f"batch {number} of epoch {fit.epoch}"
            X, y, weight = self._latest = _checked(fit.model, batch, place)
            if weight is not None and not weight.any():
                epoch.skip(len(y))  # no row counts: nothing to learn from it
                continue
            try:
                block = self._steps.run(X, y, weight)
            except NonFiniteError as error:
                raise NonFiniteError(f"training diverged in {place}: {error}", error.parameter) from None
            fit.model.memory.note_written("a fit")
            epoch.add(block, y, weight)  # type: ignore[call-arg]
            fit.step += 1
            fit.losses = block.losses
            hooks.call("on_block_end")
        self._counts.append(number)

    # -- saving ---------------------------------------------------------------------------------

    @property
    def steps_name(self) -> str:
        return type(self._steps).__name__

    def state(self) -> dict[str, Any]:
        latest = _digested(self._latest)
        more = {"counts": list(self._counts), "planned": self._feed.n_steps, "latest": latest}
        return {**super().state(), **more}

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        super().load_state(state, path)
        for count in state["counts"]:
            self._pass_by(count, path)
        self._counts = list(state["counts"])
        if state["inside"] is not None:
            self._pass_by(state["inside"]["batch"], path)
        if differences(state["latest"], _digested(self._latest)):
            raise StateError(
                f"{path} is of a fit on other batches: the last one before it was saved has other values. "
                "The same batches must come again, from the first on"
            )

    def _pass_by(self, count: int, path: str) -> None:
        """Take batches of an epoch that were trained on before the fit was saved."""
        self._feed.begin_epoch()
        for _ in range(count):
            batch = self._feed.next()
            if batch is None:
                raise StateError(f"{path} is of a fit on other batches: there were more of them")
            self._latest = _checked(self._fit.model, batch, "a batch before the checkpoint")
            self._steps.pass_by(*self._latest)

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        now, then = self._feed.n_steps, state["planned"]
        return None if now is None or then is None else now - int(then)


def _digested(batch: Any) -> Any:
    """Return what tells a batch apart."""
    if batch is None:
        return None
    X, y, weight = batch
    inputs = X if isinstance(X, dict) else {"X": X}
    arrays = {**inputs, "y": y, "sample_weight": weight}
    return {name: None if array is None else digest(array) for name, array in arrays.items()}


def _checked(model: "Model", batch: Any, place: str) -> tuple[Any, Any, Any]:
    """Return the arrays of a batch; an error says which batch it was."""
    if not isinstance(batch, (tuple, list)) or not 2 <= len(batch) <= 3:
        size = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
        raise TypeError(
            f"{place} must be a tuple (X, y) or (X, y, sample_weight), got {type(batch).__name__}{size}"
        )
    try:
        return checked_rows(model.loss_function, *batch)
    except (TypeError, ValueError, RuntimeError) as error:
        error.add_note(f"in {place}")
        raise


def fit_batches(
    model: "Model",
    batches: Any,
    epochs: int | None,
    n_steps: int | None,
    steps_per_epoch: int | None,
    options: Options,
    resume_from: Any = None,
) -> History:
    """Train a model on batches, in place.

    Parameters
    ----------
    model : Model
        Trained.
    batches : iterable or callable
        Yields ``(X, y)`` or ``(X, y, sample_weight)``, or returns what does.
    epochs, n_steps, steps_per_epoch : int or None
        As for `Model.train`.
    options : Options
        Everything else.
    resume_from : str, PathLike or None, default=None
        A checkpoint to go on from.

    Returns
    -------
    History
        Of this fit.
    """
    feed = Feed(batches, epochs, n_steps, steps_per_epoch, options.caller)
    prepared = Prepared(model, options, resume_from=resume_from)
    model.optimizer.in_steps()
    if not feed.begin_epoch():
        raise ValueError(f"{options.caller} got no batch: what it was given to go over is empty")
    X, y, weight = _checked(model, feed.first, "the first batch")
    stepping_optimizer(model.materialize(X))
    validation = prepared.validation()
    step = model.progress.step
    total = None if feed.n_steps is None else step + feed.n_steps
    model.progress = model.progress._replace(total_steps=total, counts_epochs=True)
    settings = Settings(max_iter=feed.most_epochs, check_finite=options.check_finite, seeded=options.seeded)
    fit = Fit(model, None, prepared.history, settings.max_iter, validation is not None, prepared.source)
    loop = StreamLoop(fit, settings, prepared.new_score, validation, feed)

    def begin(hooks: Hooks) -> None:
        first = Batches(X, y, weight, n_rows(X), model.dtype, model.device)
        show_rows(model, first.n_samples, first.inputs)
        keeper = FitKeeper(fit, loop, hooks, None if validation is None else validation.batches, first)
        fit.state = keeper.state
        if prepared.saved is not None:
            keeper.load(prepared.saved)
            keeper.warn_of_environment(prepared.saved)

    try:
        run_loop(loop, fit, prepared.all_callbacks, begin)
    finally:
        prepared.hand_back()
    return prepared.history
