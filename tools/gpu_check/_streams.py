"""Streams, several devices, too little memory, and what a step asks of the host."""

from functools import partial
from typing import Any

import numpy as np

from sknet.device import to_device, to_host
from sknet.exceptions import DeviceMemoryError
from tools.gpu_check._fits import CASES, check
from tools.gpu_check._found import Found, Skipped
from tools.gpu_check._machine import Machine
from tools.gpu_check._timed import epochs_of, quiet

__all__ = ["streams"]

CASE = CASES["classifier, adam"]
LITTLE = 1 << 20  # bytes
MANY_ROWS = 1 << 16
FEW, MANY = 3, 23  # epochs


def streams(machine: Machine) -> Found:
    """Run all checks."""
    found = Found()
    found.attempt("a stream of the user's own", partial(own_stream, machine))
    found.attempt("data made on that stream", partial(data_of_a_stream, machine))
    found.attempt("two devices", partial(two_devices, machine))
    found.attempt("too little memory", partial(out_of_memory, machine))
    found.attempt("events per step", partial(events, machine))
    return found


def own_stream(machine: Machine) -> dict[str, float]:
    """Fit while the user's own stream is the current one."""
    with machine.stream():
        return check(CASE, str(machine.device))


def data_of_a_stream(machine: Machine) -> dict[str, float]:
    """Fit and predict, with arrays that were made on the user's stream, without waiting for it."""
    X = CASE.data()[0]
    here = CASE.fitted("cpu")
    with machine.stream():
        there = CASE.fitted(str(machine.device))
        rows = to_device(X, machine.device)
        for _ in range(50):
            rows = rows * 1.0
        found = to_host(there.predict_proba(rows))
    apart = float(np.abs(found - here.predict_proba(X)).max())
    if not apart <= 1e-6:
        raise AssertionError(f"predictions differ by {apart:.2g}: they were made before the rows were")
    return {"predict_proba": apart}


def two_devices(machine: Machine) -> dict[str, Any]:
    """Fit on the second device while the first is the current one."""
    if machine.n_devices() < 2:
        raise Skipped("there is one device")
    return dict(check(CASE, f"{machine.device.kind}:1"))


def out_of_memory(machine: Machine) -> str:
    """Return the message of a fit for which there is too little memory; a small fit works afterwards."""
    X = np.random.default_rng(0).standard_normal((MANY_ROWS, *CASE.shape))
    y = np.arange(MANY_ROWS) % 3
    estimator = CASE.kind(
        hidden_layer_sizes=(256,), batch_size=MANY_ROWS // 2, max_iter=1, device=str(machine.device)
    )
    with machine.limited(LITTLE):
        try:
            estimator.fit(X, y)
        except DeviceMemoryError as error:
            said = str(error)
        else:
            raise AssertionError(f"a fit of {MANY_ROWS} rows and 256 units did with {LITTLE} bytes")
    check(CASE, str(machine.device))
    return said


def events(machine: Machine) -> dict[str, float]:
    """Return allocations and reads per step, the difference of a long and a short fit."""
    return _events(machine) | {f"{name}, held-out rows": n for name, n in _events(machine, True).items()}


def _events(machine: Machine, early_stopping: bool = False) -> dict[str, float]:
    counts, steps = [], []
    X, y, _ = CASE.data()
    for epochs in (FEW, MANY):
        estimator = epochs_of(CASE.kind, (16, 8), 64, epochs, machine.device)
        estimator.set_params(early_stopping=early_stopping)
        with quiet(), machine.counted() as counted:
            estimator.fit(X, y)
        counts.append(counted)
        steps.append(estimator.model_.progress.step)
    more = steps[1] - steps[0]
    return {
        name: (getattr(counts[1], name) - getattr(counts[0], name)) / more
        for name in ("allocations", "reads")
    }
