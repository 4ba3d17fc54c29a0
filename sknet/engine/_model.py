"""Model: the one owner of parameters, buffers, optimizer state and random state."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils import check_random_state

from sknet.callbacks import Callback
from sknet.callbacks.extend import Rows
from sknet.core import Tensor, carry, is_capturing, no_grad, note_write, release
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
    apply_update,
    as_operands,
    batch_terms,
    check_output,
    check_reached,
    checked_targets,
    gradient_into,
    recorded,
    warn_of_probabilities,
)
from sknet.exceptions import GradientError
from sknet.losses import Loss, check_loss
from sknet.nn import Module, Scope, bindings, is_lazy, run
from sknet.nn.extend import latest
from sknet.optim import BaseOptimizer, Optimizer, check_optimizer
from sknet.optim.schedules import Progress

if TYPE_CHECKING:
    from sknet.engine.loop import History

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
    memory : Memory
        Where its numbers are, for code that trains them in place.

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
        self._is_seeded = random_state is not None
        self.progress = Progress(counts_epochs=False)
        self._epoch = Epoch()
        self._predictors: dict[str, Predictor] = {}
        self._not_captured: dict[str, object] = {}  # the mark of the settings when a capture failed
        place = available(device)
        module = copy_of(module) if copy else module
        if not is_lazy(module):
            check_free(dict(module.own_parameters()))
        module.to(dtype=self.dtype, device=place)  # first, so that what is drawn keeps all its digits
        self.memory: Memory = Pending(module, place)  # type: ignore[assignment]
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
        module = self.materialize(X).memory.module
        scope = Scope(self._bound(training), training, self.key, self.progress.step)
        output = check_output(module, run(module, scope, arguments(as_operands(self, X))))
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
        module = self.materialize(X).memory.module
        return by(module, Scope(self._bound(training=False), False), arguments(as_operands(self, X)))

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
        GradientError
            If a parameter was thawed or put in since the output was computed.
        """
        y, sample_weight = checked_targets(self, y, sample_weight)
        self._look_at(output)
        data, penalty = batch_terms(self, output, y, sample_weight, recorded(output, self.memory.leaves))
        return data if penalty is None else data + penalty

    def _look_at(self, output: Tensor) -> None:
        """Warn if the first output is probabilities, and the loss expects logits."""
        if not self._has_seen_output and not is_capturing():
            self._has_seen_output = True
            warn_of_probabilities(self.loss_function, output, stacklevel=4)  # of the decorated `loss`

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
            If the loss does not depend on this model's parameters, or the output was computed before one of
            them was thawed or put in, or the loss is no scalar.
        """
        check_reached(loss, self.memory.leaves)
        found = gradient_into(self.memory, self.memory.zeros(), loss)
        if donate:
            release(loss)
        return found

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
            flat_gradient = self.memory.zeros()
            self.layout.fill(flat_gradient, {name: self._array(value) for name, value in gradient.items()})
            gradient = Gradient(self.layout, flat_gradient, {})
        memory, buffers = self.memory, {**self.buffers, **gradient.buffers}
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
        X = as_operands(self, X)
        result = self._stepper.step(self, X, *checked_targets(self, y, sample_weight))
        self._epoch.rows += n_rows(X)
        self.memory.note_written("Model.step")
        return result

    # -- many steps -------------------------------------------------------------------------------

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
        """Train on rows, in place, by the loop of the estimators; another call goes on.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, ...), or dict of those
            Inputs. They are gathered and converted batch by batch, and never copied as a whole.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets: class numbers, 0/1 labels or real numbers, as the loss reads them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of rows.
        epochs : int, default=10
            How often to go through the rows. With `LBFGS`, iterations at most.
        batch_size : int or "auto", default="auto"
            Rows in a batch; "auto" is 200, or all if there are fewer.
        shuffle : bool, default=True
            Whether to draw the order of the rows anew in each epoch.
        X_val, y_val, sample_weight_val : array-like, default=None
            Held-out rows: their loss and scores are in the history, and `EarlyStopping` goes by their loss.
        scores : str, callable, list or dict, default=None
            What to measure besides the loss: "accuracy", "r2", or functions of ``(y_true, y_pred)``, with
            predictions as `predict` returns them; several in a list, or in a dict by their names.
        callbacks : list of Callback, default=None
            Called during this fit. They work on copies; what these learn is in the given objects afterwards.
        verbose : bool or "bar", default=False
            Print a line for every epoch, or show a progress bar.
        check_finite : bool, default=True
            Raise for a loss or gradient that is not finite, instead of going on with it.
        resume_from : str or PathLike, default=None
            File of a `Checkpoint` of the same fit, to go on from.

        Returns
        -------
        History
            The numbers of each epoch.

        Raises
        ------
        ShapeError, DtypeError, ValueError
            If the arrays do not belong together or are not what the loss is defined for; nothing is changed.
        NonFiniteError
            If a loss or gradient is not finite: names epoch, batch and parameter. Former steps are kept.

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
        from sknet.engine.loop import Options, fit_rows  # its steps are made of models

        held_out = Rows(X_val, y_val, sample_weight_val)
        options = Options("Model.fit", held_out, scores, callbacks, verbose, check_finite, self._is_seeded)
        return fit_rows(self, Rows(X, y, sample_weight), epochs, batch_size, shuffle, options, resume_from)

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
        """Train on batches as they come, in place; another call goes on.

        Parameters
        ----------
        batches : iterable or callable
            Yields ``(X, y)`` or ``(X, y, sample_weight)``: a list, a loader, a generator, or a generator
            function, which is called for every pass. A batch is asked for after the step on the one before.
        epochs : int, default=None
            How many; None is one, or as many as `n_steps` need. A generator can be gone over once.
        n_steps : int, default=None
            After how many steps to end, for what has no end.
        steps_per_epoch : int, default=None
            Batches of an epoch, which then begins no new pass. None makes every pass an epoch.
        X_val, y_val, sample_weight_val : array-like, default=None
            As for `fit`; so are the rest.
        scores, callbacks, verbose, check_finite : see `fit`
        resume_from : str or PathLike, default=None
            Batches that were trained on before are passed by: the same ones must come again.

        Returns
        -------
        History
            The numbers of each epoch.

        Raises
        ------
        TypeError, ShapeError, DtypeError, ValueError
            If a batch is not what it should be: says which.
        NonFiniteError
            If a loss or gradient is not finite. Former steps are kept.

        Notes
        -----
        Steps are compiled once for each of the last few shapes of batches. How many steps there will be,
        which some schedules must know, is known from `n_steps`, or from `epochs` and the length of `batches`.

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
        from sknet.engine.loop import Options, fit_batches  # its steps are made of models

        held_out = Rows(X_val, y_val, sample_weight_val)
        options = Options("Model.train", held_out, scores, callbacks, verbose, check_finite, self._is_seeded)
        return fit_batches(self, batches, epochs, n_steps, steps_per_epoch, options, resume_from)

    def stepping_optimizer(self) -> Optimizer:
        """Return the optimizer, for which there are slots; a TypeError says that it has no single step."""
        optimizer = self.optimizer.in_steps()
        self._follow_optimizer()
        if not self.memory.leaves:
            raise GradientError(
                "this model has no parameter to learn: all are frozen, or there are none; "
                "model.module.requires_grad_(True) thaws all"
            )
        return optimizer

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
        memory = self.memory
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
