"""Parts of networks that are not trained: before a fit, between fits, and against a network without them."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sknet
from sknet import NetClassifier, nn, ops, optim
from sknet.engine import fit_many
from tests.estimators.data import TABLES, estimator_for, quiet
from tests.estimators.nets import Net, Normed, net_for, sequential

X, Y = TABLES["multiclass"]
OPTIMIZERS = [
    optim.SGD(0.1, momentum=0.9),
    optim.AdamW(0.01, weight_decay=0.1),
    optim.WeightDecay(optim.SGD(0.1), 0.1),
    optim.EMA(optim.Adam(0.01), 0.9),
    optim.RateFactors(optim.Adam(0.01), {"*.bias": 0.1}),
    optim.Lookahead(optim.Adam(0.01)),
    optim.ClipNorm(optim.Adam(0.01), 0.5),
    optim.Muon(0.01),
]


def values(net):
    return {name: np.array(a) for name, a in net.model_.evaluation_parameters.items()}


def changed(before, net):
    """Return the names of the parameters that have changed."""
    return {name for name, a in values(net).items() if not np.array_equal(a, before[name])}


def drawn(module):
    return module.initialize(0)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("compiled", ["auto", False])
def test_a_head_is_trained_as_if_its_features_were_the_data(optimizer, alpha, compiled):
    whole = drawn(sequential(12, 3)).to(dtype="float64")
    features = nn.Sequential(whole[0], whole[1])(X).numpy()
    head = nn.Sequential(whole[2].copy())
    found = []
    for module, inputs, frozen in ((whole, X, "0.*"), (head, features, None)):
        net = net_for(
            "multiclass", module, optimizer=clone(optimizer), alpha=alpha, frozen=frozen, max_iter=1
        )
        with quiet():
            net.fit(inputs, Y)
            net.model_.compile = compiled
            net.set_params(warm_start=True, max_iter=2).fit(inputs, Y)
        found.append(net)
    np.testing.assert_allclose(
        values(found[0])["2.weight"], values(found[1])["0.weight"], rtol=1e-7, atol=1e-12
    )
    assert np.array_equal(values(found[0])["0.weight"], whole[0].weight.numpy())
    assert found[0].history_["loss"] == pytest.approx(found[1].history_["loss"], rel=1e-9)


PATTERNS = [
    ("first.*", ["last.weight", "last.bias"]),
    ("first", ["last.weight", "last.bias"]),
    (["*.bias"], ["first.weight", "last.weight"]),
    (["first.weight", "last.*"], ["first.bias"]),
    ([], ["first.weight", "first.bias", "last.weight", "last.bias"]),
]


@pytest.mark.parametrize(("frozen", "expected"), PATTERNS, ids=str)
@pytest.mark.parametrize("params", [{}, {"optimizer": "lbfgs"}, {"early_stopping": True}], ids=str)
def test_patterns_name_what_is_left_as_it_was_drawn(frozen, expected, params):
    with quiet():
        before = values(net_for("multiclass", optimizer=optim.SGD(1e-300), max_iter=1).fit(X, Y))
        net = net_for("multiclass", frozen=frozen, **params).fit(X, Y)
    assert changed(before, net) == set(expected)


@pytest.mark.parametrize(
    "around",
    [
        lambda pattern: optim.RateFactors(optim.Adam(), {pattern: 6.0}),
        lambda pattern: optim.WeightDecay(optim.Adam(), 0.1, {pattern: 6.0}),
        lambda pattern: optim.Groups({pattern: optim.SGD(), "*": optim.Adam()}),
    ],
    ids=["rates", "decays", "groups"],
)
def test_patterns_of_an_optimizer_may_name_what_is_frozen(around):
    network = nn.Sequential(nn.Scale(X.shape[1]), nn.Linear(X.shape[1], 3))
    net = NetClassifier(network, optimizer=around("0.*"), frozen=["0.*"], max_iter=2, random_state=0)
    with quiet():
        fitted = net.fit(X, Y)
    np.testing.assert_array_equal(fitted.model_.module[0].weight.numpy(), np.ones(X.shape[1]))
    with pytest.raises(ValueError, match=r"'9\.\*', which matches none of \['1\.weight', .*'0\.weight'\]"):
        clone(net).set_params(optimizer=around("9.*")).fit(X, Y)


def test_parts_are_frozen_and_unfrozen_between_fits():
    net = net_for("multiclass").partial_fit(X, Y, classes=[0, 1, 2])
    for frozen, expected in [*PATTERNS, (None, PATTERNS[-1][1]), *PATTERNS[::-1]]:
        before = values(net)
        net.set_params(frozen=frozen).partial_fit(X, Y)
        assert changed(before, net) == set(expected)
        before = values(net)
        with quiet():
            net.set_params(warm_start=True).fit(X, Y)
        assert changed(before, net) == set(expected)


def test_requires_grad_of_a_module_is_kept():
    module = drawn(sequential(12, 3))
    module[0].requires_grad_(False)
    with quiet():
        net = net_for("multiclass", module, warm_start=True).fit(X, Y)
        before = values(net)
        net.set_params(frozen="2.bias").fit(X, Y)
        assert changed(before, net) == {"2.weight"}
        before = values(net)
        net.set_params(frozen=None).fit(X, Y)
        assert changed(before, net) == {"2.weight", "2.bias"}
        net.model_.module[0].requires_grad_(True)
        before = values(net)
        net.partial_fit(X, Y)
    assert changed(before, net) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert not module[0].weight.requires_grad


def test_perceptrons_freeze_too():
    with quiet():
        mlp = estimator_for("multiclass", warm_start=True).fit(X, Y)
        before = mlp.coefs_
        mlp.set_params(frozen="0").fit(X, Y)
    assert np.array_equal(mlp.coefs_[0], before[0])
    assert not np.array_equal(mlp.coefs_[1], before[1])


def test_a_search_over_what_is_frozen():
    with quiet():
        search = GridSearchCV(net_for("multiclass"), {"frozen": ["first", "last", None]}, cv=2).fit(X, Y)
    assert len(search.cv_results_["params"]) == 3


def test_the_layers_of_a_trained_network_are_frozen_in_another():
    with quiet():
        donor = net_for("multiclass", Normed).fit(X, Y)
        new = nn.Sequential(donor.model_.module.body, nn.Linear(6, 1))
        heir = net_for("binary", new, frozen="0").fit(*TABLES["binary"])
    for name, parameter in donor.model_.module.body.named_parameters():
        assert np.array_equal(values(heir)[f"0.{name}"], parameter.numpy())


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        ("frist.*", r"frozen='frist.\*' matches no parameter of the network"),
        ("frist", "matches no parameter of the network. Did you mean 'first'"),
        (["first", "body"], "frozen='body' matches no parameter"),
        (3, "The 'frozen' parameter of NetClassifier must be a pattern of names .* Got 3"),
        ([3], "must be a pattern of names"),
        ("*", r"frozen=\['\*'\] leaves no parameter to train"),
    ],
)
def test_invalid_patterns_raise_and_change_nothing(frozen, message):
    with pytest.raises(ValueError, match=message):
        NetClassifier(Net, frozen=frozen).fit(X, Y)
    net = net_for("multiclass", frozen="first.bias").partial_fit(X, Y, classes=[0, 1, 2])
    before = values(net)
    with pytest.raises(ValueError, match=message):
        net.set_params(frozen=frozen).partial_fit(X, Y)
    assert changed(before, net) == set()
    net.set_params(frozen="first.bias").partial_fit(X, Y)
    assert changed(before, net) == {"first.weight", "last.weight", "last.bias"}


def test_a_failed_part_keeps_frozen_parameters_frozen():
    net = net_for("multiclass", frozen="first").partial_fit(X, Y, classes=[0, 1, 2])
    before = values(net)
    for wrong in (X[:, :3], X * 1e200):
        with pytest.raises(ValueError, match=r"features|not finite|parameter"):
            net.set_params(frozen="last", alpha=1e300).partial_fit(wrong, Y)
        assert changed(before, net) == set()
        assert not net.model_.module.first.weight.requires_grad
        assert net.model_.module.last.weight.requires_grad


@pytest.mark.parametrize("pickles", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "average"),
    [
        ("first", None, None),
        (None, "first", None),
        ("first", "last", None),
        ("*.bias", "last.*", None),
        ("first", None, 0.5),
        (["first", "last.bias"], "last.bias", 0.5),
    ],
)
def test_the_best_weights_are_restored_whatever_was_frozen_then(before, after, average, pickles):
    def adam(lr):
        return optim.Adam(lr) if average is None else optim.EMA(optim.Adam(lr), average)

    def part(net, **params):
        net.set_params(**params).partial_fit(X, Y, X_val=X[:40], y_val=Y[:40], classes=[0, 1, 2])
        return pickle.loads(pickle.dumps(net)) if pickles else net

    net = net_for("multiclass", early_stopping=True, n_iter_no_change=1, optimizer=adam(0.01), frozen=before)
    best = values(part(net))
    for _ in range(2):
        net = part(net, frozen=after, optimizer=adam(100.0))
    assert net.stopped_early_
    assert net.best_epoch_ == 1
    for name, array in values(net).items():
        assert np.array_equal(array, best[name])


# -- statistics ------------------------------------------------------------------------------------


class Centered(nn.Module):
    """A norm of one's own, with a buffer that follows the batches in training."""

    def __init__(self, size):
        self.register_buffer("center", np.zeros(size))

    def forward(self, x):
        if self.training:
            self.center = self.center + 0.5 * (ops.mean(x, axis=0).detach() - self.center)
        return x - self.center


class Channels(nn.Module):
    """An instance norm over pairs of features."""

    def __init__(self, affine):
        self.norm = nn.InstanceNorm(3, affine=affine, track_running_stats=True)

    def forward(self, x):
        return ops.reshape(self.norm(ops.reshape(x, (-1, 3, 2))), (-1, 6))


STATISTICS = {
    "batch": lambda: nn.BatchNorm(6),
    "batch without parameters": lambda: nn.BatchNorm(6, affine=False),
    "cumulative": lambda: nn.BatchNorm(6, momentum=None),
    "instance": lambda: Channels(True),
    "instance without parameters": lambda: Channels(False),
    "own": lambda: Centered(6),
}


def body_and_head(norm, n_outputs=3):
    body = nn.Sequential(nn.Linear(12, 6), STATISTICS[norm](), nn.Tanh())
    whole = drawn(nn.Sequential(body, nn.Linear(6, n_outputs))).to(dtype="float64")
    body(X * 2.0 + 1.0)  # statistics that are not the first ones
    return whole


def states(module):
    return {name: np.array(value) for name, value in module.state_dict().items()}


def same_states(a, b, prefix="0."):
    return all(np.array_equal(a[name], b[name]) for name in a if name.startswith(prefix))


@pytest.mark.parametrize("norm", STATISTICS)
@pytest.mark.parametrize("compiled", ["auto", False])
def test_statistics_of_frozen_layers_are_held_and_normalized_by(norm, compiled):
    whole = body_and_head(norm)
    features = whole[0].copy().eval()(X).numpy()
    found = []
    for module, inputs, frozen in ((whole, X, "0"), (nn.Sequential(whole[1].copy()), features, None)):
        net = net_for("multiclass", module, frozen=frozen, max_iter=1, warm_start=True)
        with quiet():
            net.fit(inputs, Y)
            net.model_.compile = compiled
            net.set_params(max_iter=2).fit(inputs, Y)
        found.append(net)
    assert same_states(states(whole), states(found[0].model_.module))
    np.testing.assert_allclose(
        values(found[0])["1.weight"], values(found[1])["0.weight"], rtol=1e-7, atol=1e-12
    )
    np.testing.assert_allclose(found[0].history_["loss"], found[1].history_["loss"], rtol=1e-9)


@pytest.mark.parametrize(
    "params",
    [
        {"n_members": 2},
        {"optimizer": "lbfgs"},
        {"early_stopping": True, "refit_on_all": True},
        {"optimizer": optim.EMA(optim.Adam(0.01), 0.9)},
        {"dtype": "float32"},
    ],
    ids=str,
)
@pytest.mark.parametrize("norm", ["batch", "own"])
def test_statistics_are_held_by_every_kind_of_fit(norm, params):
    whole = body_and_head(norm)
    with quiet():
        net = net_for("multiclass", whole, frozen="0.*", **params).fit(X.astype(params.get("dtype", "f8")), Y)
    members = net.model_.module.children() if "n_members" in params else [net.model_.module]
    before = states(whole.to(dtype=params.get("dtype")))
    for member in members:
        found = {name.removeprefix("module."): value for name, value in states(member).items()}
        assert same_states(before, found)


def test_statistics_are_held_in_fits_side_by_side():
    whole = body_and_head("batch")
    net = net_for("multiclass", whole, frozen="0").partial_fit(X, Y, classes=[0, 1, 2])
    models = [net.model_.copy() for _ in range(3)]
    for seed, model in enumerate(models):
        model.random_state = np.random.RandomState(seed)
    fit_many(models, X, Y, epochs=2, batch_size=64)
    for model in models:
        assert same_states(states(whole), states(model.module))


FREEZING = [
    ("0", True),
    ("0.*", True),
    ("0.1", True),
    (["0.1.weight", "0.1.bias"], True),
    ("*.running_mean", True),
    ("*.bias", False),
    ("0.0", False),
    (["0.1.weight"], False),
]


@pytest.mark.parametrize(("frozen", "held"), FREEZING, ids=str)
def test_a_norm_is_frozen_whose_parameters_or_statistics_are_named(frozen, held):
    whole = body_and_head("batch")
    net = net_for("multiclass", whole, frozen=frozen).partial_fit(X, Y, classes=[0, 1, 2])
    assert same_states(states(whole), states(net.model_.module), "0.1.running") == held
    before = states(net.model_.module)
    net.set_params(frozen="1").partial_fit(X, Y)  # released
    assert not same_states(before, states(net.model_.module), "0.1.running_mean")
    before = states(net.model_.module)
    with quiet():
        net.set_params(frozen=frozen, warm_start=True).fit(X, Y)
    assert same_states(before, states(net.model_.module), "0.1.running") == held
    net.model_.module.requires_grad_(True)
    before = states(net.model_.module)
    net.model_.step(X[:20], net._targets.encode(Y[:20]))
    assert not same_states(before, states(net.model_.module), "0.1.running_mean")


def test_a_failed_part_holds_what_was_held():
    net = net_for("multiclass", body_and_head("batch"), frozen="0").partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"not finite|parameter"):
        net.set_params(frozen=None, alpha=1e300).partial_fit(X * 1e200, Y)
    assert not net.model_.module[0][1].training
    assert net.model_.module[0][0].training


def pickled(estimator, path):
    return pickle.loads(pickle.dumps(estimator))


def saved(estimator, path):
    sknet.save(estimator, path)
    return sknet.load(path)


@pytest.mark.parametrize("again", [pickled, saved])
def test_what_is_held_is_held_after_saving(again, tmp_path):
    net = net_for("multiclass", body_and_head("batch"), frozen="0").partial_fit(X, Y, classes=[0, 1, 2])
    other = again(net, tmp_path / "net.safetensors")
    before = states(other.model_.module)
    other.model_.step(X[:20], other._targets.encode(Y[:20]))
    assert same_states(before, states(other.model_.module))
    other.set_params(frozen=None).partial_fit(X, Y)
    assert not same_states(before, states(other.model_.module), "0.1.running_mean")


def test_dropout_of_a_frozen_layer_still_drops():
    module = drawn(nn.Sequential(nn.Sequential(nn.Linear(12, 6), nn.Dropout(0.5)), nn.Linear(6, 3)))
    net = net_for("multiclass", module, frozen="0").partial_fit(X, Y, classes=[0, 1, 2])
    assert net.model_.module[0][1].training
