"""Model: the one owner of parameters, buffers, optimizer state and random state."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from sknet._constraints import shown
from sknet._random import check_random_state
from sknet.core import Tensor
from sknet.device import Device, active, available, check_precision, on_device
from sknet.engine.loop import KeptSteps
from sknet.engine.loop import _methods as many_steps
from sknet.engine.predict import Predictors
from sknet.engine.predict import _method as prediction
from sknet.engine.state import (
    Epoch,
    Memory,
    ModelState,
    Pending,
    StepResult,
    averaging,
    begin,
    check_free,
    checked_hyper,
    copy_of,
    each_input,
    give_shapes,
    is_seeded,
    n_rows,
)
from sknet.engine.state import _methods as states
from sknet.engine.step import (
    Stepper,
    as_operands,
    check_classes_of,
    checked_targets,
    forward,
    look_at_output,
    show_batch,
)
from sknet.engine.step import _functional as functional
from sknet.exceptions import DtypeError
from sknet.losses import Loss
from sknet.nn import Module, is_lazy
from sknet.nn.extend import latest
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import Progress

__all__ = ["Model"]


class Model:
    """A module, a loss and an optimizer with one owner of all state.

    Parameters
    ----------
    module : Module
        The network. The model trains a copy of it, its attribute `module`. A lazy network takes its
        shapes from the first batch.
    loss : str or Loss, default="squared_error"
        The loss to minimize.
    optimizer : str or BaseOptimizer, default="adam"
        The optimizer.
    alpha : float, default=0.0
        Strength of the L2 penalty ``alpha / 2 * sum of squared weights / n_samples``, as in
        scikit-learn's networks. It applies to parameters with two or more axes, so not to biases.
    dtype : {"float32", "float64", "tf32", "bfloat16"}, default="float32"
        The dtype of parameters and computation. In the last two, all arrays are float32; on a GPU, matrix
        products round their factors to 10 or 7 bits of the fraction, and add in float32.
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
        A copy of all that training changes.
    progress : Progress
        Steps, epochs and samples so far.
    random_state : RandomState
        Generator of the host's draws (shuffling, splits).
    dtype, device, compile : dtype, Device, bool or "auto"
        As the parameters; `compile` may be assigned. `dtype` is that of arrays.
    precision : str
        Of products: one of the names that the parameter `dtype` takes. May be assigned.
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
    _kept_steps: KeptSteps | None = None  # of a training in parts; pickles of earlier versions have none

    _rounded: str | None = None  # the precision of products, unless it is the dtype's own

    _seed: int | None = None  # of the random state of a slim model, which its pickle holds instead

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
        self.compile = _check_compile(compile)
        self.dtype, precision = check_precision(dtype, where="a Model")
        self._rounded = None if precision == self.dtype.name else precision
        self.random_state = check_random_state(random_state)
        self.progress = Progress(counts_epochs=False)
        self._epoch = Epoch()
        self._stepper, self._predictors, self._kept_steps = Stepper(), Predictors(), None
        place = available(device)
        module = copy_of(module) if copy else module
        lazy = is_lazy(module)
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
        """The precision of products: "float32", "float64", or, on a GPU, "tf32" or "bfloat16".

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
            self._rounded = None if found == dtype.name else found
            self.recompile()

    def adopt(
        self, optimizer: "str | BaseOptimizer", loss: "str | Loss", alpha: float, *, anew: bool = False
    ) -> None:
        """Replace hyperparameters in place; an error leaves the present ones.

        Parameters
        ----------
        optimizer : str or BaseOptimizer
            One of the same class continues with the present state; another starts afresh.
        loss : str or Loss
            The new loss.
        alpha : float
            The new strength of the L2 penalty.
        anew : bool, default=False
            Reset the optimizer's state, whatever its class.

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

        It is brought up to date with the module first: parameters may have been added, removed or frozen.
        """
        store = self._store
        if store.is_spent:
            store.refuse_spent()
        if store.mark is not latest.structure:
            with active(store.device):
                if store.follow(self.random_state):
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
        """Give a lazy module its shapes and draw its weights, unless that has been done.

        Training and predicting do so with the first batch.

        Parameters
        ----------
        X : array, sparse matrix, Tensor, or tuple of int, or dict of those
            A batch, of which only the shape matters, or its shape.

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

    load = states.load
    weights = states.weights
    restore_weights = states.restore_weights
    copy = __copy__ = states.copy  # a shallow copy would share state

    @property
    def _stored_random_state(self) -> Any:
        """The random state, or the seed that stands for it, in pickles and files."""
        if self._seed is not None and is_seeded(self.random_state, self._seed):
            return self._seed
        return self.random_state

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_store": self.memory, "random_state": self._stored_random_state}
        state["_kept_steps"] = None  # they are bound to this memory
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

    loss = functional.loss
    backward = functional.backward
    update = functional.update
    replace = states.replace

    # -- the step in place ------------------------------------------------------------------------------

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
            For class numbers that the network has no output for, and for weights that are negative or all
            zero.
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
        X = as_operands(self, X)
        show_batch(self, X)
        look_at_output(self, lambda _: X)
        y, sample_weight = checked_targets(self, y, sample_weight)
        if isinstance(y.data, np.ndarray):
            check_classes_of(self, each_input(_array_of, X), y.data)
        result = self._stepper.step(self, X, y, sample_weight)
        self._epoch = self._epoch.seen(n_rows(X))
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
        self._stepper, self._predictors, self._kept_steps = Stepper(), Predictors(), None

    # -- many steps -------------------------------------------------------------------------------------

    fit = many_steps.fit
    train = many_steps.train
    epoch = many_steps.epoch
    epoch_ended = many_steps.epoch_ended

    # -- prediction -------------------------------------------------------------------------------------

    predict = prediction.predict

    def __repr__(self) -> str:
        parts = f"loss={self.loss_function!r}, optimizer={self.optimizer!r}, device='{self.device}'"
        return f"Model({self.module!r}, {parts})"


def _array_of(x: Any) -> Any:
    return x.data if isinstance(x, Tensor) else x


def _check_compile(mode: bool | str) -> bool | str:
    if not (mode is True or mode is False or mode == "auto"):
        raise ValueError(
            f"The 'compile' parameter of Model must be True, False or 'auto'. Got {shown(mode)} instead."
        )
    return mode
