"""Stale programs are detected: everything they read of Python is watched, for steps and predictions alike."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from sknet import Model, Tensor, nn, ops
from sknet.engine._fingerprint import Fingerprint
from sknet.losses import SquaredError
from sknet.optim import SGD, Adam, Groups
from sknet.optim.schedules import Constant
from tests.engine.helpers import assert_same, assert_same_state

X = np.random.default_rng(0).normal(size=(6, 3)).astype("f4")
Y = X @ np.ones((3, 2), "f4")


@dataclass(slots=True)
class Slotted:
    factor: float = 1.0


class Settings:
    """All kinds of state that a module's forward pass can read."""

    def __init__(self):
        self.number = 1.0
        self.numbers = [1.0, 2.0]
        self.nested = {"a": {"b": [1.0]}, "flag": True}
        self.array = np.ones(2, "f4")
        self.large = np.ones((40000, 2), "f4")
        self.tensor = Tensor(np.ones(2, "f4"))
        self.object = SimpleNamespace(factor=1.0, inner=SimpleNamespace(factors=(1.0, [1.0])))
        self.slotted = Slotted()
        self.queue = deque([1.0])
        self.names = {"scale"}
        self.arrays = [np.ones(1, "f4"), {"x": np.ones(1, "f4")}]
        self.objects = np.array([1.0, SimpleNamespace(factor=1.0)], object)
        self.kept = {"x": 1.0}
        self.mapping = MappingProxyType(self.kept)
        factor = 1.0

        def closed(x):
            return x * factor

        def change(value):
            nonlocal factor
            factor = value

        self.closed, self.change = closed, change
        self.bound = partial(np.multiply, 1.0)
        self.scaled = partial(_scaled, options={"by": 1.0})


def _scaled(x, options):
    return x * options["by"]


def factor_of(settings):
    """Return the product of all settings, computed in Python."""
    inner = settings.object.inner.factors
    found = settings.number * settings.numbers[0] * settings.numbers[-1] * settings.nested["a"]["b"][0]
    found *= 1.0 if settings.nested["flag"] else 3.0
    found *= settings.object.factor * inner[0] * inner[1][0] * settings.slotted.factor * settings.queue[0]
    found *= 1.0 if "scale" in settings.names else 0.25
    found *= settings.objects[0] * settings.objects[1].factor * settings.mapping["x"]
    found *= settings.closed(1.0) * settings.bound(1.0) * settings.scaled(1.0)
    return found * float(settings.arrays[0][0]) * float(settings.arrays[1]["x"][0])


class Scaled(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(3, 2)
        self.settings = Settings()

    def forward(self, x):
        settings = self.settings
        scale = settings.array * settings.large[-1] * factor_of(settings)
        return self.inner(x) * scale * settings.tensor


def set_item(name, key, value):
    return lambda settings: getattr(settings, name).__setitem__(key, value)


CHANGES = {
    "attribute": lambda s: setattr(s, "number", 2.0),
    "list item": set_item("numbers", 0, 3.0),
    "list grows": lambda s: s.numbers.append(5.0),
    "flag in a dict": set_item("nested", "flag", False),
    "item at depth": lambda s: s.nested["a"]["b"].__setitem__(0, 2.0),
    "array in place": set_item("array", 0, 2.0),
    "large array in place": set_item("large", -1, 2.0),
    "array by another": lambda s: setattr(s, "array", np.full(2, 3.0, "f4")),
    "tensor in place": set_item("tensor", 0, 2.0),
    "tensor's data": lambda s: setattr(s.tensor, "data", np.full(2, 5.0, "f4")),
    "object": lambda s: setattr(s.object, "factor", 2.0),
    "list in a tuple in an object": lambda s: s.object.inner.factors[1].__setitem__(0, 2.0),
    "slot": lambda s: setattr(s.slotted, "factor", 2.0),
    "queue": set_item("queue", 0, 2.0),
    "set": lambda s: s.names.discard("scale"),
    "array in a list": lambda s: s.arrays[0].fill(2.0),
    "array in a dict": lambda s: s.arrays[1]["x"].fill(2.0),
    "object array": set_item("objects", 0, 2.0),
    "object in an object array": lambda s: setattr(s.objects[1], "factor", 2.0),
    "mapping": set_item("kept", "x", 2.0),
    "closure": lambda s: s.change(2.0),
    "partial": lambda s: setattr(s, "bound", partial(np.multiply, 2.0)),
    "option of a partial": lambda s: s.scaled.keywords["options"].__setitem__("by", 2.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_what_a_module_reads_is_seen_by_the_next_step_and_prediction(change):
    twins = [
        Model(Scaled(), optimizer=SGD(0.01), random_state=0, compile=mode, copy=False)
        for mode in (True, False)
    ]
    for each in twins:
        each.step(X, Y)
        each.step(X, Y)
        before = each.predict(X), predict_one(each)
        change(each.module.settings)
        assert not np.array_equal(each.predict(X), before[0])
        assert not np.array_equal(predict_one(each), before[1])
        np.testing.assert_allclose(predict_one(each), each.predict(X)[:1], rtol=1e-5)
    compiled, eager = twins
    for _ in range(3):
        assert_same(compiled.step(X, Y).gradient, eager.step(X, Y).gradient)
    assert_same_state(compiled.state, eager.state)


def predict_one(model):
    from sknet.engine._network import predict_rows

    return predict_rows(model, X[:1], "predictions", model.loss_function.predict).copy()


class Distilled(SquaredError):  # noqa: N818
    """The squared distance to targets and to the predictions of another network."""

    def __init__(self, teacher=None, weights=(1.0,)):
        self.teacher = teacher
        self.weights = weights

    def values(self, output, y):
        own = super().values(output, y) * self.weights[0]
        return own + super().values(output, self.teacher(y).detach())


def teacher():
    return Distilled(nn.Linear(2, 2).initialize(3).requires_grad_(False), [1.0])


def in_teacher(model):
    model.loss_function.teacher.weight.data[...] = 0.5


def in_teachers_state(model):
    model.loss_function.teacher.load_state_dict({"weight": np.eye(2), "bias": np.ones(2)})


HYPER = {
    "loss": lambda model: model.loss_function.weights.__setitem__(0, 2.0),
    "teacher": in_teacher,
    "teacher's state": in_teachers_state,
    "rate": lambda model: setattr(model.optimizer, "lr", 0.5),
    "parameter": lambda model: model.optimizer.set_params(momentum=0.5),
    "schedule": lambda model: model.optimizer.set_params(lr=Constant(0.3)),
    "replaced module": lambda model: setattr(model.module, "inner", nn.Linear(3, 2).initialize(9)),
    "alpha": lambda model: setattr(model, "alpha", 0.5),
}


@pytest.mark.parametrize("change", HYPER.values(), ids=HYPER.keys())
def test_losses_and_optimizers_are_watched_like_modules(change):
    compiled, eager = (
        Model(Scaled(), teacher(), SGD(0.01, momentum=0.9), random_state=0, compile=mode, copy=False)
        for mode in (True, False)
    )
    for each in (compiled, eager):
        for _ in range(3):
            each.step(X, Y)
        change(each)
    for _ in range(3):
        assert_same(compiled.step(X, Y).update, eager.step(X, Y).update)
    assert_same_state(compiled.state, eager.state)


def test_optimizers_in_a_dict_are_watched():
    model = Model(
        nn.Linear(3, 2), optimizer=Groups({"weight": SGD(0.1), "*": SGD(0.1)}), random_state=0, compile=True
    )
    for _ in range(3):
        model.step(X, Y)
    model.optimizer.groups["weight"].lr = 0.0
    assert not model.step(X, Y).update["weight"].any()


class Classwide(nn.Module):
    factor = 1.0

    def __init__(self):
        self.inner = nn.Linear(3, 2)

    def forward(self, x):
        return self.inner(x) * type(self).factor


def test_what_cannot_be_watched_needs_recompile(monkeypatch):
    model = Model(Classwide(), random_state=0, compile=True)
    for _ in range(2):
        model.step(X, Y)
    before = predict_one(model)
    monkeypatch.setattr(Classwide, "factor", 3.0)
    np.testing.assert_array_equal(predict_one(model), before)
    model.recompile()
    np.testing.assert_allclose(predict_one(model), before * 3, rtol=1e-6)
    twin = Model(model.module, random_state=0, compile=False)
    twin.load(model.state)
    assert_same(model.step(X, Y).gradient, twin.step(X, Y).gradient)


def test_nothing_is_captured_again_while_nothing_changes(monkeypatch):
    model = Model(Scaled(), optimizer=Adam(), random_state=0, compile=True, copy=False)
    model.step(X, Y)
    predict_one(model)
    calls = []
    forward = Scaled.forward
    monkeypatch.setattr(Scaled, "forward", lambda self, x: calls.append(1) or forward(self, x))
    for _ in range(3):
        model.step(X, Y)
        predict_one(model)
        Scaled()  # other modules come and go
        model.module.train()
    assert not calls


def test_a_learning_rate_is_not_a_constant():
    model = Model(nn.Linear(3, 2), optimizer=SGD(0.1), random_state=0, compile=True)
    model.step(X, Y)
    fingerprint = Fingerprint(model.module, model.optimizer)
    for rate in (0.05, Constant(0.01)):
        model.optimizer.lr = rate
        assert fingerprint.holds()
        result = model.step(X, Y)
        np.testing.assert_allclose(
            result.update["weight"],
            -model.optimizer.learning_rate(model.progress) * result.gradient["weight"],
            rtol=1e-6,
        )
    model.optimizer.momentum = 0.3
    assert not fingerprint.holds()


def test_cyclic_references_are_watched_once():
    model = Model(Scaled(), optimizer=SGD(0.01), random_state=0, compile=True, copy=False)
    model.module.settings.model = model
    model.module.settings.numbers.append(model.module.settings.numbers)
    model.module.settings.numbers.append(1.0)
    model.step(X, Y)
    fingerprint = Fingerprint(model.module)
    model.step(X, Y)
    assert fingerprint.holds()
    model.module.settings.numbers[-1] = 2.0
    assert not fingerprint.holds()


def test_a_new_object_is_never_mistaken_for_the_old_one():
    layer = nn.Linear(3, 2)
    for value in range(200):
        layer.options = [float(value)]
        fingerprint = Fingerprint(layer)
        layer.options = [float(value + 1)]  # may have the id of the old one
        assert not fingerprint.holds()


def test_read_only_arrays_are_not_copied():
    layer = nn.Linear(3, 2)
    layer.table = np.ones(1 << 20)
    layer.table.flags.writeable = False
    assert Fingerprint(layer).holds()
    assert ops.sum(layer.table).item() == 1 << 20


class Guarded:
    """Refuses to be asked for what it does not have."""

    factor = 2.0

    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


def test_objects_are_not_asked_for_what_they_may_refuse():
    layer = nn.Linear(2, 1)
    layer.guarded = Guarded()
    assert Fingerprint(layer).holds()
