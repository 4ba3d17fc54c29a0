"""A model's own steps, compiled: the same bits as eager ones, and nothing is silently frozen."""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.exceptions import CaptureError, GraphError
from sknet.losses import Huber, LogLoss
from sknet.optim import SGD, Adam, RMSprop
from tests.engine.helpers import CLASSES, WEIGHT, X, assert_same, assert_same_state, classifier


def assert_same_result(found, expected):
    assert found.loss == expected.loss
    assert (found.data_loss, found.penalty) == (expected.data_loss, expected.penalty)
    assert_same(found.gradient, expected.gradient)
    assert_same(found.gradient.buffers, expected.gradient.buffers)
    assert_same(found.update, expected.update)
    np.testing.assert_array_equal(found.output.numpy(), expected.output.numpy())


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "rmsprop", SGD(0.1, 0.9, True)], ids=repr)
@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "with BatchNorm and Dropout"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fifty_steps_keep_every_bit(optimizer, noisy, dtype):
    params = {"optimizer": optimizer, "noisy": noisy, "dtype": dtype, "alpha": 0.1}
    eager, compiled = classifier(**params, compile=False), classifier(**params, compile=True)
    for number in range(50):
        rows = slice(0, 4 if number % 3 else None)
        weight = None if number % 2 else WEIGHT[rows]
        results = [model.step(X[rows], CLASSES[rows], weight) for model in (compiled, eager)]
        assert_same_result(*results)
        assert all(array.flags.owndata or array.base is not None for array in results[0].update.values())
    assert_same_state(compiled.state, eager.state)
    assert len(compiled._stepper._by_shape.values()) == 4


def test_a_result_stays_as_it_is():
    model = classifier(compile=True)
    first = model.step(X, CLASSES)
    kept = copy.deepcopy((dict(first.gradient), dict(first.update), first.output.numpy()))
    model.step(X, CLASSES)
    assert_same(first.gradient, kept[0])
    assert_same(first.update, kept[1])
    np.testing.assert_array_equal(first.output.numpy(), kept[2])


def test_a_shape_is_compiled_when_it_comes_again():
    model = classifier()
    for rows, n_programs in ((6, 0), (4, 0), (6, 1), (6, 1), (4, 2), (3, 2)):
        model.step(X[:rows], CLASSES[:rows])
        assert sum(program is not None for program in model._stepper._by_shape.values()) == n_programs


def test_programs_do_not_pile_up():
    wide = np.tile(X, (4, 1))
    model = classifier(compile=True)
    for rows in range(2, 20):
        model.step(wide[:rows], np.tile(CLASSES, 4)[:rows])
    assert len(model._stepper._by_shape.values()) == 8


CHANGES = {
    "learning rate": lambda model: model.optimizer.set_params(lr=0.5),
    "beta": lambda model: model.optimizer.set_params(beta1=0.1),
    "optimizer": lambda model: setattr(model, "optimizer", Adam(0.2, beta2=0.5)),
    "dropout": lambda model: setattr(model.module[3], "p", 0.8),
    "layer": lambda model: setattr(model.module, "2", nn.Sigmoid()),
    "alpha": lambda model: setattr(model, "alpha", 0.5),
    "another optimizer": lambda model: model.adopt(RMSprop(), LogLoss(), 0.0),
    "weights": lambda model: model.restore_weights(model.weights()._replace(flat=model.weights().flat * 2)),
    "state": lambda model: model.load(classifier(noisy=True, random_state=5).state),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_take_effect(change):
    eager, compiled = classifier(noisy=True, compile=False), classifier(noisy=True, compile=True)
    for model in (eager, compiled):
        model.step(X, CLASSES)
        change(model)
    for _ in range(3):
        assert_same_result(compiled.step(X, CLASSES), eager.step(X, CLASSES))
    assert_same_state(compiled.state, eager.state)


def test_copies_have_programs_of_their_own():
    model = classifier(compile=True)
    model.step(X, CLASSES)
    others = [model.copy(), model.replace(model.state), pickle.loads(pickle.dumps(model))]
    expected = model.step(X, CLASSES)
    for other in others:
        assert other.compile is True
        assert_same_result(other.step(X, CLASSES), expected)
        assert_same_state(other.state, model.state)


# -- what cannot be captured ------------------------------------------------------------------


class Branching(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(X.shape[1], 3)

    def forward(self, x):
        out = self.inner(x)
        return out if out.sum().item() > 1e6 else -out


class Counting(Branching):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x) * (1.0 / self.calls)


class Noisy(Branching):
    def forward(self, x):
        return self.inner(x) * np.random.default_rng().random(3, np.float32)


UNCAPTURED = {
    Branching: r"value of a tensor is read .* line \d+: `return out if out.sum\(\).item\(\) > 1e6",
    Counting: r"the step did different operations when run twice, so it cannot be compiled.*compile=False",
    Noisy: "the step did different operations when run twice",
}
EACH = pytest.mark.parametrize(("module", "reason"), UNCAPTURED.items())


def fit_loop(module, compile):
    model = Model(module, "log_loss", SGD(0.01), random_state=0, compile=compile)
    model.fit(X, CLASSES, epochs=2, batch_size=3, scores="accuracy")
    return model


@EACH
def test_a_module_that_cannot_be_captured_is_run_eagerly_with_one_warning(module, reason):
    model = Model(module(), "log_loss", SGD(0.01), random_state=0)
    with pytest.warns(UserWarning, match=f"not compiled, which is slower: .*{reason}") as caught:
        losses = [model.step(X, CLASSES).loss for _ in range(4)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(set(losses)) == 4


@EACH
def test_the_loop_goes_on_eagerly_with_one_warning(module, reason):
    with pytest.warns(UserWarning, match=f"not compiled, which is slower: .*{reason}") as caught:
        assert fit_loop(module(), "auto").progress.step == 8
    assert len(caught) == 1


@EACH
def test_compile_true_raises(module, reason):
    model = Model(module(), "log_loss", SGD(0.01), random_state=0, compile=True)
    before = model.state
    with pytest.raises(CaptureError, match=reason):
        model.step(X, CLASSES)
    assert_same_state(model.state, before)
    with pytest.raises(CaptureError, match=reason):
        fit_loop(module(), True)


@EACH
def test_compile_false_does_not_warn(module, reason):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit_loop(module(), False)
        model.step(X, CLASSES)
    assert model.progress.step == 9


def test_a_custom_module_is_compiled():
    class Squared(nn.Module):
        def __init__(self):
            self.inner = nn.Linear(X.shape[1], 3)

        def forward(self, x):
            return ops.square(self.inner(x))

    eager, compiled = (
        Model(Squared(), Huber(), Adam(), random_state=0, compile=mode) for mode in (False, True)
    )
    for _ in range(5):
        assert_same_result(compiled.step(X, X[:, :3]), eager.step(X, X[:, :3]))


def test_a_failing_plan_falls_back_too(monkeypatch):
    def broken(*args, **kwargs):
        raise GraphError("an output is never assigned")

    monkeypatch.setattr("sknet.engine._programs.compile_cached", broken)
    model = classifier()
    model.step(X, CLASSES)
    with pytest.warns(UserWarning, match="not compiled, which is slower: an output is never assigned"):
        model.step(X, CLASSES)


@pytest.mark.parametrize("mode", ["always", None, 1, 0])
def test_modes(mode):
    message = re.escape(f"must be True, False or 'auto'. Got {mode!r} instead.")
    with pytest.raises(ValueError, match=message):
        Model(nn.Linear(2, 1), compile=mode)


def test_steps_are_compiled_again_when_hooks_are_gone():
    model = classifier()
    seen = []
    handle = next(model.module.modules()).register_forward_hook(lambda *args: seen.append(1))
    model.step(X, CLASSES)
    with pytest.warns(UserWarning, match="hook"):
        model.step(X, CLASSES)
    model.step(X, CLASSES)
    assert len(seen) >= 3
    assert not any(model._stepper._by_shape.values())
    handle.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            model.step(X, CLASSES)
    assert all(model._stepper._by_shape.values())
    next(model.module.modules()).register_forward_hook(lambda *args: seen.append(2))
    model.step(X, CLASSES)
    with pytest.warns(UserWarning, match="hook"):
        model.step(X, CLASSES)
    assert seen.count(2) >= 2
