"""Modules whose statistics are held: in training they compute as in prediction, and change nothing."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sknet.nn._changes import note_setting
from sknet.nn._registry import join

if TYPE_CHECKING:
    from sknet.nn._module import Module

__all__ = ["held_buffers", "held_of", "hold_statistics", "is_held", "with_statistics"]


def hold_statistics(module: "Module", mode: bool) -> None:
    """Let a module, without those below it, compute as in prediction even in training, or no longer.

    Parameters
    ----------
    module : Module
        Such as a `BatchNorm`, which then normalizes by its running statistics and does not update them.
    mode : bool
        Whether to hold.

    Examples
    --------
    >>> from sknet import nn
    >>> from sknet.nn.extend import hold_statistics
    >>> norm = nn.BatchNorm(2)
    >>> hold_statistics(norm, True)
    >>> norm.training
    False
    """
    if module._held == mode:
        return
    if mode:
        vars(module)["_held"] = True
    else:
        del vars(module)["_held"]
    note_setting()


def is_held(module: "Module") -> bool:
    """Tell whether a module's statistics are held.

    Parameters
    ----------
    module : Module
        The module.

    Returns
    -------
    bool
        As `hold_statistics` has set it.

    Examples
    --------
    >>> from sknet import nn
    >>> from sknet.nn.extend import is_held
    >>> is_held(nn.BatchNorm(2))
    False
    """
    return module._held


def with_statistics(module: "Module") -> "list[tuple[Module, set[str], list[str]]]":
    """Return the modules that keep statistics, with the paths of their own parameters and buffers.

    Parameters
    ----------
    module : Module
        The network.

    Returns
    -------
    list of (Module, set of str, list of str)
        Those with buffers that a state contains.

    Examples
    --------
    >>> from sknet import nn
    >>> from sknet.nn.extend import with_statistics
    >>> [sorted(own) for _, own, _ in with_statistics(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2)))]
    [['1.bias', '1.weight']]
    """
    first, found = {id(parameter): path for path, parameter in module.own_parameters()}, []
    for path, each in module.named_modules():
        buffers = [join(path, name) for name in each._buffers if name not in each._transient]
        if buffers:
            found.append((each, {first[id(parameter)] for parameter in each._parameters.values()}, buffers))
    return found


def held_buffers(module: "Module") -> set[str]:
    """Return the paths of the buffers of all modules, this one and those below, whose statistics are held.

    Parameters
    ----------
    module : Module
        The network.

    Returns
    -------
    set of str
        As `Module.named_buffers` has them.

    Examples
    --------
    >>> from sknet import nn
    >>> from sknet.nn.extend import held_buffers, hold_statistics
    >>> network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2))
    >>> hold_statistics(network[1], True)
    >>> sorted(held_buffers(network))
    ['1.num_batches', '1.running_mean', '1.running_var']
    """
    return {join(path, name) for path, each in module.named_modules() if each._held for name in each._buffers}


def held_of(module: "Module") -> Callable[[], None]:
    """Return a function that lets each module, this one and those below, be held or not as it is now.

    Parameters
    ----------
    module : Module
        The network.

    Returns
    -------
    callable
        Without arguments.

    Examples
    --------
    >>> from sknet import nn
    >>> from sknet.nn.extend import held_of, hold_statistics
    >>> norm = nn.BatchNorm(2)
    >>> restore = held_of(norm)
    >>> hold_statistics(norm, True)
    >>> restore()
    >>> norm.training
    True
    """
    found = [(each, each._held) for each in module.modules() if each._buffers]

    def restore() -> None:
        for each, held in found:
            hold_statistics(each, held)

    return restore
