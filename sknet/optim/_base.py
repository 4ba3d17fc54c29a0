"""What every optimizer is: a rule for one parameter, and pure functions that apply it to all."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sknet import ops
from sknet._params import ParameterObject
from sknet._tree import leaves, map_leaves, paths, rebuild
from sknet.core import Tensor, as_tensor, no_grad
from sknet.exceptions import ShapeError, StateError
from sknet.optim.schedules import Constant, Progress, Schedule

Tree = Any
Hyper = Mapping[str, Any]


class OptimizerState(NamedTuple):
    """What an optimizer has to remember from one update to the next; its owner keeps it.

    Attributes
    ----------
    count : int
        Updates done.
    slots : dict of str to tree
        For each name in the optimizer's `slots`, a tree like the parameters with arrays of their
        shapes and dtypes.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD
    >>> SGD().init({"weight": np.ones(2)})
    OptimizerState(count=0, slots={'velocity': {'weight': array([0., 0.])}})
    """

    count: int  # type: ignore[assignment]  # hides tuple.count, which no state needs
    slots: dict[str, Tree]


class Optimizer(ParameterObject, ABC):
    """Abstract base of the optimizers that go step by step.

    An optimizer has no state. `init` makes one, and `update` returns a new one; whoever owns the
    parameters keeps it, and adds the returned differences to the parameters.

    An optimizer of your own names its `slots` and defines `rule`, and `hyper` if more changes from
    step to step than the learning rate.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.optim import Optimizer
    >>> class SignDescent(Optimizer):
    ...     def __init__(self, lr=0.01):
    ...         self.lr = lr
    ...
    ...     def rule(self, gradient, param, slots, hyper):
    ...         return -hyper["lr"] * ops.sign(gradient), ()
    >>> optimizer = SignDescent()
    >>> params = {"weight": np.array([1.0, -1.0])}
    >>> gradients = {"weight": np.array([30.0, -0.5])}
    >>> deltas, state = optimizer.update(gradients, optimizer.init(params), params)
    >>> deltas["weight"]
    array([-0.01,  0.01])
    """

    slots: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays kept for each parameter."""

    lr: float | Schedule

    @property
    def schedule(self) -> Schedule:
        """The learning rate as a schedule; a number is a constant one."""
        return self.lr if isinstance(self.lr, Schedule) else Constant(self.lr)

    def learning_rate(self, progress: Progress) -> float:
        """Return the learning rate of the next update.

        Parameters
        ----------
        progress : Progress
            How far the fit has come.

        Returns
        -------
        float
            What the schedule says, or the number that `lr` is.
        """
        # Asked before every update: no schedule is made only to be called once.
        return self.lr(progress) if isinstance(self.lr, Schedule) else float(self.lr)

    def init(self, params: Tree) -> OptimizerState:
        """Return the state before the first update: every slot is zero.

        Parameters
        ----------
        params : tree of arrays
            The parameters; nested dicts, lists and tuples, or one array.

        Returns
        -------
        OptimizerState
            With slots on the parameters' devices and of their dtypes.
        """
        return OptimizerState(0, {name: map_leaves(_zeros_like, params) for name in self.slots})

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        """Return every number of the rule that changes from one update to the next.

        They are computed on the host, so that a captured step takes them as inputs and freezes none.

        Parameters
        ----------
        count : int
            Which update it will be; the first is 1.
        progress : Progress
            How far the fit has come.

        Returns
        -------
        dict of str to float
            At least the learning rate, as "lr".
        """
        return {"lr": self.learning_rate(progress)}

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        """Return what `hyper` says for each of the next updates.

        Parameters
        ----------
        progress : Progress
            How far the fit has come.
        n_steps : int
            How many updates follow, within one epoch.

        Returns
        -------
        ndarray of shape (n_steps, n_numbers), dtype=float64
            A row for each update, in the order of `hyper`'s names.
        """
        first = progress.step
        rows = [
            tuple(self.hyper(step + 1, Progress(step, *progress[1:])).values())
            for step in range(first, first + n_steps)
        ]
        return np.array(rows, np.float64)

    @abstractmethod
    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return what to add to one parameter, and its new slots.

        A rule is elementwise, so that it means the same for a parameter and for many of them in
        one flat array; and it is made of `sknet.ops`, so that it can be captured.

        Parameters
        ----------
        gradient, param : Tensor of shape (...)
            The parameter, and the gradient of the objective in it.
        slots : tuple of Tensor of shape (...)
            One for each name in `slots`.
        hyper : dict of str to float or Tensor of shape ()
            What `hyper` returned.

        Returns
        -------
        delta : Tensor of shape (...)
            The new parameter is ``param + delta``.
        slots : tuple of Tensor of shape (...)
            The new slots.
        """

    def update(
        self, gradients: Tree, state: OptimizerState, params: Tree, progress: Progress | None = None
    ) -> tuple[Tree, OptimizerState]:
        """Return what to add to every parameter, and the new state; nothing is changed.

        Parameters
        ----------
        gradients : tree of arrays
            Like the parameters.
        state : OptimizerState
            From `init`, or from the update before.
        params : tree of arrays
            The parameters.
        progress : Progress or None, default=None
            How far the fit has come; None takes the number of updates from the state.

        Returns
        -------
        deltas : tree of arrays
            Like the parameters: new parameters are ``params + deltas``, leaf by leaf. Where a
            parameter is a Tensor, so are its delta and its slots.
        state : OptimizerState
            The state after this update.

        Raises
        ------
        StateError
            If gradients or state are not trees like the parameters.
        ShapeError
            If a gradient has not the shape of its parameter.
        """
        hyper = self.hyper(state.count + 1, progress or Progress(step=state.count))
        places = paths(params)
        columns = [_leaves_at(places, gradients, "gradients")]
        columns += [_leaves_at(places, state.slots.get(name), f"slot {name!r}") for name in self.slots]
        with no_grad():
            results = [
                self._step(place, param, row, hyper)
                for place, param, *row in zip(places, leaves(params), *columns, strict=True)
            ]
        deltas, *slots = (
            rebuild(params, iter([result[i] for result in results])) for i in range(len(self.slots) + 1)
        )
        return deltas, OptimizerState(state.count + 1, dict(zip(self.slots, slots, strict=True)))

    def _step(self, place: str, param: Any, row: Sequence[Any], hyper: Hyper) -> tuple[Any, ...]:
        gradient, *slots = map(as_tensor, row)
        tensor = as_tensor(param)
        if gradient.shape != tensor.shape:
            raise ShapeError(
                f"the gradient of {place or 'the parameter'} has shape {gradient.shape}; its parameter has "
                f"shape {tensor.shape}. They must be equal."
            )
        delta, new_slots = self.rule(gradient, tensor, tuple(slots), hyper)
        result = (delta, *new_slots)
        return result if isinstance(param, Tensor) else tuple(value.data for value in result)


def moving_average(average: Tensor, value: Tensor, decay: float) -> Tensor:
    """Return the exponential moving average one value later."""
    return decay * average + (1.0 - decay) * value


def _zeros_like(param: Any) -> Any:
    zeros = ops.zeros_like(as_tensor(param))
    return zeros if isinstance(param, Tensor) else zeros.data


def _leaves_at(places: list[str], tree: Tree, what: str) -> list[Any]:
    found = paths(tree)
    if found != places:
        raise StateError(
            f"{what} must be a tree like the parameters, with the same names in the same order: expected "
            f"{places}, got {found}. A state from other parameters is made anew with init(params)."
        )
    return leaves(tree)
