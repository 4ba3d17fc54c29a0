"""Parts of a network that are not trained, by patterns of the names of their parameters."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from sknet import nn
from sknet._constraints import shown
from sknet._hints import suggestion
from sknet._params import InvalidParameterError
from sknet.nn.extend import hold_statistics, with_statistics

__all__ = ["check_patterns", "freeze"]


def check_patterns(frozen: Any, caller: str) -> tuple[str, ...]:
    """Return the patterns of the parameter `frozen` of an estimator."""
    if frozen is None:
        return ()
    patterns = [frozen] if isinstance(frozen, str) else frozen
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(each, str) for each in patterns):
        raise InvalidParameterError(
            f"The 'frozen' parameter of {caller} must be a pattern of names of parameters, such as "
            f"'body.*', or a list of those. Got {shown(frozen)} instead."
        )
    return tuple(patterns)


def freeze(network: nn.Module, patterns: Sequence[str], before: Iterable[str] = ()) -> tuple[str, ...]:
    """Freeze the parameters whose names match a pattern, and thaw those that did before."""
    before = frozenset(before)
    if not patterns and not before:
        return ()  # a lazy layer has no names of parameters yet
    known, statistics = dict(network.own_parameters()), with_statistics(network)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        names = [*known, *(name for _, _, buffers in statistics for name in buffers)]
        found = [name for name in names if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")]
        if not found:
            places = [path for path, _ in network.named_modules() if path]
            raise InvalidParameterError(
                f"frozen={shown(pattern)} matches no parameter of the network"
                f"{suggestion(pattern, [*places, *known])} Its parameters are {list(known)}."
            )
        chosen.update(dict.fromkeys(found))
    trained = {name for name, p in known.items() if p.requires_grad or name in before}
    if chosen and not trained.difference(chosen):
        raise InvalidParameterError(
            f"frozen={shown(list(patterns))} leaves no parameter to train, of {list(known)}"
        )
    for name, parameter in known.items():
        if name in chosen or name in before:
            parameter.requires_grad = name not in chosen
    for module, own, buffers in statistics:
        is_frozen = (bool(own) and own <= chosen.keys()) or not chosen.keys().isdisjoint(buffers)
        if is_frozen or not before.isdisjoint((*own, *buffers)):
            hold_statistics(module, is_frozen)
    return tuple(chosen)
