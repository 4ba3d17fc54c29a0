"""What is done in the fits of an estimator on behalf of another that it is a part of."""

from typing import TYPE_CHECKING, Any, NamedTuple

from sknet.callbacks import Callback

if TYPE_CHECKING:
    from sknet.callbacks.extend import SavedFit
    from sknet.estimators._base import BaseNet

__all__ = ["accompany", "companions_of", "counts_of", "start_of"]

ATTRIBUTE = "_company"


class Company(NamedTuple):
    """What an estimator's fits are accompanied by."""

    callbacks: tuple[Callback, ...] = ()
    start: "SavedFit | None" = None
    counts: Any = None


NOBODY = Company()


def accompany(
    estimator: "BaseNet", callback: Callback, start: "SavedFit | None" = None, counts: Any = None
) -> None:
    """Let a callback be called in the fits of this object, and resume a saved fit."""
    estimator.__dict__[ATTRIBUTE] = Company((callback,), start, counts)


def companions_of(estimator: Any) -> tuple[Callback, ...]:
    """Return the callbacks that accompany the fits of an estimator."""
    company: Company = estimator.__dict__.get(ATTRIBUTE, NOBODY)
    return company.callbacks


def start_of(estimator: Any) -> "SavedFit | None":
    """Return the fit that an estimator resumes on behalf of another."""
    company: Company = estimator.__dict__.get(ATTRIBUTE, NOBODY)
    return company.start


def counts_of(estimator: Any) -> Any:
    """Return how often each row is drawn on behalf of another, or None."""
    company: Company = estimator.__dict__.get(ATTRIBUTE, NOBODY)
    return company.counts
