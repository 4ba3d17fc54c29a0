"""The name of a number that a callback goes by."""

from sknet._hints import suggestion
from sknet.callbacks._view import FitView

__all__ = ["check_monitored"]


def check_monitored(who: str, name: str, fit: FitView) -> None:
    """Check a number that is missing in this epoch: others may have it.

    Parameters
    ----------
    who : str
        Which callback goes by it.
    name : str
        Of the number.
    fit : FitView
        At the end of an epoch.

    Raises
    ------
    ValueError
        If nobody has announced such a number, and no epoch had one.
    """
    if name not in fit.history and name not in fit.directions:
        known = sorted(fit.record)
        raise ValueError(
            f"{who}(monitor={name!r}): this fit has no such number, but {', '.join(known)}"
            f"{suggestion(name, known)}"
        )
