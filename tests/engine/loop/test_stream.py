"""Model.train: streams of batches."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn, ops
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.exceptions import DtypeError, NonFiniteError, ShapeError, StateError
from sknet.optim import LBFGS, SGD, Adam
from sknet.optim.schedules import Cosine
from tests.engine.helpers import assert_same_state

RNG = np.random.default_rng(0)
X, CLASSES = RNG.normal(size=(103, 5)).astype("f4"), RNG.integers(0, 3, 103)
WEIGHT = RNG.uniform(0.5, 2, 103).astype("f4")


def new(**params):
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
    return Model(net, "log_loss", **{"optimizer": Adam(0.02), "random_state": 0} | params)


def batches(size=20, weight=None, dtype="f4"):
    """Return the rows in order, as a list of batches."""
    starts = range(0, len(X), size)
    parts = [slice(start, start + size) for start in starts]
    arrays = [X.astype(dtype), CLASSES, *([] if weight is None else [weight])]
    return [tuple(array[part] for array in arrays) for part in parts]


@pytest.mark.parametrize("compile", [True, "auto", False])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("native", ["never", "always"])
def test_bits_are_those_of_a_fit_in_the_order_of_the_rows(weight, compile, native, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", native)
    fitted, trained = new(compile=compile), new(compile=compile)
    held_out = {"X_val": X[:30], "y_val": CLASSES[:30], "scores": "accuracy"}
    expected = fitted.fit(X, CLASSES, weight, epochs=3, batch_size=20, shuffle=False, **held_out)
    found = trained.train(batches(weight=weight), epochs=3, **held_out)
    assert_same_state(trained.state, fitted.state)
    assert list(found) == list(expected)
    for name in set(expected) - {"time", "accuracy"}:
        assert found[name] == expected[name], name
    assert found["accuracy"] == pytest.approx(expected["accuracy"])


class Loader:
    """Restarts for every pass, and has no length."""

    def __iter__(self):
        return iter(batches())


def generate():
    yield from batches()


SOURCES = [batches, lambda: tuple(batches()), Loader, lambda: generate, lambda: iter(batches())]


@pytest.mark.parametrize("source", SOURCES)
def test_one_pass_is_an_epoch(source):
    model, other = new(), new()
    history = model.train(source())
    assert history.n_epochs == 1
    other.train(batches(), epochs=1)
    assert model.progress[:3] == other.progress[:3] == (6, 1, 103)
    np.testing.assert_array_equal(model.state.parameters["0.weight"], other.state.parameters["0.weight"])


@pytest.mark.parametrize("source", SOURCES[:-1])
@pytest.mark.parametrize(
    ("limits", "steps", "epochs"),
    [
        ({"epochs": 3}, 18, 3),
        ({"n_steps": 3}, 3, 1),
        ({"n_steps": 13}, 13, 3),
        ({"n_steps": 12}, 12, 2),
        ({"n_steps": 12, "epochs": 1}, 6, 1),
        ({"n_steps": 12, "epochs": 5}, 12, 2),
        ({"epochs": 2, "steps_per_epoch": 4}, 8, 2),
        ({"epochs": 2, "steps_per_epoch": 8}, 16, 2),
        ({"n_steps": 10, "steps_per_epoch": 4}, 10, 3),
    ],
)
def test_how_long_it_takes(source, limits, steps, epochs):
    model = Model(nn.Linear(5, 3), "log_loss", random_state=0, compile=False)
    history = model.train(source(), **limits)
    assert (model.progress.step, history.n_epochs) == (steps, epochs)


@pytest.mark.parametrize(
    ("limits", "steps", "epochs"),
    [
        ({}, 6, 1),
        ({"n_steps": 4}, 4, 1),
        ({"n_steps": 40}, 6, 1),
        ({"steps_per_epoch": 4, "epochs": 9}, 6, 2),
        ({"steps_per_epoch": 3, "epochs": 2}, 6, 2),
        ({"steps_per_epoch": 2, "epochs": 2}, 4, 2),
    ],
)
def test_a_generator_is_consumed_once(limits, steps, epochs):
    model = Model(nn.Linear(5, 3), "log_loss", random_state=0, compile=False)
    history = model.train(generate(), **limits)
    assert (model.progress.step, history.n_epochs) == (steps, epochs)


def test_what_has_no_end():
    model, rest = new(), itertools.cycle(batches())
    history = model.train(rest, n_steps=20, steps_per_epoch=5)
    assert (history.n_epochs, model.progress.step) == (4, 20)
    model.train(rest, n_steps=3)
    assert model.progress.step == 23


def test_a_batch_is_requested_after_the_previous_step():
    model, seen = new(), []

    def looking():
        for batch in batches():
            seen.append(model.progress.step)
            yield batch

    model.train(looking, epochs=2)
    assert seen == list(range(12))


@pytest.mark.slow
@pytest.mark.parametrize("native", ["never", "always"])
def test_batches_of_many_shapes(native, monkeypatch):
    """Sequences of many lengths: each batch is trained as by a step."""
    monkeypatch.setenv("SKNET_NATIVE", native)

    class Mean(nn.Module):
        def __init__(self):
            self.inner, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.inner(x).tanh().mean(axis=1))

    rng = np.random.default_rng(1)
    shapes = [
        (int(n), int(t))
        for n, t in zip(rng.choice([3, 6], 60), rng.choice([2, 5, *range(9)], 60) + 1, strict=True)
    ]
    data = [(rng.normal(size=(n, t, 4)).astype("f4"), rng.integers(0, 3, n)) for n, t in shapes]
    trained, stepped = [Model(Mean(), "log_loss", SGD(0.1, momentum=0.9), random_state=0) for _ in range(2)]
    trained.train(data, epochs=2)
    for _ in range(2):
        for x, y in data:
            stepped.step(x, y)
    for name, array in stepped.parameters.items():
        np.testing.assert_allclose(trained.parameters[name], array, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_array, np.ndarray.tolist])
def test_inputs_of_every_kind(kind):
    dense, other = [Model(nn.Linear(5, 3), "log_loss", random_state=0) for _ in range(2)]
    dense.train(batches(), epochs=2)
    other.train([(kind(x), y.tolist()) for x, y in batches(dtype="f8")], epochs=2)
    for name, array in dense.parameters.items():
        np.testing.assert_allclose(other.parameters[name], array, rtol=1e-5, atol=1e-6)


def test_a_fake_device(fake_device):
    host, device = new(compile=True), new(compile=True, device=fake_device)
    expected = host.train(batches(weight=WEIGHT), epochs=2)
    found = device.train(batches(weight=WEIGHT), epochs=2)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-4)


def test_rows_of_zero_weight_are_ignored():
    model, other = new(), new()
    padding = (np.ones((20, 5), "f4"), np.zeros(20, int), np.zeros(20, "f4"))
    model.train([*batches(weight=WEIGHT), padding])
    other.train(batches(weight=WEIGHT))
    np.testing.assert_array_equal(model.state.parameters["0.weight"], other.state.parameters["0.weight"])
    assert model.progress.samples == 123


def test_what_changes_between_epochs_is_followed():
    class Changing(Callback):
        def on_epoch_end(self, fit):
            fit.model.optimizer.set_params(lr=0.1 / fit.epoch)
            fit.model.module[0].requires_grad_(fit.epoch % 2 == 0)

    trained, stepped = new(), new(compile=False)
    trained.train(batches(), epochs=4, callbacks=[Changing()])
    for epoch in range(1, 5):
        with stepped.epoch():
            for batch in batches():
                stepped.step(*batch)
        stepped.optimizer.set_params(lr=0.1 / epoch)
        stepped.module[0].requires_grad_(epoch % 2 == 0)
    assert trained.progress[:3] == stepped.progress[:3]
    np.testing.assert_allclose(
        trained.parameters["4.weight"], stepped.parameters["4.weight"], rtol=1e-2, atol=1e-3
    )


def test_callbacks_see_blocks_of_one_step():
    losses = []

    class Losses(Callback):
        def on_block_end(self, fit):
            losses.extend(fit.losses)
            assert fit.batches is fit.training is None
            return "stop" if fit.step == 9 else None

    stopping = EarlyStopping(restore_best=False)
    model = new()
    history = model.train(batches(), epochs=5, callbacks=[Losses(), stopping])
    assert len(losses) == model.progress.step == 9
    assert history.n_epochs == 2
    assert history["loss"][1] == pytest.approx(np.mean(losses[6:9]))
    assert stopping.best_epoch_ in (1, 2)


def test_schedules_know_the_length_if_it_is_known():
    for source, limits in ((batches(), {"epochs": 3}), (Loader(), {"n_steps": 18})):
        model = new(optimizer=SGD(Cosine(0.1)))
        assert model.train(source, **limits)["lr"][-1] == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="n_steps"):
        new(optimizer=SGD(Cosine(0.1))).train(Loader(), epochs=3)


def test_a_lazy_module_gets_its_shapes():
    model = Model(nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3)), "log_loss", random_state=0)
    history = model.train(generate, epochs=2, X_val=X, y_val=CLASSES)
    assert history["validation_loss"][1] < history["validation_loss"][0]


class Dies(Callback):
    order = 2

    def __init__(self, at):
        self.at = at

    def on_block_end(self, fit):
        if fit.step == self.at:
            raise RuntimeError("died")


def of_many_lengths():
    for rows in (5, 7, 5, 3, 7, 3, 5):
        yield X[:rows], CLASSES[:rows]


STREAMS = {
    "list": (batches, {"epochs": 4}),
    "loader": (Loader, {"epochs": 3}),
    "generator function": (lambda: generate, {"epochs": 3}),
    "without end": (lambda: generate, {"n_steps": 17, "steps_per_epoch": 5}),
    "generator": (generate, {"steps_per_epoch": 2, "epochs": 2}),
    "of many lengths": (lambda: of_many_lengths, {"epochs": 3}),
    "validated": (batches, {"epochs": 3, "X_val": X, "y_val": CLASSES, "scores": "accuracy"}),
}


def assert_same_fit(one, other):
    (model, history), (its_model, its_history) = one, other
    assert_same_state(model.state, its_model.state)
    assert {n: c for n, c in history.items() if n != "time"} == {
        n: c for n, c in its_history.items() if n != "time"
    }


@pytest.mark.parametrize("every", [1, "2 steps"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_resumed(tmp_path, name, every):
    make, limits = STREAMS[name]
    whole = new()
    history = whole.train(make(), **limits)
    for at in (1, whole.progress.step // 2, whole.progress.step - 1):
        folder = tmp_path / str(at)
        with pytest.raises(RuntimeError, match="died"):
            new().train(make(), **limits, callbacks=[Checkpoint(folder, every=every), Dies(at)])
        rest = new()
        saved = Checkpoint(folder, every=every, resume=True)
        assert_same_fit((whole, history), (rest, rest.train(make(), **limits, callbacks=[saved])))


def test_a_finished_stream_continues_to_a_larger_limit(tmp_path):
    whole, part = new(), new()
    history = whole.train(generate, n_steps=20, steps_per_epoch=4)
    part.train(generate, n_steps=8, steps_per_epoch=4, callbacks=[Checkpoint(tmp_path)])
    rest = new()
    again = rest.train(generate, n_steps=20, steps_per_epoch=4, resume_from=tmp_path)
    assert_same_fit((whole, history), (rest, again))


def test_other_batches_are_rejected(tmp_path):
    new().train(batches(), epochs=2, callbacks=[Checkpoint(tmp_path)])
    for changed, message in (
        ([(X[:20] + 1, CLASSES[:20]), *batches()[1:]], "with other data: first batch's X has other values"),
        (
            [*batches()[:-1], (batches()[-1][0] + 1, batches()[-1][1])],
            "other batches: the last one before it was",
        ),
        (batches()[:1], "other batches: there were more of them"),
    ):
        with pytest.raises(StateError, match=message):
            new().train(changed, epochs=3, resume_from=tmp_path)


class Added(nn.Module):
    """Reads inputs that are called what other arrays of a batch are."""

    def __init__(self):
        self.last = nn.Linear(X.shape[1], 3)

    def forward(self, y, sample_weight):
        return self.last(y + sample_weight)


@pytest.mark.parametrize("name", ["y", "sample_weight"])
@pytest.mark.parametrize(
    ("number", "message"), [(0, "first batch's .* has other values"), (-1, "other batches")]
)
def test_other_inputs_are_rejected_whatever_they_are_called(tmp_path, name, number, message):
    weight = np.ones(20)
    given = [({"y": X[:20] + i, "sample_weight": X[:20] - i}, CLASSES[:20], weight) for i in range(3)]
    Model(Added(), "log_loss", random_state=0).train(given, epochs=2, callbacks=[Checkpoint(tmp_path)])
    inputs, *others = given[number]
    given[number] = ({**inputs, name: inputs[name] + 1}, *others)
    with pytest.raises(StateError, match=message):
        Model(Added(), "log_loss", random_state=0).train(given, epochs=3, resume_from=tmp_path)


BAD = [
    (3, {}, TypeError, r"Model.train expects an iterable of batches \(X, y\) .* got int"),
    ([], {}, ValueError, r"Model.train got no batches: the iterable is empty"),
    (lambda: iter(()), {"n_steps": 3}, ValueError, r"Model.train got no batches"),
    (iter(batches()), {"epochs": 2}, ValueError, r"a generator can be iterated only once: pass a list"),
    (batches(), {"epochs": 0}, ValueError, r"'epochs' parameter of Model.train must be a positive int"),
    (batches(), {"n_steps": 2.5}, ValueError, r"'n_steps' parameter of Model.train must be a positive int"),
    (batches(), {"y_val": CLASSES}, TypeError, r"X_val is missing"),
    ([X], {}, TypeError, r"the first batch must be a tuple \(X, y\) .* got ndarray"),
    ([(X,)], {}, TypeError, r"the first batch must be a tuple \(X, y\) .* got tuple of 1"),
    ([(X, CLASSES[1:])], {}, ShapeError, r"X has 103 rows, but y has shape \(102,\)"),
    ([(X, ["a"] * 103)], {}, DtypeError, r"y must be numeric"),
]


ARRAYS = {
    "both": ((X, CLASSES), {}),
    "lists": ((X.tolist(), CLASSES.tolist()), {}),
    "with weights": ((X, CLASSES, np.ones(len(X))), {"epochs": 2}),
    "by name": ((), {"X": X, "y": CLASSES}),
    "the targets by name": ((X,), {"y": CLASSES}),
    "one alone": ((X,), {}),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_sent_to_fit(name):
    args, params = ARRAYS[name]
    with pytest.raises(
        TypeError, match=r"Model.train expects batches, .* Model.fit\(X, y\) trains on arrays"
    ):
        new().train(*args, **params)


@pytest.mark.parametrize(("source", "params", "error", "message"), BAD)
def test_bad_use_changes_nothing(source, params, error, message):
    model = new()
    before = model.state
    with pytest.raises(error, match=message):
        model.train(source, **params)
    assert_same_state(model.state, before)


def test_a_bad_batch_is_named():
    wrong = (X[:20], CLASSES[:19])
    with pytest.raises(ShapeError, match="X has 20 rows, but y has shape") as caught:
        new().train([*batches()[:2], wrong], epochs=2)
    assert "in batch 3 of epoch 1" in caught.value.__notes__
    with pytest.raises(NonFiniteError, match="training diverged in batch 2 of epoch 1: the loss is nan"):
        new().train([batches()[0], (X[:20] * np.nan, CLASSES[:20])])
    with pytest.raises(TypeError, match="LBFGS"):
        new(optimizer=LBFGS()).train(batches())


class Both(nn.Module):
    """Two inputs: numbers, and words."""

    def __init__(self):
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(9, 3)

    def forward(self, x, words):
        return self.head(ops.concat([x, self.words(words).mean(axis=1)], axis=-1))


@pytest.mark.parametrize("compile", [True, False])
def test_several_inputs(compile):
    """Rows, batches and steps agree."""
    words = RNG.integers(0, 9, (103, 2))
    parts = [slice(start, start + 20) for start in range(0, 103, 20)]
    models = [Model(Both(), "log_loss", SGD(0.1), random_state=0, compile=compile) for _ in range(3)]
    held_out = {"X_val": {"x": X, "words": words}, "y_val": CLASSES}
    rows = {"x": X.astype("f8"), "words": words}
    fitted = models[0].fit(rows, CLASSES, epochs=2, batch_size=20, shuffle=False, **held_out)
    some = [({"x": X[part], "words": words[part]}, CLASSES[part]) for part in parts]
    trained = models[1].train(some, epochs=2, **held_out)
    assert trained["validation_loss"] == pytest.approx(fitted["validation_loss"])
    assert_same_state(models[1].state, models[0].state)
    for inputs, y in some * 2:
        models[2].step(inputs, y)
    for name, array in models[2].parameters.items():
        np.testing.assert_allclose(models[0].parameters[name], array, rtol=1e-4, atol=1e-6)
    with pytest.raises(ShapeError, match=r"X\['x'\] has 20 rows, but X\['words'\] has shape \(103, 2\)"):
        models[0].train([({"x": X[:20], "words": words}, CLASSES[:20])])
    with pytest.raises(ShapeError, match="must have at least one row, got no inputs"):
        models[0].fit({}, CLASSES)
