"""Records of a fit, each made from the one before, and the meaning of ``scoring=`` and ``monitor=``."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from operator import attrgetter, is_
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from sknet._constraints import is_integer, is_plain, is_whole, shown
from sknet._hints import suggestion
from sknet._params import validate_parameters
from sknet._random import RandomSnapshot
from sknet.callbacks import Callback, EarlyStopping
from sknet.callbacks._callback import Rows
from sknet.callbacks._checkpoint import SavedFit
from sknet.callbacks._scoring import direction_of, is_scikit_learns
from sknet.device import active, arrays_in, device_of
from sknet.engine import Batches, History, Model
from sknet.engine._batches import ComputedRows, take_rows
from sknet.engine._inputs import each_input
from sknet.engine._loop import Settings, Validation
from sknet.engine._scores import takes_weight
from sknet.estimators._architecture import Architecture
from sknet.estimators._scaling import InputScaling
from sknet.exceptions import InvalidParameterError
from sknet.losses import Loss
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import InverseTime
from sknet.persistence import digest

LOSS = "loss"
FIRST_RATE = 0.02  # from which the default rate of fits of few epochs falls
SCORE = "score"  # the estimator's own: accuracy or R2
TAKEN = ("epoch", LOSS, "lr", "time")  # columns of a history other than scores
HELD_OUT = "validation_"


class Scorer(NamedTuple):
    name: str
    call: Callable[..., Any]
    higher_is_better: bool | None
    takes_weight: bool
    looks_at_inputs: bool

    def score(self, estimator: Any, X: Any, y: Any, weight: Any) -> Any:
        more = {"sample_weight": weight} if weight is not None and self.takes_weight else {}
        return self.call(estimator, X, y, **more)


class Scoring(NamedTuple):
    """Metrics that are computed in every epoch besides the loss."""

    scorers: tuple[Scorer, ...] | None

    @property
    def directions(self) -> dict[str, bool | None]:
        if self.scorers is None:
            return {LOSS: False, SCORE: True}
        return {LOSS: False} | {scorer.name: scorer.higher_is_better for scorer in self.scorers}

    @property
    def decides(self) -> bool:
        """True if it is clear without a `monitor` what decides when to stop."""
        return len(self.directions) <= 2 and None not in self.directions.values()

    def monitored(self, monitor: str | None, default: str, caller: str) -> tuple[str, bool]:
        """Return the name of what decides when to stop, and whether higher is better."""
        name = self._default(default, caller) if monitor is None else self.check_monitor(monitor, caller)
        higher_is_better = self.directions[name]
        if higher_is_better is None:
            raise InvalidParameterError(
                f"it is unknown whether a higher or a lower {name!r} is better, so {caller} cannot stop by "
                f"it. Give scoring=make_scorer(metric, greater_is_better=...) with a metric of "
                f"(y_true, y_pred), set the attribute greater_is_better of the scorer to True or False, or "
                f"let another one decide: monitor={LOSS!r}."
            )
        return name, higher_is_better

    def check_monitor(self, monitor: str, caller: str) -> str:
        """Return the name of what is monitored, without ``"validation_"`` in front, once it is measured."""
        name, directions = monitor.removeprefix(HELD_OUT), self.directions
        if name not in directions:
            raise InvalidParameterError(
                f"The 'monitor' parameter of {caller} must be one of {sorted(directions)}, which are "
                f"measured. Got {shown(monitor)} instead{suggestion(name, directions)}"
            )
        return name

    def _default(self, default: str, caller: str) -> str:
        if self.scorers is None:
            return default
        if len(self.scorers) > 1:
            names = [scorer.name for scorer in self.scorers]
            raise InvalidParameterError(
                f"{caller} has several scorers, {names}: say which of them decides when to stop, "
                f"monitor={names[0]!r} or monitor={LOSS!r}"
            )
        return self.scorers[0].name if self.scorers else LOSS


DEFAULT_SCORING = Scoring(None)


def check_scoring(scoring: Any, caller: str) -> Scoring:
    if scoring is None:
        return DEFAULT_SCORING
    if isinstance(scoring, Mapping):
        given = list(scoring.items())
    elif isinstance(scoring, (list, tuple, set, frozenset)):
        given = [(None, one) for one in scoring]
    else:
        given = [(None, scoring)]
    found = [_scorer(name, one, caller) for name, one in given if not (is_loss(one) and name in (None, LOSS))]
    names = [scorer.name for scorer in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameterError(
                f"two scorers in the 'scoring' parameter of {caller} are called {name!r}: give a dict, "
                "{name: scorer}"
            )
    return Scoring(tuple(found))


def is_loss(one: Any) -> bool:
    return isinstance(one, str) and one == LOSS


def _scorer(name: Any, given: Any, caller: str) -> Scorer:
    call = _named(given, caller) if isinstance(given, str) else given
    module = getattr(call, "__module__", None) or ""
    if not callable(call) or isinstance(call, type):
        raise InvalidParameterError(
            f"The 'scoring' parameter of {caller} must be 'loss', a name or scorer of scikit-learn, "
            f"a callable (estimator, X, y), or a list or dict of them. Got {shown(given)} instead."
        )
    if not is_scikit_learns(call) and module.startswith("sklearn.metrics."):
        raise InvalidParameterError(
            f"{call.__name__} in the 'scoring' parameter of {caller} is a metric of (y_true, y_pred), not a "
            f"scorer of (estimator, X, y): give make_scorer({call.__name__}, greater_is_better=...), or the "
            "name of a scorer"
        )
    name = _name_of(given) if name is None else name
    if not isinstance(name, str) or not name or name in TAKEN or name.startswith(HELD_OUT):
        raise InvalidParameterError(
            f"a scorer in the 'scoring' parameter of {caller} cannot be called {shown(name)}: expected a "
            f"str that is none of {list(TAKEN)} and does not begin with {HELD_OUT!r}"
        )
    if is_scikit_learns(call):
        return Scorer(name, call, True, bool(call._accept_sample_weight()), looks_at_inputs=False)
    return Scorer(name, call, direction_of(call), takes_weight(call), True)


SCORERS = {
    **dict.fromkeys(("mse", "mean_squared_error", "squared_error"), "neg_mean_squared_error"),
    **dict.fromkeys(("mae", "mean_absolute_error", "absolute_error"), "neg_mean_absolute_error"),
    **dict.fromkeys(("rmse", "root_mean_squared_error"), "neg_root_mean_squared_error"),
    **dict.fromkeys(("log_loss", "logloss", "cross_entropy", "crossentropy"), "neg_log_loss"),
    **dict.fromkeys(("auc", "roc"), "roc_auc"),
    **dict.fromkeys(("acc", "accuracy_score"), "accuracy"),
}  # fmt: skip


def _advice(name: str, known: list[str]) -> dict[str, str]:
    """Return what scorers are called whose names are those of metrics, or of other libraries."""
    meant = SCORERS.get(name, name.removesuffix("_score"))
    return {name: f"use {meant!r}"} if meant != name and meant in known else {}


def _named(name: str, caller: str) -> Any:
    from sklearn.metrics import get_scorer, get_scorer_names  # it loads half of scikit-learn

    if name not in get_scorer_names():
        known = [LOSS, *get_scorer_names()]
        raise InvalidParameterError(
            f"The 'scoring' parameter of {caller} got {shown(name)}, which is not a scorer"
            f"{suggestion(name, known, _advice(name, known))} sklearn.metrics.get_scorer_names() lists them."
        )
    return get_scorer(name)


def _name_of(scorer: Any) -> str:
    """Return what to call a scorer that is given without a name."""
    if isinstance(scorer, str):
        return scorer
    inner = getattr(scorer, "_score_func", scorer)  # of make_scorer
    inner = getattr(inner, "func", inner)  # of functools.partial
    return getattr(inner, "__name__", type(inner).__name__)


if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder

T = TypeVar("T")
EARLIER = {"scale_inputs": False}  # what estimators of versions without these parameters did


class Recipe(NamedTuple):
    """A network and its training, independent of the names of an estimator's parameters."""

    architecture: Architecture
    loss: Loss
    optimizer: BaseOptimizer
    alpha: Any  # a number, or "auto" until the rows are known
    batch_size: int | str
    settings: Settings
    early_stopping: bool | str
    validation_fraction: float
    random_state: Any
    class_weight: Any = None
    sampler: Any = None
    dtype: str = "auto"
    other_dtype: str = "float32"
    device: str = "auto"
    validation_split: Any = None
    scoring: Any = None
    monitor: str | None = "score"
    refit_on_all: bool = False
    strict: bool = False
    scale_inputs: bool = False
    scale_target: bool = False
    calibrate: str | None = None
    tol: float = 1e-4
    n_iter_no_change: float = 10
    verbose: bool | int | str = False
    report: Callable[[int, Mapping[str, float]], str] | None = None
    callbacks: Sequence[Callback] = ()
    frozen: tuple[str, ...] = ()
    encoder: "TableEncoder | None" = None
    n_members: int | None = None
    monotonic_cst: Any = None
    plan: Mapping[str, float] | None = None
    has_open_rate: bool = False

    @property
    def array_dtype(self) -> str:
        """The dtype of arrays: `dtype`, but "float32" if only products have another precision."""
        return arrays_in(self.dtype)

    @property
    def first_rate(self) -> float:
        """The rate from which the default one falls, or 0."""
        return first_rate(self.optimizer) if self.has_open_rate else 0.0

    def accepted_dtypes(self) -> list[type]:
        """Return the dtypes of X that are kept; all others are converted to the first."""
        first = self.other_dtype if self.dtype == "auto" else self.array_dtype
        return [np.float32, np.float64] if first == "float32" else [np.float64, np.float32]

    def lasting_parameters(self) -> dict[str, Any]:
        """Return the parameters that a continued fit cannot change, by name."""
        own: dict[str, Any] = {"dtype": self.dtype, "device": self.device}
        own |= {"scale_inputs": self.scale_inputs, "scale_target": self.scale_target}
        more = {name: getattr(self, name) for name in ("encoder", "n_members", "monotonic_cst")}
        return {**self.architecture.parameters(), **own, **more}


def first_rate(optimizer: BaseOptimizer) -> float:
    """Return the rate from which that of an optimizer falls as the default does; 0 for all others."""
    lr = vars(optimizer).get("lr")
    if not isinstance(lr, InverseTime) or lr.lr > FIRST_RATE or lr.n_steps != round(1 / lr.lr):
        return 0.0
    return float(lr.lr)


_known: dict[type, tuple[tuple[Any, ...], Recipe]] = {}  # the last parameters of each class, if all are plain


def recipe_of(estimator: Any) -> Recipe:
    """Return the recipe of an estimator's parameters, once they are known to be valid."""
    kind: Any = type(estimator)
    values = parameters_of(estimator)
    before, recipe = _known.get(kind, ((), None))
    if recipe is not None and are_same(before, values):
        return _twin(recipe)
    validate_parameters(estimator)
    found: Recipe = estimator._recipe()
    inside = (*vars(found.loss).values(), *vars(found.optimizer).values())
    is_own = kind.__module__.startswith("sknet.") and found.encoder is None
    if is_own and all(map(is_plain, (*values, *inside))):
        _known[kind] = values, _twin(found)
    return found


def parameters_of(estimator: Any) -> tuple[Any, ...]:
    kind: Any = type(estimator)
    return _reader(kind)(estimator)


def are_same(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(values) == len(others) and all(map(is_, values, others))


def are_plain_and_valid(estimator: Any) -> bool:
    """Tell whether the recipe of these immutable parameters is cached."""
    return are_same(_known.get(type(estimator), ((), None))[0], parameters_of(estimator))


@cache
def _reader(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads all parameters of an estimator of a class."""
    names = kind._get_param_names()
    if len(names) > 1:
        return attrgetter(*names)
    return lambda estimator: tuple([getattr(estimator, name) for name in names])


def _twin(recipe: Recipe) -> Recipe:
    return recipe._replace(loss=_copied(recipe.loss), optimizer=_copied(recipe.optimizer))


def _copied(this: T) -> T:
    other = object.__new__(type(this))
    other.__dict__.update(this.__dict__)
    return other


def is_auto(value: Any) -> bool:
    """Tell whether a parameter is left to the data."""
    return isinstance(value, str) and value == "auto"


MOST_EPOCHS = 200  # where `max_iter` is left to the data


def most_epochs(estimator: Any) -> int:
    """Return the limit of epochs of an estimator, below which a network's plan may be."""
    return MOST_EPOCHS if is_auto(estimator.max_iter) else int(estimator.max_iter)


def settings_of(estimator: Any, **more: Any) -> Settings:
    return Settings(
        max_iter=most_epochs(estimator),
        shuffle=estimator.shuffle,
        **more,
    )


def are_several(estimator: Any) -> bool:
    count = getattr(estimator, "n_members", 1)
    is_number = type(count) is int or is_integer(count)
    return is_number and int(count) > 1  # anything else is an invalid parameter


def layer_sizes(hidden_layer_sizes: Any) -> tuple[int, ...]:
    is_one = not hasattr(hidden_layer_sizes, "__iter__") or getattr(hidden_layer_sizes, "ndim", 1) == 0
    # `Iterable` would ask hundreds of classes
    sizes = [hidden_layer_sizes] if is_one else list(hidden_layer_sizes)
    if not all(map(is_whole, sizes)):
        raise ValueError(
            f"hidden_layer_sizes must be > 0, got {shown(sizes)}: expected positive integers, one a hidden "
            "layer."
        )
    return tuple(map(int, sizes))


class FitArguments(NamedTuple):
    X: Any
    y: Any
    sample_weight: Any = None
    X_val: Any = None
    y_val: Any = None
    sample_weight_val: Any = None
    groups: Any = None
    offset: Any = None
    offset_val: Any = None

    @property
    def rows(self) -> Rows:
        return Rows(self.X, self.y, self.sample_weight)

    @property
    def validation_rows(self) -> Rows:
        return Rows(self.X_val, self.y_val, self.sample_weight_val)


class DataSet(NamedTuple):
    """Rows, as a user gave them and as a loss reads them."""

    X: Any
    labels: Any
    sample_weight: Any
    y: Any = None
    weight: Any = None
    rows: Any = None
    dtypes: Any = None
    unscaled: Any = None
    offset: Any = None

    @property
    def n_samples(self) -> int:
        return len(self.y) if self.rows is None else len(self.rows)

    def batches(self, model: Model, size: int) -> Batches:
        loss: Any = model.loss_function
        y = self.y if self.offset is None else loss.joined(self.y, self.offset)
        return Batches(self.X, y, self.weight, size, model.dtype, model.device, self.rows, self.dtypes)

    @property
    def read(self) -> Any:
        """Inputs as they were checked, before they are standardized."""
        return self.X if self.unscaled is None else self.unscaled

    def chosen(self, array: Any, among: Any = None) -> Any:
        """Return the rows of an array that count, or some `among` them; None stays None."""
        rows = self.rows if among is None else among if self.rows is None else self.rows[among]
        if array is None or rows is None:
            return array

        def taken(each: Any) -> Any:
            with nullcontext() if isinstance(each, ComputedRows) else active(device_of(each)):
                return take_rows(each, rows)

        return each_input(taken, array)

    def digests(self) -> list[Any]:
        chosen = [self.chosen(array) for array in (self.X, self.y, self.weight, self.offset)]
        return [None if array is None else each_input(digest, array) for array in chosen]


@dataclass(frozen=True)
class Compared:
    """Since when the epochs of a history can be compared: they have one monitor and one validation."""

    monitor: str
    higher_is_better: bool
    digests: list[Any]
    since: int

    def is_like(self, other: "Compared") -> bool:
        """Tell whether another fit compares by the same number on the same rows."""
        return replace(self, since=other.since) == other

    def best_epoch(self, history: History) -> int | None:
        """Return the epoch of a history, from 1, that was best; None if no number is finite."""
        values = np.array(history.get(self.monitor, [])[self.since :])
        values = np.where(np.isfinite(values), values if self.higher_is_better else -values, -np.inf)
        return self.since + 1 + int(values.argmax()) if np.isfinite(values).any() else None


class Request(NamedTuple):
    """One call of `fit` or `partial_fit`: an estimator, its parameters as a recipe, and the arguments."""

    estimator: Any
    recipe: Recipe
    given: FitArguments
    incremental: bool = False
    continuing: bool = False
    classes: Any = None
    callbacks: Sequence[Callback] = ()
    beside: Sequence[Callback] = ()
    saved: SavedFit | None = None

    @property
    def extras(self) -> "FitExtras":
        """Callbacks and state that a search or an ensemble has attached to the estimator."""
        return fit_extras(self.estimator)

    @property
    def settings(self) -> Settings:
        settings = self.recipe.settings
        return _of_a_part(settings) if self.incremental else settings

    @property
    def _is_untyped(self) -> bool:
        """True if a first fit reads numbers that are in lists."""
        recipe, is_list = self.recipe, isinstance(self.given.X, (list, tuple))
        is_table = recipe.encoder is None and (recipe.architecture.is_foreign or recipe.scale_inputs)
        return is_list and is_table and not self.continuing

    def dtype(self, X: Any) -> Any:
        """Return the dtype of the arrays that a fit on these inputs computes with."""
        if self.recipe.dtype != "auto":
            return self.recipe.array_dtype
        inputs = X.values() if isinstance(X, dict) else [X]
        real = [x.dtype for x in inputs if x.dtype.kind == "f" and not (x.ndim == 2 and self._is_untyped)]
        return _joint_dtype(*real) if real else np.dtype(self.recipe.other_dtype)


class EncodedTable(NamedTuple):
    """The encoding of a table by a first fit: the fitted encoder, and the rows that it was not fitted on."""

    encoder: "TableEncoder"
    split: tuple[Any, Any]
    random_state: Any
    began: RandomSnapshot
    directions: Any = None


class Data(NamedTuple):
    """Rows of a fit, checked, with targets as a loss reads them."""

    request: Request
    rows: DataSet
    loss: Loss
    undrawn_weight: Any = None
    table: EncodedTable | None = None


class Network(NamedTuple):
    """The owner of the network of a fit, new or taken up, what it learns by, and what is measured."""

    data: Data
    model: Model
    rows: DataSet
    loss: Loss
    scoring: Scoring = DEFAULT_SCORING
    monitor: str = LOSS
    began: RandomSnapshot | None = None

    @property
    def request(self) -> Request:
        """The call that it is for."""
        return self.data.request


class Training(NamedTuple):
    """Rows to train and to validate on, as the network reads them, and what ends the training."""

    network: Network
    loss: Loss
    training: DataSet
    held_out: DataSet | None
    batches: Batches
    validation: Validation | None
    history: History
    stopping: EarlyStopping
    compared: Compared | None = None
    start: Any = None

    @property
    def request(self) -> Request:
        return self.network.request

    @property
    def best_epoch(self) -> int | None:
        """With early stopping, the epoch of the history, from 1, with the best weights."""
        return None if self.compared is None else self.compared.best_epoch(self.history)

    @property
    def validation_scores(self) -> list[float] | None:
        """The column of the history that holds the score of the validation rows."""
        if self.validation is None:
            return None
        scores = [name for name in self.network.scoring.directions if name != LOSS]
        monitored = self.network.monitor.removeprefix(HELD_OUT)
        shown = [monitored] if monitored in scores else scores[:1]
        return self.history.get(HELD_OUT + shown[0], []) if shown else None


class Fitted(NamedTuple):
    """A training that has ended, with the model that it leaves."""

    training: Training
    model: Model
    n_iter: int
    stopped_early: bool = False
    refit_history: History | None = None
    temperature: Any = None


@lru_cache(maxsize=8)
def _joint_dtype(*dtypes: Any) -> Any:
    return np.result_type(*dtypes)


@lru_cache(maxsize=8)
def _of_a_part(settings: Settings) -> Settings:
    return settings._replace(max_iter=1, is_part=True)


class SharedInputs:
    """Standardized inputs of fits that have the same X: one array for the same means and deviations."""

    # Members of an ensemble have those that the first of them learns.

    def __init__(self, of_members: bool) -> None:
        self.of_members = of_members
        self._lock = Lock()
        self._learned: list[InputScaling | None] = []
        self._scaled: tuple[Any, Any, InputScaling, Any] | None = None

    def __reduce__(self) -> Any:
        return SharedInputs, (self.of_members,)  # fits in other processes learn the same from the same rows

    def learned(self, learn: "Callable[[], InputScaling | None]") -> "InputScaling | None":
        """Return what a fit learns; of members, the first."""
        if not self.of_members:
            return learn()
        with self._lock:
            if not self._learned:
                self._learned.append(learn())
            return self._learned[0]

    def scaled(self, X: Any, dtype: Any, scaling: InputScaling) -> Any:
        """Return standardized inputs: one array for fits whose checks return the same X."""
        with self._lock:
            kept = self._scaled
            if kept is None or kept[0] is not X or kept[1] != dtype or not kept[2].equals(scaling):
                found = scaling.scaled(X, dtype)
                if isinstance(found, np.ndarray):
                    found.flags.writeable = False  # what is written there would reach other fits
                kept = self._scaled = X, dtype, scaling, found
            return kept[3]


class FitExtras(NamedTuple):
    """Callbacks, a saved fit, counts of rows and shared inputs of the fits of an inner estimator."""

    callbacks: tuple[Callback, ...] = ()
    start: SavedFit | None = None
    counts: Any = None
    inputs: "SharedInputs | None" = None


NO_EXTRAS = FitExtras()


def attach_fit_extras(
    estimator: Any,
    callback: Callback | None = None,
    start: SavedFit | None = None,
    counts: Any = None,
    inputs: "SharedInputs | None" = None,
) -> None:
    """Let fits of this object call a callback, resume a saved fit, count rows, and share inputs."""
    callbacks = () if callback is None else (callback,)
    estimator.__dict__["_fit_extras"] = FitExtras(callbacks, start, counts, inputs)


def fit_extras(estimator: Any) -> FitExtras:
    """Return the callbacks, saved fit and counts that are attached to an estimator."""
    return estimator.__dict__.get("_fit_extras", NO_EXTRAS)
