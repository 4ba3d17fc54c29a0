"""Parts of steps: what they are found by, where parameters lie, how rows come in, bounds, and two halves."""

import functools
from collections import deque
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from sknet import Model, Tensor, nn, ops
from sknet.engine import Gradient, _inputs
from sknet.engine import _runners as steps_module
from sknet.engine._checks import Bounds
from sknet.engine._fingerprint import Fingerprint, structure_of
from sknet.engine._inputs import Batch, gather, gather_by_threads
from sknet.engine._memory import Layout
from sknet.engine._programs import Programs
from sknet.engine._remote import SplitStep
from sknet.exceptions import CaptureError, NonFiniteError, StateError
from sknet.losses import LogLoss, SquaredError
from sknet.nn._lazy import shadows, shape_pass
from sknet.optim import SGD, Adam, Groups
from sknet.optim.schedules import Constant, Cosine
from tests.engine.helpers import assert_same, assert_same_state
from tests.engine.test_optimizers import BY_NAME, ELEMENTWISE, named, train_by

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


class Own(nn.Module):
    def forward(self, x):
        return x


def shared():
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    other.weight = one.weight
    return nn.Sequential(one, other)


def twice():
    layer = nn.Linear(2, 2)
    return nn.Sequential(layer, layer)


def frozen():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    return layer


DIFFERENT = [
    lambda: nn.Linear(2, 2),
    lambda: nn.Linear(2, 2).to(dtype="float64"),
    lambda: nn.Linear(2, 2, bias=False),
    lambda: nn.Linear(2, 2, parametrization="ntp"),
    frozen,
    lambda: nn.Sequential(nn.Linear(2, 2)),
    lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
    shared,
    twice,
    lambda: nn.BatchNorm(2),
    lambda: nn.BatchNorm(2, momentum=None),
    lambda: nn.BatchNorm(2, track_running_stats=False),
    lambda: nn.LeakyReLU(0.0),
    lambda: nn.LeakyReLU(-0.0),
    lambda: nn.LeakyReLU(1),
    lambda: nn.LeakyReLU(1.0),
    lambda: nn.Lambda(ops.exp),
    lambda: nn.Lambda(ops.tanh),
    lambda: nn.Lambda(partial(ops.sum, axis=1)),
    lambda: nn.Lambda(partial(ops.sum, axis=0)),
    lambda: nn.PiecewiseLinearEncoding([[0.0, 1.0]]),
    lambda: nn.PiecewiseLinearEncoding([[0.0, 1.0, 2.0]]),
]


def test_keys_are_equal_for_equal_modules_and_for_no_others():
    keys = [structure_of(make()) for make in DIFFERENT]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert keys == [structure_of(make()) for make in DIFFERENT]


@pytest.mark.parametrize(
    "make",
    [
        Own,
        lambda: nn.Sequential(nn.Linear(2, 2), Own()),
        lambda: nn.Lambda(lambda x: x),
        lambda: nn.Lambda(partial(lambda x: x)),
        lambda: nn.Lambda(Own().forward),
        lambda: nn.Dropout(lambda progress: 0.5),
    ],
)
def test_user_code_has_no_key(make):
    assert structure_of(make()) is None


@pytest.mark.parametrize(
    "value",
    [
        *(object(), {1, 2}, np.array([None]), np.random.RandomState(0), Tensor([1.0])),
        {"deep": (lambda: 0,)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_attribute_of_unknown_use_leaves_no_key(value):
    layer = nn.Linear(2, 2)
    layer.more = [value]
    assert structure_of(layer) is None
    layer.more = [1.0, {"deep": (2, "text", None)}]
    assert structure_of(layer) is not None


def test_a_class_whose_forward_was_exchanged_has_no_key(monkeypatch):
    assert structure_of(nn.Tanh()) is not None
    monkeypatch.setattr(nn.Tanh, "forward", lambda self, x: x)
    assert structure_of(nn.Tanh()) is None


def test_keys_omit_learning_rates_but_no_other_hyperparameters():
    one = structure_of(None, Adam(lr=0.1))
    assert one == structure_of(None, Adam(lr=Cosine(0.3)))
    assert len({one, *(structure_of(None, x) for x in (Adam(beta1=0.5), SGD(), SGD(momentum=0.5)))}) == 4
    losses = [LogLoss(), LogLoss(class_weight=[1.0, 2.0]), LogLoss(class_weight=[1.0, 2.5])]
    assert len({structure_of(None, loss) for loss in losses}) == 3
    assert structure_of(None, losses[0].predict) == structure_of(None, LogLoss().predict)


SHAPES = {"0.weight": (3, 5), "0.bias": (5,), "scale": (), "empty": (0, 4)}


def values():
    return {
        name: np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
        for name, shape in SHAPES.items()
    }


def test_views_share_the_buffer_and_do_not_overlap():
    layout = Layout(SHAPES)
    flat = np.zeros(layout.size)
    layout.fill(flat, values())
    views = layout.views(flat)
    for name, expected in values().items():
        np.testing.assert_array_equal(views[name], expected)
        assert views[name].shape == SHAPES[name]
    for number, view in enumerate(views.values(), 1):
        view[...] = number
    assert [float(view.max(initial=number)) for number, view in enumerate(views.values(), 1)] == [1, 2, 3, 4]
    assert flat.max() == 3


def test_every_parameter_begins_on_a_cache_line():
    layout = Layout(SHAPES)
    assert all(part.start * 4 % 64 == 0 for part in layout.slices.values())
    assert layout.size * 4 % 64 == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"scale": None},
            r"expected arrays for exactly \['0\.bias', '0\.weight', 'empty', 'scale'\], got \['0",
        ),
        ({"more": np.zeros(1)}, r"got \['0\.bias', '0\.weight', 'empty', 'more', 'scale'\]"),
        ({"0.weight": np.zeros((5, 3))}, r"'0\.weight' must have shape \(3, 5\), got \(5, 3\)"),
    ],
)
def test_values_that_do_not_fit_are_not_written(changes, message):
    layout = Layout(SHAPES)
    flat = np.zeros(layout.size)
    given = {name: array for name, array in (values() | changes).items() if array is not None}
    with pytest.raises(StateError, match=message):
        layout.fill(flat, given)
    assert not flat.any()


def test_gradient_is_a_mapping_of_arrays():
    layout = Layout(SHAPES)
    flat = np.ones(layout.size)
    gradient = Gradient(layout, flat, {"mean": np.zeros(2)})
    assert list(gradient) == list(SHAPES)
    assert len(gradient) == 4
    assert np.shares_memory(gradient["0.weight"], flat)
    assert repr(Gradient(Layout({"b": (2,)}), np.ones(16), {})) == "Gradient({'b': (2,)})"
    with pytest.raises(KeyError):
        gradient["other"]


X_INPUTS = np.random.default_rng(0).normal(size=(301, 7))
CHOSEN = {"a slice": slice(20, 257), "in any order": np.random.default_rng(1).permutation(301)[:237]}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("threads", [1, 3, 4])
def test_rows(threads, chosen, dtype, monkeypatch):
    monkeypatch.setattr(_inputs, "MOST_THREADS", threads)
    monkeypatch.setattr(_inputs, "BYTES_OF_A_THREAD", 100)
    monkeypatch.setattr(_inputs, "CORES", 8)
    out = np.full((237, 7), np.nan, dtype)
    gather_by_threads(X_INPUTS, CHOSEN[chosen], out)
    np.testing.assert_array_equal(out, X_INPUTS[CHOSEN[chosen]].astype(dtype))


def test_threads_know_what_is_to_be_done_with_overflows(monkeypatch):
    monkeypatch.setattr(_inputs, "BYTES_OF_A_THREAD", 100)
    with np.errstate(over="ignore"):
        gather_by_threads(1e300 * X_INPUTS, slice(0, 301), np.empty(X_INPUTS.shape, "f4"))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        gather_by_threads(1e300 * X_INPUTS, slice(0, 301), np.empty(X_INPUTS.shape, "f4"))


def test_few_bytes_are_converted_together(monkeypatch):
    monkeypatch.setattr(_inputs, "AT_ONCE", 100)
    out = np.empty((237, 7), "f4")
    gather(X_INPUTS, CHOSEN["in any order"], out)
    np.testing.assert_array_equal(out, X_INPUTS[CHOSEN["in any order"]].astype("f4"))


INF = np.inf
X_BOUNDS = np.concatenate([np.linspace(-30, 30, 601), [0.0, 1e-8, -1e-8]]).reshape(-1, 2)
KNOWN = [
    (lambda x: x, -INF, INF),
    (ops.sigmoid, 0, 1),
    (lambda x: ops.softmax(x, axis=-1), 0, 1),
    (ops.tanh, -1, 1),
    (ops.log_sigmoid, -INF, 0),
    (ops.softplus, 0, INF),
    (ops.exp, 0, INF),
    (lambda x: ops.exp(ops.tanh(x)), np.exp(-1), np.e),
    (lambda x: ops.expm1(ops.clip(x, -1, 2)), np.expm1(-1), np.expm1(2)),
    (lambda x: ops.square(ops.clip(x, -2, 1)), 0, 4),
    (lambda x: ops.square(ops.clip(x, -2, -1)), 1, 4),
    (lambda x: ops.abs(ops.clip(x, -2, -1)), 1, 2),
    (lambda x: ops.abs(ops.clip(x, -2, 1)), 0, 2),
    (lambda x: ops.relu(ops.clip(x, -2, 1)), 0, 1),
    (lambda x: 3 - 2 * ops.sigmoid(x), 1, 3),
    (lambda x: -ops.sigmoid(x) * ops.tanh(x), -1, 1),
    (lambda x: 1 / (2 + ops.tanh(x)), 1 / 3, 1),
    (lambda x: 1 / ops.tanh(x + 0.01), -INF, INF),
    (lambda x: ops.tanh(x) / ops.exp(ops.clip(x, 0, 1)), -1, 1),
    (lambda x: ops.maximum(ops.tanh(x), 0.25), 0.25, 1),
    (lambda x: ops.minimum(ops.tanh(x), 0.25), -1, 0.25),
    (lambda x: ops.where(ops.greater(x, 0), ops.sigmoid(x), -2.0), -2, 1),
    (lambda x: ops.concat([ops.sigmoid(x), ops.tanh(x)], axis=1), -1, 1),
    (lambda x: ops.sum(ops.sigmoid(x), axis=1), 0, 2),
    (lambda x: ops.mean(ops.sigmoid(x), axis=1), 0, 1),
    (lambda x: ops.max(ops.sigmoid(x), axis=1), 0, 1),
    (lambda x: ops.sigmoid(x)[:, 0], 0, 1),
    (ops.hardsigmoid, 0, 1),
    (lambda x: ops.exp(x) / ops.sum(ops.exp(x), axis=1, keepdims=True), 0, 1),
    (lambda x: ops.exp(2 * x) / ops.sum(ops.exp(x), axis=1, keepdims=True), 0, INF),
    (lambda x: ops.square(x) / ops.expand_dims(ops.sum(ops.square(x), axis=1), 1), 0, 1),
    (lambda x: x * np.array([np.nan, 1.0]), -INF, INF),
]


@pytest.mark.parametrize(("function", "low", "high"), KNOWN)
def test_bounds_are_those_of_the_closed_form(function, low, high):
    bounds = Bounds()
    output = shape_pass(nn.Lambda(function), shadows((X_BOUNDS.shape,), "float64", bounds), seen=bounds)
    np.testing.assert_allclose(bounds.of(output.data), (low, high), rtol=1e-12, atol=1e-12)
    with np.errstate(all="ignore"):
        values = function(ops.positive(X_BOUNDS)).numpy()
    finite = values[np.isfinite(values)]
    assert (finite >= low - 1e-12).all()
    assert (finite <= high + 1e-12).all()


class Counting(nn.Module):
    """A network whose code cannot be captured: it reads a value."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, x):
        return self.inner(x) * (1.0 if float(x.data.sum()) > -1e9 else 2.0)


def sequential():
    return nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
    )


def rows(n_rows, seed, is_weighted):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_rows, 4)), rng.normal(size=(n_rows, 1))
    return Batch(X, y, rng.uniform(0.5, 2.0, n_rows) if is_weighted else None)


def fill(room, batch):
    for slot, array in zip(room, batch, strict=True):
        if slot is not None:
            slot[...] = array


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("optimizer", [Adam(), SGD(momentum=0.9)], ids=["adam", "sgd"])
@pytest.mark.parametrize("compile_", ["auto", False])
def test_the_two_halves_are_a_step(compile_, optimizer, is_weighted):
    models = [
        Model(sequential(), "squared_error", optimizer, alpha=0.1, dtype="float64", random_state=0, compile=c)
        for c in (compile_, False)
    ]
    step = SplitStep(models[0])
    for number in range(12):  # of more numbers of rows than programs are kept for
        batch = rows(3 + number, number, is_weighted)
        room = step.room(batch)
        fill(room, batch)
        share, result = step.compute(room), models[1].step(*batch)
        np.testing.assert_allclose(step.gradient, result.gradient.flat, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(share.output, result.output.data, rtol=1e-10)
        assert share.loss + share.penalty == pytest.approx(result.loss, rel=1e-12)
        step.update()
    assert models[0].progress == models[1].progress
    for name, array in models[1].state.parameters.items():
        np.testing.assert_allclose(models[0].parameters[name], array, rtol=1e-8, atol=1e-12)
    for name, array in models[1].buffers.items():
        np.testing.assert_allclose(models[0].buffers[name], array, rtol=1e-10)


def test_the_update_reads_what_became_of_the_gradient():
    model = Model(nn.Linear(4, 1), optimizer=SGD(lr=0.5), random_state=0)
    step, batch = SplitStep(model), rows(5, 0, False)
    room = step.room(Batch(*(None if x is None else x.astype("f4") for x in batch)))
    fill(room, batch)
    step.compute(room)
    before = model.memory.flat.copy()
    step.gradient[:] = 2.0
    step.update()
    np.testing.assert_allclose(model.memory.flat, before - 1.0, rtol=1e-6)


def test_what_cannot_be_captured_is_eager_with_a_warning():
    model, batch = Model(Counting(), dtype="float64", random_state=0), rows(5, 0, False)
    step = SplitStep(model)
    with pytest.warns(UserWarning, match="the training step is not compiled"):
        room = step.room(batch)
    fill(room, batch)
    twin = Model(Counting(), dtype="float64", random_state=0, compile=False)
    assert step.compute(room).loss == pytest.approx(twin.step(*batch).loss)
    strict = SplitStep(Model(Counting(), dtype="float64", random_state=0, compile=True))
    with pytest.raises(CaptureError):
        strict.room(batch)


def test_a_gradient_that_is_not_finite_is_named():
    model = Model(nn.Linear(4, 1), SquaredError(), dtype="float64", random_state=0)
    step = SplitStep(model)
    room = step.room(rows(5, 0, False))
    fill(room, rows(5, 0, False))
    room.X[0, 0] = np.inf
    with np.errstate(all="ignore"):
        loss = step.compute(room).loss
    with pytest.raises(NonFiniteError, match="gradient of parameter 'weight' is not finite"):
        step.check(loss)
    assert ops.all(ops.isfinite(model.parameters["weight"])).item()


@pytest.mark.slow
@named([*ELEMENTWISE, *BY_NAME])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fifty_compiled_steps_have_every_bit_of_the_eager_ones(optimizer, dtype, monkeypatch):
    monkeypatch.setattr(steps_module, "Programs", functools.partial(Programs, exact=True))
    compiled, losses, *_ = train_by("compiled", optimizer, dtype)
    eager, eager_losses, *_ = train_by("eager", optimizer, dtype)
    np.testing.assert_array_equal(losses, eager_losses)
    assert len(losses) == 50
    assert_same_state(compiled.state, eager.state)
