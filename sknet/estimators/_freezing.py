"""Parts of a network that are not trained, by patterns of the names of their parameters."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from sknet import nn
from sknet._hints import suggestion
from sknet._params import InvalidParameterError

__all__ = ["check_patterns", "freeze"]


def check_patterns(frozen: Any, caller: str) -> tuple[str, ...]:
    """Return the patterns of the parameter `frozen` of an estimator.

    Parameters
    ----------
    frozen : str, sequence of str, or None
        What the user gave.
    caller : str
        The estimator, for a message.

    Returns
    -------
    tuple of str
        Maybe empty.

    Raises
    ------
    InvalidParameterError
        If it is anything else.
    """
    if frozen is None:
        return ()
    patterns = [frozen] if isinstance(frozen, str) else frozen
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(each, str) for each in patterns):
        raise InvalidParameterError(
            f"The 'frozen' parameter of {caller} must be a pattern of names of parameters, such as "
            f"'body.*', or a list of those. Got {frozen!r} instead."
        )
    return tuple(patterns)


def freeze(network: nn.Module, patterns: Sequence[str], before: Iterable[str] = ()) -> tuple[str, ...]:
    """Freeze the parameters whose names match a pattern, and thaw those that did before.

    Parameters
    ----------
    network : Module
        Changed.
    patterns : sequence of str
        Of names of parameters, or of modules all of whose parameters are meant.
    before : iterable of str
        Names that were frozen by patterns; those that nothing matches any more are unfrozen.

    Returns
    -------
    tuple of str
        Names that are frozen by patterns now.

    Raises
    ------
    InvalidParameterError
        If a pattern matches nothing, or nothing is left to train; nothing is changed then.
    """
    before = tuple(before)
    if not patterns and not before:
        return ()  # a lazy layer has no names of parameters yet
    known = dict(network.own_parameters())
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = [name for name in known if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")]
        if not found:
            places = [path for path, _ in network.named_modules() if path]
            raise InvalidParameterError(
                f"frozen={pattern!r} matches no parameter of the network"
                f"{suggestion(pattern, [*places, *known])} Its parameters are {list(known)}."
            )
        chosen.update(dict.fromkeys(found))
    trained = {name for name, p in known.items() if p.requires_grad} | {*before}
    if chosen and not trained.difference(chosen):
        raise InvalidParameterError(f"frozen={list(patterns)} leaves no parameter to train, of {list(known)}")
    for name in before:
        if name in known and name not in chosen:
            known[name].requires_grad = True
    for name in chosen:
        known[name].requires_grad = False
    return tuple(chosen)
