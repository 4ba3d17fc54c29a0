"""Kernels of a training step by name, count and time, beside those of PyTorch's graph."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

from sknet.device import to_device
from tools.gpu_check import _torch
from tools.gpu_check._found import Found
from tools.gpu_check._machine import Machine
from tools.gpu_check._steps import CONFIGURATIONS, Configuration, fit
from tools.gpu_check._timed import quiet

__all__ = ["kernels"]

DTYPES = ("float32", "tf32", "tf32x3", "bfloat16")
MORE = 4  # epochs by which two profiled fits differ

Profile = list[tuple[str, float]]  # name and seconds of each launch
Launches = dict[str, tuple[float, float]]  # launches of each kernel in a step, and their seconds


def kernels(
    machine: Machine,
    configurations: Mapping[str, Configuration] = CONFIGURATIONS,
    dtypes: tuple[str, ...] = DTYPES,
) -> Found:
    """Profile a step of each configuration in each precision."""
    found = Found()
    for name, each in configurations.items():
        for dtype in dtypes:
            found.attempt(f"{name}, {dtype}, sknet", partial(of_fit, machine, each, dtype))
            found.attempt(f"{name}, {dtype}, PyTorch, one graph", partial(of_graph, each, dtype))
    return found


def of_fit(machine: Machine, each: Configuration, dtype: str) -> Launches:
    """Return the kernels of a step in a whole fit: those of more epochs, divided by their steps."""
    X, y = each.data()
    there = to_device(X, machine.device)
    profiles, steps = [], []

    def train(epochs: int) -> None:
        steps.append(fit(machine, each, there, y, epochs, dtype))

    with quiet():
        train(each.few)  # compiles
        for epochs in (each.few, each.few + MORE):
            profiles.append(_torch.profiled(partial(train, epochs)))
    short, long = profiles
    return _difference(short, long, steps[2] - steps[1])


def of_graph(each: Configuration, dtype: str) -> Launches:
    """Return the kernels of a step of PyTorch's as one CUDA graph."""
    torch, n_steps = _torch.load(), each.n_batches * MORE
    with _torch.products_in(torch, dtype):
        step = _torch.Rival(torch, each.sizes, each.batch, each.n_batches, "cuda", dtype).captured()
        step()
        return _difference([], _torch.profiled(partial(_repeat, step, n_steps)), n_steps)


def _repeat(step: Callable[[], None], count: int) -> None:
    for _ in range(count):
        step()


def _difference(short: Profile, long: Profile, n_steps: int) -> Launches:
    """Return counts and seconds per step of what a longer profile holds beyond a shorter one."""
    counts: dict[str, float] = defaultdict(float)
    seconds: dict[str, float] = defaultdict(float)
    for sign, profile in ((1, long), (-1, short)):
        for name, time in profile:
            counts[name] += sign / n_steps
            seconds[name] += sign * time / n_steps
    names = sorted((name for name in counts if counts[name] > 0), key=lambda name: -seconds[name])
    return {name: (counts[name], seconds[name]) for name in names}
