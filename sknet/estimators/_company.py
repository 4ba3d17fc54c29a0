"""What is done in the fits of an estimator on behalf of another that it is a part of."""

from typing import TYPE_CHECKING, Any, NamedTuple

from sknet.callbacks import Callback

if TYPE_CHECKING:
    from sknet.callbacks.extend import SavedFit
    from sknet.estimators._base import BaseNet

__all__ = ["accompany", "companions_of", "counts_of", "start_of"]

ATTRIBUTE = "_company"


class Company(NamedTuple):
    """What an estimator's fits are accompanied by.

    Attributes
    ----------
    callbacks : tuple of Callback
        Called in each fit.
    start : SavedFit or None
        The fit to resume.
    counts : ndarray of shape (n_samples,) or None
        How often each row is drawn, where it is trained on.
    """

    callbacks: tuple[Callback, ...] = ()
    start: "SavedFit | None" = None
    counts: Any = None


NOBODY = Company()


def accompany(
    estimator: "BaseNet", callback: Callback, start: "SavedFit | None" = None, counts: Any = None
) -> None:
    """Let a callback be called in the fits of this object, and resume a saved fit.

    Both are neither parameters nor results: clones have none, and `callbacks_` does not name the callback.
    They reach an estimator inside of a Pipeline whatever metadata it routes. A fit that ends at `max_iter`
    does not warn, since it may go on.

    Parameters
    ----------
    estimator : BaseNet
        The estimator, not a clone of it.
    callback : Callback
        Called by this object itself, not by a clone.
    start : SavedFit or None, default=None
        The fit to resume.
    counts : ndarray of shape (n_samples,), default=None
        How often each row is drawn: they multiply the weights of the rows that are trained on, and leave
        those that are held out as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPRegressor
    >>> from sknet.callbacks.extend import KeepState
    >>> from sknet.estimators.extend import accompany
    >>> net, keep = MLPRegressor(max_iter=2, random_state=0), KeepState()
    >>> accompany(net, keep)
    >>> net.fit(np.eye(3), np.arange(3)).callbacks_, keep.saved_ is None
    ([], False)
    """
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
