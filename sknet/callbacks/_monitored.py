"""The check of a monitored number's name."""

from sknet._hints import suggestion
from sknet.callbacks._view import FitView

__all__ = ["check_monitored"]


def check_monitored(who: str, name: str, fit: FitView) -> None:
    """Check the name of a number that is missing in this epoch; other epochs may have it."""
    if name not in fit.history and name not in fit.directions:
        known = sorted(fit.record)
        raise ValueError(
            f"{who}(monitor={name!r}): this fit has no such number, but {', '.join(known)}"
            f"{suggestion(name, known)}"
        )
