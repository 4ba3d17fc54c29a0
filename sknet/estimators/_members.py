"""Ensembles: members that are fitted together, and joined into one model."""

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sknet._params import validate_parameters
from sknet._random import check_random_state
from sknet._validation import Interval
from sknet._warnings import warn_caller
from sknet.callbacks import Callback
from sknet.callbacks._callback import check_callbacks
from sknet.device import device_of, is_array
from sknet.engine import History, Model
from sknet.engine._layer_outputs import detached
from sknet.estimators._architecture import Joined, Members
from sknet.estimators._fit import FitArguments, SharedInputs, are_several, attach_fit_extras, most_epochs
from sknet.estimators._fitting import is_nearly_flat, not_converged
from sknet.estimators._training import CONFORMAL, Trainer, conformity_of
from sknet.losses._wrappers import Averaged

MEMBERS: dict[str, Any] = {
    "n_members": [Interval(Integral, 1, 100_000, closed="both")],
    "bootstrap": ["boolean"],
}
SEEDS = np.iinfo(np.int32).max
# Results that are of one fit, and thus of none of several.
OF_ONE = ("_batch", "_fit_extras", "best_epoch_", "refit_history_", "temperature_", "_is_slim")


def fit_members(estimator: Any, given: FitArguments, callbacks: Any, resume_from: Any) -> None:
    """Fit the members of an ensemble, each as an estimator of its own, and join them."""
    validate_parameters(estimator)
    _refuse(estimator, given, callbacks, resume_from)
    random_state = check_random_state(estimator.random_state)
    seeds = random_state.randint(SEEDS, size=estimator.n_members).tolist()
    counts = _counts(estimator, given, random_state)
    inputs = SharedInputs(of_members=True)
    others = {name: x for name, x in given._asdict().items() if x is not None and name not in ("X", "y")}
    members = [_member(estimator, *each, inputs) for each in zip(seeds, counts, strict=True)]
    from sknet.engine._many import run_together  # one fit does without it

    members = run_together(
        [partial(member.fit, given.X, given.y, callbacks=callbacks, **others) for member in members],
        may_stack=[may_stack(member, given.X) for member in members],
    )
    _join(estimator, members)
    if getattr(estimator, "calibrate", None) == CONFORMAL:
        estimator._targets.conformity = conformity_of(estimator, given.validation_rows, given.offset_val)
    falling = [each for each in members if not is_nearly_flat(each.loss_curve_)]
    if not estimator._is_full_batch() and any(each.n_iter_ == most_epochs(each) for each in falling):
        warn_caller(not_converged(most_epochs(estimator)), ConvergenceWarning)


def may_stack(estimator: Any, X: Any) -> bool:
    """Tell whether an estimator trains one network on a device, step by step: several may be one program."""
    is_open = estimator.device in ("auto", None)
    place = (device_of(X) if is_array(X) else "cpu") if is_open else estimator.device
    return (
        not str(place).startswith("cpu")
        and not are_several(estimator)
        and bool(getattr(estimator, "compile", True))
        and not estimator._is_full_batch()
    )


def _refuse(estimator: Any, given: FitArguments, callbacks: Any, resume_from: Any) -> None:
    """Raise a ValueError for what ensembles cannot do."""
    name = f"{type(estimator).__name__}(n_members={estimator.n_members})"
    called = [*(estimator.callbacks or ()), *check_callbacks(callbacks, f"{type(estimator).__name__}.fit")]
    has_encoder = estimator.encoder is not None
    is_apart = getattr(estimator, "calibrate", None) == CONFORMAL and given.X_val is None
    reasons = {
        "calibrate='conformal' needs rows that no member is trained on, X_val and y_val": is_apart,
        "warm_start=True continues a fit, and each fit of an ensemble begins anew": estimator.warm_start,
        "resume_from= continues a fit, and each fit of an ensemble begins anew": resume_from is not None,
        "encoder= is fitted with one network; put the TableEncoder before it, in a Pipeline": has_encoder,
        **{f"{type(each).__name__} {each.of_one_fit}": each.of_one_fit is not None for each in called},
    }
    for reason, is_given in reasons.items():
        if is_given:
            raise ValueError(f"{name} is an ensemble: {reason}")


def _member(estimator: Any, seed: int, counts: Any, inputs: SharedInputs) -> Any:
    member = clone(estimator).set_params(n_members=1, bootstrap=False, random_state=seed)
    vars(member).pop("_skl_callbacks", None)  # those of scikit-learn see a single fit, without its epochs
    attach_fit_extras(member, Callback(), counts=counts, inputs=inputs)  # so that it does not warn on its own
    return member


def _counts(estimator: Any, given: FitArguments, random_state: Any) -> list[Any]:
    """Return how often each member draws each row; None without `bootstrap`."""
    if not estimator.bootstrap or given.y is None:  # a missing y is what the first fit says
        return [None] * estimator.n_members
    n_rows = Trainer().n_rows(given)
    drawn = [random_state.randint(n_rows, size=n_rows) for _ in range(estimator.n_members)]
    return [np.bincount(rows, minlength=n_rows).astype(np.float64) for rows in drawn]


# -- joining -----------------------------------------------------------------------------------------


def _join(estimator: Any, members: Sequence[Any]) -> None:
    """Set the fitted attributes of an ensemble."""
    first, params = members[0], estimator.get_params(deep=False)
    shared = {name: value for name, value in vars(first).items() if name not in params}
    fitted = {name for name in vars(estimator) if name.endswith("_") and name not in params}
    for name in (*(fitted - shared.keys()), *OF_ONE):  # of the fit before, or of one member
        vars(estimator).pop(name, None)
    vars(estimator).update({name: value for name, value in shared.items() if name not in OF_ONE})
    estimator.model_ = _joined([each.model_ for each in members])
    estimator._architecture = Joined(first._architecture, len(members))
    estimator._lasting = {**first._lasting, "n_members": len(members)}
    estimator._stopping = estimator._compared = None
    estimator.histories_ = [each.history_ for each in members]
    estimator.history_ = history = _mean_history(estimator.histories_)
    estimator.callbacks_ = [callback for each in members for callback in each.callbacks_]
    estimator.n_iter_ = max(each.n_iter_ for each in members)
    estimator.t_ = sum(each.t_ for each in members)
    estimator.loss_curve_ = history.get("loss", [])
    estimator.loss_ = float(np.mean([each.loss_ for each in members]))
    estimator.best_loss_ = _mean_or_none([each.best_loss_ for each in members])
    estimator.stopped_early_ = all(each.stopped_early_ for each in members)
    estimator.best_epoch_ = estimator.refit_history_ = None
    scores = [each.validation_scores_ for each in members]
    estimator.validation_scores_ = None if None in scores else _mean_curve(scores)
    estimator.best_validation_score_ = _mean_or_none([each.best_validation_score_ for each in members])
    if "temperature_" in vars(first):
        estimator.temperature_ = np.array([each.temperature_ for each in members])


def _joined(models: Sequence[Model]) -> Model:
    """Return one model that has the networks of several."""
    first = models[0]
    return Model(
        Members(*[detached(model).train() for model in models]),
        loss=Averaged([model.loss_function for model in models]),
        optimizer=first.optimizer,
        alpha=first.alpha,
        dtype=first.precision,
        device=first.device,
        random_state=first.random_state,
        compile=first.compile,
        copy=False,
    )


def _mean_history(histories: Sequence[History]) -> History:
    """Return the mean of each number, in each epoch over the members that were trained in it."""
    history = History()
    for name in histories[0]:
        history[name] = _mean_curve([each[name] for each in histories])
    return history


def _mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    longest = max(map(len, curves))
    return [float(np.mean([curve[i] for curve in curves if i < len(curve)])) for i in range(longest)]


def _mean_or_none(values: Sequence[Any]) -> float | None:
    return None if None in values else float(np.mean(values))
