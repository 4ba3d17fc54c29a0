"""Members of an ensemble: their kinds, options and settings, the folds, and the jobs of a kind in a fold."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from sknet._constraints import shown
from sknet._fields import Arrays, Together
from sknet._params import Interval, ParameterObject, StrOptions
from sknet.losses import Loss
from sknet.optim import Adam, BaseOptimizer, Optimizer, RateFactors, WeightDecay
from sknet.optim.schedules import FlatThenCosine, Schedule, WarmUp
from sknet.preprocessing._encodings import Target
from sknet.preprocessing._schema import Schema, Table

# Defaults by kind, measured on tables of 10,000 rows; a dict has a value for each task. From `rows` on there
# are fewer epochs; below MEDIUM_ROWS hidden layers have at most `units`, and from FEW_ROWS on `medium` holds.
RECIPES: dict[str, dict[str, Any]] = {
    "smooth": {
        "per_fold": 1,
        "hidden_layer_sizes": (128, 128),
        "units": 128,
        "epochs": 10,
        "rows": 10_000,
        "lr": {"binary": 0.03, "multiclass": 0.03, "regression": 0.1},
        "dropout": 0.2,
        "scale_factor": 6.0,
        "weight_decay": 0.02,
        "label_smoothing": 0.0,
        "keep": "best",
        "log_link": False,
        "batch_size": 256,
        "embeddings": False,
        "piecewise": "tree",
        "n_bins": 16,
    },
    "sharp": {
        "per_fold": {"binary": 1, "multiclass": 1, "regression": 2},
        "hidden_layer_sizes": (256, 256),
        "units": {"binary": 128, "multiclass": 256, "regression": 128},
        "epochs": {"binary": 11, "multiclass": 34, "regression": 20},
        "medium": {
            "binary": {"epochs": 9, "lr": 0.07},
            "multiclass": {"epochs": 26, "lr": 0.07},
            "regression": {},
        },
        "rows": {"binary": 20_000, "multiclass": 108_000, "regression": 20_000},
        "lr": {"binary": 0.04, "multiclass": 0.04, "regression": 0.08},
        "dropout": {"binary": 0.1, "multiclass": 0.1, "regression": 0.0},
        "scale_factor": {"binary": 6.0, "multiclass": 6.0, "regression": 2.0},
        "weight_decay": 0.0,
        "label_smoothing": {"binary": 0.1, "multiclass": 0.1, "regression": 0.0},
        "keep": "last",
        "log_link": {"binary": False, "multiclass": False, "regression": "auto"},
        "batch_size": {"binary": 256, "multiclass": 256, "regression": 128},
        "embeddings": True,
        "piecewise": "both",
        "n_bins": {"binary": 16, "multiclass": 8, "regression": 24},
    },
    "neighbors": {
        "per_fold": 1,
        "hidden_layer_sizes": (),
        "units": 1,
        "epochs": 4,
        "rows": 20_000,
        "lr": 0.1,
        "dropout": 0.0,
        "scale_factor": 1.0,
        "weight_decay": 0.0,
        "label_smoothing": 0.0,
        "keep": "last",
        "log_link": False,
        "batch_size": 256,
        "embeddings": False,
        "piecewise": None,
        "n_bins": 2,
    },
}
KINDS = tuple(RECIPES)
NEIGHBORS = "neighbors"
OF_ALL_FOLDS = {NEIGHBORS}  # kinds with one member, which compares rows with those of all folds
# With fewer rows, numbers have fewer bins: each is a column more that has to be told from chance.
ROWS_PER_COLUMN = 5
# Tables with fewer rows have smaller networks, bins of some rows each, and of several classes two smooth
# members a fold; those of several classes with fewer than SEVERAL_ROWS, or with neighbors, have at most
# UNITS_OF_SEVERAL units (docs/ablation.md).
FEW_ROWS = 1_000
UNITS_OF_FEW = 64
SEVERAL_ROWS, UNITS_OF_SEVERAL = 5_000, 128
ROWS_PER_BIN, LEAST_BINS = 75, 4
MEDIUM_ROWS = 20_000
# Tables with so many rows have larger batches, at a higher rate up to the last.
MANY_ROWS, MOST_ROWS = 50_000, 200_000


def _auto(*others: Any) -> list[Any]:
    return [*others, StrOptions({"auto"})]


class Members(ParameterObject):
    """Networks of one kind in a `TabularClassifier` or `TabularRegressor`.

    Parameters
    ----------
    per_fold : int or "auto", default="auto"
        Number of networks in each fold.
    hidden_layer_sizes : array-like of int or "auto", default="auto"
        Units of each hidden layer.
    epochs : int or "auto", default="auto"
        Passes over the rows, multiplied by the estimator's ``budget``.
    lr : float or "auto", default="auto"
        Learning rate of Adam after the warm-up, with cosine decay in the second half.
    dropout : float or "auto", default="auto"
        Share of hidden units to drop in training.
    scale_factor : float or "auto", default="auto"
        Factor of the learning rate of the columns' factors.
    weight_decay : float or "auto", default="auto"
        Decoupled decay of weights; for the columns' factors, times the square of `scale_factor`.
    label_smoothing : float or "auto", default="auto"
        Label smoothing of classification with log loss.
    keep : {"best", "last", "auto"}, default="auto"
        The weights to keep: of the epoch with the lowest loss of held-out rows, or of the last.
    log_link : bool or "auto", default="auto"
        Whether networks learn the logarithm of the mean, by the Poisson deviance, which is then the loss in
        their history, too. It is for the squared error of one target that is never below 0 and has a mean of
        at most 3 standard deviations, without an offset and with ``extrapolate=False``. "auto" is true for
        sharp ones if, in 1,000 rows of training or more, effects of columns on the mean multiply rather than
        add up, as those on prices and counts do.
    batch_size : int or "auto", default="auto"
        Rows per batch.
    embeddings : bool or "auto", default="auto"
        Whether levels of categories have learned vectors, instead of weights of their own in the first layer;
        those of sparse tables never have.
    piecewise : {"both", "tree", "quantile", "auto"} or None, default="auto"
        As for `TableEncoder`.
    n_bins : int or "auto", default="auto"
        As for `TableEncoder`.

    Examples
    --------
    >>> from sknet.tabular import Members, TabularRegressor
    >>> TabularRegressor(smooth=Members(epochs=20), sharp=None).get_params()["smooth__epochs"]
    20
    """

    _parameter_constraints = {
        "per_fold": _auto(Interval(Integral, 1, None, closed="left")),
        "hidden_layer_sizes": _auto("array-like"),
        "epochs": _auto(Interval(Integral, 1, None, closed="left")),
        "lr": _auto(Interval(Real, 0, None, closed="neither")),
        "dropout": _auto(Interval(Real, 0, 1, closed="left")),
        "scale_factor": _auto(Interval(Real, 0, None, closed="left")),
        "weight_decay": _auto(Interval(Real, 0, None, closed="left")),
        "label_smoothing": _auto(Interval(Real, 0, 1, closed="left")),
        "keep": [StrOptions({"best", "last", "auto"})],
        "log_link": _auto("boolean"),
        "batch_size": _auto(Interval(Integral, 1, None, closed="left")),
        "embeddings": _auto("boolean"),
        "piecewise": [StrOptions({"both", "tree", "quantile", "auto"}), None],
        "n_bins": _auto(Interval(Integral, 2, None, closed="left")),
    }

    def __init__(
        self,
        *,
        per_fold: int | str = "auto",
        hidden_layer_sizes: "Sequence[int] | str" = "auto",
        epochs: int | str = "auto",
        lr: float | str = "auto",
        dropout: float | str = "auto",
        scale_factor: float | str = "auto",
        weight_decay: float | str = "auto",
        label_smoothing: float | str = "auto",
        keep: str = "auto",
        log_link: bool | str = "auto",
        batch_size: int | str = "auto",
        embeddings: bool | str = "auto",
        piecewise: str | None = "auto",
        n_bins: int | str = "auto",
    ) -> None:
        self.per_fold = per_fold
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epochs = epochs
        self.lr = lr
        self.dropout = dropout
        self.scale_factor = scale_factor
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.keep = keep
        self.log_link = log_link
        self.batch_size = batch_size
        self.embeddings = embeddings
        self.piecewise = piecewise
        self.n_bins = n_bins


@dataclass(frozen=True)
class Setting:
    """Settings of the members of one kind: `Members` without "auto", but for the log link at first."""

    per_fold: int
    hidden_layer_sizes: tuple[int, ...]
    epochs: int
    lr: float
    dropout: float
    scale_factor: float
    weight_decay: float
    label_smoothing: float
    keep: str
    log_link: bool | str
    batch_size: int
    embeddings: bool
    piecewise: str | None
    n_bins: int
    _stored_fields: ClassVar[Mapping[str, Any]] = {}

    def times(self, budget: float) -> "Setting":
        """Return the same with the work multiplied by ``budget``."""
        return replace(self, epochs=max(1, round(self.epochs * budget)))

    def schedules(self, n_steps: int) -> tuple[Schedule, ...]:
        """Return the schedules of the rate and, if weights decay, of their decay."""
        rise = max(1, n_steps // 10)
        rate = WarmUp(FlatThenCosine(self.lr, n_steps=max(1, n_steps - rise)), n_steps=rise)
        return (rate, FlatThenCosine(self.weight_decay, n_steps=n_steps)) if self.weight_decay else (rate,)

    def optimizer(self, schedules: tuple[Schedule, ...], scales: bool) -> BaseOptimizer:
        rate, *decay = schedules
        front = {"scale.weight": self.scale_factor} if scales else {}
        found: Optimizer = RateFactors(Adam(rate, beta1=0.9, beta2=0.95), {"*.bias": 0.1, **front})
        if not decay:
            return found
        decays = {"*.weight": 1.0, **{name: factor**2 for name, factor in front.items()}}
        return WeightDecay(found, decay[0], decays)


def setting_of(
    kind: str,
    chosen: Members | str,
    task: str,
    shape: tuple[int, ...],
    per_fold: int | str,
    with_neighbors: bool = False,
) -> Setting:
    n_rows, n_columns = shape
    task = {"multilabel": "binary", "ordinal": "multiclass"}.get(task, task)
    recipe = {name: x[task] if isinstance(x, dict) else x for name, x in RECIPES[kind].items()}
    given = {} if isinstance(chosen, str) else chosen.get_params(deep=False)
    decided = {name: value for name, value in given.items() if not _is_auto(value)}
    medium = recipe.pop("medium", {})
    if FEW_ROWS <= n_rows < MEDIUM_ROWS:
        recipe |= medium
    if MANY_ROWS <= n_rows < MOST_ROWS and "batch_size" not in decided:
        recipe |= {"batch_size": 2 * recipe["batch_size"], "lr": math.sqrt(2) * recipe["lr"]}
    if kind == "smooth" and n_rows < FEW_ROWS and task == "multiclass":
        recipe["per_fold"] = 2
    recipe["batch_size"] = _batch_size(recipe["batch_size"], n_rows)
    recipe["epochs"] = _epochs(recipe["epochs"], n_rows, recipe.pop("rows"))
    units = recipe.pop("units")
    if n_rows < MEDIUM_ROWS:
        units = min(units, UNITS_OF_SEVERAL) if n_rows < SEVERAL_ROWS or with_neighbors else units
        units = units if n_rows >= FEW_ROWS else UNITS_OF_FEW
        recipe["hidden_layer_sizes"] = [min(size, units) for size in recipe["hidden_layer_sizes"]]
    if n_rows < FEW_ROWS:
        recipe["n_bins"] = min(recipe["n_bins"], max(LEAST_BINS, n_rows // ROWS_PER_BIN))
    recipe["n_bins"] = round(recipe["n_bins"] * min(1.0, n_rows / (ROWS_PER_COLUMN * max(n_columns, 1))))
    if recipe["n_bins"] < 2:
        recipe |= {"n_bins": 2, "piecewise": None}
    if not isinstance(per_fold, str) and kind not in OF_ALL_FOLDS:
        recipe["per_fold"] = per_fold
    found = {**recipe, **decided}
    found["hidden_layer_sizes"] = tuple(int(size) for size in found["hidden_layer_sizes"])
    return Setting(**found)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _batch_size(batch_size: int, n_rows: int) -> int:
    """Return the batch size: smaller for small tables, larger for very large ones."""
    if n_rows < 5_000:
        return int(max(16, min(128, 2 ** round(math.log2(max(n_rows, 1) / 16)))))
    return batch_size if n_rows < MOST_ROWS else 4 * batch_size


def _epochs(epochs: int, n_rows: int, most_rows: int) -> int:
    """Return the number of epochs: more for small tables, fewer for those with more than `most_rows`."""
    if n_rows < 5_000:
        most = 2.5 if n_rows < FEW_ROWS else 5.0
        return round(epochs * min(most, math.sqrt(5_000 / max(n_rows, 1))))
    return max(1, round(epochs * min(1.0, float((most_rows / n_rows) ** 0.2))))


Fold = tuple[np.ndarray, np.ndarray]
# Folds hold out a tenth of the rows each, or more if there are few rows or groups; of several thousand rows a
# twentieth is enough. From MANY_ROWS on, a fold may decide on a kind.
PARTS, PARTS_OF_SEVERAL = 10, 20


def number_of_folds(chosen: int | str, task: str, n_rows: int, with_neighbors: bool = False) -> int:
    """Return the number of folds: fewer where a fourth hardly lowers the loss (docs/ablation.md)."""
    if not isinstance(chosen, str):
        return chosen
    return 4 if n_rows < FEW_ROWS or (task in ("multiclass", "ordinal") and not with_neighbors) else 3


def folds_of(
    cv: Any, n_folds: int, y: np.ndarray, stratify: np.ndarray | None, groups: Any, random_state: Any
) -> list[Fold]:
    """Return training and held-out rows of each fold."""
    n_rows = len(y)
    if cv is not None:
        return _given(cv, y, groups)
    units = np.arange(n_rows) if groups is None else numbered(groups, n_rows)
    n_units = int(units.max(initial=-1)) + 1
    if n_units < 2:
        what = "rows" if groups is None else "groups"
        raise ValueError(
            f"folds need at least 2 {what}, got {n_units} (n_samples={n_rows}): held-out rows cannot be "
            "trained on"
        )
    order = random_state.permutation(n_units)
    if stratify is not None and groups is None:
        order = order[np.argsort(stratify[order], kind="stable")]
    parts = PARTS_OF_SEVERAL if SEVERAL_ROWS <= n_units < MANY_ROWS else PARTS
    n_parts = min(max(parts, n_folds), n_units)
    part = np.empty(n_units, dtype=np.int64)
    part[order] = np.arange(n_units) % n_parts
    own = part[units]
    return [(np.flatnonzero(own != i), np.flatnonzero(own == i)) for i in range(min(n_folds, n_parts))]


def numbered(groups: Any, n_rows: int) -> np.ndarray:
    """Return the number of the group of each row."""
    found: np.ndarray = np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(found) != n_rows:
        raise ValueError(f"groups must have one entry per row, {n_rows} in all, got {len(found)}")
    return found


def _given(cv: Any, y: np.ndarray, groups: Any) -> list[Fold]:
    if hasattr(cv, "split") and not isinstance(cv, (str, bytes)):
        pairs: Iterable[Any] = cv.split(np.zeros((len(y), 1)), y, groups)
    elif isinstance(cv, Iterable) and getattr(cv, "shape", None) != ():
        pairs = cv
    else:
        raise ValueError(
            f"cv must be a splitter or yield pairs of (training, held-out) rows, got {shown(cv)}: n_folds "
            "is their number"
        )
    found = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"cv must be a splitter or yield pairs of (training, held-out) rows, got {shown(pair)} in "
                "one of them"
            )
        rows = [np.asarray(part) for part in pair]
        rows = [np.flatnonzero(part) if part.dtype == bool else part for part in rows]
        for part in rows:
            if part.ndim != 1 or not len(part) or part.dtype.kind not in "iu" or not are_in(part, len(y)):
                raise ValueError(
                    f"cv must yield pairs of row indices, from 0 to {len(y) - 1}, got "
                    f"{shown(part)} in one of them"
                )
        if len(np.intersect1d(rows[0], rows[1])):
            raise ValueError(
                "cv yields a fold with the same rows on both sides: training rows cannot validate"
            )
        found.append((rows[0].astype(np.intp), rows[1].astype(np.intp)))
    if not found:
        raise ValueError(f"cv={shown(cv)} yields no folds")
    return found


def are_in(rows: np.ndarray, n_rows: int) -> bool:
    """Tell whether all indices are those of rows."""
    return not len(rows) or bool(rows.min() >= 0 and rows.max() < n_rows)


class OfKind:
    """A job or a member of a kind, in one fold or in all of them."""

    kind: str
    fold: int

    @property
    def _is_of_all_folds(self) -> bool:
        return self.kind in OF_ALL_FOLDS

    @property
    def _place(self) -> str:
        return "all folds" if self._is_of_all_folds else f"fold {self.fold}"


@dataclass(frozen=True)
class Job(OfKind):
    kind: str
    fold: int
    rows: Fold
    seeds: tuple[int, ...]
    _stored_fields = {
        "kind": StrOptions({*KINDS}),
        "rows": Together(Arrays("iu", "n_rows"), Arrays("iu", "n_rows")),
    }


@dataclass
class Task:
    """The data and settings that all members of a fit share."""

    # The mean is that of one target in standard deviations, if squared errors are minimized.

    schema: Schema
    table: Table
    target: Target
    y: np.ndarray
    weight: np.ndarray | None
    loss: Loss
    n_outputs: int
    settings: dict[str, Setting]
    directions: np.ndarray | None = None
    offset: np.ndarray | None = None
    mean: float | None = None
    adds_residuals: bool = False
    groups: np.ndarray | None = None
    _stored_fields = {
        "y": np.ndarray,
        "offset": [np.ndarray, None],
        "weight": [np.ndarray, None],
        "groups": [np.ndarray, None],
    }
