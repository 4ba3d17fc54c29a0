"""Model: the one owner of parameters, buffers, optimizer state and random state."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import wraps
from os import PathLike
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from sknet._hints import ForeignAttributes
from sknet._parallel import Pool
from sknet._params import explained_call, named_errors
from sknet._random import check_random_state
from sknet.callbacks import Callback
from sknet.callbacks._callback import Rows
from sknet.core import Tensor, is_capturing, no_grad, note_write, release
from sknet.device import ROUNDED, Device, active, available, check_precision, is_array, on_device, to_device
from sknet.engine._checks import (
    CompileMode,
    check_classes_for,
    check_given,
    check_losses,
    check_reached,
    look_at_output,
    note_inputs,
    recorded,
    warn_of_probabilities,
)
from sknet.engine._fit import History
from sknet.engine._inputs import each_input, n_rows
from sknet.engine._memory import (
    Epoch,
    Gradient,
    Memory,
    ModelState,
    Pending,
    StepResult,
    Weights,
    begin,
    check_free,
    copied_random_state,
    copy_of,
    give_shapes,
    is_seeded,
)
from sknet.engine._network import Network, warn_of_overflow
from sknet.engine._optimizer import (
    apply_update,
    as_operands,
    averaging,
    batch_terms,
    checked_hyper,
    checked_targets,
    gradient_into,
    stepping_optimizer,
)
from sknet.engine._programs import Stepper, check_classes_of, forward, show_batch
from sknet.exceptions import DtypeError
from sknet.losses import Loss
from sknet.nn import Module, is_lazy
from sknet.nn._parameter import latest
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import Progress

Method = TypeVar("Method", bound=Callable[..., Any])


def _explained(method: Method) -> Method:
    """Return a method that, when given arrays instead of batches, says which method expects arrays."""

    @wraps(method)
    def told(self: "Model", *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or "y" in kwargs or "X" in kwargs or is_array(next(iter(args), None)):
            raise TypeError(
                "Model.train expects batches, an iterable of (X, y) or (X, y, sample_weight), got arrays: "
                "Model.fit(X, y) trains on arrays; to train on one batch, pass a list, Model.train([(X, y)])"
            )
        return method(self, *args, **kwargs)

    return cast(Method, told)


class Model(ForeignAttributes):
    """A module, a loss and an optimizer with one owner of all state.

    Parameters
    ----------
    module : Module
        The network. The model trains a copy of it, its attribute `module`. A lazy network infers its shapes
        from the first batch.
    loss : str or Loss, default="squared_error"
        The loss to minimize.
    optimizer : str or BaseOptimizer, default="adam"
        The optimizer.
    alpha : float, default=0.0
        Strength of the L2 penalty ``alpha / 2 * sum of squared weights / n_samples``, as in
        scikit-learn's networks. It applies to parameters with two or more axes, so not to biases.
    dtype : {"float32", "float64", "tf32", "bfloat16", "tf32x3"}, default="float32"
        The dtype of parameters and computation. With the last three, parameters, losses and updates are
        float32; on a GPU, matrix products round their factors to mantissas of 10 or 7 bits, and add in
        float32; with "tf32x3", a large product is three products in tf32, with nearly the accuracy of
        float32. With "bfloat16", a large network on a GPU also stores activations and gradients in 16 bits.
    device : str or Device, default="cpu"
        The device to compute on.
    random_state : int, RandomState instance or None, default=None
        Draws initial weights (of parameters that have no values yet), and all later random numbers.
    compile : {"auto", True, False}, default="auto"
        Whether training steps are captured and planned (see `sknet.compile`). "auto" does so where
        possible, and otherwise continues eagerly with one warning; True raises instead.
    copy : bool, default=True
        False takes over the module itself: its parameters become views of the model's memory, and are
        trained in place.

    Raises
    ------
    StateError
        With ``copy=False``, if another model owns the module.

    Attributes
    ----------
    module : Module
        The network that is trained.
    optimizer, loss_function, alpha : BaseOptimizer, Loss, float
        The optimizer, the loss, and the strength of the penalty; may be assigned.
    parameters, buffers : mapping of str to array
        The trained parameters, and the layers' buffers.
    evaluation_parameters : mapping of str to array
        The parameters used for predictions: frozen ones too, and averages if the optimizer keeps some.
    state : ModelState
        A copy of all state that training changes.
    progress : Progress
        Steps, epochs and samples so far.
    random_state : RandomState
        Generator of the host's draws (shuffling, splits).
    dtype, device, compile : dtype, Device, bool or "auto"
        Values of the parameters; `compile` may be assigned. `dtype` is that of arrays.
    precision : str
        Precision of matrix products: one of the values of the parameter `dtype`. May be assigned.
    memory : Memory
        The arrays behind all state, for code that trains in place.

    Notes
    -----
    There are two ways to train. `step` updates in place and returns loss, gradient and update. The functional
    form does the same in pieces without changing the model: ``model(X)``, `loss`, `backward`, `update`,
    and `replace`, which returns another model.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> X, y = np.eye(4, dtype="float32"), np.array([0, 1, 1, 0])
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> model = Model(network, loss="log_loss", random_state=0)
    >>> first = model.step(X, y)
    >>> first.gradient["0.weight"].shape
    (4, 8)
    >>> all(model.step(X, y).loss < first.loss for _ in range(3))
    True
    """

    _has_seen_output = False
    _input_names: list[str] | None = None  # of the latest training, if there were several
    _idle_steps: Pool | None = None  # of a training in parts

    _rounded: str | None = None  # the precision of products, unless it is the dtype's own

    _seed: int | None = None  # of the random state of a slim model, which its pickle holds instead

    compile = CompileMode()

    @named_errors
    def __init__(
        self,
        module: Module,
        loss: str | Loss = "squared_error",
        optimizer: str | BaseOptimizer = "adam",
        *,
        alpha: float = 0.0,
        dtype: DTypeLike = "float32",
        device: "str | Device" = "cpu",
        random_state: Any = None,
        compile: bool | str = "auto",
        copy: bool = True,
    ) -> None:
        if not isinstance(module, Module):
            raise TypeError(
                f"a Model needs a module, got {type(module).__name__}: pass an instance of nn.Module"
            )
        self._hyper = checked_hyper(optimizer, loss, alpha)
        self.compile = compile
        self.dtype, precision = check_precision(dtype, where="a Model")
        self._rounded = precision if precision in ROUNDED else None
        self.random_state = check_random_state(random_state)
        self.progress = Progress(counts_epochs=False)
        self._epoch = Epoch()
        self._network: Network | None = None
        self._stepper, self._idle_steps = Stepper(), None
        place = available(device)
        module = copy_of(module) if copy else module
        lazy = any(each._is_lazy for each in module.modules())
        if not lazy:
            check_free(dict(module.own_parameters()))
        module.to(dtype=self.dtype, device=place)  # first, so that draws keep their precision
        self._store: Memory = Pending(module, place)  # type: ignore[assignment]
        if not lazy:
            self._begin()

    # -- hyperparameters -------------------------------------------------------------------------------

    @property
    def optimizer(self) -> BaseOptimizer:
        """The optimizer; assigning another one is the same as `adopt`."""
        return self._hyper.optimizer

    @optimizer.setter
    def optimizer(self, optimizer: "str | BaseOptimizer") -> None:
        self.adopt(optimizer, self.loss_function, self.alpha)

    @property
    def loss_function(self) -> Loss:
        """The loss to minimize."""
        return self._hyper.loss

    @loss_function.setter
    def loss_function(self, loss: "str | Loss") -> None:
        self.adopt(self.optimizer, loss, self.alpha)

    @property
    def alpha(self) -> float:
        """Strength of the L2 penalty."""
        return self._hyper.alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self.adopt(self.optimizer, self.loss_function, alpha)

    @property
    def precision(self) -> str:
        """The precision of products: "float32", "float64", or, on a GPU, "tf32", "bfloat16" or "tf32x3".

        All but "float64" may be assigned to a model whose arrays are float32.
        """
        return self._rounded or ("float64" if self.dtype.itemsize == 8 else "float32")

    @precision.setter
    def precision(self, precision: str) -> None:
        dtype, found = check_precision(precision, where="a Model")
        if dtype != self.dtype:
            raise DtypeError(
                f"the arrays of this Model are {self.dtype}, and products in {found} have factors of "
                f"{dtype}: make a new Model with dtype={found!r}"
            )
        if found != self.precision:
            self._rounded = found if found in ROUNDED else None
            self.recompile()

    def adopt(
        self, optimizer: "str | BaseOptimizer", loss: "str | Loss", alpha: float, *, anew: bool = False
    ) -> None:
        """Replace hyperparameters in place; an error leaves the present ones.

        Parameters
        ----------
        optimizer : str or BaseOptimizer
            The new optimizer. One of the same class continues with the present state; any other starts with a
            new state.
        loss : str or Loss
            The new loss.
        alpha : float
            The new strength of the L2 penalty.
        anew : bool, default=False
            Whether to reset the optimizer's state in any case.

        Examples
        --------
        >>> from sknet import Model, nn
        >>> model = Model(nn.Linear(2, 1), random_state=0)
        >>> model.adopt("sgd", "absolute_error", 1e-3)
        >>> model
        Model(Linear(2, 1), loss=AbsoluteError(), optimizer=SGD(), device='cpu')
        """
        hyper = checked_hyper(optimizer, loss, alpha)
        if not isinstance(self._present, Pending):
            memory = self.memory
            hyper.optimizer.check_parameters(memory.known_shapes)
            if anew or hyper.optimizer.kind != self.optimizer.kind:
                self.progress = self.progress._replace(step=0, reductions=0)
                memory.begin_slots(hyper.optimizer.slots)
            memory.set_buffers({})  # the optimizer may keep other averages
        self._hyper = hyper
        self.recompile()

    # -- state ------------------------------------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        """The arrays behind parameters, the optimizer's state and buffers, for code that trains in place.

        Parameters that were added to the module, removed or frozen are taken into account first.
        """
        store = self._store
        if store.is_spent:
            store.refuse_spent()
        if store.mark is not latest.structure:
            with active(store.device):
                if store.refresh(self.random_state):
                    self.optimizer.check_parameters(store.known_shapes)
        return store

    @property
    def _present(self) -> Memory:
        """The memory as last laid out, without a check of the module."""
        store = self._store
        if store.is_spent:
            store.refuse_spent()
        return store

    def _begin(self) -> None:
        module, slots = self._store.module, self.optimizer.slots
        self._store = begin(module, self.dtype, self.device, slots, self.random_state)
        self.optimizer.check_parameters(self.memory.known_shapes)

    def materialize(self, X: Any) -> Self:
        """Determine the shapes of a lazy module and draw its weights, unless that has been done.

        Training and predicting do so with the first batch.

        Parameters
        ----------
        X : array, sparse matrix, Tensor, or tuple of int, or dict of those
            A batch, or its shape; values do not matter.

        Returns
        -------
        Model
            This model.

        Raises
        ------
        ShapeError
            If the batch does not fit; the model is then unchanged.

        Examples
        --------
        >>> from sknet import Model, nn
        >>> model = Model(nn.LazyLinear(3), random_state=0)
        >>> model.materialize((8, 2)).parameters["weight"].shape
        (2, 3)
        """
        store = self._store
        if isinstance(store, Pending):
            give_shapes(store.module, X, self.dtype)
            self._begin()
        elif store.mark is not latest.structure and is_lazy(store.module):  # a layer that was added later
            give_shapes(store.module, X, self.dtype)
        return self

    @property
    def module(self) -> Module:
        """The network; its parameters are the model's."""
        return self._present.module

    @property
    def device(self) -> Device:
        """The device that the model computes on."""
        return self._store.device

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every trained parameter by name: views of the flat buffer, which `step` writes to."""
        return self.memory.parameters

    @property
    @on_device
    def evaluation_parameters(self) -> Mapping[str, Any]:
        """The parameters used for predictions, by name: frozen ones too, and averages if there are any.

        Optimizers such as `EMA` train one set of parameters and predict with their average:
        ``model(X, training=False)`` and `predict` use these. Do not write to them.
        """
        return self.memory.predicting(averaging(self))

    @property
    def buffers(self) -> Mapping[str, Any]:
        """Every buffer (running mean, ...) by name."""
        return self.memory.buffers

    @property
    @on_device
    def state(self) -> ModelState:
        """An immutable copy of all state that training changes."""
        memory = self.memory
        return memory.state(memory.packed(), memory.copied_slots(), memory.buffers, self.progress)

    @on_device
    def load(self, state: ModelState) -> None:
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
    def weights(self) -> Weights:
        """Return a copy of all state that predictions depend on, for example that of the best epoch.

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
    def restore_weights(self, weights: Weights) -> None:
        """Restore the result of `weights`; of the optimizer's state, only averages are restored.

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

    def copy(self) -> Self:
        """Return an independent copy: module, state and random numbers.

        Returns
        -------
        Model
            The copy; training continues with the same results as for this model.

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
        return self._with_memory(deepcopy(self.memory))

    __copy__ = copy  # a shallow copy would share state

    def _with_memory(self, memory: Memory) -> Self:
        """Return a model like this one with another memory, without programs, which are bound to memory."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._store, other.random_state = memory, copied_random_state(self.random_state)
        other.recompile()
        return other

    @property
    def _stored_random_state(self) -> Any:
        """The random state, or the seed that stands for it, in pickles and files."""
        if self._seed is not None and is_seeded(self.random_state, self._seed):
            return self._seed
        return self.random_state

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_store": self.memory, "random_state": self._stored_random_state}
        state["_network"] = state["_idle_steps"] = None  # they are bound to this memory
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, random_state=check_random_state(state["random_state"]))

    # -- the step in functional pieces ------------------------------------------------------------------

    @on_device
    def __call__(self, X: Any, training: bool = True) -> Tensor:
        """Return the module's raw output, recorded for `backward`; the model does not change.

        Parameters
        ----------
        X : array, sparse matrix or Tensor of shape (n_samples, ...), or dict of those
            A batch; several inputs by the names of the forward pass's arguments.
        training : bool, default=True
            Whether layers run in training mode (dropout drops, batch norm uses the batch). The
            same model draws the same dropout masks every time, until its state is replaced.
            If false, the `evaluation_parameters` are used.

        Returns
        -------
        Tensor of shape (n_samples, n_outputs)
            Raw output: logits, means or log means, as the loss expects them.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> Model(nn.Linear(2, 3), random_state=0)(np.eye(2)).shape
        (2, 3)
        """
        return forward(self, X, training)

    @on_device
    def loss(self, output: Tensor, y: Any, sample_weight: Any = None) -> Tensor:
        """Return the objective: the weighted mean loss plus the L2 penalty.

        Parameters
        ----------
        output : Tensor of shape (n_samples, n_outputs)
            The output of the model.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets: class numbers, 0/1 labels or real numbers, as the loss expects them.
        sample_weight : array of shape (n_samples,) or (n_samples, n_positions), default=None
            Weights of rows, or of the positions of sequences; None for equal weights.

        Returns
        -------
        Tensor of shape ()
            The objective, differentiable.

        Raises
        ------
        ShapeError
            If the targets or weights do not fit the output.
        ValueError
            For class numbers that the output has no column for, and for weights whose sum is not positive.
        GradientError
            If a parameter was unfrozen or added since the output was computed.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> model = Model(nn.Linear(2, 1), random_state=0)
        >>> X, y = np.eye(2), np.ones((2, 1))
        >>> model.loss(model(X), y).shape
        ()
        """
        y, sample_weight = checked_targets(self, y, sample_weight)
        check_classes_for(self.loss_function, self.module, output, y)
        _look_at(self, output)
        parameters = recorded(output, self.memory.leaves, self.memory.frozen)
        data, penalty = batch_terms(self, output, y, sample_weight, parameters)
        return data if penalty is None else data + penalty

    @on_device
    def backward(self, loss: Tensor, donate: bool = False) -> Gradient:
        """Return the gradient of a loss with respect to every parameter; the model does not change.

        Parameters
        ----------
        loss : Tensor of shape ()
            The loss, computed from this model's output.
        donate : bool, default=False
            Free the intermediate values that the gradient is computed from: their memory is available to
            the next step, and the loss keeps its value but cannot be differentiated again.

        Returns
        -------
        Gradient
            A mapping from parameter names to arrays.

        Raises
        ------
        GradientError
            If the loss does not depend on this model's parameters, or the output was computed before one of
            them was unfrozen or added, or the loss is not a scalar.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> model = Model(nn.Linear(2, 1), random_state=0)
        >>> X, y = np.eye(2), np.ones((2, 1))
        >>> gradient = model.backward(model.loss(model(X), y))
        >>> gradient["weight"].shape
        (2, 1)
        """
        memory = self.memory
        check_reached(loss, memory.leaves, memory.frozen)
        found = gradient_into(memory, memory.zeros(), loss)
        if donate:
            release(loss)
        return found

    @on_device
    def update(self, gradient: Gradient, donate: bool = False) -> ModelState:
        """Return the state, for `replace`, after one optimizer update; the model does not change.

        Parameters
        ----------
        gradient : Gradient or mapping of str to array-like
            From `backward`, or any arrays by parameter name.
        donate : bool, default=False
            Write the new state into this model's memory. Arrays that were taken from this model or its
            state are then overwritten, and `replace` is the only method that may be called on the model;
            a functional loop then needs no more memory than an in-place one.

        Returns
        -------
        ModelState
            The new, immutable state.

        Raises
        ------
        StateError
            If names or shapes do not fit the parameters.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> model = Model(nn.Linear(2, 1), random_state=0)
        >>> X, y = np.eye(2), np.ones((2, 1))
        >>> state = model.update(model.backward(model.loss(model(X), y)))
        >>> state.progress.step, model.progress.step
        (1, 0)
        """
        optimizer, memory = stepping_optimizer(self), self.memory
        if not isinstance(gradient, Gradient) or gradient.layout.shapes != memory.layout.shapes:
            flat_gradient = memory.zeros()
            memory.layout.fill(flat_gradient, {name: _array(self, value) for name, value in gradient.items()})
            gradient = Gradient(memory.layout, flat_gradient, {})
        buffers = {**memory.buffers, **gradient.buffers}
        flat, slots = memory.given() if donate else (memory.packed(), memory.copied_slots())
        apply_update(optimizer, memory.layout, self.progress, gradient.flat, flat, slots)
        if donate:
            note_write(flat, "Model.update(donate=True)")
            memory.is_spent = True  # any use of the model except `replace` raises from now on
            self.recompile()
        return memory.state(flat, slots, buffers, self.progress.stepped())

    def replace(self, state: ModelState) -> Self:
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
        other = self._with_memory(store.holding(state))
        other.progress = state.progress
        return other

    # -- the step in place ------------------------------------------------------------------------------

    @named_errors
    @on_device
    def step(self, X: Any, y: Any, sample_weight: Any = None) -> StepResult:
        """Train on one batch, in place.

        Parameters
        ----------
        X : array, sparse matrix or Tensor of shape (n_samples, ...), or dict of those
            A batch; several inputs by the names of the forward pass's arguments.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Its targets.
        sample_weight : array of shape (n_samples,) or (n_samples, n_positions), default=None
            Its weights, or those of the positions of sequences.

        Returns
        -------
        StepResult
            The loss, the gradient and the update applied, by parameter name.

        Raises
        ------
        NonFiniteError
            If loss or gradient is not finite; nothing is then changed.
        ShapeError
            If shapes do not fit; nothing is then changed.
        ValueError
            For class numbers that the network has no output for, and for weights whose sum is not positive.
        CaptureError
            With ``compile=True``, if the step cannot be captured.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> model = Model(nn.Linear(2, 1), random_state=0)
        >>> result = model.step(np.eye(2), np.ones((2, 1)))
        >>> result.update["weight"].shape, result.loss > 0
        ((2, 1), True)
        """
        self.materialize(X)
        X = as_operands(self, X, are_checked=True)
        show_batch(self, X)
        look_at_output(self, lambda _: X)
        y, sample_weight = checked_targets(self, y, sample_weight)
        check_losses(self, y.data, None if sample_weight is None else sample_weight.data)
        if isinstance(y.data, np.ndarray):
            check_classes_of(self, each_input(_array_of, X), y.data)
        result = self._stepper.step(self, X, y, sample_weight)
        self._epoch = self._epoch.seen(n_rows(X))
        note_inputs(self, X)
        self.memory.note_written("Model.step")
        return result

    def recompile(self) -> None:
        """Discard all compiled programs; later steps and predictions are captured again.

        The model notices changes of everything that a step or a prediction reads of module, loss and
        optimizer: attributes, the contents of their lists, dicts and arrays, hooks, parameters. It cannot
        notice changes of global variables, of class attributes, or of anything that functions of other
        Python modules refer to; call this after such a change.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> FACTOR = 2.0
        >>> class Scaled(nn.Linear):
        ...     def forward(self, x):
        ...         return FACTOR * super().forward(x)
        >>> model = Model(Scaled(2, 1), random_state=0)
        >>> first, _ = [model.step(np.eye(2), np.ones((2, 1))).output for _ in range(2)]
        >>> FACTOR = 0.0
        >>> model.recompile()
        >>> model.step(np.eye(2), np.ones((2, 1))).output.tolist()
        [[0.0], [0.0]]
        """
        self._stepper, self._network, self._idle_steps = Stepper(), None, None

    # -- many steps -------------------------------------------------------------------------------------

    @named_errors
    @explained_call
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        epochs: int = 10,
        batch_size: "int | str" = "auto",
        shuffle: bool = True,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        scores: Any = None,
        callbacks: "Sequence[Callback] | None" = None,
        verbose: bool | str = False,
        check_finite: bool = True,
        resume_from: "str | PathLike[str] | None" = None,
    ) -> "History":
        """Train on rows, in place, with the estimators' training loop; another call continues.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, ...), or dict of those
            Inputs. They are gathered and converted batch by batch, never copied as a whole.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets: class numbers, 0/1 labels or real numbers, as the loss expects them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of rows.
        epochs : int, default=10
            Number of passes over the rows; with `LBFGS`, the maximum number of iterations.
        batch_size : int or "auto", default="auto"
            Rows in a batch; "auto" is 200, or all if there are fewer.
        shuffle : bool, default=True
            Whether to draw a new order of the rows in each epoch.
        X_val, y_val, sample_weight_val : array-like, default=None
            Held-out rows: their loss and scores are in the history, and `EarlyStopping` monitors their loss.
        scores : str, callable, list or dict, default=None
            Metrics besides the loss: "accuracy", "r2", or functions of ``(y_true, y_pred)``, with predictions
            as `predict` returns them; several in a list, or in a dict by name.
        callbacks : list of Callback, default=None
            Called during this fit. The fit uses copies, and copies their results back at its end.
        verbose : bool or "bar", default=False
            Print a line for every epoch, or show a progress bar.
        check_finite : bool, default=True
            Raise for a loss or gradient that is not finite, instead of continuing.
        resume_from : str or PathLike, default=None
            File of a `Checkpoint` of the same fit, to resume from.

        Returns
        -------
        History
            The numbers of each epoch.

        Raises
        ------
        ShapeError, DtypeError, ValueError
            If the arrays do not fit together or are outside the loss's domain; nothing is then changed.
        NonFiniteError
            If a loss or gradient is not finite; the message names epoch, batch and parameter. Earlier steps
            are kept.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sknet import Model, nn
        >>> X, y = load_iris(return_X_y=True)
        >>> model = Model(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)), loss="log_loss")
        >>> history = model.fit(X, y, epochs=3, scores="accuracy")
        >>> list(history)
        ['loss', 'accuracy', 'lr', 'time']
        """
        held_out = Rows(X_val, y_val, sample_weight_val)
        from sknet.engine._fit_rows import Options, fit_rows  # estimators do without it

        options = Options("Model.fit", held_out, scores, callbacks, verbose, check_finite)
        return fit_rows(self, Rows(X, y, sample_weight), epochs, batch_size, shuffle, options, resume_from)

    @named_errors
    @_explained
    def train(
        self,
        batches: "Iterable[Any] | Callable[[], Iterable[Any]]",
        *,
        epochs: int | None = None,
        n_steps: int | None = None,
        steps_per_epoch: int | None = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        scores: Any = None,
        callbacks: "Sequence[Callback] | None" = None,
        verbose: bool | str = False,
        check_finite: bool = True,
        resume_from: "str | PathLike[str] | None" = None,
    ) -> "History":
        """Train on a stream of batches, in place; another call continues.

        Parameters
        ----------
        batches : iterable or callable
            Yields ``(X, y)`` or ``(X, y, sample_weight)``: a list, a loader, a generator, or a generator
            function, which is called for every pass. A batch is requested after the step on the previous one.
        epochs : int, default=None
            Number of epochs; None is one, or as many as `n_steps` needs. A generator can be iterated only
            once.
        n_steps : int, default=None
            Number of steps after which to end, for streams without an end.
        steps_per_epoch : int, default=None
            Batches per epoch, independent of passes. None makes every pass an epoch.
        X_val, y_val, sample_weight_val, scores, callbacks, verbose, check_finite : see `fit`
        resume_from : str or PathLike, default=None
            Batches that were trained on before are skipped: the stream must yield the same ones again.

        Returns
        -------
        History
            The numbers of each epoch.

        Raises
        ------
        TypeError, ShapeError, DtypeError, ValueError
            If a batch is invalid; the message says which. For arrays instead of batches, use `fit`.
        NonFiniteError
            If a loss or gradient is not finite. Earlier steps are kept.

        Notes
        -----
        Steps are compiled once for each of the most recent shapes of batches. The total number of steps,
        which some schedules need, is taken from `n_steps`, or from `epochs` and the length of `batches`.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> def batches():
        ...     rng = np.random.default_rng(0)
        ...     while True:
        ...         X = rng.normal(size=(32, 2))
        ...         yield X, X.sum(axis=1, keepdims=True)
        >>> model = Model(nn.Linear(2, 1), random_state=0)
        >>> history = model.train(batches, n_steps=100, steps_per_epoch=50)
        >>> history["loss"][1] < history["loss"][0]
        True
        """
        held_out = Rows(X_val, y_val, sample_weight_val)
        from sknet.engine._fit_rows import Options  # estimators do without it
        from sknet.engine._stream import fit_batches

        options = Options("Model.train", held_out, scores, callbacks, verbose, check_finite)
        return fit_batches(self, batches, epochs, n_steps, steps_per_epoch, options, resume_from)

    @contextmanager
    def epoch(self, n_steps: int | None = None) -> Iterator[Self]:
        """Count the steps inside this context as one epoch, for schedules that depend on epochs.

        Parameters
        ----------
        n_steps : int, default=None
            The number of steps of the epoch, which is checked; None for any.

        Yields
        ------
        Model
            This model.

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
        self._epoch.check_length(self.progress, n_steps)
        self.epoch_ended()

    def epoch_ended(self, *, plateau: bool = False) -> None:
        """Count an epoch, for schedules that depend on epochs.

        An epoch without steps is not counted: a call before the first step only starts the counting.

        Parameters
        ----------
        plateau : bool, default=False
            Whether the fit has reached a plateau, so that a schedule such as `Adaptive` lowers the rate.

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
        self.progress = self._epoch.ended(self.progress, plateau)
        self._epoch = Epoch(self.progress.step)

    # -- prediction -------------------------------------------------------------------------------------

    @named_errors
    def predict(self, X: Any) -> Any:
        """Return predictions: probabilities or means, by the loss's inverse link.

        Parameters
        ----------
        X : array, sparse matrix or Tensor of shape (n_samples, ...)
            Inputs.

        Returns
        -------
        array of shape (n_samples, n_outputs)
            Predictions, on the model's device.

        Examples
        --------
        >>> import numpy as np
        >>> from sknet import Model, nn
        >>> model = Model(nn.Linear(2, 3), loss="log_loss", random_state=0)
        >>> model.predict(np.eye(2)).sum(axis=1).round(3)
        array([1., 1.], dtype=float32)
        """
        check_given(self._input_names, X)
        with no_grad(), np.errstate(all="ignore"):
            found = self.loss_function.predict(self(X, training=False)).data
            given = each_input(lambda x: x.data if isinstance(x, Tensor) else x, X)
            warn_of_overflow(found, given, "the model")
        return found

    def __repr__(self) -> str:
        parts = f"loss={self.loss_function!r}, optimizer={self.optimizer!r}, device='{self.device}'"
        return f"Model({self.module!r}, {parts})"


def _array_of(x: Any) -> Any:
    return x.data if isinstance(x, Tensor) else x


def _look_at(self: "Model", output: Tensor) -> None:
    """Warn if the first output is probabilities, and the loss expects logits."""
    if not (self._has_seen_output or self.memory.looked or is_capturing()):
        self._has_seen_output = True
        warn_of_probabilities(self.loss_function, output)


def _array(model: "Model", value: Any) -> Any:
    value = value.data if isinstance(value, Tensor) else value
    return to_device(value if is_array(value) else np.asarray(value), model.device)
