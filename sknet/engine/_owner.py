"""Owner: who has all state of a training - parameters, buffers, optimizer state, random state."""

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.random import RandomState

from sknet.device import Device, active, on_device, stream_key
from sknet.engine.predict import Predictor
from sknet.engine.state import (
    Layout,
    Memory,
    ModelState,
    Pending,
    Weights,
    copied_random_state,
    each_input,
)
from sknet.engine.step import Stepper
from sknet.exceptions import StateError
from sknet.losses import Loss, check_loss
from sknet.nn import Module, is_lazy, materialize
from sknet.nn.extend import latest
from sknet.optim import BaseOptimizer, check_optimizer
from sknet.optim.schedules import Progress

__all__ = ["Epoch", "Owner", "check_alpha"]


@dataclass
class Epoch:
    """What has been done since the last epoch's end.

    Attributes
    ----------
    began : int
        Steps before it.
    rows : int
        Rows that `Model.step` has seen.
    """

    began: int = 0
    rows: int = 0


class Owner:
    """The state of a training, and how it is read, replaced, copied and pickled.

    `Model`, which is made of it, computes with the state.
    """

    compile: bool | str
    dtype: np.dtype[Any]
    random_state: RandomState
    progress: Progress
    key: tuple[int, int]
    _store: Memory
    _stepper: Stepper
    _hyper: "tuple[BaseOptimizer, Loss, float]"
    _epoch: "Epoch"
    _predictors: dict[str, Predictor]
    _not_captured: dict[str, object]

    def recompile(self) -> None:
        """Forget all programs."""
        raise NotImplementedError

    # -- hyperparameters ----------------------------------------------------------------------

    @property
    def optimizer(self) -> BaseOptimizer:
        """How the loss is minimised; another one is taken over as `adopt` does it."""
        return self._hyper[0]

    @optimizer.setter
    def optimizer(self, optimizer: "str | BaseOptimizer") -> None:
        self.adopt(optimizer, self.loss_function, self.alpha)

    @property
    def loss_function(self) -> Loss:
        """What is minimised."""
        return self._hyper[1]

    @loss_function.setter
    def loss_function(self, loss: "str | Loss") -> None:
        self.adopt(self.optimizer, loss, self.alpha)

    @property
    def alpha(self) -> float:
        """Strength of the L2 penalty."""
        return self._hyper[2]

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self.adopt(self.optimizer, self.loss_function, alpha)

    # -- where it is --------------------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        """Where the numbers are, for who trains them in place: parameters, the optimizer's state, buffers.

        It has followed the module, whose parameters may have come, gone, or been frozen.
        """
        store = self._store
        if store.is_spent:
            store.refuse_spent()
        if store.mark is not latest.structure:
            with active(store.device):
                if store.follow(self.random_state):
                    # What an optimizer says of a frozen parameter is meant for when it is thawed.
                    known = {**store.leaves, **store.frozen}
                    self.optimizer.check_parameters({name: p.shape for name, p in known.items()})
        return store

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._store = memory

    @property
    def _present(self) -> Memory:
        """The memory as it was arranged last."""
        store = self._store
        if store.is_spent:
            store.refuse_spent()
        return store

    def _spend(self) -> None:
        """Give up the memory: whoever uses this model from now on, but to replace its state, is told so."""
        self._store.is_spent = True
        self.recompile()

    def _begin(self) -> None:
        """Draw what was not drawn yet, and make the memory."""
        self.module.initialize(self.random_state)
        self.key = stream_key(self.random_state)
        with active(self.device):
            self.memory = Memory(self.module, self.dtype, self.device, self.optimizer.slots)
        self.optimizer.check_parameters(self.layout.shapes)

    def materialize(self, X: Any) -> Self:
        """Give a lazy module its shapes, and draw its weights; nothing happens where that was done.

        Every way to train or to compute does it with its first batch.

        Parameters
        ----------
        X : array, sparse matrix, Tensor, or tuple of int, or dict of those
            A batch, of which only the shape counts, or that shape.

        Returns
        -------
        Model
            Itself.

        Raises
        ------
        ShapeError
            If the batch does not fit; the model is as before then.
        """
        store = self._store
        if isinstance(store, Pending):
            _materialize(store.module, X, self.dtype)
            self._begin()
        elif store.mark is not latest.structure and is_lazy(store.module):  # a layer that was put in later
            _materialize(store.module, X, self.dtype)
        return self

    # -- state --------------------------------------------------------------------------------

    @property
    def module(self) -> Module:
        """The network; its parameters are the model's."""
        return self._present.module

    @property
    def device(self) -> Device:
        """Where the model computes."""
        return self._store.device

    @property
    def layout(self) -> Layout:
        """Where each parameter stands in the flat buffers."""
        return self.memory.layout

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every trained parameter by name: views of the flat buffer, which `step` writes to."""
        return self.memory.parameters

    @property
    @on_device
    def evaluation_parameters(self) -> Mapping[str, Any]:
        """Every parameter by name as it predicts, frozen ones too: the average, if the optimizer makes one.

        Such as `EMA` train the one and predict with the other: ``model(X, training=False)`` and `predict`
        use these. They are to be read.
        """
        memory, found = self.memory, self.memory.parameters
        if self._predicts_with_averages:
            found = memory.layout.views(memory.evaluated(self.optimizer))
        if not memory.frozen:
            return MappingProxyType(dict(found))
        known = {**found, **{name: p.data for name, p in memory.frozen.items()}}
        return MappingProxyType({name: known[name] for name, _ in memory.module.own_parameters()})

    @property
    def buffers(self) -> Mapping[str, Any]:
        """Every buffer (running mean, ...) by name."""
        return self.memory.buffers

    @property
    @on_device
    def state(self) -> ModelState:
        """A copy of all that training changes, which stays as it is."""
        memory = self.memory
        return memory.state(memory.packed(), memory.copied_slots(), memory.buffers, self.progress)

    @on_device
    def load(self, state: ModelState) -> None:
        """Take over the values of a state in place; optimizer and random state go on from there.

        Parameters
        ----------
        state : ModelState
            Of a model with the same parameters; it is copied.

        Raises
        ------
        StateError
            If names or shapes differ; nothing is changed then.
        """
        self.memory.load(state)
        self.progress = state.progress

    def replace(self, state: ModelState) -> Self:
        """Return a model with another state; this one stays as it is.

        Parameters
        ----------
        state : ModelState
            From `update`, or another model's `state`.

        Returns
        -------
        Model
            With a module of its own, whose parameters are the state's read-only arrays.

        Raises
        ------
        StateError
            If names, shapes, dtype or device differ from this model's.
        """
        other = type(self).__new__(type(self))
        memory = self._store if self._store.is_spent else self.memory
        other.__dict__.update(self._without_programs())
        other.memory = memory.holding(state)
        other.random_state = copied_random_state(self.random_state)
        other.progress = state.progress
        return other

    @on_device
    def weights(self) -> Weights:
        """Return a copy of what decides the predictions, such as those of the best epoch."""
        memory = self.memory
        slots = {
            name: memory.slots[name].copy()
            for name in self.optimizer.averaging
            if self._predicts_with_averages
        }
        return Weights(memory.packed(), {name: array.copy() for name, array in self.buffers.items()}, slots)

    @on_device
    def restore_weights(self, weights: Weights) -> None:
        """Put back what `weights` returned; but for averages, the optimizer's state stays as it is."""
        self.memory.flat_to_write()[...] = weights.flat
        for name, array in weights.slots.items():
            self.memory.slots[name][...] = array
        self.memory.set_buffers(weights.buffers)
        self.memory.note_written("Model.restore_weights")

    # -- copies and pickles --------------------------------------------------------------------

    def _without_programs(self) -> dict[str, Any]:
        """Return all attributes, but for programs, which are bound to this model's memory."""
        return {
            **self.__dict__,
            "_epoch": replace(self._epoch),
            "_predictors": {},
            "_not_captured": {},
            "_stepper": Stepper(),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**self._without_programs(), "_store": self.memory}

    def adopt(
        self, optimizer: "str | BaseOptimizer", loss: "str | Loss", alpha: float, *, anew: bool = False
    ) -> None:
        """Go on with other hyperparameters, in place; after an error with the present ones.

        Parameters
        ----------
        optimizer : str or BaseOptimizer
            One of the same kind goes on with the state there is; another begins anew.
        loss : str or Loss
            What is minimised from now on.
        alpha : float
            Strength of the L2 penalty from now on.
        anew : bool, default=False
            Begin anew, whatever the kind.
        """
        hyper = check_optimizer(optimizer, "Model"), check_loss(loss, "Model"), check_alpha(alpha)
        if not isinstance(self._present, Pending):
            hyper[0].check_parameters(self.layout.shapes)
            if anew or hyper[0].kind != self.optimizer.kind:
                self.progress = self.progress._replace(step=0, reductions=0)
                self.memory.begin_slots(hyper[0].slots)
            self.memory.set_buffers({})  # averages may be others now
        self._hyper = hyper
        self.recompile()

    def _follow_optimizer(self) -> None:
        """Begin the optimizer's state anew if it was changed into one of another kind, in place."""
        if self.optimizer.slots != self.memory.slot_names:
            self.adopt(self.optimizer, self.loss_function, self.alpha, anew=True)

    @property
    def _predicts_with_averages(self) -> bool:
        if not self._hyper[0].averaging:
            return False
        self._follow_optimizer()
        return True

    # -- epochs ----------------------------------------------------------------------------------

    def epoch_ended(self, *, plateau: bool = False) -> None:
        """Count an epoch, for schedules that depend on epochs.

        An epoch in which no step was made is not counted: a call before the first step only says that
        epochs are counted from now on.

        Parameters
        ----------
        plateau : bool, default=False
            Whether the fit has met a plateau, so that a schedule such as `Adaptive` lowers the rate.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> from sknet.optim import SGD
        >>> from sknet.optim.schedules import Exponential
        >>> model = Model(nn.Linear(2, 1), optimizer=SGD(Exponential(0.1, factor=0.5)), random_state=0)
        >>> model.epoch_ended()
        >>> for epoch in range(3):
        ...     _ = model.step(np.eye(2), np.ones((2, 1)))
        ...     model.epoch_ended()
        >>> model.progress.epoch, model.optimizer.learning_rate(model.progress)
        (3, 0.0125)
        """
        if self.progress.step != self._epoch.began:
            self.progress = self.progress.epoch_ended(self._epoch.rows)
        self._epoch = Epoch(self.progress.step)
        reductions = self.progress.reductions + bool(plateau)
        self.progress = self.progress._replace(counts_epochs=True, reductions=reductions)

    @contextmanager
    def epoch(self, n_steps: int | None = None) -> Iterator[Self]:
        """Count the steps that are made inside as one epoch, for schedules that depend on epochs.

        Parameters
        ----------
        n_steps : int, default=None
            How many steps the epoch has; another number is an error. None takes any.

        Yields
        ------
        Model
            Itself.

        Raises
        ------
        StateError
            If another number of steps was made.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> model = Model(nn.Linear(2, 1), random_state=0)
        >>> with model.epoch(n_steps=2):
        ...     for _ in range(2):
        ...         _ = model.step(np.eye(2), np.ones((2, 1)))
        >>> model.progress.epoch, model.progress.samples
        (1, 4)
        """
        self._epoch = Epoch(self.progress.step)
        self.progress = self.progress._replace(counts_epochs=True)
        yield self
        done = self.progress.step - self._epoch.began
        if n_steps is not None and done != n_steps:
            raise StateError(f"this epoch was to have {n_steps} steps, and {done} were made: not counted")
        self.epoch_ended()

    def copy(self) -> Self:
        """Return a model of its own with the same state."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__getstate__())
        other.memory = copy.deepcopy(self.memory)
        other.random_state = copied_random_state(self.random_state)
        return other

    __copy__ = copy  # state has one owner


def _materialize(module: Module, X: Any, dtype: Any) -> None:
    def example(x: Any) -> Any:
        return x if isinstance(x, tuple) or hasattr(x, "dtype") else np.asarray(x)

    found = each_input(example, X)
    if isinstance(found, dict):
        materialize(module, dtype=dtype, **found)
    else:
        materialize(module, found, dtype=dtype)


def check_alpha(alpha: float) -> float:
    """Return the strength of the penalty, once it is known to be one."""
    if not (isinstance(alpha, (int, float, np.number)) and 0 <= alpha < math.inf):
        raise ValueError(
            f"The 'alpha' parameter of Model must be a float in the range [0, inf). Got {alpha!r} instead."
        )
    return float(alpha)
