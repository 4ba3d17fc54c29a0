"""Dates as local times of the time zone that their column had in the fit.

These functions are written into Python files too.
"""

import datetime
import re
import zoneinfo
from typing import Any

import numpy as np

from sknet.preprocessing._values import is_missing

__all__ = ["DATE_UNIT", "array_of", "local_dates", "name_of_zone", "time_zone", "zone_of_values"]

DATE_UNIT = "datetime64[us]"


def time_zone(name: str) -> Any:
    """Return a time zone by its name, which is one of the IANA database, or such as "UTC+09:00"."""
    if name == "UTC":
        return datetime.UTC
    if name.startswith(("UTC+", "UTC-")):
        return datetime.datetime.strptime(name[3:], "%z").tzinfo
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError(
            f"the time zone {name!r} is not known here: install tzdata, or convert the column to it before"
        ) from None


def name_of_zone(zone: Any, label: str) -> str:
    """Return the name of a time zone, as `time_zone` takes it."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # of zoneinfo, and of pytz
    if name is not None:
        return str(name)
    distance = zone.utcoffset(None)
    if distance is None:
        raise ValueError(
            f"{label}: the time zone {zone!r} has no name by which it could be known later: use one of "
            "zoneinfo, as by .dt.tz_convert('Europe/Berlin')"
        )
    return str(datetime.timezone(distance))


def with_zone(value: Any) -> Any:
    """Return a text in ISO 8601 that tells its distance from UTC as a datetime, other values as they are."""
    if isinstance(value, str) and re.search(r":\d\d(\.\d+)? ?([zZ]|[+-]\d\d:?\d\d)$", value.strip()):
        return datetime.datetime.fromisoformat(value.strip().replace(" +", "+").replace(" -", "-"))
    return value


def local_time(value: Any, zone: Any, label: str, row: int) -> Any:
    """Return a date that is not missing as a timestamp of NumPy, local time of a zone, or of none."""
    if isinstance(value, (str, datetime.date, np.datetime64)):
        try:
            moment = with_zone(value)
            own = getattr(moment, "tzinfo", None)
            found = np.datetime64(moment if own is None else moment.replace(tzinfo=None), "us")
        except (ValueError, OverflowError):  # which of a text that cannot be encoded is one of the first
            found = None
        if found is not None:
            if own is None and zone is None:
                return found
            if own is None:
                raise ValueError(
                    f"{label}: the dates of the fit have the time zone {zone!r}, got {value!r} without one "
                    f"in row {row}. Say which it has, as by .dt.tz_localize({zone!r})"
                )
            name = name_of_zone(own, label)
            if zone is None:
                raise ValueError(
                    f"{label}: the dates of the fit have no time zone, got {value!r} of {name!r} in row "
                    f"{row}. Convert to local time without one, as by .dt.tz_localize(None)"
                )
            if name == zone:
                return found
            return np.datetime64(moment.astimezone(time_zone(zone)).replace(tzinfo=None), "us")
    raise TypeError(
        f"{label}: expected dates, as in the fit, got {value!r} in row {row}. Convert the column, as by "
        "pandas.to_datetime."
    )


def local_dates(values: Any, zone: Any, label: str) -> Any:
    """Return a column as timestamps, NaT where missing: local times of a zone, by name, or of none."""
    if values.dtype.kind == "f" and np.isnan(values).all():  # nothing but missing values
        return np.full(len(values), "NaT", DATE_UNIT)
    if values.dtype.kind == "M":
        dates = values.astype(DATE_UNIT)
        known = np.flatnonzero(~np.isnat(dates))
        if zone is not None and len(known):
            local_time(dates[known[0]], zone, label, int(known[0]))  # raises the error
        return dates
    found = np.full(len(values), "NaT", DATE_UNIT)
    for row, value in enumerate(values.tolist()):
        if not is_missing(value):
            found[row] = local_time(value, zone, label, row)
    return found


def array_of(values: Any) -> Any:
    """Return a column as an array, of objects where a series of polars has a time zone."""
    if getattr(getattr(values, "dtype", None), "time_zone", None) is None:
        return np.asarray(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values.to_list()
    return found


# -- what a fit learns --------------------------------------------------------------------------


def zone_of_values(values: Any, label: str) -> str | None:
    """Return the name of the time zone of all dates among objects, None if they have none."""
    zones: dict[str | None, Any] = {}
    for value in values:
        if not is_missing(value):
            own = getattr(value, "tzinfo", None)
            zones.setdefault(None if own is None else name_of_zone(own, label), value)
    if len(zones) > 1:
        (first, one), (second, other) = list(zones.items())[:2]
        raise ValueError(
            f"{label}: all dates must have one time zone, or none, got {one!r} of {first!r} and {other!r} of "
            f"{second!r}. Convert them to one, as by pandas.to_datetime(..., utc=True).dt.tz_convert"
        )
    return next(iter(zones), None)
