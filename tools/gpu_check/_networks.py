"""Time of steps of one and of many small networks, of which a launch makes a whole block."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sknet import Model, nn
from sknet.device import backend, to_device
from sknet.engine import fit_many
from sknet.engine._persistent import Persistent
from sknet.optim import Adam
from tools.gpu_check import _torch
from tools.gpu_check._found import Found
from tools.gpu_check._machine import Machine
from tools.gpu_check._steps import CONFIGURATIONS, Configuration
from tools.gpu_check._timed import per_call, quiet

__all__ = ["COUNTS", "networks"]

SMALL = "20-100-2, batch 256"
COUNTS = (1, 132, 1000)


def networks(
    machine: Machine,
    each: Configuration = CONFIGURATIONS[SMALL],
    counts: Sequence[int] = COUNTS,
    few: int = 2,
    many: int = 6,
    rounds: int = 3,
    longest: int = 256,
) -> Found:
    """Time a step of some numbers of networks; a launch that is timed by itself has at most so many steps."""
    found = Found()
    for count in counts:
        for name, in_one in (("one launch", True), ("launches of each step", False)):
            key = f"{count}, {name}"
            epochs = few, many
            found.attempt(key, partial(seconds, machine, each, count, in_one, epochs, rounds, longest))
    found.attempt("PyTorch", partial(of_torch, each))
    return found


def of_torch(each: Configuration) -> dict[str, float]:
    """Return PyTorch's seconds of a step of one network."""
    return _torch.seconds(each.sizes, each.batch, each.n_batches, 1000)


def seconds(
    machine: Machine,
    each: Configuration,
    count: int,
    in_one: bool,
    epochs: tuple[int, int],
    rounds: int,
    longest: int,
) -> dict[str, Any]:
    """Return the seconds of a step of all networks, in whole fits, and in a launch by itself."""
    X, y = each.data()
    there, (few, many) = to_device(X, machine.device), epochs

    def fit(epochs: int) -> float:
        models = [_model(each, machine, seed) for seed in range(count)]
        started = time.perf_counter()
        fit_many(models, there, y, epochs=epochs, batch_size=each.batch)
        machine.synchronize()
        return time.perf_counter() - started

    with quiet(), _noted(machine, in_one) as made:
        fit(few)
        more = [fit(many) - fit(few) for _ in range(rounds)]
        found = {"fit": statistics.median(more) / (each.n_batches * (many - few))}
        if made:
            found |= {"launch": _of_launch(machine, each, count, made[-1], longest), "launches": len(made)}
    return found


def _model(each: Configuration, machine: Machine, seed: int) -> Model:
    n_in, hidden, n_out = each.sizes
    layers = nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, n_out)
    optimizer = Adam(1e-3 * (1 + seed % 7))
    return Model(
        nn.Sequential(*layers),
        "log_loss",
        optimizer,
        alpha=1e-4,
        random_state=seed,
        dtype="float32",
        device=machine.device,
    )


def _of_launch(machine: Machine, each: Configuration, count: int, whole: Persistent, longest: int) -> float:
    """Return the seconds of a step in launches of as many steps as an epoch has."""
    launch = partial(whole, each.n_batches, [0] * count, 0)
    calls = max(1, longest // each.n_batches)
    return per_call(launch, machine.synchronize, calls) / each.n_batches


@contextmanager
def _noted(machine: Machine, in_one: bool) -> Iterator[list[Persistent]]:
    """Note the launches of whole blocks; or let each step have launches of its own."""
    owner, made = type(backend(machine.device.kind)), list[Persistent]()
    call, shared = Persistent.__call__, owner.shared_memory

    def noted(self: Persistent, steps: int, starts: Sequence[int], *firsts: int) -> None:
        made.append(self)
        call(self, steps, starts, *firsts)

    try:
        setattr(Persistent, "__call__", noted)  # noqa: B010
        if not in_one:
            setattr(owner, "shared_memory", lambda self, device: 0)  # noqa: B010
        yield made
    finally:
        setattr(Persistent, "__call__", call)  # noqa: B010
        setattr(owner, "shared_memory", shared)  # noqa: B010
