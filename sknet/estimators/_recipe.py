"""An estimator's parameters translated into the engine's terms."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from sknet._constraints import WHOLE, is_plain, shown
from sknet._params import validate_parameters
from sknet.callbacks import Callback
from sknet.device import arrays_in
from sknet.engine.extend import Settings
from sknet.estimators._architecture import Architecture
from sknet.losses import Loss
from sknet.optim import BaseOptimizer

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder

__all__ = ["Recipe", "layer_sizes", "recipe_of", "settings_of"]


T = TypeVar("T")


class Recipe(NamedTuple):
    """A network and its training, independent of the names of an estimator's parameters."""

    architecture: Architecture
    loss: Loss
    optimizer: BaseOptimizer
    alpha: float
    batch_size: int | str
    settings: Settings
    early_stopping: bool
    validation_fraction: float
    random_state: Any
    class_weight: Any = None
    dtype: str = "auto"
    other_dtype: str = "float32"
    device: str = "auto"
    validation_split: Any = None
    scoring: Any = None
    monitor: str | None = "score"
    refit_on_all: bool = False
    strict: bool = False
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

    @property
    def array_dtype(self) -> str:
        """The dtype of arrays: `dtype`, but "float32" if only products have another precision."""
        return arrays_in(self.dtype)

    def accepted_dtypes(self) -> list[type]:
        """Return the dtypes of X that are kept; all others are converted to the first."""
        first = self.other_dtype if self.dtype == "auto" else self.array_dtype
        return [np.float32, np.float64] if first == "float32" else [np.float64, np.float32]

    def lasting_parameters(self) -> dict[str, Any]:
        """Return the parameters that a continued fit cannot change, by name."""
        own = {"dtype": self.dtype, "device": self.device, "scale_target": self.scale_target}
        more = {"encoder": self.encoder, "n_members": self.n_members}
        return {**self.architecture.parameters(), **own, **more}


_known: dict[type, tuple[tuple[Any, ...], Recipe]] = {}  # the last parameters of each class, if all are plain


def recipe_of(estimator: Any) -> Recipe:
    """Return the recipe of an estimator's parameters, once they are known to be valid."""
    kind: Any = type(estimator)
    values = _reader(kind)(estimator)
    before, recipe = _known.get(kind, ((), None))
    if recipe is not None and len(before) == len(values) and all(map(is_, before, values)):
        return _twin(recipe)
    validate_parameters(estimator)
    found: Recipe = estimator._recipe()
    inside = (*vars(found.loss).values(), *vars(found.optimizer).values())
    is_own = kind.__module__.startswith("sknet.") and found.encoder is None
    if is_own and all(map(is_plain, (*values, *inside))):
        _known[kind] = values, _twin(found)
    return found


@cache
def _reader(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads all parameters of an estimator of a class."""
    names = kind._get_param_names()
    if len(names) > 1:
        return attrgetter(*names)
    return lambda estimator: tuple([getattr(estimator, name) for name in names])


def _twin(recipe: Recipe) -> Recipe:
    """Return a recipe with a loss and an optimizer of its own."""
    return recipe._replace(loss=_copied(recipe.loss), optimizer=_copied(recipe.optimizer))


def _copied(this: T) -> T:
    """Return a shallow copy of an object without slots."""
    other = object.__new__(type(this))
    other.__dict__.update(this.__dict__)
    return other


def settings_of(estimator: Any, **more: Any) -> Settings:
    """Return the loop's settings from the parameters that all estimators share."""
    return Settings(
        max_iter=estimator.max_iter,
        shuffle=estimator.shuffle,
        **more,
    )


def layer_sizes(hidden_layer_sizes: Any) -> tuple[int, ...]:
    """Return the sizes as a tuple."""
    is_one = not hasattr(hidden_layer_sizes, "__iter__") or getattr(hidden_layer_sizes, "ndim", 1) == 0
    # `Iterable` would ask hundreds of classes
    sizes = [hidden_layer_sizes] if is_one else list(hidden_layer_sizes)
    if not all(isinstance(size, Integral) and 0 < int(size) < WHOLE for size in sizes):
        raise ValueError(
            f"hidden_layer_sizes must be > 0, got {shown(sizes)}: expected positive integers, one a hidden "
            "layer."
        )
    return tuple(int(size) for size in sizes)
