"""Orders of epochs, and those that are drawn before their epoch begins."""

from types import SimpleNamespace

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn
from sknet.callbacks import Callback
from sknet.device import active, to_host
from sknet.engine import Batches
from sknet.engine._batches import Orders
from sknet.engine._device_runner import DeviceRows
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(50, 3)).astype("float32"), RNG.integers(3, size=50)
BETWEEN = {
    "nothing": lambda source: None,
    "a number": lambda source: source.random_sample(),
    "a normal number": lambda source: source.standard_normal(),
    "another seed": lambda source: source.seed(5),
    "its own state": lambda source: source.set_state(source.get_state()),
}


def source_of(seed, normal=False):
    source = np.random.RandomState(seed)
    if normal:
        source.standard_normal()  # of two, the second is left over
    return source


def drawn(source, between, looks_ahead, n_epochs=8):
    """Return the orders of some epochs, and what is drawn after them."""
    orders, found = Orders(SimpleNamespace(random_state=source), 20, True, n_epochs), []
    for i in range(n_epochs):
        orders.begin()
        found.append(orders.now)
        if looks_ahead:
            orders.look_ahead()
            orders.look_ahead()
        if i % 3:
            between(source)
    return np.array(found), source.standard_normal(3)


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_they_are_those_of_a_source_that_is_never_ahead(between, normal):
    for seed in range(5):
        plain = drawn(source_of(seed, normal), between, False)
        ahead = drawn(source_of(seed, normal), between, True)
        for mine, theirs in zip(ahead, plain, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kind", ["PCG64", "MT19937"])
def test_generators_of_any_kind(kind):
    made = [np.random.RandomState(getattr(np.random, kind)(0)) for _ in range(2)]
    found = [
        drawn(source, BETWEEN["nothing"], ahead) for source, ahead in zip(made, (False, True), strict=True)
    ]
    np.testing.assert_array_equal(found[0][0], found[1][0])


def test_a_source_that_is_replaced():
    model = SimpleNamespace(random_state=source_of(0))
    orders = Orders(model, 20, True, 3)
    orders.begin()
    orders.look_ahead()
    model.random_state = source_of(1)
    expected = orders.now.copy()
    source_of(1).shuffle(expected)
    orders.begin()
    np.testing.assert_array_equal(orders.now, expected)


def test_the_order_of_the_data():
    orders = Orders(SimpleNamespace(random_state=source_of(0)), 20, False, 3)
    orders.begin()
    assert orders.look_ahead() is None
    assert orders.now is None


def test_nothing_is_drawn_ahead_in_the_last_epoch():
    orders = Orders(SimpleNamespace(random_state=source_of(0)), 20, True, 2)
    orders.begin()
    following = orders.look_ahead()
    assert following is not None
    orders.begin()
    np.testing.assert_array_equal(orders.now, following)
    assert orders.look_ahead() is None


class Draws(Callback):
    """Draws a number at the end of some epochs, and keeps what is left of the random state."""

    def on_epoch_end(self, fit):
        if fit.epoch % 2:
            fit.model.random_state.random_sample()
        self.next_ = fit.model.random_state.get_state()[1].copy()


def test_a_fit_on_a_device_has_the_numbers_of_the_host(fake_device):
    fits = [
        MLPClassifier((4,), max_iter=7, batch_size=10, random_state=0, device=device, callbacks=[Draws()])
        for device in ("cpu", str(fake_device))
    ]
    for fit in fits:
        with quiet():
            fit.set_params(tol=0, n_iter_no_change=100).fit(X, y)
    np.testing.assert_allclose(fits[0].loss_curve_, fits[1].loss_curve_, rtol=1e-5)
    np.testing.assert_array_equal(fits[0].callbacks_[0].next_, fits[1].callbacks_[0].next_)


@pytest.mark.parametrize("chosen", [None, np.arange(50)[::-1].copy()])
def test_an_order_is_sent_before_its_epoch(chosen, fake_device):
    """One that is not taken in the end is sent again."""
    model = Model(nn.Linear(3, 3), "log_loss", random_state=0, device=fake_device, dtype="float32")
    batches = Batches(X, y, None, 10, model.dtype, model.device, chosen)
    rows = DeviceRows(batches)
    orders = [np.random.default_rng(i).permutation(50) for i in range(4)]
    with active(model.device):
        for order, following in zip(orders, [orders[1], orders[0], None, None], strict=True):
            rows.start(order)
            rows.look_ahead(following)
            np.testing.assert_array_equal(to_host(rows.order_of_targets)[:50], order)
            expected = order if chosen is None else chosen[order]
            np.testing.assert_array_equal(to_host(rows.order_of_X)[:50], expected)
            assert rows.order is order
        rows.start(None)
        np.testing.assert_array_equal(to_host(rows.order_of_targets)[:50], np.arange(50))
