"""Methods of `Model` for its state: loading, restoring and copying it."""

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, TypeVar

from sknet._random import check_random_state
from sknet.device import on_device
from sknet.engine.state._hyper import averaging
from sknet.engine.state._layout import Arrays
from sknet.engine.state._memory import Memory
from sknet.engine.state._state import ModelState, Weights, copied_random_state
from sknet.nn import Module
from sknet.nn.extend import held_of, note_structure
from sknet.optim import OptimizerState

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["copy", "load", "replace", "restore_weights", "rollback_of", "take_over", "weights"]

Owner = TypeVar("Owner", bound="Model")


@on_device
def load(self: "Model", state: ModelState) -> None:
    """Load a state in place; optimizer and random state continue from there.

    Parameters
    ----------
    state : ModelState
        The state of a model with the same parameters; it is copied.

    Raises
    ------
    StateError
        If names or shapes differ; nothing is then changed.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> before = model.state
    >>> _ = model.step(np.eye(2), np.ones((2, 1)))
    >>> model.load(before)
    >>> model.progress.step
    0
    """
    self.memory.load(state)
    self.progress = state.progress


@on_device
def weights(self: "Model") -> Weights:
    """Return a copy of all that predictions depend on, for example to keep those of the best epoch.

    Returns
    -------
    Weights
        Parameters, buffers, and the averages' state; for `restore_weights`.

    Examples
    --------
    >>> from sknet import Model, nn
    >>> sorted(Model(nn.BatchNorm(2)).weights().buffers)
    ['num_batches', 'running_mean', 'running_var']
    """
    return self.memory.weights(averaging(self))


@on_device
def restore_weights(self: "Model", weights: Weights) -> None:
    """Restore what `weights` returned; of the optimizer's state, only averages are restored.

    Parameters
    ----------
    weights : Weights
        Weights of this model, or of another with the same parameters and buffers; they are copied.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> best, before = model.weights(), model.predict(np.eye(2))
    >>> _ = model.step(np.eye(2), np.ones((2, 1)))
    >>> model.restore_weights(best)
    >>> bool((model.predict(np.eye(2)) == before).all())
    True
    """
    self.memory.restore_weights(weights)


@on_device
def rollback_of(model: "Model") -> Callable[[], None]:
    """Return a function that restores the present state of a model, after it was trained in place."""
    memory, progress, hyper, precision = model.memory, model.progress, model._hyper, model.precision
    flat, slots = memory.packed(), memory.copied_slots()
    buffers = {name: array.copy() for name, array in memory.buffers.items()} if memory.has_buffers else {}
    hold = held_of(model.module)
    leaves, frozen, layout = memory.leaves, memory.frozen, memory.layout

    def restore() -> None:
        for parameters, is_trained in ((leaves, True), (frozen, False)):
            for parameter in parameters.values():
                if parameter.requires_grad != is_trained:
                    parameter.requires_grad = is_trained
        hold()
        model.adopt(*hyper)
        model.precision = precision
        optimizer = OptimizerState(progress.step, slots)
        model.load(ModelState(Arrays(layout, flat), optimizer, buffers, progress))

    return restore


def copy(self: Owner) -> Owner:
    """Return an independent copy: module, state and random numbers.

    Returns
    -------
    Model
        Trained further, it gives the same results as this one would.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> twin = model.copy()
    >>> rows = np.eye(2), np.ones((2, 1))
    >>> model.step(*rows).loss == twin.step(*rows).loss
    True
    """
    return twin_of(self, deepcopy(self.memory))


def take_over(model: "Model", trained: "Model") -> None:
    """Let a model become like a copy of it that was trained elsewhere, and that is not used afterwards."""
    if trained is model:
        return
    random_state = model.random_state
    if random_state is not check_random_state(None):
        random_state.set_state(trained.random_state.get_state())
    memory = trained.memory
    memory.module = _become(model._store.module, memory.module, {})
    vars(model).update(vars(trained), random_state=random_state)
    note_structure()
    model.recompile()


def _become(module: Module, other: Module, done: dict[int, Module]) -> Module:
    """Let a module have the state of another, if it is of the same class, or else return the other."""
    if id(other) in done:
        return done[id(other)]
    if type(module) is not type(other):
        return done.setdefault(id(other), other)
    done[id(other)] = module
    for name, child in other._children.items():
        if name in module._children:
            other._children[name] = vars(other)[name] = _become(module._children[name], child, done)
    object.__setattr__(module, "__dict__", vars(other))  # the same dict, should anything refer to the other
    return module


def twin_of(model: Owner, memory: Memory) -> Owner:
    """Return a model like this one with another memory, without programs, which are bound to memory."""
    twin = type(model).__new__(type(model))
    twin.__dict__.update(model.__dict__)
    twin._store, twin.random_state = memory, copied_random_state(model.random_state)
    twin.recompile()
    return twin


def replace(self: Owner, state: ModelState) -> Owner:
    """Return a model with another state; this one does not change.

    Parameters
    ----------
    state : ModelState
        From `update`, or another model's `state`.

    Returns
    -------
    Model
        A model with its own module, whose parameters are the state's read-only arrays.

    Raises
    ------
    StateError
        If names, shapes, dtype or device differ from this model's.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> gradient = model.backward(model.loss(model(np.eye(2)), np.ones((2, 1))))
    >>> after = model.replace(model.update(gradient))
    >>> after.progress.step, model.progress.step
    (1, 0)
    """
    store = self._store if self._store.is_spent else self.memory
    other = twin_of(self, store.holding(state))
    other.progress = state.progress
    return other
