"""A last batch of a single row, of which a batch norm has no variance: it belongs to the batch before."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import sknet
from sknet import MLPClassifier, MLPRegressor, Model, NetRegressor, nn
from sknet.callbacks import Callback
from sknet.device import Feed, to_host
from sknet.engine import Batches, fit_many
from sknet.optim import SGD
from tests.devices import fake
from tests.estimators.data import quiet

SIZE = 8
N = 3 * SIZE + 1
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
Y = X @ RNG.normal(size=(4, 1)) + 1.0
LABELS = (X[:, 0] > 0).astype(int)
WEIGHT = RNG.uniform(0.5, 2.0, N)


def network():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm(5), nn.ReLU(), nn.Linear(5, 1)).initialize(0)


def model(module=None, **params):
    module = network() if module is None else module
    return Model(module, "squared_error", SGD(0.1), dtype="float64", random_state=0, **params)


def by_hand(batches, module=None, weight=None):
    """Return a model that was trained on the given rows, step by step."""
    found = model(module)
    for chosen in batches:
        found.step(X[chosen], Y[chosen], None if weight is None else weight[chosen])
    return found


def same(a, b, rtol=1e-12):
    for name, value in a.state.parameters.items():
        np.testing.assert_allclose(value, b.state.parameters[name], rtol=rtol, atol=1e-14, err_msg=name)
    for name, value in a.state.buffers.items():
        np.testing.assert_allclose(value, b.state.buffers[name], rtol=rtol, atol=1e-14, err_msg=name)


JOINED = [slice(0, 8), slice(8, 16), slice(16, 25)]
APART = [slice(0, 8), slice(8, 16), slice(16, 24), slice(24, 25)]


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_last_row_is_trained_with_the_batch_before(compiled, weight, native):
    with sknet.config_context(native=native):
        found = model(compile=compiled)
        history = found.fit(X, Y, weight, epochs=2, batch_size=SIZE, shuffle=False)
    wanted = by_hand(JOINED * 2, weight=weight)
    same(found, wanted)
    assert found.progress.step == 6
    assert found.progress.samples == 2 * N
    assert np.isfinite(history["loss"]).all()


@pytest.mark.parametrize("size", [N - 1, SIZE, 12, 3])
def test_the_loss_counts_every_row_once(size):
    found = Model(network(), "squared_error", SGD(0.1), dtype="float64", random_state=0)
    history = found.fit(X, Y, epochs=1, batch_size=size, shuffle=False)
    before = Model(network(), "squared_error", SGD(0.1), dtype="float64", random_state=0)
    starts = list(range(0, N - 1, size))
    parts = [slice(a, b) for a, b in zip(starts, [*starts[1:], N], strict=True)]
    losses = [float(before.step(X[p], Y[p]).loss) * (p.stop - p.start) for p in parts]
    assert history["loss"] == [pytest.approx(sum(losses) / N, rel=1e-12)]


def images():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm(2), nn.Flatten(), nn.Linear(8, 1)).initialize(0)


def test_networks_that_train_on_one_row_are_as_before():
    plain = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 1)).initialize(0)
    found = model(plain)
    found.fit(X, Y, epochs=1, batch_size=SIZE, shuffle=False)
    assert found.progress.step == 4
    same(found, by_hand(APART, plain))
    squares = RNG.normal(size=(N, 1, 4, 4))  # a single image has four values for each channel
    found = model(images())
    found.fit(squares, Y, epochs=1, batch_size=SIZE, shuffle=False)
    assert found.progress.step == 4


def test_a_held_norm_trains_on_one_row():
    net = NetRegressor(network(), frozen="1", batch_size=SIZE, max_iter=1, random_state=0)
    with quiet():
        assert net.fit(X, Y[:, 0]).model_.progress.step == 4


def test_a_norm_without_running_statistics_is_joined_too():
    module = nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm(5, track_running_stats=False), nn.Linear(5, 1)
    ).initialize(0)
    for native in ("never", "always"):
        with sknet.config_context(native=native):
            found = model(module)
            found.fit(X, Y, epochs=40, batch_size=SIZE, shuffle=False)
        same(found, by_hand(JOINED * 40, module), rtol=1e-9)


def test_fits_side_by_side():
    models = [model() for _ in range(3)]
    fit_many(models, X, Y, epochs=2, batch_size=SIZE, shuffle=False)
    wanted = by_hand(JOINED * 2)
    for each in models:
        same(each, wanted)


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 4, 6], ids=str)
@pytest.mark.parametrize("n_batches", [1, 12, 48, 60])
def test_a_device(chunk, n_batches, fake_device, monkeypatch):
    """All rows on the device, or chunks of about so many batches on their way."""
    n = 2 * n_batches + 1
    rows = np.resize(X, (n, 4)) + np.arange(n)[:, None] / n
    targets = np.resize(Y, (n, 1))
    if chunk is not None:
        monkeypatch.setattr(fake, "FREE_MEMORY", 2 * rows.nbytes - 1)
        monkeypatch.setattr(Feed, "most_bytes", chunk * 2 * rows.nbytes // n)
    found = [model(device=device) for device in ("cpu", fake_device)]
    for each in found:
        each.fit(rows, targets, epochs=2, batch_size=2)
    assert found[1].progress.step == 2 * n_batches
    host = {name: to_host(x) for name, x in found[1].state.parameters.items()}
    for name, value in found[0].state.parameters.items():
        np.testing.assert_allclose(host[name], value, rtol=1e-9, atol=1e-12)


def test_a_stack_on_a_device(fake_device):
    models = [model(device=fake_device) for _ in range(3)]
    fit_many(models, X, Y, epochs=2, batch_size=SIZE, shuffle=False)
    wanted = by_hand(JOINED * 2).state
    for each in models:
        for name, value in wanted.parameters.items():
            np.testing.assert_allclose(to_host(each.state.parameters[name]), value, rtol=1e-9, atol=1e-12)


# -- estimators ----------------------------------------------------------------------------------------

NORM = nn.Sequential(nn.LazyBatchNorm(), nn.ReLU())


def perceptron(kind=MLPClassifier, **params):
    return kind((8,), **{"activation": NORM, "max_iter": 2, "random_state": 0, "batch_size": SIZE} | params)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"batch_size": N - 1},
        {"n_members": 2},
        {"early_stopping": True, "validation_fraction": 0.32},
        {"early_stopping": True, "validation_fraction": 0.32, "refit_on_all": True},
        {"warm_start": True},
        {"shuffle": False},
    ],
    ids=str,
)
def test_estimators_fit_a_leftover_row(params):
    with quiet():
        clf = perceptron(**params).fit(X, LABELS)
        reg = perceptron(MLPRegressor, **params).fit(X, Y[:, 0])
        if "warm_start" in params:
            clf.fit(X, LABELS)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert np.isfinite(reg.predict(X)).all()


@pytest.mark.parametrize("native", ["never", "always"])
def test_rows_that_are_standardized_when_they_are_read(native, monkeypatch):
    with quiet(), sknet.config_context(native=native):
        whole = perceptron(scale_inputs=True).fit(X, LABELS)
        monkeypatch.setattr("sknet.estimators._scaling.MOST_BYTES", 1)
        found = perceptron(scale_inputs=True).fit(X, LABELS)
    for one, other in zip(found.coefs_, whole.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.loss_curve_ == whole.loss_curve_


def test_all_defaults_fit_201_rows():
    rng = np.random.default_rng(1)
    many, labels = rng.normal(size=(251, 3)), rng.integers(0, 2, 251)
    with quiet():
        MLPClassifier((4,), activation=NORM, max_iter=1).fit(many[:201], labels[:201])
        scores = cross_val_score(MLPClassifier((4,), activation=NORM, max_iter=1), many, labels, cv=5)
    assert np.isfinite(scores).all()


def test_any_number_of_rows_can_be_held_out():
    for n in range(20, 60):
        with quiet():
            perceptron(max_iter=1, early_stopping=True).fit(np.resize(X, (n, 4)), np.arange(n) % 2)


def test_a_resumed_fit_is_that_without_an_interruption(tmp_path):
    class Stop(Callback):
        def on_epoch_end(self, fit):
            return "stop" if fit.epoch == 2 else None

    folder = tmp_path / "fits"
    keep = sknet.callbacks.Checkpoint(folder, every=1)
    whole = model()
    whole.fit(X, Y, epochs=4, batch_size=SIZE)
    part = model()
    part.fit(X, Y, epochs=4, batch_size=SIZE, callbacks=[keep, Stop()])
    other = model()
    other.fit(X, Y, epochs=4, batch_size=SIZE, resume_from=folder)
    same(other, whole, rtol=0)


def test_a_stream_whose_part_leaves_one_row():
    clf = perceptron().partial_fit(X, LABELS, classes=[0, 1])
    assert clf.model_.progress.step == 3
    clf.partial_fit(X[:SIZE], LABELS[:SIZE]).partial_fit(X, LABELS)
    assert clf.model_.progress.step == 7


def test_a_part_of_one_row_is_normalized_by_running_statistics():
    clf = perceptron(batch_size="auto").partial_fit(X, LABELS, classes=[0, 1])
    before = clf.model_.state
    with pytest.warns(UserWarning, match="a part of one row has no statistics of its own"):
        clf.partial_fit(X[:1], LABELS[:1])
    after = clf.model_.state
    for name, value in before.buffers.items():
        np.testing.assert_array_equal(value, after.buffers[name])
    assert any((value != after.parameters[name]).any() for name, value in before.parameters.items())
    clf.partial_fit(X, LABELS)
    changed = clf.model_.state
    assert any((value != changed.buffers[name]).any() for name, value in after.buffers.items())


def test_the_first_part_may_have_one_row():
    with pytest.warns(UserWarning, match="a part of one row has no statistics of its own"):
        clf = perceptron(batch_size="auto").partial_fit(X[:1], LABELS[:1], classes=[0, 1])
    assert clf.predict(X).shape == LABELS.shape


def test_batches_that_all_have_one_row_raise():
    with pytest.raises(ValueError, match="training needs at least 2 values per feature"):
        perceptron(batch_size=1).fit(X, LABELS)


@pytest.mark.parametrize(("n", "size"), [(25, 8), (9, 8), (7, 2), (3, 2), (201, 200)])
def test_batches_cover_every_row_once(n, size):
    device = model().device
    batches = Batches(np.ones((n, 1)), np.ones(n), None, size, np.dtype("float64"), device)
    assert batches.leaves_one
    batches.join_leftover()
    order = np.random.default_rng(0).permutation(n)
    parts = [chosen for chosen, _ in batches.parts(order)]
    np.testing.assert_array_equal(np.concatenate(parts), order)
    assert [len(part) for part in parts] == [size] * (n // size - 1) + [size + 1]
    assert not batches.leaves_one
    number = 0
    while number < batches.n_batches:
        number += batches.in_a_row(order, number, 100)
    assert number == batches.n_batches
