"""Model: its parts, its step in place, and invalid input."""

import inspect
import pickle
import re

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn, ops
from sknet.core import Tensor
from sknet.device import to_host
from sknet.exceptions import (
    DeviceError,
    DtypeError,
    GradientError,
    InvalidParameterError,
    NonFiniteError,
    ShapeError,
    StateError,
)
from sknet.losses import LogLoss, SquaredError
from sknet.optim import LBFGS, SGD, Adam, ClipNorm, Optimizer
from sknet.optim.schedules import (
    Adaptive,
    Exponential,
    InverseScaling,
    Joined,
    MultiStep,
    Progress,
    Step,
    WarmUp,
)
from tests.engine.helpers import CLASSES, REAL, WEIGHT, X, assert_same, assert_same_state, classifier, network
from tests.project import ROOT

# -- what a step returns -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_step_returns_what_it_did(dtype):
    model = classifier(dtype=dtype, alpha=0.5)
    before = {name: array.copy() for name, array in model.parameters.items()}
    raw = model(X).numpy()
    result = model.step(X, CLASSES)
    assert result.loss == result.data_loss + result.penalty
    assert list(result.gradient) == list(result.update) == list(before)
    for name, array in model.parameters.items():
        assert array.dtype == result.gradient[name].dtype == dtype
        np.testing.assert_array_equal(array, before[name] + result.update[name])
    np.testing.assert_array_equal(result.output.numpy(), raw)
    assert not result.output.requires_grad
    assert model.progress.step == 1


@pytest.mark.parametrize(
    "weight", [None, WEIGHT, np.ones(12, int)], ids=["no weights", "weights", "integers"]
)
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_loss_is_the_weighted_mean_plus_the_penalty(weight, alpha):
    model = Model(network(2), "squared_error", alpha=alpha, dtype="float64", random_state=0)
    values = 0.5 * ((model(X).numpy() - REAL) ** 2).sum(axis=1)
    expected = np.average(values, weights=weight)
    total = len(X) if weight is None else weight.sum()
    squares = sum((p**2).sum() for name, p in model.parameters.items() if name.endswith("weight"))
    assert model.loss(model(X), REAL, weight).item() == pytest.approx(
        expected + 0.5 * alpha * squares / total
    )
    result = model.step(X, REAL, weight)
    assert result.data_loss == pytest.approx(expected)
    assert result.penalty == pytest.approx(0.5 * alpha * squares / total)
    assert isinstance(result.loss, float)


@pytest.mark.parametrize("activation", [nn.Sigmoid, nn.Tanh, nn.ReLU, nn.GELU])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
def test_gradient_is_the_slope_of_the_loss(activation, weight):
    """Against central differences in every parameter, as scikit-learn's own test of its gradient."""
    net = nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, 3))
    model = Model(net, "log_loss", alpha=0.1, dtype="float64", random_state=0)
    gradient = model.backward(model.loss(model(X), CLASSES, weight))
    state, h = model.state, 1e-6
    for name, array in state.parameters.items():
        for place in np.ndindex(array.shape):
            losses = []
            for sign in (1, -1):
                moved = array.copy()
                moved[place] += sign * h
                other = model.replace(state._replace(parameters={**state.parameters, name: moved}))
                losses.append(other.loss(other(X), CLASSES, weight).item())
            assert gradient[name][place] == pytest.approx(
                (losses[0] - losses[1]) / (2 * h), rel=1e-5, abs=1e-9
            )


def test_initial_weights_come_from_the_random_state_in_float64():
    wide, narrow = classifier(dtype="float64"), classifier(dtype="float32")
    drawn = np.random.RandomState(0).uniform(-np.sqrt(6 / 12), np.sqrt(6 / 12), (4, 8))
    np.testing.assert_array_equal(wide.parameters["0.weight"], drawn)
    np.testing.assert_array_equal(narrow.parameters["0.weight"], drawn.astype("float32"))


def test_weights_that_a_module_has_are_kept():
    layer = nn.Linear(4, 3).initialize(5)
    weight = layer.weight.numpy().copy()
    np.testing.assert_array_equal(Model(layer, random_state=0).parameters["weight"], weight)


def test_modules_parameters_are_views_that_follow():
    model = classifier()
    model.step(X, CLASSES)
    first = model.module[0].weight
    assert np.shares_memory(first.data, model.parameters["0.weight"])
    with pytest.raises(TypeError, match="does not support item assignment"):
        model.parameters["0.weight"] = 1


def test_frozen_parameters_are_not_trained():
    net = network()
    net[0].weight.requires_grad = False
    model = Model(net, "log_loss", random_state=0)
    before = net[0].weight.numpy().copy()
    result = model.step(X, CLASSES)
    assert list(result.gradient) == ["0.bias", "2.weight", "2.bias"]
    np.testing.assert_array_equal(net[0].weight.numpy(), before)


def test_shared_parameters_are_trained_once():
    layer = nn.Linear(4, 4)
    model = Model(nn.Sequential(layer, nn.Tanh(), layer), dtype="float64", random_state=0)
    assert list(model.parameters) == ["0.weight", "0.bias"]
    target = np.zeros((12, 4))
    numbers = [model.step(X, target).loss for _ in range(20)]
    assert numbers[-1] < numbers[0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop", SGD(0.1, 0.9, True)])
def test_every_optimizer_descends(optimizer):
    model = classifier(optimizer=optimizer, dtype="float64")
    losses = [model.step(X, CLASSES).loss for _ in range(50)]
    assert losses[-1] < losses[0]


def test_sparse_inputs_give_the_dense_step():
    sparse, dense = classifier(dtype="float64"), classifier(dtype="float64")
    data = np.where(X > 0, X, 0)
    for _ in range(3):
        a, b = sparse.step(scipy.sparse.csr_array(data), CLASSES), dense.step(data, CLASSES)
        assert a.loss == pytest.approx(b.loss)
    for name in dense.parameters:
        np.testing.assert_allclose(sparse.parameters[name], dense.parameters[name])


def test_sparse_inputs_go_to_the_device_of_the_model(fake_device):
    data, found = scipy.sparse.csr_array(np.where(X > 0, X, 0)), []
    for place in ("cpu", fake_device):
        model = Model(nn.Linear(X.shape[1], 3), "log_loss", random_state=0, dtype="float64", device=place)
        loss = model.step(data, CLASSES).loss
        found.append([float(loss), to_host(model.predict(data)), to_host(model(data).data)])
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here)


def test_lists_and_tensors_are_taken_too():
    models = [classifier() for _ in range(3)]
    single = X.astype("float32")
    results = [
        models[0].step(single, CLASSES),
        models[1].step(single.tolist(), CLASSES.tolist()),
        models[2].step(Tensor(single), Tensor(CLASSES)),
    ]
    assert len({result.loss for result in results}) == 1


def test_prediction_uses_the_link_and_changes_nothing():
    model = classifier(noisy=True)
    state = model.state
    probabilities = model.predict(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(probabilities, model.predict(X))
    assert_same_state(model.state, state)


PUBLIC = sorted(name for name in {*dir(Model), *vars(classifier())} if not name.startswith("_"))
GUIDE = "\n".join(path.read_text() for path in (ROOT / "docs/guide").glob("*.md"))
SHOWN = set(re.findall(r"\b(?:model|classifier|lazy)\.(\w+)", GUIDE))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_shown_in_the_guide(name):
    assert name in SHOWN


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented_with_an_example(name):
    """A method has an example; attributes are described in the docstring of the class."""
    method = getattr(Model, name, None)
    if callable(method):
        assert re.search(r"Examples\n-+\n(.*\n)*>>>", inspect.getdoc(method))
        assert "Parameters\n-" in inspect.getdoc(method) or len(inspect.signature(method).parameters) == 1
    else:
        attributes = inspect.getdoc(Model).split("Attributes\n")[1].split("\n\n")[0]
        assert name in re.findall(r"\w+", "\n".join(re.findall(r"^(\w.*) : ", attributes, re.MULTILINE)))


def test_repr_names_the_parts():
    shown = repr(classifier(optimizer=Adam(lr=0.5)))
    assert "Linear(4, 8)" in shown
    assert "loss=LogLoss()" in shown
    assert "optimizer=Adam(lr=0.5)" in shown


# -- what it refuses ---------------------------------------------------------------------------------

MAKING = [
    (
        lambda: Model(nn.Linear),
        TypeError,
        r"a Model needs a module, got type: pass an instance of nn\.Module",
    ),
    (
        lambda: classifier(loss="logloss"),
        ValueError,
        r"'loss' parameter of Model .* Did you mean 'log_loss' or 'log_cosh'\?",
    ),
    (lambda: classifier(loss=LogLoss), ValueError, r"Pass an instance: LogLoss\(\)"),
    (
        lambda: classifier(optimizer="adm"),
        ValueError,
        r"'optimizer' parameter of Model .* Did you mean 'adam'",
    ),
    (lambda: classifier(optimizer=Adam), ValueError, r"Pass an instance: Adam\(\)"),
    (
        lambda: classifier(optimizer=Adam(lr=-1)),
        ValueError,
        r"'lr' parameter of Adam must be a float in the range",
    ),
    (
        lambda: classifier(alpha=-1),
        ValueError,
        r"'alpha' parameter of Model must be a float in the range \[0, inf\)",
    ),
    (lambda: classifier(alpha=np.nan), ValueError, r"'alpha' parameter .* Got nan instead"),
    (lambda: classifier(alpha="a"), ValueError, r"'alpha' parameter .* Got 'a' instead"),
    (lambda: classifier(dtype="float16"), DtypeError, r"dtype of a Model must be one of .* got 'float16'"),
    (lambda: classifier(device="gpu"), DeviceError, r"unknown device 'gpu'"),
    (lambda: classifier(device="cpu:1"), DeviceError, r"only one 'cpu' device"),
    (lambda: classifier(random_state="a"), ValueError, r"'a' cannot be used to seed"),
]


@pytest.mark.parametrize(("make", "error", "message"), MAKING)
def test_making_one_is_checked(make, error, message):
    with pytest.raises(error, match=message):
        make()


class Tripped(Optimizer):
    """Fails, or returns an invalid value."""

    slots = ("a", "b")

    def __init__(self, how: str = "raises", lr: float = 0.1) -> None:
        self.how = how
        self.lr = lr

    def hyper(self, count, progress):
        if self.how == "schedule":
            raise RuntimeError("no rate")
        return {"lr": 0.1}

    def rule(self, gradient, param, slots, hyper):
        if self.how == "raises":
            raise RuntimeError("no rule")
        return -0.1 * gradient, (slots[0] + 1.0,)


def step(*args):
    return lambda model: model.step(*args)


def foreign(model):
    other = classifier()
    return model.backward(other.loss(other(X), CLASSES))


NAN = np.where(np.eye(12, 4) > 0, np.nan, X)
NO_NUMBERS = "a tensor holds booleans, integers or real numbers, got dtype "
STEPS = [
    ({}, step(NAN, CLASSES), NonFiniteError, r"the loss is nan and the gradient of parameter '0\.weight'"),
    ({}, step(X * np.inf, CLASSES), NonFiniteError, r"is not finite; nothing was updated\. Scale the inputs"),
    ({}, step(X, CLASSES, WEIGHT * np.nan), NonFiniteError, "the loss is nan"),
    ({}, step(X, CLASSES, 0 * WEIGHT), ValueError, "at least one weight must be positive, got zeros only"),
    ({}, step(X, CLASSES, -WEIGHT), ValueError, r"sample_weight must have a positive sum, got -\d"),
    ({}, step(X, CLASSES, WEIGHT[:5]), ShapeError, r"sample_weight must have shape \(12,\), got \(5,\)"),
    ({}, step(X, CLASSES, WEIGHT[:, None]), ShapeError, r"must have shape \(12,\), .* got \(12, 1\)"),
    ({}, step(X, CLASSES - 1), ValueError, r"y must be a class, an integer from 0, but y\[0\] is -1"),
    ({}, step(X, CLASSES + 1), ValueError, r"y must be a class, an integer from 0 to 2, but y\[\d+\] is 3"),
    ({}, step(X, CLASSES + 1), ValueError, r"the last layer of the network is '\d': Linear\(\d+, 3\)"),
    ({}, step(X, CLASSES + 0.5), DtypeError, "targets of dtype float32 for 3 classes; they must be integers"),
    ({}, step(X[:5], CLASSES), ShapeError, r"an output of shape \(5, 3\) and a target of shape \(12,\)"),
    ({}, step(X[:, :3], CLASSES), ShapeError, r"expected an input of shape \(\.\.\., 4\), got \(12, 3\)"),
    ({}, step(X + 0j, CLASSES), DtypeError, NO_NUMBERS + "complex128"),
    ({}, step(X.astype(object), CLASSES), DtypeError, NO_NUMBERS + "object"),
    ({}, step(None, CLASSES), DtypeError, NO_NUMBERS + "object"),
    ({"loss": "squared_error"}, step(X, CLASSES), ShapeError, "Nothing is broadcast"),
    ({"optimizer": "lbfgs"}, step(X, CLASSES), TypeError, r"LBFGS goes over the full batch .* Adam\(\)"),
    ({"optimizer": LBFGS()}, lambda model: model.update({}), TypeError, "LBFGS goes over the full batch"),
    ({"optimizer": Tripped()}, step(X, CLASSES), RuntimeError, "no rule"),
    ({"optimizer": Tripped("schedule")}, step(X, CLASSES), RuntimeError, "no rate"),
    (
        {"optimizer": Tripped("short")},
        step(X, CLASSES),
        StateError,
        r"returned 1 slots, but `slots` names 2: \('a', 'b'\)",
    ),
    ({}, lambda model: model.backward(model(X)), GradientError, "only a scalar can be differentiated"),
    (
        {},
        lambda model: model.backward(Tensor(1.0)),
        GradientError,
        "does not depend on this model's parameters",
    ),
    ({}, foreign, GradientError, "does not depend on this model's parameters"),
]


@pytest.mark.parametrize(("params", "call", "error", "message"), STEPS)
def test_a_failing_step_changes_nothing(params, call, error, message):
    model = classifier(noisy=True, **params)
    if not isinstance(model.optimizer, (LBFGS, Tripped)) and not params:
        model.step(X, CLASSES)
    state, drawn = model.state, model.random_state.get_state()[1].copy()
    with pytest.raises(error, match=message):
        call(model)
    assert_same_state(model.state, state)
    np.testing.assert_array_equal(model.random_state.get_state()[1], drawn)


class Failing(LogLoss):
    """Fails in the forward pass, or while the gradient is taken."""

    def values(self, output, target):
        raise RuntimeError("no loss")


class FailingModule(nn.Module):
    def __init__(self):
        self.norm = nn.BatchNorm(4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        self.last(self.norm(x))
        raise RuntimeError("no output")


@pytest.mark.parametrize("part", ["loss", "module"])
def test_failing_user_code_changes_nothing(part):
    module, loss = (FailingModule(), "log_loss") if part == "module" else (network(noisy=True), Failing())
    model = Model(module, loss, random_state=0)
    state = model.state
    with pytest.raises(RuntimeError, match="no output" if part == "module" else "no loss"):
        model.step(X, CLASSES)
    assert_same_state(model.state, state)


def test_diverging_step_names_the_first_bad_parameter_without_warnings():
    model = Model(
        nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), SquaredError(), SGD(1e30), random_state=0
    )
    model.step(X, REAL)
    with pytest.raises(NonFiniteError, match=r"the loss is (nan|inf)") as caught:
        model.step(X, REAL)
    assert caught.value.parameter == "0.weight"


def test_finite_gradient_of_large_norm_is_no_divergence():
    """The quick check sums squares, which overflow in float32 long before the gradient does."""
    model = Model(nn.Linear(4, 1, bias=False), loss="absolute_error", optimizer=SGD(1e-30), random_state=0)
    result = model.step(1e25 * np.eye(4, dtype="float32"), np.zeros(4))
    assert np.isfinite(result.gradient["weight"]).all()
    assert float(np.abs(result.gradient["weight"]).max()) ** 2 > 1e39


def test_an_empty_batch_raises():
    with pytest.raises(ShapeError, match="a batch must have at least one row, got none"):
        classifier().step(X[:0], CLASSES[:0])


def test_negative_integers_are_fine_for_a_regression():
    model = Model(nn.Linear(4, 1), random_state=0)
    assert model.step(X, -CLASSES).loss > 0


def test_integer_targets_may_have_more_axes():
    """Class numbers at every step of a sequence, and 0/1 labels."""
    sequences, numbers = X.reshape(4, 3, 4), CLASSES.reshape(4, 3)
    model, rows = classifier(), classifier()
    assert model.step(sequences, numbers).loss == pytest.approx(rows.step(X, CLASSES).loss)
    with pytest.raises(ValueError, match=r"a class, an integer from 0, but y\[0, 0\] is -1"):
        model.step(sequences, numbers - 1)
    labels = Model(nn.Linear(4, 2), loss=LogLoss(multilabel=True), random_state=0)
    assert labels.step(X, np.stack([CLASSES == 0, CLASSES == 1], axis=1).astype(int)).loss > 0


def test_gradient_of_a_custom_loss():
    model = Model(nn.Linear(4, 2), random_state=0, dtype="float64")
    gradient = model.backward(ops.sum(model(X)))
    np.testing.assert_allclose(gradient["weight"], np.outer(X.sum(axis=0), [1, 1]))
    assert_same(dict(gradient), {"weight": gradient["weight"], "bias": np.array([12.0, 12.0])})


# -- lazy modules -------------------------------------------------------------------------------


def lazy_model(**params):
    net = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm(), nn.Tanh(), nn.LazyLinear(3))
    return Model(net, "log_loss", **{"random_state": 0} | params)


def ordinary_model(**params):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(8), nn.Tanh(), nn.Linear(8, 3))
    return Model(net, "log_loss", **{"random_state": 0} | params)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "begin",
    [
        lambda model: model.materialize(X),
        lambda model: model.materialize((1, 4)),
        lambda model: model(X),
        lambda model: model(X.tolist()),
        lambda model: model.predict(X),
        lambda model: pickle.loads(pickle.dumps(model)).materialize(X),
        lambda model: model.copy(),
    ],
)
def test_the_first_batch_makes_a_lazy_model_an_ordinary_one(begin, dtype):
    lazy, ordinary = lazy_model(dtype=dtype), ordinary_model(dtype=dtype)
    assert "LazyLinear" in repr(lazy)
    begin(lazy)
    for _ in range(3):
        assert lazy.step(X, CLASSES).loss == ordinary.step(X, CLASSES).loss
    assert_same_state(lazy.state, ordinary.state)
    assert repr(lazy) == repr(ordinary)


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
def test_fits_of_lazy_models(optimizer):
    lazy, ordinary = lazy_model(optimizer=optimizer), ordinary_model(optimizer=optimizer)
    for model in (lazy, ordinary):
        model.fit(X, CLASSES, epochs=100 if optimizer == "lbfgs" else 3, batch_size=5)
    assert_same_state(lazy.state, ordinary.state)


def test_before_its_first_batch_a_lazy_model_has_no_state():
    model = lazy_model()
    for ask in (lambda: model.state, lambda: model.parameters, lambda: model.replace(None)):
        with pytest.raises(StateError, match=r"lazy and has no parameters .* model\.materialize\(X\)"):
            ask()
    with pytest.raises(ShapeError):
        model.step(X[:, 0], CLASSES)
    assert model.step(X, CLASSES).loss > 0


# -- epochs -------------------------------------------------------------------------------------------

EPOCHS = [
    (Step(0.5, every=1, factor=0.5), [0.5, 0.25, 0.125]),
    (MultiStep(0.5, [2], factor=0.5), [0.5, 0.5, 0.25]),
    (Exponential(0.5, factor=0.5), [0.5, 0.25, 0.125]),
    (InverseScaling(0.5, power=1.0), [0.5, 0.5 / 25, 0.5 / 49]),
    (Joined([Step(0.5, every=1, factor=0.5), 0.1], [99]), [0.5, 0.25, 0.125]),
]


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(("schedule", "rates"), EPOCHS)
def test_schedules_that_count_epochs_are_told_where_they_end(schedule, rates, compile):
    one, other = (classifier(optimizer=SGD(schedule), dtype="float64", compile=compile) for _ in range(2))
    other.epoch_ended()
    for rate in rates:
        with one.epoch(n_steps=2):
            steps = [one.step(X, CLASSES) for _ in range(2)]
        for result in (*steps, other.step(X, CLASSES), other.step(X, CLASSES)):
            for name, array in result.update.items():
                np.testing.assert_allclose(array, -rate * result.gradient[name], rtol=1e-12)
        other.epoch_ended()
    assert one.progress == other.progress == Progress(step=6, epoch=3, samples=72)


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("schedule", [*(row[0] for row in EPOCHS), Adaptive(0.1), WarmUp(Step(0.5, 1), 2)])
def test_without_epochs_they_raise(schedule, compile):
    model = classifier(optimizer=SGD(schedule), compile=compile)
    with pytest.raises(ValueError, match=r"the ends of epochs are not reported: .*with model\.epoch\(\):"):
        model.step(X, CLASSES)
    with pytest.raises(ValueError, match="the ends of epochs are not reported"):
        model.update(model.backward(model.loss(model(X), CLASSES)))
    assert model.progress.step == 0


def test_a_plateau_lowers_an_adaptive_rate():
    model = classifier(optimizer=SGD(Adaptive(0.5, factor=2.0)))
    model.epoch_ended()
    model.step(X, CLASSES)
    model.epoch_ended(plateau=True)
    assert model.optimizer.learning_rate(model.progress) == 0.25


def test_an_epoch_of_another_length_is_not_counted():
    model = classifier()
    with (
        pytest.raises(StateError, match="it should have 3 steps, but has 1"),
        model.epoch(3),
    ):
        model.step(X, CLASSES)
    assert model.progress.epoch == 0


def test_hyperparameters_are_replaced_by_assigning():
    model = classifier(optimizer=SGD(0.1))
    model.step(X, CLASSES)
    model.optimizer = "adam"
    assert model.progress.step == 0
    model.step(X, CLASSES)
    model.optimizer.set_params(beta1=0.5)
    model.step(X, CLASSES)
    assert model.progress.step == 2
    with pytest.raises(InvalidParameterError, match="The 'optimizer' parameter of Model must be"):
        model.optimizer = 3
    with pytest.raises(InvalidParameterError, match="The 'loss' parameter of Model must be"):
        model.loss_function = 3
    with pytest.raises(ValueError, match="The 'alpha' parameter of Model must be a float"):
        model.alpha = -1.0
    assert model.optimizer == Adam(beta1=0.5)


@pytest.mark.parametrize("compile", [True, False, "auto"])
def test_an_optimizer_that_becomes_one_of_another_kind_begins_anew(compile):
    model = classifier(optimizer=ClipNorm(SGD(0.1), 1.0), compile=compile)
    for _ in range(3):
        model.step(X, CLASSES)
    model.optimizer.optimizer = Adam(0.1)
    twin = classifier(optimizer=ClipNorm(Adam(0.1), 1.0), compile=compile)
    twin.load(twin.state._replace(parameters=model.state.parameters))
    for _ in range(3):
        assert model.step(X, CLASSES).loss == twin.step(X, CLASSES).loss
    assert_same_state(model.state, twin.state)


def test_sparse_and_dense_batches_of_one_shape_have_a_program_each():
    compiled, eager = (classifier(compile=mode) for mode in (True, False))
    sparse = scipy.sparse.csr_matrix(X.astype("f4"))
    for batch in (X, sparse, X, sparse):
        assert compiled.step(batch, CLASSES).loss == eager.step(batch, CLASSES).loss
