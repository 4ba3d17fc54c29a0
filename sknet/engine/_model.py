"""Model: the one owner of parameters, buffers, optimizer state and random state."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils import check_random_state

from sknet import ops
from sknet.core import Tensor, cargo_of, carry, gradients, is_capturing, no_grad, note_write, release
from sknet.device import Device, available, check_float_dtype, is_array, on_device, to_device
from sknet.engine._owner import Epoch, Owner, check_alpha
from sknet.engine.predict import MOST_ROWS, Head, Pass, Predictor, warn_of_overflow
from sknet.engine.state import (
    Gradient,
    Memory,
    ModelState,
    Pending,
    StepResult,
    arguments,
    check_free,
    copy_of,
    each_input,
    n_rows,
)
from sknet.engine.step import (
    Stepper,
    _objective,
    apply_update,
    check_output,
    check_reached,
    check_targets,
    check_weights,
    note_last_layer,
    warn_of_probabilities,
)
from sknet.exceptions import GradientError
from sknet.losses import Loss, check_loss
from sknet.nn import Module, Scope, bindings, is_lazy, run
from sknet.nn.extend import latest
from sknet.optim import BaseOptimizer, Optimizer, check_optimizer
from sknet.optim.schedules import Progress

__all__ = ["Model"]


class Model(Owner):
    """A module, a loss and an optimizer with one owner of all state.

    Parameters
    ----------
    module : Module
        The network, of which the model makes a copy: `module` is the one that is trained. The shapes of
        a lazy one are those of the first batch.
    loss : str or Loss, default="squared_error"
        What is minimised.
    optimizer : str or BaseOptimizer, default="adam"
        How.
    alpha : float, default=0.0
        Strength of the L2 penalty ``alpha / 2 * sum of squared weights / n_samples``, as in
        scikit-learn's networks. It takes in parameters with two or more axes: no biases.
    dtype : {"float32", "float64"}, default="float32"
        In which precision to compute.
    device : str or Device, default="cpu"
        Where to compute.
    random_state : int, RandomState instance or None, default=None
        Draws initial weights (of parameters that have no values yet), and everything random after.
    compile : {"auto", True, False}, default="auto"
        Whether training steps are captured and planned (see `sknet.compile`). "auto" does so where
        it can be done, and goes on eagerly with one warning where not; True raises instead.
    copy : bool, default=True
        False takes over the module itself: its parameters become views of the model's memory, and
        follow its training.

    Raises
    ------
    StateError
        With ``copy=False``, if another model owns the module.

    Attributes
    ----------
    progress : Progress
        Steps, epochs and samples so far.
    random_state : RandomState
        Where the host's draws (shuffling, splits) come from next.

    Notes
    -----
    There are two ways to train. `step` updates in place and returns what it did. The functional
    form does the same in pieces and changes nothing: ``model(X)``, `loss`, `backward`, `update`,
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
        self._hyper = check_optimizer(optimizer, "Model"), check_loss(loss, "Model"), check_alpha(alpha)
        self.compile = _check_compile(compile)
        self._stepper = Stepper()
        self.dtype = check_float_dtype(dtype, where="a Model")
        self.random_state = check_random_state(random_state)
        self.progress = Progress(counts_epochs=False)
        self._epoch = Epoch()
        self._predictors: dict[str, Predictor] = {}
        self._not_captured: dict[str, object] = {}  # the mark of the settings when a capture failed
        place = available(device)
        module = copy_of(module) if copy else module
        if not is_lazy(module):
            check_free(dict(module.own_parameters()))
        module.to(dtype=self.dtype, device=place)  # first, so that what is drawn keeps all its digits
        self._memory: Memory = Pending(module, place)  # type: ignore[assignment]
        if not is_lazy(module):
            self._begin()

    # -- the step in functional pieces ----------------------------------------------------------

    @on_device
    def __call__(self, X: Any, training: bool = True) -> Tensor:
        """Return the module's raw output, recorded for `backward`; nothing is changed.

        Parameters
        ----------
        X : array, sparse matrix or Tensor of shape (n_samples, ...), or dict of those
            A batch; several inputs by the names of the forward pass's arguments.
        training : bool, default=True
            Whether layers behave as in training (dropout drops, batch norm uses the batch). The
            same model draws the same dropout masks every time, until its state is replaced.
            Otherwise the `evaluation_parameters` are used.

        Returns
        -------
        Tensor of shape (n_samples, n_outputs)
            Raw output: logits, means or log means, as the loss reads them.
        """
        module = self.materialize(X)._memory.module
        scope = Scope(self._bound(training), training, self.key, self.progress.step)
        output = check_output(module, run(module, scope, arguments(each_input(self._operand, X))))
        if scope.updates and output.requires_grad:
            return carry(output, self._named_updates(scope))
        return output  # type: ignore[no-any-return]

    @on_device
    def evaluated(self, X: Any, by: Pass) -> Any:
        """Return what a function makes of the module in evaluation mode, such as the output of a layer.

        Parameters
        ----------
        X : array, sparse matrix or Tensor of shape (n_samples, ...), or dict of those
            A batch; several inputs by the names of the forward pass's arguments.
        by : callable
            Called as `nn.run` is: ``by(module, scope, args)``.

        Returns
        -------
        object
            What `by` returns.
        """
        module = self.materialize(X)._memory.module
        return by(module, Scope(self._bound(training=False), False), arguments(each_input(self._operand, X)))

    def _bound(self, training: bool) -> dict[Any, Tensor]:
        """Return what stands in the place of the module's parameters: averages, when those predict."""
        if training or not self._predicts_with_averages:
            return {}
        places = bindings(self.module)
        return {places[name]: Tensor(view) for name, view in self.evaluation_parameters.items()}

    def _named_updates(self, scope: Scope) -> dict[str, Any]:
        slots = {
            (id(module), name): f"{path}.{name}" if path else name
            for path, module in self.module.named_modules()
            for name in module._buffers
        }
        return {slots[binding]: value.data for binding, value in scope.updates.items()}  # type: ignore[index]

    def _operand(self, X: Any) -> Any:
        if isinstance(X, Tensor) or ops.is_sparse(X):
            return X
        array = X if is_array(X) else np.asarray(X)
        if array.dtype.kind == "f" and array.dtype != self.dtype:
            array = array.astype(self.dtype)
        return Tensor(to_device(array, self.device))

    @on_device
    def loss(self, output: Tensor, y: Any, sample_weight: Any = None) -> Tensor:
        """Return the objective: the weighted mean loss plus the L2 penalty.

        Parameters
        ----------
        output : Tensor of shape (n_samples, n_outputs)
            What the model returned.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets: class numbers, 0/1 labels or real numbers, as the loss reads them.
        sample_weight : array of shape (n_samples,) or (n_samples, n_positions), default=None
            Weights of rows, or of the positions of sequences; None weights all alike.

        Returns
        -------
        Tensor of shape ()
            The objective, differentiable.

        Raises
        ------
        ShapeError
            If the targets or weights do not fit the output.
        ValueError
            For negative class numbers, and for weights that are negative or all zero.
        """
        y, sample_weight = self._checked(y, sample_weight)
        self._look_at(output)
        data, penalty = self.terms(output, y, sample_weight)
        return data if penalty is None else data + penalty

    def _look_at(self, output: Tensor) -> None:
        """Warn if the first output is probabilities, and the loss expects logits."""
        if not self._has_seen_output and not is_capturing():
            self._has_seen_output = True
            warn_of_probabilities(self.loss_function, output, stacklevel=4)  # of the decorated `loss`

    def _checked(self, y: Any, sample_weight: Any) -> tuple[Tensor, Tensor | None]:
        """Return targets and weights as tensors; a loop, whose caller has checked them, does without."""
        y = self._operand(y)
        check_targets(self.loss_function, y)
        if sample_weight is not None:
            sample_weight = self._operand(sample_weight)
            check_weights(sample_weight)
        return y, sample_weight

    def terms(
        self, output: Tensor, y: Any, sample_weight: Any, parameters: Iterable[Tensor] | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the two terms of the objective: mean loss, and L2 penalty or None.

        Parameters
        ----------
        output, y, sample_weight : Tensor, array, array or None
            As for `loss`.
        parameters : iterable of Tensor, default=None
            What to penalize, of those that have two or more axes; None for the model's own.

        Returns
        -------
        data : Tensor of shape ()
            Weighted mean loss.
        penalty : Tensor of shape () or None
            None where `alpha` is 0.
        """
        weight = None if sample_weight is None else self._operand(sample_weight)
        penalized = self._memory.leaves.values() if parameters is None else parameters
        try:
            return _objective.terms(
                self.loss_function, self.alpha, output, self._operand(y), weight, penalized
            )
        except ValueError as error:
            note_last_layer(error, self.module)
            raise

    def as_reported(
        self, output: Tensor, y: Any, sample_weight: Any, data: Tensor, penalty: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the two `terms` of a batch as they are reported: in the units of the targets.

        Parameters
        ----------
        output, y, sample_weight : Tensor, array, array or None
            As for `loss`.
        data, penalty : Tensor of shape (), and Tensor of shape () or None
            What `terms` returned.

        Returns
        -------
        data, penalty : Tensor of shape (), and Tensor of shape () or None
            The same, unless the loss is of targets in other units.
        """
        weight = None if sample_weight is None else self._operand(sample_weight)
        y = self._operand(y)
        return _objective.as_reported(self.loss_function, output, y, weight, data, penalty)

    @on_device
    def backward(self, loss: Tensor, donate: bool = False) -> Gradient:
        """Return the gradient of a loss with respect to every parameter; nothing is changed.

        Parameters
        ----------
        loss : Tensor of shape ()
            Computed from this model's output.
        donate : bool, default=False
            Give up the intermediate values that the gradient is computed from: their memory is free
            for the next step, and the loss has its value, but no gradient any more.

        Returns
        -------
        Gradient
            A mapping from parameter names to arrays.

        Raises
        ------
        GradientError
            If the loss does not depend on this model's parameters, or was computed before one of them was
            thawed or put in, or is no scalar.
        """
        check_reached(loss, self._memory.leaves)
        found = self.gradient_into(self._memory.zeros(), loss)
        if donate:
            release(loss)
        return found

    def gradient_into(self, flat: Any, loss: Tensor) -> Gradient:
        """Return the gradient of `loss`, written into the buffer `flat`."""
        shares = gradients(loss, list(self._memory.leaves.values()))
        for part, share in zip(self.layout.slices.values(), shares, strict=True):
            flat[part] = share.data.reshape(-1)
        return Gradient(self.layout, flat, cargo_of(loss) if self._memory.has_buffers else {})

    @on_device
    def update(self, gradient: Gradient, donate: bool = False) -> ModelState:
        """Return the state after one optimizer update; nothing is changed.

        Parameters
        ----------
        gradient : Gradient or mapping of str to array-like
            From `backward`, or arrays of your own for every parameter name.
        donate : bool, default=False
            Give up this model's memory: the new state is written into it. Arrays that were taken from
            this model, or from the state it holds, change with it, and the model can only be asked
            to `replace` its state; a functional loop then needs no more memory than one in place.

        Returns
        -------
        ModelState
            Immutable; pass it to `replace`.

        Raises
        ------
        StateError
            If names or shapes do not fit the parameters.
        """
        optimizer = self.stepping_optimizer()
        if not isinstance(gradient, Gradient) or gradient.layout.shapes != self.layout.shapes:
            flat_gradient = self._memory.zeros()
            self.layout.fill(flat_gradient, {name: self._array(value) for name, value in gradient.items()})
            gradient = Gradient(self.layout, flat_gradient, {})
        memory, buffers = self._memory, {**self.buffers, **gradient.buffers}
        flat, slots = memory.given() if donate else (memory.packed(), memory.copied_slots())
        apply_update(optimizer, self.layout, self.progress, gradient.flat, flat, slots)
        progress = self.progress.stepped()
        if donate:
            note_write(flat, "Model.update(donate=True)")
            self._spend()
        return memory.state(flat, slots, buffers, progress)

    def _array(self, value: Any) -> Any:
        value = value.data if isinstance(value, Tensor) else value
        return to_device(value if is_array(value) else np.asarray(value), self.device)

    # -- the step in place ------------------------------------------------------------------------

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
            If loss or gradient is not finite; nothing is changed then.
        ShapeError
            If shapes do not fit; nothing is changed then.
        ValueError
            For negative class numbers, and for weights that are negative or all zero.
        CaptureError
            With ``compile=True``, if the step cannot be captured.
        """
        self.materialize(X)
        X = each_input(self._operand, X)
        result = self._stepper.step(self, X, *self._checked(y, sample_weight))
        self._epoch.rows += n_rows(X)
        self.note_written("Model.step")
        return result

    def stepping_optimizer(self) -> Optimizer:
        """Return the optimizer, for which there are slots; a TypeError says that it has no single step."""
        optimizer = self.optimizer.in_steps()
        self._follow_optimizer()
        if not self._memory.leaves:
            raise GradientError(
                "this model has no parameter to learn: all are frozen, or there are none; "
                "model.module.requires_grad_(True) thaws all"
            )
        return optimizer

    # -- what a loss is reported as -----------------------------------------------------------------

    def reported(self, result: StepResult) -> float:
        """Return the loss of a step's `result` as it is reported: regression losses as the mean over outputs.

        scikit-learn descends the sum over outputs and reports their mean; so do we.
        """
        return self.per_output(result.data_loss, result.output.shape[-1]) + result.penalty

    def mean_loss(self, output: Any, y: Any, sample_weight: Any = None) -> tuple[float, float]:
        """Return the reported mean loss of raw `output` for `y`, without penalty, and the weight of rows.

        `sample_weight` are weights as for `loss`.
        """
        weight = None if sample_weight is None else self._operand(sample_weight)
        with no_grad():
            loss = self.loss_function.reporting
            mean = _objective.mean_term(loss, Tensor(output), self._operand(y), weight)
        return self.per_output(mean.value.item(), output.shape[-1]), float(mean.weight)

    def per_output(self, loss: float, n_outputs: int) -> float:
        """Return a mean `loss` as it is reported: for some losses divided by `n_outputs`."""
        return _objective.per_output(self.loss_function, loss, n_outputs)

    # -- prediction, pickling -----------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Return what the network predicts: probabilities or means, by the loss's inverse link.

        Parameters
        ----------
        X : array, sparse matrix or Tensor of shape (n_samples, ...)
            Inputs; all at once.

        Returns
        -------
        array of shape (n_samples, n_outputs)
            On the model's device.
        """
        with no_grad(), np.errstate(all="ignore"):
            found = self.loss_function.predict(self(X, training=False)).data
            given = each_input(lambda x: x.data if isinstance(x, Tensor) else x, X)
            warn_of_overflow(found, given, "the model")
        return found

    def predictor(
        self, name: str, head: Head | None, by: Pass = run, most_rows: int = MOST_ROWS
    ) -> Predictor | None:
        """Return the compiled forward pass with a head, which is made when it is first asked for.

        Parameters
        ----------
        name : str
            What `by` and `head` are called: they are compiled once for each name.
        head : callable or None
            From raw outputs to the result, in operations that can be captured.
        by : callable, default=nn.run
            Computes the raw outputs: ``by(module, scope, args)``.
        most_rows : int, default=1024
            Of the largest program.

        Returns
        -------
        Predictor or None
            None where the pass cannot be compiled, or the model is not on the host.
        """
        memory = self._memory
        flat = memory.evaluated(self.optimizer) if self._predicts_with_averages else memory.flat
        found = self._predictors.get(name)
        if found is not None and found.is_for(flat, head):
            return found
        if flat is None or memory.device.kind != "cpu" or self._not_captured.get(name) is latest.settings:
            return None
        found = self._predictors[name] = Predictor(memory.module, memory.layout, flat, head, most_rows, by)
        return found

    def forget_predictor(self, name: str) -> None:
        """Remember that the forward pass of this name cannot be compiled, as the modules are now."""
        self._predictors.pop(name, None)
        self._not_captured[name] = latest.settings

    def recompile(self) -> None:
        """Forget all programs: what comes next is captured anew.

        Whatever of a module, a loss or an optimizer a step or a prediction reads, the model notices when
        it changes: attributes, what is in their lists, dicts and arrays, hooks, parameters. It cannot
        notice that a global variable, an attribute of a class or what a function of another module refers
        to was changed; after that call this.
        """
        self._predictors, self._not_captured, self._stepper = {}, {}, Stepper()

    def __repr__(self) -> str:
        parts = f"loss={self.loss_function!r}, optimizer={self.optimizer!r}, device='{self.device}'"
        return f"Model({self.module!r}, {parts})"


def _check_compile(mode: bool | str) -> bool | str:
    if not (mode is True or mode is False or mode == "auto"):
        raise ValueError(
            f"The 'compile' parameter of Model must be True, False or 'auto'. Got {mode!r} instead."
        )
    return mode
