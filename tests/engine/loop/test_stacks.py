"""Many fits on a device as one program: each as its own fit, in everything but the last digits."""

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn
from sknet.callbacks import Callback, EarlyStopping
from sknet.device import active, to_device, to_host
from sknet.engine import fit_many
from sknet.losses import Huber
from sknet.optim import EMA, SGD, Adam, AdamW, ClipNorm, Muon
from sknet.optim.schedules import Cosine
from tests.callbacks.helpers import unconverged
from tests.devices import fake
from tests.engine.loop.test_device_steps import LAYERS as NETWORKS

RNG = np.random.default_rng(0)
N = 50  # three batches of 16 rows, and a rest of two
X = RNG.normal(size=(N, 6))
LABELS, REAL = np.arange(N) % 3, X[:, :3] ** 2
WEIGHT = RNG.random(N)
MEMBERS = 4


def network(*layers):
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 3))


def half_frozen():
    found = network(nn.Tanh())
    found[0].requires_grad_(False)
    return found


class Own(nn.Module):
    """A user's module."""

    def __init__(self):
        self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.b(self.a(x).tanh())


def family(make=lambda: network(nn.Tanh()), of=lambda i: {}, **options):
    """Return a function that makes the i-th model, and what fits are given besides the rows."""
    return (lambda i: Model(make(), **{"loss": "log_loss", "random_state": i, **of(i)})), options


FAMILIES = {
    "rates": family(of=lambda i: {"optimizer": Adam(0.01 * (i + 1))}),
    "constants": family(of=lambda i: {"optimizer": Adam(0.01, beta1=0.9 - 0.1 * i, eps=10.0**-i)}),
    "decays": family(of=lambda i: {"optimizer": AdamW(0.01, weight_decay=0.1 * i)}),
    "momentum": family(of=lambda i: {"optimizer": SGD(0.1, momentum=0.5 + 0.1 * i)}),
    "schedules": family(of=lambda i: {"optimizer": SGD(Cosine(0.1 * (i + 1)))}),
    "norms": family(of=lambda i: {"optimizer": ClipNorm(SGD(0.1), 0.1 * (i + 1))}),
    "matrices": family(of=lambda i: {"optimizer": Muon(0.01 * (i + 1))}),
    "averages": family(of=lambda i: {"optimizer": EMA(SGD(0.1 * (i + 1)), decay=0.5 + 0.1 * i)}),
    "penalties": family(of=lambda i: {"alpha": 0.01 * (i + 1)}),
    "losses": family(of=lambda i: {"loss": Huber(0.1 + i)}, y=REAL),
    "squared error": family(of=lambda i: {"loss": "squared_error"}, y=REAL),
    "dropout": family(lambda: network(nn.ReLU(), nn.Dropout(0.3))),
    "mixup": family(lambda: network(nn.ReLU(), nn.Mixup(1.0)), sample_weight=WEIGHT),
    "rates of dropout": (
        lambda i: Model(network(nn.Dropout(0.1 + 0.2 * i)), "log_loss", random_state=i),
        {},
    ),
    "slopes": (lambda i: Model(network(nn.LeakyReLU(0.1 + 0.1 * i)), "log_loss", random_state=i), {}),
    "running means": family(lambda: network(nn.BatchNorm(8))),
    "frozen": family(half_frozen),
    "own modules": family(Own),
    "lazy": family(lambda: nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(3))),
    "weights": family(sample_weight=WEIGHT),
    "in order": family(shuffle=False),
    "a score": family(scores="accuracy"),
    "held out": family(X_val=X[:7], y_val=LABELS[:7], scores="accuracy"),
    "not checked": family(check_finite=False),
    "one batch": family(batch_size=64),
}  # fmt: skip


def given(options):
    rest = {"X": X, "y": LABELS, "epochs": 3, "batch_size": 16, **options}
    return rest.pop("X"), rest.pop("y"), rest


def assert_same(model, history, expected, expected_history, tolerance=1e-9):
    def close(found, wanted):
        np.testing.assert_allclose(to_host(found), to_host(wanted), rtol=tolerance, atol=tolerance)

    close(model.weights().flat, expected.weights().flat)
    for mine, theirs in ((model.memory.slots, expected.memory.slots), (model.buffers, expected.buffers)):
        assert list(mine) == list(theirs)
        for name in mine:
            close(mine[name], theirs[name])
    assert model.progress == expected.progress
    assert str(model.random_state.get_state()) == str(expected.random_state.get_state())
    assert list(history) == list(expected_history)
    for name in history:
        assert len(history[name]) == len(expected_history[name])
        if name != "time":
            np.testing.assert_allclose(history[name], expected_history[name], rtol=tolerance, atol=tolerance)


def assert_as_alone(make, fit, together):
    """Fit models alone, and others together; compare each."""
    alone, joint = ([make(i) for i in range(MEMBERS)] for _ in range(2))
    expected = [fit(model, i) for i, model in enumerate(alone)]
    found = together(joint)
    for pairs in zip(joint, found, alone, expected, strict=True):
        assert_same(*pairs)
    return found


def on(device, make, dtype="float64"):
    """Return what makes models on a device."""

    def moved(i):
        model = make(i)
        settings = {"loss": model.loss_function, "optimizer": model.optimizer, "alpha": model.alpha}
        return Model(model.module.copy(), **settings, random_state=i, dtype=dtype, device=device)

    return moved


@pytest.mark.parametrize("name", FAMILIES)
def test_each_is_its_own_fit(name, sizes, fake_device):
    make, options = FAMILIES[name]
    A, y, options = given(options)
    assert_as_alone(
        on(fake_device, make),
        lambda model, i: model.fit(A, y, **options),
        lambda models: fit_many(models, A, y, **options),
    )
    assert sizes == [MEMBERS]


@pytest.mark.parametrize("name", ["alpha dropout", "images", "attention"])
def test_networks_of_other_layers(name, sizes, fake_device, monkeypatch):
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 26)

    def make(i):
        settings = {"optimizer": SGD(0.01 * (i + 1), momentum=0.9), "dtype": "float64", "device": fake_device}
        return Model(NETWORKS[name](), "log_loss", random_state=i, **settings)

    assert_as_alone(
        make,
        lambda model, i: model.fit(X, LABELS, epochs=2, batch_size=16),
        lambda models: fit_many(models, X, LABELS, epochs=2, batch_size=16),
    )
    assert sizes == [MEMBERS]


@pytest.mark.parametrize("name", ["rates", "running means", "a score", "held out", "weights", "dropout"])
def test_a_stack_on_a_second_device(name, sizes, fake_device):
    make, options = FAMILIES[name]
    A, y, options = given(options)
    assert_as_alone(
        on("fake:1", make),
        lambda model, i: model.fit(A, y, **options),
        lambda models: fit_many(models, A, y, **options),
    )
    assert sizes == [MEMBERS]


def fitted_alone_and_together(device, of, dtype="float64", rows=None, count=MEMBERS, weight=None, **options):
    """Fit a family of small networks alone, and together; return models and histories of both."""
    make = on(device, family(**of)[0], dtype)
    alone, joint = ([make(i) for i in range(count)] for _ in range(2))
    options = {"epochs": 3, "batch_size": 16} | options
    parts = [np.arange(N)] * count if rows is None else rows
    expected = [
        model.fit(X[part], LABELS[part], None if weight is None else weight[part], **options)
        for model, part in zip(alone, parts, strict=True)
    ]
    found = fit_many(joint, X, LABELS, weight, rows=rows, **options)
    return joint, found, alone, expected


def assert_all_same(*found, tolerance=1e-9):
    for each in zip(*found, strict=True):
        assert_same(*each, tolerance=tolerance)


RATES = {"of": lambda i: {"optimizer": Adam(0.01 * (i + 1))}}


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_folds_and_samples_of_equal_size(weight, sizes, fake_device):
    folds = [np.delete(np.arange(N), np.arange(i, N, 5)) for i in range(2)]
    parts = [*folds, RNG.integers(-N, N, size=40), folds[0]]
    assert_all_same(*fitted_alone_and_together(fake_device, RATES, rows=parts, weight=weight))
    assert sizes == [MEMBERS]


def test_parts_of_other_sizes_are_stacks_of_their_own(sizes, fake_device):
    parts = [np.arange(n) for n in (40, 50, 40, 50, 33)]
    assert_all_same(*fitted_alone_and_together(fake_device, RATES, rows=parts, count=5))
    assert sizes == [2, 2]


def test_in_single_precision(sizes, fake_device):
    assert_all_same(*fitted_alone_and_together(fake_device, RATES, "float32"), tolerance=1e-4)
    assert sizes == [MEMBERS]


def test_rows_that_are_on_the_device_already(sizes, fake_device):
    with active(fake_device):
        A, y = to_device(X, fake_device), to_device(LABELS, fake_device)
        make = on(fake_device, FAMILIES["rates"][0])
        alone, joint = ([make(i) for i in range(MEMBERS)] for _ in range(2))
        expected = [model.fit(A, y, batch_size=16) for model in alone]
        assert_all_same(joint, fit_many(joint, A, y, batch_size=16), alone, expected)
    assert sizes == [MEMBERS]


def test_batches_without_weight_are_skipped_by_each(fake_device):
    """Some fall out of step with the others, since each has its own order of rows."""
    weight = np.zeros(N)
    weight[::6] = 1
    assert_all_same(*fitted_alone_and_together(fake_device, RATES, weight=weight, batch_size=4, epochs=4))


# -- those that leave ---------------------------------------------------------------------------


def test_those_that_stop_early_leave_and_the_others_move_together(sizes, fake_device):
    rates = [1e-12, 0.05, 1e-12, 1e-12, 0.02]
    found = fitted_alone_and_together(
        fake_device, {"of": lambda i: {"optimizer": SGD(rates[i])}}, count=5, epochs=9,
        callbacks=[EarlyStopping("loss", patience=2)],
    )  # fmt: skip
    assert_all_same(*found)
    assert [len(history["loss"]) < 9 for history in found[1]] == [True, False, True, True, False]
    assert sizes == [5, 2]


class Changes(Callback):
    """Changes some models during their fits."""

    def __init__(self, change, which=()):
        self.change, self.which = change, which

    def on_epoch_end(self, fit):
        if fit.epoch == 1 and round(fit.model.optimizer.learning_rate(fit.model.progress), 9) in self.which:
            self.change(fit.model)


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (lambda model: setattr(model, "alpha", 0.5), False),
        (lambda model: setattr(model, "optimizer", SGD(0.5)), False),
        (lambda model: model.module[0].requires_grad_(False), False),
        (lambda model: model.restore_weights(on(model.device, FAMILIES["rates"][0])(9).weights()), True),
        (lambda model: model.optimizer.__dict__.update(lr=0.3), True),
    ],
    ids=["penalty", "optimizer", "frozen", "weights", "rate"],
)
def test_who_is_changed_by_a_callback_leaves_if_it_must(change, stays, sizes, fake_device):
    found = fitted_alone_and_together(fake_device, RATES, callbacks=[Changes(change, [0.02])])
    assert_all_same(*found)
    assert sizes == [MEMBERS]


def test_buffers_that_a_callback_sets_or_keeps(fake_device):
    kept = []

    class Sets(Callback):
        def on_epoch_end(self, fit):
            kept.append(
                (fit.model.buffers["1.running_mean"], to_host(fit.model.buffers["1.running_mean"]).copy())
            )
            if fit.model.alpha > 0.01:
                fit.model.module[1].running_mean = fit.model.module[1].running_mean * 0.5

    of = {"make": lambda: network(nn.BatchNorm(8)), "of": lambda i: {"alpha": 0.01 * (i + 1)}}
    assert_all_same(*fitted_alone_and_together(fake_device, of, callbacks=[Sets()]))
    for array, copy in kept:
        np.testing.assert_array_equal(to_host(array), copy)


def test_models_have_memory_of_their_own_afterwards(fake_device):
    joint, *_, alone, _ = fitted_alone_and_together(fake_device, {"make": half_frozen})
    before = [to_host(model.weights().flat).copy() for model in joint[1:]]
    for model in (joint[0], alone[0]):
        model.fit(X, LABELS, epochs=1)
        model.step(X[:20], LABELS[:20])
    for model, flat in zip(joint[1:], before, strict=True):
        np.testing.assert_array_equal(to_host(model.weights().flat), flat)
    np.testing.assert_allclose(to_host(joint[0].weights().flat), to_host(alone[0].weights().flat), rtol=1e-9)


# -- estimators -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params", [{}, {"bootstrap": True, "dropout": 0.2}, {"early_stopping": True}], ids=str
)
def test_members_of_an_ensemble_are_one_stack(params, sizes, fake_device):
    settings = {"hidden_layer_sizes": (5,), "max_iter": 4, "batch_size": 16, "dtype": "float64", **params}
    ensemble = MLPClassifier(n_members=3, random_state=0, device=fake_device.kind, **settings)
    host = MLPClassifier(n_members=3, random_state=0, **settings)
    with unconverged():
        found, expected = ensemble.fit(X, LABELS), host.fit(X, LABELS)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-8)
    assert sizes[0] == 3
