"""The state of a fit in memory, so that another fit can go on from it."""

from sknet.callbacks._callback import Callback
from sknet.callbacks._checkpoint import SavedFit
from sknet.callbacks._view import FitView

__all__ = ["KeepState"]

PLACE = "the kept state"  # in the place of a path


class KeepState(Callback):
    """Keep the state that a fit has ended with, for ``fit(..., resume_from=...)``.

    This is a `Checkpoint` in memory: a fit with a larger `max_iter` that is resumed from it ends with the
    same bits as if it had run for that long at once.

    Attributes
    ----------
    saved_ : SavedFit or None
        The state. It can be pickled. None if the fit was interrupted, and for L-BFGS, whose state is inside
        SciPy.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks.extend import KeepState
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier(tol=0.1, random_state=0, callbacks=[KeepState()]).fit(X, y)
    >>> clf.n_iter_, clf.fit(X, y, resume_from=clf.callbacks_[0].saved_).n_iter_  # complete: no more epochs
    (12, 12)
    """

    order = 1
    needs = "state"
    may_warn = False
    saved_: SavedFit | None = None

    def on_fit_begin(self, fit: FitView) -> None:
        self.saved_ = None

    def on_block_end(self, fit: FitView) -> None:
        # A break within an epoch truncates its numbers, so the state before is the one to resume from.
        if fit.stopped_by is not None and fit.stopped_by.pauses:
            self.saved_ = SavedFit(PLACE, fit.state())

    def on_fit_end(self, fit: FitView) -> None:
        if fit.exception is None and self.saved_ is None and fit.model.optimizer.goes_in_steps:
            self.saved_ = SavedFit(PLACE, fit.state())
