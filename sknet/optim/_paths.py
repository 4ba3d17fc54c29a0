"""Selecting parameters by patterns of their paths."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from sknet._constraints import shown
from sknet._hints import suggestion
from sknet._params import InvalidParameterError

__all__ = ["check_patterns", "longest", "matches"]


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tell whether a path, such as ``"0.weight"``, matches one of some patterns, such as ``"*.weight"``."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def longest(path: str, patterns: Iterable[str], parameter: str, owner: str) -> str | None:
    """Return the longest pattern that a path matches; None if it matches none."""
    found = sorted((pattern for pattern in patterns if fnmatchcase(path, pattern)), key=len)
    if len(found) > 1 and len(found[-1]) == len(found[-2]):
        raise InvalidParameterError(
            f"The {parameter!r} parameter of {owner} must have one longest pattern for every parameter. "
            f"Got {found[-2:]}, of the same length, and {path!r} matches both."
        )
    return found[-1] if found else None


def check_patterns(patterns: Sequence[str], known: Iterable[str], parameter: str, owner: str) -> None:
    """Raise an InvalidParameterError for a pattern that matches none of the known paths."""
    known = list(known)
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in known):
            raise InvalidParameterError(
                f"The {parameter!r} parameter of {owner} must match parameters by their paths. "
                f"Got {shown(pattern)}, which matches none of {known}"
                f"{suggestion(pattern, _patterns_of(known))}"
            )


def _patterns_of(paths: Iterable[str]) -> list[str]:
    """Return the paths, and the patterns for whole modules and for all parameters of one name."""
    found: list[str] = []
    for path in paths:
        first, last = path.split(".", 1)[0], path.rsplit(".", 1)[-1]
        found += [path, f"*.{last}", f"{first}.*"]
    return list(dict.fromkeys(found))
