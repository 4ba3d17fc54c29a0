"""NetTransformer and Autoencoder: codes, reconstructions, and the components that a linear one must find."""

import pickle

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sknet import Autoencoder, NetTransformer, nn
from sknet.device import Device, to_device, to_host
from sknet.exceptions import ShapeError
from tests.devices.fake import FakeArray
from tests.estimators.checks import run_check
from tests.estimators.data import TABLES, quiet, same_state

DIGITS = load_digits().data / 16
X, Y = TABLES["multiclass"]
X = StandardScaler().fit_transform(X)


class Coder(nn.Module):
    def __init__(self, n_features, n_outputs, n_code=3):
        self.encoder = nn.Sequential(nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, n_code))
        self.decoder = nn.Sequential(nn.Linear(n_code, 8), nn.Tanh(), nn.Linear(8, n_outputs))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class NoDecoder(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.hidden = nn.Linear(n_features, 4)
        self.last = nn.Linear(4, n_outputs)

    def forward(self, x):
        return self.last(self.hidden(x).tanh())


KINDS = {
    "Autoencoder": lambda **params: Autoencoder((8, 3), **params),
    "tied and denoising": lambda **params: Autoencoder(
        (8, 3), tied=True, noise=0.2, activation="tanh", **params
    ),
    "NetTransformer": lambda **params: NetTransformer(nn.ModuleFactory(Coder, n_code=3), **params),
    "ready": lambda **params: NetTransformer(Coder(12, 12), **params),
}


def fresh(kind, **params):
    defaults = {"max_iter": 3, "batch_size": 64, "random_state": 0, "scale_inputs": False}
    return KINDS[kind](**defaults | params)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def error(coder, rows):
    return ((coder.inverse_transform(coder.transform(rows)) - rows) ** 2).mean()


# -- what it learns -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
def test_a_linear_one_finds_the_space_of_the_principal_components(tied):
    """The best linear reconstruction is known (Baldi & Hornik, 1989), whatever the codes are."""
    pca = PCA(4).fit(DIGITS)
    coder = Autoencoder(
        (4,),
        activation="identity",
        tied=tied,
        optimizer="lbfgs",
        max_iter=3000,
        tol=1e-7,
        scale_inputs=False,
        dtype="float64",
        random_state=0,
    )
    with quiet():
        coder.fit(DIGITS)
    best = ((pca.inverse_transform(pca.transform(DIGITS)) - DIGITS) ** 2).mean()
    assert best <= error(coder, DIGITS) * (1 + 1e-12)
    np.testing.assert_allclose(error(coder, DIGITS), best, rtol=1e-3)
    rebuilt = coder.inverse_transform(coder.transform(DIGITS)) - DIGITS.mean(axis=0)
    outside = rebuilt - rebuilt @ pca.components_.T @ pca.components_
    assert np.abs(outside).max() < 0.05 * np.abs(rebuilt).max()


@pytest.mark.slow
def test_one_with_hidden_layers_reconstructs_better_than_the_principal_components():
    pca = PCA(8).fit(DIGITS[:1200])
    params = {"scale_inputs": False, "batch_size": 64, "tol": 1e-5, "max_iter": 100, "random_state": 0}
    with quiet():
        coder = Autoencoder((64, 8), **params).fit(DIGITS[:1200])
    for rows in (DIGITS[:1200], DIGITS[1200:]):
        assert error(coder, rows) < ((pca.inverse_transform(pca.transform(rows)) - rows) ** 2).mean()


def test_noise_is_drawn_in_training_only():
    with quiet():
        coder, plain = (fresh("Autoencoder", noise=noise, max_iter=100).fit(X) for noise in (0.5, 0.0))
    np.testing.assert_array_equal(coder.transform(X), coder.transform(X))
    assert error(coder, X) > error(plain, X)
    damaged = X * (np.random.default_rng(0).random(X.shape) > 0.5)
    rebuilt = [c.inverse_transform(c.transform(damaged)) for c in (coder, plain)]
    assert ((rebuilt[0] - X) ** 2).mean() < ((rebuilt[1] - X) ** 2).mean()


def test_tied_weights_are_the_same_ones():
    with quiet():
        coder = fresh("tied and denoising").fit(X)
    parameters = coder.model_.parameters
    assert sorted(parameters) == [
        *("decoder.0.bias", "decoder.2.bias", "encoder.0.bias", "encoder.0.weight"),
        *("encoder.2.bias", "encoder.2.weight"),
    ]
    down, up = (parameters[f"encoder.{i}.weight"] for i in (0, 2))
    codes = np.tanh(X @ down + parameters["encoder.0.bias"]) @ up + parameters["encoder.2.bias"]
    np.testing.assert_allclose(coder.transform(X), codes, rtol=1e-9)
    back = np.tanh(codes @ up.T + parameters["decoder.0.bias"]) @ down.T + parameters["decoder.2.bias"]
    np.testing.assert_allclose(coder.inverse_transform(codes), back, rtol=1e-9)


# -- its methods ----------------------------------------------------------------------------------------


def test_codes_and_the_way_back_are_the_networks(kind):
    with quiet():
        coder = fresh(kind).fit(X)
        twin = clone(coder)
        codes = twin.fit_transform(X, Y)
    whole = coder.model_(X, training=False).numpy()
    np.testing.assert_array_equal(codes, coder.transform(X))
    for n_rows in (1, 5, len(X)):
        rebuilt = coder.inverse_transform(coder.transform(X[:n_rows]))
        np.testing.assert_allclose(rebuilt, whole[:n_rows], rtol=1e-9, atol=1e-12)
    assert list(coder.get_feature_names_out()) == [f"{type(coder).__name__.lower()}{i}" for i in range(3)]
    np.testing.assert_allclose(coder.score(X), -((whole - X) ** 2).mean() / 2, rtol=1e-9)
    for other in (coder.layer(), coder.freeze(), pickle.loads(pickle.dumps(coder)), clone(coder.layer())):
        np.testing.assert_allclose(other.transform(X), codes, rtol=1e-9)
    hidden = coder.transform(X, layer="encoder.0")
    assert hidden.shape == (len(X), 8)
    np.testing.assert_array_equal(
        coder.freeze().transform(X, "encoder.0"), coder.layer("encoder.0").transform(X)
    )


def test_sequences(kind):
    coder = fresh(kind, warm_start=True)
    with quiet():
        for i in range(3):
            coder.partial_fit(X[: 100 + i])
            whole = coder.model_(X, training=False).numpy()
            np.testing.assert_allclose(
                coder.inverse_transform(coder.transform(X)), whole, rtol=1e-9, atol=1e-12
            )
        state = coder.model_.state
        with pytest.raises(ValueError, match="X has 5 features"):
            coder.partial_fit(X[:, :5])
        same_state(coder.model_.state, state)
        coder.fit(X)
        assert coder.score(X) > fresh(kind).partial_fit(X).score(X)
    other = clone(coder)
    for method in (other.transform, other.inverse_transform, other.score):
        with pytest.raises(NotFittedError):
            method(X)


def test_in_pipelines_and_searches(kind):
    model = make_pipeline(StandardScaler(), fresh(kind, max_iter=20), LogisticRegression())
    with quiet():
        model.fit(X, Y)
        assert model.score(X, Y) > 0.4
        name = model.steps[1][0]
        rates = {f"{name}__alpha": [0.0, 10.0]}
        found = GridSearchCV(make_pipeline(fresh(kind, max_iter=20)), rates, cv=2).fit(X)
    scores = found.cv_results_["mean_test_score"]
    assert scores[0] > scores[1]
    frame = pandas.DataFrame(X, columns=[f"x{i}" for i in range(12)])
    with quiet():
        codes = model[:2].set_output(transform="pandas").fit_transform(frame, Y)
    assert list(codes.columns) == [f"{name}{i}" for i in range(3)]


def test_validation_and_early_stopping(kind):
    with quiet():
        held_out = fresh(kind, early_stopping=True, max_iter=5).fit(X)
        given = fresh(kind, early_stopping=True, max_iter=5).fit(X[:150], X_val=X[150:])
    assert held_out.monitor_ == given.monitor_ == "validation_loss"
    np.testing.assert_allclose(
        given.history_["validation_loss"][given.best_epoch_ - 1], -given.score(X[150:]), rtol=1e-6
    )


def test_weights():
    weight = np.repeat([1.0, 0.0], [100, 130])
    with quiet():
        weighted = fresh("Autoencoder", batch_size=230, shuffle=False, alpha=0.0).fit(X, sample_weight=weight)
        alone = fresh("Autoencoder", batch_size=100, shuffle=False, alpha=0.0).fit(X[:100])
    np.testing.assert_allclose(weighted.transform(X), alone.transform(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(weighted.score(X, sample_weight=weight), weighted.score(X[:100]), rtol=1e-9)


def test_sparse_inputs(kind):
    data = scipy.sparse.random_array((120, 12), density=0.4, format="csr", rng=0)
    if kind == "tied and denoising":
        with pytest.raises(ValueError, match="noise needs dense X, got a sparse matrix"):
            fresh(kind).fit(data)
        return
    with quiet():
        sparse, dense = fresh(kind).fit(data), fresh(kind).fit(data.toarray())
    np.testing.assert_allclose(sparse.transform(data), dense.transform(data.toarray()), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(sparse.score(data), dense.score(data.toarray()), rtol=1e-6)


def test_a_single_feature():
    with quiet():
        coder = Autoencoder((2, 1), max_iter=3, random_state=0).fit(X[:, :1])
    assert coder.inverse_transform(coder.transform(X[:, :1])).shape == (230, 1)


def test_other_targets_and_codes():
    targets = np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
    with quiet():
        learned = NetTransformer(NoDecoder, target="y", max_iter=5, random_state=0).fit(X, targets)
        first = NetTransformer(NoDecoder, code="last", max_iter=2, random_state=0).fit(X, Y)
    np.testing.assert_allclose(
        learned.score(X, targets), -((learned.model_(X, training=False).numpy() - targets) ** 2).mean() / 2
    )
    hidden = X @ learned.model_.parameters["hidden.weight"] + learned.model_.parameters["hidden.bias"]
    np.testing.assert_allclose(learned.transform(X), hidden, rtol=1e-9)  # -2, for there is no encoder
    assert first.transform(X).shape == (230, 12)
    with pytest.raises(ValueError, match=r"NetTransformer\(target='y'\) requires y to be passed"):
        learned.fit(X)


@pytest.mark.parametrize("name", ["input_gradient", "integrated_gradients"])
def test_attributions_of_codes(name, kind):
    with quiet():
        coder = fresh(kind, activation="tanh").fit(X) if kind == "Autoencoder" else fresh(kind).fit(X)
    rows = X[:20]
    for number in range(3):
        found = getattr(coder, name)(rows, target=number)
        if name == "integrated_gradients":
            change = coder.transform(rows)[:, number] - coder.transform(0 * rows)[:, number]
            np.testing.assert_allclose(found.sum(axis=1), change, rtol=1e-6, atol=1e-8)
        else:
            step = 1e-6 * np.eye(12)
            ends = [coder.transform(rows + s) - coder.transform(rows - s) for s in step]
            expected = np.stack(ends, axis=1)[:, :, number] / 2e-6
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    with pytest.raises(ValueError, match="has 3 outputs: say which one is meant"):
        getattr(coder, name)(rows)


@pytest.mark.slow
def test_on_a_device(kind, fake_device):
    place = Device.parse("fake:1")
    with quiet():
        there, here = (
            fresh(kind, dtype="float64").fit(to_device(X, place)),
            fresh(kind, dtype="float64").fit(X),
        )
    codes = there.transform(to_device(X, place))
    rebuilt = there.inverse_transform(codes)
    assert isinstance(codes, FakeArray)
    assert isinstance(rebuilt, FakeArray)
    np.testing.assert_allclose(to_host(codes), here.transform(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        to_host(rebuilt), here.inverse_transform(here.transform(X)), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(there.score(to_device(X, place)), here.score(X), rtol=1e-6)


# -- bad use --------------------------------------------------------------------------------------------


def test_a_network_without_a_decoder():
    with quiet():
        coder = NetTransformer(NoDecoder, max_iter=2).fit(X)
    assert not hasattr(coder, "inverse_transform")
    with pytest.raises(AttributeError) as error:
        NetTransformer(NoDecoder(12, 12)).inverse_transform(X)
    assert "no inverse_transform: NoDecoder has no module called 'decoder'" in str(error.value.__cause__)
    assert hasattr(NetTransformer(Coder), "inverse_transform")


def test_codes_of_another_width(kind):
    with quiet():
        coder = fresh(kind).fit(X)
    with pytest.raises(ValueError, match=r"codes as transform returns them, of shape \(n_samples, 3\), got"):
        coder.inverse_transform(X)
    with pytest.raises(ValueError, match="contains NaN"):
        coder.inverse_transform(np.full((2, 3), np.nan))


BAD = [
    ({"hidden_layer_sizes": ()}, "hidden_layer_sizes must have at least one size, that of the code"),
    ({"hidden_layer_sizes": (4, 0)}, "hidden_layer_sizes must be > 0"),
    ({"noise": 1.0}, "'noise' parameter of Autoencoder must be"),
    ({"activation": "rellu"}, "activation"),
    ({"tied": 3}, "'tied' parameter of Autoencoder must be"),
]


@pytest.mark.parametrize(("params", "message"), BAD)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        Autoencoder(**params).fit(X)
    with pytest.raises(ValueError, match="'target' parameter of NetTransformer must be"):
        NetTransformer(Coder, target="Z").fit(X)


# -- scikit-learn's own checks --------------------------------------------------------------------------


class LazyCoder(nn.Module):
    """A user's network that learns the number of features from the data."""

    def __init__(self, n_outputs, n_code=2):
        self.encoder = nn.Sequential(nn.LazyLinear(16), nn.Tanh(), nn.LazyLinear(n_code))
        self.decoder = nn.Sequential(nn.LazyLinear(16), nn.Tanh(), nn.LazyLinear(n_outputs))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class BackAgain(nn.Module):
    """A module for any number of features, whose decoder shares the encoder's weights."""

    def __init__(self):
        self.encoder = nn.LazyLinear(4)

    def forward(self, x):
        return self.encoder(x).tanh() @ self.encoder.weight.T


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
@parametrize_with_checks([NetTransformer(LazyCoder), NetTransformer(BackAgain())])
def test_check(estimator, check):
    run_check(estimator, check)


@pytest.mark.parametrize("activation", [np.size, nn.GLU()], ids=["a number", "half of the columns"])
def test_an_activation_of_another_width(activation):
    with pytest.raises(ShapeError, match=r"activation .* must"):
        Autoencoder((4, 2), activation=activation).fit(np.eye(6))
