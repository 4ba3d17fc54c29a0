"""The network of a member: vectors of levels are factors of the first weights."""

import pickle

import numpy as np
import pandas as pd
import pytest

from sknet.core import Tensor, no_grad
from sknet.preprocessing import TableEncoder
from sknet.tabular import TabularClassifier, TabularRegressor
from sknet.tabular._training import TabularNet
from tests.devices.fake import FakeBackend

WIDTH = 12
SPANS = {
    "in front": ((0, 3),),
    "behind": ((8, 12),),
    "in the middle": ((4, 7),),
    "side by side": ((2, 5), (5, 9)),
    "all": ((0, 5), (5, 12)),
    "apart": ((0, 3), (4, 8), (9, 12)),
}


def rows_of(spans, n=40):
    """Return rows with at most one 1 among the columns of each category, as for levels that are unseen."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, WIDTH))
    for start, stop in spans:
        chosen = rng.integers(-1, stop - start, n)
        x[:, start:stop] = np.arange(stop - start) == chosen[:, np.newaxis]
    return x


def network_of(spans):
    """Return a network with parameters drawn at random, in float64."""
    network = TabularNet(WIDTH, 2, (7, 5), 0.0, spans=spans).initialize(0).to("float64")
    rng = np.random.default_rng(1)
    for parameter in network.parameters():
        parameter.data = rng.normal(size=parameter.shape)
    return network


@pytest.mark.parametrize("name", SPANS)
def test_vectors_in_front_are_factors_of_the_weights(name):
    x, network = Tensor(rows_of(SPANS[name])), network_of(SPANS[name])
    in_training, gradients = network.train()(x), {}
    (in_training**2).sum().backward()
    for path, parameter in network.named_parameters():
        gradients[path], parameter.grad = parameter.grad.numpy(), None
    in_front = network.eval()(x)
    np.testing.assert_allclose(in_training.numpy(), in_front.numpy(), rtol=1e-10)
    (in_front**2).sum().backward()
    for path, parameter in network.named_parameters():
        np.testing.assert_allclose(gradients[path], parameter.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", SPANS)
def test_without_vectors_predictions_are_the_same(name):
    x, network = Tensor(rows_of(SPANS[name])), network_of(SPANS[name]).eval()
    before = {path: parameter.numpy().copy() for path, parameter in network.named_parameters()}
    plain = network.without_vectors().eval()
    assert plain.vectors is None
    assert plain.body[0].in_features == WIDTH
    with no_grad():
        np.testing.assert_allclose(plain(x).numpy(), network(x).numpy(), rtol=1e-10)
    assert plain.without_vectors() is plain
    for path, parameter in network.named_parameters():  # which is unchanged
        np.testing.assert_array_equal(parameter.numpy(), before[path])


def test_categories_with_an_output_for_each_level():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "four": pd.Categorical(rng.choice(list("abcd"), 200)),
            "number": rng.normal(size=200),
            "two": pd.Categorical(rng.choice(list("xy"), 200)),
            "many": pd.Categorical(rng.integers(0, 60, 200)),
            "one": pd.Categorical(["same"] * 200),
            "three": pd.Categorical(rng.choice(["u", "v", None], 200)),
        }
    )
    plan = TableEncoder(random_state=0).fit(frame, frame["number"]).plan
    names = [plan.names[start:stop] for start, stop in plan.one_hot]
    assert names == [["four_a", "four_b", "four_c", "four_d"], ["three_u", "three_v", "three_missing"]]


@pytest.mark.slow
def test_on_a_device():
    """Vectors are folded on the host."""
    X = np.c_[np.arange(60.0) % 5, np.arange(60.0)]
    params = {"n_folds": 1, "budget": 0.1, "categorical_features": [0], "random_state": 0, "n_jobs": 1}
    on_host, on_device = (
        TabularRegressor(**params, device=device).fit(X, X[:, 0]) for device in ("cpu", FakeBackend.kind)
    )
    np.testing.assert_allclose(on_device.predict(X), on_host.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TabularClassifier, TabularRegressor])
def test_ensembles_with_embeddings(kind):
    """Other predictions than without, which survive pickling, and levels that the fit has not seen."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"level": pd.Categorical(rng.choice(list("abcde"), 300)), "x": rng.normal(size=300)})
    y = X["level"].cat.codes.to_numpy() % 2 + X["x"]
    y = y > 0.5 if kind is TabularClassifier else y
    found = {}
    for chosen in (False, True):
        model = kind(n_folds=2, budget=0.5, random_state=0, n_jobs=1)
        model.set_params(smooth__embeddings=chosen, sharp__embeddings=chosen).fit(X, y)
        found[chosen] = model.predict_proba(X) if kind is TabularClassifier else model.predict(X)
        assert model.score(X, y) > 0.9
    assert np.abs(found[True] - found[False]).max() > 1e-4
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.freeze().predict(X), model.predict(X))
    unseen = pd.DataFrame({"level": ["f", None, "a"], "x": [0.0, np.nan, 1.0]})
    assert np.isfinite(np.asarray(model.predict(unseen), float)).all()


RNG = np.random.default_rng(0)
FEW = {
    "binary": RNG.integers(0, 2, (300, 1)),
    "beside a constant": np.c_[RNG.integers(0, 2, 300), np.ones(300)],
    "three": RNG.integers(0, 3, (300, 1)),
}


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "squared_error", "log_loss"])
@pytest.mark.parametrize(
    ("columns", "exposed"),
    [("binary", False), ("binary", True), ("beside a constant", False), ("three", False)],
)
def test_columns_of_few_values_do_not_diverge(columns, exposed, loss):
    """Dropout made outputs of hundreds of first weights that were divided by tiny deviations."""
    X = FEW[columns].astype(float)
    rate, exposure = np.exp(0.2 + 0.6 * X[:, 0]), np.where(np.arange(300) % 2, 1.0, 2.0)
    rng, means = np.random.default_rng(1), rate * exposure if exposed else rate
    y = rng.gamma(5.0, means / 5.0) if loss == "gamma" else rng.poisson(means)
    y = y > 3 if loss == "log_loss" else y
    kind = TabularClassifier if loss == "log_loss" else TabularRegressor
    offset = {"offset": np.log(exposure)} if exposed else {}
    for seed in range(3):
        found = kind(loss=loss, n_folds=1, random_state=seed).fit(X, y, **offset)
        predicted = (found.predict_proba if loss == "log_loss" else found.predict)(X, **offset)
        assert np.isfinite(predicted).all()
