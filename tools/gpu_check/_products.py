"""Algorithms that the library of products offers, timed for the products of training steps."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sknet.device import active, backend, to_device
from sknet.device._products import said
from tools.gpu_check._found import Found, Skipped
from tools.gpu_check._machine import Machine
from tools.gpu_check._steps import CONFIGURATIONS, Configuration, fit
from tools.gpu_check._timed import per_call, quiet

__all__ = ["products"]

MOST = 12  # algorithms of a product
GAIN = 0.95  # of the time of the first one, from which another one is worth an entry
DTYPES = ("float32", "tf32", "bfloat16")


def products(
    machine: Machine,
    configurations: Mapping[str, Configuration] = CONFIGURATIONS,
    dtypes: tuple[str, ...] = DTYPES,
    calls: int = 20,
) -> Found:
    """Time each algorithm; the last figure is the table of `sknet/device/_algorithms.json` for the device."""
    owner = backend(machine.device.kind)
    with active(machine.device):
        library = getattr(owner, "_lt_library", lambda: None)()
    if library is None:
        raise Skipped(f"devices of kind {machine.device.kind!r} have no cuBLASLt")
    found, table = Found(), dict[str, int]()
    for each in configurations.values():
        X, y = each.data()
        there = to_device(X, machine.device)
        for dtype in dtypes:
            with quiet():
                fit(machine, each, there, y, 1, dtype)
    for form, parts, aligned in library.forms():
        name = said(form, parts, aligned)
        found.attempt(name, partial(_seconds, machine, owner, form, parts, aligned, calls))
        seconds = found.figures.get(name)
        if isinstance(seconds, list) and seconds and min(seconds) < GAIN * seconds[0]:
            table[name] = seconds.index(min(seconds))
    found.figures["table"] = table
    return found


def _seconds(machine: Machine, owner: Any, form: Any, parts: Any, aligned: Any, calls: int) -> list[float]:
    """Return the seconds of a product by each algorithm."""
    seconds = []
    with active(machine.device):
        trials = owner._lt_products(owner._lt_library())
        for which in range(MOST):
            product = trials.trial(form, parts, aligned, which)
            if product is None:
                break
            seconds.append(per_call(product, machine.synchronize, calls, rounds=3))
    return seconds
