"""Meaning of ``scoring=`` and ``monitor=``: scorers by name, their direction, and the one that decides."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sknet._constraints import shown
from sknet._hints import suggestion
from sknet.callbacks._scoring import direction_of, is_scikit_learns
from sknet.engine._scores import takes_weight
from sknet.exceptions import InvalidParameterError

LOSS = "loss"
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
