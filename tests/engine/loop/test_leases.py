"""Worker processes, of which one at a time trains on a device."""

import os
import signal
import stat
import threading
import time
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sknet import MLPClassifier
from sknet.callbacks import Callback
from sknet.device import Device, leased
from sknet.engine import fit_many
from tests.devices import fake
from tests.engine.loop.workers import LABELS, Alone, Holds, Worker, X, fitted, made, mark, wait_for

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
    pytest.mark.skipif(os.name == "nt", reason="looks at files and signals of POSIX"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the leases."""
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def pair(folder):
    workers = [Worker(XDG_RUNTIME_DIR=str(folder)) for _ in range(2)]
    yield workers
    for each in workers:
        each.end()


@pytest.fixture
def held(pair, tmp_path):
    """Two workers, of which the first one is in a fit until ``end`` is there."""
    first, _ = pair
    first.start(fitted, [Holds(tmp_path / "begun", tmp_path / "end")])
    wait_for(tmp_path / "begun")
    yield pair
    if first.process.is_alive():
        mark(tmp_path / "end")
        first.result()


# -- who waits ------------------------------------------------------------------------------------


def test_a_fit_waits_for_that_of_another_worker(pair, tmp_path):
    for worker in pair:
        worker.start(fitted, [Alone(tmp_path, 0.1)])
    losses = [worker.result() for worker in pair]
    assert losses[0] == losses[1] == fitted()
    assert len(list(tmp_path.glob("*.pid"))) == 2


def test_without_leases_they_train_beside_each_other(held):
    assert held[1].call(fitted, (), "fake", "never") == fitted()


@pytest.mark.parametrize("device", ["cpu", "fake:1"])
def test_another_device_is_free(device, held):
    held[1].call(fitted, (), device)


def test_the_process_that_has_started_them_does_not_wait(held):
    assert fitted()


def predicted():
    return made()(fake.cupy.asarray(X)).shape


def test_predictions_do_not_wait(held):
    assert held[1].call(predicted) == (40, 2)


def of_estimators(optimizer):
    net = MLPClassifier((3,), optimizer=optimizer, max_iter=2, device="fake", random_state=0)
    return net.fit(X, LABELS).n_iter_


def batches():
    made().train([(X, LABELS)], epochs=1)


@pytest.mark.parametrize("kind", [partial(of_estimators, "adam"), partial(of_estimators, "lbfgs"), batches])
def test_all_kinds_of_fits_wait(kind, held, tmp_path):
    held[1].start(kind)
    assert held[1].is_busy() or held[1].result()
    mark(tmp_path / "end")
    held[1].result()


@pytest.mark.filterwarnings("ignore:A worker stopped while some jobs")
def test_workers_of_scikit_learns_search(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    net = MLPClassifier((3,), max_iter=1, device="fake", random_state=0, callbacks=[Alone(tmp_path)])
    search = GridSearchCV(net, {"alpha": [0.0, 0.1, 0.2]}, cv=2, n_jobs=2, error_score="raise", refit=False)
    search.fit(X, LABELS)
    assert 1 <= len(list(tmp_path.glob("*.pid"))) <= 2
    assert str(os.getpid()) not in [path.stem for path in tmp_path.glob("*.pid")]


# -- within a process -----------------------------------------------------------------------------


class Fits(Callback):
    """Fits another model during the fit."""

    def __init__(self, device):
        self.device = device

    def on_epoch_end(self, fit):
        fitted(device=self.device)


@pytest.mark.parametrize("device", ["fake", "fake:1"])
def test_a_fit_within_a_fit_does_not_wait(device, pair, tmp_path):
    """Not even for another device: the one that has it might wait for this process."""
    first, second = pair
    first.start(fitted, [Holds(tmp_path / "begun", tmp_path / "end")], "fake:1")
    wait_for(tmp_path / "begun")
    assert second.call(fitted, [Fits(device)]) == fitted()
    mark(tmp_path / "end")
    first.result()


def of_its_own_worker():
    worker = Worker()
    try:
        return worker.call(fitted)
    finally:
        worker.end()


class Starts(Callback):
    """Starts a process during the fit, and waits for its fit."""

    def on_fit_begin(self, fit):
        of_its_own_worker()


def started():
    return fitted([Starts()])


def test_a_worker_of_a_worker_does_not_wait_for_it(folder):
    worker = Worker(XDG_RUNTIME_DIR=str(folder))
    try:
        assert worker.call(started) == fitted()
    finally:
        worker.end()


class Meets(Callback):
    """Goes on when as many fits are at this place."""

    barrier = threading.Barrier(2)

    def on_fit_begin(self, fit):
        self.barrier.wait(10)


def in_two_threads():
    threads = [threading.Thread(target=fitted, args=([Meets()],)) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return not Meets.barrier.broken


def test_threads_of_a_worker_share_its_lease(pair):
    assert pair[0].call(in_two_threads)
    pair[1].call(fitted)


def many():
    return [each["loss"] for each in fit_many([made() for _ in range(3)], X, LABELS, epochs=2)]


def test_a_stack_of_fits_has_one_lease(held, tmp_path):
    held[1].start(many)
    assert held[1].is_busy()
    mark(tmp_path / "end")
    np.testing.assert_allclose(held[1].result(), [fitted()] * 3)


class Forks(Callback):
    """Forks a child that asks for the lease."""

    found = ()

    def on_epoch_end(self, fit):
        child = os.fork()
        if not child:
            with leased(fit.model.device, lambda: os._exit(3)):  # it waits
                os._exit(4)
        self.found += (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),)


def forked():
    callback = Forks()
    fitted([callback])
    return callback.found


def test_a_child_of_a_worker_does_not_have_its_lease(pair):
    assert set(pair[0].call(forked)) == {3}


# -- how it ends ----------------------------------------------------------------------------------


class Fails(Callback):
    """Ends the fit by an error."""

    def on_epoch_end(self, fit):
        raise RuntimeError("as told")


def failed():
    with pytest.raises(RuntimeError, match="as told"):
        fitted([Fails()])


def test_an_error_gives_the_lease_back(pair):
    pair[0].call(failed)
    pair[1].call(fitted)
    pair[0].call(fitted)


def test_a_worker_that_dies_gives_the_lease_back(pair, folder, tmp_path):
    dying = Worker(XDG_RUNTIME_DIR=str(folder))
    dying.start(fitted, [Holds(tmp_path / "begun", tmp_path / "never")])
    wait_for(tmp_path / "begun")
    pair[0].start(fitted)
    assert pair[0].is_busy()
    dying.end()
    pair[0].result()


def interrupted(work, begun):
    def press():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    mark(begun)
    presses = threading.Thread(target=press)
    presses.start()
    try:
        work()
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        presses.join()


@pytest.mark.parametrize("work", [fitted, many])
def test_ctrl_c_ends_the_wait(work, held, tmp_path):
    held[1].start(interrupted, work, tmp_path / "second")
    wait_for(tmp_path / "second")
    assert held[1].result(10) == "interrupted"
    held[1].call(fitted, (), "cpu")


def allocations():
    """Return how many arrays a fit has asked for while it waits, and how many a model alone does."""
    with fake.counted() as alone:
        made().materialize(X)
    with fake.counted() as counts:
        fits = threading.Thread(target=fitted)
        fits.start()
        end = time.monotonic() + 10
        while counts.allocations <= alone.allocations and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)  # in which it would ask for more
        while_it_waits = counts.allocations
        os.close(os.open(os.environ["DONE"], os.O_CREAT))
        fits.join()
    return while_it_waits, alone.allocations, counts.allocations


def test_who_waits_has_no_memory_of_steps(held, tmp_path):
    held[1].call(set_variable, "DONE", str(tmp_path / "end"))
    waiting, alone, all_of_them = held[1].call(allocations)
    assert waiting == alone + 1 < all_of_them  # and the targets


def set_variable(name, value):
    os.environ[name] = value


def unused():
    """Return how often unused memory was given back."""
    with fake.counted() as counts:
        fitted()
    return counts.returns


def test_unused_memory_is_given_back_with_the_lease(pair):
    assert pair[0].call(unused) == 1
    assert unused() == 0


# -- files ----------------------------------------------------------------------------------------


def test_files_are_the_users_own(pair, folder):
    pair[0].call(fitted)
    [own] = folder.iterdir()
    assert own.name == "sknet"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in own.iterdir())
    assert {path.name for path in own.iterdir()} <= {"fake-0.lease", "fake-1.lease"}


def warned(device="fake"):
    """Return the warnings of two fits."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(device=device), fitted(device=device)
    return [str(each.message) for each in caught]


def without_a_lock(path):
    path.mkdir()
    (path / "sknet").mkdir(mode=0o755)


def a_file(path):
    path.mkdir()
    (path / "sknet").touch()


@pytest.mark.parametrize("make", [without_a_lock, a_file])
def test_without_a_folder_there_is_one_warning(make, tmp_path):
    make(tmp_path / "runtime")
    worker = Worker(XDG_RUNTIME_DIR=str(tmp_path / "runtime"))
    try:
        [message] = worker.call(warned)
    finally:
        worker.end()
    assert "no lease of device 'fake:0' can be had" in message
    assert "is not a folder that only this user can read and write" in message
    assert "SKNET_LEASE=never" in message


def test_without_a_folder_of_the_system_it_is_in_the_temporary_one(tmp_path):
    worker = Worker(XDG_RUNTIME_DIR=str(tmp_path / "missing"), TMPDIR=str(tmp_path))
    try:
        assert worker.call(warned) == []
        assert f"sknet-{os.getuid()}" in [path.name for path in tmp_path.iterdir()]
    finally:
        worker.end()


def test_nothing_is_touched_without_a_device_or_by_who_is_no_worker(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    fitted()
    with leased(Device("fake"), lambda: None):
        pass
    worker = Worker(XDG_RUNTIME_DIR=str(tmp_path))
    try:
        worker.call(fitted, (), "cpu")
        assert not list(tmp_path.iterdir())
        worker.call(fitted)
        assert list(tmp_path.iterdir())
    finally:
        worker.end()
