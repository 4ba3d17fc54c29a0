"""The bases of all optimizers: those that go step by step, and those over all rows at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sknet import ops
from sknet._constraints import PLAIN, shown
from sknet._late import Names
from sknet._params import ParameterObject, resolve
from sknet._tree import leaves, map_leaves, paths, rebuild
from sknet.core import Tensor, as_tensor, no_grad
from sknet.exceptions import ShapeError, StateError
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import Rate, as_schedule, rate_of

Vector = NDArray[np.float64]
Shapes = Mapping[str, tuple[int, ...]]
Named = Mapping[str, Tensor]
Slots = Mapping[str, Named]


class MinimizeResult(NamedTuple):
    """The result of a minimization.

    Attributes
    ----------
    x : ndarray of shape (n_parameters,), dtype=float64
        The best parameters found.
    value : float
        The objective there.
    n_iter : int
        Number of iterations.
    n_evaluations : int
        Number of evaluations of the objective.
    converged : bool
        Whether it ended because the gradient or the decrease was small enough; False at a limit, after a
        failed line search, and if the callback stopped it.
    message : str
        SciPy's message on why it ended.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import LBFGS
    >>> result = LBFGS().minimize(lambda x: ((x**4).sum(), 4 * x**3), np.array([1.0, 2.0]), max_iter=1)
    >>> result.n_iter, result.converged
    (1, False)
    """

    x: Vector
    value: float
    n_iter: int
    n_evaluations: int
    converged: bool
    message: str


class BaseOptimizer(ParameterObject, ABC):
    """Abstract base of all optimizers.

    Most make one update per batch, and are an `Optimizer`. Others, such as `LBFGS`, `minimize` an objective
    over all rows with their own line search.

    Examples
    --------
    >>> from sknet.optim import LBFGS, Adam, BaseOptimizer
    >>> [(isinstance(x, BaseOptimizer), x.goes_in_steps) for x in (Adam(), LBFGS())]
    [(True, True), (True, False)]
    """

    squares: bool = False
    """True if gradients are squared, so that very large ones overflow."""

    goes_in_steps: ClassVar[bool] = False
    """True if it makes one update per batch."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the arrays kept for each parameter, all of which start at zero."""
        return ()

    # Names of the slots that `averages` reads; none if the trained parameters predict.
    averaging: tuple[str, ...] = ()

    @property
    def kind(self) -> Any:
        """Key that two optimizers share if one can continue from the state of the other."""
        return type(self)

    def with_lr(self, lr: "float | Schedule") -> Self:
        """Return a copy with another learning rate `lr`, a float or Schedule, wherever the optimizer has one.

        `Groups` get it in all groups, combinators in the optimizer inside.

        Raises
        ------
        ValueError
            If the optimizer has no learning rate, or the new one is not valid.

        Examples
        --------
        >>> from sknet.optim import Adam, ClipNorm
        >>> ClipNorm(Adam(beta1=0.8)).with_lr(0.01)
        ClipNorm(optimizer=Adam(beta1=0.8, lr=0.01))
        """
        changed = copy(self) if PLAIN.issuperset(map(type, vars(self).values())) else deepcopy(self)
        names = [name for name in changed.get_params() if f"__{name}".endswith("__lr")]
        names = [name for name in names if "lr__" not in name]  # those within a schedule
        if not names:
            raise ValueError(
                f"lr={shown(lr)} needs an optimizer with a learning rate, got {self!r}: leave lr out"
            )
        changed.set_params(**dict.fromkeys(names, lr))
        changed.validate()
        return changed

    def in_steps(self) -> "Optimizer":
        """Return the optimizer itself, if it makes one update per batch.

        Raises
        ------
        TypeError
            If it does not.
        """
        raise TypeError(
            f"{type(self).__name__} goes over the full batch and has no single step: use an optimizer such "
            "as Adam()"
        )

    def minimize(
        self,
        value_and_grad: Callable[[Vector], tuple[float, Vector]],
        x0: Vector,
        max_iter: int = 15000,
        gtol: float = 1e-5,
        verbose: bool | int = False,
        callback: Callable[[int, float, Vector], object] | None = None,
    ) -> MinimizeResult:
        """Minimize an objective, starting from parameters `x0` of shape (n_parameters,), in float64.

        ``value_and_grad(parameters)`` returns the objective, a float, and its gradient. The minimization ends
        after `max_iter` iterations, when no component of the gradient is above `gtol`, unless the optimizer
        has a bound of its own, or when ``callback(number, objective, parameters)``, called after each
        iteration, returns True. `verbose` prints the objectives.

        Raises
        ------
        TypeError
            If the optimizer makes one update per batch.
        """
        raise TypeError(
            f"{type(self).__name__} goes step by step and minimizes nothing by itself: use LBFGS(), or call "
            "update once per step"
        )

    def check_parameters(self, shapes: Shapes) -> None:
        """Check that paths and patterns in the optimizer's parameters fit the network's `shapes` by path.

        Raises
        ------
        InvalidParameterError
            If it names a parameter that does not exist, or leaves one without an optimizer.
        """
        return

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        """Return the parameters to predict with, by path: `params`, unless the optimizer averages.

        `slots` are at least those that `averaging` names, for each an array by path.
        """
        return dict(params)


Tree = Any
Hyper = Mapping[str, Any]
Hypers = Mapping[str, Hyper]
Updated = tuple[dict[str, Tensor], dict[str, dict[str, Tensor]]]


class OptimizerState(NamedTuple):
    """State of an optimizer between updates; whoever owns the parameters keeps it.

    Attributes
    ----------
    count : int
        Number of updates done.
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


class Optimizer(BaseOptimizer):
    """Abstract base of the optimizers that make one update per batch.

    An optimizer is stateless. `init` creates a state, and `update` returns a new one; whoever owns the
    parameters keeps it, and adds the returned differences to them.

    A custom optimizer names its `slots` and defines `rule`, and `hyper` if more than the learning rate
    changes from step to step. If its rule is not elementwise, it sets ``elementwise = False``; its rule
    then receives one parameter at a time, in its own shape.

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

    lr: Rate

    goes_in_steps = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

        def place(name: str) -> int:
            return next(i for i, base in enumerate(cls.__mro__) if name in vars(base))

        # A faster table is of the numbers of the class that defines it, or of one above.
        if min(place("hyper"), place("learning_rate")) < place("hyper_table"):
            cls.hyper_table = Optimizer.hyper_table  # type: ignore[method-assign]

    def in_steps(self) -> "Optimizer":
        return self

    @property
    def elementwise(self) -> bool:
        """True if `rule` may be applied to many parameters in one flat array."""
        return True

    @property
    def measures(self) -> bool:
        """True if `measure` returns any numbers."""
        return False

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The learning rates as schedules (a number is a constant one), then other scheduled parameters."""
        return (as_schedule(self.lr),)

    def learning_rate(self, progress: Progress) -> float:
        """Return the learning rate of the next update at this `progress`, or the number that `lr` is."""
        # Called before every update, so no schedule object is made for a number.
        return rate_of(self.lr, progress)

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

        Raises
        ------
        InvalidParameterError
            If the optimizer names a path that is not among them.
        """
        shapes = [as_tensor(leaf).shape for leaf in leaves(params)]
        self.check_parameters(dict(zip(paths(params), shapes, strict=True)))
        return OptimizerState(0, {name: map_leaves(_zeros_like, params) for name in self.slots})

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        """Return the numbers of the rule that change from one update to the next.

        They are computed on the host, by the same names in the same order: a captured step takes them as
        inputs. `count` is the number of the update, from 1; "lr" is the rate at `progress`, "step" minus it.
        """
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr}

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        """Return `hyper` of each of the next `n_steps` updates, all within one epoch.

        The result has a row for each update from `progress` on, and a column for each name, in float64.
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
        """Return the update of one parameter, which is added to it, and its new slots.

        `gradient` and `param` have one shape, that of the parameter; if `elementwise`, they may be many in
        one flat array. There is an array in `slots` for each of the names, and `hyper` has what `hyper`,
        `measure` and `marks` returned; marks of a flat array have its shape. The new parameter is ``param +
        delta``.

        A rule is written in `sknet.ops`, so that it can be captured. It multiplies arrays by the numbers it
        is given, but does not combine these with one another, which would round differently in the precision
        of the parameters: `hyper` does that.
        """

    def measure(
        self, gradients: Sequence[Tensor], slots: Sequence[tuple[Tensor, ...]], hyper: Hyper
    ) -> dict[str, Tensor]:
        """Return numbers over all gradients, such as their norm, that `rule` takes besides `hyper`.

        `gradients` are those of all parameters, or one flat array of them; `slots` has for each of them an
        array for each name of `Optimizer.slots`. Nothing is measured here; a class that overrides this sets
        `measures`.
        """
        return {}

    def marks(self, path: str, shape: tuple[int, ...]) -> dict[str, float]:
        """Return constants of the parameter at `path`, of this `shape`; all parameters have the same names.

        `rule` takes them besides `hyper`.
        """
        return {}

    def measured(self, gradients: Named, slots: Slots, hyper: Hyper) -> Hyper:
        """Return all numbers that are the same for every parameter: `hyper`, and what `measure` returns.

        `gradients` are by path or by other names, and `slots` has for each of its names an array for each of
        them.
        """
        if not self.measures:
            return hyper
        own = [tuple([slots[name][path] for name in self.slots]) for path in gradients]
        return {**hyper, **self.measure(list(gradients.values()), own, hyper)}

    def rules(self, gradients: Named, params: Named, slots: Slots, hypers: Hypers) -> Updated:
        """Return updates, which are added to some arrays, and their new slots, by name.

        Every update is made here: of parameters by path, and of parts of the flat array of all parameters.
        `gradients` have the names of `params`; `slots` has for each of its names an array for each of them,
        and `hypers` for each of them what `hyper`, `measure` and `marks` returned. An optimizer that is
        composed of others overrides it.

        Raises
        ------
        StateError
            If `rule` returned another number of slots than `slots` names.
        """
        deltas: dict[str, Tensor] = {}
        after: dict[str, dict[str, Tensor]] = {name: {} for name in self.slots}
        for path, param in params.items():
            own = tuple([slots[name][path] for name in self.slots])
            deltas[path], new = self.rule(gradients[path], param, own, hypers[path])
            if len(new) != len(self.slots):
                raise StateError(
                    f"{type(self).__name__}.rule returned {len(new)} slots, but `slots` "
                    f"names {len(self.slots)}: {self.slots}"
                )
            for name, value in zip(self.slots, new, strict=True):
                after[name][path] = value
        return deltas, after

    def updated(self, gradients: Named, params: Named, slots: Slots, hyper: Hyper) -> Updated:
        """Return the updates of some parameters, which are added to them, and their new slots.

        `gradients` and `params` are by path; `slots` has for each of its names an array for each path, and
        `hyper` is what the method of this name returned.
        """
        numbers = self.measured(gradients, slots, hyper)
        hypers = {path: {**numbers, **self.marks(path, param.shape)} for path, param in params.items()}
        return self.rules(gradients, params, slots, hypers)

    def averaged(self, params: Tree, state: OptimizerState) -> Tree:
        """Return the parameters for prediction, given trained `params` and the `state` of the last update.

        For most optimizers they are the parameters themselves. Training continues from `params`.
        """
        places = paths(params)
        named = dict(zip(places, map(as_tensor, leaves(params)), strict=True))
        slots = {name: self._named(places, state, name) for name in self.averaging}
        with no_grad():
            found = self.averages(named, slots)
        return _like(params, [found[place] for place in places])

    def update(
        self, gradients: Tree, state: OptimizerState, params: Tree, progress: Progress | None = None
    ) -> tuple[Tree, OptimizerState]:
        """Return the update of every parameter, and the new state; the arguments are not changed.

        `gradients`, like `params`, is a tree of arrays, and so are the deltas: new parameters are ``params +
        deltas``, leaf by leaf. Where a parameter is a Tensor, so are its delta and its slots. The `state` is
        that of `init` or of the update before; a `progress` of None takes the number of updates from it.

        Raises
        ------
        StateError
            If gradients or state are not trees like the parameters.
        ShapeError
            If a gradient's shape differs from its parameter's.
        """
        places = paths(params)
        named = dict(zip(places, map(as_tensor, leaves(params)), strict=True))
        given = dict(zip(places, map(as_tensor, _leaves_at(places, gradients, "gradients")), strict=True))
        for place, param in named.items():
            if given[place].shape != param.shape:
                raise ShapeError(
                    f"the gradient of {place or 'the parameter'} has shape {given[place].shape}; its "
                    f"parameter has shape {param.shape}. They must be equal."
                )
        slots = {name: self._named(places, state, name) for name in self.slots}
        hyper = self.hyper(state.count + 1, progress or Progress(step=state.count))
        with no_grad():
            deltas, after = self.updated(given, named, slots, hyper)
        trees = {name: _like(params, [values[place] for place in places]) for name, values in after.items()}
        return _like(params, [deltas[place] for place in places]), OptimizerState(state.count + 1, trees)

    def _named(self, places: list[str], state: OptimizerState, name: str) -> dict[str, Tensor]:
        arrays = _leaves_at(places, state.slots.get(name), f"slot {name!r}")
        return dict(zip(places, map(as_tensor, arrays), strict=True))


def moving_average(average: Tensor, value: Tensor, decay: float) -> Tensor:
    """Return the exponential moving average one value later."""
    return decay * average + (1.0 - decay) * value


def _like(params: Tree, values: Sequence[Tensor]) -> Tree:
    """Return a tree like the parameters: with tensors where it has tensors, with arrays elsewhere."""
    given = zip(leaves(params), values, strict=True)
    return rebuild(params, iter([v if isinstance(p, Tensor) else v.data for p, v in given]))


def _zeros_like(param: Any) -> Any:
    zeros = ops.zeros_like(as_tensor(param))
    return zeros if isinstance(param, Tensor) else zeros.data


def _leaves_at(places: list[str], tree: Tree, what: str) -> list[Any]:
    found = paths(tree)
    if found != places:
        raise StateError(
            f"{what} must be a tree like the parameters, with the same names in the same order: expected "
            f"{places}, got {found}. For other parameters, create a new state with init(params)."
        )
    return leaves(tree)


OPTIMIZERS: Mapping[str, type[BaseOptimizer]] = Names(
    {
        "sknet.optim._sgd": {
            "sgd": "SGD",
            "rmsprop": "RMSprop",
            "rprop": "Rprop",
            "adagrad": "Adagrad",
            "adadelta": "Adadelta",
            "lion": "Lion",
        },
        "sknet.optim._adam": {
            "adam": "Adam",
            "adamw": "AdamW",
            "adamax": "Adamax",
            "nadam": "NAdam",
            "radam": "RAdam",
            "schedule_free_adamw": "ScheduleFreeAdamW",
        },
        "sknet.optim._muon": {"muon": "Muon"},
        "sknet.optim._lbfgs": {"lbfgs": "LBFGS"},
    }
)


def check_optimizer(value: str | BaseOptimizer, caller: str) -> BaseOptimizer:
    """Convert a name or an object to an optimizer, and check its parameters.

    Parameters
    ----------
    value : str or BaseOptimizer
        One of the names in `OPTIMIZERS`, or an optimizer.
    caller : str
        Name of the class whose parameter it is, for the error message.

    Returns
    -------
    BaseOptimizer
        A new optimizer for a name; an optimizer as it is.

    Raises
    ------
    InvalidParameterError
        If it is neither, or if a parameter of the optimizer is wrong.

    Examples
    --------
    >>> from sknet.optim import check_optimizer
    >>> check_optimizer("adam", caller="MLPClassifier")
    Adam()
    """
    return resolve(value, OPTIMIZERS, BaseOptimizer, parameter="optimizer", caller=caller)
