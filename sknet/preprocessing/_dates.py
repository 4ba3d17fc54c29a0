"""Dates: seconds for trends, sine and cosine for periodic patterns."""

import numpy as np

__all__ = ["PERIODS", "has_period", "phases", "seconds"]

DAY = 86_400
# Periods, and their least length in seconds.
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 28 * DAY, "year": 365 * DAY}


def seconds(dates: np.ndarray) -> np.ndarray:
    """Return timestamps as seconds since 1970, NaN where missing."""
    return np.where(np.isnat(dates), np.nan, dates.astype(np.int64) / 1e6)


def has_period(dates: np.ndarray, period: str) -> bool:
    """Tell whether dates span a quarter of a period, and differ within it, so that it can be informative."""
    known = dates[~np.isnat(dates)]
    if not len(known) or (known.max() - known.min()).astype(np.int64) / 1e6 < PERIODS[period] / 4:
        return False
    phase = _phase(known, period)
    return bool(phase.max() > phase.min())


def phases(dates: np.ndarray, period: str) -> tuple[np.ndarray, np.ndarray]:
    """Return sine and cosine of the phase within a period, NaN where a date is missing."""
    known = ~np.isnat(dates)
    angle = np.full(dates.shape, np.nan)
    angle[known] = 2 * np.pi * _phase(dates[known], period)
    return np.sin(angle), np.cos(angle)


def _phase(dates: np.ndarray, period: str) -> np.ndarray:
    """Return the phase within a period, from 0 to 1."""
    if period in ("day", "week"):
        length = PERIODS[period]
        monday = 3 * DAY if period == "week" else 0  # 1970 began on a Thursday
        found: np.ndarray = np.mod(dates.astype(np.int64) / 1e6 + monday, length) / length
        return found
    unit = "M" if period == "month" else "Y"
    begin = dates.astype(f"datetime64[{unit}]")
    first, following = (day.astype(dates.dtype).astype(np.int64) for day in (begin, begin + 1))
    return (dates.astype(np.int64) - first) / (following - first)
