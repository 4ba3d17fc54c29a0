"""Estimators for custom networks: factories, classes, functions and module instances."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import sknet
from sknet import NetClassifier, NetRegressor, nn
from sknet.optim import SGD, Adam
from tests.estimators.checks import run_check
from tests.estimators.data import TABLES, TASKS, WEIGHTS, estimator_for, first_part, outputs, quiet
from tests.estimators.nets import LazyNet, Net, Normed, net_for, sequential

N_OUTPUTS = {"binary": 1, "multiclass": 3, "multilabel": 5, "regression": 1, "multioutput": 3}
WAYS = {
    "class": lambda n_outputs: Net,
    "factory": lambda n_outputs: nn.ModuleFactory(Net, hidden=8),
    "lazy class": lambda n_outputs: LazyNet,
    "function": lambda n_outputs: sequential,
    "ready": lambda n_outputs: sequential(12, n_outputs),
    "ready and lazy": lambda n_outputs: LazyNet(n_outputs),
}


def same_parameters(net, perceptron):
    """Tell whether the parameters of two fits, and their histories, agree to the last bit."""
    pairs = zip(net.model_.module.parameters(), perceptron.model_.module.parameters(), strict=True)
    curves = [{k: list(v) for k, v in e.history_.items() if k != "time"} for e in (net, perceptron)]
    return all(np.array_equal(a.numpy(), b.numpy()) for a, b in pairs) and curves[0] == curves[1]


# -- compared with perceptrons -------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("task", TASKS)
def test_the_same_layers_as_a_perceptrons_give_the_same_bits(task, way):
    X, y = TABLES[task]
    with quiet():
        net = net_for(task, WAYS[way](N_OUTPUTS[task])).fit(X, y)
        perceptron = estimator_for(task).fit(X, y)
    assert same_parameters(net, perceptron)
    assert np.array_equal(outputs(net, X), outputs(perceptron, X))
    assert np.array_equal(outputs(net.freeze(), X), outputs(perceptron.freeze(), X))


@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True},
        {"optimizer": "lbfgs"},
        {"optimizer": SGD(0.1, momentum=0.9), "alpha": 0.1},
        {"shuffle": False},
        {"dtype": "float32"},
        {"class_weight": "balanced"},
    ],
    ids=str,
)
@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_whatever_the_training(params, weight):
    X, y = TABLES["multiclass"]
    with quiet():
        net, perceptron = (
            e.set_params(**params).fit(X, y, weight)
            for e in (net_for("multiclass"), estimator_for("multiclass"))
        )
    assert same_parameters(net, perceptron)


@pytest.mark.parametrize("task", TASKS)
def test_sparse_rows_parts_and_warm_starts(task):
    from scipy.sparse import csr_matrix

    X, y = TABLES[task]
    with quiet():
        both = [net_for(task), estimator_for(task)]
        for estimator in both:
            first_part(task, estimator, csr_matrix(X), y)
            estimator.partial_fit(csr_matrix(X)[:100], y[:100])
            estimator.set_params(warm_start=True).fit(X, y, WEIGHTS)
    assert same_parameters(*both)
    assert np.array_equal(outputs(both[0], csr_matrix(X)), outputs(both[1], csr_matrix(X)))


# -- module instances ----------------------------------------------------------------------------------


def values(module):
    return {name: array.copy() for name, array in module.state_dict().items()}


def equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_module_instance_is_copied_with_its_weights_at_each_fit():
    X, y = TABLES["multiclass"]
    module = sequential(12, 3)
    module.initialize(7)
    before = values(module)
    for seed in (0, 1):
        with quiet():
            net = net_for("multiclass", module, optimizer=SGD(1e-30), random_state=seed, dtype="float64")
            found = net.fit(X, y).model_.module
        assert found is not module
        for name, array in before.items():
            np.testing.assert_allclose(found.state_dict()[name], array, rtol=1e-6)
    assert equal(values(module), before)
    with quiet():
        net.set_params(optimizer=SGD(0.1)).fit(X, y)
    assert not equal(values(net.model_.module), before)
    assert equal(values(module), before)


def test_a_module_trained_elsewhere_continues():
    X, y = TABLES["multiclass"]
    with quiet():
        donor = net_for("multiclass", max_iter=20).fit(X, y)
        body = donor.model_.module
        heir = net_for("multiclass", body, optimizer=SGD(1e-30)).fit(X, y)
    assert np.array_equal(heir.predict(X), donor.predict(X))
    assert clone(heir).module is not body
    with quiet():
        assert np.array_equal(clone(heir).fit(X, y).predict(X), donor.predict(X))
        donor.fit(X, y)


def test_parts_of_a_trained_network_in_another():
    X, y = TABLES["multiclass"]
    with quiet():
        donor = net_for("multiclass", Normed).fit(X, y)
        new = nn.Sequential(donor.model_.module.body, nn.Linear(6, 1))
        heir = net_for("binary", new, optimizer=SGD(1e-30)).fit(*TABLES["binary"])
    found = heir.model_.module.state_dict()
    for name, parameter in donor.model_.module.body.named_parameters():
        np.testing.assert_allclose(found[f"0.{name}"], parameter.numpy(), rtol=1e-6)


# -- parameters ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("module", [Net, nn.ModuleFactory(Net), nn.ModuleFactory(Net, hidden=3)], ids=repr)
def test_a_grid_reaches_into_the_constructor(module):
    X, y = TABLES["multiclass"]
    grid = {"module__hidden": [2, 16], "optimizer__lr": [1e-9, 0.05]}
    with quiet():
        search = GridSearchCV(net_for("multiclass", module, max_iter=30), grid, cv=2, n_jobs=2).fit(X, y)
    assert search.best_params_["optimizer__lr"] == 0.05
    best = search.best_estimator_
    assert best.model_.module.first.weight.shape == (12, search.best_params_["module__hidden"])
    assert "module__hidden" in best.get_params()


def test_a_clone_shares_nothing():
    net = net_for("binary", nn.ModuleFactory(Net, hidden=3))
    other = clone(net).set_params(module__hidden=4)
    assert net.get_params()["module__hidden"] == 3
    assert other.get_params()["module__hidden"] == 4


def test_the_module_can_be_searched_over():
    X, y = TABLES["regression"]
    with quiet():
        search = GridSearchCV(
            net_for("regression"), {"module": [Net, nn.Sequential(nn.LazyLinear(1)), LazyNet]}, cv=2
        ).fit(X, y)
    assert len(search.cv_results_["params"]) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("module__hidden", 9), ("module", LazyNet), ("module", sequential(12, 3)), ("dtype", "float32")],
)
def test_a_fit_that_continues_cannot_change_the_network(name, value):
    X, y = TABLES["multiclass"]
    with quiet():
        net = net_for("multiclass", nn.ModuleFactory(Net), warm_start=True).fit(X, y)
        before = net.predict(X)
        net.set_params(**{name: value})
        for act in (lambda: net.fit(X, y), lambda: net.partial_fit(X, y)):
            with pytest.raises(ValueError, match=f"(?s){name} was .* a fit that continues cannot change it"):
                act()
        assert np.array_equal(net.predict(X), before)
        net.set_params(warm_start=False).fit(X, y)


def test_pickles_and_copies_continue_alike():
    X, y = TABLES["multiclass"]
    for module in (Normed, nn.ModuleFactory(Normed, hidden=5), LazyNet(3)):
        with quiet():
            net = net_for("multiclass", module, warm_start=True).fit(X, y)
            others = [pickle.loads(pickle.dumps(net)), copy.deepcopy(net)]
            for other in (net, *others):
                other.fit(X, y)
        for other in others:
            assert same_parameters(net, other)


PERCEPTRONS_OWN = {"hidden_layer_sizes", "activation", "dropout", "monotonic_cst"}


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_it_has_the_parameters_of_perceptrons_but_those_of_layers(kind):
    net, perceptron = (
        inspect.signature(getattr(sknet, f"{family}{kind}")).parameters for family in ("Net", "MLP")
    )
    assert set(net) - {"module"} == set(perceptron) - PERCEPTRONS_OWN
    shared = (set(net) & set(perceptron)) - {"max_iter", "alpha"}  # which networks by name, and rows, decide
    assert all(net[name].default == perceptron[name].default for name in shared)


# -- attributes ---------------------------------------------------------------------------------------


def test_it_has_no_attributes_of_perceptrons():
    with quiet():
        net = net_for("binary").fit(*TABLES["binary"])
    for name in ("coefs_", "intercepts_", "n_layers_"):
        assert not hasattr(net, name)
    assert (net.n_outputs_, net.out_activation_, net.n_features_in_) == (1, "logistic", 12)
    assert repr(net.freeze()) == "FrozenClassifier(Net, LogLoss, float64)"


def test_the_step_can_be_looked_at():
    with quiet():
        net = net_for("binary", Normed).fit(*TABLES["binary"])
    assert "def step():" in net.compiled_step_.source


def test_it_is_not_fitted_before():
    with pytest.raises(NotFittedError):
        NetClassifier(Net).predict(np.eye(3))


# -- errors ------------------------------------------------------------------------------------------------


class Unnamed(nn.Module):
    def __init__(self, n_features):
        self.head = nn.Linear(n_features, 4)

    def forward(self, x):
        return self.head(x)


class Loose(nn.Module):
    def __init__(self):
        self.weight = nn.Parameter([[1.0]] * 12)

    def forward(self, x):
        return x @ self.weight


@pytest.mark.parametrize(
    ("module", "task", "message"),
    [
        (
            Unnamed,
            "multiclass",
            r"returns 4 output.*need 3; its last layer is 'head': Linear\(12, 4\)",
        ),
        (Unnamed, "multioutput", "returns 4 output.* 3 target.s. and SquaredError.. need 3"),
        (lambda: sequential(12, 2), "multilabel", "returns 2 output.* need 5; its last layer is '2'"),
        (Loose, "multiclass", "Loose returns 1 output.s. for each row, and 3 target.* need 3. Let the"),
        (lambda: nn.Flatten(), "binary", "Flatten returns 12 output.* 1 target"),
        (nn.ModuleFactory(Net, hidden="a"), "binary", None),
    ],
)
def test_a_network_with_other_outputs_is_explained(module, task, message):
    X, y = TABLES[task]
    net = net_for(task, module)
    with pytest.raises((ValueError, TypeError), match=message), quiet():
        net.fit(X, y)
    assert not hasattr(net, "model_")
    if not isinstance(module, nn.ModuleFactory):
        return
    assert not hasattr(net, "classes_")


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda X, y: NetClassifier("relu").fit(X, y),
            TypeError,
            "'module' parameter of NetClassifier must",
        ),
        (lambda X, y: NetClassifier(lambda: 3).fit(X, y), TypeError, "must return an nn.Module, got int"),
        (
            lambda X, y: NetClassifier(nn.Linear).fit(X, y),
            TypeError,
            "needs a value for 'in_features'",
        ),
        (lambda X, y: NetClassifier(Net).set_params(module__hiden=3), ValueError, "Did you mean 'hidden'"),
        (lambda X, y: NetClassifier(Net, module_hidden=3), TypeError, "no parameter 'module_hidden'"),
        (
            lambda X, y: NetClassifier(sequential(2, 2)).set_params(module__hidden=3),
            ValueError,
            "is built",
        ),
        (lambda X, y: NetRegressor(Net, momentum=0.5), TypeError, "it belongs to the optimizer"),
        (lambda X, y: NetRegressor(network=Net), TypeError, "no parameter 'network': use module"),
        (lambda X, y: NetRegressor(Net, hidden_units=3), TypeError, "module=nn.ModuleFactory"),
    ],
)
def test_bad_use_raises(act, error, message):
    with pytest.raises(error, match=message):
        act(*TABLES["binary"])


# -- scikit-learn's own checks ---------------------------------------------------------------------


class Small(nn.Module):
    """A user's lazy module."""

    def __init__(self, n_outputs, hidden=16):
        self.body = nn.Sequential(nn.LazyLinear(hidden), nn.Tanh())
        self.head = nn.LazyLinear(n_outputs)

    def forward(self, x):
        return self.head(self.body(x))


READY = nn.Sequential(nn.LazyLinear(16), nn.Tanh(), nn.LazyLinear(1))


@pytest.mark.slow
@parametrize_with_checks(
    [
        NetClassifier(Small, optimizer=Adam(0.02)),
        NetClassifier(READY, optimizer=Adam(0.02)),
        NetRegressor(Small, optimizer=Adam(0.02)),
        NetRegressor(READY, optimizer=Adam(0.02)),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_check(estimator, check):
    run_check(estimator, check)
