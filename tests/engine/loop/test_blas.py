"""How many threads BLAS uses during fits: one where products are small, and afterwards as many as before."""

import multiprocessing
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import Model, _parallel, config_context, nn
from sknet._parallel import _set, blas_threads, free_threads, in_threads, libraries
from sknet.callbacks import Callback, Checkpoint
from sknet.engine._scheduler import grouped

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(300, 8)).astype("f4"), np.arange(300) % 3
BLAS = [library for library in libraries().lib_controllers if library.user_api == "blas"]
pytestmark = pytest.mark.skipif(not BLAS, reason="threadpoolctl knows no BLAS here")


def counts():
    return {library.get_num_threads() for library in BLAS}


@pytest.fixture(autouse=True)
def _two_threads():
    before = [library.get_num_threads() for library in BLAS]
    for library in BLAS:
        _set(library, 2)
    yield
    found = counts()
    for library, count in zip(BLAS, before, strict=True):
        _set(library, count)
    assert found == {2}


class Counts(Callback):
    def on_epoch_end(self, fit):
        self.found_ = counts()


def model_of(*layers, **options):
    return Model(nn.Sequential(*layers), "log_loss", **{"random_state": 0, **options})


def small(**options):
    return model_of(nn.Linear(8, 200), nn.ReLU(), nn.Linear(200, 3), **options)


@pytest.mark.parametrize("compile", ["auto", True])
def test_small_products_have_one_thread(compile):
    callback = Counts()
    small(compile=compile).fit(X, LABELS, epochs=2, callbacks=[callback])
    assert callback.found_ == {1}


def test_a_stack_of_matrices_times_one_is_one_product():
    callback = Counts()
    layers = nn.Unflatten(-1, (8, 1)), nn.Linear(1, 100), nn.Linear(100, 2), nn.Flatten(), nn.Linear(16, 3)
    model_of(*layers).fit(X, LABELS, epochs=1, batch_size=200, callbacks=[callback])
    assert callback.found_ == {1}


@pytest.mark.parametrize(
    ("layers", "batch_size"),
    [
        ((nn.Linear(8, 2000), nn.Linear(2000, 3)), 300),
        ((nn.Linear(8, 5), nn.Linear(5, 3)), 300),  # tiny
        ((nn.Unflatten(-1, (1, 2, 4)), nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(16, 3)), 30),
    ],
)
def test_others_have_all(layers, batch_size):
    callback = Counts()
    model_of(*layers).fit(X, LABELS, epochs=1, batch_size=batch_size, callbacks=[callback])
    assert callback.found_ == {2}


class Free(Callback):
    """Notes how many threads may share work, and how many BLAS has."""

    def __init__(self):
        self.found_ = set()

    def on_epoch_end(self, fit):
        self.found_.add((free_threads(), *counts()))


@pytest.mark.parametrize(("width", "expected"), [(2000, (2, 1)), (5, (2, 2))])
def test_native_steps_share_products_in_threads_of_their_own(width, expected):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    callback = Free()
    with config_context(native="always"):
        layers = nn.Linear(8, width), nn.Linear(width, 3)
        model_of(*layers).fit(X, LABELS, epochs=1, batch_size=300, callbacks=[callback])
    assert callback.found_ == {expected}
    assert counts() == {2}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize(("width", "expected"), [(3, (2, 1)), (4000, (2, 2))])
def test_convolutions_have_threads_of_their_own(width, expected, kernel):
    """Unless most of the work is in other products, whose threads spin afterwards."""
    images = RNG.normal(size=(64, 32 * 14 * 14)).astype("f4")
    convolution = nn.Conv2d(32, 32, kernel, padding=kernel // 2)
    layers = nn.Unflatten(-1, (32, 14, 14)), convolution, nn.Flatten(), nn.Linear(32 * 14 * 14, width)
    callback = Free()
    model_of(*layers, nn.Linear(width, 3)).fit(images, LABELS[:64], epochs=1, callbacks=[callback])
    assert callback.found_ == {expected}
    assert counts() == {2}


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "expected"), [(nn.LSTM, (2, 1)), (nn.GRU, (2, 2))])
def test_recurrent_networks_have_threads_of_their_own_if_native_code_makes_all_steps(layer, expected):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    sequences = RNG.normal(size=(64, 40, 32)).astype("f4")
    callback = Free()
    layers = layer(32, 128, returns="last"), nn.Linear(128, 3)
    model_of(*layers).fit(sequences, LABELS[:64], epochs=1, callbacks=[callback])
    assert callback.found_ == {expected}
    assert counts() == {2}


def test_eager_steps_have_all():
    callback = Counts()
    small(compile=False).fit(X, LABELS, epochs=1, callbacks=[callback])
    assert callback.found_ == {2}


class Fails(Callback):
    def on_epoch_end(self, fit):
        raise RuntimeError("in a callback")


def test_an_error_ends_the_limit():
    with pytest.raises(RuntimeError, match="in a callback"):
        small().fit(X, LABELS, callbacks=[Fails()])
    assert counts() == {2}


def test_what_is_set_before_is_the_most():
    callback = Counts()
    with threadpool_limits(1, "blas"):
        with blas_threads(2):
            assert counts() == {1}
        small().fit(X, LABELS, epochs=1, callbacks=[callback])
        assert callback.found_ == counts() == {1}


@pytest.mark.parametrize("outer_ends_first", [True, False])
@pytest.mark.parametrize("inner", [lambda: blas_threads(1), lambda: grouped(2)])
def test_the_last_of_overlapping_limits_restores(inner, outer_ends_first):
    begun, may_end = threading.Event(), threading.Event()

    def other():
        with inner():
            begun.set()
            may_end.wait(10)

    thread = threading.Thread(target=other)
    with ExitStack() as outer:
        outer.enter_context(blas_threads(1))
        thread.start()
        begun.wait(10)
        if outer_ends_first:
            outer.close()
            assert counts() == {1}
        may_end.set()
        thread.join()
        assert counts() == ({2} if outer_ends_first else {1})


def of_a_fork(_):
    callback = Counts()
    small().fit(X, LABELS, epochs=1, callbacks=[callback])
    return callback.found_, counts()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.parametrize("limit", [1, None])
def test_a_fit_in_a_forked_process_undoes_the_limits_of_its_parent(limit):
    with blas_threads(limit), multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(of_a_fork, (0,)).get(60) == ({1}, {2})


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_keeps_the_limits_of_its_user():
    small().fit(X, LABELS, epochs=1)
    with threadpool_limits(1, "blas"), multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(counts).get(60) == {1}


def test_the_limit_is_the_same_when_a_fit_goes_on(tmp_path):
    """A checkpoint records the number of threads, and resuming warns of another one."""
    whole, half = small(), small()
    whole.fit(X, LABELS, epochs=4)
    path = tmp_path / "fit.ckpt"
    half.fit(X, LABELS, epochs=2, callbacks=[Checkpoint(path)])
    again = small()
    again.fit(X, LABELS, epochs=4, callbacks=[Checkpoint(path)], resume_from=path)
    assert again.weights().flat.tobytes() == whole.weights().flat.tobytes()


class Library:
    """A library, as threadpoolctl describes it."""

    user_api, internal_api, threading_layer = "blas", "openblas", "pthreads"

    def __init__(self, count=2):
        self.count = count

    def get_num_threads(self):
        return self.count

    def set_num_threads(self, count):
        self.count = count


class OfOpenMP(Library):
    """A library that has a number of threads for each thread that calls it."""

    threading_layer = "openmp"

    def __init__(self):
        self.of_thread = threading.local()

    def get_num_threads(self):
        return getattr(self.of_thread, "count", 2)

    def set_num_threads(self, count):
        self.of_thread.count = count


class Interrupted(Library):
    """A library that Ctrl-C is pressed in when it is called for a certain time."""

    def __init__(self, when):
        super().__init__()
        self.left = when

    def set_num_threads(self, count):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        super().set_num_threads(count)


@pytest.fixture
def only(monkeypatch):
    """Let there be one library."""

    def let(library):
        found = SimpleNamespace(lib_controllers=[library])
        monkeypatch.setattr(_parallel, "libraries", lambda: found)
        _parallel.of_blas.cache_clear()
        return library

    yield let
    _parallel.of_blas.cache_clear()


def test_numbers_of_openmp_are_those_of_a_thread(only):
    library, found = only(OfOpenMP()), []

    def other():
        with blas_threads(1):
            found.append(library.get_num_threads())
        found.append(library.get_num_threads())

    with blas_threads(1):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert library.get_num_threads() == 1
    assert found == [1, 2]
    assert library.get_num_threads() == 2


def test_where_limits_do_not_hold_in_all_threads_convolutions_are_left_to_blas(only):
    """It would have a single thread otherwise, and there would be no others either."""
    library, found = only(OfOpenMP()), []
    in_threads(lambda i, room: found.append((i, room, library.get_num_threads())), 3, ["first", "second"])
    assert found == [(i, "first", 2) for i in range(3)]

    class Counted(Callback):
        def on_epoch_end(self, fit):
            found.append(library.get_num_threads())

    images = RNG.normal(size=(64, 32 * 14 * 14)).astype("f4")
    layers = nn.Unflatten(-1, (32, 14, 14)), nn.Conv2d(32, 32, 5, padding=2), nn.Flatten()
    model_of(*layers, nn.Linear(32 * 14 * 14, 3)).fit(images, LABELS[:64], epochs=1, callbacks=[Counted()])
    assert found[3:] == [2]


@pytest.mark.parametrize("when", [1, 2])
def test_what_ctrl_c_cuts_off_is_done_after_the_next_fit(only, when):
    library = only(Interrupted(when))
    with pytest.raises(KeyboardInterrupt), blas_threads(1):
        pass
    small().fit(X, LABELS, epochs=1)
    assert library.count == 2


def test_a_library_whose_number_is_unknown_is_left_alone(only):
    library = only(Library(None))
    small().fit(X, LABELS, epochs=1)
    assert library.count is None
