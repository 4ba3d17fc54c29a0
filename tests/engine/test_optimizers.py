"""Every kind of optimizer in the engine: eager, compiled, native, functional, and on another device."""

import copy
import pickle

import numpy as np
import pytest

from sknet import Model, nn
from sknet.callbacks import Callback, EarlyStopping
from sknet.core import no_grad
from sknet.device import to_host
from sknet.exceptions import GradientError, NonFiniteError
from sknet.optim import (
    EMA,
    OPTIMIZERS,
    SGD,
    SWA,
    Accumulate,
    Adam,
    AdamW,
    ClipNorm,
    ClipValue,
    Groups,
    Lookahead,
    Muon,
    Optimizer,
    RateFactors,
    ScheduleFreeAdamW,
    WeightDecay,
)
from sknet.optim.schedules import Adaptive, Cosine, Linear
from tests.compile.native import trained
from tests.engine.helpers import CLASSES, X, assert_same, assert_same_state, classifier

PLAIN = [optimizer() for name, optimizer in OPTIMIZERS.items() if name not in ("lbfgs", "muon")]
ELEMENTWISE = [
    *PLAIN,
    ClipNorm(Adam(), 0.1),
    ClipNorm(ClipNorm(SGD(0.1), 0.5), 0.1),
    ClipValue(Adam(), 0.01),
    WeightDecay(Adam(), 0.1),
    WeightDecay(SGD(0.1, momentum=0.9), 0.1, "*.bias"),
    WeightDecay(Adam(Cosine(0.01, n_steps=40)), Linear(0.1, n_steps=30), {"*.weight": 1.0, "0.*": 0.5}),
    AdamW(weight_decay=Cosine(0.5, n_steps=30)),
    RateFactors(Adam(Cosine(0.01, n_steps=40)), {"*.bias": 0.1, "0.weight": 6.0}),
    ClipNorm(RateFactors(WeightDecay(SGD(0.1, momentum=0.9), 0.1), {"0.*": 0.0}), 0.1),
    RateFactors(EMA(Accumulate(Adam(), 2), 0.9), {"*": 0.5}),
    EMA(Adam(), 0.9),
    SWA(Adam(), start=5, every=2),
    Accumulate(ClipNorm(Adam(), 0.1), 3),
    Lookahead(Adam()),
    EMA(ClipNorm(WeightDecay(ScheduleFreeAdamW(weight_decay=0.1, warmup=5)), 0.1)),
]
BY_NAME = [
    Muon(),
    RateFactors(Groups({"0.*": SGD(0.1, momentum=0.9), "*": Adam()}), {"*.bias": 0.1}),
    WeightDecay(ClipNorm(Muon(), 0.1), 0.1),
    Accumulate(Muon(rest=EMA(SGD(0.1))), 2),
    Groups({"0.*": SGD(0.1, momentum=0.9), "*": Adam()}),
    ClipNorm(Groups({"*.bias": EMA(Adam()), "*": WeightDecay(SGD(0.1), 0.1)}), 0.1),
]
AVERAGING = [
    EMA(SGD(0.1), 0.9),
    SWA(Adam(0.05), start=4),
    ScheduleFreeAdamW(0.05),
    Accumulate(ClipNorm(EMA(Adam(0.05), 0.8), 1.0), 2),
    Groups({"0.*": EMA(Adam(0.05), 0.9), "*": SGD(0.1)}),
    Muon(rest=EMA(SGD(0.1), 0.9)),
    RateFactors(EMA(SGD(0.1), 0.9), {"*.bias": 0.1}),
    ClipNorm(RateFactors(ScheduleFreeAdamW(0.05), {"0.weight": 3.0}), 1.0),
]


def name_of(optimizer):
    return " ".join(str(optimizer).split())


def named(optimizers):
    return pytest.mark.parametrize("optimizer", optimizers, ids=name_of)


def network():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))


RNG = np.random.default_rng(0)
ROWS, LABELS = RNG.standard_normal((200, 20)), RNG.integers(0, 3, 200)


def train_by(kind, optimizer, dtype="float64", epochs=5):
    settings = {"size": 20, "epochs": epochs, "optimizer": optimizer, "loss": "log_loss", "dtype": dtype}
    return trained(kind, network(), ROWS, LABELS, **settings)


def assert_close(model, other, tolerance):
    for mine, theirs in (
        (model.state.parameters, other.state.parameters),
        (model.state.optimizer.slots, other.state.optimizer.slots),
    ):
        assert mine.keys() == theirs.keys()
        for name, array in mine.items():
            np.testing.assert_allclose(array, theirs[name], rtol=tolerance, atol=tolerance)


@named([*ELEMENTWISE, *BY_NAME])
def test_steps_that_may_round_otherwise_stay_near(optimizer):
    eager, eager_losses, *_ = train_by("eager", optimizer, epochs=2)
    compiled, losses, *_ = train_by("compiled", optimizer, epochs=2)
    np.testing.assert_allclose(losses, eager_losses, rtol=1e-9)
    assert_close(compiled, eager, 1e-9)


@named([*ELEMENTWISE, *BY_NAME, EMA(Accumulate(ClipNorm(WeightDecay(Adam(), 0.1), 0.1), 2), 0.9)])
def test_native_code_gives_the_same_bits(optimizer):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    expected, losses, *_ = train_by("compiled", optimizer, epochs=1)
    found, native_losses, *_ = train_by("native", optimizer, epochs=1)
    np.testing.assert_array_equal(native_losses, losses)
    assert_same_state(found.state, expected.state)


@named([*ELEMENTWISE, *BY_NAME])
def test_the_functional_form_does_the_same(optimizer):
    stepped = classifier(optimizer=optimizer, noisy=True)
    model = classifier(optimizer=optimizer, noisy=True)
    for _ in range(4):
        stepped.step(X, CLASSES)
        model = model.replace(model.update(model.backward(model.loss(model(X), CLASSES))))
    assert_same_state(model.state, stepped.state)


@named([Muon(), ClipNorm(Groups({"0.*": SGD(0.1), "*": EMA(Adam())}), 0.1), WeightDecay(EMA(Adam()), 0.1)])
def test_on_another_device(optimizer, fake_device):
    there = classifier(optimizer=optimizer, device=fake_device, dtype="float64")
    here = classifier(optimizer=optimizer, dtype="float64")
    for _ in range(3):
        there.step(X, CLASSES)
        here.step(X, CLASSES)
    for name, array in here.evaluation_parameters.items():
        np.testing.assert_allclose(to_host(there.evaluation_parameters[name]), array, rtol=1e-7)
    np.testing.assert_allclose(to_host(there.predict(X)), here.predict(X), rtol=1e-7)


@named([Adam(0.1), SGD(0.1, momentum=0.9), Muon()])
def test_accumulated_batches_are_one_step_with_the_joined_batch(optimizer):
    parts = classifier(optimizer=Accumulate(optimizer, 3), dtype="float64")
    joined = classifier(optimizer=optimizer, dtype="float64")
    for _ in range(3):
        for start in (0, 4, 8):
            parts.step(X[start : start + 4], CLASSES[start : start + 4])
        joined.step(X, CLASSES)
        for name, array in joined.parameters.items():
            np.testing.assert_allclose(parts.parameters[name], array, rtol=1e-10, atol=1e-13)


# -- averages ---------------------------------------------------------------------------------------


def averaged_by_hand(model):
    """The optimizer's averages of parameters and slots, as trees."""
    state = model.state
    slots = {name: model.memory.layout.views(array) for name, array in state.optimizer.slots.items()}
    return model.optimizer.averaged(dict(state.parameters), state.optimizer._replace(slots=slots))


@named(AVERAGING)
def test_averages_predict_and_the_others_are_trained(optimizer):
    model = classifier(optimizer=optimizer, dtype="float64")
    assert_same(model.evaluation_parameters, model.parameters)
    before = model.predict(X)
    for _ in range(8):
        model.step(X, CLASSES)
    expected = averaged_by_hand(model)
    assert_same(model.evaluation_parameters, expected)
    assert not np.array_equal(expected["0.bias"], model.parameters["0.bias"])
    plain = classifier(optimizer="sgd", dtype="float64")
    plain.load(plain.state._replace(parameters=expected))
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-12)
    assert not np.array_equal(model.predict(X), before)
    trained_output = model(X).data
    plain.load(plain.state._replace(parameters=model.parameters))
    np.testing.assert_allclose(trained_output, plain(X).data, rtol=1e-12)


@named(AVERAGING)
def test_copies_predict_and_continue_alike(optimizer):
    model = classifier(optimizer=optimizer, dtype="float64")
    for _ in range(5):
        model.step(X, CLASSES)
    expected = model.predict(X)
    copies = [
        pickle.loads(pickle.dumps(model)),
        model.copy(),
        copy.deepcopy(model),
        model.replace(model.state),
        classifier(optimizer=optimizer, dtype="float64"),
    ]
    copies[-1].load(model.state)
    model.step(X, CLASSES)
    for other in copies:
        np.testing.assert_array_equal(other.predict(X), expected)
        other.step(X, CLASSES)
        assert_same_state(other.state, model.state)
        np.testing.assert_array_equal(other.predict(X), model.predict(X))


def test_averages_have_no_gradient():
    model = classifier(optimizer=EMA(SGD()))
    with pytest.raises(GradientError, match="does not depend on this model's parameters"):
        model.backward(model.loss(model(X, training=False), CLASSES))


def evaluated(model):
    """Return loss and accuracy of the rows as the model predicts them."""
    with no_grad():
        output = model(X, training=False)
        return [model.loss(output, CLASSES).item(), (output.data.argmax(axis=1) == CLASSES).mean()]


class LastValidation(Callback):
    """Evaluates after every epoch, before the best weights are restored."""

    def on_epoch_end(self, fit):
        self.found_ = evaluated(fit.model)


@named(AVERAGING)
def test_the_best_epoch_is_one_of_averages(optimizer):
    model = classifier(optimizer=optimizer, dtype="float64")
    last = LastValidation()
    callbacks = [last, EarlyStopping("validation_score", patience=10, tol=0.0)]
    told = {"epochs": 15, "batch_size": 4, "scores": {"score": "accuracy"}, "callbacks": callbacks}
    history = model.fit(X, CLASSES, **told, X_val=X, y_val=CLASSES)
    numbers = np.stack([history["validation_loss"], history["validation_score"]], axis=1)
    np.testing.assert_allclose(numbers[-1], last.found_)
    np.testing.assert_allclose(numbers[np.argmax(history["validation_score"])], evaluated(model))
    assert_same(model.evaluation_parameters, averaged_by_hand(model))


def test_weights_of_a_plain_optimizer_have_no_slots():
    model = classifier()
    model.step(X, CLASSES)
    assert model.weights().slots == {}


# -- state that is kept, and state that is reset ------------------------------------------------------------


def test_a_combinator_continues_only_around_the_same_optimizer():
    model = classifier(optimizer=EMA(Adam()))
    model.step(X, CLASSES)
    kept = model.state.optimizer.slots
    model.adopt(EMA(Adam(lr=0.5), 0.5), model.loss_function, 0.0)
    assert_same(model.state.optimizer.slots, kept)
    assert model.progress.step == 1
    model.adopt(EMA(SGD()), model.loss_function, 0.0)
    assert list(model.state.optimizer.slots) == ["lag", "optimizer.velocity"]
    assert model.progress.step == 0


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (Groups({"0.*": SGD()}), r"a pattern for every parameter.* none of which '2\.weight' matches"),
        (ClipNorm(WeightDecay(SGD(), parameters="body.*")), r"'body\.\*', which matches none of"),
    ],
)
def test_patterns_are_checked_when_a_model_is_made(optimizer, message):
    with pytest.raises(ValueError, match=message):
        classifier(optimizer=optimizer)
    model = classifier()
    with pytest.raises(ValueError, match=message):
        model.adopt(optimizer, model.loss_function, 0.0)
    assert model.optimizer == Adam()


# -- failures ---------------------------------------------------------------------------------------


class FailsLater(Optimizer):
    """Raises in the second chunk of a large network."""

    slots = ("sum",)

    def __init__(self, lr=0.1):
        self.lr = lr

    def rule(self, gradient, param, slots, hyper):
        if gradient.shape[0] != 1 << 15:
            raise RuntimeError("too short")
        return -hyper["lr"] * gradient, (slots[0] + gradient,)


def test_a_rule_that_fails_later_changes_nothing():
    model = Model(nn.Linear(300, 200), optimizer=FailsLater(), random_state=0)
    before = model.state
    with pytest.raises(RuntimeError, match="too short"):
        model.step(np.ones((3, 300)), np.ones((3, 200)))
    assert_same_state(model.state, before)


@pytest.mark.parametrize("optimizer", [Adam(), ClipNorm(SGD()), EMA(Adam()), SGD(1e-30)], ids=name_of)
def test_squares_that_overflow(optimizer):
    model = Model(nn.Linear(4, 1, bias=False), loss="absolute_error", optimizer=optimizer, random_state=0)
    before = model.state
    batch = np.full((2, 4), 1e25), np.zeros((2, 1))
    if isinstance(optimizer, SGD):
        model.step(*batch)
        return
    message = r"'weight' is finite, but the optimizer squares it, and the square is too large for float32"
    with pytest.raises(NonFiniteError, match=message) as raised:
        model.step(*batch)
    assert raised.value.parameter == "weight"
    assert_same_state(model.state, before)


# -- schedules with their own patience ---------------------------------------------------------------


def rates(schedule, max_iter, n_iter_no_change, verbose=False):
    model = classifier(optimizer=SGD(schedule), dtype="float64")
    # no epoch is an improvement but the first
    stopping = EarlyStopping("loss", patience=n_iter_no_change, tol=10.0, restore_best=False, verbose=verbose)
    return model.fit(X, CLASSES, epochs=max_iter, batch_size=12, callbacks=[stopping])["lr"]


def test_patience_of_its_own_lowers_the_rate_and_stops_later():
    found = rates(Adaptive(0.8, factor=2.0, patience=1), 50, n_iter_no_change=6)
    assert found == [0.8, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.1]


def test_without_it_the_patience_of_the_fit_counts():
    found = rates(Adaptive(0.8, factor=2.0, min_lr=0.4), 50, n_iter_no_change=1)
    assert found == [0.8, 0.8, 0.8, 0.4, 0.4]


def test_messages_about_lowered_rates(capsys):
    rates(Adaptive(0.8, factor=2.0, patience=1), 50, n_iter_no_change=3, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    missed = "Training loss did not improve more than tol=10.000000 for"
    said = [line for line in lines if line.startswith("Training loss")]
    assert said == [
        f"{missed} 1 consecutive epochs. Setting learning rate to 0.400000",
        f"{missed} 1 consecutive epochs. Setting learning rate to 0.200000",
        f"{missed} 3 consecutive epochs. Stopping.",
    ]
