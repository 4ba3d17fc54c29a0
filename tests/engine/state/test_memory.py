"""Parameters have one owner: however they are written, the model trains what the module shows."""

import copy
import gc
import pickle

import numpy as np
import pytest

from sknet import Model, Tensor, nn, no_grad
from sknet.exceptions import GradientError, StateError
from sknet.optim import EMA, SGD, Adam
from tests.combinations import every
from tests.engine.helpers import CLASSES, X, assert_same, assert_same_state, network

ZEROS = np.zeros((4, 8))


def new(**params):
    return Model(network(3), **{"loss": "log_loss", "optimizer": Adam(0.05), "random_state": 0} | params)


def assert_home(model):
    """Assert that the module shows the model's parameters, and that the next step trains them."""
    known = {**model.parameters, **model.memory.untrained}
    shown = {name: parameter.data for name, parameter in model.module.named_parameters()}
    for name, array in shown.items():
        assert np.shares_memory(array, known[name]), name
        np.testing.assert_array_equal(array, known[name])
    before = {name: array.copy() for name, array in shown.items()}
    result = model.step(X, CLASSES)
    for name, parameter in model.module.named_parameters():
        added = result.update[name] if parameter.requires_grad else 0
        np.testing.assert_array_equal(parameter.numpy(), before[name] + added, err_msg=name)
    np.testing.assert_array_equal(model(X).numpy(), model.module(X.astype("f4")).numpy())


def load(model):
    source = {name: array * 0.5 for name, array in model.module.state_dict().items()}
    model.module.load_state_dict(source)
    return source["0.weight"]


def assign(model):
    model.module[0].weight.data = ZEROS
    return ZEROS


def assign_tensor(model):
    model.module[0].weight.data = Tensor(ZEROS + 1)
    return ZEROS + 1


def write_array(model):
    model.module[0].weight.data[...] = 0.25
    return ZEROS + 0.25


def write_item(model):
    with no_grad():
        model.module[0].weight[...] = 0.5
    return ZEROS + 0.5


def write_in_place(model):
    before = model.module[0].weight.numpy().copy()
    with no_grad():
        weight = model.module[0].weight
        weight *= 2.0
    return before * 2


def put_parameter(model):
    model.module[0].weight = nn.Parameter(ZEROS + 2)
    return ZEROS + 2


def put_module(model):
    model.module[0] = nn.Linear(4, 8).initialize(5)
    return nn.Linear(4, 8).initialize(5).weight.numpy()


def put_module_to_be_drawn(model):
    model.module[0] = nn.Linear(4, 8)
    twin = np.random.RandomState()
    twin.set_state(model.random_state.get_state())
    return nn.Linear(4, 8).to("float32").initialize(twin).weight.numpy()


def load_state(model):
    model.load(new(random_state=7).state)
    return new(random_state=7).parameters["0.weight"]


WRITES = [
    *(load, assign, assign_tensor, write_array, write_item, write_in_place, put_parameter, put_module),
    *(put_module_to_be_drawn, load_state),
]
MODES = [False, True, "auto"]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@every(compile=MODES, steps=[0, 3])
def test_written_values_are_trained(write, compile, steps):
    model = new(compile=compile)
    for _ in range(steps):
        model.step(X, CLASSES)
        model.predict(X)
    expected = write(model)
    np.testing.assert_array_equal(model.parameters["0.weight"], np.asarray(expected, "f4"))
    for _ in range(3):
        assert_home(model)


@pytest.mark.parametrize("write", [load, assign, write_item, write_in_place, put_parameter, put_module])
def test_replaced_models_can_be_written_to(write):
    model = new()
    state = model.update(model.backward(model.loss(model(X), CLASSES)))
    twin = model.replace(state)
    expected = write(twin)
    np.testing.assert_array_equal(twin.parameters["0.weight"], np.asarray(expected, "f4"))
    assert_home(twin)
    np.testing.assert_array_equal(state.parameters["0.weight"], model.replace(state).parameters["0.weight"])
    assert not np.array_equal(state.parameters["0.weight"], np.asarray(expected, "f4"))


def resize(model):
    model.module[0].weight.data = np.zeros((4, 9))


def text(model):
    model.module[0].weight.data = np.full((4, 8), "x")


def move(model):
    model.module.to("float64")


def move_part(model):
    model.module[0].to("float64")


def share_with_another(model):
    model.module[0] = new().module[0]
    new_model = new(random_state=1)
    model.module[0] = new_model.module[0]
    model.kept = new_model
    model.step(X, CLASSES)


def lazy(model):
    model.module[0] = nn.LazyLinear(8)
    model.state  # noqa: B018


REFUSED = [
    (resize, r"a Model owns parameter '0.weight', of shape \(4, 8\): values of shape \(4, 9\) cannot be"),
    (text, "a Model owns parameter '0.weight', of dtype float32: values of dtype <U1 cannot be"),
    (move, r"computes in float32 on cpu: it cannot be moved to float64\. Create another model"),
    (move_part, r"computes in float32 on cpu: it cannot be moved to float64\. Create another model"),
    (share_with_another, r"parameter '0.weight' belongs to another Model.*module\.copy\(\)"),
    (lazy, r"has no parameters before its in_features is known"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_invalid_changes_raise_and_change_nothing(call, message):
    model = new()
    model.step(X, CLASSES)
    first, state = model.module[0], model.state
    with pytest.raises(StateError, match=message):
        call(model)
    model.module[0] = first
    assert_same_state(model.state, state)
    assert_home(model)


def test_an_added_lazy_layer_gets_its_shape_from_the_next_batch():
    model = new()
    model.step(X, CLASSES)
    model.module[0] = nn.LazyLinear(8)
    model.step(X, CLASSES)
    assert model.parameters["0.weight"].shape == (4, 8)
    assert_home(model)


# -- freezing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", MODES)
@pytest.mark.parametrize("optimizer", [Adam(0.05), SGD(0.1, momentum=0.9), EMA(Adam(0.05), decay=0.5)])
def test_frozen_parameters_keep_their_state_and_unfrozen_ones_continue(compile, optimizer):
    model = new(compile=compile, optimizer=optimizer, alpha=0.1)
    for _ in range(3):
        model.step(X, CLASSES)
    slots = model.memory.layout.views(model.state.optimizer.slots[optimizer.slots[0]])
    model.module[0].requires_grad_(False)
    before = model.module[0].weight.numpy().copy()
    for _ in range(3):
        assert list(model.step(X, CLASSES).gradient) == ["2.weight", "2.bias"]
        np.testing.assert_array_equal(model.module[0].weight.numpy(), before)
        assert_home(model)
    model.module[0].weight.data = before * 2  # an input of the program, not a constant in it
    np.testing.assert_allclose(model.predict(X[:1]), model.predict(X[:2])[:1], rtol=1e-5)
    assert_home(model)
    model.module[0].requires_grad_(True)
    now = model.memory.layout.views(model.state.optimizer.slots[optimizer.slots[0]])
    np.testing.assert_array_equal(now["0.weight"], slots["0.weight"])
    assert_home(model)
    assert not np.array_equal(model.module[0].weight.numpy(), before * 2)


@pytest.mark.parametrize(
    "copied", [Model.copy, lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy, copy.copy]
)
def test_copies_keep_frozen_parameters_and_their_state(copied):
    model = new()
    model.step(X, CLASSES)
    model.module[0].requires_grad_(False)
    model.step(X, CLASSES)
    twin = copied(model)
    for each in (model, twin):
        each.step(X, CLASSES)
        each.module[0].requires_grad_(True)
        each.step(X, CLASSES)
    assert_same_state(twin.state, model.state)
    twin.module[0].weight.data = ZEROS
    assert model.parameters["0.weight"].any()


@pytest.mark.parametrize("compile", MODES)
def test_one_parameter_is_frozen_in_any_way(compile):
    model = new(compile=compile)
    weight = model.module[0].weight
    for freeze in (
        weight.detach_,
        lambda: weight.requires_grad_(False),
        lambda: setattr(weight, "requires_grad", 0),
    ):
        assert "0.weight" in model.step(X, CLASSES).update
        freeze()
        assert "0.weight" not in model.step(X, CLASSES).update
        assert_home(model)
        weight.requires_grad_(True)


@pytest.mark.parametrize("compile", MODES)
def test_with_everything_frozen_nothing_is_trained(compile):
    model = new(compile=compile)
    model.step(X, CLASSES)
    model.module.requires_grad_(False)
    state = model.state
    with pytest.raises(GradientError, match=r"no trainable parameters: .*\(True\) unfreezes all"):
        model.step(X, CLASSES)
    assert_same_state(model.state, state)
    assert model.predict(X[:1]).shape == (1, 3)
    model.module.requires_grad_(True)
    assert_home(model)


def test_slots_follow_their_parameters_when_others_are_added_or_removed():
    model = new()
    for _ in range(2):
        model.step(X, CLASSES)
    name = model.optimizer.slots[0]
    before = model.memory.layout.views(model.state.optimizer.slots[name])
    model.module.insert(0, nn.Linear(4, 4).initialize(3))
    after = model.memory.layout.views(model.state.optimizer.slots[name])
    np.testing.assert_array_equal(after["1.weight"], before["0.weight"])
    np.testing.assert_array_equal(after["3.bias"], before["2.bias"])
    assert not after["0.weight"].any()
    assert_home(model)
    removed = model.module[0]
    del model.module[0]
    assert_home(model)
    assert list(model.parameters) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    removed.weight.data = np.zeros((2, 2))  # it belongs to nobody


def test_parameters_that_become_shared_are_trained_as_one():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model = Model(net, random_state=0, optimizer=SGD(0.1))
    model.step(X, X)
    model.module[2].weight = model.module[0].weight
    assert list(model.parameters) == ["0.weight", "0.bias", "2.bias"]
    for _ in range(3):
        assert "2.weight" not in model.step(X, X).update
    assert model.module[2].weight is model.module[0].weight


# -- tapes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_recorded_loss_keeps_its_gradient_while_parameters_are_frozen_and_unfrozen(seed):
    rng = np.random.default_rng(seed)
    model = new()
    known = dict(model.module.named_parameters())
    loss = model.loss(model(X), CLASSES)
    expected = dict(model.backward(loss))
    for _ in range(4):
        for name in rng.choice(list(known), 2):
            known[str(name)].requires_grad = bool(rng.integers(2))
        found = {}
        if any(parameter.requires_grad for parameter in known.values()):
            found = dict(model.backward(loss))
        assert list(found) == [name for name, parameter in known.items() if parameter.requires_grad]
        for name, gradient in found.items():
            np.testing.assert_array_equal(gradient, expected[name])


@pytest.mark.parametrize("was_trained", [True, False])
def test_a_loss_recorded_before_unfreezing_has_no_gradient_for_the_parameter(was_trained):
    model = new()
    model.module[0].weight.requires_grad = False
    if was_trained:
        model.module[0].weight.requires_grad = True
        model.module[0].weight.requires_grad = False
    loss = model.loss(model(X), CLASSES)
    assert "0.weight" not in model.backward(loss)
    model.module[0].weight.requires_grad = True
    with pytest.raises(GradientError, match=r"'0.weight' was frozen, or not part .*: compute output"):
        model.backward(loss)
    assert model.backward(model.loss(model(X), CLASSES))["0.weight"].any()


def test_a_loss_recorded_before_adding_a_parameter_has_no_gradient_for_it():
    model = new()
    loss = model.loss(model(X), CLASSES)
    model.module[0].bias = nn.Parameter(np.ones(8))
    with pytest.raises(GradientError, match=r"'0.bias' was frozen, or not part .*: compute output"):
        model.backward(loss)


def test_a_sum_with_terms_that_lack_a_parameter_raises():
    """Terms of one loss, passes and penalties, are recorded while different parameters are frozen.

    A parameter that was frozen in one of them would have only a part of its gradient.
    """
    rng = np.random.default_rng(0)
    model = new()
    known = dict(model.module.named_parameters())
    outcomes = {True: 0, False: 0}
    for _ in range(60):
        terms, lacking = [], set()
        for kind in rng.choice(["pass", "penalty"], rng.integers(1, 4)):
            for name in rng.choice(list(known), rng.integers(3)):
                known[str(name)].requires_grad = bool(rng.random() < 0.7)
            trained = {name for name, parameter in known.items() if parameter.requires_grad}
            penalized = [known[name] for name in sorted(trained) if rng.integers(2)]
            if kind == "pass" and trained:
                terms.append(lambda: model.loss(model(X), CLASSES))
            elif penalized:
                terms.append(lambda penalized=penalized: sum((p * p).sum() for p in penalized))
            else:
                continue
            terms[-1] = (terms[-1], terms[-1]())
            lacking |= {*known} - trained
        for name in rng.choice(list(known), 2):
            known[str(name)].requires_grad = bool(rng.integers(2))
        trained = {name for name, parameter in known.items() if parameter.requires_grad}
        if not terms or not trained:
            continue
        loss = sum(value for _, value in terms)
        refused = bool(lacking & trained)
        outcomes[refused] += 1
        if refused:
            with pytest.raises(
                GradientError, match=r"was frozen, or not part .*: compute output and loss again"
            ):
                model.backward(loss)
        elif any(compute().requires_grad for compute, _ in terms):
            assert_same(model.backward(loss), model.backward(sum(compute() for compute, _ in terms)))
    assert min(outcomes.values()) > 5


OBJECTIVES = {
    "loss": lambda model, output: model.loss(output, CLASSES),
    "loss of something else": lambda model, output: model.loss(output * 2, CLASSES),
    "own": lambda model, output: (output * output).mean(),
}


@every(alpha=[0.0, 0.5], objective=OBJECTIVES, seed=range(10))
def test_between_output_and_loss_parameters_may_be_frozen_but_not_unfrozen(seed, objective, alpha):
    rng = np.random.default_rng(seed)
    model = new(alpha=alpha)
    known = dict(model.module.named_parameters())

    def freeze_some(*, none_thawed=False):
        for parameter in known.values():
            parameter.requires_grad = bool(rng.integers(2)) and (parameter.requires_grad or not none_thawed)
        return {name for name, parameter in known.items() if parameter.requires_grad}

    refused = 0
    for trial in range(8):
        recorded = freeze_some()
        output = model(X)
        trained = freeze_some(none_thawed=trial % 2 == 0)
        if not trained & recorded or trained - recorded:
            refused += 1
            with pytest.raises(GradientError, match=r"compute output and loss|does not depend on this model"):
                model.backward(OBJECTIVES[objective](model, output))
        else:
            found = model.backward(OBJECTIVES[objective](model, output))
            expected = model.backward(OBJECTIVES[objective](model, model(X)))
            assert_same(found, expected)
            assert set(found) == trained
    assert 0 < refused < 8


BETWEEN = {  # changes of a module after its output, and the parameter whose gradient is then missing
    "a weight is replaced": (lambda m: setattr(m[0], "weight", nn.Parameter(ZEROS)), "0.weight"),
    "a layer is replaced": (lambda m: m.__setitem__(2, nn.Linear(8, 3).initialize(1)), "2.weight"),
    "a layer is added": (lambda m: m.append(nn.Linear(3, 3).initialize(1)), "3.weight"),
    "a bias is put in": (lambda m: setattr(m[2], "scale", nn.Parameter(np.ones(3))), "2.scale"),
    "a lone weight is tied": (lambda m: setattr(m[2], "own", m[0].weight), None),
    "the mode changes": (lambda m: m.eval(), None),
    "dropout is added": (lambda m: m.append(nn.Dropout(0.5)), None),
    "a weight is frozen and thawed": (lambda m: [m.requires_grad_(x) for x in (False, True)], None),
}


@every(alpha=[0.0, 0.5], objective=OBJECTIVES, what=BETWEEN)
def test_between_output_and_loss_a_module_may_change_but_for_new_parameters(what, objective, alpha):
    change, missing = BETWEEN[what]
    model = new(alpha=alpha)
    expected = dict(model.backward(OBJECTIVES[objective](model, model(X))))
    output = model(X)
    change(model.module)
    if missing is None:
        assert_same(model.backward(OBJECTIVES[objective](model, output)), expected)
    else:
        message = f"'{missing}' was frozen, or not part .*: compute output and loss again"
        with pytest.raises(GradientError, match=message):
            model.backward(OBJECTIVES[objective](model, output))


def test_a_parameter_that_is_not_used_has_a_gradient_of_zeros():
    class Two(nn.Module):
        def __init__(self):
            self.one, self.other = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x):
            return self.one(x)

    model = Model(Two(), loss="log_loss", random_state=0)
    for _ in range(2):
        gradient = model.backward(model.loss(model(X), CLASSES))
        assert gradient["one.weight"].any()
        assert not gradient["other.weight"].any()
        model.module.other.requires_grad_(False)  # an unfrozen parameter does not count as missed
        model.module.other.requires_grad_(True)


def one_step(model):
    model.step(X, CLASSES)


def one_fit(model):
    model.fit(X, CLASSES, epochs=1, batch_size=5)


def donated(model):
    gradient = model.backward(model.loss(model(X), CLASSES))
    model.update(gradient, donate=True)


OVERWRITES = [
    (one_step, "by Model.step, "),
    (one_fit, "by a fit, "),
    (donated, r"by Model.update\(donate=True\), "),
    (load_state, "by Model.load, "),
    (lambda model: model.restore_weights(new(random_state=5).weights()), "by Model.restore_weights, "),
    *((write, "") for write in (load, assign, write_item, write_in_place)),
]


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(("overwrite", "by"), OVERWRITES)
def test_a_tape_knows_that_parameters_were_overwritten(overwrite, by, compile, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "never")
    model = new(compile=compile)
    for _ in range(2):
        model.step(X, CLASSES)
    loss = model.loss(model(X), CLASSES)
    overwrite(model)
    with pytest.raises(GradientError, match=f"was changed in place after it was used, {by}"):
        loss.backward()


# -- whose module it is -------------------------------------------------------------------------------


def test_a_model_copies_its_module():
    net = network(3)
    models = [Model(net, "log_loss", Adam(0.05), random_state=0) for _ in range(3)]
    losses = [[model.step(X, CLASSES).loss for _ in range(5)] for model in models]
    assert losses[0] == losses[1] == losses[2]
    assert not any(parameter.is_drawn for parameter in net.parameters())


def test_a_copied_module_shares_nothing():
    net = network(3)
    net.scales = [1.0]
    net.initialize(0)
    model = Model(net, "log_loss", random_state=0)
    model.module.scales[0] = 2.0
    model.step(X, CLASSES)
    assert net.scales == [1.0]
    np.testing.assert_array_equal(net[0].weight.numpy(), network(3).initialize(0)[0].weight.numpy())


@pytest.mark.slow
def test_without_a_copy_the_module_itself_is_trained():
    net = network(3).initialize(0)
    before = net[0].weight.numpy().copy()
    model = Model(net, "log_loss", random_state=0, copy=False)
    assert model.module is net
    model.step(X, CLASSES)
    assert not np.array_equal(net[0].weight.numpy(), before)
    with pytest.raises(StateError, match=r"parameter '0\.weight' belongs to another Model"):
        Model(net, "log_loss", copy=False)
    Model(net, "log_loss").step(X, CLASSES)
    after = net[0].weight.numpy().copy()
    del model
    gc.collect()
    Model(net, "log_loss", copy=False)  # no other model trains it
    np.testing.assert_array_equal(net[0].weight.numpy(), after)


def test_a_copy_of_an_owned_module_does_not_change():
    model = new()
    twin = model.module.copy()
    before = twin[0].weight.numpy().copy()
    model.step(X, CLASSES)
    np.testing.assert_array_equal(twin[0].weight.numpy(), before)
    twin[0].weight.data = np.zeros((1, 1))  # and belongs to nobody


def test_averages_follow_written_values():
    model = new(optimizer=EMA(Adam(0.05), decay=0.5))
    for _ in range(3):
        model.step(X, CLASSES)
    before = model.predict(X)
    model.module[0].weight.data[...] = 0.0
    rows = [model.predict(X[i : i + 1]) for i in range(3)]
    assert not np.array_equal(model.predict(X), before)
    np.testing.assert_allclose(np.concatenate(rows), model.predict(X)[:3], rtol=1e-5)
