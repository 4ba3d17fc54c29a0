"""Modules whose statistics are held: in training they compute as in prediction, and change nothing."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sknet.nn._changes import note_setting
from sknet.nn._registry import join

if TYPE_CHECKING:
    from sknet.nn._module import Module

__all__ = ["held_buffers", "held_of", "hold_statistics", "is_held", "with_statistics"]


def hold_statistics(module: "Module", mode: bool) -> None:
    """Let a module, without those below it, compute as in prediction even in training, or no longer."""
    if module._held == mode:
        return
    if mode:
        vars(module)["_held"] = True
    else:
        del vars(module)["_held"]
    note_setting()


def is_held(module: "Module") -> bool:
    """Tell whether a module's statistics are held."""
    return module._held


def with_statistics(module: "Module") -> "list[tuple[Module, set[str], list[str]]]":
    """Return the modules that keep statistics, with the paths of their own parameters and buffers."""
    first, found = {id(parameter): path for path, parameter in module.own_parameters()}, []
    for path, each in module.named_modules():
        buffers = [join(path, name) for name in each._buffers if name not in each._transient]
        if buffers:
            found.append((each, {first[id(parameter)] for parameter in each._parameters.values()}, buffers))
    return found


def held_buffers(module: "Module") -> set[str]:
    """Return the paths of the buffers of all modules, this one and those below, whose statistics are held."""
    return {join(path, name) for path, each in module.named_modules() if each._held for name in each._buffers}


def held_of(module: "Module") -> Callable[[], None]:
    """Return a function that lets each module, this one and those below, be held or not as it is now."""
    found = [(each, each._held) for each in module.modules() if each._buffers]

    def restore() -> None:
        for each, held in found:
            hold_statistics(each, held)

    return restore
