"""Many fits over a cluster: the bits of fits in this process."""

import pickle
import threading
import warnings

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV as ScikitLearns

from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet.callbacks import Callback
from sknet.engine import fit_many
from sknet.model_selection import GridSearchCV, cross_validate
from sknet.optim import SGD, Adam
from tests.engine.test_many import FAMILIES, LABELS, X, given, network, trace


def both(make, A, y, *args, n=4, **options):
    """Return the traces of fits here, and on the cluster."""
    here, there = ([make(i) for i in range(n)] for _ in range(2))
    wanted = trace(here, fit_many(here, A, y, *args, **options))
    with joblib.parallel_config("dask"):
        found = trace(there, fit_many(there, A, y, *args, **options))
    return wanted, found, here, there


@pytest.mark.parametrize("name", FAMILIES)
def test_each_is_its_own_fit_to_the_bit(client, name):
    make, options = FAMILIES[name]
    A, y, options = given(options)
    wanted, found, *_ = both(make, A, y, **options)
    assert found == wanted


# -- what comes back ----------------------------------------------------------------------------------


class Changes(Callback):
    """Changes the model during its fit."""

    def __init__(self, change):
        self.change = change

    def on_epoch_end(self, fit):
        if fit.epoch == 1:
            self.change(fit.model)


def penalize(model):
    model.alpha = 0.5


def another_optimizer(model):
    model.optimizer = SGD(0.5)


def freeze(model):
    model.module[0].requires_grad_(False)


def steeper(model):
    model.module[1].negative_slope = 5.0


def another_layer(model):
    model.module[1] = nn.Sequential(nn.Tanh(), nn.Linear(8, 8))


@pytest.mark.parametrize("change", [penalize, another_optimizer, freeze, steeper, another_layer])
def test_what_a_callback_changes_comes_back(client, change):
    def make(i):
        return Model(network(nn.LeakyReLU(0.1)), "log_loss", SGD(0.1), random_state=i)

    wanted, found, here, there = both(make, X, LABELS, n=2, epochs=3, callbacks=[Changes(change)])
    assert found == wanted
    again = [trace(models, fit_many(models, X, LABELS, epochs=2)) for models in (here, there)]
    assert again[0] == again[1]
    for one, other in zip(here, there, strict=True):
        assert (str(one), one.alpha) == (str(other), other.alpha)
        np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_modules_and_random_states_remain_the_same_objects(client):
    mine, state = network(nn.BatchNorm(8)), np.random.RandomState(3)
    model = Model(mine, "log_loss", random_state=state, copy=False)
    twin = Model(mine.copy(), "log_loss", random_state=np.random.RandomState(3))
    layers = list(mine.modules())
    twin.random_state.set_state(state.get_state())
    with joblib.parallel_config("dask"):
        fit_many([model], X, LABELS, epochs=2)
    twin.fit(X, LABELS, epochs=2)
    assert model.module is mine
    assert all(one is other for one, other in zip(mine.modules(), layers, strict=True))
    assert model.random_state is state
    assert state.randint(2**31) == twin.random_state.randint(2**31)
    for module in (model.module, mine):
        for name, array in module.state_dict().items():
            np.testing.assert_array_equal(array, twin.module.state_dict()[name])
    mine[0].weight.data = np.zeros((6, 8), "f4")  # of the model, too
    assert not model.parameters["0.weight"].any()


def test_one_module_in_two_places_is_still_one(client):
    class Twice(nn.Module):
        def __init__(self):
            self.first = nn.Linear(6, 6)
            self.second, self.last = self.first, nn.Linear(6, 3)

        def forward(self, x):
            return self.last(self.second(self.first(x).tanh()))

    wanted, found, _, there = both(lambda i: Model(Twice(), "log_loss", random_state=i), X, LABELS, n=2)
    assert found == wanted
    assert there[0].module.first is there[0].module.second


def test_the_global_random_state_gives_each_fit_its_own_numbers(client):
    def fits():
        np.random.seed(5)  # noqa: NPY002
        first = Model(network(nn.ReLU()), "log_loss", random_state=1)
        models = [first, *[first.copy() for _ in range(2)]]
        for model in models:
            model.random_state = np.random.mtrand._rand
        with joblib.parallel_config("dask"):
            fit_many(models, X, LABELS, batch_size=16)
        assert all(model.random_state is np.random.mtrand._rand for model in models)
        return [model.weights().flat.tobytes() for model in models]

    once, again = fits(), fits()
    assert len(set(once)) == 3  # each in an order of its own
    assert once == again


# -- estimators ---------------------------------------------------------------------------------------


def estimator(kind, **params):
    return kind(
        (8,), **{"max_iter": 4, "batch_size": 20, "random_state": 0, "optimizer": Adam(lr=0.01), **params}
    )


ENSEMBLES = {
    "classifier": (MLPClassifier, {}),
    "bootstrap": (MLPClassifier, {"bootstrap": True}),
    "early stopping": (MLPRegressor, {"early_stopping": True, "n_iter_no_change": 1}),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("name", ENSEMBLES)
def test_members_of_ensembles_are_fitted_on_the_cluster(client, name):
    kind, params = ENSEMBLES[name]
    y = LABELS if kind is MLPClassifier else X[:, 0] * X[:, 1]
    here = estimator(kind, n_members=3, **params).fit(X, y)
    there = estimator(kind, n_members=3, **params)
    with joblib.parallel_config("dask"):
        there.fit(X, y)
    np.testing.assert_array_equal(here.predict(X), there.predict(X))
    assert here.history_["loss"] == there.history_["loss"]
    assert (here.t_, here.n_iter_) == (there.t_, there.n_iter_)
    np.testing.assert_array_equal(here.freeze().predict(X), pickle.loads(pickle.dumps(there)).predict(X))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("kind", [ScikitLearns, GridSearchCV], ids=["scikit-learn", "sknet"])
def test_ensembles_in_searches_are_fitted_on_the_cluster(client, kind):
    """More fits than threads, each of which has fits of its own."""
    search = kind(estimator(MLPClassifier, n_members=2), {"alpha": [0.0, 0.1, 1.0]}, cv=2)
    wanted = search.fit(X, LABELS).cv_results_["mean_test_score"]
    with joblib.parallel_config("dask"):
        found = search.set_params(n_jobs=-1).fit(X, LABELS).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_cross_validation_and_searches_have_the_same_results(client):
    net = estimator(MLPClassifier)
    wanted = cross_validate(net, X, LABELS, cv=3, return_estimator=True)
    with joblib.parallel_config("dask"):
        found = cross_validate(net, X, LABELS, cv=3, return_estimator=True)
    np.testing.assert_array_equal(found["test_score"], wanted["test_score"])
    for one, other in zip(found["estimator"], wanted["estimator"], strict=True):
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_large_rows_and_models_are_sent_without_a_warning(client):
    """Dask warns of graphs beyond 10 MB."""
    rows = np.zeros((30_000, 100), "f4")
    wide = nn.Sequential(nn.Linear(100, 30_000), nn.Linear(30_000, 1))
    models = [Model(wide, optimizer=SGD(0.1), random_state=i) for i in range(2)]
    with warnings.catch_warnings(record=True) as found, joblib.parallel_config("dask"):
        warnings.simplefilter("always")
        fit_many(models, rows, rows[:, 0], rows=[np.arange(8)] * 2, epochs=1)
    assert not found
    assert all(model.progress.step == 1 for model in models)


# -- what goes wrong ----------------------------------------------------------------------------------


class Fails(Callback):
    def on_epoch_end(self, fit):
        if fit.model.alpha == 2:
            raise RuntimeError("as told")


def locked():
    lock = threading.Lock()

    class Locked(Callback):
        def on_epoch_end(self, fit):
            lock.acquire()

    return Locked()


class Pickled(Callback):
    """Cannot be pickled any more once its fit has begun."""

    def on_epoch_end(self, fit):
        fit.model.module.lock = threading.Lock()


def hooked():
    found = network(nn.ReLU())
    found[1].register_forward_hook(lambda module, args, output: output * 2)
    return found


def plain():
    return network(nn.ReLU())


REFUSED = {
    "an error": (plain, Fails(), RuntimeError, "as told"),
    "hooks": (hooked, Callback(), ValueError, "fit 0 of 4 cannot run in another process: ReLU has hooks"),
    "a lock": (
        plain,
        locked(),
        TypeError,
        r"fit 0 of 4 cannot run in another process.*cannot be pickled \(.*lock.*joblib.parallel_config",
    ),
    "a lock of the result": (
        plain,
        Pickled(),
        TypeError,
        r"the result of fit \d of 4 cannot .* cannot be pickled \(.*lock",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_say_which_fit_and_change_no_model(client, name):
    make, callback, kind, message = REFUSED[name]
    models = [Model(make(), "log_loss", alpha=i, random_state=i) for i in range(4)]
    before = [model.weights().flat.tobytes() for model in models]
    with joblib.parallel_config("dask"), pytest.raises(kind, match=message) as error:
        fit_many(models, X, LABELS, callbacks=[callback])
    if kind is RuntimeError:
        assert error.value.__notes__ == ["in fit 2 of 4, counted from 0"]
    assert [model.weights().flat.tobytes() for model in models] == before
    assert all(model.progress.step == 0 for model in models)
