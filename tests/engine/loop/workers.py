"""Processes that work for the tests' own: what they are told to do is in this module, or in a test's."""

import os
import time
import traceback
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from sknet import Model, config_context, nn
from sknet.callbacks import Callback
from sknet.device import Device
from tests.devices import fake  # noqa: F401 - so that workers know the device

__all__ = ["LABELS", "Alone", "Holds", "Worker", "X", "fitted", "made", "mark", "wait_for"]

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(40, 3)), np.arange(40) % 2
LONG = 30  # seconds, after which something hangs


class Worker:
    """A process that does one thing after the other.

    Parameters
    ----------
    **environment : str
        Variables that are set there.
    """

    def __init__(self, **environment):
        here, there = get_context("spawn").Pipe()
        self._pipe = here
        self.process = get_context("spawn").Process(target=_serve, args=(there, environment))
        self.process.start()
        there.close()

    def start(self, function, *args):
        """Let it call a function of a module of tests."""
        self._pipe.send((function, args))

    def result(self, timeout=LONG):
        """Return what the function has returned; an error there is one here."""
        assert self._pipe.poll(timeout), "the worker hangs"
        is_fine, value = self._pipe.recv()
        assert is_fine, value
        return value

    def is_busy(self, seconds=0.2):
        """Tell whether it has not returned after some time."""
        return not self._pipe.poll(seconds)

    def call(self, function, *args):
        self.start(function, *args)
        return self.result()

    def end(self):
        self.process.kill()
        self.process.join()


def _serve(pipe, environment):
    os.environ |= environment
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, function(*args)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


# -- what they do ---------------------------------------------------------------------------------


def mark(path):
    Path(path).touch()


def wait_for(path):
    end = time.monotonic() + LONG
    while not Path(path).exists():
        assert time.monotonic() < end, f"nobody has made {path}"
        time.sleep(0.005)


class Holds(Callback):
    """Holds a fit until a file is there."""

    def __init__(self, begun, until):
        self.begun, self.until = str(begun), str(until)

    def on_fit_begin(self, fit):
        mark(self.begun)
        wait_for(self.until)


class Alone(Callback):
    """Fails if another fit has one of these at the same time; notes who has had it."""

    def __init__(self, folder, seconds=0.05):
        self.folder, self.seconds = str(folder), seconds

    def on_fit_begin(self, fit):
        os.close(os.open(f"{self.folder}/inside", os.O_CREAT | os.O_EXCL))
        time.sleep(self.seconds)
        mark(f"{self.folder}/{os.getpid()}.pid")

    def on_fit_end(self, fit):
        os.unlink(f"{self.folder}/inside")


def made(device="fake"):
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    kind, _, index = device.partition(":")
    return Model(network, "log_loss", random_state=0, dtype="float64", device=Device(kind, int(index or 0)))


def fitted(callbacks=(), device="fake", lease=None):
    """Fit a model; return its losses."""
    with nullcontext() if lease is None else config_context(lease=lease):
        return made(device).fit(X, LABELS, epochs=2, callbacks=list(callbacks))["loss"]
