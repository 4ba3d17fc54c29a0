"""A killed and resumed fit is bitwise identical to an uninterrupted one; a different fit raises."""

import itertools
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn, optim
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.exceptions import FitInterruptedWarning, StateError
from sknet.optim import schedules
from sknet.persistence import read, write
from tests.engine.helpers import assert_same, assert_same_state

RNG = np.random.default_rng(0)
N, KEPT = 150, 110
X = RNG.normal(size=(N, 6)).astype(np.float32)
LABELS = ((X[:, :1] + RNG.normal(size=(N, 1))) > 0).astype(np.float32)
REAL = (X[:, :2] ** 2 + RNG.normal(size=(N, 2))).astype(np.float32)
SEQUENCES = RNG.normal(size=(N, 4, 3)).astype(np.float32)
WEIGHT = RNG.uniform(0, 2, N).astype(np.float32)
SOME = np.where(np.arange(N) < 40, 0, WEIGHT).astype(np.float32)  # in order: batches of zero weight
SPARSE = scipy.sparse.csr_array(np.where(X > 0.5, X, 0))


class Dies(Callback):
    """Simulates the end of the process after some step."""

    order = 2  # after everything else has seen the block
    steps_per_block = 3

    def __init__(self, at):
        self.at = at

    def on_block_end(self, fit):
        if fit.step >= self.at:
            raise RuntimeError("died")


def mixed(first):
    """Return a network with layers that draw numbers or keep statistics."""
    layers = [first, nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)]
    return nn.Sequential(*layers)


def frozen():
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    network[0].requires_grad_(False)
    return network


def eager():
    network = mixed(nn.Linear(6, 8))
    network[2].register_forward_hook(lambda *_: None)
    return network


# network, optimizer, and other unusual settings
CASES = {
    "adam": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {}),
    "lazy": (lambda: mixed(nn.LazyLinear(8)), optim.Adam(), {"random_state": None}),
    "native": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"native": True}),
    "eager": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"compile": False}),
    "hooks": (eager, optim.Adam(), {"compile": "auto"}),
    "float64": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"dtype": "float64", "alpha": 0.1}),
    "by step": (lambda: mixed(nn.Linear(6, 8)), optim.SGD(schedules.Cosine(0.1), 0.9, True), {}),
    "by epoch": (lambda: mixed(nn.Linear(6, 8)), optim.SGD(schedules.Step(0.1, 2, 0.5, unit="epoch")), {}),
    "by samples": (lambda: mixed(nn.Linear(6, 8)), optim.SGD(schedules.InverseScaling(0.5)), {}),
    "by plateau": (
        lambda: mixed(nn.Linear(6, 8)),
        optim.SGD(schedules.Adaptive(0.5, factor=3.0)),
        {"patience": 1, "tol": 0.05},
    ),
    "ema": (lambda: mixed(nn.Linear(6, 8)), optim.EMA(optim.Adam(), 0.9), {}),
    "lookahead": (lambda: mixed(nn.Linear(6, 8)), optim.Lookahead(optim.SGD(0.1)), {}),
    "accumulate": (lambda: mixed(nn.Linear(6, 8)), optim.Accumulate(optim.Adam(), 3), {}),
    "groups": (lambda: mixed(nn.Linear(6, 8)), optim.Groups({"*bias": optim.SGD(), "*": optim.Adam()}), {}),
    "muon": (lambda: mixed(nn.Linear(6, 8)), optim.Muon(), {}),
    "frozen": (frozen, optim.Adam(), {}),
    "weights": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"weight": WEIGHT}),
    "batches without weight": (
        lambda: mixed(nn.Linear(6, 8)),
        optim.Adam(),
        {"weight": SOME, "shuffle": False},
    ),
    "in order": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"shuffle": False}),
    "sparse": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"X": SPARSE}),
    "sequences": (
        lambda: nn.Sequential(nn.LazyLinear(4), nn.Flatten(), nn.Linear(16, 1)),
        optim.Adam(),
        {"X": SEQUENCES},
    ),
    "regression": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)),
        optim.Adam(),
        {"y": REAL, "loss": "squared_error"},
    ),
    "gathered scores": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"gathered": True}),
    "never validated": (lambda: mixed(nn.Linear(6, 8)), optim.Adam(), {"validated": False}),
}


def spread(y, predictions):
    """Return a score that needs all rows at once."""
    return float(np.diff(np.sort(predictions[:, 0])).max())


def fit(network, optimizer, options, callbacks=(), saved=None, max_iter=7):
    """Train a new model; return it, its history, and its early stopping."""
    told = {"X": X, "y": LABELS, "weight": None, "loss": "log_loss", "patience": 3, "tol": 1e-4} | options
    known = ("compile", "dtype", "alpha", "random_state")
    params = {"random_state": 0} | {name: value for name, value in options.items() if name in known}
    model = Model(network(), told["loss"], optimizer, **params)
    is_validated = told.get("validated", True)

    def part(rows):
        return [None if told[name] is None else told[name][rows] for name in ("X", "y", "weight")]

    held_out = dict(zip(("X_val", "y_val", "sample_weight_val"), part(slice(KEPT, N)), strict=True))
    score = spread if told.get("gathered") else "accuracy" if told["y"] is LABELS else "r2"
    stopping = EarlyStopping(patience=told["patience"], tol=told["tol"], restore_best=is_validated)
    history = model.fit(
        *part(slice(KEPT if is_validated else N)),
        **held_out if is_validated else {},
        epochs=max_iter,
        batch_size=16,
        shuffle=told.get("shuffle", True),
        scores={"score": score},
        callbacks=[*callbacks, stopping],
        resume_from=saved,
    )
    return model, history, stopping


def assert_same_end(one, other):
    """Compare all results of a fit, except times."""
    (a, history, stopping), (b, its_history, its_stopping) = one, other
    assert_same_state(a.state, b.state)
    assert_same(a.memory.untrained, b.memory.untrained)
    assert a.memory.key == b.memory.key
    assert_same(
        a.random_state.get_state(legacy=False)["state"], b.random_state.get_state(legacy=False)["state"]
    )
    for name in history:
        if name != "time":
            assert repr(history[name]) == repr(its_history[name]), name
    assert history.n_epochs == its_history.n_epochs
    found, its = ((s.best_, s.best_epoch_, s.best_step_) for s in (stopping, its_stopping))
    assert found == its


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, "4 steps"], ids=["epochs", "steps"])
@pytest.mark.parametrize("name", CASES)
def test_resumed_is_as_if_not_interrupted(name, every, tmp_path, monkeypatch, recwarn):
    network, optimizer, options = CASES[name]
    if not options.get("native"):
        monkeypatch.setenv("SKNET_NATIVE", "never")
    seed = np.random.RandomState(1)
    random_state = {"random_state": seed} if "random_state" in options else {}
    whole = fit(network, optimizer, options | random_state)
    steps = whole[0].progress.step
    assert steps > 9
    first = 8 if random_state else 1  # before the first checkpoint it begins anew, with other numbers
    for number, at in enumerate(np.random.RandomState(len(name)).randint(first, steps, 2)):
        folder = tmp_path / str(number)
        seed.seed(1)
        with pytest.raises(RuntimeError, match="died"):
            fit(network, optimizer, options | random_state, [Checkpoint(folder, every=every), Dies(int(at))])
        seed.seed(2)  # whoever resumes has drawn other numbers in between
        again = [Checkpoint(folder, every=every, resume=True)]
        resumed = fit(network, optimizer, options | random_state, again)
        assert_same_end(whole, resumed)


def test_a_fit_that_dies_again_and_again(tmp_path):
    network, optimizer, options = CASES["adam"]
    whole = fit(network, optimizer, options)
    for at in range(2, whole[0].progress.step, 2):
        callbacks = [Checkpoint(tmp_path, every="1 step", resume=True), Dies(at)]
        with pytest.raises(RuntimeError, match="died"):
            fit(network, optimizer, options, callbacks)
    last = [Checkpoint(tmp_path, every="1 step", resume=True)]
    assert_same_end(whole, fit(network, optimizer, options, last))


def test_a_finished_fit_is_returned_as_it_was(tmp_path):
    network, optimizer, options = *CASES["adam"][:2], {"tol": 0.1}
    for max_iter, more in ((3, 3), (30, 40)):  # ended by the limit, and by early stopping
        folder = tmp_path / str(max_iter)
        whole = fit(network, optimizer, options, [Checkpoint(folder)], max_iter=max_iter)
        again = fit(network, optimizer, options, saved=folder, max_iter=more)
        expected = whole[0].state.progress._replace(total_steps=more * 7)
        assert again[0].progress == expected
        again[0].progress = whole[0].progress
        assert_same_end(whole, again)
        assert (whole[1].n_epochs == max_iter) == (max_iter == 3)


def test_a_finished_fit_continues_to_a_larger_limit(tmp_path):
    network, optimizer, options = CASES["adam"]
    fit(network, optimizer, options, [Checkpoint(tmp_path)], max_iter=2)
    longer = fit(network, optimizer, options, saved=tmp_path, max_iter=6)
    assert_same_end(fit(network, optimizer, options, max_iter=6), longer)
    with pytest.raises(
        StateError, match=r"last.safetensors is in epoch 2, but max_iter is 1: it must be as large"
    ):
        fit(network, optimizer, options, saved=tmp_path, max_iter=1)


class Interrupts(Callback):
    """Raises KeyboardInterrupt after some step."""

    steps_per_block = 2

    def __init__(self, at):
        self.at = at

    def on_block_end(self, fit):
        if fit.step >= self.at:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("at", range(1, 20, 3))
def test_an_interrupted_fit_is_saved_where_it_was(tmp_path, at):
    network, optimizer, options = CASES["adam"]
    whole = fit(network, optimizer, options)
    with pytest.warns(FitInterruptedWarning):
        fit(network, optimizer, options, [Checkpoint(tmp_path, every=100), Interrupts(at)])
    assert_same_end(whole, fit(network, optimizer, options, saved=tmp_path))


def test_a_checkpoint_of_another_version_is_refused_by_version(tmp_path):
    network, optimizer, options = CASES["adam"]
    fit(network, optimizer, options, [Checkpoint(tmp_path)], max_iter=1)
    path = tmp_path / "last.safetensors"
    write(path, {**read(path, "checkpoint"), "version": 9}, "checkpoint")
    with pytest.raises(
        StateError, match=r"is a checkpoint of version 9, written by sknet .*; this one reads version 2"
    ):
        fit(network, optimizer, options, saved=tmp_path)


class Pauses(Callback):
    """Stops, and notes that it has."""

    pauses = True

    def on_fit_begin(self, fit):
        self.began, self.stops = fit.step, False

    def _stop_if(self, stops):
        self.stops = self.stops or stops
        return "stop" if stops else None

    def on_epoch_end(self, fit):
        return self._stop_if(fit.epoch % 2 == 0)


class PausesInside(Pauses):
    steps_per_block = 1

    def on_block_end(self, fit):
        return self._stop_if(fit.step == self.began + 3)

    def on_epoch_end(self, fit):
        return None


class Stops(Pauses):
    pauses = False


@pytest.mark.parametrize("pause", [Pauses, PausesInside])
def test_a_pause_is_not_final(tmp_path, pause):
    network, optimizer, options = CASES["adam"]
    whole = fit(network, optimizer, options)
    breaks, pausing = 0, None
    while pausing is None or pausing.stops:
        pausing = pause()
        callbacks = [Checkpoint(tmp_path, every=100, resume=True), pausing]
        part = fit(network, optimizer, options, callbacks)
        breaks += 1
    assert breaks > 2
    assert_same_end(whole, part)


def test_a_stop_is_final(tmp_path):
    network, optimizer, options = CASES["adam"]
    stopped = fit(network, optimizer, options, [Checkpoint(tmp_path / "other"), Stops()])
    again = fit(network, optimizer, options, [Stops()], tmp_path / "other")
    assert_same_end(stopped, again)


def other_values(array):
    changed = array.copy()
    (changed.data if scipy.sparse.issparse(changed) else changed).reshape(-1)[0] += 1
    return changed


# the change, and its description in the error
OTHERS = {
    "a value of X": ({"X": other_values(X)}, "other data: X has other values"),
    "the shape of X": ({"X": X[:, :5]}, r"other data: the shape of X was \(110, 6\) and is \(110, 5\)"),
    "the dtype of X": ({"X": X.astype("f8")}, "the dtype of X was 'float32' and is 'float64'"),
    "sparse X": ({"X": scipy.sparse.csr_array(X)}, "other data: the format of X was None and is 'csr'"),
    "a label": ({"y": 1 - LABELS}, "other data: y has other values; validation y has other values"),
    "a held-out label": (
        {"y": np.where(np.arange(N)[:, None] == N - 1, 1 - LABELS, LABELS)},
        "other data: validation y has other values",
    ),
    "weights": ({"weight": WEIGHT}, r"sample_weight was None and is an array of shape \(110,\)"),
    "the loss": (
        {"y": LABELS, "loss": "squared_error"},
        "other parameters: loss was LogLoss and is SquaredError",
    ),
    "the penalty": ({"alpha": 0.5}, "other parameters: alpha was 0.0 and is 0.5"),
    "the validation": ({"validated": False}, "other data"),
    "the dtype": ({"dtype": "float64"}, "the dtype of y was 'float32' and is 'float64'"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_fit_is_rejected_by_name(name, tmp_path):
    network, optimizer, _ = CASES["lazy"]
    fit(network, optimizer, {}, [Checkpoint(tmp_path)], max_iter=1)
    changed, message = OTHERS[name]
    with pytest.raises(StateError, match=rf"last.safetensors is of a fit with .*{message}"):
        fit(network, optimizer, changed, saved=tmp_path)


OPTIMIZERS = {
    "another rate": (optim.SGD(0.1), "optimizer__lr was 0.01 and is 0.1"),
    "another class": (optim.Adam(), "optimizer was SGD and is Adam"),
    "a schedule": (optim.SGD(schedules.Cosine(0.01)), "optimizer__lr was 0.01 and is Cosine"),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_another_optimizer_is_rejected_by_name(name, tmp_path):
    network, (optimizer, message) = CASES["adam"][0], OPTIMIZERS[name]
    fit(network, optim.SGD(0.01), {}, [Checkpoint(tmp_path)], max_iter=1)
    with pytest.raises(StateError, match=f"with other parameters: {message}"):
        fit(network, optimizer, {}, saved=tmp_path)


def thawed():
    network = frozen()
    return network.requires_grad_(True)


NETWORKS = {
    "wider": (
        lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 1)),
        r"parameter '0.weight' had shape \(6, 8\), but has shape \(6, 9\) here",
    ),
    "deeper": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 1)),
        r"parameter '2.weight' had shape \(8, 1\), but has shape \(8, 8\) here",
    ),
    "with another layer": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1), nn.Linear(1, 1)),
        r"this one has a parameter '3.weight' of shape \(1, 1\), the saved one does not",
    ),
    "without bias": (
        lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 1)),
        r"it has a parameter '0.bias' of shape \(8,\), this one does not",
    ),
    "with statistics": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1), nn.BatchNorm(1, affine=False)),
        r"this one has a buffer '3.running_mean' of shape \(1,\), the saved one does not",
    ),
    "frozen": (frozen, "'0.weight' was a parameter and is a frozen parameter"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_another_network_is_rejected_by_layer(name, tmp_path):
    other, message = NETWORKS[name]
    fit(thawed, optim.SGD(), {}, [Checkpoint(tmp_path)], max_iter=1)
    with pytest.raises(StateError, match=f"last.safetensors is a checkpoint of another network: {message}"):
        fit(other, optim.SGD(), {}, saved=tmp_path)


def test_a_stateful_callback_must_be_present(tmp_path):
    network, optimizer, _ = CASES["adam"]
    mine = EarlyStopping("loss", patience=1)
    fit(network, optimizer, {}, [Checkpoint(tmp_path), mine], max_iter=1)
    with pytest.raises(
        StateError, match="has the state of a callback EarlyStopping, but this fit has no Early"
    ):
        fit(network, optimizer, {}, saved=tmp_path)


def test_where_numbers_may_be_rounded_otherwise_a_warning_says_so(tmp_path, monkeypatch):
    network, optimizer, _ = CASES["adam"]
    fit(network, optimizer, {"compile": False}, [Checkpoint(tmp_path)], max_iter=1)
    monkeypatch.setenv("SKNET_NATIVE", "never")
    said = (
        "last.safetensors was written where rounding .*: steps was 'EagerSteps' and is 'CompiledSteps'. The"
    )
    with pytest.warns(UserWarning, match=said):
        fit(network, optimizer, {}, saved=tmp_path, max_iter=2)


class Freezes(Callback):
    """Freezes a layer after one epoch, and unfreezes it after another."""

    def __init__(self, freezes, thaws):
        self.freezes, self.thaws = freezes, thaws

    def on_epoch_end(self, fit):
        if fit.epoch in (self.freezes, self.thaws):
            fit.model.module[0].requires_grad_(fit.epoch == self.thaws)


@pytest.mark.parametrize(("freezes", "thaws"), [(2, 5), (2, 9), (5, 2)])
@pytest.mark.parametrize("name", ["adam", "by step", "ema"])
@pytest.mark.parametrize("validated", [False, True])
@pytest.mark.parametrize("at", [20, 30, 45])
def test_layers_frozen_and_unfrozen_by_a_callback(freezes, thaws, name, validated, at, tmp_path):
    network, options = (thawed if freezes < thaws else frozen), {"validated": validated, "patience": 9}
    _, optimizer, _ = CASES[name]
    saves = Checkpoint(tmp_path, every="2 steps")
    whole = fit(network, optimizer, options, [Freezes(freezes, thaws)])
    with pytest.raises(RuntimeError, match="died"):
        fit(network, optimizer, options, [Freezes(freezes, thaws), saves, Dies(at)])
    resumed = fit(network, optimizer, options, [Freezes(freezes, thaws)], saved=tmp_path)
    assert_same_end(whole, resumed)
    for model in (whole[0], resumed[0]):
        model.module.requires_grad_(True)
    assert_same_state(whole[0].state, resumed[0].state)


def library(path, version, threads):
    return {"user_api": "blas", "filepath": path, "version": version, "num_threads": threads}


LIBRARIES = [
    {"user_api": "openmp", "filepath": "/lib/libgomp.so", "num_threads": 3},
    library("/site-packages/torch/libmkl.so", "0", 1),
    library("/site-packages/scipy.libs/libopenblas.so", "1", 2),
    library(f"{np.__path__[0]}.libs/libopenblas.so", "2", 4),
]


@pytest.mark.parametrize("order", list(itertools.permutations(LIBRARIES)), ids=lambda _: "")
def test_the_recorded_blas_is_numpys(order, monkeypatch, tmp_path):
    found = SimpleNamespace(info=lambda: list(order))
    monkeypatch.setattr("sknet.engine._fit.libraries", lambda: found)
    fit(thawed, optim.SGD(), {}, [Checkpoint(tmp_path)], max_iter=1)
    environment = read(tmp_path / "last.safetensors", "checkpoint")["environment"]
    assert (environment["BLAS"], environment["BLAS threads"]) == ("2", 4)
