"""Time of a training step without one of the ways in which it is made faster, each by itself."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from sknet.compile._compile import forget_programs
from sknet.compile.cuda import _executor, _heads, _maps
from sknet.engine import _device_runner
from tools.gpu_check._found import Found
from tools.gpu_check._machine import Machine
from tools.gpu_check._steps import CONFIGURATIONS, Configuration, fit_seconds

__all__ = ["LEVERS", "levers", "without"]

NEVER = 1 << 62
# By what is done in its place: names in modules, and their values then.
LEVERS: dict[str, list[tuple[Any, str, Any]]] = {
    "last layer by products": [(_heads, "MOST_OUTPUTS", 0)],
    "loads of one element": [(_maps, "LEAST_WIDE", NEVER), (_heads, "MOST_WIDE_ROWS", 0)],
    "rows that are not padded": [(_device_runner, "LEAST_PADDED", NEVER)],
    "products one after the other": [(_executor, "products_beside", lambda graph, groups: {})],
}


def levers(
    machine: Machine,
    configurations: Mapping[str, Configuration] = CONFIGURATIONS,
    dtypes: tuple[str, ...] = ("float32", "tf32"),
    rounds: int = 3,
) -> Found:
    """Time a step of each configuration with all of them, and without each."""
    found = Found()
    for name, each in configurations.items():
        for dtype in dtypes:
            timed = partial(fit_seconds, machine, each, rounds, dtype)
            found.attempt(f"{name}, {dtype}", timed)
            for lever in LEVERS:
                with without(lever):
                    found.attempt(f"{name}, {dtype}, {lever}", timed)
    return found


@contextmanager
def without(lever: str) -> Iterator[None]:
    """Let programs that are compiled meanwhile do without it."""
    before = [(module, name, getattr(module, name)) for module, name, _ in LEVERS[lever]]
    for module, name, value in LEVERS[lever]:
        setattr(module, name, value)
    forget_programs()
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        forget_programs()
